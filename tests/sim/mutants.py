#!/usr/bin/env python3
"""mutants.py [--only WORD] [--seeds N] [--jobs N]: plants the bugs of
tests/faults/mutants.table one by one in a copy of the tree, and has the simulation find each.
Fails when a bug is not found, or can no longer be planted."""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "faults"))
import mutants  # noqa: E402  pylint: disable=wrong-import-position

COPIED = ["Makefile", "openapi.yaml", "server", "storage", "handlers", "tests/sim",
          "tests/checker", "build"]
LEFT_OUT = shutil.ignore_patterns("sanitize", "coverage", "fuzz", "unit", "e2e", "clients",
                                  "__pycache__")


def copy_tree():
    tree = Path(tempfile.mkdtemp(prefix="rlockd-sim-mutant-"))
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            # times as they are: nothing is compiled that has not changed
            shutil.copytree(source, tree / name, symlinks=True, ignore=LEFT_OUT)
        else:
            shutil.copy2(source, tree / name)
    return tree


def flags_of(mutant):
    flags = ["--faults=none"] if "--calm" in mutant.run else []
    if "--only" in mutant.run:
        flags.append("--faults=" + mutant.run[mutant.run.index("--only") + 1])
    if "--trouble-ms" in mutant.run:
        flags.append("--trouble-ms=" + mutant.run[mutant.run.index("--trouble-ms") + 1])
    if "--no-drain" in mutant.run:
        flags.append("--no-drain")
    return flags


def find_from(tree, mutant, options, first):
    """Each seed whose run broke rules, with the rules: the first one, and those beside it."""
    command = [str(tree / "build/tests/sim/sim"), f"--seeds={options.seeds - first + 1}",
               f"--seed={first}", "--first", f"--jobs={options.jobs}", *flags_of(mutant)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(result.stdout + result.stderr)
    broken = re.findall(r"^sim: seed (\d+): (.*)$", result.stdout, re.M)
    return [(int(seed), set(rules.split()) - {"VACUOUS"}) for seed, rules in broken]


def find(tree, mutant, options):
    """The seed that shows the bug, the rules that it breaks, and what broke before."""
    first, others = 1, set()
    while first <= options.seeds:
        found = find_from(tree, mutant, options, first)
        for seed, rules in found:
            if rules & set(mutant.rules):
                return seed, rules, others
            others |= rules
        if not found:
            break
        first = max(seed for seed, _ in found) + 1
    return None, set(), others


def build_with(mutant, tree):
    """A complaint; none: it is built."""
    files = mutants.planted(mutant, tree)
    if isinstance(files, str):
        return f"cannot be planted: {files}"
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    made = subprocess.run(["make", "-C", str(tree), "-s", "-j2", "build/tests/sim/sim"],
                          capture_output=True, text=True, check=False)
    return f"does not compile\n{made.stderr}" if made.returncode else None


def hunt(mutant, options):
    """Whether it was found."""
    tree = copy_tree()
    try:
        trouble = build_with(mutant, tree)
        if trouble:
            print(f"{mutant.name}: {trouble}", flush=True)
            return False
        began = time.monotonic()
        seed, broken, others = find(tree, mutant, options)
        if seed:
            print(f"{mutant.name:30} caught in {time.monotonic() - began:4.1f} s by "
                  f"{' '.join(sorted(broken))}, seed {seed}", flush=True)
        else:
            print(f"{mutant.name:30} NOT caught with {options.seeds} seeds"
                  f"{', which break ' + ' '.join(sorted(others)) if others else ''}: "
                  f"{mutant.about}", flush=True)
        return seed is not None
    finally:
        shutil.rmtree(tree)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    table = HERE.parent / "faults" / "mutants.table"
    chosen = [m for m in mutants.read_table(table)
              if any(word in m.name for word in options.only.split(","))]
    lost = [m.name for m in chosen if not hunt(m, options)]
    print(f"sim mutants: {len(chosen) - len(lost)} of {len(chosen)} caught"
          + (f"; not: {' '.join(lost)}" if lost else ""))
    return bool(lost) or not chosen


if __name__ == "__main__":
    sys.exit(main())
