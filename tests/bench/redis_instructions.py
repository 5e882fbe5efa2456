"""Instructions of Redis for one request of each kind, by callgrind. Redis' own clockwork runs
beside them by the second: what an idle Redis takes is measured and subtracted."""
import re
import subprocess
import time

from measure import may_trace
from operations import (FEW_LEASES, PHASES, QUEUED, WAITING, WATCHDOG_TIMEOUT_MS,
                        Operations, TooSlow)

REQUESTS = 200
ROUNDS = 3  # of renewals by the watchdog
FEW = 40  # of those that need long queues
WAITS = 30  # at the same time
LONG_WAIT_S = 1  # after which a wait is noted, which is a cost of its own
IDLE_S = 3
ORDER_TIMEOUT_S = 60
ATTEMPTS = 5
QUIET = ("--hz", "1", "--dynamic-hz", "no", "--activerehashing", "no")


class Counted:
    """A redis-server under callgrind."""

    def __init__(self, place):
        self.out = place.folder / f"callgrind-redis-{place.number()}"
        self.redis = place.redis(*QUIET, wrap=[
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}"])
        self.began = self.dumps = self.idle_per_s = 0

    def _order(self, order):
        """False: valgrind does not take orders here."""
        try:
            done = subprocess.run(["vgdb", f"--pid={self.redis.pid}", order],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=ORDER_TIMEOUT_S,
                                  check=False)
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return False
        return done.returncode == 0

    def begin(self):
        self.began = time.monotonic()
        if not self._order("zero"):
            raise RuntimeError("callgrind did not begin to count")

    def end(self):
        """Instructions since begin(), without those of an idle Redis."""
        took_s = time.monotonic() - self.began
        if not self._order("dump"):
            raise RuntimeError("callgrind did not dump")
        self.dumps += 1
        text = self.out.with_name(f"{self.out.name}.{self.dumps}").read_text()
        counted = int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1])
        return counted - self.idle_per_s * took_s

    def measure_idle(self):
        """False: nothing can be counted here."""
        if not self._order("zero"):
            return False
        self.begin()
        time.sleep(IDLE_S)
        self.idle_per_s = self.end() / IDLE_S
        return True


def again_if_slow(count_once):
    """What a round returns that was not too slow; None: there was none among a few."""
    for _ in range(ATTEMPTS):
        try:
            return count_once()
        except TooSlow as slow:
            why = slow
    print(f"{ATTEMPTS} times too slow: {why}")
    return None


def of_requests(counted, ops, kind):
    count = WAITS if kind in WAITING else FEW if kind in QUEUED else REQUESTS

    def count_once():
        ops.prepare(counted.redis, kind, count)
        counted.begin()
        ops.run(kind, count)
        figure = counted.end() / count
        took_s = time.monotonic() - ops.waited_from
        if kind in WAITING:
            ops.await_waiters(count)
            if took_s > LONG_WAIT_S:
                raise TooSlow(f"{kind}: waits got long")
        return figure
    return again_if_slow(count_once)


def of_renewals(counted, ops, per_session):
    """By the watchdog, whose batches have a share of their session's visit."""
    def count_once():
        ops.hold_leases(counted.redis, REQUESTS, per_session)
        ops.await_renewals(REQUESTS)  # from here on batches have their size
        # Both counts begin and end with a page of metrics, which is made once a second.
        before = ops.renewals()
        counted.begin()
        renewed = ops.await_renewals(ROUNDS * REQUESTS, before)
        return counted.end() / renewed
    return again_if_slow(count_once)


# Leases a session.
RENEWALS = {"watchdog": REQUESTS, "watchdog_few": FEW_LEASES, "watchdog_one": 1}


def measure(place, kinds):
    """kind -> instructions; {}: valgrind may not trace, or does not take orders."""
    counted = Counted(place)
    server = place.rlockd(counted.redis)
    ops = Operations(server)
    phases = [kind for kind in PHASES if kind in kinds]

    def use_once(kind):
        ops.prepare(counted.redis, kind, 1)
        ops.run(kind, 1)
    for kind in phases:  # the first use of a script sends its text
        again_if_slow(lambda kind=kind: use_once(kind))
    if not counted.measure_idle():
        if may_trace():
            raise RuntimeError("callgrind took no orders from vgdb, though strace may attach")
        return {}
    figures = {kind: of_requests(counted, ops, kind) for kind in phases}
    ops.end_waits()
    server.stop()
    server = place.rlockd(counted.redis, "--watchdog-timeout-ms",
                          str(WATCHDOG_TIMEOUT_MS))
    for kind, per_session in RENEWALS.items():
        if kind in kinds:
            figures[kind] = of_renewals(counted, Operations(server), per_session)
    server.stop()
    counted.redis.stop()
    return figures
