#!/usr/bin/env python3
"""mutants.py [--only WORD] [--part N/M] [--seeds N] [--jobs N] [--note]: plants the bugs of
tests/faults/mutants.table, or every M-th of them, one by one in a copy of the tree, and has the
simulation find each with the seed that the table names, or else with the seeds from 1 on. The
tree as it is must not break the same rules with the same seed. Where the table names test
programs instead, a test of theirs has to fail that passes in the tree as it is. Fails when a
bug is not found, or can no longer be planted. `--note`: writes the seeds that found bugs into
the table."""
import argparse
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "faults"))
import mutants  # noqa: E402  pylint: disable=wrong-import-position

COPIED = [*mutants.SERVER, "tests/sim", "tests/checker", "tests/tests.mk", "build/tests/sim",
          "build/tests/checker"]
TESTS_COPIED = [*mutants.SERVER, "tests", "build/tests/unit", "build/tests/scripts"]
TEST_PROGRAMS = "test_*[!.]?"  # and no .c, .o or .d: what is asked is linked anew
# What the words of the table's `run` are here; those that a value follows.
FLAGS = {"--calm": "--faults=none", "--no-drain": "--no-drain", "--quorum": "--topology=quorum"}
OPTIONS = {"--only": "--faults=", "--trouble-ms": "--trouble-ms=", "--seconds": "--seconds="}


def flags_of(mutant):
    run = mutant.run
    flags = [flag for word, flag in FLAGS.items() if word in run]
    return flags + [option + run[run.index(word) + 1] for word, option in OPTIONS.items()
                    if word in run]


def broken_rules(tree, mutant, seed):
    """The rules that the run of this seed breaks."""
    command = [str(tree / "build/tests/sim/sim"), f"--seed={seed}", *flags_of(mutant)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^sim: seed \d+, history \w+: (.*)$", result.stdout, re.M)
    if not found:
        return set()  # the run broke off, which proves no rule
    return set(found[1].split()) - {"clean", "VACUOUS"}


def failed_tests(program):
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    named = set(re.findall(r"^\[  FAILED  \] (\w+)$", result.stderr, re.M))
    return named or ({"exit"} if result.returncode else set())


class Hunt:
    """The search for one bug: `seed` and `broken`, the rules or tests that flagged the bug,
    when it is over; `others`: rules that are broken beside them, or without the bug."""

    def __init__(self, mutant, options):
        self.mutant, self.options = mutant, options
        self.seed, self.broken, self.others, self.trouble = None, set(), set(), ""
        self.seconds = 0

    def try_seed(self, tree, seed):
        broken = broken_rules(tree, self.mutant, seed)
        if broken & set(self.mutant.rules):
            broken -= broken_rules(ROOT, self.mutant, seed)
        if broken & set(self.mutant.rules):
            self.seed, self.broken = seed, broken
        self.others |= broken
        return self.seed is not None

    def try_seeds(self, tree):
        self.trouble = mutants.build_with(self.mutant, tree, "build/tests/sim/sim")
        seeds = [self.mutant.seed] if self.mutant.seed else []
        seeds += [seed for seed in range(1, self.options.seeds + 1) if seed not in seeds]
        if not self.trouble:
            any(self.try_seed(tree, seed) for seed in seeds)

    def try_tests(self, tree):
        programs = [f"build/tests/{program}" for program in self.mutant.tests]
        self.trouble = mutants.build_with(self.mutant, tree, *programs)
        for program in programs if not self.trouble else []:
            self.broken |= failed_tests(tree / program) - failed_tests(ROOT / program)

    def run(self):
        tree = mutants.copy_tree(TESTS_COPIED if self.mutant.tests else COPIED,
                                 [TEST_PROGRAMS])
        try:
            began = time.monotonic()
            (self.try_tests if self.mutant.tests else self.try_seeds)(tree)
            self.seconds = time.monotonic() - began
        finally:
            shutil.rmtree(tree)
        self.tell()
        return self

    def tell(self):
        name = self.mutant.name
        if self.trouble:
            print(f"{name}: {self.trouble}", flush=True)
        elif not self.broken:
            tried = " ".join(self.mutant.tests) or f"{self.options.seeds} seeds"
            print(f"{name:30} NOT caught with {tried}"
                  f"{', which break ' + ' '.join(sorted(self.others)) if self.others else ''}: "
                  f"{self.mutant.about}", flush=True)
        else:
            is_noted = self.options.note or self.seed == self.mutant.seed
            note = "" if is_noted else ", which is not noted yet: make sim-mutants NOTE=1"
            seed = f", seed {self.seed}{note}" if self.seed else ""
            print(f"{name:30} caught in {self.seconds:4.1f} s by "
                  f"{' '.join(sorted(self.broken))}{seed}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="2/3: every third from the third on")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--note", action="store_true")
    options = parser.parse_args()
    table = HERE.parent / "faults" / "mutants.table"
    first, step = map(int, options.part.split("/"))
    chosen = [m for m in mutants.read_table(table)[first % step::step]
              if any(word in m.name for word in options.only.split(","))]
    with ThreadPoolExecutor(options.jobs) as pool:
        hunts = list(pool.map(lambda mutant: Hunt(mutant, options).run(), chosen))
    lost = [hunt.mutant.name for hunt in hunts if not hunt.broken]
    if options.note:
        mutants.note_seeds(table, {hunt.mutant.name: hunt.seed for hunt in hunts if hunt.seed})
    print(f"sim mutants: {len(chosen) - len(lost)} of {len(chosen)} caught"
          + (f"; not: {' '.join(lost)}" if lost else ""))
    return bool(lost) or not chosen


if __name__ == "__main__":
    sys.exit(main())
