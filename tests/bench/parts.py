"""The parts of the bench: which rows each adds. run.py runs them, in rounds."""
import os
import time

import base
import bystander
import contention
import growth
import measure
import redisson
import scripts
import topologies

SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))
BASE = os.environ.get("BENCH_BASE", "")  # a commit
CONNECTIONS = (16, 64, 256)
ETCD_GOES_ON_S = 1  # with its log, after its row: the next row is another server's
HANDOFFS = ((1, False), (100, False), (900, False), (100, True))  # a lock has 1,000 at most
WAITERS = (10000, 50000)
PARK_ROUNDS = 3  # alone, beside waiters, alone, beside, … in each round of the whole
WORKERS = (1, 2, 4)
BUSY_POLLS_US = (0, 50)
POLLED_CONNECTIONS = (1, 16, 64)
LIMIT_PERCENT = 10  # of a core for a worker: then the cores suffice for all of them
THREADS_MAX = 64  # of Redisson's client: its default pool has as many connections
WATCHED = (10000, 100000)


class Bench:
    """What the parts share. Servers that only some parts need are started by the first."""

    def __init__(self, place, results):
        self.place, self.results = place, results
        self.redis = place.redis()
        self._peers, self._redissons = None, None

    def peers(self):
        """The servers of the uncontended rows; rlockd is started anew for each round."""
        if self._peers is None:
            self._peers = [self.place.bare()]
            for name, start in (("webdis", lambda: self.place.webdis(self.redis)),
                                ("etcd", self.place.etcd)):
                server = start()
                if server is None:
                    self.results.leave_out(name, "not installed")
                else:
                    self._peers.append(server)
        return self._peers

    def redissons(self):
        """Two JVMs on one Redis; none: Redisson cannot be built here."""
        if self._redissons is None:
            class_path, why = redisson.build(self.place.build)
            if why:
                self.results.leave_out("Redisson", why)
            redis = self.place.redis()
            self._redissons = [redisson.Redisson(self.place, redis, class_path)
                               for _ in range(2)] if class_path else []
        return self._redissons


def uncontended(bench):
    place, redis, results = bench.place, bench.redis, bench.results
    server = place.rlockd(redis)
    for connections in CONNECTIONS:
        for each in [server, *bench.peers()]:
            if each.dialect == "etcd" and connections == 256:
                continue  # past its best, and it takes the machine with it
            results.add(f"{each.dialect} {connections}",
                        measure.cycles(place, each, redis, connections, SECONDS))
            if each.dialect == "etcd":
                time.sleep(ETCD_GOES_ON_S)
    server.stop()


def beside_redisson(bench):
    """The same against Redisson, which has no unix sockets: both reach Redis over TCP."""
    place = bench.place
    if not bench.redissons():
        return
    java = bench.redissons()[0]
    server = place.rlockd(java.redis, tcp=True)
    for count in CONNECTIONS:
        if count > THREADS_MAX:
            continue
        bench.results.add(f"tcp-rlockd {count}",
                          measure.cycles(place, server, java.redis, count, SECONDS))
        bench.results.add(f"redisson {count}", contention.uncontended(java, count, SECONDS))
    server.stop()


def contended(bench):
    clients = bench.redissons()
    contention.run_contended(bench.place, clients[0].redis if clients else bench.redis, clients,
                             bench.results, SECONDS)


def mixed(bench):
    for java in bench.redissons()[:1]:
        contention.run_mixed(bench.place, java, bench.results, SECONDS)


def logged(bench):
    """What the log line of a request costs."""
    for name, level in (("logged", "info"), ("unlogged", "warn")):
        server = bench.place.rlockd(bench.redis, "--log-level", level)
        bench.results.add(name, measure.cycles(bench.place, server, bench.redis, 64, SECONDS))
        server.stop()
        server.log.unlink()  # a line a request


def tls(bench):
    """What TLS costs on connections that stay."""
    for name, start in (("plain", bench.place.rlockd), ("tls", bench.place.rlockd_tls)):
        server = start(bench.redis)
        for connections in (16, 64):
            bench.results.add(f"{name} {connections}",
                              measure.cycles(bench.place, server, bench.redis, connections,
                                             SECONDS))
        server.stop()


def polling(bench):
    """What busy polling gives, and what it costs."""
    place, redis, results = bench.place, bench.redis, bench.results
    for us in BUSY_POLLS_US:
        flags = ("--busy-poll-us", str(us))
        server = place.rlockd(redis, *flags)
        for count in POLLED_CONNECTIONS:
            figures = measure.cycles(place, server, redis, count, SECONDS)
            results.add(f"polling {us}, {count} connections",
                        {"per_s": figures["cycles_per_s"], "p50_us": figures["p50_us"],
                         "p99_us": figures["p99_us"], "cpu_us": 2 * figures["cpu_us"],
                         "redis_cpu_us": 2 * figures["redis_cpu_us"]})
        server.stop()
        for count in contention.CONTENDERS:
            figures = contention.over_http(place, redis, "plain", count, SECONDS, flags=flags)
            results.add(f"polling {us}, {count} contenders",
                        {"per_s": figures["turns_per_s"], "p50_us": figures["p50_us"],
                         "p99_us": figures["p99_us"], "cpu_us": figures["client_cpu_us"],
                         "redis_cpu_us": figures["redis_cpu_us"]})


def limited(bench):
    """Workers that have their part of a core each."""
    for workers in WORKERS:
        try:
            figures = measure.limited_cycles(bench.place, bench.redis, workers, LIMIT_PERCENT,
                                             SECONDS)
        except OSError as error:
            bench.results.leave_out("workers with a quota", f"no cgroup is permitted: {error}")
            return
        bench.results.add(f"limited {workers}", figures)
    for kind, contenders in contention.LIMITED:
        for workers in WORKERS:
            row = contention.with_workers(bench.place, bench.redis, kind, contenders, workers,
                                          LIMIT_PERCENT)
            bench.results.add(f"limited-contended {kind} {contenders} {workers}", row)


def masters(bench):
    """Masters of a cluster that have their part of a core each."""
    topologies.run_masters(bench.place, bench.results, SECONDS)


def replicas(bench):
    """What --sync-replicas 1 costs."""
    topologies.run_replicas(bench.place, bench.results, SECONDS)


def quorum(bench):
    """Masters of which a majority decides, against a single Redis."""
    topologies.run_quorum(bench.place, bench.results, SECONDS)


def script_costs(bench):
    for kind, figures in scripts.measure(bench.place).items():
        bench.results.add(f"script {kind}", figures)


def waiting(bench):
    place, redis, results = bench.place, bench.redis, bench.results
    for waiters, second in HANDOFFS:
        if waiters + 200 > measure.descriptors():
            results.leave_out(f"hand-off, {waiters} waiters", "the descriptor limit is low")
            continue
        row = f"handoff {waiters}" + (" second" if second else "")
        results.add(row, measure.handoff(place, redis, waiters, SECONDS, second))


def parked(bench):
    results = bench.results
    possible = measure.waiters_max()
    for waiters in WAITERS:
        if waiters > possible:
            results.leave_out(f"{waiters} parked waiters",
                              "each needs a descriptor, and the limit of open files here is "
                              f"{measure.descriptors()}: {possible} instead")
        row = f"parked {min(waiters, possible)}"
        if waiters == WAITERS[0] or row not in results.rounds:
            results.add(row, measure.park(bench.place, bench.redis, min(waiters, possible),
                                          SECONDS, PARK_ROUNDS))


def workers(bench):
    place, redis, results = bench.place, bench.redis, bench.results
    for count in WORKERS:
        server = place.rlockd(redis, "--workers", str(count))
        results.add(f"workers {count}",
                    measure.cycles(place, server, redis, 64, SECONDS))
        server.stop()


def beside_many(bench):
    growth.run(bench.place, bench.redis, bench.results)


def far_away(bench):
    """A Redis that is not on this machine."""
    class_path, why = redisson.build(bench.place.build)
    if why:
        bench.results.leave_out("Redisson", why)
    topologies.run_far(bench.place, class_path, bench.results, SECONDS)


def beside_base(bench):
    """An earlier version of rlockd, in turns with this one."""
    place, redis, results = bench.place, bench.redis, bench.results
    if BASE:
        earlier = base.build(place.build, BASE)
        for name, program in ((f"base {BASE}", earlier), ("base now", place.build / "rlockd")):
            server = place.rlockd(redis, program=program, tcp=True)
            results.add(name, measure.cycles(place, server, redis, 64, SECONDS))
            server.stop()


def system_calls(bench):
    place, redis, results = bench.place, bench.redis, bench.results
    server = place.rlockd(redis)
    by_perf = measure.has_perf()
    for connections in CONNECTIONS:
        figures = {"strace": measure.system_calls(place, server, connections)}
        if figures["strace"] is None:
            results.leave_out("system calls", "no permission to trace")
            break
        if by_perf:
            figures["perf"] = measure.system_calls_by_perf(place, server, connections)
        results.add(f"system calls {connections}", figures)
    server.stop()


def watchdog(bench):
    for locks in WATCHED:
        bench.results.add(f"watchdog {locks}",
                          measure.watchdog(bench.place, bench.redis, locks))


def beside_the_dearest(bench):
    bystander.run(bench.place, bench.results)


# In every round, in this order, and once after the rounds.
ROUND_PARTS = {"uncontended": uncontended, "redisson": beside_redisson, "contended": contended,
               "mixed": mixed, "waiting": waiting, "parked": parked, "workers": workers,
               "base": beside_base,
               "limited": limited, "masters": masters, "replicas": replicas,
               "quorum": quorum,
               "logged": logged, "tls": tls, "polling": polling,
               "bystander": beside_the_dearest}
LAST_PARTS = {"distance": far_away, "scripts": script_costs, "calls": system_calls,
              "watchdog": watchdog, "growth": beside_many}
