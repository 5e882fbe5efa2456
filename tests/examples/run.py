#!/usr/bin/env python3
"""The programs of examples/ against a real rlockd, also where things go wrong for them; prints
each check that fails.

usage: run.py BUILD [WORD]...    the checks with one of these words in their name"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "bench")]
import redisson  # noqa: E402
from postgres import Postgres  # noqa: E402
from servers import PATIENCE, WAIT_S, Place, wait_for  # noqa: E402

EXAMPLES = ROOT / "examples"


class Run:
    """A program of examples/ under way. `lines` are those of its output, with what it says of
    errors, so far."""

    def __init__(self, world, name, *words, folder=None, **environment):
        # Paths, because a name may be that of a program of the machine, too.
        command = {".py": ["/usr/bin/python3"], ".php": ["php"]}.get(Path(name).suffix, [])
        self.process = subprocess.Popen(
            [*command, EXAMPLES / name, *map(str, words)], cwd=folder or world.folder,
            env={**world.environment, **environment}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.lines, self.pid = [], self.process.pid
        world.runs.append(self)
        self.reader = threading.Thread(
            target=lambda: self.lines.extend(map(str.rstrip, self.process.stdout)), daemon=True)
        self.reader.start()

    def has(self, pattern, since=0):
        return any(re.search(pattern, line) for line in self.lines[since:])

    def shows(self, pattern, since=0):
        """Waits for a line."""
        wait_for(lambda: self.has(pattern, since), f"{pattern}, not only {self.lines[-5:]}")
        return self

    def ends(self, status):
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it runs on: {self.lines[-5:]}") from None
        self.reader.join(WAIT_S)
        assert self.process.returncode == status, (self.process.returncode, self.lines[-5:])
        return self

    def send(self, number):
        os.killpg(self.pid, number)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class World:
    """Two front ends on one Redis, and the environment of the programs."""

    def __init__(self, place, build):
        self.place, self.build, self.folder, self.runs = place, build, place.folder, []
        self.redis = place.redis()
        self.fronts = [place.front(self.redis) for _ in range(2)]
        self.environment = {
            **os.environ, "PATH": f"{build}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "clients/python"),
            "RLOCK_URL": ",".join(front.url for front in self.fronts)}

    def run(self, name, *words, **options):
        return Run(self, name, *words, **options)

    def look(self, name):
        return self.fronts[0].ask("GET", f"/v1/locks/{name.replace('/', '%2F')}")[1]

    def force(self, name):
        status, answer = self.fronts[0].ask(
            "POST", f"/v1/locks/{name.replace('/', '%2F')}/force-unlock", {},
            {"reason": "a test"})
        assert status == 200 and answer["unlocked"], answer

    def end_runs(self):
        while self.runs:
            self.runs.pop().end()


def holder_is(world, lock, pid):
    holders = world.look(lock)["holders"]
    return bool(holders) and holders[0].get("note", "").endswith(f"/{pid}")


def leader(world):
    """Of three one leads; another leads when it was killed, paused or forced out, in a higher
    term; a front end that goes away changes nothing."""
    runs = {run.pid: run for run in (world.run("leader.py", LEADER_TTL=str(2 * PATIENCE))
                                     for _ in range(3))}
    terms = []

    def leading():
        pid = wait_for(lambda: next((pid for pid in runs if holder_is(world, "leader", pid)),
                                    0), "a leader")
        runs[pid].shows(f"leads in term {world.look('leader')['fencing_token']}")
        terms.append(world.look("leader")["fencing_token"])
        return runs[pid]
    first = leading()
    first.send(signal.SIGSTOP)
    wait_for(lambda: not holder_is(world, "leader", first.pid), "another leader")
    second = leading()
    first.send(signal.SIGCONT)
    first.shows("leads no more")
    world.force("leader")
    second.shows("leads no more")
    third = leading()
    world.fronts[1].stop()
    since = len(third.lines)
    third.shows("leads in term", since + 30)
    assert not third.has("no more", since), third.lines[since:]
    world.fronts[1].start()
    third.end()
    del runs[third.pid]
    leading()
    assert terms == sorted(set(terms)) and len(terms) == 4, terms


def nightly(world):
    """Of three machines one runs the job; the others end with 0 and say nothing; a short job
    does not run again at once, and its status is handed on."""
    def night():
        runs = [world.run("nightly.sh", "sh", "-c", "echo ran; exit 7", AT_LEAST="1h",
                          LOCK="nightly/a") for _ in range(3)]
        for run in runs:
            run.process.wait(WAIT_S)
            run.reader.join(WAIT_S)
        return sorted((run.process.returncode, run.lines) for run in runs)
    assert night() == [(0, []), (0, []), (7, ["ran"])]
    assert night() == [(0, [])] * 3
    gone = world.run("nightly.sh", "sleep", "600", LOCK="nightly/b")
    wait_for(lambda: world.look("nightly/b")["locked"], "the job")
    world.force("nightly/b")
    gone.ends(79)


def pipeline(world):
    """One pipeline at a time; each command may be repeated; no step begins without the lock."""
    ours, theirs = world.folder / "ours", world.folder / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()

    def run(folder, *words):
        return world.run("pipeline.sh", *words, folder=folder, WAIT="0", CI_JOB_URL="job 7")
    assert not run(ours, "step", "echo", "alone").ends(64).has("^alone")
    run(ours, "lock").ends(0)
    run(ours, "lock").ends(0)
    assert run(theirs, "lock").ends(75).has("job 7")
    assert run(ours, "step", "echo", "alone").ends(0).lines == ["alone"]
    run(ours, "step", "sh", "-c", "exit 9").ends(9)
    run(ours, "unlock").ends(0)
    run(ours, "unlock").ends(0)
    run(theirs, "lock").ends(0)
    world.force("deploy/production")
    assert not run(theirs, "step", "echo", "alone").ends(79).has("^alone")
    run(theirs, "unlock")


def backup(world):
    """The lock is held for the life of the script; another one waits, a killed one leaves no
    lock, and one that was forced out stops before it has a whole copy."""
    source = world.folder / "source"
    source.mkdir()
    for number in range(50):
        (source / str(number)).write_text("x", encoding="utf-8")

    def run(name, **options):
        return world.run("backup.sh", source, world.folder / name, **options)

    def begun(name):
        wait_for(lambda: (world.folder / f"{name}.part").exists(), f"{name} begins")
        assert world.look("backup")["locked"]
    first = run("one", PAUSE="5")
    begun("one")
    run("two", WAIT="0").ends(75)
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: not world.look("backup")["locked"], "a free lock")
    second = run("three", PAUSE="5")
    begun("three")
    world.force("backup")
    second.ends(143)
    assert not (world.folder / "three").exists() and not (world.folder / "three.part").exists()
    run("four").ends(0)
    assert len(list((world.folder / "four").iterdir())) == 50
    wait_for(lambda: not world.look("backup")["locked"], "a free lock")


def pool(world):
    """Two processes with eight threads each: three jobs at a time, and each job is done; the
    permits of a killed process come back."""
    def busy():
        return world.fronts[0].ask("GET", "/v1/permit-semaphores/gpu")[1].get("holder_count")
    killed = world.run("pool.py", *range(100, 108), JOB_SECONDS="600")
    wait_for(lambda: busy() == 3, "three jobs")
    killed.end()
    runs = [world.run("pool.py", *range(first, first + 8), JOB_SECONDS="0.1")
            for first in (0, 8)]
    most = 0
    while any(run.process.poll() is None for run in runs):
        most = max(most, busy() or 0)
        time.sleep(0.01)
    for run in runs:
        run.ends(0)
    assert 1 <= most <= 3, most
    done = [line for run in runs for line in run.lines]
    assert done == [f"done {job}" for job in range(16)], done
    assert busy() == 0


def fenced_row(world):
    """A writer that stands still for longer than its lease is refused by the row; a writer that
    is in time is not."""
    with Postgres(world.place) as database:
        database.sql(*re.findall(r"^    ((?:CREATE|INSERT).*);$", (EXAMPLES / "fenced_row.py")
                                 .read_text(encoding="utf-8"), re.M))

        def run(text):
            return world.run("fenced_row.py", text, WRITER_TTL=str(2 * PATIENCE),
                             **database.environment).shows("has the lock")

        def go_on(started):
            started.process.stdin.write("\n")
            started.process.stdin.close()
            return started

        def row():
            return database.sql("SELECT body FROM report")
        late = run("late")
        late.send(signal.SIGSTOP)
        go_on(run("in time")).ends(0)
        assert row() == "in time"
        late.send(signal.SIGCONT)
        go_on(late).ends(1)
        assert row() == "in time" and late.has("too late"), late.lines
        go_on(run("again")).ends(0)
        assert row() == "again"


def beside_redisson(world):
    """Threads that lock by Redisson and by HTTP lose no increment of a bare counter."""
    path, why_not = redisson.build(world.build)
    assert path, why_not
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
         "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path,
         EXAMPLES / "BesideRedisson.java", world.fronts[0].url,
         world.redis.url(tcp=True), "100"], text=True, stdout=subprocess.PIPE,
        timeout=10 * WAIT_S, check=True)
    assert done.stdout.split("\n")[-2] == "200 of 200", done.stdout
    assert not world.look("orders/42")["locked"]


def php(world):
    """Six processes that read, work and write lose no increment; one that lost its lock says
    so, and one asks on while its server is away."""
    url = world.fronts[1].url
    file = world.folder / f"counter-{uuid.uuid4().hex}"
    runs = [world.run("lock.php", file, WORK_US="50000", RLOCK_URL=url) for _ in range(6)]
    for run in runs:
        run.ends(0)
    assert file.read_text(encoding="utf-8") == "6"
    lost = world.run("lock.php", file, WORK_US="1000000", RLOCK_URL=url)
    wait_for(lambda: world.look("counter")["locked"], "the lock")
    world.force("counter")
    lost.ends(79)
    world.fronts[1].stop()
    patient = world.run("lock.php", file, WORK_US="1", RLOCK_URL=url)
    assert patient.process.poll() is None
    world.fronts[1].start()
    patient.ends(0)
    assert file.read_text(encoding="utf-8") == "8"


CHECKS = [leader, nightly, pipeline, backup, pool, fenced_row, beside_redisson, php]


def main():
    build, *words = sys.argv[1:]
    began, failed, count = time.monotonic(), 0, 0
    with Place("examples") as place:
        world = World(place, Path(build).resolve())
        for check in CHECKS:
            if words and not any(word in check.__name__ for word in words):
                continue
            count, start = count + 1, time.monotonic()
            try:
                check(world)
                print(f"ok     {check.__name__} {time.monotonic() - start:.1f} s", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED {check.__name__}: {' '.join(check.__doc__.split())}")
                traceback.print_exc(file=sys.stdout)
            world.end_runs()
        print(f"examples: {count} checks, {failed} failed, {time.monotonic() - began:.0f} s")
        sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
