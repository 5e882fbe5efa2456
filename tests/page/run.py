#!/usr/bin/env python3
"""The page in Chromium, before a private rlockd with API tokens and a lock that a Java client
holds. run.sh has installed what tests/page/run.cjs needs.

usage: run.py RLOCKD [PICTURE]: PICTURE gets a picture of the page."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from java_holder import HOLDER, JavaHolder  # noqa: E402
from servers import Place  # noqa: E402

# Each token is its caller's name and this.
SECRET = "-secret-aaaaaaaa"
# What Redis has of lock.lock(Integer.MAX_VALUE, TimeUnit.DAYS).
FOREVER, FOREVER_MS = "java/forever", (2**31 - 1) * 86400000
RIGHTS = {"ops": "read=* lock=* operate=*", "reader": "read=*", "part": "read=deploy/"}


def write_tokens(place):
    path = place.folder / "tokens"
    with path.open("w", encoding="utf-8") as file:
        for caller, rights in RIGHTS.items():
            line = subprocess.run([place.binary, "--hash-token", caller], check=True, text=True,
                                  input=caller + SECRET, stdout=subprocess.PIPE).stdout
            file.write(" ".join([*line.split()[:2], rights]) + "\n")
    return path


def main():
    with Place("page", sys.argv[1]) as place:
        redis = place.redis()
        redis.command("HSET", FOREVER, HOLDER, "1")
        redis.command("PEXPIRE", FOREVER, FOREVER_MS)
        # Waits that outlast a test on a busy machine.
        front = place.front(redis, "--api-tokens", write_tokens(place), "--max-wait-ms",
                            "600000")
        with JavaHolder(place, redis, "java/report"):
            done = subprocess.run(["node", str(HERE / "run.cjs"), *sys.argv[2:]], check=False,
                                  env={**os.environ, "RLOCKD_URL": front.url})
        sys.exit(done.returncode)


main()
