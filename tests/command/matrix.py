"""What may happen to a run, when, and to which tree of processes: after each, no process of the
tree lives past the deadline, the exit status is the table's, the lock is free in its time, and
no temporary file is left."""
import contextlib
import os
import signal
import struct
import threading
import time
import uuid
from pathlib import Path

import holding
from filed import Filed
from world import LONG_S, PATIENCE, name, wait_for

TTL_S = 3
# The guard's KILL is a tenth of a second before the deadline; a busy machine may be late.
LATE_S = 1.5 * PATIENCE

# How many processes the tree has, and how it begins.
SHAPES = {
    "simple": (1, "exec sleep 60"),
    "background": (2, "sleep 60 & sleep 61"),
    "setsid": (2, "setsid sleep 60 & sleep 61"),
    "double-fork": (4, "(setsid sh -c 'sleep 60 & sleep 61' &); sleep 62"),
    "stubborn": (2, "trap '' TERM INT; setsid sleep 60 & while :; do sleep 61; done"),
}

# event -> the longest time from it to the end of the last process of a tree, in s.
longest_s = {}


class Case:
    """One run on its way through an event."""

    def __init__(self, world, shape="simple", ways=None, step="command", options=(),
                 **variables):
        self.world, self.shape, self.step = world, shape, step
        self.front = ways[0] if ways else world.front()
        self.urls = ",".join(way.url for way in ways or [self.front])
        self.name = name()
        self.holder = str(uuid.uuid4())
        if step == "wait":
            self.block()
        count, script = SHAPES[shape]
        self.run = world.run(self.urls, "-t", f"{TTL_S}s", "-k", "500ms", *options, self.name,
                             "sh", "-c", script, **variables)
        if step == "wait":
            wait_for(lambda: world.fronts[0].has_waiter(self.name), "the run waits")
        else:
            self.run.wait_tree(count)

    def block(self):
        status, _ = self.world.fronts[0].ask(
            "PUT", f"/v1/locks/{self.name}?ttl_ms=60000", Lease_Token=self.holder)
        assert status == 201, status

    def unblock(self):
        self.world.fronts[0].ask("DELETE", f"/v1/locks/{self.name}", Lease_Token=self.holder)

    def grace(self):
        """With a stubborn tree: the first signal was sent, and KILL is to come."""
        if self.step == "grace":
            self.run.signal(signal.SIGTERM)

    def contend(self):
        """Another client gets the lock: which processes of the run live then?"""
        seen = []

        def wait():
            token = str(uuid.uuid4())
            for _ in range(10):
                status, _ = self.world.fronts[0].ask(
                    "PUT", f"/v1/locks/{self.name}?wait_ms=5000&ttl_ms=500",
                    Lease_Token=token)
                if status == 201:
                    seen.append(self.run.tree())
                    return

        thread = threading.Thread(target=wait)
        thread.start()
        return thread, seen

    def check_gone(self, since, within_s=TTL_S):
        wait_for(lambda: not self.run.tree(), "the tree has ended",
                 since + within_s + LATE_S - time.monotonic())
        took_s = time.monotonic() - since
        longest_s[self.event] = max(took_s, longest_s.get(self.event, 0))

    event = ""  # its name

    def end(self):
        """Whatever the event, nothing else is left to end."""

    def check_free(self):
        front = self.world.fronts[0]
        wait_for(lambda: front.is_free(self.name), "the lock is free")
        wait_for(lambda: not self.run.processes(), "rlock and its guard have ended")
        left = [file for file in os.listdir(self.run.temporary)]
        assert not left, f"left in the temporary folder: {left}"

    def check_status(self, *wanted):
        got = self.run.status()
        assert got in wanted, f"exit status {got}, not {wanted}: {self.run.err!r}"
        for line in self.run.err.splitlines():
            assert line.startswith("rlock: ") or "leak" in line, line
        assert self.run.out == "", self.run.out


class HoldCase(Case):
    """rlock hold: its tree is the process of --pid, until that process has its signal."""

    def __init__(self, world, way):
        self.world, self.front, self.name = world, way, name()
        self.sleeper = contextlib.ExitStack()
        process = self.sleeper.enter_context(holding.sleeper())
        self.run = world.rlock_does(way.url, "hold", "-t", f"{TTL_S}s", "-k", "500ms",
                                    self.name, "--pid", str(process.pid))
        self.run.tree = lambda: [process.pid] if process.poll() is None else []
        holding.held(self.run, self.name)

    def end(self):
        self.sleeper.close()


def kill_rlock(case):
    thread, seen = case.contend()
    since = time.monotonic()
    case.run.signal(signal.SIGKILL)
    case.check_gone(since)
    thread.join(LONG_S)
    assert seen == [[]], f"processes that outlived their lock: {seen}"
    case.check_status(-signal.SIGKILL)


def kill_guard(case):
    thread, seen = case.contend()
    since = time.monotonic()
    os.kill(case.run.guard(), signal.SIGKILL)
    case.check_gone(since)
    thread.join(LONG_S)
    assert seen == [[]], f"processes that outlived their lock: {seen}"
    case.check_status(70)


def stop_guard_and_lose(case):
    """Two faults: the guard cannot end the tree, so rlock does, before the deadline."""
    guard = case.run.guard()
    os.kill(guard, signal.SIGSTOP)
    force_unlock(case)


def stop_rlock(case):
    thread, seen = case.contend()
    since = time.monotonic()
    case.run.signal(signal.SIGSTOP)
    case.check_gone(since)
    thread.join(LONG_S)
    assert seen == [[]], f"processes that outlived their lock: {seen}"
    case.run.signal(signal.SIGCONT)
    case.check_status(79)


def server_gone(case):
    since = time.monotonic()
    case.front.kill()
    case.check_gone(since)
    case.check_status(79)
    case.front.start()


def force_unlock(case):
    since = time.monotonic()
    status, body = case.front.ask("POST", f"/v1/locks/{case.name}/force-unlock")
    assert (status, body["unlocked"]) == (200, True), (status, body)
    case.check_gone(since)
    case.check_status(79)


def redis_emptied(case):
    since = time.monotonic()
    case.world.empty_redis()
    case.check_gone(since)
    case.check_status(79)


def network_black(case):
    case.proxy.mode = "black"
    since = time.monotonic()
    case.check_gone(since)
    case.proxy.mode = "pass"
    case.check_status(79)


def terminate_twice(case):
    case.run.signal(signal.SIGTERM)
    time.sleep(0.05)
    case.run.signal(signal.SIGTERM)
    case.check_gone(time.monotonic())
    case.check_status(128 + signal.SIGKILL, 128 + signal.SIGTERM)


# On one Redis for all of their cases, with a front end of its own where it is stopped.
SHARED = {"kill-rlock": kill_rlock, "kill-guard": kill_guard, "stop-rlock": stop_rlock,
          "stop-guard": stop_guard_and_lose,
          "force-unlock": force_unlock}
OWN = {"server-gone": server_gone, "redis-emptied": redis_emptied}


def check(world, event, shape, step, own_front=False, through_proxy=False):
    """One cell of the matrix."""
    front = world.front() if own_front else world.fronts[0]
    way = world.proxy(front) if through_proxy else front
    case = HoldCase(world, way) if shape == "hold" else Case(world, shape, [way], "command")
    case.front, case.step = front, step
    case.proxy, case.event = way, event.__name__
    try:
        case.grace()
        event(case)
        case.check_free()
    finally:
        case.end()


def suspend(world, library):
    """The machine is suspended for longer than the lock lasts, and has no network afterwards:
    COMMAND ends at once, by the guard's timer alone. No signal comes, as none does then."""
    front = world.fronts[0]
    proxy = world.proxy(front)
    clock = Path(world.folder) / name()
    clock.write_bytes(struct.pack("=q", 0))
    case = Case(world, "double-fork", [proxy], options=["-t", "60s", "-k", "5s"],
                LD_PRELOAD=library, RLOCK_TEST_SUSPENDED_MS=str(clock))
    case.event = "suspend"
    proxy.mode = "black"
    front.ask("POST", f"/v1/locks/{case.name}/force-unlock")  # the lock has ended meanwhile
    with clock.open("r+b") as file:
        file.write(struct.pack("=q", 70000))
    case.check_gone(time.monotonic(), 0)
    proxy.mode = "pass"
    case.check_status(79)
    case.check_free()


# ---- a lease file: what outlives its process is the file

def freed_by_force(filed):
    filed.front.ask("POST", f"/v1/locks/{filed.lock}/force-unlock")


def without_redis_data(filed):
    filed.world.empty_redis()


def check_file_after_kill(world, step):
    """Killed at the moment at which the server has the request, and its answer is lost: the
    same command, repeated, does what the killed one would have done."""
    front = world.fronts[0]
    proxy = world.proxy(front)
    filed = Filed(world, front, proxy.url)
    if step != "acquire":
        filed.does("acquire")
    before = filed.front.lock(filed.lock).get("fencing_token")
    proxy.mode = "mute"
    run = filed.start(step, "--ttl", "1h") if step != "release" else filed.start(step)
    wait_for(lambda: proxy.muted > 0, "the server has answered")
    run.signal(signal.SIGKILL)
    assert run.status() == -signal.SIGKILL
    proxy.mode = "pass"
    filed.does(step)
    if step == "release":
        assert filed.has_nothing()
        return
    token = front.lock(filed.lock)["fencing_token"]
    assert before in (None, token), "granted twice"
    filed.does("release")
    assert filed.has_nothing()


def check_file_after_loss(world, loss, verb):
    """The lease has ended: renew and release tell so, acquire takes the lock anew."""
    filed = Filed(world, world.fronts[0])
    filed.does("acquire")
    loss(filed)
    assert filed.front.is_free(filed.lock)
    if verb == "acquire":
        filed.does("acquire")
        assert filed.front.holds(filed.lock)
        filed.does("release")
    else:
        filed.does(verb, status=79)
    if verb == "renew":  # the file stays until the release
        filed.does("release", status=79)
    assert filed.has_nothing()


@contextlib.contextmanager
def ended(world):
    try:
        yield world
    finally:
        world.close()
