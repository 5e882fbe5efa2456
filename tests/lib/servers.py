#!/usr/bin/env python3
"""Private servers for tests: Redis, front ends, any other program. They listen on loopback, on
ports of their own, keep everything in one folder, and end with it; no server that was there
before is touched. A test in tests/NAME begins with

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
    from servers import Place, wait_for  # noqa: E402

    with Place("NAME") as place:  # build/rlockd, or $RLOCKD_BIN, or Place("NAME", path)
        redis = place.redis("--maxmemory", "50mb")
        front = place.front(redis)  # both have answered once
        alone = place.front(None, "--workers", "2")  # with an embedded Redis
        safe = place.front(redis, *place.tls_flags(), tls=True)
        status, answer = front.ask("PUT", "/v1/locks/a", {"Lease-Token": token}, {"wait_ms": 9})
        wait_for(lambda: front.ask("GET", "/v1/locks/a")[1]["waiter_count"] == 1, "a waiter")
        assert redis.command("EXISTS", "a") == 1
        front.kill()   # stop() is SIGTERM and returns the exit status
        front.start()  # again, on the same port
        peer = place.start(["etcd", "--data-dir", place.folder / "etcd"],
                           answers=lambda: Http(2379).ask("GET", "/health")[0] == 200)

A block that fails leaves the folder with its logs, and says where it is. E2E_PATIENCE=3: a busy
machine may take three times as long.

servers.py RLOCKD FOLDER [FLAG VALUE]... is for scripts in other languages: a front end with an
embedded Redis; prints its URL, and ends when its standard input does."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
WAIT_S, ANSWER_S, STOP_S = 20 * PATIENCE, 30 * PATIENCE, 30 * PATIENCE
START_S = 60 * PATIENCE  # also below valgrind
# Of the time between two looks at a condition so much counts: a machine that stands still
# meanwhile takes nothing from the deadline.
LOOK_S = 0.25

_reserved = []


def free_port():
    """A port that stays this process' own, also while no server listens on it: a socket keeps
    the port bound, and servers set SO_REUSEADDR."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    return reserved.getsockname()[1]


def wait_for(condition, what, seconds=WAIT_S):
    """The condition's value as soon as it is true; a server that gives no answer, or an answer
    without what the condition reads, does not meet it. TimeoutError: it did not become true."""
    left, last = seconds, time.monotonic()
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, KeyError):
            if value := condition():
                return value
        now = time.monotonic()
        left, last = left - min(now - last, LOOK_S), now
        if left < 0:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.01)


class Http:
    """One keep-alive connection to a port; with `tls`, one that believes any certificate.
    `headers` are those of the last answer."""

    def __init__(self, port, tls=False, timeout=ANSWER_S):
        self.headers = None
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=timeout, context=ssl._create_unverified_context()) \
            if tls else http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, method, target, headers=(), body=None):
        """Status and body. JSON is parsed, and a body that is a dict is sent as JSON."""
        headers = dict(headers or ())
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        self.connection.request(method, target, body, headers)
        answer = self.connection.getresponse()
        self.headers, text = answer.headers, answer.read().decode()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(text) if is_json and text else text

    def metrics(self):
        """The page of /metrics, made after this call: a page is made once a second."""
        asked = time.time()
        while True:
            page = self.ask("GET", "/metrics")[1]
            made = re.search(r"^rlockd_metrics_timestamp_seconds (\S+)", page, re.M)
            if float(made[1]) >= asked - 1e-6:
                return page
            time.sleep(0.05)

    def close(self):
        self.connection.close()


class Program:
    """A program whose output goes to `log`, unless `options`, those of Popen, lead it
    elsewhere. It is ready when `answers()` is true, and can be started again."""

    def __init__(self, command, log, answers=lambda: True, **options):
        self.argv, self.log = [str(word) for word in command], Path(log)
        self.answers, self.options, self.process = answers, options, None

    def launch(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **self.options})

    def start(self):
        """Returns when it is ready. OSError: it has ended."""
        self.launch()
        wait_for(lambda: not self.is_alive() or self.answers(),
                 f"{self.argv[0]} is ready, see {self.log}", START_S)
        if not self.is_alive():
            raise OSError(f"{' '.join(self.argv)} ended with {self.process.returncode}:\n"
                          + self.log.read_text(encoding="utf-8", errors="replace")[-2000:])

    @property
    def pid(self):
        return self.process.pid

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def send(self, number):
        if self.is_alive():
            self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Its exit status; that of SIGKILL, which it gets if it does not end in time."""
        self.send(number)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def kill(self):
        return self.stop(signal.SIGKILL)

    def end(self):
        """With its place, whether it runs or not."""
        if self.is_alive():
            self.kill()


class RedisError(RuntimeError):
    """An error reply; the text is Redis' own."""


def as_resp(*words):
    """A command as Redis reads it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Redis(Program):
    """A redis-server without persistence, at `port` and at the socket `path`."""

    def __init__(self, place, *flags, wrap=()):
        number = place.number()
        self.path, self.port = str(place.folder / f"redis-{number}.sock"), free_port()
        super().__init__(
            [*wrap, "redis-server", "--bind", "127.0.0.1", "--port", self.port, "--unixsocket",
             self.path, "--save", "", "--appendonly", "no", "--dir", place.folder, *flags],
            place.folder / f"redis-{number}.log", self._is_up)
        self._socket = self._input = None
        self._one_asks = threading.Lock()  # tests that run at a time have one connection

    def url(self, tcp=False):
        return f"redis://127.0.0.1:{self.port}" if tcp else f"unix://{self.path}"

    def _is_up(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        self._socket, self._input = connection, connection.makefile("rb")
        return self.command("PING") == b"PONG"

    def command(self, *words):
        """Texts as bytes, numbers as int, arrays as lists; None where there is nothing."""
        with self._one_asks:
            self._socket.sendall(as_resp(*words))
            return self._reply()

    def _reply(self):
        kind, text = (line := self._input.readline().rstrip())[:1], line[1:]
        if kind == b"-":
            raise RedisError(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"*":
            return [self._reply() for _ in range(int(text))]
        if kind == b"$":
            return None if text == b"-1" else self._input.read(int(text) + 2)[:-2]
        if not line:
            raise ConnectionError("Redis has closed the connection")
        return text


class Quorum:
    """Redis servers that know nothing of each other, and vote as if they had run for long."""
    # KEYS marker, ARGV run id. In one step: a front end that found no marker would begin a
    # quarantine.
    EMPTY = """redis.call('flushall')
    redis.call('hset', KEYS[1], 'run_id', ARGV[1], 'since', '1', 'kept', '1', 'at', '1',
               'layout', '1')"""

    def __init__(self, place, count):
        self.servers = [place.redis() for _ in range(count)]
        self.empty()

    def empty(self):
        for server in self.servers:
            run_id = re.search(r"run_id:(\w+)", server.command("INFO", "server").decode())[1]
            server.command("EVAL", self.EMPTY, "1", "rlockd:marker", run_id)

    def url(self, _tcp=True):
        """By TCP only."""
        return "redis-quorum://" + ",".join(f"127.0.0.1:{server.port}"
                                            for server in self.servers)


class Front(Program):
    """An rlockd. Without a Redis it has one of its own, whose files are in memory."""

    def __init__(self, place, redis, *flags, wrap=(), program=None, tcp=False, tls=False,
                 **options):
        """tcp: it reaches Redis by the port. tls: what its flags are for. `program` instead of
        the rlockd of the place; `wrap` before it."""
        self.port, self.tls, self.is_alone = free_port(), tls, redis is None
        name = f"front-{place.number()}"
        store = ["--data-dir", place.data / name] if self.is_alone else \
            ["--redis", redis.url(tcp)]
        super().__init__([*wrap, program or place.binary, "--listen", f"127.0.0.1:{self.port}",
                          *store, *flags],
                         place.folder / f"{name}.log", self._is_ready, **options)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def connect(self, timeout=ANSWER_S):
        return Http(self.port, self.tls, timeout)

    def ask(self, method, target, headers=(), body=None):
        """Http.ask() on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return connection.ask(method, target, headers, body)

    def _is_ready(self):
        return self.ask("GET", "/readyz")[0] == 200

    def log_lines(self, message):
        """The lines of the log with this message, parsed."""
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        parsed = (json.loads(line) for line in lines if line.endswith("\n"))
        return [line for line in parsed if line["msg"] == message]

    def end(self):
        """The embedded Redis ends with a front end that stops."""
        if self.is_alone and self.is_alive():
            self.stop()
        super().end()


def memory():
    """A file system in memory, if it has room: a Redis on a busy disk stands still for seconds.
    Else None."""
    shm = Path("/dev/shm")
    is_roomy = shm.is_dir() and shutil.disk_usage(shm).free > 1 << 30
    return shm if is_roomy and os.access(shm, os.W_OK) else None


class Place:
    """A folder of our own, and the servers in it. A `folder` that is given is emptied first,
    and stays."""

    def __init__(self, name, rlockd=None, folder=None):
        rlockd = rlockd or os.environ.get("RLOCKD_BIN", "build/rlockd")
        self.binary = str(Path(rlockd).resolve())
        self.stays = folder is not None
        if self.stays:
            self.folder = Path(folder).resolve()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix=f"rlockd-{name}-"))
        self.data = Path(tempfile.mkdtemp(prefix=f"rlockd-{name}-", dir=memory()))
        self.programs, self.count = [], 0

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        has_failed = error is not None and getattr(error, "code", 1) not in (None, 0)
        self.end(keeps=has_failed)
        if has_failed:
            print(f"logs: {self.folder}", file=sys.stderr)

    def end(self, keeps=False):
        """Of all that is in it, and of the folder."""
        for program in reversed(self.programs):
            program.end()
        shutil.rmtree(self.data, ignore_errors=True)
        if not keeps and not self.stays:
            shutil.rmtree(self.folder, ignore_errors=True)

    def number(self):
        """For the names of files: another one each time."""
        self.count += 1
        return self.count

    def add(self, program):
        """Starts it."""
        self.programs.append(program)
        program.start()
        return program

    def start(self, command, **options):
        log = self.folder / f"{Path(command[0]).name}-{self.number()}.log"
        return self.add(Program(command, log, **options))

    def redis(self, *flags, **options):
        return self.add(Redis(self, *flags, **options))

    def front(self, redis=None, *flags, **options):
        return self.add(Front(self, redis, *flags, **options))

    def tls_flags(self):
        """With a certificate as authorities give them today, P-256, which vouches for itself:
        cert.pem in the folder."""
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        if not cert.exists():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                            "-keyout", key, "-out", cert], check=True, capture_output=True)
        return ["--tls-cert", cert, "--tls-key", key]


def main():
    rlockd, folder, *flags = sys.argv[1:]
    with Place("shell", rlockd, folder) as place:
        print(place.front(None, *flags, tls="--tls-cert" in flags).url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
