#!/usr/bin/env python3
"""Runs the checks of checks.py with a client behind its adapter, several checks at a time.

usage: run.py CLIENT [CHECK]...

CLIENT is rlock or a client of clients/, or the path of an adapter, which is started once for
each check. Prints a line for each check that fails; status 1 if one did. With the client
`mutants` each check has a client of its own that is broken on purpose, and has to fail.
docs/conformance.md describes adapters."""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
if sys.argv[1:2] == ["mutants"]:  # bounds for a slow machine would let broken clients pass
    os.environ["E2E_PATIENCE"] = "1"
sys.path.insert(0, str(HERE.parent / "lib"))
from servers import Place  # noqa: E402
import mutants  # noqa: E402
from checks import CHECKS  # noqa: E402
from trial import Trial  # noqa: E402

AT_A_TIME = 8
CLIENTS, BUILT = HERE.parents[1] / "clients", HERE.parents[1] / "build/conformance"


def adapter(client):
    """The command of its adapter."""
    for ending, interpreter in (("py", sys.executable), ("mjs", "node")):
        if (file := HERE / f"adapter_{client}.{ending}").exists():
            return [interpreter, str(file)]
    built = BUILT / f"adapter_{client}"
    return [str(built if built.exists() else Path(client).resolve())]


def failure(place, fronts, check, command):
    """What was wrong, or None."""
    trial = Trial(place, fronts, command)
    try:
        check(trial)
        return None
    except Exception as error:
        return f"{check.__name__}: {check.__doc__}: {error or type(error).__name__}"
    finally:
        trial.close()


def failures(trials):
    """Of pairs of a check and a command, in their order."""
    with Place("conformance") as place:
        place.shared = place.redis()
        fronts = [place.front(place.shared) for _ in range(2)]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return list(pool.map(lambda trial: failure(place, fronts, *trial), trials))


def of_client(client, checks):
    results = failures([(check, adapter(client)) for check in checks])
    return [result for result in results if result]


def of_mutants(checks):
    """The mutants that no check has found."""
    source = (CLIENTS / "python/rlockd.py").read_text(encoding="utf-8")
    by_name = {check.__name__: check for check in checks}
    with mutants.temporary() as folder:
        made = [(name, file) for name, file in mutants.write_all(source, folder)
                if name in by_name]
        results = failures([(by_name[name], ["env", f"CONFORMANCE_MODULE={file}",
                                             *adapter("python")]) for name, file in made])
    without = set(by_name) - {name for name, _ in made}
    return [f"{name}: there is no mutant" for name in sorted(without)] + \
        [f"{name}: passes with a client that breaks its rule, {file.stem}"
         for (name, file), result in zip(made, results) if not result]


def main():
    client, *chosen = sys.argv[1:]
    checks = [check for check in CHECKS if not chosen or check.__name__ in chosen]
    assert len(checks) >= len(chosen) > 0 or not chosen, f"no such check: {chosen}"
    began = time.monotonic()
    found = of_mutants(checks) if client == "mutants" else of_client(client, checks)
    for line in found:
        print(line)
    print(f"{client}: {len(checks)} checks, {len(found)} failed, "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
