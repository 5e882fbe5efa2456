#!/usr/bin/env python3
"""What the answers about holders and waiters cost: a look, a listing of 100 locks, a listing by
the time held, a check for a deadlock, and the census over many locks. Redis' time is that of
its own INFO commandstats; the rest of the machine does not count in it.

usage: census.py [RLOCKD] [--locks 1000000] [--java 100000] [--seconds 120]

The locks are written into Redis as grants of rlockd leave them, and `--java` of them as
Redisson's. The census is watched for so many seconds, or until its picture is there: the time
for all locks then follows from its pace. Prints a table. Not a part of `make bench`, for it
takes minutes and a gigabyte."""
import argparse
import re
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from servers import Place, wait_for  # noqa: E402

ROUNDS, BATCH, LISTED = 200, 10_000, 100
SCANNED = 500  # keys in a step of the walk: storage/census/walk.c

# A hash of the lock, and its fencing counter: a lease without note and session has no record.
FILL = """
local from, count, java, millis = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
for i = from, from + count - 1 do
  local id = string.format('%08x-0000-%s000-8000-%012x', i, i < java and '4' or '5', i)
  local lock = 'bench/' .. i
  redis.call('hset', lock, id .. (i < java and ':1' or ':0'), 1)
  redis.call('pexpire', lock, 86400000)
  if i >= java then
    redis.call('set', 'redisson_lock_token:{' .. lock .. '}', millis .. '000', 'px', 86400000)
  end
end"""


def fill(redis, locks, java):
    millis = int(time.time() * 1000)
    for begin in range(0, locks, BATCH):
        redis.command("EVAL", FILL, 0, begin, min(BATCH, locks - begin), java, millis)


def commands(redis):
    """Redis' µs for each command that was sent to it, and how often."""
    text = redis.command("INFO", "commandstats").decode()
    found = re.findall(r"^cmdstat_([\w|]+):calls=(\d+),usec=(\d+)", text, re.M)
    return {name: (int(calls), int(usec)) for name, calls, usec in found}


def redis_us(redis):
    """Commands of scripts count in their scripts."""
    stats = commands(redis)
    scripts = sum(stats.get(name, (0, 0))[1] for name in ("evalsha", "eval"))
    return scripts + stats.get("scan", (0, 0))[1]


def cpu_s(redis):
    text = redis.command("INFO", "cpu").decode()
    return sum(float(re.search(rf"used_cpu_{kind}:(\S+)", text)[1]) for kind in ("sys", "user"))


def memory_kb(pid, name):
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"{name}:\s+(\d+)", status)[1])


def token():
    return {"Lease-Token": str(uuid.uuid4())}


def must(answer, *statuses):
    if answer[0] not in statuses:
        raise RuntimeError(str(answer))
    return answer[1]


def measured(redis, front, path):
    """Redis' µs and the wall clock's µs for a GET."""
    http = front.connect()
    for _ in range(10):
        must(http.ask("GET", path), 200)
    redis.command("CONFIG", "RESETSTAT")
    began = time.perf_counter()
    for _ in range(ROUNDS):
        must(http.ask("GET", path), 200)
    took_us = (time.perf_counter() - began) * 1e6
    return redis_us(redis) / ROUNDS, took_us / ROUNDS


def looks(place):
    redis = place.redis()
    front = place.front(redis)
    for i in range(2 * LISTED):
        must(front.ask("PUT", f"/v1/locks/look-{i}", token(), {"ttl_ms": 600_000, "note": "n"}),
             201)
    wait_for(lambda: len(front.ask("GET", "/v1/locks?order=held")[1]["locks"]) == LISTED,
             "a picture of the census")
    for name, path in (("a look", "/v1/locks/look-1"),
                       (f"a listing of {LISTED}", f"/v1/locks?prefix=look-&limit={LISTED}"),
                       (f"the {LISTED} longest holds", "/v1/locks?order=held")):
        us, wall_us = measured(redis, front, path)
        print(f"| {name} | {us:.0f} µs of Redis, {wall_us / 1000:.1f} ms to the answer |")


def deadlock(place):
    """Of two sessions, whose waits are refused, against two that wait until the end."""
    redis = place.redis()
    front = place.front(redis, "--deadlock-check-ms", "1000")
    plain = place.front(redis, "--deadlock-check-ms", "0")
    figures = []
    for each in (plain, front):
        sessions = []
        for _ in range(2):
            headers = {"Session-Token": str(uuid.uuid4())}
            must(each.ask("POST", "/v1/sessions", headers, {"on_deadlock": "refuse"}), 201)
            sessions.append(headers)
        for i, headers in enumerate(sessions):
            must(each.ask("PUT", f"/v1/locks/dead-{i}", {**token(), **headers}), 201)
        before = commands(redis).get("evalsha", (0, 0))
        with ThreadPoolExecutor() as pool:
            waits = []
            for i, headers in enumerate(sessions):
                waits.append(pool.submit(each.ask, "PUT", f"/v1/locks/dead-{1 - i}",
                                         {**token(), **headers}, {"wait_ms": 4000}))
                time.sleep(0.5)
            for wait in waits:
                wait.result()
        after = commands(redis)["evalsha"]
        figures.append((after[0] - before[0], after[1] - before[1]))
        for i, headers in enumerate(sessions):
            front.ask("POST", f"/v1/locks/dead-{i}/force-unlock")
    (calls, us), (own_calls, own_us) = figures[1], figures[0]
    print(f"| two sessions in a deadlock, from the waits to the refusal | {us} µs of Redis, "
          f"{calls} scripts; two such waits of 4 s without a check: {own_us} µs, "
          f"{own_calls} scripts |")


def census(place, locks, java, seconds):
    redis = place.redis()
    fill(redis, locks, java)
    front = place.front(redis)
    empty_kb = memory_kb(front.pid, "VmRSS")
    redis.command("CONFIG", "RESETSTAT")
    began, cpu = time.monotonic(), cpu_s(redis)
    while time.monotonic() - began < seconds and \
            not redis.command("HEXISTS", "rlockd:census:{}", "held"):
        time.sleep(0.5)
    took_s, cpu = time.monotonic() - began, cpu_s(redis) - cpu
    is_done = redis.command("HEXISTS", "rlockd:census:{}", "held") == 1
    keys = SCANNED * commands(redis)["scan"][0]
    seen = locks if is_done else int(locks * keys / redis.command("DBSIZE"))
    share = redis_us(redis) / 1e4 / took_s
    print(f"| the census over {locks} locks, {java} of them Redisson's | "
          f"{share:.2f} % of Redis' time in its scripts and SCANs, {100 * cpu / took_s:.2f} % "
          f"of a core with all that Redis does | ")
    print(f"| its duration | {'' if is_done else 'about '}{locks * took_s / seen:.0f} s: "
          f"{seen} locks in {took_s:.0f} s |")
    print(f"| the front end's memory | {empty_kb} KiB before, "
          f"{memory_kb(front.pid, 'VmHWM')} KiB at most |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlockd", nargs="?", default="build/rlockd")
    parser.add_argument("--locks", type=int, default=1_000_000)
    parser.add_argument("--java", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    with Place("census", options.rlockd) as place:
        print("| what | cost |\n|---|---|")
        looks(place)
        deadlock(place)
        census(place, options.locks, options.java, options.seconds)


if __name__ == "__main__":
    main()
