#!/usr/bin/env python3
"""coverage.py BUILD [--seeds N] [--seed S] [--jobs N] [--all]: runs the simulation of a build with
--coverage, and prints for each file of MEASURED how many of its branches were taken at least
once, and which were not. Fails when a file is below BOUND_PERCENT. --all: so many of every file
that the simulation has."""
import argparse
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BOUND_PERCENT = 95
MEASURED = ["storage/wait/*.c", "storage/objects/hand_over.c", "storage/objects/session_visit.c",
            "storage/objects/watchdog.c", "storage/objects/withdraw.c"]

# Not counted: assertions (the build has none), what follows an allocation that failed, and the
# inside of the macros by which uthash keeps its tables.
ALLOCATED = re.compile(r"(\w+(?:->\w+)?) = (?:calloc|malloc)\(")
FAILED = re.compile(r"if \((\w+(?:->\w+)?) == NULL\)")
TABLE = re.compile(r"\bHASH_(ADD|DEL|FIND)\w*\(")


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
        if TABLE.search(text):
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


def measure(build, path):
    """How many branches there are, how many were taken, and the lines of the others."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    left_out = uncounted(lines)
    total, taken, missed = 0, 0, []
    for number, counts in sorted(gcov(build, path).items()):
        if number in left_out:
            continue
        total += len(counts)
        taken += sum(count > 0 for count in counts)
        if not all(counts):
            missed.append((number, [i for i, count in enumerate(counts) if not count],
                           lines[number - 1].strip()))
    return total, taken, missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--again", action="store_true", help="count what an earlier run took")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    if not options.again:
        run_seeds(build, options)
    globs = ["server/**/*.c", "storage/**/*.c", "handlers/*.c"] if options.all else MEASURED
    paths = [path.relative_to(ROOT) for glob in globs for path in sorted(ROOT.glob(glob))]
    low = []
    for path in paths:
        if not (build / path.with_suffix(".gcda")).exists():
            continue
        total, taken, missed = measure(build, path)
        percent = 100 * taken / total if total else 100
        print(f"{path!s:40} {taken:4} of {total:4} branches {percent:5.1f} %")
        if options.all:
            continue
        for number, which, text in missed:
            print(f"    {number}: {text}   [{' '.join(map(str, which))}]")
        if percent < BOUND_PERCENT:
            low.append(str(path))
    if low:
        print(f"sim-coverage: below {BOUND_PERCENT} %: {' '.join(low)}")
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
