#!/usr/bin/env python3
"""clients/python/rlockd.py, or the file in $CONFORMANCE_MODULE, for the conformance kit."""
import importlib.util
import json
import os
import sys
import threading
from pathlib import Path

FILE = os.environ.get("CONFORMANCE_MODULE") or \
    Path(__file__).resolve().parents[2] / "clients/python/rlockd.py"
spec = importlib.util.spec_from_file_location("rlockd", FILE)
rlockd = sys.modules["rlockd"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rlockd)

output = threading.Lock()
clients, leases, cancelled = {}, {}, set()


def tell(event, number, **members):
    with output:
        print(json.dumps({"event": event, "id": number, **members}), flush=True)


def acquire(number, request):
    lease = leases[number]
    try:
        lease.acquire()
    except rlockd.NotAcquired:
        tell("cancelled" if number in cancelled else "busy", number)
    except rlockd.RlockdError as error:
        tell("failed", number, detail=str(error))
    else:
        tell("held", number, fencing_token=None if request.get("kind") == "permit"
             else lease.fencing_token)


def release(number):
    try:
        leases[number].release()
    except rlockd.LeaseLost:
        tell("lost", number)
    else:
        tell("released", number)


def main():
    for line in sys.stdin:
        request = json.loads(line)
        do, number = request["do"], request["id"]
        if do == "acquire":
            ttl = request["ttl_ms"] / 1000
            client = clients.setdefault(ttl, rlockd.Client(ttl=ttl))
            leases[number] = rlockd.Lease(
                client, [request["lock"], *request["also"]] if "also" in request
                else request["lock"], wait=request["wait_ms"] / 1000,
                kind=request.get("kind", "lock"),
                on_lost=lambda number=number: tell("lost", number))
            threading.Thread(target=acquire, args=(number, request), daemon=True).start()
        elif do == "release":
            threading.Thread(target=release, args=(number,), daemon=True).start()
        elif do == "cancel":
            cancelled.add(number)
            threading.Thread(target=leases[number].cancel, daemon=True).start()
        else:
            tell("status", number, held=not leases[number].lost)


if __name__ == "__main__":
    main()
