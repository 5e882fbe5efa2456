"""The clients of the simulation, tests/sim/clients*.c, in a process of their own before the
front ends of the run: live.c, whose input and output this is."""
import asyncio
import contextlib
import json

from servers import RedisError

# From the end of the load on: requests may still wait, and their clients give back.
STOP_S = 30


class LiveClients:
    """Each of their requests is a line of the history."""

    def __init__(self, build, folder):
        self.program, self.log = f"{build}/tests/faults/live", folder / "live.log"
        self.process, self.world = None, None
        self.heard, self.waiting = asyncio.Queue(), 0

    async def start(self, world, _redis):
        self.world, world.live = world, self
        with open(self.log, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                self.program, str(world.seed), "quorum" if world.redis.quorum else "other",
                *(str(front.proxy.port) for front in world.fronts),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log)

    async def run(self):
        reads = asyncio.ensure_future(self.read())
        stops = asyncio.ensure_future(self.world.stop.wait())
        await asyncio.wait({reads, stops}, return_when=asyncio.FIRST_COMPLETED)
        if not self.world.stop.is_set():
            raise RuntimeError(f"the clients ended before the run: {self.log}")
        self.process.stdin.write(b"stop\n")
        await asyncio.wait_for(reads, STOP_S)
        if await self.process.wait() != 0:
            raise RuntimeError(f"the clients failed: {self.log}")

    async def tell(self, line):
        """Returns when the clients know. What a fault changes is told before it begins; once
        the clients stop, no other fault begins."""
        if self.world.stop.is_set():
            return
        self.process.stdin.write(line.encode() + b"\n")
        await self.heard.get()

    async def read(self):
        async for line in self.process.stdout:
            fields = json.loads(line)
            await self.take(fields.pop("type"), fields)

    async def take(self, type_, fields):
        history = self.world.history
        if type_ == "op":
            history.op(**fields)
        elif type_ == "heard":
            self.heard.put_nowait(fields)
        elif type_ == "waiting":
            self.world.waiting += fields["waiting"] - self.waiting
            self.waiting = fields["waiting"]
        elif type_ == "redis":
            await asyncio.gather(*(self.tell_redis(server, fields["words"])
                                   for server in self.world.redis.servers))
        else:
            history.write(type_, **fields)

    @staticmethod
    async def tell_redis(server, words):
        with contextlib.suppress(OSError, RedisError, asyncio.TimeoutError,
                                 asyncio.IncompleteReadError):
            await server.command(*words, timeout=1)

    def end(self):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
