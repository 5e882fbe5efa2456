"""The phases of a run. Each has a bound and is named when it ends; a phase that is not over by
its bound ends the run."""
import asyncio
import subprocess
import time


class Phases:
    def __init__(self, bounds_s):
        """`bounds_s`: name of a phase -> seconds, in the order of the phases."""
        self.bounds_s = bounds_s

    def announce(self):
        """How long the run takes at most, and with which phases."""
        parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.bounds_s.items())
        print(f"faults: at most {sum(self.bounds_s.values()):.0f} s: {parts}", flush=True)

    async def take(self, name, work):
        """The result of a coroutine that is a whole phase."""
        began, bound_s = time.monotonic(), self.bounds_s[name]
        task = asyncio.ensure_future(work)
        # asyncio.wait_for() would wait for a phase that does not let itself be cancelled.
        await asyncio.wait({task}, timeout=bound_s)
        if not task.done():
            raise TimeoutError(f"{name} was not over after {bound_s:.0f} s")
        self.tell(name, began)
        return task.result()

    def run(self, name, command):
        """The exit status of a program that is a whole phase; 1: it was not over in time."""
        began, bound_s = time.monotonic(), self.bounds_s[name]
        try:
            status = subprocess.run(command, check=False, timeout=bound_s).returncode
        except subprocess.TimeoutExpired:
            print(f"faults: {name} was not over after {bound_s:.0f} s")
            return 1
        self.tell(name, began)
        return status

    @staticmethod
    def tell(name, began):
        print(f"faults: {name} took {time.monotonic() - began:.0f} s", flush=True)
