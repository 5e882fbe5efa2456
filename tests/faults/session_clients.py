"""The clients of a run that have sessions."""
import asyncio
import uuid

from calls import Caller, Lease
from clients import FAIR, OWNED, PERMITS, PLAIN, READ_WRITE, TRIES, Client, FreshLocks
from history import now


class Session:
    def __init__(self):
        self.token, self.id, self.ttl_ms = str(uuid.uuid4()), None, 0


class SessionClient(Client):
    """Opens a session, keeps it alive, works in it with owners and without, ends it or dies."""

    async def run(self):
        while not self.world.stop.is_set():
            session = Session()
            session.ttl_ms = self.random.choice([2000, 3000])
            if not await self.open(session):
                await self.nap(0.3)
                continue
            is_over = asyncio.Event()
            beats = asyncio.ensure_future(self.keep_alive(session, is_over))
            work = asyncio.gather(*(self.work_in(session, is_over) for _ in range(2)))
            if self.random.random() < 0.3:  # ends while its own requests wait
                await self.nap(self.random.uniform(0.1, 1.5))
                await self.end(session)
            await work
            is_over.set()
            if self.random.random() < 0.3:  # dies, and holds something
                await self.get(Lease(self, *super().pick(), session), None, 1000)
            elif self.random.random() < 0.8:
                await self.end(session)
            await beats
            if self.random.random() < 0.5:  # too late
                await Lease(self, "lock", [self.random.choice(PLAIN)], session).acquire(None)
        self.agent.close()

    async def open(self, session):
        answer = await self.ask("session-open", "POST", "/v1/sessions",
                                [("ttl_ms", session.ttl_ms)],
                                {"Session-Token": session.token}, {"session": session.token},
                                ttl_ms=session.ttl_ms)
        session.id = session.token  # in the history
        session.public = answer.body.get("session_id")
        return answer.outcome() == "ok"

    async def end(self, session):
        for _ in range(TRIES):
            answer = await self.ask("session-end", "DELETE", f"/v1/sessions/{session.public}",
                                    (), {"Session-Token": session.token},
                                    {"session": session.id})
            if answer.outcome() in ("ok", "ended"):
                return
            await self.nap(self.random.uniform(0.05, 0.4))

    async def keep_alive(self, session, is_over):
        beat = Caller(self.world, f"{self.name}-beat-{session.id[:8]}")
        dies = self.random.random() < 0.15
        while not is_over.is_set():
            wait_ms = self.random.choice([0, session.ttl_ms // 4])
            answer = await self.beat(beat, session, wait_ms)
            if answer.outcome() == "ended":
                break
            if dies and self.random.random() < 0.2:
                break
            await asyncio.sleep(0.4 if wait_ms == 0 else 0.02)
        beat.agent.close()

    async def beat(self, beat, session, wait_ms):
        return await beat.ask("keep-alive", "POST", f"/v1/sessions/{session.public}/keep-alive",
                              [("wait_ms", wait_ms)] if wait_ms else (),
                              {"Session-Token": session.token}, {"session": session.id},
                              wait_ms=wait_ms or None, ttl_ms=session.ttl_ms)

    async def work_in(self, session, is_over):
        for _ in range(self.random.randint(2, 8)):
            if is_over.is_set() or self.world.stop.is_set():
                return
            if self.random.random() < 0.4:
                await self.nest(session)
            else:
                kind, names = self.random.choice(
                    [("lock", PLAIN), ("lock", OWNED), ("fair", FAIR), ("read", READ_WRITE),
                     ("write", READ_WRITE), ("permit", list(PERMITS))])
                lease = Lease(self, kind, [self.random.choice(names)], session)
                await self.cycle(lease, self.random.choice([None, None, self.pick_ttl()]))

    async def nest(self, session):
        """Reentrant leases: one inside the other."""
        kind, names = self.random.choice([("lock", OWNED), ("read", READ_WRITE)])
        lock, owner = self.random.choice(names), f"o{self.random.randint(1, 2)}-{kind}"
        leases = []
        for _ in range(self.random.randint(2, 3)):
            lease = Lease(self, kind, [lock], session, owner)
            if not await self.get(lease, None, 1000 if not leases else 300):
                break
            lease.use()
            leases.append(lease)
        await self.nap(self.random.uniform(0, 0.3))
        for lease in leases:
            await self.give_back(lease)


class Visitor(SessionClient):
    """Comes and goes: the end of any session is an event for all that wait."""

    async def run(self):
        while not self.world.stop.is_set():
            session = Session()
            session.ttl_ms = 2000
            if await self.open(session):
                await self.nap(self.random.uniform(0, 0.02))
                await self.end(session)
            await self.nap(self.random.uniform(0, 0.05))
        self.agent.close()


class Publisher(FreshLocks, SessionClient):
    """Publishes, as any client of Redis may, that a session changed and that a lock is free,
    both at once. A request of that session waits for the lock, which stays held: the front end
    tries twice for the request, and not on and on."""

    prefix, pause_s = "called", 0.5

    async def meet(self, lock):
        session, holder = Session(), Lease(self, "write", [lock])
        session.ttl_ms = 3000
        if not await self.open(session) or not await self.get(holder, 4000, 0):
            return
        waiter = Lease(self, "write", [lock], session)
        waiting = self.have(waiter, 2000)
        await self.waits(waiter)
        await self.world.redis.publish(("rlockd:sessions", session.public),
                                       (f"redisson_rwlock:{{{lock}}}", "0"))
        await self.nap(1.5)
        await self.give_back(holder)
        await waiting
        await self.end(session)


class ForcedClient(SessionClient):
    """Loses a lock of its session: the lock is forced open, and another client takes it. The
    next visit of the watchdog must leave that client's lease alone."""

    async def run(self):
        number = 0
        while not self.world.stop.is_set():
            number += 1
            await asyncio.gather(*(self.lose(f"forced-{self.name}-{number}-{i}")
                                   for i in range(3)))
        self.agent.close()

    async def lose(self, lock):
        session, other = Session(), Lease(self, "lock", [lock])
        session.ttl_ms = 3000
        if not await self.open(session):
            await self.nap(0.3)
            return
        kept = [Lease(self, "lock", [name], session) for name in (f"{lock}-kept", lock)]
        for lease in kept:
            await self.get(lease, None, 0)
        await self.nap(self.random.uniform(0.5, 0.8))
        await self.force(lock)
        if await self.get(other, 4000, 0):
            ends = now() + other.remaining_ms * 10**6
            await self.nap(1)
            await self.end(session)
            await self.nap((ends - now()) / 10**9 - 0.15)
            if await self.confirm(other, 4000) != "ended":
                await self.give_back(other)
        else:
            await self.end(session)
