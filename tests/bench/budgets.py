#!/usr/bin/env python3
"""budgets.py BUILD: holds rlockd to budgets.table: counts of calls, instructions and bytes that
come out the same on a busy machine. Exits 1 when one is exceeded."""
import sys
import uuid
from pathlib import Path

import measure
from servers import Http, Place, Redis

CONNECTIONS, REPEATS, WAITERS, CYCLES = 64, 200, 2000, 3000


def read_table():
    """name -> bound and what it is, in the order of the file."""
    rows = {}
    for line in (Path(__file__).parent / "budgets.table").read_text().splitlines():
        if line and not line.startswith("#"):
            name, bound, what = line.split(None, 2)
            rows[name] = (float(bound), what)
    return rows


def redis_calls(redis, server, method, names, tokens):
    """redis.call()s of one request, over many requests one after the other."""
    http, before = Http(server.port), redis.calls()
    answers = []
    for name, token in zip(names, tokens):
        status, body = http.ask(method, f"/v1/locks/{name}",
                                {"Lease-Token": token} if token else {})
        if status not in (200, 201):
            raise RuntimeError(f"{method} {name}: {status} {body}")
        answers.append(body)
    return redis.script_calls_since(before) / len(names), answers


def measure_all(place):
    redis = Redis(place)
    server = place.rlockd(redis)
    names = [f"budget-{i}" for i in range(REPEATS)]
    tokens = [str(uuid.uuid4()) for _ in names]
    figures = {}
    # The first use of a script sends its text; what is counted comes after that.
    for method, token in (("PUT", str(uuid.uuid4())),):
        redis_calls(redis, server, method, ["first"], [token])
        redis_calls(redis, server, "DELETE", ["first"], [token])
    figures["redis_calls_acquire"], _ = redis_calls(redis, server, "PUT", names, tokens)
    figures["redis_calls_release"], _ = redis_calls(redis, server, "DELETE", names, tokens)
    figures["redis_calls_acquire_server_made"], _ = redis_calls(
        redis, server, "POST", names, [None] * len(names))
    figures["system_calls"] = measure.system_calls(place, server, CONNECTIONS)
    place.stop(server.process)
    figures["instructions"] = measure.instructions(place, redis, CONNECTIONS, CYCLES)
    figures["bytes_per_waiter"] = measure.park(place, redis, WAITERS, 0.1)["bytes_per_waiter"]
    return figures


def main():
    exceeded = []
    with Place(sys.argv[1]) as place:
        figures = measure_all(place)
    for name, (bound, what) in read_table().items():
        figure = figures[name]
        if figure is None:
            print(f"left out  {what}: no permission to trace")
            continue
        # Background work (a heartbeat) may fall into a count of calls.
        met = figure <= bound + (0.05 if name.startswith("redis_calls") else 0)
        verdict = "met" if met else f"exceeded by {100 * (figure / bound - 1):.1f} %"
        print(f"{figure:12.2f} of {bound:8g}  {what}: {verdict}")
        if not met:
            exceeded.append(name)
    if exceeded:
        print("budgets: exceeded: " + " ".join(exceeded))
    sys.exit(bool(exceeded))


main()
