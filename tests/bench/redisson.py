"""Redisson's client in a JVM of its own, as a contender: built with Maven, driven by lines."""
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
VERSION = os.environ.get("REDISSON", "4.7.0").split()[0]
BUILD_TIMEOUT_S = 600
WARM_UP_S = float(os.environ.get("BENCH_JVM_WARMUP", "6"))  # of each kind, once
WARM_UP_THREADS = 16
KINDS = ("own", "plain", "fair", "write", "mix", "permit")


def build(folder):
    """The class path, or None and why there is none."""
    if not shutil.which("mvn") or not shutil.which("java"):
        return None, "no Maven or no Java"
    folder = Path(folder).resolve() / "bench" / f"redisson-{VERSION}"
    done = subprocess.run(
        ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet",
         f"-Dredisson.version={VERSION}", f"-Doutput.dir={folder}", "compile"],
        cwd=HERE / "redisson", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        return None, "Maven: " + (errors[0] if errors else "failed")
    return f"{folder}/classes:{folder}/lib/*", None


class Redisson:
    """The JVM, on a Redis that it reaches over TCP. Warmed up when the constructor returns."""

    def __init__(self, place, redis, class_path):
        self.redis = redis
        self.java = place.start(
            ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path,
             "rlockd.bench.Contend", str(redis.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process, self.pid = self.java.process, self.java.pid
        self.expect("ready")
        for kind in KINDS:
            self.start(kind, f"warm-up-{kind}", WARM_UP_THREADS)
            self.measure()
            time.sleep(WARM_UP_S)
            self.stop()

    def expect(self, wanted=None):
        line = self.process.stdout.readline().strip()
        if not line or (wanted and line != wanted):
            raise RuntimeError(f"Redisson: {line} {self.java.log.read_text()[-2000:]}")
        return line

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self, kind, name, threads):
        """Threads that take turns until stop(); kind: one of KINDS."""
        self.send(f"start {kind} {name} {threads}")
        self.expect("started")

    def measure(self):
        self.send("measure")
        self.expect("measuring")

    def stop(self):
        """The figures since measure()."""
        return stop_all([self])[0]


def stop_all(clients):
    """At one time: none of them takes turns while another one ends."""
    for client in clients:
        client.send("stop")
    return [json.loads(client.expect()) for client in clients]
