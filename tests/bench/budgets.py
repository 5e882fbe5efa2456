#!/usr/bin/env python3
"""budgets.py BUILD [WORD]: holds rlockd to budgets.table: counts of calls, instructions and
bytes that come out the same on a busy machine. WORD: only budgets with it in their names. Exits
1 when a budget is exceeded or cannot be measured; one is left out only where strace may not
attach, or when the machine was too slow for it."""
import re
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measure  # noqa: E402
import redis_instructions  # noqa: E402
import topologies  # noqa: E402
from operations import must  # noqa: E402
from peers import Place  # noqa: E402
from servers import Http  # noqa: E402

CONNECTIONS, REPEATS, WAITERS, CYCLES = 64, 200, 8000, 3000
SESSIONS, VISITED_MS, SETTLE_S, COUNTED_S = 320, 1000, 2, 5
ROUNDS_MAX = 4
HAND_OVERS = {"redis_calls_hand_over": "lock", "redis_calls_hand_over_write": "write",
              "redis_calls_hand_over_permit": "permit"}


def read_table():
    """name -> bound and what it is, in the order of the file."""
    rows = {}
    for line in (Path(__file__).parent / "budgets.table").read_text().splitlines():
        if line and not line.startswith("#"):
            name, bound, what = line.split(None, 2)
            rows[name] = (float(bound), what)
    return rows


def path_of(name, kind):
    return f"/v1/permit-semaphores/{name}/permit" if kind == "permit" else f"/v1/locks/{name}"


def redis_calls(redis, server, method, names, tokens, kind="lock"):
    """redis.call()s of one request, over many requests one after the other."""
    http, before = Http(server.port), redis.calls()
    query = f"?kind={kind}" if method == "PUT" and kind != "permit" else ""
    answers = []
    for name, token in zip(names, tokens):
        status, body = http.ask(method, path_of(name, kind) + query,
                                {"Lease-Token": token} if token else {})
        if status not in (200, 201):
            raise RuntimeError(f"{method} {name}: {status} {body}")
        answers.append(body)
    return redis.script_calls_since(before) / len(names), answers


def park(server, names, kind):
    """One waiter for each lock: connections whose answer is still to come, all asleep."""
    waiting = [Http(server.port) for _ in names]
    query = "?wait_ms=50000" + ("" if kind == "permit" else f"&kind={kind}")
    for name, client in zip(names, waiting):
        client.connection.request("PUT", path_of(name, kind) + query, None,
                                  {"Lease-Token": str(uuid.uuid4())})
    page = Http(server.port)
    while int(re.search(r"^rlockd_waiters (\d+)", page.ask("GET", "/metrics")[1], re.M)[1]) \
            < len(names):
        time.sleep(0.05)
    time.sleep(1)  # what follows a subscription
    return waiting


def of_hand_overs(redis, server, names, kind):
    """redis.call()s of a release that grants to a waiter."""
    figure = 0
    for counted in (names[:1], names):  # the first use of a script sends its text
        tokens = [str(uuid.uuid4()) for _ in counted]
        for name in counted if kind == "permit" else ():
            Http(server.port).ask("PUT", f"/v1/permit-semaphores/{name}?permits=1")
        redis_calls(redis, server, "PUT", counted, tokens, kind)
        waiting = park(server, counted, kind)
        figure = redis_calls(redis, server, "DELETE", counted, tokens, kind)[0]
        for name, client in zip(counted, waiting):
            if client.connection.getresponse().status != 201:
                raise RuntimeError(f"{name} was not handed over")
        redis.command("FLUSHALL")
    return figure


def all_redis_calls(place, _):
    """redis.call()s of an acquire, a release and an acquire whose token rlockd makes, and of a
    hand-over."""
    redis = place.redis()
    server = place.rlockd(redis)
    names = [f"budget-{i}" for i in range(REPEATS)]
    tokens = [str(uuid.uuid4()) for _ in names]
    # The first use of a script sends its text; what is counted comes after that.
    first = [str(uuid.uuid4())]
    redis_calls(redis, server, "PUT", ["first"], first)
    redis_calls(redis, server, "DELETE", ["first"], first)
    figures = {"redis_calls_acquire": redis_calls(redis, server, "PUT", names, tokens)[0],
               "redis_calls_release": redis_calls(redis, server, "DELETE", names, tokens)[0],
               "redis_calls_acquire_server_made":
                   redis_calls(redis, server, "POST", names, [None] * len(names))[0]}
    redis.command("FLUSHALL")
    for name, kind in HAND_OVERS.items():
        figures[name] = of_hand_overs(redis, server, names, kind)
    server.stop()
    redis.stop()
    return figures


def duties(place, _):
    """redis.call()s that nobody asked for: those of visits to sessions without leases."""
    redis = place.redis()
    server = place.rlockd(redis, "--watchdog-timeout-ms", str(3 * VISITED_MS))
    http = Http(server.port)
    for _ in range(SESSIONS):
        must("a session", http.ask("POST", "/v1/sessions?ttl_ms=3600000"), 201)
    time.sleep(SETTLE_S)
    before, began = redis.calls(), time.monotonic()
    time.sleep(COUNTED_S)
    a_second = redis.script_calls_since(before) / (time.monotonic() - began)
    server.stop()
    redis.stop()
    if a_second < SESSIONS:  # a visit takes at least one
        raise RuntimeError(f"{SESSIONS} sessions, {a_second:.1f} calls a second: no visits")
    return {"duty_calls_session": a_second / SESSIONS}


def front_end(place, names):
    """System calls and instructions of rlockd, and a waiter's memory: those asked for."""
    figures, redis = {}, place.redis()
    if "system_calls" in names:
        server = place.rlockd(redis)
        traced = measure.system_calls(place, server, CONNECTIONS)
        figures.update({} if traced is None else {"system_calls": traced})
        server.stop()
    if "instructions" in names:
        figures["instructions"] = measure.instructions(place, redis, CONNECTIONS, CYCLES)
    if "bytes_per_waiter" in names:
        figures["bytes_per_waiter"] = measure.park(place, redis, WAITERS,
                                                   0.1)["bytes_per_waiter"]
    redis.stop()
    return figures


def of_redis(place, names):
    prefix = "redis_instructions_"
    kinds = [name.removeprefix(prefix) for name in names]
    return {prefix + kind: count
            for kind, count in redis_instructions.measure(place, kinds).items()
            if count is not None}


def quorum(place, _):
    """Instructions of rlockd in a quorum of three, as a multiple of those beside one Redis."""
    redis, of_three = place.redis(), topologies.Quorum(place, 3)
    single = measure.instructions(place, redis, CONNECTIONS, CYCLES)
    figure = measure.instructions(place, of_three, CONNECTIONS, CYCLES, *of_three.flags)
    for each in (redis, of_three):
        each.stop()
    return {"quorum_instructions": figure / single}


# What the names of the budgets begin with that a function measures: at least those asked for.
PARTS = (("redis_calls", all_redis_calls), ("redis_instructions", of_redis),
         ("duty_calls", duties), ("quorum_", quorum), ("", front_end))


def measure_all(place, names):
    figures, missing = {}, list(names)
    for prefix, part in PARTS:
        asked = [name for name in missing if name.startswith(prefix)]
        if asked:
            figures.update(part(place, asked))
        missing = [name for name in missing if name not in asked]
    return figures


def is_met(name, figure, bound):
    # Background work (a heartbeat) may fall into a count of calls.
    return figure <= bound + (0.05 if name.startswith(("redis_calls", "duty_calls")) else 0)


def measure_again(place, budgets, figures):
    """How many wake-ups Redis needs for its requests, and what it and the front end do by the
    second, adds a tenth to instructions at times, a fiftieth to calls; how many waiters come in
    one turn, a fiftieth to their bytes; how many requests come in one, a twelfth to system
    calls. Nothing is taken away: of several rounds the least counts."""
    for _ in range(ROUNDS_MAX - 1):
        late = [name for name, (bound, _) in budgets.items()
                if name.startswith(("redis_", "duty_", "bytes_", "system_calls"))
                and not is_met(name, figures.get(name, 0), bound)]
        if not late:
            return
        for name, figure in measure_all(place, late).items():
            figures[name] = min(figure, figures.get(name, figure))


def main():
    exceeded = []
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    budgets = {name: row for name, row in read_table().items() if word in name}
    if not budgets:
        sys.exit(f"budgets: no name has {word!r} in it")
    with Place(sys.argv[1]) as place:
        figures = measure_all(place, budgets)
        measure_again(place, budgets, figures)
    for name, (bound, what) in budgets.items():
        figure = figures.get(name)
        if figure is None:
            print(f"left out  {what}: no permission to trace, or too busy a machine")
            continue
        met = is_met(name, figure, bound)
        verdict = "met" if met else f"exceeded by {100 * (figure / bound - 1):.1f} %"
        print(f"{figure:12.2f} of {bound:8g}  {what}: {verdict}")
        if not met:
            exceeded.append(name)
    if exceeded:
        print("budgets: exceeded: " + " ".join(exceeded))
    sys.exit(bool(exceeded))


main()
