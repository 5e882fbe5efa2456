#!/usr/bin/env python3
"""run.py BUILD: measures rlockd, and what it is measured against, in the same run: rounds A B A
B, medians. Prints each target with its figure, writes build/bench/results.json,
tests/bench/results.md and .svg, and the README's figures. BENCH_SECONDS a row (2), BENCH_ROUNDS
(3). BENCH_PARTS="contended mixed": only these parts; that prints, and writes
build/bench/parts.json and nothing else. BENCH_BASE=COMMIT: that version beside this one.
BENCH_MANY: see growth.py."""
import json
import os
import platform
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import report  # noqa: E402
from measure import descriptors  # noqa: E402
from parts import LAST_PARTS, ROUND_PARTS, SECONDS, Bench  # noqa: E402
from peers import Place  # noqa: E402
from targets import judge  # noqa: E402

CHOSEN = os.environ.get("BENCH_PARTS", "").split()
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
MESSAGES = 5000
OTHERS_PERCENT_MAX = 20  # of one core; with more of it, figures that are times say little


class Results:
    """Rows of figures, several rounds each, and what was left out and why."""

    def __init__(self):
        self.rounds, self.left_out, self.part_took_s = {}, [], {}

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


def message_us():
    """Of a byte that goes to a process on another core and comes back, the median: each wakes
    the other, and a contended lock changes hands by such messages."""
    (here, there), times, cores = socket.socketpair(), [], os.sched_getaffinity(0)
    echo = os.fork()
    os.sched_setaffinity(0, {max(cores) if echo == 0 else min(cores)})
    if echo == 0:
        here.close()
        while there.recv(1):
            there.send(b".")
        os._exit(0)
    there.close()
    for _ in range(MESSAGES):
        began = time.perf_counter_ns()
        here.send(b".")
        here.recv(1)
        times.append(time.perf_counter_ns() - began)
    here.close()
    os.waitpid(echo, 0)
    os.sched_setaffinity(0, cores)
    return statistics.median(times) / 1000


def run_parts(bench, parts):
    for name, part in parts.items():
        if not CHOSEN or name in CHOSEN:
            started = time.monotonic()
            part(bench)
            took = bench.results.part_took_s
            took[name] = round(took.get(name, 0) + time.monotonic() - started, 1)


def cpu_used_s():
    """By the whole machine, and by this run: what is over belongs to others."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return ((sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"),
            sum(use.ru_utime + use.ru_stime for use in ours))


def write(document, build):
    (build / "bench").mkdir(exist_ok=True)
    name = "parts.json" if CHOSEN else "results.json"
    (build / "bench" / name).write_text(json.dumps(document, indent=1) + "\n")
    if not CHOSEN:
        report.write(document, Path(__file__).parent)


def print_targets(document):
    print("\ntook, s: " + ", ".join(f"{name} {took:.0f}"
                                    for name, took in document["part_took_s"].items()))
    print("a byte to another core and back, µs: " +
          ", ".join(f"{us:g}" for us in document["message_us"]))
    if document["others_percent"] > OTHERS_PERCENT_MAX:
        print(f"note: other processes took {document['others_percent']} % of a core meanwhile: "
              "believe no figure that is a time")
    for target in document["targets"]:
        if CHOSEN and target["verdict"] == "left out":
            continue
        print(f"{target['verdict']:18} {target['figure']:>10}  {target['what']}")


def main():
    build = Path(sys.argv[1])
    unknown = set(CHOSEN) - {*ROUND_PARTS, *LAST_PARTS}
    if unknown:
        sys.exit(f"BENCH_PARTS: {' '.join(unknown)}? " + " ".join([*ROUND_PARTS, *LAST_PARTS]))
    started, used_before = time.monotonic(), cpu_used_s()
    results, messages_us = Results(), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors(), descriptors()))
    with Place(build) as place:
        bench = Bench(place, results)
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", flush=True)
            messages_us.append(message_us())
            run_parts(bench, ROUND_PARTS)
        run_parts(bench, LAST_PARTS)
    took_s = time.monotonic() - started
    machine_s, ours_s = (now - then for now, then in zip(cpu_used_s(), used_before))
    document = {"machine": machine(), "message_us": [round(us, 1) for us in messages_us],
                "others_percent": round(100 * max(machine_s - ours_s, 0) / took_s),
                "seconds": SECONDS, "rounds": ROUNDS,
                "took_s": round(took_s), "part_took_s": results.part_took_s,
                "rows": results.medians(), "every_round": results.rounds,
                "left_out": results.left_out}
    document["targets"] = judge(document["rows"])
    write(document, build)
    print_targets(document)


main()
