"""Real servers and real runs of rlock: front ends on one Redis, a proxy that loses what passes,
runs whose processes are found by a mark in their environment."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
LONG_S = 20 * PATIENCE
MARK = "RLOCK_TEST_MARK"


def wait_for(condition, what, seconds=LONG_S):
    """The condition's value as soon as it is true."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.1f} s: {what}")
        time.sleep(0.01)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Front:
    """One rlockd."""

    def __init__(self, world, *arguments):
        self.world, self.port = world, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.arguments = arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.world.rlockd, "--listen", f"127.0.0.1:{self.port}", "--redis",
             f"unix://{self.world.socket}", *self.arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, "a front end is ready")

    def ask(self, method, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={
                name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def lock(self, name):
        return self.ask("GET", f"/v1/locks/{name}")[1]

    def is_free(self, name):
        return self.lock(name).get("locked") is False

    def holds(self, name):
        return self.lock(name).get("locked") is True

    def has_waiter(self, name):
        return self.lock(name).get("waiter_count", 0) > 0

    def stop(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(LONG_S)


class Proxy:
    """TCP to a front end. `mode`: pass, black (nothing passes any more), deaf (the answers to
    `method` are swallowed, the connection is cut)."""

    def __init__(self, front):
        self.front, self.mode, self.method, self.lost = front, "pass", b"", 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.front.port))
            asked = [b""]
            threading.Thread(target=self.back, args=(server, client, asked),
                             daemon=True).start()
            while data := client.recv(65536):
                asked[0] = data
                if self.mode != "black":
                    server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def back(self, server, client, asked):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.mode == "deaf" and asked[0].startswith(self.method) and self.lost > 0:
                    self.lost -= 1
                    break
                if self.mode != "black":
                    client.sendall(data)
        with contextlib.suppress(OSError):
            if self.mode != "black":
                client.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


class Run:
    """One rlock, with everything that it starts."""

    def __init__(self, world, url, arguments, stdin=subprocess.DEVNULL, **variables):
        self.mark = uuid.uuid4().hex
        self.temporary = Path(tempfile.mkdtemp(dir=world.folder))
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("RLOCK_") and name != "NOTIFY_SOCKET"}
        environment |= {MARK: self.mark, "RLOCK_URL": url, "TMPDIR": str(self.temporary),
                        **variables}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [world.rlock, *arguments], stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment, cwd=self.temporary,
            start_new_session=True)
        self.pid = self.process.pid
        world.runs.append(self)

    def processes(self):
        """All living processes of the run, as (pid, name): rlock, its guard, the tree."""
        found = []
        mark = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                        name = (entry / "comm").read_text().strip()
                        if state not in "ZX":
                            found.append((int(entry.name), name))
        return found

    def tree(self):
        """What COMMAND has started, and COMMAND."""
        return [pid for pid, name in self.processes() if not name.startswith("rlock")]

    def guard(self):
        found = [pid for pid, name in self.processes() if name == "rlock-guard"]
        return found[0] if found else None

    def wait_tree(self, count):
        wait_for(lambda: len(self.tree()) >= count, f"{count} processes run")

    def status(self, seconds=LONG_S):
        try:
            self.out, self.err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"rlock has not ended within {seconds} s") from None
        return self.process.returncode

    def signal(self, number):
        self.process.send_signal(number)

    def clean(self):
        for pid, _ in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class World:
    """A Redis, front ends, runs; all end with the world."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rlock-test-")
        self.rlockd = os.environ.get("RLOCKD_BIN", os.path.abspath("build/rlockd"))
        self.rlock = os.environ.get("RLOCK_BIN", str(Path(self.rlockd).parent / "rlock"))
        self.socket = f"{self.folder}/redis.sock"
        self.runs, self.fronts, self.proxies = [], [], []
        self.redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--dir", self.folder], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        wait_for(lambda: os.path.exists(self.socket), "Redis listens")

    def front(self, *arguments):
        self.fronts.append(Front(self, *arguments))
        return self.fronts[-1]

    def proxy(self, front):
        self.proxies.append(Proxy(front))
        return self.proxies[-1]

    def run(self, url, *arguments, **variables):
        return Run(self, url, ["run", *arguments], **variables)

    def rlock_does(self, url, *arguments, **variables):
        return Run(self, url, list(arguments), **variables)

    def empty_redis(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.socket)
            connection.sendall(b"FLUSHALL\r\n")
            connection.recv(64)

    def close(self):
        for run in self.runs:
            run.clean()
        for proxy in self.proxies:
            proxy.close()
        for front in self.fronts:
            front.stop()
        self.redis.kill()
        self.redis.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def name():
    return "lock-" + uuid.uuid4().hex[:12]
