"""The servers of a bench: rlockd as it is measured, and what it is measured against."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import servers
from servers import Http, Program, free_port

HERE = Path(__file__).parent


class Redis(servers.Redis):
    """One that says what was done in it."""

    @property
    def pids(self):
        return [self.pid]

    def calls(self):
        """How often each command ran, whether a client sent it or a script called it."""
        stats = self.command("INFO", "commandstats").decode()
        return {name: int(count) for name, count
                in re.findall(r"cmdstat_([^:]+):calls=(\d+)", stats)}

    def script_us(self):
        """How often scripts ran, and the microseconds that they took."""
        stats = self.command("INFO", "commandstats").decode()
        found = re.findall(r"cmdstat_(?:evalsha|eval|fcall)(?:_ro)?:calls=(\d+),usec=(\d+)",
                           stats)
        return sum(int(calls) for calls, _ in found), sum(int(usec) for _, usec in found)

    def script_calls_since(self, before):
        """redis.call()s since `before` was taken."""
        own = re.compile(r"(evalsha|eval|info|flushall|ping|config|client|script|select)\b")
        return sum(count - before.get(name, 0) for name, count in self.calls().items()
                   if not own.match(name))


class Server(Program):
    """A peer that answers HTTP. `dialect` and `arguments` are for the load."""

    def __init__(self, command, log, port, dialect, arguments=(), **options):
        super().__init__(command, log, **options)
        self.port, self.dialect, self.arguments = port, dialect, list(arguments)


class Front(servers.Front):
    dialect = "rlockd"

    @property
    def arguments(self):
        return ["--tls"] if self.tls else []


class Place(servers.Place):
    def __init__(self, build):
        super().__init__("bench", Path(build) / "rlockd")
        self.build = Path(build).resolve()

    def redis(self, *flags, **options):
        return self.add(Redis(self, *flags, **options))

    def rlockd(self, redis, *flags, program="rlockd", **options):
        return self.add(Front(self, redis, "--log-level", "warn", "--max-wait-ms", "3600000",
                              "--max-connections", "100000", *flags,
                              program=self.build / program, **options))

    def rlockd_tls(self, redis):
        return self.rlockd(redis, *self.tls_flags(), tls=True)

    def log(self, name):
        return self.folder / f"{name}-{self.number()}.log"

    def bare(self):
        server = self.add(Server([self.build / "tests/bench/bare"], self.log("bare"), 0, "bare",
                                 stdout=subprocess.PIPE))
        server.port = int(server.process.stdout.readline())
        return server

    def webdis(self, redis):
        if not shutil.which("webdis"):
            return None
        port, config = free_port(), self.folder / "webdis.json"
        config.write_text(json.dumps({
            "redis_host": redis.path, "redis_port": 0, "http_host": "127.0.0.1",
            "http_port": port, "threads": 2, "daemonize": False, "verbosity": 0,
            "logfile": str(self.folder / "webdis.log")}))
        shas = {step: redis.command("SCRIPT", "LOAD", (HERE / f"webdis_{step}.lua").read_text())
                for step in ("acquire", "release")}
        return self.add(Server(["webdis", config], self.log("webdis"), port, "webdis",
                               ["--acquire-sha", shas["acquire"].decode(),
                                "--release-sha", shas["release"].decode()],
                               answers=lambda: Http(port).ask("GET", "/PING")[0] == 200))

    def etcd(self):
        if not shutil.which("etcd"):
            return None
        clients, peers = free_port(), free_port()
        here, there = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
        server = self.add(Server(
            ["etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", here,
             "--advertise-client-urls", here, "--listen-peer-urls", there,
             "--initial-advertise-peer-urls", there, "--initial-cluster", f"default={there}",
             "--log-level", "error", "--logger", "zap"], self.log("etcd"), clients, "etcd",
            answers=lambda: Http(clients).ask("GET", "/health")[0] == 200))
        lease = Http(clients).ask("POST", "/v3/lease/grant", body={"TTL": 3600})[1]["ID"]
        server.arguments = ["--lease", lease]
        return server
