"""What is left when everything has ended: nothing but what a lock server keeps for ever."""
import asyncio
import re

from calls import Lease
from clients import LOCKS, PERMITS, Client
from history import now

# What has no TTL: fencing counters, and the counters of semaphores.
KEPT = re.compile(rb"redisson_lock_token:.*")


async def sweep(world, longest_s):
    """Every lock can be had once more, by whoever asks."""
    client = Client(world, "sweep")

    async def take(kind, lock):
        lease = Lease(client, kind, [lock])
        await lease.acquire(1000, int(longest_s * 1000), sweep=True)
        await lease.release()
    await asyncio.gather(*(take(kind, lock) for kind, lock in LOCKS))
    client.agent.close()


async def keys_left(redis):
    """Keys that are none of those that stay, as text: some of them, and how many."""
    cursor, left = b"0", []
    while True:
        cursor, keys = await redis.command("SCAN", cursor.decode(), "COUNT", 1000)
        left += [key for key in keys if not KEPT.fullmatch(key)
                 and key.decode(errors="replace") not in PERMITS]
        if cursor == b"0":
            return left


async def metric(front, name):
    """One gauge of a front end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await asyncio.wait_for(reader.read(), 5)).decode()
    writer.close()
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
    left = await until(lambda: keys_left(redis), longest_s)
    note(world, "keys left in Redis", left)
    note(world, "keys without an end",
         [key for key in left
          if await redis.command("PTTL", key.decode(errors="replace")) == -1])

    async def channels():
        return await redis.command("PUBSUB", "CHANNELS", "redisson*")
    note(world, "subscriptions", await until(channels, 5))


def note(world, subject, left):
    """A leak, if there is anything left."""
    world.history.write("leak", subject=subject, base=0, now=len(left), allowed=0,
                        detail=b" ".join(left[:5]).decode(errors="replace") or None)


async def check_fronts(world):
    for front in world.fronts:
        async def descriptors(front=front):
            return max(0, front.descriptors() - front.base_descriptors - 2)
        await until(descriptors, 5)
        world.history.write("leak", subject=f"descriptors of front end {front.number}",
                            base=front.base_descriptors, now=front.descriptors(), allowed=2)
        for name in ("waiters", "waited_locks", "pending_withdrawals"):
            world.history.write("leak", subject=f"{name} of front end {front.number}", base=0,
                                now=await until(lambda f=front, n=name: metric(f, n), 5),
                                allowed=0)


async def cycles(world, count):
    """Identical rounds without faults: what a front end keeps does not grow with them."""
    first = {}
    for number in range(count):
        await asyncio.gather(*(one_cycle(world, f"cycle-{i}") for i in range(20)))
        for front in world.fronts:
            if number == 1:
                first[front] = front.resident_kib()
    for front in world.fronts:
        base, last = first[front], front.resident_kib()
        world.history.write("leak", subject=f"KiB of front end {front.number}", base=base,
                            now=last, allowed=max(1024, base // 20))


async def one_cycle(world, name):
    client = Client(world, name)
    for kind, lock in LOCKS:
        lease = Lease(client, kind, [lock])
        answer = await lease.acquire(1000, 5000)
        if answer.outcome() == "ok":
            lease.use()
        await lease.release()
    client.agent.close()
