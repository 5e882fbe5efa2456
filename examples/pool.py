#!/usr/bin/env python3
"""pool.py JOB...: works on jobs, on several machines; three jobs at a time in all of them.

When things go wrong
- A worker dies: its permit comes back after the `ttl` of its session, 10 s.
- A worker is cut off from all servers: check() raises before another worker gets its permit.
- No permit is free for an hour: NotAcquired, and the job is not done.
- The number is wrong: the PUT makes the semaphore only where there is none. To change it, delete
  the semaphore (`rlock permits delete gpu`) while nobody works."""
import concurrent.futures
import os
import sys
import time

import rlockd  # clients/python/rlockd.py: copy it beside this file

PERMITS = 3
servers = rlockd.Client(ttl=10)


def work(job):
    with rlockd.Lease(servers, "gpu", wait=3600, kind="permit") as permit:
        time.sleep(float(os.environ.get("JOB_SECONDS", "1")))
        permit.check()  # LeaseLost: another worker may have the permit, so do not go on
    return job


status, body = servers.ask("PUT", "/v1/permit-semaphores/gpu", {}, {"permits": PERMITS}, 5)
if status not in (200, 201):
    sys.exit(body.get("detail", "no server answers"))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for job in pool.map(work, sys.argv[1:]):
        print("done", job, flush=True)
