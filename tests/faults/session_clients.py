"""A client that has a session, for what is left behind (leaks.py)."""
import uuid

from clients import TRIES, Client


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
