#!/usr/bin/env python3
"""Clients of other lock services' protocols against rlockd; prints each check that fails.

usage: run.py [WORD]...    the checks with one of these words in their name or file's name"""
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from servers import Place  # noqa: E402
import test_fleetlock  # noqa: E402
import test_lfs  # noqa: E402
import test_security  # noqa: E402
import test_terraform  # noqa: E402
from world import World  # noqa: E402

HELPERS = {"Machine", "Repo", "Team", "direct", "each_program", "statuses"}
MODULES = [test_terraform, test_fleetlock, test_lfs, test_security]


def checks(words):
    for module in MODULES:
        for name, check in list(vars(module).items()):
            if callable(check) and check.__doc__ and name not in HELPERS and \
                    getattr(check, "__module__", "") == module.__name__ and \
                    (not words or any(word in f"{module.__name__}.{name}" for word in words)):
                yield f"{module.__name__}.{name}", check


def main():
    began, failed, count = time.monotonic(), 0, 0
    with Place("neighbours") as place:
        world = World(place)
        for name, check in checks(sys.argv[1:]):
            count += 1
            try:
                check(world)
            except Exception:
                failed += 1
                print(f"FAILED {name}: {' '.join(check.__doc__.split())}")
                traceback.print_exc(file=sys.stdout)
            world.states.go_on.set()
        world.close()
        print(f"neighbours: {count} checks, {failed} failed, {time.monotonic() - began:.0f} s")
        sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
