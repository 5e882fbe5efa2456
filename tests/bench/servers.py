"""Private servers on free ports or sockets, and what they use. Nothing here touches a service
that was there before: no default port, no system service, loopback only."""
import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

START_TIMEOUT_S = 60
HERE = Path(__file__).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition):
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if condition():
                return
        time.sleep(0.02)
    raise RuntimeError(f"{what} did not come up")


class Http:
    """One keep-alive connection; with TLS, one that believes any certificate."""

    def __init__(self, port, tls=False):
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=30, context=ssl._create_unverified_context()) \
            if tls else http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, method, target, headers=None, body=None):
        """Status and body, parsed where it is JSON."""
        self.connection.request(method, target, body, headers or {})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(text) if is_json else text

    def metrics(self):
        """The page of /metrics, made after this call: a page is made once a second."""
        asked = int(time.time() * 1000) / 1000
        while True:
            page = self.ask("GET", "/metrics")[1]
            made = re.search(r"^rlockd_metrics_timestamp_seconds (\S+)", page, re.M)
            if float(made[1]) >= asked:
                return page
            time.sleep(0.05)


class Redis:
    """A private redis-server without persistence, and the few commands needed here. Redisson
    reaches it by its port."""

    def __init__(self, place, *flags, wrap=()):
        self.path = str(place.folder / f"redis-{place.number()}.sock")
        self.port = free_port()
        self.process = place.start(
            [*wrap, "redis-server", "--bind", "127.0.0.1", "--port", str(self.port),
             "--unixsocket", self.path, "--save", "", "--appendonly", "no", "--dir",
             str(place.folder), *flags])
        self.pid = self.process.pid
        self.socket = None
        wait_for("redis-server", self._connect)

    def _connect(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        self.input = self.socket.makefile("rb")
        return self.command("PING") == b"PONG"

    def url(self, tcp):
        return f"redis://127.0.0.1:{self.port}" if tcp else f"unix://{self.path}"

    def command(self, *words):
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self._reply()

    def _reply(self):
        """Texts as bytes, also numbers; arrays as lists; None where there is nothing."""
        line = self.input.readline().rstrip()
        if line[:1] == b"-":
            raise RuntimeError(line.decode())
        if line[:1] == b"*":
            return [self._reply() for _ in range(int(line[1:]))]
        if line[:1] != b"$":
            return line[1:]
        length = int(line[1:])
        return self.input.read(length + 2)[:-2] if length >= 0 else None

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


class Server:
    """Something that answers HTTP."""

    def __init__(self, process, port, dialect, arguments=()):
        self.process, self.pid, self.port = process, process.pid, port
        self.dialect, self.arguments = dialect, list(arguments)


class Place:
    """A folder of our own, and everything that was started in it; stops it all at the end."""

    def __init__(self, build):
        self.build = Path(build)
        self.folder = Path(tempfile.mkdtemp(prefix="rlockd-bench-"))
        self.processes, self.count = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            self.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def number(self):
        self.count += 1
        return self.count

    def start(self, command, **options):
        log = open(self.folder / f"{Path(command[0]).name}-{self.number()}.log", "wb")
        options.setdefault("stdout", log)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(command, stderr=log, **options)
        process.log = Path(log.name)
        log.close()
        self.processes.append(process)
        return process

    def stop(self, process, number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.processes:
            self.processes.remove(process)

    # ---- who is measured

    def rlockd(self, redis, *flags, wrap=(), tcp=False, tls=False, program="rlockd"):
        """tcp: reaches Redis by its port, as Redisson does. tls: what its flags are for."""
        port = free_port()
        process = self.start(
            [*wrap, str(self.build / program), "--listen", f"127.0.0.1:{port}", "--redis",
             redis.url(tcp), "--log-level", "warn", "--max-wait-ms", "3600000",
             "--max-connections", "100000", *flags])
        wait_for("rlockd", lambda: Http(port, tls).ask("GET", "/readyz")[0] == 200)
        return Server(process, port, "rlockd", ["--tls"] if tls else [])

    def rlockd_tls(self, redis):
        """With a certificate as authorities give them today: P-256."""
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        if not cert.exists():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-keyout", str(key), "-out", str(cert)],
                           check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        return self.rlockd(redis, "--tls-cert", str(cert), "--tls-key", str(key), tls=True)

    def bare(self):
        process = self.start([str(self.build / "tests/bench/bare")], stdout=subprocess.PIPE)
        return Server(process, int(process.stdout.readline()), "bare")

    def webdis(self, redis):
        if not shutil.which("webdis"):
            return None
        port, config = free_port(), self.folder / "webdis.json"
        config.write_text(json.dumps({
            "redis_host": redis.path, "redis_port": 0, "http_host": "127.0.0.1",
            "http_port": port, "threads": 2, "daemonize": False, "verbosity": 0,
            "logfile": str(self.folder / "webdis.log")}))
        process = self.start(["webdis", str(config)])
        wait_for("webdis", lambda: Http(port).ask("GET", "/PING")[0] == 200)
        shas = {step: redis.command("SCRIPT", "LOAD", (HERE / f"webdis_{step}.lua").read_text())
                for step in ("acquire", "release")}
        return Server(process, port, "webdis",
                      ["--acquire-sha", shas["acquire"].decode(),
                       "--release-sha", shas["release"].decode()])

    def etcd(self):
        if not shutil.which("etcd"):
            return None
        clients, peers = free_port(), free_port()
        here, there = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
        process = self.start(
            ["etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", here,
             "--advertise-client-urls", here, "--listen-peer-urls", there,
             "--initial-advertise-peer-urls", there, "--initial-cluster", f"default={there}",
             "--log-level", "error", "--logger", "zap"])
        wait_for("etcd", lambda: Http(clients).ask("GET", "/health")[0] == 200)
        body = json.dumps({"TTL": 3600})
        lease = Http(clients).ask("POST", "/v3/lease/grant", body=body)[1]["ID"]
        return Server(process, clients, "etcd", ["--lease", lease])
