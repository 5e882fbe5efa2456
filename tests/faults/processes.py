"""The processes of a run: a private redis-server (pairs.py and quorum.py have several) and
front ends, all on loopback and on free ports. Nothing here touches a service that was there
before."""
import asyncio
import contextlib
import os
import shutil
import signal

from history import PATIENCE
from proxy import Gate, Proxy
from servers import Program, RedisError, as_resp, free_port

START_TIMEOUT_S = 15 * PATIENCE
BUSY_S = 30 * PATIENCE  # longer than any script of a fault runs


async def wait_for(condition, what):
    """Until the condition holds; a server that does not answer does not meet it."""
    deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(OSError, RedisError, asyncio.IncompleteReadError):
            if await condition():
                return
        await asyncio.sleep(0.02)
    raise RuntimeError(f"{what}: not within {START_TIMEOUT_S} s")


async def read_reply(reader):
    line = (await reader.readuntil(b"\r\n"))[:-2]
    kind, rest = line[:1], line[1:]
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else (await reader.readexactly(int(rest) + 2))[:-2]
    if kind == b"*":
        return [await read_reply(reader) for _ in range(int(rest))]
    return rest


class Topology:
    """What holds of most Redis servers of a run. `refuses`: kinds of locks."""
    replicas = quorum = start_s = 0
    front_flags = refuses = ()

    @classmethod
    def offers(cls, kind):
        return kind not in cls.refuses

    async def pick(self, _random, _is_beyond):
        """Chooses the server that the next faults are of: here there is one."""

    async def wait_for_votes(self):
        """Returns when no server has to be waited for any more."""

    async def scripts_of_each(self):
        """Scripts that each server has run; servers of which one is asked at a time count as
        one."""
        return [await self.scripts_run()]

    async def scripts_without(self):
        """Scripts that were run by servers that no fault is of."""
        return 0


class Redis(Program, Topology):
    """One redis-server with an append-only file that is synced before each answer, so that a
    kill loses nothing that was acknowledged; with `keep_data(False)` a kill loses all of it."""

    def __init__(self, folder):
        super().__init__([], folder / "redis.log")
        self.folder, self.port, self.keeps_data = folder, free_port(), True

    @property
    def servers(self):
        """Those that have keys."""
        return [self]

    @property
    def asked(self):
        """The server that clients ask past the front ends."""
        return self

    async def start(self):
        if not self.keeps_data:
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        self.argv = [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
            "--save", "", "--dir", str(self.folder), "--appendfsync", "always",
            "--appendonly", "yes" if self.keeps_data else "no",
            "--enable-debug-command", "local", "--loglevel", "warning", *self.flags()]
        self.launch()
        await wait_for(self.is_up, "redis-server starts")

    def flags(self):
        return []

    async def is_up(self):
        return await self.command("PING") == b"PONG"

    async def command(self, *words, timeout=10):
        """One command; again, where a fault of the run cut off the connection, or keeps the
        server busy with a script."""
        for _ in range(5):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
                return await self._when_free(words, timeout)
        return await self._when_free(words, timeout)

    async def _when_free(self, words, timeout):
        until = asyncio.get_running_loop().time() + BUSY_S
        while True:
            try:
                return await self._command(words, timeout)
            except RedisError as error:
                if not str(error).startswith("BUSY ") or \
                        asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(0.1)

    async def _command(self, words, timeout):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(as_resp(*words))
            return await asyncio.wait_for(read_reply(reader), timeout)
        finally:
            writer.close()

    async def info(self, section):
        text = (await self.command("INFO", section)).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    async def errors(self, word):
        """How many error replies began with `word` so far."""
        value = (await self.info("errorstats")).get(f"errorstat_{word}", "count=0")
        return int(value.split("=")[1])

    async def scripts_run(self):
        stats = await self.info("commandstats")
        return sum(int(stats[f"cmdstat_{name}"].split(",")[0].split("=")[1])
                   for name in ("evalsha", "eval") if f"cmdstat_{name}" in stats)

    async def keep_data(self, keeps):
        """From the next kill on."""
        await self.command("CONFIG", "SET", "appendonly", "yes" if keeps else "no")
        self.keeps_data = keeps

    async def give_way_to(self, front):
        """The front end reaches this Redis, through a proxy of its own."""
        front.redis_proxy = Proxy(self.port)
        front.redis_proxies = [front.redis_proxy]
        await front.redis_proxy.start()
        front.redis_url = f"redis://127.0.0.1:{front.redis_proxy.port}"


class Front(Program):
    """One rlockd. Clients reach it by `proxy`, it reaches Redis by `redis_proxies`, of which
    faults are of `redis_proxy`."""

    def __init__(self, number, binary, folder, flags, workers):
        super().__init__([], folder / f"front-{number}.log")
        self.number, self.port, self.workers = number, free_port(), workers
        self.start_of_argv = [binary, "--listen", f"127.0.0.1:{self.port}", *flags,
                              "--workers", str(workers)]
        self.proxy = self.redis_proxy = self.redis_url = None
        self.redis_proxies, self.base_descriptors = [], 0

    def launch(self):
        self.argv = [*self.start_of_argv, "--redis", self.redis_url]
        super().launch()

    @contextlib.contextmanager
    def gate(self, *words):
        """A gate on each way to Redis, which is there for a while, and open in the end."""
        gate = Gate(*words)
        for proxy in self.redis_proxies:
            proxy.gates.add(gate)
        try:
            yield gate
        finally:
            for proxy in self.redis_proxies:
                proxy.gates.discard(gate)
            gate.open()

    async def wait_for_exit(self, seconds):
        """Its exit status, or None when it still runs."""
        for _ in range(int(seconds * 50)):
            if not self.is_alive():
                return self.process.returncode
            await asyncio.sleep(0.02)
        return None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
