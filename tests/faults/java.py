"""Redisson's client in a JVM of its own, on the locks and permits of the other clients."""
import asyncio
import contextlib
import json
import sys
from pathlib import Path

import clients

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "bench"))
import redisson  # noqa: E402  pylint: disable=wrong-import-position

THREADS, STOP_S = 4, 20
LEAST_GRANTS = 30  # a minute


class RedissonClients:
    """Threads of one JVM; each of their calls is a line of the history."""

    def __init__(self, build, folder, minutes):
        self.path, why_not = redisson.build(build)
        if not self.path:
            raise RuntimeError(f"Redisson: {why_not}")
        self.folder, self.least = folder, int(LEAST_GRANTS * minutes)
        self.process, self.world, self.grants = None, None, 0

    async def start(self, world, redis):
        """Returns when the clients are connected."""
        self.world = world
        with open(self.folder / "redisson.log", "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                "java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp",
                self.path, str(HERE / "RedissonClients.java"), str(redis.port), str(THREADS),
                world.seed, *clients.PERMITS, *clients.PLAIN,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log)
        if await self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"Redisson: see {self.folder}/redisson.log")

    async def run(self):
        reads = asyncio.ensure_future(self.read())
        stops = asyncio.ensure_future(self.world.stop.wait())
        await asyncio.wait({reads, stops}, return_when=asyncio.FIRST_COMPLETED)
        if not self.world.stop.is_set():
            raise RuntimeError("Redisson's JVM ended before the run")
        self.process.stdin.close()
        await asyncio.wait_for(reads, STOP_S)
        self.end()
        if self.grants < self.least:
            raise RuntimeError(f"Redisson: only {self.grants} grants, of {self.least}")
        print(f"faults: Redisson's clients were granted {self.grants} leases", flush=True)

    async def read(self):
        async for line in self.process.stdout:
            fields = json.loads(line)
            self.grants += fields["op"] == "acquire" and fields["outcome"] == "ok"
            self.world.history.write("op", **fields)
            self.world.history.requests += 1

    def end(self):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
