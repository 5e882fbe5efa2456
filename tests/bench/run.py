#!/usr/bin/env python3
"""run.py BUILD: measures rlockd, and what it is measured against, in the same run: rounds A B A
B, medians. Prints each target with its figure, writes build/bench/results.json,
tests/bench/results.md and .svg, and the README's table. BENCH_SECONDS a row (2), BENCH_ROUNDS
(3)."""
import json
import os
import platform
import resource
import statistics
import sys
import time
from pathlib import Path

import measure
import report
from servers import Place, Redis
from targets import judge

SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CONNECTIONS = (16, 64, 256)
HANDOFFS = ((1, False), (100, False), (10000, False), (100, True))
WAITERS = (10000, 50000)
PARK_ROUNDS = 3  # alone, beside waiters, alone, beside, … in each round of the whole
WORKERS = (1, 2, 4)
HELD = (10, 1000, 100000)
WATCHED = (10000, 100000)
OTHERS_PERCENT_MAX = 20  # of one core; with more of it, figures that are times say little


class Results:
    """Rows of figures, several rounds each, and what was left out and why."""

    def __init__(self):
        self.rounds, self.left_out = {}, []

    def add(self, row, figures):
        self.rounds.setdefault(row, []).append(figures)
        print(f"  {row:34}" + "  ".join(f"{name} {value:,.1f}" if value < 1000 else
                                        f"{name} {value:,.0f}"
                                        for name, value in figures.items()), flush=True)

    def leave_out(self, what, why):
        if (what, why) not in self.left_out:
            self.left_out.append((what, why))
            print(f"  left out: {what}: {why}", flush=True)

    def medians(self):
        rows = {}
        for row, rounds in self.rounds.items():
            rows[row] = {name: statistics.median(figures[name] for figures in rounds)
                         for name in rounds[0]}
        return rows


def machine():
    """One line on what it ran on."""
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} × {model}, Linux {kernel}"


def start_all(place, results):
    """The servers of the uncontended rows; rlockd anew for each round."""
    redis = Redis(place)
    peers = [place.bare()]
    for name, start in (("webdis", lambda: place.webdis(redis)), ("etcd", place.etcd)):
        server = start()
        if server is None:
            results.leave_out(name, "not installed")
        else:
            peers.append(server)
    return redis, peers


def uncontended(place, redis, peers, results):
    server = place.rlockd(redis)
    for connections in CONNECTIONS:
        for each in [server, *peers]:
            if each.dialect == "etcd" and connections == 256:
                continue  # past its best, and it takes the machine with it
            results.add(f"{each.dialect} {connections}",
                        measure.cycles(place, each, redis, connections, SECONDS))
    place.stop(server.process)


def waiting(place, redis, results):
    for waiters, second in HANDOFFS:
        if waiters + 200 > descriptors():
            results.leave_out(f"hand-off, {waiters} waiters", "the descriptor limit is low")
            continue
        row = f"handoff {waiters}" + (" second" if second else "")
        results.add(row, measure.handoff(place, redis, waiters, SECONDS, second))


def parked(place, redis, results, round_number):
    possible = (descriptors() * 3 // 4 - 500) // 1000 * 1000  # a quarter stays for others
    for waiters in WAITERS:
        if waiters > possible:
            results.leave_out(f"{waiters} parked waiters",
                              "each needs a descriptor, and the limit of open files here is "
                              f"{descriptors()}: {possible} instead")
        if waiters == WAITERS[0] or round_number == 0:
            results.add(f"parked {min(waiters, possible)}",
                        measure.park(place, redis, min(waiters, possible), SECONDS,
                                     PARK_ROUNDS))


def growth(place, redis, results):
    for workers in WORKERS:
        server = place.rlockd(redis, "--workers", str(workers))
        results.add(f"workers {workers}",
                    measure.cycles(place, server, redis, 64, SECONDS))
        place.stop(server.process)
    server = place.rlockd(redis)
    for locks in HELD:
        results.add(f"held {locks}", measure.held(place, server, redis, locks, SECONDS))
    place.stop(server.process)
    redis.command("FLUSHALL")


def system_calls(place, redis, results):
    server = place.rlockd(redis)
    by_perf = measure.has_perf()
    for connections in CONNECTIONS:
        figures = {"strace": measure.system_calls(place, server, connections)}
        if figures["strace"] is None:
            results.leave_out("system calls", "no permission to trace")
            break
        if by_perf:
            figures["perf"] = measure.system_calls_by_perf(place, server, connections)
        results.add(f"system calls {connections}", figures)
    place.stop(server.process)


def watchdog(place, redis, results):
    for locks in WATCHED:
        results.add(f"watchdog {locks}", measure.watchdog(place, redis, locks))


def cpu_used_s():
    """By the whole machine, and by this run: what is over belongs to others."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return ((sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"),
            sum(use.ru_utime + use.ru_stime for use in ours))


def descriptors():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def main():
    build = Path(sys.argv[1])
    started, used_before = time.monotonic(), cpu_used_s()
    results = Results()
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors(), descriptors()))
    with Place(build) as place:
        redis, peers = start_all(place, results)
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", flush=True)
            uncontended(place, redis, peers, results)
            waiting(place, redis, results)
            parked(place, redis, results, number)
            growth(place, redis, results)
        system_calls(place, redis, results)
        watchdog(place, redis, results)
    took_s = time.monotonic() - started
    machine_s, ours_s = (now - then for now, then in zip(cpu_used_s(), used_before))
    document = {"machine": machine(),
                "others_percent": round(100 * max(machine_s - ours_s, 0) / took_s),
                "seconds": SECONDS, "rounds": ROUNDS,
                "took_s": round(took_s),
                "rows": results.medians(), "every_round": results.rounds,
                "left_out": results.left_out}
    document["targets"] = judge(document["rows"])
    (build / "bench").mkdir(exist_ok=True)
    (build / "bench/results.json").write_text(json.dumps(document, indent=1) + "\n")
    report.write(document, Path(__file__).parent)
    print()
    if document["others_percent"] > OTHERS_PERCENT_MAX:
        print(f"note: other processes took {document['others_percent']} % of a core meanwhile: "
              "believe no figure that is a time")
    for target in document["targets"]:
        print(f"{target['verdict']:18} {target['figure']:>10}  {target['what']}")


main()
