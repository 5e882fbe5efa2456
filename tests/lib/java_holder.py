"""A lock that a Java client holds while the block runs."""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import redisson  # noqa: E402  pylint: disable=wrong-import-position

# A thread of a JVM, as Redisson writes it.
HOLDER, LEASE_MS = "285475da-9152-4c83-822a-67ee2f116a79:52", 600000


class JavaHolder:
    """Redisson in a JVM. Where Maven gets no Redisson, the lock is written as Redisson writes
    it, and a line says so."""

    def __init__(self, place, redis, lock):
        self.redis, self.lock, self.java = redis, lock, None
        build = HERE.parents[1] / "build"
        class_path, why_not = redisson.build(build)
        if not class_path:
            print(f"note: {lock} is written by hand, without Redisson: {why_not}", flush=True)
            return
        self.java = place.start(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m",
             "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path,
             str(HERE / "JavaHolder.java"), str(redis.port), lock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        if self.java is None:
            self.redis.command("HSET", self.lock, HOLDER, "1")
            self.redis.command("PEXPIRE", self.lock, LEASE_MS)
        elif (line := self.java.process.stdout.readline()) != "held\n":
            raise RuntimeError(f"Redisson holds no lock: {line!r}, see {self.java.log}")
        return self

    def __exit__(self, *_error):
        if self.java is None:
            self.redis.command("DEL", self.lock)
        else:
            self.java.process.stdin.close()
            self.java.process.wait(60)
