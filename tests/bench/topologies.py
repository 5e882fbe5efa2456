"""Rows in which Redis is not one server beside the others: the masters of a cluster, a replica
that confirms what its primary did, the independent masters of a quorum, and a Redis to which
the network takes half a millisecond, there and back."""
import contextlib
import subprocess

import contention
import measure
import servers
from quota import quota
from redisson import Redisson
from servers import START_S, Program, free_port, wait_for

SLOTS = 16384
MASTERS = (1, 3)
BROADCAST = {"1": "to all nodes", "0": "to the shard"}  # where unlock messages go
MASTER_PERCENT = 10  # of a core for each: the cores suffice for all masters and for rlockd
QUOTA_TIMES = 5  # longer rows: a quota comes in slices, and a window of a second is noise
CONNECTIONS = 64  # for each master: smaller batches of commands cost more
SYNCED = (1, 16, 64)  # connections
QUORUMS = (3, 5)
ROUND_TRIP_US = 500
FAR_CONNECTIONS = (1, 16, 64)


class Cluster:
    """A Redis Cluster of masters without replicas."""

    def __init__(self, place, count):
        self.masters, buses = [], [free_port() for _ in range(count)]
        for number, bus in enumerate(buses):
            master = place.redis("--cluster-enabled", "yes", "--cluster-port", str(bus),
                           "--cluster-config-file", f"nodes-{place.number()}.conf")
            slots = range(SLOTS * number // count, SLOTS * (number + 1) // count)
            master.command("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            master.command("CLUSTER", "ADDSLOTS", *map(str, slots))
            self.masters.append(master)
        for master, bus in zip(self.masters[1:], buses[1:]):
            self.masters[0].command("CLUSTER", "MEET", "127.0.0.1", str(master.port), str(bus))
        wait_for(self._is_complete, "the cluster", START_S)

    def _is_complete(self):
        infos = [master.command("CLUSTER", "INFO").decode() for master in self.masters]
        return all("cluster_state:ok" in info and "cluster_slots_ok:16384" in info and
                   f"cluster_known_nodes:{len(infos)}" in info for info in infos)

    def url(self, tcp):
        """A cluster is reached by TCP only."""
        return f"redis-cluster://127.0.0.1:{self.masters[0].port}"


def cycles_of_masters(place, count, broadcast, seconds):
    """Cycles while each of the masters gets MASTER_PERCENT of a core. A connection has one
    lock, and so one master. OSError: such a limit is not permitted."""
    cluster = Cluster(place, count)
    server = place.rlockd(cluster, "--redis-cluster-broadcast", broadcast)
    try:
        with contextlib.ExitStack() as limits:
            for master in cluster.masters:
                limits.enter_context(quota(master.pid, MASTER_PERCENT))
            figures = measure.load(place, "cycle", server, connections=CONNECTIONS * count,
                                   seconds=seconds,
                                   cpu=[f"server={server.pid}",
                                        *(f"master{number}={master.pid}" for number, master
                                          in enumerate(cluster.masters))])
    finally:
        for program in (server, *cluster.masters):
            program.stop()
    requests, used = figures["requests"], figures["cpu_us"]
    masters_us = sum(used.values()) - used["server"]
    return {"cycles_per_s": figures["cycles_per_s"], "p50_us": figures["acquire_p50_us"],
            "p99_us": figures["acquire_p99_us"], "cpu_us": used["server"] / requests,
            "redis_cpu_us": masters_us / requests,
            "master_percent": masters_us * figures["cycles_per_s"] * 2 / requests / 1e4 / count}


def run_masters(place, results, seconds):
    for broadcast in BROADCAST:
        for count in MASTERS:
            try:
                results.add(f"masters {count} {broadcast}",
                            cycles_of_masters(place, count, broadcast,
                                              QUOTA_TIMES * seconds))
            except OSError as error:
                results.leave_out("masters with a quota", f"no cgroup is permitted: {error}")
                return


def run_replicas(place, results, seconds):
    """The same primary with its replica, whose confirmation is waited for or not."""
    primary = place.redis()
    replica = place.redis("--replicaof", "127.0.0.1", str(primary.port))
    wait_for(lambda: b"master_link_status:up" in replica.command("INFO"),
             "the replica", START_S)
    for replicas in (0, 1):
        server = place.rlockd(primary, "--sync-replicas", str(replicas))
        for connections in SYNCED:
            results.add(f"replicas {replicas} {connections}",
                        measure.cycles(place, server, primary, connections, seconds))
        server.stop()
    for redis in (replica, primary):
        redis.stop()


class Quorum(servers.Quorum):
    """One that is measured as a Redis is."""
    flags = ("--quarantine-ms", "600000")  # as long as the leases of the load

    @property
    def pids(self):
        return [server.pid for server in self.servers]

    def command(self, *words):
        """At each server. FLUSHALL leaves the marker."""
        if words == ("FLUSHALL",):
            self.empty()
        else:
            for server in self.servers:
                server.command(*words)

    def calls(self):
        return [server.calls() for server in self.servers]

    def script_calls_since(self, before):
        return sum(server.script_calls_since(earlier)
                   for server, earlier in zip(self.servers, before))

    def stop(self):
        for server in self.servers:
            server.stop()


def run_quorum(place, results, seconds):
    """Quorums beside a single Redis, all of them reached by TCP."""
    single = place.redis()
    stores = {1: (single, ()), **{count: (Quorum(place, count), Quorum.flags)
                                  for count in QUORUMS}}
    for connections in SYNCED:
        for count, (redis, flags) in stores.items():
            server = place.rlockd(redis, *flags, tcp=True)
            results.add(f"quorum-cycles {count} {connections}",
                        measure.cycles(place, server, redis, connections, seconds))
            server.stop()
    for contenders in contention.CONTENDERS:
        for count, (redis, flags) in stores.items():
            results.add(f"quorum-contended {count} {contenders}",
                        contention.over_http(place, redis, "plain", contenders, seconds,
                                             flags=flags))
    for redis, _ in stores.values():
        redis.stop()


class FarRedis:
    """A Redis, at the port of the relay."""

    def __init__(self, place, redis):
        self.redis = redis
        relay = place.add(Program(
            [place.build / "tests/lib/relay", redis.port, ROUND_TRIP_US // 2],
            place.log("relay"), stdout=subprocess.PIPE))
        self.port = int(relay.process.stdout.readline())

    def __getattr__(self, name):
        return getattr(self.redis, name)

    def url(self, _tcp=True):
        return f"redis://127.0.0.1:{self.port}"


def paced(place, server, redis, dialect, connections, seconds):
    """Requests a second, and how long one takes: the first of the two of a cycle."""
    redis.command("FLUSHALL")
    if dialect == "look":
        measure.load(place, "hold", server, cycles=connections, name="far")
    server.dialect = dialect
    figures = measure.load(place, "cycle", server, connections=connections, seconds=seconds,
                           name="far")
    return {"per_s": 2 * figures["cycles_per_s"], "p50_us": figures["acquire_p50_us"],
            "p99_us": figures["acquire_p99_us"]}


def run_far_uncontended(place, far, results, seconds):
    server = place.rlockd(far, tcp=True)
    for dialect, name in (("rlockd", "acquire or release"), ("look", "look")):
        for connections in FAR_CONNECTIONS:
            results.add(f"far {name}, {connections}",
                        paced(place, server, far, dialect, connections, seconds))
    server.stop()


def run_far(place, class_path, results, seconds):
    """Without a class path without Redisson."""
    far = FarRedis(place, place.redis())
    run_far_uncontended(place, far, results, seconds)
    java = [Redisson(place, far, class_path)] if class_path else []
    for kind in contention.JUDGED:
        for contenders in contention.CONTENDERS:
            row = f"{kind} {contenders}"
            results.add(f"far-contended rlockd {row}",
                        contention.over_http(place, far, kind, contenders, seconds))
            results.add(f"far-contended two-fronts {row}",
                        contention.over_http(place, far, kind, contenders, seconds, True))
            if java:
                results.add(f"far-contended redisson {row}",
                            contention.with_redisson(java, kind, contenders, seconds))
