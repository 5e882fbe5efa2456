"""The clients of a run that have sessions."""
import uuid

from calls import Lease
from clients import TRIES, Client, FreshLocks


class Session:
    def __init__(self):
        self.token, self.id, self.ttl_ms = str(uuid.uuid4()), None, 0


class SessionClient(Client):
    """Opens a session, asks for its keep-alive, and ends it."""

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

    async def beat(self, beat, session, wait_ms):
        return await beat.ask("keep-alive", "POST", f"/v1/sessions/{session.public}/keep-alive",
                              [("wait_ms", wait_ms)] if wait_ms else (),
                              {"Session-Token": session.token}, {"session": session.id},
                              wait_ms=wait_ms or None, ttl_ms=session.ttl_ms)


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
