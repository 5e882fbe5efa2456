#!/usr/bin/env python3
"""Two versions of rlockd on one Redis: each kind of object is held at one of them, waited for
at both, renewed, released and forced at the other. Then the front ends are restarted one after
the other with the other version, in both orders, while leases are held and waited for.

usage: run.py THIS_RLOCKD OTHER_RLOCKD"""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from servers import PATIENCE, Place, wait_for  # noqa: E402
from objects import (ENDED, FAIR, GRANTED, HELD, KINDS, LOCK, LOCKED, OWNER, READ,  # noqa: E402
                     REFUSED, WRITE, Lease, Permit, Session, expect, new_id)

# The lease of a session without ttl_ms lasts so long, and is renewed each third of it.
WATCHDOG_MS = int(2000 * PATIENCE)
FLAGS = ("--watchdog-timeout-ms", WATCHDOG_MS)
CALLER_TOKEN = "one-secret-aaaaaaaaaa"


def waiting(lease, front, count):
    wait_for(lambda: lease.look(front)["waiter_count"] == count,
             f"{count} waiters for {lease.name} ({lease.kind})")


def new_lease(kind, name, front, **fields):
    """With a session of its own where the kind needs one."""
    kind.prepare(front, name)
    return Lease(kind, name, Session(front) if kind.owner else None, **fields)


def rival(lease, front):
    """Another client that asks for the same, and may not have it at the same time."""
    kind = WRITE if lease.kind is READ else lease.kind
    return Lease(kind, lease.name, Session(front) if kind.owner else None)


# ---- one object at both versions

def held_here_asked_there(kind, here, there, name):
    lease = new_lease(kind, name, here).acquire(here)
    lease.put(there, HELD)
    seen = lease.look(there)["holders"][0]
    assert seen.get("note") == (None if kind.owner else lease.fields.get("note")), seen
    assert seen.get("owner") == kind.owner, seen
    assert seen.get("session_name") == (Session.name if lease.session else None), seen
    other = rival(lease, there)
    refused = other.put(there, LOCKED)
    assert refused.get("remaining_ms", 1) > 0, refused
    lease.renew(there)
    lease.put(here, HELD)
    lease.release(there)
    for front in (here, there):
        assert lease.release(front)["state"] == "released"
        assert lease.put(front, ENDED)["reason"] == "released"
        assert lease.renew(front, ENDED)["reason"] == "released"
    other.acquire(here)
    if lease.fencing:
        assert other.fencing > lease.fencing
    other.release(there)


def waited_for_at_both(kind, here, there, name):
    lease = new_lease(kind, name, here).acquire(here)
    first, second = rival(lease, here), rival(lease, there)
    granted = {first: first.wait(here)}
    waiting(lease, there, 1)
    granted[second] = second.wait(there)
    waiting(lease, here, 2)
    # Given up where it does not wait; another client takes the place in the line.
    third = rival(lease, there)
    given_up = third.wait(there, ENDED)
    waiting(lease, here, 3)
    third.release(here, HELD, ENDED)
    given_up.result()
    waiting(lease, here, 2)
    lease.release(there)
    wait_for(lambda: any(answer.done() for answer in granted.values()), f"a grant of {name}")
    winner = next(client for client, answer in granted.items() if answer.done())
    assert kind is not FAIR or winner is first
    granted.pop(winner).result()
    (loser, answer), = granted.items()
    assert not answer.done()
    winner.release(there if winner is first else here)
    answer.result()
    if loser.fencing:
        assert loser.fencing > winner.fencing > lease.fencing
    loser.release(here)


def forced_there(kind, here, there, name):
    """Permits are not forced."""
    lease = new_lease(kind, name, here).acquire(here)
    lease.force(there)
    assert lease.renew(here, ENDED)["reason"] == "forced"
    assert lease.put(there, ENDED)["reason"] == "forced"
    rival(lease, there).acquire(there).release(here)


def readers_share(here, there, name):
    one, two = Lease(READ, name).acquire(here), Lease(READ, name).acquire(there)
    assert len(one.look(here)["holders"]) == 2
    writer = rival(one, there)
    answer = writer.wait(there)
    waiting(one, here, 1)
    one.release(there)
    two.release(here)
    answer.result()
    writer.release(here)


def owners_re_enter(here, there, name):
    one = new_lease(OWNER, name, here).acquire(here)
    two = Lease(OWNER, name, one.session).acquire(there)
    assert two.fencing == one.fencing and two.look(here)["holders"][0]["hold_count"] == 2
    one.release(there)
    assert two.look(there)["locked"]
    two.release(here)
    assert not two.look(there)["locked"]


def sessions(here, there, name):
    session = Session(here)
    leases = [Lease(kind, f"{name}-{kind}", session, ttl_ms=None) for kind in KINDS]
    for lease in leases:
        lease.kind.prepare(here, lease.name)
        lease.acquire(here)
        lease.put(there, HELD)
    kept = session.keep_alive(there)
    assert len(kept["leases"]) == len(leases) and not kept["lost"], kept
    leases[0].force(there)
    lost = wait_for(lambda: session.keep_alive(here)["lost"], "the loss is told")
    assert [(lease["lock"], lease["reason"]) for lease in lost] == [(leases[0].name, "forced")]
    answer = rival(leases[1], here).wait(here)
    waiting(leases[1], there, 1)
    assert session.end(there)["released"] == len(leases) - 1
    answer.result()
    session.keep_alive(here, ENDED)
    for lease in leases[1:]:
        assert lease.renew(here, ENDED)["reason"] == "session-ended"


def counters(here, there, name):
    path, key = f"/v1/semaphores/{name}", {"Idempotency-Key": new_id()}
    expect(here.ask("PUT", path, None, {"permits": 3}), GRANTED)
    for front in (here, there):
        assert expect(front.ask("POST", path + "/acquire", key, {"permits": 3}), HELD)
        assert expect(front.ask("GET", path), HELD)["available"] == 0
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(here.ask, "POST", path + "/acquire", None,
                             {"permits": 2, "wait_ms": 50_000})
        wait_for(lambda: expect(there.ask("GET", path), HELD)["waiter_count"] == 1, "a waiter")
        expect(there.ask("POST", path + "/release", None, {"permits": 2}), HELD)
        expect(answer.result(), HELD)
        path, key = f"/v1/latches/{name}-latch", {"Idempotency-Key": new_id()}
        expect(here.ask("PUT", path, None, {"count": 2}), GRANTED)
        answer = pool.submit(here.ask, "GET", path + "?wait_ms=50000")
        for front in (there, here):
            assert expect(front.ask("POST", path + "/count-down", key), HELD)["count"] == 1
        expect(there.ask("POST", path + "/count-down"), HELD)
        assert expect(answer.result(), HELD)["count"] == 0


def listed(here, there, name):
    lease = Lease(LOCK, f"listed-{name}").acquire(here)
    found = expect(there.ask("GET", "/v1/locks?prefix=listed-"), HELD)["locks"]
    assert [lock["lock"] for lock in found] == [lease.name], found
    lease.release(there)


def side_by_side(pool, fronts):
    """Everything in both directions, many at a time. Returns how many checks ran."""
    checks = []
    for here, there, way in ((*fronts, "up"), (*reversed(fronts), "down")):
        for kind in KINDS:
            for check in (held_here_asked_there, waited_for_at_both, forced_there):
                if check is not forced_there or not isinstance(kind, Permit):
                    name = f"{check.__name__}-{kind}-{way}"
                    checks.append((check, kind, here, there, name))
        for check in (readers_share, owners_re_enter, sessions, counters):
            checks.append((check, here, there, f"{check.__name__}-{way}"))
    for done in [(check[-1], pool.submit(*check)) for check in checks]:
        try:
            done[1].result()
        except Exception as error:
            raise AssertionError(f"{done[0]}: {error!r}") from error
    listed(*fronts, "a")
    listed(*reversed(fronts), "b")
    return len(checks) + 2


# ---- restarts

class Held:
    """Of each kind a lease, which another client waits for, and the same of a session's without
    ttl_ms: all at this front end."""

    def __init__(self, redis, front, name):
        self.redis, self.session, self.leases, self.waiters = redis, Session(front), [], []
        for kind in KINDS:
            self.leases.append(new_lease(kind, f"{name}-{kind}", front))
            self.leases.append(Lease(kind, f"{name}-{kind}-session", self.session, ttl_ms=None))
            kind.prepare(front, self.leases[-1].name)
        for lease in self.leases:
            lease.acquire(front)
            self.waiters.append(rival(lease, front))

    def check(self, fronts):
        """Whichever front ends run now."""
        for front in fronts:
            for lease in self.leases:
                lease.put(front, HELD)
            assert not self.session.keep_alive(front)["lost"]
        watched = next(lease for lease in self.leases
                       if lease.session is self.session and lease.kind is LOCK)
        left = [self.redis.command("PTTL", watched.name)]

        def is_renewed():
            left.append(self.redis.command("PTTL", watched.name))
            assert left[-1] > 0, "the watchdog does not renew"
            return left[-1] > left[-2]
        wait_for(is_renewed, "the watchdog renews a lease")
        for lease in self.leases:
            if lease.session is not self.session:
                lease.renew(fronts[0])
        # A request that waits while its front end stops comes back with its token elsewhere.
        for waiter in self.waiters:
            waiter.put(fronts[0], LOCKED, wait_ms=1)

    def give_back(self, front, other):
        """To a waiter at the other front end."""
        for lease, waiter in zip(self.leases, self.waiters):
            granted = waiter.wait(other)
            waiting(lease, front, 1)
            lease.release(front)
            granted.result()
            waiter.release(front)


def losses(front):
    page = front.ask("GET", "/metrics")[1]
    return float(re.search(r"^rlockd_redis_data_losses_total (\S+)", page, re.M)[1])


def restarts(place, redis, old, new):
    """Front ends of the versions old, old; new, old; new, new; and back again."""
    fronts = [place.front(redis, *FLAGS, program=old) for _ in range(2)]
    held = [Held(redis, fronts[0], "restart-0")]
    for step, (which, program) in enumerate(((0, new), (1, new), (1, old), (0, old)), 1):
        assert fronts[which].stop() == 0
        fronts[which].argv[0] = program
        fronts[which].start()
        for some in held:
            some.check((fronts[which], fronts[1 - which]))
        assert not any(losses(front) for front in fronts)
        held.append(Held(redis, fronts[which], f"restart-{step}"))
    for some in held:
        some.give_back(*fronts)


# ---- what only one version knows

def callers(place, redis, old, new):
    """The caller's name in a record is no part of it for the version that knows no callers, and
    stays there."""
    tokens = place.folder / "tokens"
    hashed = subprocess.run([new, "--hash-token", "ci"], input=CALLER_TOKEN, text=True,
                            stdout=subprocess.PIPE, check=True).stdout.strip()
    tokens.write_text(f"{hashed} lock=* read=*\n", encoding="utf-8")
    here, there = (place.front(redis, *FLAGS, "--api-tokens", tokens, program=program)
                   for program in (new, old))
    headers = {"Authorization": f"Bearer {CALLER_TOKEN}", "Lease-Token": new_id()}
    for front, name in ((here, "callers-new"), (there, "callers-old")):
        path = f"/v1/locks/{name}"
        expect(front.ask("PUT", path, headers, {"ttl_ms": 60_000, "note": "n"}), GRANTED)
        for each in (there, here):
            expect(each.ask("PATCH", path, headers, {"ttl_ms": 60_000}), HELD)
            assert expect(each.ask("GET", path, headers), HELD)["holders"][0]["note"][:1] == "n"
        caller = expect(here.ask("GET", path, headers), HELD)["holders"][0].get("caller")
        assert caller == ("ci" if front is here else None), caller
        expect(there.ask("DELETE", path, headers), HELD)
        expect(here.ask("DELETE", path, headers), HELD)
    for front in (here, there):
        front.stop()


def long_leases(here, there):
    """The other version grants no lease of 366 days, and keeps those that there are."""
    days = 366 * 86_400_000
    for kind in KINDS:
        lease = new_lease(kind, f"long-{kind}", here, ttl_ms=days).acquire(here)
        lease.put(there, REFUSED)
        seen = lease.look(there)
        left = seen["holders"][0] if isinstance(kind, Permit) else seen
        assert left["remaining_ms"] > days - 3_600_000, seen
        waiter = rival(lease, there)
        answer = waiter.wait(there)
        waiting(lease, here, 1)
        lease.release(there)
        answer.result()
        waiter.release(here)


def main():
    new, old = (str(Path(path).resolve()) for path in sys.argv[1:])
    with Place("upgrade", new) as place, ThreadPoolExecutor(12) as pool:
        redis = place.redis()
        fronts = [place.front(redis, *FLAGS, program=program) for program in (old, new)]
        versions = [front.ask("GET", "/version")[1]["version"] for front in fronts]
        print(f"upgrade: {versions[0]} and {versions[1]} on one Redis", flush=True)
        count = side_by_side(pool, fronts)
        print(f"upgrade: {count} checks side by side", flush=True)
        long_leases(fronts[1], fronts[0])
        callers(place, redis, old, new)
        assert not any(losses(front) for front in fronts)
        for front in fronts:
            assert front.stop() == 0
        restarts(place, redis, old, new)
        print("upgrade: restarted with the other version and back, nothing was lost")


if __name__ == "__main__":
    main()
