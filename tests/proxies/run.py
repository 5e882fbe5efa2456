#!/usr/bin/env python3
"""The recipes of examples/proxies, each before two front ends on a Redis of their own.

usage: run.py BINARY [--restarts N] [PROXY...]

Behind each proxy: a name with a slash and a chunked body get through, the log has the client's
address, a hang-up leaves nothing, and rolling restarts under load cost no request an answer
other than 2xx. A proxy that is not installed is skipped, and that is said. Fails when a check
failed or no proxy was there.
"""
import argparse
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import checks  # noqa: E402
from servers import Place  # noqa: E402
from site_of import PROXIES, Site  # noqa: E402

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "proxies"


def try_proxy(name, binary, restarts, results):
    began = time.monotonic()
    failure, notes = None, []
    try:
        with Place(name, binary) as place:
            site = Site(place, name, RECIPES)
            checks.paths_and_bodies(site)
            checks.client_address(site)
            checks.hang_up(site)
            notes.append(checks.rolling_restarts(site, restarts))
    except (checks.Failed, OSError, subprocess.SubprocessError) as error:
        failure = f"{error} (logs: {place.folder})"
    results[name] = failure
    took = f"{time.monotonic() - began:.0f} s"
    print(f"{name}: {'FAILED: ' + failure if failure else 'ok: ' + ', '.join(notes)} ({took})",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("proxies", nargs="*", default=[])
    options = parser.parse_intermixed_args()
    names = options.proxies or list(PROXIES)
    results, threads = {}, []
    for name in names:
        if shutil.which(PROXIES[name].program, path="/usr/sbin:/usr/local/sbin:"
                        "/usr/bin:/usr/local/bin:/bin:/sbin") is None:
            print(f"{name}: skipped: {PROXIES[name].program} is not installed")
            continue
        # At the same time: most of a restart is waiting.
        thread = threading.Thread(target=try_proxy, args=(name, options.binary,
                                                          options.restarts, results))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    if len(results) < len(threads) or not results:
        sys.exit("proxies: nothing was tried to its end")
    sys.exit(any(results.values()))


main()
