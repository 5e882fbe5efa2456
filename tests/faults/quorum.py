"""A run's quorum: independent servers, of which a minority may fail at a time, or a majority
where the fault is meant to take the service away."""
import asyncio
import contextlib

from history import now
from leaks import metric
from processes import Redis, Topology, wait_for
from proxy import Proxy
from servers import RedisError

# At least the retry window.
QUARANTINE_MS = 12500

# A server that tells nothing for so long stands still, or is not there.
TELL_S = 0.5


class Ways:
    """The ways of one front end to the servers that a fault is of: several proxies as one."""

    def __init__(self, proxies):
        self.proxies = proxies

    @property
    def touched(self):
        return sum(proxy.touched for proxy in self.proxies)

    def set(self, mode, **how):
        for proxy in self.proxies:
            proxy.set(mode, **how)

    def heal(self):
        return sum(proxy.heal() for proxy in self.proxies)

    def reset_all(self):
        return sum(proxy.reset_all() for proxy in self.proxies)


class Quorum(Topology):
    """What a fault does to Redis, it does to the victims; what it asks, the first one answers.
    A server that fails stays the victim until all front ends count its votes again, and so for
    its quarantine if it was restarted."""
    quorum, start_s = 3, 2 * QUARANTINE_MS / 1000
    refuses = ("fair", "permit", "owner")
    front_flags = ("--quarantine-ms", str(QUARANTINE_MS))

    def __init__(self, folder):
        self.servers = [Redis(folder / f"redis-{i}") for i in range(self.quorum)]
        for server in self.servers:
            server.folder.mkdir()
        self.victims, self.fronts = self.servers, []
        self.ran = {server: (0, 0) for server in self.servers}

    def __getattr__(self, name):
        return getattr(self.victims[0], name)

    @property
    def asked(self):
        """A server without a fault, if there is one."""
        return next((server for server in self.servers if server not in self.victims),
                    self.servers[0])

    async def start(self):
        """All servers, and later on the victims that were killed. Without a majority that votes
        the service is away until the quarantine of the victims is over."""
        await asyncio.gather(*(server.start() for server in self.victims))
        if self.fronts and len(self.victims) > self.minority():
            await self.wait_for_votes()

    async def give_way_to(self, front):
        front.redis_proxies = [Proxy(server.port) for server in self.servers]
        for proxy in front.redis_proxies:
            await proxy.start()
        front.redis_url = "redis-quorum://" + ",".join(
            f"127.0.0.1:{proxy.port}" for proxy in front.redis_proxies)
        front.redis_proxy = Ways(front.redis_proxies)
        self.fronts.append(front)

    # ---- who fails

    def minority(self):
        return (self.quorum - 1) // 2

    async def all_vote(self):
        """Whether each worker of each front end counts the votes of each server."""
        with contextlib.suppress(OSError, RuntimeError, asyncio.TimeoutError):
            return all([await metric(front, 'quorum_members{state="up"}') ==
                        self.quorum * front.workers for front in self.fronts])
        return False

    async def wait_for_votes(self):
        deadline = now() + QUARANTINE_MS * 10**6
        while now() < deadline and not await self.all_vote():
            await asyncio.sleep(0.2)
        await wait_for(self.all_vote, "all servers vote")

    async def pick(self, random, is_beyond):
        """Chooses the victims of the next faults: one server, and where several may fail those
        that are still away stay victims beside it; or, beyond what a quorum stands, a majority
        or more."""
        if await self.all_vote():
            self.victims = []
        others = [server for server in self.servers if server not in self.victims]
        if is_beyond:
            count = random.randint(self.minority() + 1, self.quorum)
            self.victims = random.sample(self.servers, count)
        elif len(self.victims) < self.minority():
            self.victims = [random.choice(others), *self.victims]
        for front in self.fronts:
            front.redis_proxy = Ways([
                proxy for server, proxy in zip(self.servers, front.redis_proxies)
                if server in self.victims])

    # ---- what befalls the victims, all of them

    def kill(self):
        for server in self.victims:
            server.kill()

    def send(self, number):
        for server in self.victims:
            server.send(number)

    async def keep_data(self, keeps):
        for server in self.victims:
            await server.keep_data(keeps)

    # ---- what the servers ran

    async def count_scripts(self, server):
        """In all of the run, as far as the server has told: a restart begins a new count, and
        a server that does not answer in time has run nothing since it did."""
        before, told = self.ran[server]
        with contextlib.suppress(OSError, RedisError, asyncio.TimeoutError,
                                 asyncio.IncompleteReadError):
            count = await asyncio.wait_for(server.scripts_run(), TELL_S)
            self.ran[server] = before + count - (told if count >= told else 0), count
        return self.ran[server][0]

    async def scripts_of_each(self):
        return await asyncio.gather(*(self.count_scripts(server) for server in self.servers))

    async def scripts_without(self):
        """Scripts of the servers that are no victims: what is decided without those."""
        return sum([await server.scripts_run() for server in self.servers
                    if server not in self.victims])

    def end(self):
        for server in self.servers:
            server.end()


class QuorumOfFive(Quorum):
    quorum = 5
