"""The requests of the API, each recorded with its answer."""
import asyncio
import random
import urllib.parse
import uuid

import web
from history import now

# Beyond the wait: an answer that comes after that is no answer.
TIMEOUT_S = 7


class Resource:
    """What the locks are for: it refuses every fencing token below the highest it has seen. It
    has no faults."""

    def __init__(self, history):
        self.history, self.highest = history, {}

    def write(self, lock, lease, token):
        accepted = token >= self.highest.get(lock, 0)
        if accepted:
            self.highest[lock] = token
        self.history.write("resource", lock=lock, lease=lease, t=now(), token=token,
                           accepted=accepted)


class World:
    """What all clients share."""

    def __init__(self, history, redis, fronts, seed):
        self.history, self.redis, self.fronts, self.seed = history, redis, fronts, seed
        self.resource, self.stop, self.waiting = Resource(history), asyncio.Event(), 0
        self.only_out_of_memory = False  # no other fault than that is there
        self.live = None  # the clients of live.py


class Lease:
    """One token of one client, and the requests with it."""

    def __init__(self, caller, kind, locks, session=None, owner=None):
        self.caller, self.kind, self.locks = caller, kind, locks
        self.session, self.owner = session, owner
        self.token = str(uuid.uuid4())
        self.id = str(uuid.uuid5(web.LEASE_NAMESPACE, self.token))
        self.tokens, self.remaining_ms, self.held_until = [], 0, 0

    def path(self):
        if len(self.locks) > 1:
            return "/v1/multi-locks"
        name = urllib.parse.quote(self.locks[0], safe="")
        return f"/v1/permit-semaphores/{name}/permit" if self.kind == "permit" else \
            f"/v1/locks/{name}"

    def fields(self):
        fields = {"kind": self.kind, "lease": self.id, "owner": self.owner,
                  "session": self.session.id if self.session else None}
        if len(self.locks) > 1:
            return {**fields, "locks": self.locks}
        return {**fields, "lock": self.locks[0]}

    @staticmethod
    def query(**values):
        return [(name, value) for name, value in values.items() if value is not None]

    def headers(self, with_session):
        headers = {"Lease-Token": self.token}
        if self.session and with_session:
            headers["Session-Token"] = self.session.token
        return headers

    async def _send(self, verb, method, query, wait_ms=None, ttl_ms=None, **options):
        with_session, began = verb == "acquire", now()
        answer = await self.caller.ask(
            verb, method, self.path(), query, self.headers(with_session), self.fields(),
            wait_ms=wait_ms, ttl_ms=ttl_ms, lease_id=self.id,
            must_work=verb != "acquire" and now() < self.held_until, **options)
        if answer.outcome() == "ok" and verb != "release":
            self.held_until = began + answer.body.get("remaining_ms", 0) * 10**6
        elif verb == "release" or answer.outcome() == "ended":
            self.held_until = 0
        return answer

    async def acquire(self, ttl_ms=None, wait_ms=0, **options):
        kind = self.kind if self.kind not in ("permit", "lock") else None
        query = self.query(kind=kind, ttl_ms=ttl_ms, wait_ms=wait_ms or None, owner=self.owner)
        if len(self.locks) > 1:
            query += [("locks", name) for name in self.locks]
        return await self._send("acquire", "PUT", query, wait_ms, ttl_ms, **options)

    async def renew(self, ttl_ms=None, **options):
        return await self._send("renew", "PATCH", self.query(ttl_ms=ttl_ms), None, ttl_ms,
                                **options)

    async def release(self, **options):
        return await self._send("release", "DELETE", self.query(), **options)

    def use(self):
        """Writes to what the locks protect."""
        for lock, token in zip(self.locks, self.tokens):
            if token:
                self.caller.world.resource.write(lock, self.id, token)


def tokens_of(body, locks):
    """The fencing token of each lock; an answer names several locks in an order of its own."""
    if len(locks) < 2:
        return [body.get("fencing_token", 0)]
    tokens = {part.get("lock"): part.get("fencing_token", 0)
              for part in body.get("locks", []) if isinstance(part, dict)}
    return [tokens.get(lock, 0) for lock in locks]


class Caller:
    """One client: a name in the history, connections, and a source of chance."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.random, self.agent = random.Random(f"{world.seed} {name}"), web.Agent()

    def pick_front(self):
        return self.random.choice(self.world.fronts)

    async def ask(self, verb, method, path, query, headers, fields, wait_ms=None, ttl_ms=None,
                  lease_id=None, front=None, abandon_after=None, sweep=None,
                  must_work=False):
        world, front = self.world, front or self.pick_front()
        began, was_short = now(), world.only_out_of_memory
        world.waiting += bool(wait_ms)
        try:
            answer = await self.agent.ask(
                front.proxy.port, method, path, query, headers,
                (wait_ms or 0) / 1000 + TIMEOUT_S, abandon_after, self.random.random() < 0.5)
        finally:
            world.waiting -= bool(wait_ms)
        body, outcome = answer.body, answer.outcome()
        problem = answer.problem
        if lease_id and outcome == "ok" and body.get("lease_id", lease_id) != lease_id:
            problem = "another lease_id than that of the token"
        if must_work and answer.status == 503 and was_short and world.only_out_of_memory:
            problem = f"{verb} was refused when only memory was short"
        if outcome == "ok" and verb in ("acquire", "renew") and lease_id:
            locks = fields.get("locks", ())
            tokens = tokens_of(body, locks)
            fields = {**fields, **({"tokens": tokens} if locks else {"token": tokens[0]})}
        if outcome == "ok" and verb == "keep-alive":
            fields = {**fields, "listed": [
                {"lease": one.get("lease_id"), "remaining_ms": one.get("remaining_ms")}
                for one in body.get("leases", []) if one.get("state") == "held"]}
        world.history.op(
            client=self.name, op=verb, front=front.number, t_inv=began, t_ret=now(),
            status=answer.status, outcome=outcome, wait_ms=wait_ms, ttl_ms=ttl_ms,
            remaining_ms=body.get("remaining_ms") if outcome == "ok" else None,
            hold_count=body.get("hold_count") if verb == "acquire" else None,
            reason=body.get("reason"), malformed=problem, sweep=sweep, **fields)
        return answer

    async def nap(self, seconds):
        """Sleeps, but not beyond the end of the run."""
        try:
            await asyncio.wait_for(self.world.stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass
