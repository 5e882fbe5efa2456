#!/usr/bin/env python3
"""coverage.py BUILD [--seeds N] [--seed S] [--jobs N] [--again]: runs the simulation of a
build with --coverage, and prints for each part of MEASURED how many branches of its files were
taken at least once, and which were not. Fails when a part is below BOUND_PERCENT. --again:
counts what the last run took, without another one."""
import argparse
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BOUND_PERCENT = 95
MEASURED = {
    "waiters": ["storage/wait/waiters.c", "storage/wait/baton.c", "storage/wait/line.c",
                "storage/wait/next_waiter.c", "storage/wait/queue.c",
                "storage/wait/place.c", "storage/wait/share.c",
                "storage/wait/session_watch.c"],
    "acquisitions": ["storage/wait/acquire.c", "storage/wait/acquire_state.c",
                     "storage/wait/acquire_end.c"],
    "hand-overs": ["storage/wait/release.c", "storage/wait/deferral.c",
                   "storage/lease/hand_over.c"],
    "passing on": ["storage/wait/pass_on.c", "storage/wait/neighbours.c",
                   "server/base/inbox.c"],
    "withdrawals": ["storage/lease/withdraw.c"],
    "watchdog": ["storage/session/watchdog.c", "storage/session/visit.c",
                 "storage/notes/settle.c", "storage/store/visits.c"],
}

# Not counted:
# - assertions: the build has none;
# - what follows an allocation that failed;
# - the inside of the macros by which uthash and utlist keep tables and lists;
# - the way past all cases of a switch that has one for each value;
# - a kernel that refuses a descriptor or interrupts a write;
# - a full inbox, which the harness plays;
# - a reply of a script in a form that no script has: `make fuzz` makes those up;
# - what only API tokens reach, which the simulation has not.
ALLOCATED = re.compile(r"(\w+(?:->\w+)?) = (?:calloc|malloc|inbox_new)\(")
FAILED = re.compile(r"if \((\w+(?:->\w+)?) == NULL\)")
TABLE = re.compile(r"\b(HASH_(ADD|DEL|FIND|ITER)|DL_(DELETE|APPEND|PREPEND))\w*\(")
ELSEWHERE = re.compile(r">may_wait\(|INBOX_MAX|watch\.fd (>=|<) 0|EINTR|"
                       r"value_count\(.*_REPLY_\w+\)\) >=$")


def run_seeds(build, options):
    for old in build.rglob("*.gcda"):
        old.unlink()
    command = [str(build / "tests/sim/sim"), f"--seeds={options.seeds}",
               f"--seed={options.seed}", f"--jobs={options.jobs}"]
    result = subprocess.run(command, check=False)
    if result.returncode not in (0, 1):
        sys.exit("the simulation did not run")


def uncounted(lines):
    """The numbers of the lines whose branches are none of ours."""
    numbers, allocated = set(), {}
    for number, text in enumerate(lines, 1):
        match = ALLOCATED.search(text)
        if match:
            allocated[match.group(1)] = number
        match = FAILED.search(text)
        if match and number - allocated.get(match.group(1), -9) <= 3:
            numbers.add(number)
        if TABLE.search(text) or ELSEWHERE.search(text):
            numbers.add(number)
    return numbers


def gcov(build, path):
    """Line number -> how often each branch of the line was taken."""
    output = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout",
                             str(build / path.with_suffix(".gcda"))],
                            cwd=ROOT, capture_output=True, check=True).stdout
    if output[:2] == b"\x1f\x8b":
        output = gzip.decompress(output)
    taken = {}
    for file in json.loads(output)["files"]:
        if file["file"] != str(path):
            continue
        for line in file["lines"]:
            counts = [branch["count"] for branch in line["branches"]]
            taken.setdefault(line["line_number"], []).extend(counts)
    return taken


def branches_of_switch(lines, number, count):
    """The numbers of the branches of a line that are ours. Of a switch that has a case for each
    value the way past all cases is none, nor are cases of replies that cannot be read."""
    indent = lines[number - 1][:-len(lines[number - 1].lstrip())]
    if not lines[number - 1].startswith(indent + "switch ("):
        return range(count)
    cases = []
    for line in lines[number:]:
        if line == indent + "}":
            return [i for i in range(count - 1)
                    if i >= len(cases) or not cases[i].endswith("_UNREADABLE:")]
        if line.startswith(indent + "default:"):
            break
        if line.startswith(indent + "case "):
            cases.append(line)
    return range(count)


def measure(build, path):
    """How many branches there are, how many were taken, and the lines of the others."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    left_out = uncounted(lines)
    total, taken, missed = 0, 0, []
    for number, counts in sorted(gcov(build, path).items()):
        if number in left_out:
            continue
        counts = [counts[i] for i in branches_of_switch(lines, number, len(counts))]
        total += len(counts)
        taken += sum(count > 0 for count in counts)
        if not all(counts):
            missed.append((number, [i for i, count in enumerate(counts) if not count],
                           lines[number - 1].strip()))
    return total, taken, missed


def measure_part(build, name, files):
    """Whether enough of its branches were taken."""
    total, taken = 0, 0
    for file in files:
        path = Path(file)
        of_file, taken_of_file, missed = measure(build, path)
        total += of_file
        taken += taken_of_file
        print(f"  {file:36} {taken_of_file:4} of {of_file:4}  "
              f"{100 * taken_of_file / of_file:5.1f} %")
        for number, which, text in missed:
            print(f"    {number}: {text}   [{' '.join(map(str, which))}]")
    print(f"{name:38} {taken:4} of {total:4}  {100 * taken / total:5.1f} %")
    return 100 * taken >= BOUND_PERCENT * total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    if not options.again:
        run_seeds(build, options)
    low = [name for name, files in MEASURED.items() if not measure_part(build, name, files)]
    if low:
        print(f"sim-coverage: below {BOUND_PERCENT} %: {' '.join(low)}")
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
