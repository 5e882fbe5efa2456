#!/usr/bin/env python3
"""rlock for the conformance kit: each lease is an `rlock run`. The work is its COMMAND, which
lives for as long as a pipe that the adapter reads from."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

RLOCK = str(Path(os.environ.get("RLOCK_BIN", "build/rlock")).resolve())
WORK = 'exec 3> "$1"; echo "$RLOCK_FENCING_TOKEN" >&3; exec cat'
FAILURES = {75: "busy", 79: "lost", 69: "busy"}

output = threading.Lock()


def tell(event, lease, **members):
    with output:
        print(json.dumps({"event": event, "id": lease, **members}), flush=True)


class Lease:
    def __init__(self, number, folder, request):
        self.number = number
        self.is_held = self.is_released = self.is_cancelled = False
        self.fifo = f"{folder}/{number}"
        os.mkfifo(self.fifo)
        wait = ["-w", f"{request['wait_ms']}ms"] if request["wait_ms"] else ["-n"]
        self.process = subprocess.Popen(
            [RLOCK, "run", *wait, "-q", "-t", f"{request['ttl_ms']}ms", *self.kind(request),
             request["lock"], "sh", "-c", WORK, "sh", self.fifo],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        threading.Thread(target=self.watch_work, daemon=True).start()
        threading.Thread(target=self.watch_rlock, daemon=True).start()

    @staticmethod
    def kind(request):
        also = [word for name in request.get("also", ()) for word in ("--also", name)]
        kind = request.get("kind", "lock")
        return ["--permit"] if kind == "permit" else ["--kind", kind, *also]

    def watch_work(self):
        with open(self.fifo, encoding="ascii") as work:
            token = work.readline()
            if not token:
                return  # there was no work
            self.is_held = True
            tell("held", self.number, fencing_token=int(token.strip() or 0))
            work.read()
        self.is_held = False
        if not self.is_released:
            tell("lost", self.number)

    def watch_rlock(self):
        status = self.process.wait()
        if self.is_cancelled:
            tell("cancelled", self.number)
        elif self.is_released:
            tell("lost" if status == 79 else "failed" if status else "released", self.number)
        elif status != 79:
            tell(FAILURES.get(status, "failed"), self.number, detail=f"status {status}")
        os.close(os.open(self.fifo, os.O_RDWR))  # ends watch_work() if there was no work

    def release(self):
        if self.is_held:
            self.is_released = True
            self.process.stdin.close()

    def cancel(self):
        self.is_cancelled = True
        self.process.send_signal(signal.SIGTERM)


def main():
    leases = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            request = json.loads(line)
            number = request["id"]
            if request["do"] == "acquire":
                leases[number] = Lease(number, folder, request)
            elif request["do"] == "status":
                tell("status", number, held=leases[number].is_held)
            else:
                getattr(leases[number], request["do"])()
        for lease in leases.values():
            if lease.process.poll() is None:
                lease.process.terminate()


if __name__ == "__main__":
    main()
