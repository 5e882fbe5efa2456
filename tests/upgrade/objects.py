"""Each kind of lease, and how it is asked for, at whichever front end."""
import uuid
from concurrent.futures import ThreadPoolExecutor

GRANTED, HELD, REFUSED, ENDED, LOCKED = 201, 200, 400, 410, 423
TTL_MS, WAIT_MS = 600_000, 50_000

_pool = ThreadPoolExecutor(100)


def new_id():
    return str(uuid.uuid4())


def expect(answer, *statuses):
    """The body of an answer with one of these statuses."""
    status, body = answer
    if status not in statuses:
        raise AssertionError(f"{status} instead of {statuses}: {body}")
    return body


class Session:
    name = "host/1"

    def __init__(self, front):
        self.token = new_id()
        opened = expect(front.ask("POST", "/v1/sessions", self.headers(),
                                  {"ttl_ms": TTL_MS, "name": self.name}), GRANTED)
        self.path = f"/v1/sessions/{opened['session_id']}"

    def headers(self):
        return {"Session-Token": self.token}

    def keep_alive(self, front, *statuses):
        return expect(front.ask("POST", self.path + "/keep-alive", self.headers()),
                      *statuses or (HELD,))

    def end(self, front):
        return expect(front.ask("DELETE", self.path, self.headers()), HELD)


class Kind:
    """`body` is a part of each request that acquires; `owner`: reentrant, so its leases have a
    session."""

    def __init__(self, name, path="/v1/locks/{}", owner=None, **body):
        self.name, self.path, self.owner, self.body = name, path, owner, body

    def __str__(self):
        return self.name

    def prepare(self, front, name):
        """What the first lease needs."""


class Permit(Kind):
    def prepare(self, front, name):
        expect(front.ask("PUT", f"/v1/permit-semaphores/{name}", None, {"permits": 1}), GRANTED)


class Several(Kind):
    """The names share a slot of a cluster."""


LOCK, FAIR, READ, WRITE, OWNER = (
    Kind("lock"), Kind("fair", kind="fair"), Kind("read", kind="read"),
    Kind("write", kind="write"), Kind("owner", owner="worker-3"))
KINDS = [LOCK, FAIR, READ, WRITE, OWNER, Several("several", "/v1/multi-locks"),
         Permit("permit", "/v1/permit-semaphores/{}/permit")]


class Lease:
    """One client with one token. Each method asks the front end that it is given."""

    def __init__(self, kind, name, session=None, **fields):
        self.kind, self.name, self.token, self.session = kind, name, new_id(), session
        self.fields = {"ttl_ms": TTL_MS, "note": f"a note, {name}", **kind.body, **fields}
        if isinstance(kind, Several):
            self.fields["locks"] = [f"{{{name}}}1", f"{{{name}}}2"]
        if isinstance(kind, Permit):
            del self.fields["note"]
        if session and kind.owner:
            self.fields["owner"] = kind.owner
        self.fields = {key: value for key, value in self.fields.items() if value is not None}
        self.fencing = None

    def _ask(self, front, method, **fields):
        headers = {"Lease-Token": self.token}
        if self.session and method == "PUT":
            headers.update(self.session.headers())
        return front.ask(method, self.kind.path.format(self.name), headers, fields)

    def put(self, front, *statuses, **fields):
        body = expect(self._ask(front, "PUT", **self.fields, **fields), *statuses)
        if "state" in body and body["state"] == "held":
            self._compare(body)
        return body

    def _compare(self, body):
        """A lease has one fencing token, or those of its locks."""
        token = body.get("fencing_token") or \
            [lock["fencing_token"] for lock in body.get("locks", ())]
        assert self.fencing in (None, token), (self.fencing, token)
        self.fencing = token

    def acquire(self, front):
        self.put(front, GRANTED)
        return self

    def wait(self, front, *statuses, wait_ms=WAIT_MS):
        """A future."""
        return _pool.submit(self.put, front, *statuses or (GRANTED,), wait_ms=wait_ms)

    def renew(self, front, *statuses):
        body = expect(self._ask(front, "PATCH", ttl_ms=TTL_MS), *statuses or (HELD,))
        if body.get("state") == "held":
            self._compare(body)
        return body

    def release(self, front, *statuses):
        return expect(self._ask(front, "DELETE"), *statuses or (HELD,))

    def lock(self):
        """The name of the lock that a look is at: the first one of several."""
        return self.fields.get("locks", [self.name])[0]

    def look(self, front):
        path = "/v1/permit-semaphores/" if isinstance(self.kind, Permit) else "/v1/locks/"
        return expect(front.ask("GET", path + self.lock()), HELD)

    def force(self, front):
        answer = front.ask("POST", f"/v1/locks/{self.lock()}/force-unlock")
        assert expect(answer, HELD)["unlocked"]
