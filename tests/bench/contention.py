"""Contenders for one lock: over HTTP on one front end and on two, as threads of Redisson's
client in one JVM and in two, and half and half. All of them reach the same Redis over TCP."""
import re
import time

import measure
from quota import quota
from redisson import stop_all
from servers import Http

KINDS = ("plain", "fair", "write", "mix", "permit")
CONTENDERS = (2, 16, 64)
MIXED = (("plain", 16), ("plain", 64), ("fair", 16), ("fair", 64))
LIMITED = (("plain", 2), ("plain", 16), ("fair", 2), ("fair", 16))
LIMITED_S = 1
SPREAD_TRIES = 12
WARM_UP_S = 0.5
JUDGED = ("plain", "fair")  # shares of the turns are judged over a longer window
JUDGED_TIMES = 5


def window_s(kind, seconds):
    return seconds * JUDGED_TIMES if kind in JUDGED else seconds


def waits(figures):
    """What a row of contenders shows, whichever client they use."""
    return {"turns_per_s": figures["turns_per_s"], "p50_us": figures["wait_p50_us"],
            "p99_us": figures["wait_p99_us"], "jain": figures["jain"]}


def prepare(redis, server, kind, name):
    redis.command("FLUSHALL")
    if kind == "permit":
        Http(server.port).ask("PUT", f"/v1/permit-semaphores/{name}?permits=1")


def over_http(place, redis, kind, contenders, seconds, second_front_end=False, flags=()):
    fronts = [place.rlockd(redis, *flags, tcp=True)
              for _ in range(2 if second_front_end else 1)]
    prepare(redis, fronts[0], kind, "contended")
    figures = measure.load(
        place, "contend", fronts[0], second_port=fronts[-1].port, kind=kind,
        connections=contenders, seconds=seconds, warmup=WARM_UP_S, name="contended",
        cpu=[f"server{i}={front.pid}" for i, front in enumerate(fronts)]
        + measure.cpu_of(redis))
    for front in fronts:
        front.stop()
    turns, used_us = max(figures["turns"], 1), sum(figures["cpu_us"].values())
    redis_us = measure.redis_us(figures)
    return {**waits(figures), "redis_cpu_us": redis_us / turns,
            "client_cpu_us": (used_us - redis_us) / turns}


def counted(server, redis):
    """Releases, releases that were passed on to another worker, scripts."""
    page = Http(server.port).metrics()
    return [int(re.search(rf"^rlockd_{name}_total (\d+)", page, re.M)[1])
            for name in ("releases", "passed_releases")] + [redis.script_us()[0]]


def with_workers(place, redis, kind, contenders, workers, percent):
    """Contenders for one lock on so many workers, each of which gets `percent` of a core.
    OSError: such a limit is not permitted. The kernel chooses the worker of a connection, so
    two contenders may meet on one worker: the row is one in which they did not."""
    server = place.rlockd(redis, "--workers", str(workers), tcp=True)
    try:
        for _ in range(SPREAD_TRIES):
            prepare(redis, server, kind, "contended")
            before = counted(server, redis)
            with quota(server.pid, percent * workers):
                figures = measure.load(
                    place, "contend", server, second_port=server.port, kind=kind,
                    connections=contenders, seconds=LIMITED_S, warmup=WARM_UP_S,
                    name="contended", cpu=[f"server={server.pid}", f"redis={redis.pid}"])
            releases, passed, scripts = (
                now - then for now, then in zip(counted(server, redis), before))
            if workers == 1 or passed > 0:
                break
        else:
            raise RuntimeError(f"{kind} lock, {contenders} contenders, {workers} workers: "
                               f"nothing was passed on in {SPREAD_TRIES} tries")
    finally:
        server.stop()
    turns = max(figures["turns"], 1)
    return {**waits(figures), "client_cpu_us": figures["cpu_us"]["server"] / turns,
            "redis_cpu_us": figures["cpu_us"]["redis"] / turns,
            "scripts": scripts / max(releases, 1),
            "passed_percent": 100 * passed / max(releases, 1)}


def added_up(parts):
    """Figures of clients that took turns at one lock, as those of one; times: of the slower."""
    turns = sum(part["turns"] for part in parts)
    squares = sum(part["turns"] ** 2 / part["jain"] for part in parts if part["turns"])
    return {"turns": turns, "turns_per_s": sum(part["turns_per_s"] for part in parts),
            "jain": turns ** 2 / len(parts) / squares if squares else 0,
            "stuck": sum(part["stuck"] for part in parts),
            **{name: max(part[name] for part in parts)
               for name in ("wait_p50_us", "wait_p99_us", "release_p50_us", "release_p99_us")}}


def with_redisson(clients, kind, threads, seconds):
    """Threads spread evenly over the JVMs. CPU: a JVM does what load and rlockd do together."""
    redis = clients[0].redis
    pids = [*(client.pid for client in clients), redis.pid]
    redis.command("FLUSHALL")
    for client in clients:
        client.start(kind, "contended", threads // len(clients))
    time.sleep(WARM_UP_S)
    before, calls_before = [measure.cpu_s(pid) for pid in pids], redis.calls()
    for client in clients:
        client.measure()
    time.sleep(seconds)
    used_us = [1e6 * (measure.cpu_s(pid) - then) for pid, then in zip(pids, before)]
    calls = redis.script_calls_since(calls_before)
    figures = added_up(stop_all(clients))
    turns = max(figures["turns"], 1)
    return {**waits(figures), "client_cpu_us": sum(used_us[:-1]) / turns,
            "redis_cpu_us": used_us[-1] / turns, "redis_calls": calls / turns,
            "release_p50_us": figures["release_p50_us"],
            "release_p99_us": figures["release_p99_us"], "stuck": figures["stuck"]}


def uncontended(redisson, threads, seconds):
    """lock() and unlock(), every thread on a lock of its own: a row beside rlockd's."""
    figures = with_redisson([redisson], "own", threads, seconds)
    return {"cycles_per_s": figures["turns_per_s"],
            "p50_us": max(figures["p50_us"], figures["release_p50_us"]),
            "p99_us": max(figures["p99_us"], figures["release_p99_us"]),
            "cpu_us": figures["client_cpu_us"] / 2,
            "redis_cpu_us": figures["redis_cpu_us"] / 2,
            "both_cpu_us": (figures["client_cpu_us"] + figures["redis_cpu_us"]) / 2,
            "redis_calls": figures["redis_calls"]}


def mixed(place, redisson, kind, contenders, seconds):
    """Half of the contenders threads of Redisson's, half connections; each side's turns."""
    redis, half = redisson.redis, contenders // 2
    server = place.rlockd(redis, tcp=True)
    redis.command("FLUSHALL")
    redisson.start(kind, "contended", half)
    load = measure.load_start(place, "contend", server, kind=kind, connections=half,
                              seconds=seconds, warmup=WARM_UP_S, name="contended")
    time.sleep(WARM_UP_S)
    redisson.measure()
    time.sleep(seconds)
    java = redisson.stop()
    http = measure.load_end(load)
    server.stop()
    turns = max(java["turns"] + http["turns"], 1)
    shares = {"http_percent": 100 * http["turns"] / turns,
              "java_percent": 100 * java["turns"] / turns}
    return {"turns_per_s": java["turns_per_s"] + http["turns_per_s"], **shares,
            "least_percent": min(shares.values()),
            "http_p99_us": http["wait_p99_us"], "java_p99_us": java["wait_p99_us"]}


def run_contended(place, redis, redissons, results, seconds):
    for kind in KINDS:
        for contenders in CONTENDERS:
            row, long_s = f"{kind} {contenders}", window_s(kind, seconds)
            results.add(f"contended rlockd {row}",
                        over_http(place, redis, kind, contenders, long_s))
            results.add(f"contended two-fronts {row}",
                        over_http(place, redis, kind, contenders, seconds, True))
            for party, clients in (("redisson", redissons[:1]), ("two-jvms", redissons)):
                if clients:
                    results.add(f"contended {party} {row}",
                                with_redisson(clients, kind, contenders, long_s))


def run_mixed(place, redisson, results, seconds):
    for kind, contenders in MIXED:
        results.add(f"mixed {kind} {contenders}",
                    mixed(place, redisson, kind, contenders, window_s(kind, seconds)))
