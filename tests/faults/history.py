"""The history of a run, for build/tests/checker/checker: docs/testing.md has its format."""
import asyncio
import contextlib
import json
import os
import time
from pathlib import Path

# How much longer all may take than on an idle machine.
PATIENCE = int(os.environ.get("E2E_PATIENCE", "1"))


def now():
    return time.monotonic_ns()


class History:
    def __init__(self, path):
        self.file = open(path, "w", encoding="ascii")
        self.requests = self.hard = 0
        self.hard_of = {}

    def write(self, type_, **fields):
        line = {"type": type_}
        line.update((name, value) for name, value in fields.items() if value is not None)
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def op(self, **fields):
        """`hard`: requests that got no answer, a 503 or a late answer, of all front ends and of
        each; faults are measured by them."""
        self.write("op", **fields)
        self.requests += 1
        late = fields["t_ret"] - fields["t_inv"] > (fields.get("wait_ms") or 0) * 10**6 + 10**8
        if late or fields["outcome"] == "unknown" or fields.get("status") in (0, 503):
            self.hard += 1
            front = fields.get("front")
            self.hard_of[front] = self.hard_of.get(front, 0) + 1

    def close(self):
        self.file.close()


def run_delays():
    """How long each thread of a program of the run has waited for a processor so far, in ns."""
    delays, children = {}, ""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    for child in children.split():
        for path in Path(f"/proc/{child}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                delays[path] = int(path.read_text(encoding="ascii").split()[1])
    return delays


async def watch_lag(history):
    """A busy machine that keeps this program, or one of the run, from running is a fault,
    too: it makes every answer late."""
    last, delays, sampled = now(), {}, 0
    while True:
        await asyncio.sleep(0.02)
        began, last = last, now()
        longest = last - began
        if last - sampled > 100 * 10**6:
            before, delays = delays, run_delays()
            starved = max((delay - before.get(path, delay) for path, delay in delays.items()),
                          default=0)
            if starved > longest:
                longest, began = starved, min(began, sampled, last - starved)
            sampled = last
        if longest > 120 * 10**6:
            history.write("fault", kind="busy-machine", scope="harness", t_begin=began,
                          t_end=last, effect=1)
