"""The matrix: each event that may befall a run, at each step of its way, with each tree.
After each, no process of the tree lives past the deadline or while another client has the lock,
the exit status is the table's, the lock is free in its time, and no temporary file is left."""
import contextlib
import os
import signal
import struct
import threading
import time
import uuid
from pathlib import Path

import holding
from world import LONG_S, PATIENCE, World, ended, name, wait_for

# A busy machine needs longer for a keep-alive.
TTL_S, GRACE_S = 2 + PATIENCE, 0.5
# In the grace, which has to last until the event has happened, both are longer.
LONG_TTL_S, LONG_GRACE_S = 6 + 2 * PATIENCE, 3
SUSPENDED_S = 70
# The guard's KILL is a tenth of a second before the deadline; a busy machine may be late.
LATE_S = 2 + PATIENCE
LATER_S = 0.3 * (PATIENCE - 1)  # than the next grant; on an idle machine at no time
WITNESS = "59"  # this sleep dies of the first signal, whatever the others do

# How many processes a tree has beside its first one, and how these begin.
SHAPES = {
    "simple": (0, ""),
    "background": (1, "sleep 60 &"),
    "setsid": (1, "setsid sleep 60 &"),
    "double-fork": (3, "(setsid sh -c 'sleep 60 & sleep 61' &);"),
    "stubborn": (1, "trap '' TERM INT; setsid sleep 60 &"),
}
UNTIL_TOLD = "until rm end; do sleep 0.1; done"

# What becomes of a run: its exit status, or "on": it goes on, and has the lock when its turn
# comes. "-": there is no such case. Servers: those of all cells; an own front end; two of them;
# an own Redis.
EVENTS = """
event            servers  wait  grant  command  grace  release
kill-rlock       shared   -9    -9     -9       -9     -9
kill-guard       shared   -     -      70       79     -
stop-rlock       shared   on    on     79       79     0
stop-guard       shared   -     -      79       79     -
terminate        shared   143   143    143      79     0
terminate-twice  shared   143   143    143|137  79     0
force-unlock     shared   on    on|79  79       -      79
session-ended    shared   on    on|79  79       79     0|79
redis-emptied    redis    on|79 on|79 79       79     79
server-gone      own      on    on|79  79       79     0
network-black    own      on    on     79       79     0
one-of-two-gone  two      on    on     on       79     0
drain            two      on    on     on       79     0
rolling-restart  two      on    on     on       79     0
lost-answers     shared   on    on     on       79     0
suspend          shared   on    on     79       79     0|79
"""
ROWS = [row.split() for row in EVENTS.split("\n") if row]
STEPS = ROWS[0][2:]
SERVERS = {row[0]: row[1] for row in ROWS[1:]}
WANTED = {(row[0], step): cell.split("|") for row in ROWS[1:]
          for step, cell in zip(STEPS, row[2:]) if cell != "-"}

# (event, step) -> the longest time from it to the end of the last process of a tree, in s.
longest_s = {}


class Case:
    """One run on its way through an event."""

    def __init__(self, world, event="", step="command", shape="simple", library=None):
        self.world, self.event, self.step, self.shape = world, event, step, shape
        servers = SERVERS.get(event, "shared")
        self.wanted = WANTED.get((event, step), ())
        self.front = world.front() if servers in ("own", "two") else world.fronts[0]
        self.second = world.front() if servers == "two" else None
        self.proxy = world.proxy(self.front)
        self.name, self.holder = name(), str(uuid.uuid4())
        self.ttl_s, self.grace_s, self.variables = TTL_S, GRACE_S, {}
        if {"on", "0"} & set(self.wanted):  # a run that is starved for a while has to go on
            self.ttl_s = 3 * PATIENCE
        if step == "grace" or event == "terminate-twice":
            self.ttl_s, self.grace_s = LONG_TTL_S, LONG_GRACE_S
        if event == "suspend":
            self.clock = Path(world.folder) / name()
            self.clock.write_bytes(struct.pack("=q", 0))
            self.variables = {"LD_PRELOAD": library, "RLOCK_TEST_SUSPENDED_MS": str(self.clock)}
            self.ttl_s, self.grace_s = 60, 5
        self.seen, self.contender = [], None
        self.start()

    def start(self):
        urls = ",".join(way.url for way in (self.proxy, self.second) if way)
        self.count, children = SHAPES[self.shape]
        self.count += 1
        script = f"exec 2> /dev/null; {children} {UNTIL_TOLD}"
        if self.step == "grace":
            self.count += 1
            script = f"sleep {WITNESS} & trap '' TERM INT; {script}"
        if self.step == "wait":
            self.block()
        if self.step == "grant":
            self.proxy.hold(b"PUT", "answer")
        self.run = self.world.run(
            urls, "-t", f"{self.ttl_s:.1f}s", "-k", f"{self.grace_s}s", self.name, "sh", "-c",
            script, **self.variables)
        self.reach()

    def reach(self):
        """The step of the event."""
        if self.step == "wait":
            wait_for(lambda: self.world.fronts[0].has_waiter(self.name), "the run waits")
        elif self.step == "grant":
            self.proxy.wait_held()
        else:
            self.run.wait_tree(self.count)
        if self.step == "grace":
            wait_for(self.has_witness, "the witness has begun")
            self.force()
            wait_for(lambda: not self.has_witness(), "the first signal")
        if self.step == "release":
            self.proxy.hold(b"DELETE", "request")
            (self.run.temporary / "end").touch()
            self.proxy.wait_held()

    def has_witness(self):
        wanted = b"sleep\0" + WITNESS.encode() + b"\0"
        for pid in self.run.tree():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes() == wanted:
                    return True
        return False

    def block(self):
        status, _ = self.world.fronts[0].ask(
            "PUT", f"/v1/locks/{self.name}?ttl_ms=90000", Lease_Token=self.holder)
        assert status == 201, status

    def unblock(self):
        self.world.fronts[0].ask("DELETE", f"/v1/locks/{self.name}", Lease_Token=self.holder)

    def force(self):
        status, _ = self.world.fronts[0].ask("POST", f"/v1/locks/{self.name}/force-unlock")
        assert status == 200, status

    def contend(self):
        """Another client gets the lock: which processes of the run live then?"""
        def wait():
            token = str(uuid.uuid4())
            for _ in range(20):
                status, _ = self.world.fronts[0].ask(
                    "PUT", f"/v1/locks/{self.name}?wait_ms=5000&ttl_ms=500",
                    Lease_Token=token)
                if status in (200, 201):  # 200: an answer was lost, and this one repeats it
                    self.seen.append(self.tree_after(LATER_S))
                    return
                if status != 423:
                    time.sleep(0.3)

        if self.step in ("wait", "grace"):
            return  # another client may have the lock
        self.contender = threading.Thread(target=wait)
        self.contender.start()

    def tree_after(self, seconds):
        until = time.monotonic() + seconds
        while (left := self.run.tree()) and time.monotonic() < until:
            time.sleep(0.05)
        return left

    def lapse(self):
        """Until the server has forgotten the run."""
        if self.step == "wait":
            wait_for(lambda: not self.session(), "the session ends")
        if self.contender:
            self.contender.join(LONG_S + self.ttl_s)
            assert self.seen == [[]], f"processes that outlived their lock: {self.seen}"

    def session(self):
        """Its id, while it lives."""
        cursor = ""
        while cursor is not None:
            page = self.world.fronts[0].ask("GET", f"/v1/sessions?cursor={cursor}")[1]
            for one in page["sessions"]:
                if one["name"].endswith(f"/{self.run.pid}"):
                    return one["session_id"]
            cursor = page["next_cursor"]
        return None

    def has_tree(self):
        return self.step in ("command", "grace") and "on" not in self.wanted

    def check_gone(self, since, within_s=None):
        """The tree ends in time, if there is one that has to."""
        if not self.has_tree():
            return
        within_s = within_s if within_s is not None else (
            self.grace_s if self.step == "grace" else self.ttl_s)
        wait_for(lambda: not self.run.tree(), "the tree has ended",
                 since + within_s + LATE_S - time.monotonic())
        took_s = time.monotonic() - since
        key = (self.event, self.step)
        longest_s[key] = max(took_s, longest_s.get(key, 0))

    def check_end(self):
        """As the table says."""
        self.unblock()
        if "on" not in self.wanted:
            self.check_status(*map(int, self.wanted))
            return
        wait_for(lambda: self.run.process.poll() is not None or (
            len(self.run.tree()) >= self.count and self.world.fronts[0].holds(self.name)),
            "COMMAND runs with the lock, or the run has ended")
        ends = [int(one) for one in self.wanted if one != "on"]
        if self.run.process.poll() is None:
            self.terminate(*ends)
        else:
            self.check_status(*ends)

    def terminate(self, *others):
        """A stubborn tree needs two signals, the second one within the grace. The run may learn
        of a loss at the same time, and end as one of the others."""
        self.run.signal(signal.SIGTERM)
        for _ in range(int(LONG_S * 10)):
            if self.shape != "stubborn" or self.run.process.poll() is not None:
                break
            time.sleep(0.1)
            self.run.signal(signal.SIGTERM)
        self.check_status(128 + signal.SIGTERM, 128 + signal.SIGKILL, *others)

    def check_free(self):
        front = self.world.fronts[0]
        wait_for(lambda: front.is_free(self.name), "the lock is free",
                 self.ttl_s + 1 + LATE_S)
        wait_for(lambda: not self.run.processes(), "rlock and its guard have ended")
        left = os.listdir(self.run.temporary)
        assert left in ([], ["end"]), f"left in the temporary folder: {left}"

    def check_status(self, *wanted):
        got = self.run.status()
        assert got in wanted, f"exit status {got}, not {wanted}: {self.run.err!r}"
        for line in self.run.err.splitlines():
            assert line.startswith("rlock: ") or "leak" in line, line
        assert self.run.out == "", self.run.out

    def end(self):
        """Whatever the event, nothing else is left to end."""
        self.proxy.go()


class HoldCase(Case):
    """rlock hold: its tree is the process of --pid, until that process has its signal."""

    def start(self):
        self.sleeper = contextlib.ExitStack()
        process = self.sleeper.enter_context(holding.sleeper())
        urls = ",".join(way.url for way in (self.proxy, self.second) if way)
        self.run = self.world.rlock_does(
            urls, "hold", "-t", f"{self.ttl_s:.1f}s", "-k", f"{self.grace_s}s", self.name,
            "--pid", str(process.pid), **self.variables)
        self.count = 1
        self.run.tree = lambda: [process.pid] if process.poll() is None else []
        holding.held(self.run, self.name)

    def end(self):
        super().end()
        self.sleeper.close()


# ---- events

def kill_rlock(case):
    case.contend()
    since = time.monotonic()
    case.run.signal(signal.SIGKILL)
    case.check_gone(since)
    case.lapse()


def kill_guard(case):
    case.contend()
    since = time.monotonic()
    with contextlib.suppress(TypeError, ProcessLookupError):  # on a busy machine, all is over
        os.kill(case.run.guard(), signal.SIGKILL)
    case.check_gone(since)
    case.lapse()


def stop_rlock(case):
    case.contend()
    since = time.monotonic()
    case.run.signal(signal.SIGSTOP)
    case.check_gone(since)
    case.lapse()
    if case.step == "release":  # it finds an answer that says "expired", as it has
        case.proxy.over.clear()
        case.proxy.go()
        assert case.proxy.over.wait(LONG_S)
    case.run.signal(signal.SIGCONT)


def stop_guard(case):
    """Two faults: the guard cannot end the tree, so rlock does, before the deadline."""
    since = time.monotonic()
    with contextlib.suppress(TypeError, ProcessLookupError):
        os.kill(case.run.guard(), signal.SIGSTOP)
    case.force()
    case.check_gone(since)


def terminate(case):
    since = time.monotonic()
    case.run.signal(signal.SIGTERM)
    case.check_gone(since)


def terminate_twice(case):
    case.run.signal(signal.SIGTERM)
    time.sleep(1)  # else the second signal would belong to the same cancellation
    case.run.signal(signal.SIGTERM)
    case.check_gone(time.monotonic(), 0)


def force_unlock(case):
    since = time.monotonic()
    case.force()
    case.check_gone(since)


def session_ended(case):
    since = time.monotonic()
    session = case.session()
    if session:
        case.front.ask("POST", f"/v1/sessions/{session}/force-end")
    case.check_gone(since)


def redis_emptied(case):
    since = time.monotonic()
    case.world.redis.command("FLUSHALL")
    case.check_gone(since)


def server_gone(case):
    """At the release and in the grace it comes back too late."""
    case.contend()
    since = time.monotonic()
    case.front.kill()
    case.proxy.go()
    case.check_gone(since)
    case.lapse()
    case.front.start()


def network_black(case):
    case.contend()
    case.proxy.mode = "black"
    since = time.monotonic()
    case.proxy.go()
    case.check_gone(since)
    case.lapse()
    case.proxy.mode = "pass"


def one_of_two_gone(case):
    case.front.kill()


def drain(case):
    case.front.stop(signal.SIGTERM)


def rolling_restart(case):
    for server in (case.front, case.second):
        server.stop(signal.SIGTERM)
        case.proxy.go()
        server.start()
    if case.step in ("wait", "command"):
        time.sleep(case.ttl_s)  # in which a session without keep-alives would have ended


def lost_answers(case):
    case.proxy.lose(2)


def suspend(case):
    """The machine was suspended for longer than the lock lasts, and has no network afterwards:
    COMMAND ends at once, by the guard's timer alone. No signal comes, as none does then."""
    if case.has_tree():
        case.proxy.mode = "black"
        case.force()  # the lock has ended meanwhile
    since = time.monotonic()
    with case.clock.open("r+b") as file:
        file.write(struct.pack("=q", SUSPENDED_S * 1000))
    case.check_gone(since, 0)
    case.proxy.mode = "pass"


# ---- cells

def check(world, event, step, shape, library):
    case = (HoldCase if shape == "hold" else Case)(world, event, step, shape, library)
    try:
        globals()[event.replace("-", "_")](case)
        case.proxy.go()
        case.check_end()
        case.check_free()
    finally:
        case.end()


def check_in_own_world(*cell):
    with ended(World()) as own:
        own.front()
        check(own, *cell)


def makes_sense(event, step, shape):
    """A stubborn tree takes no notice of one signal, and rlock hold hands none on."""
    return (event, step) in WANTED and \
        not (shape == "stubborn" and step == "command" and event == "terminate") and \
        not (shape == "hold" and (step != "command" or event.startswith("terminate")))


def cells(world, shapes, library):
    """title -> test; without the library there are no cells of `suspend`."""
    tests = {}
    for event in SERVERS:
        for step in STEPS:
            for shape in shapes:
                if not makes_sense(event, step, shape) or (event == "suspend" and not library):
                    continue
                cell = (event, step, shape, library)
                title = f"{event}_{step}_{shape}"
                if SERVERS[event] == "redis":
                    tests[title] = lambda cell=cell: check_in_own_world(*cell)
                else:
                    tests[title] = lambda cell=cell: check(world, *cell)
    return tests
