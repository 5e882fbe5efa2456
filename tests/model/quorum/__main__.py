"""The quorum protocol: a lock on a majority of independent Redis masters. The model comes
first: the product's code is tested against what the model prints.

usage: python3 tests/model/quorum [--long] [--only WORD] [--brief] [--cases FILE]

Explores every state of small scenarios (locks.py, readers.py, sessions.py, masters.py,
waiters.py, notes.py): the protocol has to hold in each, and each weaker variant has to fail.
Nodes are masters that know nothing of each other. Scripts run at any time after they were sent,
or never, some of them twice; front ends conclude from any replies, late or never; clocks drift;
nodes restart without data, or with old data.

--long: every state of each scenario; without it a scenario ends after 25,000 states, that is
after all runs of some number of steps
--only: what has this word in its text     --brief: no steps that lead to counterexamples
--cases: writes the cases for the product's code

Checked in every state (client.py, waiters.py, notes.py):
  S1  fencing tokens grow from grant to grant; a lease keeps its token
  S2  no two leases that exclude each other are relied on at a time, by what was answered
  S3  a request that begins after the end of its lease or session was answered holds nothing
  S   a session lasts until the deadline that its client was answered
  L   what may be granted can be granted; a refused request leaves no votes; no wake-up is lost
  N, T  no note of a lease that holds goes, no loss goes that was not told, none is told twice
  D2, O2, O3, R2  DELETE, GET and the check of a token answer the truth; renewed leases last"""
import argparse
import sys
import time

import cases
import locks
import masters
import notes
import readers
import search
import sessions
import waiters

PARTS = ((locks, search), (readers, search), (sessions, search), (masters, search),
         (waiters, waiters), (notes, notes))
STATES_IN_CI = 25_000
STATES_MAX = 5_000_000


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--cases")
    return parser.parse_args()


def show(steps):
    for step in steps:
        print("      " + step)


def check_scenario(explore, name, how, is_long):
    """Whether the protocol holds. In the short form a scenario may stop at the bound."""
    count, violated, steps = explore(how, STATES_MAX if is_long else STATES_IN_CI)
    stopped = not is_long and violated and violated.startswith("not finished")
    print(f"  {name:66} {count:8} states  "
          f"{'holds so far' if stopped else violated or 'holds'}", flush=True)
    if violated and not stopped:
        show(steps)
    return count, not violated or stopped


def check_variant(explore, rule, name, how, has_trace):
    """Whether the weaker variant fails, as it has to."""
    count, violated, steps = explore(how, 1_000_000)
    refuted = violated and not violated.startswith("not finished")
    print(f"  {rule:4} {name}: {violated or 'NO COUNTEREXAMPLE'} ({count} states)", flush=True)
    if has_trace:
        show(steps)
    return refuted


def main():
    asked = arguments()
    failed, total, scenarios, variants, refuted = [], 0, 0, 0, set()
    began = time.process_time()
    if asked.cases:
        count, missing = cases.write(asked.cases)
        print(f"{count} cases in {asked.cases}")
        failed += [f"no case of {rule}" for rule in missing]
    print("The protocol")
    for part, explorer in PARTS:
        for name, how in part.SCENARIOS:
            if asked.only in name:
                count, holds = check_scenario(explorer.explore, name, how, asked.long)
                total, scenarios = total + count, scenarios + 1
                failed += [] if holds else [name]
    print("Weaker variants, each of which has to fail")
    for part, explorer in PARTS:
        for rule, name, how in part.VARIANTS:
            if asked.only in name:
                variants += 1
                is_refuted = check_variant(explorer.explore, rule, name, how, not asked.brief)
                failed += [] if is_refuted else [name]
                refuted |= {rule}
    if not asked.only:
        failed += [f"no variant of {rule}" for rule in cases.RULES if rule not in refuted]
    print(f"{'UNEXPECTED: ' + '; '.join(failed) if failed else 'The quorum protocol holds'}: "
          f"{total} states of {scenarios} scenarios, {variants} weaker variants "
          f"({time.process_time() - began:.0f} s of CPU)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
