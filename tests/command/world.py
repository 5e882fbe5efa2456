"""Real servers and real runs of rlock: front ends on one Redis, a proxy that loses what passes,
runs whose processes are found by a mark in their environment."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import servers  # noqa: E402
from servers import PATIENCE, wait_for  # noqa: E402

LONG_S = servers.WAIT_S
MARK = "RLOCK_TEST_MARK"


class Front(servers.Front):
    """One rlockd, and questions about locks."""

    def ask(self, method, target, headers=(), body=None, **named):
        """`Lease_Token=…` is a header. Status 0: there was no answer."""
        named = {name.replace("_", "-"): value for name, value in named.items()}
        try:
            return super().ask(method, target, {**dict(headers), **named}, body)
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}

    def lock(self, name):
        return self.ask("GET", f"/v1/locks/{name}")[1]

    def is_free(self, name):
        return self.lock(name).get("locked") is False

    def holds(self, name):
        return self.lock(name).get("locked") is True

    def has_waiter(self, name):
        return self.lock(name).get("waiter_count", 0) > 0


class Proxy:
    """TCP to a front end. `mode`: pass, black (nothing passes any more), mute (answers are
    swallowed)."""

    def __init__(self, front):
        self.front, self.mode, self.muted = front, "pass", 0
        self.heads = []  # of all requests
        self.instead = []  # (how requests begin, the answer that the next of them gets here)
        self.lost, self.method = 0, b""
        self.holds, self.held, self.going = None, threading.Event(), threading.Event()
        self.over = threading.Event()  # an answer was passed on, or a client has gone
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def sent(self, header):
        """The values of this header in all requests."""
        found = (head.split(f"\r\n{header}: ") for head in list(self.heads))
        return {parts[1].split("\r\n")[0] for parts in found if len(parts) > 1}

    def lose(self, count, method=b""):
        """The next answers to this method are swallowed, and their connections cut."""
        self.lost, self.method = count, method

    def hold(self, method, part):
        """The next request of this method, or its answer (`part`), waits for go()."""
        self.going.clear()
        self.holds = (method, part)

    def wait_held(self):
        assert self.held.wait(LONG_S), f"no {self.holds}"

    def go(self):
        self.going.set()

    def answer(self, data, client):
        """True: the server does not see this request."""
        for one in self.instead:
            if data.startswith(one[0]):
                self.instead.remove(one)
                client.sendall(one[1])
                return True
        return False

    def pass_on(self, asked, part):
        if self.holds == (asked.split()[0] if asked else b"", part):
            self.holds = None
            self.held.set()
            self.going.wait(2 * LONG_S)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.front.port))
        except OSError:
            return client.close()
        with contextlib.suppress(OSError):
            asked = [b""]
            threading.Thread(target=self.back, args=(server, client, asked),
                             daemon=True).start()
            while data := client.recv(65536):
                asked[0] = data
                self.heads.append(data.split(b"\r\n\r\n")[0].decode())
                self.pass_on(data, "request")
                if self.mode != "black" and not self.answer(data, client):
                    server.sendall(data)
        self.over.set()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def back(self, server, client, asked):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self.pass_on(asked[0], "answer")
                if asked[0].startswith(self.method) and self.lost > 0:
                    self.lost -= 1
                    break
                self.muted += self.mode == "mute"
                if self.mode not in ("black", "mute"):
                    client.sendall(data)
                    self.over.set()
        with contextlib.suppress(OSError):
            if self.mode != "black":
                client.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.going.set()
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
        wait_for(lambda: len(self.tree()) >= count or self.process.poll() is not None,
                 f"{count} processes run")
        if self.process.poll() is not None:
            raise AssertionError(f"rlock has ended: {self.status()}, {self.err!r}")

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
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


class World:
    """A Redis, front ends, runs; all end with the world."""

    def __init__(self):
        self.place = servers.Place("rlock")
        self.folder, self.rlockd = str(self.place.folder), self.place.binary
        self.rlock = os.environ.get("RLOCK_BIN", str(Path(self.rlockd).parent / "rlock"))
        self.runs, self.fronts, self.proxies = [], [], []
        self.redis = self.place.redis()

    def front(self, *arguments, **options):
        self.fronts.append(self.place.add(Front(self.place, self.redis, *arguments, **options)))
        return self.fronts[-1]

    def proxy(self, front):
        self.proxies.append(Proxy(front))
        return self.proxies[-1]

    def run(self, url, *arguments, **variables):
        return Run(self, url, ["run", *arguments], **variables)

    def rlock_does(self, url, *arguments, **variables):
        return Run(self, url, list(arguments), **variables)

    def preloaded(self, *names):
        """LD_PRELOAD with these libraries; None: the sanitizer of rlock allows no other."""
        linked = subprocess.run(["ldd", self.rlock], check=False, capture_output=True).stdout
        folder = Path(self.rlockd).resolve().parent / "tests/command"
        return None if b"libasan" in linked else " ".join(f"{folder}/{one}.so" for one in names)

    def empty_redis(self):
        self.redis.command("FLUSHALL")

    def close(self):
        for run in self.runs:
            run.clean()
        for proxy in self.proxies:
            proxy.close()
        self.place.end()


@contextlib.contextmanager
def ended(world):
    try:
        yield world
    finally:
        world.close()


def name():
    return "lock-" + uuid.uuid4().hex[:12]
