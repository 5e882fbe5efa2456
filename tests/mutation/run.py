#!/usr/bin/env python3
"""run.py [--count N] [--seed N] [--jobs N] [--only WORD] [--seconds N]: plants simple bugs by
rule (plant.py) in copies of the tree, one at a time, until so many seconds since the first
build are over, and asks the suites that are quick: first the unit, script and end-to-end
tests that the name of the file leads to, then the simulation, then all other unit and
script tests. Only what is asked next is built. The first test that fails ends its program. It
catches the bug when it fails once more, and passes without the bug. Prints which bugs live on,
and the score. A bug that changes nothing that anybody can see is a row of equivalent.table,
with the reason; it does not count. A bug that does not compile is no bug."""
import argparse
import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "faults"))
import mutants  # noqa: E402  pylint: disable=wrong-import-position
from plant import choose, planted  # noqa: E402  pylint: disable=wrong-import-position

COPIED = ["Makefile", "openapi.yaml", "server", "storage", "handlers", "client", "web", "docs",
          "tests", "build"]
LEFT_OUT = ["clients", "command", "interop", "bench", "__pycache__"]
SEEDS = (1, 2, 4, 10, 11)  # 4 is on a cluster, 10 and 11 are behind Sentinels
TIMEOUT_S = 300  # of one program: a bug may make it hang
# The tests of a file: those of whose name a word begins with a word of the file's name, of its
# folder, or of a row here. Each row: a part of the path, words. A word that stands twice counts
# twice.
LEADS = """
storage/wait waiting wakeups hand_over retries undo
storage/lease locks retries undo force lease_
storage/session keep_alive sessions_end watchdog
storage/notes sessions retries
notes/pages topology_quorum_sessions
storage/look holders listing force
storage/census census
storage/store errors retries operations
storage/topology readyz cluster
storage/redis redis_connect redis_trouble errors
scripts/fair fair
scripts/rw read_write
scripts/permit permit
scripts/session sessions keep_alive
scripts/census census
scripts/semaphore semaphores
scripts/lib locks waiting sessions holders
scripts locks waiting
storage/quorum topology_quorum
scripts/quorum quorum
topology/quorum topology_quorum
deadlock deadlocks
cycle deadlocks
multi multi
readers read_write
queue fair
latch latches
counter semaphores semaphores
handlers errors bodies api_tokens
handlers/lease locks force_unlock max_ttl
handlers/lease_request topology_quorum_locks topology_cluster topology_cluster
handlers/sessions deadlocks deadlocks
session_keep_alive log log
handlers/operations operations callers
handlers/me callers api_tokens
handlers/locks listing holders census
handlers/multi multi_locks
handlers/page web_pages page
handlers/terraform operations errors
handlers/neighbours operations
handlers/counters semaphores latches
handlers/deadlock deadlocks
handlers/lfs audit listing
redis/link_push topology_cluster
redis/link_sync topology_replicas
redis/link_tls redis_tls
redis/link_connect redis_network topology_login
redis/link redis_ standstill
redis/subscriber redis_ lost_wakeups readyz
redis/embedded embedded
redis/child embedded
wait/long deadlocks census
wait/cycle deadlocks
wait/share hand_over_shares
wait/pass hand_over
wait/neighbours hand_over
wait/session keep_alive
lease/quarantine lost_data
lease/counters semaphores latches
lease/permits permit
lease/withdraw semaphores semaphores
lease/send fair fair
store/marker lost_data marker
"""
E2E_MAX, OTHERS_MAX = 8, 4
AT_A_TIME = 4  # programs, which wait most of the time
TOO_LONG = ["floods", "chaos", "racer"]
FAILED = re.compile(r"\[  FAILED  \] (\w+)")


class TimeIsOverError(Exception):
    pass


def leads(path, folder, most):
    """Programs of a folder of tests, those with the most words in common first."""
    words = Counter(word for word in re.split(r"[/_.]", path)
                    if len(word) > 3 and word != "topology")
    for row in LEADS.split("\n"):
        part, *names = row.split() or [""]
        if part and part in path:
            words.update(names)
    programs = Counter()
    for program in sorted((ROOT / "tests" / folder).glob("test_*.c")):
        if not any(word in program.stem for word in TOO_LONG) and (
                "topology" not in program.stem or "topology" in path or "quorum" in path or
                any(word in program.stem for word in words if "topology" in word)):
            programs[program.stem] = sum(count for word, count in words.items()
                                         if "_" + word.rstrip("s") in program.stem)
    return [f"build/tests/{folder}/{name}" for name, count in programs.most_common(most)
            if count > 0]


def all_of(folder):
    return sorted(f"build/tests/{folder}/{source.stem}"
                  for source in (ROOT / "tests" / folder).glob("test_*.c"))


def kill(program):
    """With what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


class Tree:
    """A copy that is built, in which one bug after the other is planted. `clean`: a copy
    without any."""

    def __init__(self, clean=None):
        self.until, self.clean = float("inf"), clean
        self.root = mutants.copy_tree(COPIED, LEFT_OUT)
        self.passing = {}  # command -> whether it passes, in a clean copy
        self.lock, self.running = threading.Lock(), set()
        (self.root / "t").mkdir()  # what a program leaves that is ended
        self.environment = {**os.environ, "RLOCKD_BIN": str(self.root / "build/rlockd"),
                            "TMPDIR": str(self.root / "t"),
                            "E2E_PATIENCE": os.environ.get("E2E_PATIENCE", "3")}

    def failure(self, *command):
        """The first test that fails, which ends the command; "": it ended badly, or was too
        late; None: it ended well."""
        with subprocess.Popen(command, cwd=self.root, env=self.environment, text=True,
                              errors="replace", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              process_group=0) as program:
            self.running.add(program)
            timer = threading.Timer(max(1, min(TIMEOUT_S, self.until - time.monotonic())),
                                    kill, [program])
            timer.start()
            try:
                for line in program.stdout:
                    if found := FAILED.match(line):
                        kill(program)
                        return found[1]
                return None if program.wait() == 0 else ""
            finally:
                timer.cancel()
                self.running.discard(program)

    def passes(self, command):
        with self.lock:
            if command not in self.passing:
                self.passing[command] = self.failure(*command) is None
            return self.passing[command]

    def make(self, *targets):
        version = (ROOT / "build/version").read_text(encoding="ascii").strip()
        return self.failure("make", "-s", f"RLOCKD_VERSION={version}", *targets) is None

    def suites(self, bug):
        """(name, programs of it) in the order in which they are asked."""
        folders = ["scripts"] if bug.path.endswith(".lua") else ["unit", "scripts"]
        first = {folder: leads(bug.path, folder, OTHERS_MAX) for folder in folders}
        for folder in folders:
            yield folder, first[folder]
        yield "e2e", leads(bug.path, "e2e", E2E_MAX)
        yield "sim", ["build/tests/sim/sim"]
        for folder in folders:
            yield folder, [name for name in all_of(folder) if name not in first[folder]]

    def confirms(self, command, test):
        """Whether this test of the command fails again, or else the command, which also has
        what the tests before leave behind; and not without the bug."""
        again = [command]
        if "/e2e/" in command[0] and test:
            again.insert(0, ("env", f"E2E_FILTER={test}", *command))
        return any(self.failure(*one) is not None and self.clean.passes(one) for one in again)

    def catches(self, suite, programs):
        commands = [(program, f"--seed={seed}") for program in programs for seed in SEEDS] \
            if suite == "sim" else [(program,) for program in programs]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            ends = {pool.submit(self.failure, *command): command for command in commands}
            for end in as_completed(ends):
                test = end.result()
                is_over = time.monotonic() > self.until
                if is_over or (test is not None and self.confirms(ends[end], test)):
                    pool.shutdown(wait=False, cancel_futures=True)
                    for program in list(self.running):
                        kill(program)
                    if is_over:
                        raise TimeIsOverError
                    return True
        return False

    def judge(self, bug):
        """The suite that caught it; "invalid"; None: it lives on."""
        path = self.root / bug.path
        text = path.read_text(encoding="utf-8")
        path.write_text(planted(self.root, bug)[0], encoding="utf-8")
        try:
            if not self.make("all"):
                return "invalid"
            for suite, programs in self.suites(bug):
                if programs and not self.make(*programs):
                    return "invalid"
                if programs and self.catches(suite, programs):
                    return suite
            return None
        finally:
            path.write_text(text, encoding="utf-8")
            shutil.rmtree(self.root / "t")
            (self.root / "t").mkdir()

    def end(self):
        shutil.rmtree(self.root, ignore_errors=True)


def read_equivalent():
    """(path, line as it is with the bug) -> reason."""
    rows, reason = {}, ""
    for line in (HERE / "equivalent.table").read_text(encoding="utf-8").splitlines():
        if line.startswith("because "):
            reason = line.partition(" ")[2]
        elif line and not line.startswith("#"):
            path, _, text = line.partition(" ")
            rows[path, text.strip()] = reason
    return rows


class Hunt:
    def __init__(self, bugs, jobs, seconds):
        self.seconds, self.clean = seconds, Tree()
        self.left, self.jobs, self.caught, self.alive = queue.SimpleQueue(), jobs, Counter(), []
        self.equivalent, self.lock = read_equivalent(), threading.Lock()
        for bug in bugs:
            self.left.put(bug)

    def tell(self, bug, verdict, seconds):
        _, line = planted(ROOT, bug)
        is_equivalent = verdict is None and (bug.path, line) in self.equivalent
        verdict = "equivalent" if is_equivalent else verdict
        with self.lock:
            self.caught[verdict or "alive"] += 1
            if verdict is None:
                self.alive.append(bug)
            print(f"{verdict or 'LIVES ON':10} {seconds:4.0f} s  {bug.path}:{bug.line}: "
                  f"{bug.rule}: {line}", flush=True)

    def work(self):
        tree = Tree(self.clean)
        tree.make("all")
        tree.until = time.monotonic() + self.seconds
        try:
            while time.monotonic() < tree.until:
                bug, began = self.left.get_nowait(), time.monotonic()
                with contextlib.suppress(TimeIsOverError):
                    verdict = tree.judge(bug)
                if time.monotonic() > tree.until:
                    verdict = "unfinished"
                self.tell(bug, verdict, time.monotonic() - began)
        except queue.Empty:
            pass
        finally:
            tree.end()

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.clean.end()
        dead = sum(count for word, count in self.caught.items()
                   if word not in ("alive", "invalid", "equivalent", "unfinished"))
        judged = dead + self.caught["alive"]
        print(f"mutation: {dead} of {judged} caught"
              f" ({100 * dead / judged if judged else 0:.0f} %): "
              + ", ".join(f"{word} {count}" for word, count in sorted(self.caught.items())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    bugs = [bug for bug in choose(ROOT, 10 ** 6 if options.only else options.count,
                                  options.seed) if options.only in bug.path][:options.count]
    Hunt(bugs, options.jobs, options.seconds).run()


main()
