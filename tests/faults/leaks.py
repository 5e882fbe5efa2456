"""What is left when everything has ended: nothing but what a lock server keeps for ever."""
import asyncio
import re
import time

from calls import Lease
from clients import ALL_PERMITS, SEMAPHORES, Client, locks_of
from history import now
from session_clients import Session, SessionClient

# What stays: fencing counters, the marker, which every front end refreshes, and the census.
KEPT = re.compile(rb"redisson_lock_token:.*|rlockd:marker(:.*)?|rlockd:census:\{\}")

# Descriptors of a front end for what asks it whether it lives.
WATCHED = 1

# Rounds until a front end has all the memory that such a round needs, and what it may grow by
# afterwards.
WARM_UP, GROWTH_KIB = 3, 128


async def sweep(world, longest_s):
    """Every lock can be had once more, by whoever asks."""
    client = Client(world, "sweep")

    async def take(kind, lock):
        lease = Lease(client, kind, [lock])
        await lease.acquire(1000, int(longest_s * 1000), sweep=True)
        await lease.release()
    await asyncio.gather(*(take(kind, lock) for kind, lock in locks_of(world.redis)))
    client.agent.close()


async def keys_left(server):
    """Keys that are none of those that stay."""
    cursor, left = b"0", []
    while True:
        cursor, keys = await server.command("SCAN", cursor.decode(), "COUNT", 1000)
        left += [key for key in keys if not KEPT.fullmatch(key)
                 and key.decode(errors="replace") not in (*ALL_PERMITS, *SEMAPHORES)]
        if cursor == b"0":
            return left


async def metrics_page(front):
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await asyncio.wait_for(reader.read(), 5)).decode()
    writer.close()
    return text


async def metric(front, name):
    """One gauge of a front end, of a page made after the call: it makes one a second."""
    asked = time.time()
    while True:
        text = await metrics_page(front)
        made = re.search(r"^rlockd_metrics_timestamp_seconds (\S+)", text, re.M)
        if float(made[1]) >= asked - 1e-6:
            break
        await asyncio.sleep(0.05)
    values = re.findall(rf"^rlockd_{name}(?:{{[^}}]*}})? (\S+)", text, re.M)
    if not values:
        raise RuntimeError(f"/metrics has no rlockd_{name}")
    return sum(int(float(value)) for value in values)


async def until(condition, seconds):
    """What `condition` returned last: nothing, or what is left after so many seconds."""
    deadline = now() + int(seconds * 10**9)
    while (left := await condition()) and now() < deadline:
        await asyncio.sleep(0.25)
    return left


async def check_redis(world, redis, longest_s):
    """`longest_s`: the longest that anything of a lease or a session is remembered."""
    await asyncio.gather(*(check_server(world, server, longest_s) for server in redis.servers))


async def check_server(world, server, longest_s):
    left = await until(lambda: keys_left(server), longest_s)
    note(world, "keys left in Redis", left)
    note(world, "keys without an end",
         [key for key in left
          if await server.command("PTTL", key.decode(errors="replace")) == -1])

    async def channels():
        return await server.command("PUBSUB", "CHANNELS", "redisson*")
    note(world, "subscriptions", await until(channels, 5))


def note(world, subject, left):
    """A leak, if there is anything left."""
    world.history.write("leak", subject=subject, base=0, now=len(left), allowed=0,
                        detail=b" ".join(left[:5]).decode(errors="replace") or None)


async def check_fronts(world):
    await asyncio.gather(*(check_front(world, front) for front in world.fronts))


async def check_front(world, front):
    async def descriptors():
        return max(0, front.descriptors() - front.base_descriptors - WATCHED)
    await until(descriptors, 5)
    world.history.write("leak", subject=f"descriptors of front end {front.number}",
                        base=front.base_descriptors, now=front.descriptors(), allowed=2)
    for name in ("waiters", "waited_locks", "pending_withdrawals"):
        left = await until(lambda: metric(front, name), 5)
        world.history.write("leak", subject=f"{name} of front end {front.number}", base=0,
                            now=left, allowed=0)


async def cycles(world, redis, count):
    """Identical rounds without faults: what a front end keeps does not grow with them, nor what
    Redis keeps for them. A busy machine makes the memory of a front end grow by a step, for
    example when Redis answers late and is connected to anew: where only memory has grown, more
    rounds tell a step from a leak."""
    base, seen = await take_rounds(world, redis, count)
    if {what for _, what in grown(base, seen)} == {"KiB"}:
        base, seen = await take_rounds(world, redis, count)
    for place, values in seen.items():
        name = "Redis" if place is redis else f"front end {place.number}"
        for what, value in values.items():
            world.history.write("leak", subject=f"{what} of {name}, {count} rounds",
                                base=base[place][what], now=value, allowed=allowed(what))


def allowed(what):
    return GROWTH_KIB if what == "KiB" else 0


def grown(base, seen):
    return [(place, what) for place, values in seen.items() for what, value in values.items()
            if value > base[place][what] + allowed(what)]


async def take_rounds(world, redis, count):
    """What there was after the first rounds, and after all: place -> kind -> number."""
    base, seen = {}, {}
    for number in range(count):
        await asyncio.gather(*(one_cycle(world, f"cycle-{i}") for i in range(20)),
                             *(queue_up(world, lock) for kind, lock in locks_of(redis)
                               if kind == "fair"),
                             *(live_and_die(world, f"session-{i}") for i in range(20)))
        used = await asyncio.gather(*(used_by(front) for front in world.fronts))
        seen = dict(zip(world.fronts, used))
        seen[redis] = {"sessions in the index": await count_sessions(redis)}
        if number == WARM_UP:
            base = seen
    return base, seen


async def used_by(front):
    """What a front end has once its clients are gone."""
    async def above():
        return max(0, front.descriptors() - front.base_descriptors - WATCHED)
    await until(above, 3)
    return {"KiB": front.resident_kib(), "descriptors": front.descriptors(),
            "waiters": await until(lambda: metric(front, "waiters"), 3),
            "waited locks": await until(lambda: metric(front, "waited_locks"), 6)}


async def count_sessions(redis):
    """Sessions that are to be visited: none of those that were ended."""
    async def sessions():
        cards = [await server.command("ZCARD", "rlockd:sessions:{%x}" % digit)
                 for server in redis.servers for digit in range(16)]
        return sum(cards)
    return await until(sessions, 3)


async def one_cycle(world, name):
    client = Client(world, name)
    for kind, lock in locks_of(world.redis):
        lease = Lease(client, kind, [lock])
        answer = await lease.acquire(1000, 5000)
        if answer.outcome() == "ok":
            lease.use()
        await lease.release()
    client.agent.close()


async def queue_up(world, lock):
    """Eight clients in line for a fair lock; some hang up, some come back for their place."""
    async def stand(number):
        client = Client(world, f"line-{lock}-{number}")
        lease = Lease(client, "fair", [lock])
        if number % 4 == 3:
            await lease.acquire(1000, 5000, abandon_after=0.05)
        elif number % 4 == 2:
            await lease.acquire(1000, 50)
        await lease.acquire(1000, 8000)
        await lease.release()
        client.agent.close()
    await asyncio.gather(*(stand(number) for number in range(8)))


async def live_and_die(world, name):
    """A session, leases of it, a keep-alive that waits, and its end with one lease held."""
    client, session = SessionClient(world, name), Session()
    session.ttl_ms = 3000
    if await client.open(session):
        owner = "one" if world.redis.offers("owner") else None
        leases = [Lease(client, "lock", [f"{name}-{i}"], session, owner)
                  for i, owner in enumerate([None, owner, owner])]
        for lease in leases:
            await lease.acquire(None, 2000)
        await client.beat(client, session, 50)
        await leases[0].release()
        await client.end(session)
    client.agent.close()
