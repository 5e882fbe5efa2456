#!/usr/bin/env python3
"""leader.py: start it on several machines; one of them leads, the others stand by.

When things go wrong
- The leader dies, or its machine: the next one leads after LEADER_TTL seconds.
- The leader is paused, or cut off from all servers: check() raises before the next one leads,
  or as soon as the process runs again. One step may still be under way then: let what a step
  changes compare the term, as fenced_row.py does.
- An operator frees the lock: as if it were cut off, at once.
- No server answers: nobody leads. The processes ask on, and one leads when a server is back."""
import os
import time

import rlockd  # clients/python/rlockd.py: copy it beside this file

servers = rlockd.Client(ttl=float(os.environ.get("LEADER_TTL", "10")))
name = f"{os.uname().nodename}/{os.getpid()}"


def lead(lease):
    while True:
        lease.check()  # before each step
        print(f"{name} leads in term {lease.fencing_token}", flush=True)
        time.sleep(0.1)


while True:
    try:
        with rlockd.Lease(servers, "leader", wait=60, note=name) as lease:
            lead(lease)
    except rlockd.NotAcquired:
        print(f"{name} stands by", flush=True)
    except rlockd.LeaseLost as reason:
        print(f"{name} leads no more: {reason}", flush=True)
