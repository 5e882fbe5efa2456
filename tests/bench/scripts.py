#!/usr/bin/env python3
"""scripts.py BUILD: what requests cost Redis' only thread in its scripts, in microseconds a
request, beside `return 1` in the same run: medians of interleaved rounds. The scripts are run
by a real rlockd that answers HTTP; Redis says what they took (INFO commandstats)."""
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from operations import (FEW_LEASES, PHASES, WATCHDOG_TIMEOUT_MS, WHAT,  # noqa: E402
                        Operations)
from peers import Place  # noqa: E402

CALLS, ROUNDS = 200, 7
# The watchdog renews all leases within moments and then rests: a script after a pause takes
# 100 us longer, for caches are cold. So many leases that such scripts, one or two for each
# pause, do not count.
RENEWALS = 2000
# Leases a session.
WATCHED = {"watchdog": 200, "watchdog_few": FEW_LEASES, "watchdog_one": 1}
NOTHING = "return 1"
HEAD = ("| request | µs in scripts | grants | scripts |", "|---|---:|---:|---:|")


def nothing(redis):
    """Microseconds of an empty script, asked for one after the other like the rest."""
    sha1 = redis.command("SCRIPT", "LOAD", NOTHING)
    redis.command("CONFIG", "RESETSTAT")
    for _ in range(CALLS):
        redis.command("EVALSHA", sha1, "0")
    calls, us = redis.script_us()
    return us / calls, 1


def requests(redis, operations, kind):
    """Microseconds in scripts, and scripts, of one request."""
    operations.prepare(redis, kind, CALLS)
    redis.command("CONFIG", "RESETSTAT")
    operations.run(kind, CALLS)
    calls, us = redis.script_us()
    return us / CALLS, calls / CALLS


def renewals(redis, operations, per_session):
    """The same of a renewal by the watchdog; its batches have a share of their session's."""
    operations.hold_leases(redis, RENEWALS, per_session)
    operations.await_renewals(RENEWALS)  # the first of a lease writes a mark, too
    before = operations.renewals()
    redis.command("CONFIG", "RESETSTAT")
    renewed = operations.await_renewals(RENEWALS, before)
    calls, us = redis.script_us()
    return us / renewed, calls / renewed


def measure(place):
    """name -> medians: microseconds, how many grants that is, scripts."""
    redis = place.redis()
    server = place.rlockd(redis)
    operations = Operations(server)
    taken = {"nothing": [], **{kind: [] for kind in PHASES},
             **{kind: [] for kind in WATCHED}}
    for _ in range(ROUNDS):
        taken["nothing"].append(nothing(redis))
        for kind in PHASES:
            taken[kind].append(requests(redis, operations, kind))
    server.stop()
    watching = place.rlockd(redis, "--watchdog-timeout-ms", str(WATCHDOG_TIMEOUT_MS))
    for _ in range(ROUNDS):
        for kind, per_session in WATCHED.items():
            taken[kind].append(renewals(redis, Operations(watching), per_session))
    watching.stop()
    redis.stop()
    us = {kind: statistics.median(us for us, _ in each) for kind, each in taken.items()}
    return {kind: {"us": us[kind], "grants": us[kind] / us["grant"],
                   "scripts": statistics.median(count for _, count in each)}
            for kind, each in taken.items()}


def table(figures):
    what = {"nothing": "`return 1`", **WHAT}
    return [f"| {what[kind]} | {each['us']:.1f} | {each['grants']:.2f} | "
            f"{each['scripts']:.2f} |" for kind, each in figures.items()]


def main():
    with Place(sys.argv[1]) as place:
        figures = measure(place)
    print(*HEAD, *table(figures), sep="\n")


if __name__ == "__main__":
    main()
