"""What a run may have instead of one Redis: a master with a replica, which swap their parts in
a failover, as a Redis Cluster or behind a Sentinel; quorum.py has independent servers."""
import asyncio
import contextlib

from history import now
from processes import Redis, Topology, wait_for
from proxy import Proxy
from quorum import Quorum, QuorumOfFive
from servers import RedisError, free_port

# Longer than any fault: nobody but the nemesis begins a failover.
CALM_MS = 600000
# A master votes for a replica once in twice this time.
NODE_TIMEOUT_MS = 1500


class Announced(Redis):
    """A Redis that other servers announce, by the address of a proxy that all front ends share:
    what they are told leads them through it again. A replica reaches its master by it, too."""

    def __init__(self, folder):
        super().__init__(folder)
        self.proxy = Proxy(self.port)

    async def start(self):
        if self.proxy.port is None:
            self.folder.mkdir()
            await self.proxy.start()
        await super().start()

    def flags(self):
        return ["--repl-diskless-sync-delay", "0"]

    async def is_master(self):
        return (await self.info("replication"))["role"] == "master"

    async def has_all_until(self, offset):
        """Whether this replica has got so many bytes of its master."""
        info = await self.info("replication")
        return info.get("master_link_status") == "up" and \
            int(info["slave_repl_offset"]) >= offset


class Pair(Topology):
    """A master and its replica. What a run asks of one Redis, the master answers."""
    replicas = 1

    def __init__(self, folder, kind):
        self.folder = folder
        self.master, self.replica = kind(folder / "redis-a"), kind(folder / "redis-b")
        self.fronts = []

    def __getattr__(self, name):
        return getattr(self.master, name)

    async def start(self):
        """Both servers, and later on the master that was killed."""
        if self.replica.process is None:
            await self.master.start()
            await self.replica.start()
            await self.join()
            await self.settle()
        else:
            await self.master.start()
        await wait_for(self.serves, "the master serves")

    async def give_way_to(self, front):
        self.fronts.append(front)
        front.redis_proxy, front.redis_url = self.master.proxy, self.url()
        front.redis_proxies = [self.master.proxy, self.replica.proxy]

    async def scripts_run(self):
        return await self.master.scripts_run() + await self.replica.scripts_run()

    async def settle(self):
        """The replica has all that the master has had until now."""
        offset = int((await self.master.info("replication"))["master_repl_offset"])
        await wait_for(lambda: self.replica.has_all_until(offset), "the replica follows")

    def swap(self):
        self.master, self.replica = self.replica, self.master
        for front in self.fronts:
            front.redis_proxy = self.master.proxy

    async def lose_master(self, lag_s, away_s):
        """Kills the master after its replica has heard nothing for `lag_s`, and has the replica
        promoted `away_s` later; the killed server comes back as a replica. Returns until when
        what was done may be undone."""
        if lag_s > 0:
            await self.master.command("ACL", "SETUSER", "default", "-psync", "-sync",
                                      "-replconf")
            await self.master.command("CLIENT", "KILL", "TYPE", "replica")
            await asyncio.sleep(lag_s)
        self.master.kill()
        undone_until = now()
        await asyncio.sleep(away_s)
        await self.promote()
        self.swap()
        await self.replica.start()
        await self.settle()
        return undone_until

    def end(self):
        self.master.end()
        self.replica.end()


class ClusterNode(Announced):
    def __init__(self, folder):
        super().__init__(folder)
        self.bus = free_port()

    def flags(self):
        return [*super().flags(), "--cluster-enabled", "yes", "--cluster-port", str(self.bus),
                "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
                "--cluster-announce-ip", "127.0.0.1",
                "--cluster-announce-port", str(self.proxy.port)]


class Cluster(Pair):
    """A Redis Cluster of a master with all slots and its replica. The master has the only vote,
    so a replica of a dead master takes over without one."""

    def __init__(self, folder):
        super().__init__(folder, ClusterNode)

    def url(self):
        nodes = [self.master, self.replica]
        return "redis-cluster://" + ",".join(f"127.0.0.1:{node.proxy.port}" for node in nodes)

    async def join(self):
        master, replica = self.master, self.replica
        await master.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await replica.command("CLUSTER", "MEET", "127.0.0.1", master.proxy.port, master.bus)
        name = (await master.command("CLUSTER", "MYID")).decode()

        async def follows():
            return await replica.command("CLUSTER", "REPLICATE", name) == b"OK"
        await wait_for(follows, "the replica knows its master")

    async def serves(self):
        return b"cluster_state:ok" in await self.master.command("CLUSTER", "INFO")

    async def promote(self):
        await self.replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
        await wait_for(self.replica.is_master, "the replica is promoted")

    async def fail_over(self):
        """The master waits until its replica has everything: nothing is undone, None."""
        asked = 0

        async def is_promoted():
            nonlocal asked
            if now() - asked > 5.5 * 10**9:  # Redis gives up after 5 s, as when nobody voted
                asked = now()
                await self.replica.command("CLUSTER", "FAILOVER")
            return await self.replica.is_master()
        await wait_for(is_promoted, "the replica is promoted by hand")
        self.swap()
        await self.settle()


class SentinelServer(Announced):
    def __init__(self, folder):
        super().__init__(folder)
        self.master = None  # None: this server is the master

    def flags(self):
        follows = []
        if self.master is not None:
            follows = ["--replicaof", "127.0.0.1", str(self.master.proxy.port)]
        return [*super().flags(), "--replica-announce-ip", "127.0.0.1",
                "--replica-announce-port", str(self.proxy.port), *follows]


class Sentinel(Pair):
    """A master and a replica with one Sentinel, whose vote is enough."""

    def __init__(self, folder):
        super().__init__(folder, SentinelServer)
        self.replica.master = self.master
        self.watch = Redis(folder)  # for its commands: it is no server of data

    def url(self):
        return f"redis-sentinel://127.0.0.1:{self.watch.port}/mymaster"

    def swap(self):
        super().swap()
        self.master.master, self.replica.master = None, self.master

    async def join(self):
        await self.settle()
        config = self.folder / "sentinel.conf"
        config.write_text(f"port {self.watch.port}\nbind 127.0.0.1\ndir {self.folder}\n"
                          f"sentinel monitor mymaster 127.0.0.1 {self.master.proxy.port} 1\n"
                          f"sentinel down-after-milliseconds mymaster {CALM_MS}\n"
                          "sentinel failover-timeout mymaster 2000\n")
        self.watch.argv = ["redis-server", str(config), "--sentinel"]
        self.watch.launch()

        async def knows_replica():
            return await self.watch.command("SENTINEL", "REPLICAS", "mymaster") != []
        await wait_for(knows_replica, "the Sentinel knows the replica")

    async def serves(self):
        return await self.master.is_up()

    async def names_replica(self):
        address = await self.watch.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
        return int(address[1]) == self.replica.proxy.port and await self.replica.is_master()

    async def promote(self):
        """The Sentinel notices by itself that the master is dead."""
        await self.watch.command("SENTINEL", "SET", "mymaster", "down-after-milliseconds", 500)
        await wait_for(self.names_replica, "the Sentinel promotes the replica")
        await self.watch.command("SENTINEL", "SET", "mymaster", "down-after-milliseconds",
                                 CALM_MS)

    async def fail_over(self):
        """The master goes on for a moment after the replica is promoted: what it did then is
        undone."""
        async def is_begun():
            with contextlib.suppress(asyncio.TimeoutError):
                return await self.watch.command("SENTINEL", "FAILOVER", "mymaster") == b"OK"
            return False
        await wait_for(is_begun, "the Sentinel begins a failover")
        await wait_for(self.names_replica, "the Sentinel replaces the master")
        await self.master.command("REPLICAOF", "127.0.0.1", self.replica.proxy.port)
        undone_until = now()
        self.swap()
        await self.settle()
        return undone_until

    def end(self):
        super().end()
        self.watch.end()


# Classes with the functions of Redis.
TOPOLOGIES = {"single": Redis, "cluster": Cluster, "sentinel": Sentinel, "quorum": Quorum,
              "quorum-5": QuorumOfFive}
