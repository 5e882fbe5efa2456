"""The clients of a run that need its Redis or its proxies, or that wait for what others do.
All others are those of the simulation (live.py). Each loops until the run is over; what it does
next is chance from the run's seed and its own name."""
import asyncio
import contextlib

from calls import Caller, Lease, tokens_of
from history import PATIENCE, now
from servers import RedisError

# Names with a tag: of a Redis Cluster all locks of a set have to be in one slot.
PLAIN = ["{plain}-a", "{plain}-b", "{plain}-c"]
FAIR = ["fair-a", "fair-b"]
READ_WRITE = ["rw-a", "rw-b"]
OWNED = ["owned-a", "owned-b"]
# Locks of a relay alone.
RELAYED = [("lock", "relay-a"), ("write", "relay-b"), ("lock", "relay-c")]
CROWDED = [("write", "readers-a")]
RETURNED = [("fair", "return-a")]
PERMITS = {"permits-a": 2}
INHERITED = "inherited-a"  # permits of an heir alone
ALL_PERMITS = {**PERMITS, INHERITED: 1}
SEMAPHORES = {"semaphore-a": 4}
# Of the clients in live.py alone.
OTHERS = ["crowd-a", "forced-a"]
LOCKS = [*RELAYED, *CROWDED, *RETURNED, *(("lock", name) for name in PLAIN + OWNED + OTHERS),
         *(("fair", name) for name in FAIR), *(("write", name) for name in READ_WRITE),
         *(("permit", name) for name in ALL_PERMITS)]

# A client asks again at most so often with one token, before it leaves the lease to its end.
TRIES = 8


def locks_of(redis):
    """Those that are not refused."""
    return [(kind, lock) for kind, lock in LOCKS if redis.offers(kind)]


# A client that hung up so long before a release is gone for certain, says the checker.
GONE_S = 0.07 * PATIENCE

# How long a client looks whether its request waits, in s, before it goes on all the same:
# during a fault the request may never wait.
WAITS_S = 1


class Client(Caller):
    """Gets locks and gives them back. `needs`: the kind of locks without which a client has
    nothing to do."""

    needs = "lock"

    def note(self, lease, answer):
        body = answer.body
        lease.remaining_ms = body.get("remaining_ms", 0)
        lease.tokens = tokens_of(body, lease.locks)

    async def get(self, lease, ttl_ms, wait_ms):
        """Whether it was granted. Asks with the same token until the outcome is known."""
        for _ in range(TRIES):
            answer = await lease.acquire(ttl_ms, wait_ms)
            outcome = answer.outcome()
            if outcome == "ok":
                self.note(lease, answer)
                return True
            if outcome == "ended" or self.world.stop.is_set():
                return False
            if outcome == "not-done" and answer.status == 423 and self.random.random() < 0.7:
                if self.random.random() < (0.95 if lease.kind == "fair" else 0.5):
                    await self.give_back(lease)
                return False
            await self.nap(self.random.uniform(0.02, 0.4))
        return False

    async def give_back(self, lease, **options):
        for _ in range(TRIES):
            answer = await lease.release(**options)
            if answer.outcome() in ("ok", "ended"):
                return
            await self.nap(self.random.uniform(0.05, 0.5))

    def have(self, lease, wait_ms=4000, **options):
        """Waits for the lock and gives it back."""
        async def wait():
            answer = await lease.acquire(4000, wait_ms, **options)
            if answer.outcome() not in ("ended", "abandoned"):
                await self.give_back(lease)
        return asyncio.ensure_future(wait())

    def pick_other(self, front):
        return self.random.choice([other for other in self.world.fronts if other is not front]
                                  or [front])

    async def waits(self, lease):
        """Returns when Redis knows that the lease waits and that a front end listens for it:
        then the front end has it in its queue."""
        name = lease.locks[0]
        lock = name if "{" in name else "{" + name + "}"
        record = f"rlockd:lease:{lock}:{lease.id}{':m' if len(lease.locks) > 1 else ''}"
        deadline = now() + WAITS_S * 10**9
        while now() < deadline and not self.world.stop.is_set():
            with contextlib.suppress(OSError, RedisError, asyncio.TimeoutError,
                                     asyncio.IncompleteReadError):
                redis = self.world.redis.asked
                if await redis.command("EXISTS", record, timeout=WAITS_S) and \
                        await redis.command("PUBSUB", "CHANNELS", f"*{lock}*",
                                            timeout=WAITS_S):
                    return
            await asyncio.sleep(0.005)


class Relay(Client):
    """Two requests wait at one front end, and the first hangs up just when it is woken: nobody
    else comes by to find the lock free, so the other has to be woken instead."""

    async def run(self):
        kind, lock = RELAYED[int(self.name.rsplit("-", 1)[1]) % len(RELAYED)]
        while not self.world.stop.is_set():
            await self.relay(kind, lock)
            await self.nap(self.random.uniform(0, 0.05))
        self.agent.close()

    async def relay(self, kind, lock):
        holder, first, second = (Lease(self, kind, [lock]) for _ in range(3))
        front = self.pick_front()
        if not await self.get(holder, 4000, 4000):
            return
        holder.use()
        gone_after = self.random.uniform(0.03, 0.06)
        waits = [self.have(first, front=front, abandon_after=gone_after)]
        await asyncio.sleep(0.01)
        waits.append(self.have(second, front=front))
        await asyncio.sleep(gone_after - 0.01 - self.random.uniform(-0.001, 0.006))
        await self.give_back(holder)
        await asyncio.gather(*waits)


class Crowd(Client):
    """Readers that wait at one front end for one writer: what ends its lease wakes them all,
    one after the other."""

    async def run(self):
        while not self.world.stop.is_set():
            await self.gather(CROWDED[0][1])
            await self.nap(self.random.uniform(0, 0.2))
        self.agent.close()

    async def gather(self, lock):
        writer = Lease(self, "write", [lock])
        if not await self.get(writer, self.random.choice([500, 4000]), 1000):
            return
        front = self.pick_front()
        waits = [self.read(Lease(self, "read", [lock]), front) for _ in range(5)]
        await asyncio.sleep(self.random.uniform(0.02, 0.1))
        if writer.remaining_ms > 500 or self.random.random() < 0.5:
            await self.give_back(writer)
        await asyncio.gather(*waits)

    def read(self, lease, front):
        async def wait():
            await asyncio.sleep(self.random.uniform(0, 0.01))
            answer = await lease.acquire(2000, 4000, front=front)
            if answer.outcome() == "ok":
                await asyncio.sleep(self.random.uniform(0.9, 1.1))
            if answer.outcome() != "ended":
                await self.give_back(lease)
        return asyncio.ensure_future(wait())


class Returner(Client):
    """Leaves the queue of a fair lock with its place, and comes back for it behind another
    client that has come meanwhile."""

    needs = "fair"

    async def run(self):
        while not self.world.stop.is_set():
            await self.line_up(RETURNED[0][1])
            await self.nap(self.random.uniform(0, 0.2))
        self.agent.close()

    async def line_up(self, lock):
        holder, first, later = (Lease(self, "fair", [lock]) for _ in range(3))
        if not await self.get(holder, 4000, 4000):
            return
        waits = [asyncio.ensure_future(self.stand(first, True)),
                 asyncio.ensure_future(self.stand(later, False))]
        await self.nap(0.9)
        await self.give_back(holder)
        await asyncio.gather(*waits)

    async def stand(self, lease, is_first):
        if is_first:
            await lease.acquire(2000, 100)
        await asyncio.sleep(0.6)
        if (await lease.acquire(2000, 4000)).outcome() == "ok":
            await asyncio.sleep(0.6)
        await self.give_back(lease)


class FreshLocks(Client):
    """Works on locks that no client has asked for before, one after the other."""

    async def run(self):
        number = 0
        while not self.world.stop.is_set():
            number += 1
            await self.meet(f"{self.prefix}-{self.name}-{number}")
            await self.nap(self.random.uniform(0, self.pause_s))
        self.agent.close()


class Newcomer(FreshLocks):
    """Takes a lock that no client has asked for before, and releases it, mostly at another
    front end, when a request has tried in vain and its front end is about to listen: the proxy
    holds the subscription back until the lock is released."""

    prefix, pause_s = "new", 0.1

    async def meet(self, lock):
        kind = self.random.choice([kind for kind in ("lock", "lock", "write", "fair")
                                   if self.world.redis.offers(kind)])
        holder, second = Lease(self, kind, [lock]), Lease(self, kind, [lock])
        front = self.pick_front()
        if not await self.get(holder, 4000, 0):
            return
        with front.gate(b"SUBSCRIBE", lock.encode()) as gate:
            request = asyncio.ensure_future(second.acquire(4000, 4000, front=front))
            await gate.reached()
            await self.give_back(
                holder, front=self.pick_other(front) if self.random.random() < 0.8 else front)
        if (await request).outcome() != "ended":
            await self.give_back(second)


class Leaver(FreshLocks):
    """Is first in line for a lock that no client has asked for before, and hangs up. The
    release that comes then is for the request behind, at the same front end; mostly the release
    comes there, too, so that it may grant the lock."""

    prefix, pause_s = "left", 0.05

    async def meet(self, lock):
        holder, first, second = (Lease(self, "lock", [lock]) for _ in range(3))
        front = self.pick_front()
        if not await self.get(holder, 4000, 0):
            return
        left = asyncio.ensure_future(
            first.acquire(4000, 4000, front=front, abandon_after=0.02 * PATIENCE))
        await self.waits(first)
        request = asyncio.ensure_future(second.acquire(4000, 4000, front=front))
        await left
        await asyncio.sleep(GONE_S)
        await self.give_back(holder, front=front if self.random.random() < 0.7 else None)
        if (await request).outcome() != "ended":
            await self.give_back(second)


class Mover(FreshLocks):
    """Two requests wait for one lock at one front end, and the lock is released at another. The
    first request wants one lock more, which is still held: it goes on to wait there, and leaves
    the released lock to the request behind. No message tells so: the baton is passed on."""

    prefix, pause_s = "moved", 0.05

    async def meet(self, lock):
        locks = ["{" + lock + "}-a", "{" + lock + "}-b"]
        holders = [Lease(self, "lock", [name]) for name in locks]
        both, behind = Lease(self, "lock", locks), Lease(self, "lock", locks[:1])
        front = self.pick_front()
        if not all([await self.get(holder, 4000, 0) for holder in holders]):
            return
        # Over before the leases are: then the request certainly held neither lock meanwhile.
        mover = self.have(both, 2000, front=front)
        await self.waits(both)
        follower = self.have(behind, front=front)
        await self.waits(behind)
        await self.give_back(holders[0], front=self.pick_other(front))
        await follower
        await self.give_back(holders[1])
        await mover


class Queuer(FreshLocks):
    """Two requests wait for a fair lock, each at a front end of its own. The lock is released
    where the second request waits, and is the first request's."""

    needs, prefix, pause_s = "fair", "queue", 0.1

    async def meet(self, lock):
        holder, first, second = (Lease(self, "fair", [lock]) for _ in range(3))
        front = self.pick_front()
        if not await self.get(holder, 4000, 0):
            return
        waits = [self.have(first, front=self.pick_other(front))]
        await self.waits(first)
        waits.append(self.have(second, front=front))
        await self.waits(second)
        await self.give_back(holder, front=front)
        await asyncio.gather(*waits)


class Heir(Client):
    """Waits for the only permit of a semaphore where the permit is released, so that the
    release hands the permit over; a third request, which comes then, has to go without."""

    needs = "permit"

    async def run(self):
        while not self.world.stop.is_set():
            await self.inherit()
            await self.nap(self.random.uniform(0, 0.1))
        self.agent.close()

    async def inherit(self):
        holder, heir, late = (Lease(self, "permit", [INHERITED]) for _ in range(3))
        front = self.pick_front()
        if not await self.get(holder, 4000, 1000):
            return
        request = asyncio.ensure_future(heir.acquire(4000, 4000, front=front))
        await self.waits(heir)
        await self.give_back(holder, front=front)
        outcome = (await request).outcome()
        if (await late.acquire(4000, 0)).outcome() != "ended":
            await self.give_back(late)
        if outcome != "ended":
            await self.give_back(heir)
