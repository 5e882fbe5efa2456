#!/usr/bin/env python3
"""The unit of systemd without systemd: its keys and how exposed the service is, by
systemd-analyze; and that SystemCallFilter refuses no system call of rlockd and of its embedded
Redis, from the start to the end, by strace.

usage: test_unit.py RLOCKD"""
import configparser
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

EXPOSURE_MAX = 1.5
UNIT = Path("deploy/systemd/rlockd.service")
SOCKET = UNIT.with_suffix(".socket")
PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], text=True, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def test_keys(folder, binary):
    """With the program that was built, for the verification looks for it."""
    for path in (UNIT, SOCKET):
        text = path.read_text(encoding="utf-8").replace("/usr/bin/rlockd", str(binary))
        (folder / path.name).write_text(text, encoding="utf-8")
    told = analyze("verify", "--man=no", folder / UNIT.name, folder / SOCKET.name)
    ours = [line for line in told.stdout.splitlines() if "rlockd" in line]
    assert not ours, "\n".join(ours)


def section(path, name):
    """The last value of each key."""
    units = configparser.ConfigParser(strict=False, interpolation=None)
    units.optionxform = str
    units.read(path, encoding="utf-8")
    return units[name]


def test_passing_failures():
    """An address that comes late at boot, a port that is not free yet: rlockd tries again."""
    assert section(UNIT, "Unit").get("StartLimitIntervalSec") == "0"
    assert section(SOCKET, "Socket").get("FreeBind") == "yes"


def test_exposure():
    threshold = int(EXPOSURE_MAX * 10)
    told = analyze("security", "--offline=yes", f"--threshold={threshold}", UNIT)
    assert told.returncode == 0, told.stdout
    print(told.stdout.strip().splitlines()[-1])


def calls_of(names):
    """The system calls of a list of the unit, in which @ begins a set."""
    found = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        told = analyze("syscall-filter", name)
        assert told.returncode == 0, told.stdout
        lines = [line.strip() for line in told.stdout.splitlines()[1:]]
        found |= calls_of(line for line in lines if line and not line.startswith("#"))
    return found


def allowed_calls():
    allowed = set()
    for value in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(encoding="utf-8"), re.M):
        refuses = value.startswith("~")
        calls = calls_of(value.lstrip("~").split())
        allowed = allowed - calls if refuses else allowed | calls
    return allowed


def wait_for(condition, what):
    end = time.monotonic() + 20 * PATIENCE
    while not condition():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.05)


def use(log, child):
    """A lock, a reload, the end. strace leaves its child's SIGTERM to the child."""
    def listening():
        assert child.poll() is None, log.read_text(encoding="utf-8")
        return '"listening"' in log.read_text(encoding="utf-8")

    wait_for(listening, "rlockd listens")
    lines = log.read_text(encoding="utf-8").splitlines()
    line = next(json.loads(line) for line in lines if '"listening"' in line)
    url = f"http://{line['listen']}"

    def ready():
        with contextlib.suppress(urllib.error.HTTPError):
            with urllib.request.urlopen(f"{url}/readyz", timeout=20) as answer:
                return answer.status == 200
        return False

    wait_for(ready, "rlockd is ready")
    request = urllib.request.Request(f"{url}/v1/locks/x?ttl_ms=1000",
                                     method="PUT", headers={"Lease-Token": str(uuid.uuid4())})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 201
    pid = int(subprocess.run(["pgrep", "-P", str(child.pid)], check=True, text=True, timeout=20,
                             stdout=subprocess.PIPE).stdout.split()[0])
    os.kill(pid, signal.SIGHUP)
    wait_for(lambda: "nothing to reload" in log.read_text(encoding="utf-8"), "a reload")
    os.kill(pid, signal.SIGTERM)
    assert child.wait(timeout=60 * PATIENCE) == 0


def test_calls(folder, binary):
    log, trace = folder / "log", folder / "trace"
    with log.open("w", encoding="utf-8") as out:
        child = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", trace, binary, "--listen", "127.0.0.1:0",
             "--data-dir", folder / "data", "--workers", "2"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=out)
    try:
        use(log, child)
    finally:
        if child.poll() is None:
            child.kill()
    made = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>)",
                          trace.read_text(encoding="utf-8", errors="replace"), re.M))
    assert {"execve", "epoll_wait", "fork", "clone", "clone3"} & made and len(made) > 30, made
    refused = made - allowed_calls()
    assert not refused, f"SystemCallFilter refuses {sorted(refused)}"
    print(f"{len(made)} different system calls, all allowed")


def main():
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="rlockd-unit.") as name:
        folder = Path(name)
        test_keys(folder, binary)
        test_passing_failures()
        test_exposure()
        test_calls(folder, binary)


main()
