#!/usr/bin/env python3
"""run.py BUILD [--minutes N] [--seed N] [--only WORD] [--java] [--keep]: clients and faults of
every kind on private front ends and a private Redis, and then the checker. The history of a run
that fails stays, and its place is printed."""
import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import clients  # noqa: E402
import java  # noqa: E402
import leaks  # noqa: E402
import live  # noqa: E402
import nemesis  # noqa: E402
from calls import World  # noqa: E402
from history import PATIENCE, History, now, watch_lag  # noqa: E402
from pairs import TOPOLOGIES  # noqa: E402
from phases import Phases  # noqa: E402
from processes import Front  # noqa: E402
from proxy import Proxy  # noqa: E402
from servers import RedisError  # noqa: E402
from web import Agent  # noqa: E402

RETRY_WINDOW_MS, WATCHDOG_MS, MAX_WAIT_MS, PLACE_MS = 12000, 3000, 40000, 15000
SESSION_TTL_MAX_MS, LEASE_TTL_MAX_MS = 3000, 4000
# The longest after which a lock is free, and all of a lease or a session is forgotten. A place
# in a fair queue lasts twice its time where Redis was away meanwhile.
SWEEP_S = min(2 * PLACE_MS + 7000, MAX_WAIT_MS) / 1000
KEPT_S = (MAX_WAIT_MS + RETRY_WINDOW_MS + PLACE_MS) / 1000 + 5
# The same without faults: no request waits for longer than so.
CALM_WAIT_MS = 8000
CALM_KEPT_S = (CALM_WAIT_MS + RETRY_WINDOW_MS + PLACE_MS) / 1000 + 5
ROUNDS = 10
FLAGS = ["--watchdog-timeout-ms", str(WATCHDOG_MS), "--max-wait-ms", str(MAX_WAIT_MS),
         "--retry-window-ms", str(RETRY_WINDOW_MS), "--log-level", "warn"]

# Clients of each kind, beside those of live.py.
MIX = [(clients.Relay, 3), (clients.Crowd, 1), (clients.Returner, 1), (clients.Newcomer, 2),
       (clients.Leaver, 2), (clients.Mover, 3), (clients.Queuer, 1), (clients.Heir, 1)]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="only faults whose name has this word")
    parser.add_argument("--calm", action="store_true", help="no faults")
    parser.add_argument("--own", action="store_true",
                        help="without the clients of the simulation: the others have the "
                             "machine for themselves")
    parser.add_argument("--fronts", type=int, default=3)
    parser.add_argument("--topology", choices=sorted(TOPOLOGIES), default="single")
    parser.add_argument("--trouble-ms", type=int, help="how long after a fault all may be late")
    parser.add_argument("--keep", action="store_true", help="keep the history of a good run")
    parser.add_argument("--java", action="store_true", help="Redisson's clients, too")
    parser.add_argument("--no-drain", action="store_true", help="without sweep and leak check")
    options = parser.parse_args()
    if options.java and options.topology != "single":
        parser.error("Redisson's clients of --java know one Redis only")
    return options


async def start_fronts(options, folder, redis, fronts):
    for number in range(options.fronts):
        front = Front(number, f"{options.build}/rlockd", folder, [*FLAGS, *redis.front_flags],
                      workers=2 if number == 0 else 1)
        await redis.give_way_to(front)
        front.proxy = Proxy(front.port)
        await front.proxy.start()
        fronts.append(front)
    await asyncio.gather(*(nemesis.start_first(front) for front in fronts))


async def watch_rate(world, redis):
    """What each server runs a second, and for what."""
    last = None
    while True:
        try:
            scripts = await redis.scripts_of_each()
        except (OSError, RedisError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            scripts, last = None, None
        mark = (now(), scripts, world.history.requests, world.waiting)
        if last and scripts is not None and scripts >= last[1]:
            world.history.write("rate", t_begin=last[0], t_end=mark[0],
                                scripts=[ran - before for ran, before in zip(scripts, last[1])],
                                requests=mark[2] - last[2] + 30,
                                waiters=max(mark[3], last[3]))
        last = mark if scripts is not None else None
        await asyncio.sleep(1)


async def watch_life(world, front):
    """/livez never asks Redis: it is answered whatever goes on."""
    agent = Agent()
    while True:
        began = now()
        answer = await agent.ask(front.port, "GET", "/livez", timeout=3)
        world.history.op(client="life", op="probe", front=front.number, t_inv=began,
                         t_ret=now(), status=answer.status, outcome=answer.outcome(),
                         malformed=answer.problem if answer.status else None)
        await asyncio.sleep(0.5)


async def make_permits(world, kind, name, count):
    agent = Agent()
    try:
        answer = await agent.ask(world.fronts[0].port, "PUT", f"/v1/{kind}/{name}",
                                 [("permits", count)])
        if answer.status not in (200, 201):
            raise RuntimeError(f"no permits: {answer.status} {answer.body}")
    finally:
        agent.close()


async def make_all_permits(world):
    """Those that Redis has not."""
    if not world.redis.offers("permit"):
        return
    for kind, objects in (("permit-semaphores", clients.ALL_PERMITS),
                          ("semaphores", clients.SEMAPHORES)):
        for name, count in objects.items():
            if not await world.redis.command("EXISTS", name):
                await make_permits(world, kind, name, count)


async def keep_permits(world):
    """A Redis that lost its data has no permits any more: they are made again."""
    while True:
        with contextlib.suppress(OSError, RedisError, RuntimeError, asyncio.TimeoutError,
                                 asyncio.IncompleteReadError):
            await make_all_permits(world)
        await asyncio.sleep(0.5)


async def end_all(tasks):
    """Python's wait_for() may swallow a cancellation that comes as it ends."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=1)


async def load(options, world, redis, watches, others):
    """Clients and faults for as long as wanted. A client or watch that broke ends the run."""
    tasks = [asyncio.ensure_future(kind(world, f"{kind.__name__}-{i}").run())
             for kind, count in MIX for i in range(count) if redis.offers(kind.needs)]
    tasks += [asyncio.ensure_future(other.run()) for other in others]
    faults = [name for name, fault in nemesis.FAULTS.items()
              if (not options.only or options.only in name)
              and redis.replicas >= fault.needs_replica
              and redis.quorum >= fault.is_beyond]
    if not options.calm:
        tasks.append(asyncio.ensure_future(
            nemesis.Nemesis(world, redis, options.seed, faults).run()))
    deadline = now() + int(options.minutes * 60 * 10**9)
    while now() < deadline:
        await asyncio.sleep(0.2)
        for task in tasks + watches:
            if task.done():
                task.result()
    world.stop.set()
    await asyncio.gather(*tasks)


async def start(options, folder, redis, history, fronts, others):
    """The world, with Redis and the front ends, which are added to `fronts` one by one.
    `others`: clients with processes of their own."""
    await redis.start()
    await start_fronts(options, folder, redis, fronts)
    await redis.wait_for_votes()
    world = World(history, redis, fronts, options.seed)
    await make_all_permits(world)
    for other in others:
        await other.start(world, redis)
    return world


def kept_s_of(options):
    return CALM_KEPT_S if options.calm else KEPT_S


async def drain(options, phases, world, redis):
    """All is free again, and nothing stays behind."""
    await phases.take("sweep", leaks.sweep(world, SWEEP_S))
    await phases.take("rounds", leaks.cycles(world, redis, ROUNDS))
    await phases.take("leaks of the front ends", leaks.check_fronts(world))
    await phases.take("leaks in Redis", leaks.check_redis(world, redis, kept_s_of(options)))


def phases_of(options):
    """Bounds: of requests that are answered late rather than never, on a busy machine."""
    bounds_s = {"start": 20 * PATIENCE + TOPOLOGIES[options.topology].start_s,
                "load": options.minutes * 60 + 30 + 10 * PATIENCE}
    if not options.no_drain:
        bounds_s.update({"sweep": SWEEP_S + 10 * PATIENCE, "rounds": 12 * ROUNDS * PATIENCE,
                         "leaks of the front ends": 20 * PATIENCE,
                         "leaks in Redis": kept_s_of(options) + 10 * PATIENCE})
    return Phases({**bounds_s, "checker": 20 * PATIENCE + 10 * options.minutes})


async def run(options, folder, phases, others):
    history = History(folder / "history.jsonl")
    redis, fronts = TOPOLOGIES[options.topology](folder), []
    history.write("run", seed=options.seed, retry_window_ms=RETRY_WINDOW_MS,
                  watchdog_ms=WATCHDOG_MS, max_ttl_ms=LEASE_TTL_MAX_MS + WATCHDOG_MS,
                  place_ms=PLACE_MS, quorum=redis.quorum or None,
                  permits=clients.ALL_PERMITS)
    try:
        world = await phases.take(
            "start", start(options, folder, redis, history, fronts, others))
        watches = [asyncio.ensure_future(task) for task in
                   [watch_lag(history), watch_rate(world, redis), keep_permits(world),
                    *(watch_life(world, front) for front in fronts)]]
        await phases.take("load", load(options, world, redis, watches, others))
        if not options.no_drain:
            await drain(options, phases, world, redis)
    finally:
        for program in [*others, *fronts, redis]:
            program.end()
        await end_all(asyncio.all_tasks() - {asyncio.current_task()})
        history.close()


def bounds(options):
    """A run of so many minutes that does less proves little; one for a bug has its own aim."""
    minutes, redis = options.minutes, TOPOLOGIES[options.topology]
    least = {"requests": 1500, "grants": 300, "waits": 80, "releases": 200, "renewals": 30,
             "expiries": 5, "shared": 10, "abandoned": 30, "repeats": 50,
             "reentrant": 5 if redis.offers("owner") else 0}
    result = [f"--min-{name}={0 if options.own else int(count * minutes)}"
              for name, count in least.items()]
    result += [f"--calm-ms={250 * PATIENCE}", f"--expiry-ms={1000 * PATIENCE}",
               f"--deadlock-ms={4000 + 2000 * PATIENCE}",
               f"--trouble-ms={options.trouble_ms or 3000 + 1000 * PATIENCE}"]
    if not options.no_drain:
        result.append(f"--min-sweeps={len(clients.locks_of(redis))}")
    return result


def main():
    options = arguments()
    # In memory where there is such a place: a disk that others keep busy stops Redis for long.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="rlockd-faults-", dir=memory))
    phases = phases_of(options)
    others = [] if options.own else [live.LiveClients(options.build, folder)]
    if options.java:
        others.append(java.RedissonClients(options.build, folder, options.minutes))
    print(f"faults: seed {options.seed}, {options.minutes:g} minutes, {options.topology}",
          flush=True)
    phases.announce()
    try:
        asyncio.run(run(options, folder, phases, others))
    except Exception as error:  # whatever it was, the history is kept
        print(f"faults: the run broke off: {error!r}; history in {folder}")
        raise
    checker = [f"{options.build}/tests/checker/checker", str(folder / "history.jsonl"),
               *bounds(options)]
    status = phases.run("checker", checker)
    if status or options.keep:
        print(f"faults: seed {options.seed}: history and logs in {folder}; again: "
              + " ".join(checker))
    else:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
