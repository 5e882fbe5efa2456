"""Single requests of each kind, against a real rlockd, so that what they cost Redis can be
counted whatever keys and arguments the scripts take."""
import re
import time

from servers import START_S, Http, wait_for

FEW_LEASES = 8  # a session
WATCHDOG_TIMEOUT_MS = 3000  # each watched lease is renewed every third of it
LEASE, OTHER = "%08x-1111-4111-8111-111111111111", "%08x-2222-4222-8222-222222222222"
EARLIER = "%08x-3333-4333-8333-333333333333"

# What is measured, and the operations that have to come before it. A lock that was held once
# has its fencing counter.
ONCE_HELD = ("earlier_grant", "earlier_release")
PHASES = {
    "grant": ONCE_HELD, "release": (*ONCE_HELD, "grant"), "refusal": (*ONCE_HELD, "grant"),
    "renewal": (*ONCE_HELD, "grant"), "read": ONCE_HELD, "write": ONCE_HELD,
    "fair": ONCE_HELD, "session_bound": ONCE_HELD, "session_bound_few": ONCE_HELD,
    "confirm": (*ONCE_HELD, "grant"), "look": (*ONCE_HELD, "grant"),
    "fair_refusal": (*ONCE_HELD, "fair"),
    "fair_release": (*ONCE_HELD, "fair"), "fair_release_long": (*ONCE_HELD, "fair"),
    "wait": (*ONCE_HELD, "grant"), "fair_wait": (*ONCE_HELD, "fair"),
}
# Places in the queue of the fair lock, of requests that another front end has.
QUEUED = {"fair_release": 1, "fair_release_long": 900, "fair_wait": 1}
WAITING = ("wait", "fair_wait")
# KEYS list, times, places, waiters; ARGV number of places, epoch ms.
QUEUE_UP = """
for n = 1, ARGV[1] do
  local id = string.format('%08x-4444-5444-8444-444444444444', n)
  redis.call('rpush', KEYS[1], id .. ':0')
  redis.call('zadd', KEYS[2], ARGV[2] + n * 300000, id .. ':0')
  redis.call('zadd', KEYS[3], ARGV[2], id)
  redis.call('zadd', KEYS[4], ARGV[2], id)
end
for _, key in ipairs(KEYS) do redis.call('pexpire', key, 86400000) end"""
WHAT = {
    "grant": "grant of a free lock", "release": "release",
    "refusal": "refusal of a held lock (423)", "renewal": "renewal",
    "watchdog": "renewal by the watchdog, with the visit of its session",
    "watchdog_few": f"the same, {FEW_LEASES} leases a session",
    "watchdog_one": "the same, one lease a session",
    "read": "grant to read", "write": "grant to write", "fair": "grant of a fair lock",
    "session_bound": "grant of a lease of a session",
    "session_bound_few": f"the same, {FEW_LEASES} leases a session",
    "confirm": "acquire that is repeated, and confirms the grant",
    "look": "look at a held lock",
    "fair_refusal": "refusal of a held fair lock (423)",
    "fair_release": "release of a fair lock with a waiter",
    "fair_release_long": f"the same with {QUEUED['fair_release_long']} waiters",
    "wait": "wait for a lock, with its subscription",
    "fair_wait": "wait for a fair lock behind another waiter, with its subscription",
}


# The details of a 503 when Redis answers too late.
LATE = ("Redis did not answer", "nothing was changed: Redis does not answer",
        "nothing was changed: Redis cannot be reached")


class TooSlow(RuntimeError):
    """The machine is so busy that a round counts for nothing: a Redis under callgrind answered
    too late for a front end, or waiters asked again by themselves."""


def must(what, answer, good):
    """The body of an answer whose status is `good`."""
    status, body = answer
    if status == 503 and body["detail"].startswith(LATE):
        raise TooSlow(f"{what}: {body}")
    if status != good:
        raise RuntimeError(f"{what}: {status} {body}")
    return body


class Operations:
    """One connection to a front end; operation number `i` is about lock number `i`."""

    def __init__(self, server):
        self.port = server.port
        self.http = Http(server.port)
        self.session, self.small_sessions = None, [None]
        self.waiting, self.waited_from = [], 0  # time.monotonic()

    def open_session(self):
        """A new one, for Redis may have been emptied. Returns its token."""
        answer = self.http.ask("POST", "/v1/sessions?ttl_ms=600000")
        self.session = must("a session", answer, 201)["session_token"]
        return self.session

    def request(self, kind, i):
        """Method, target, headers and the status of a good answer."""
        lock, timed = f"/v1/locks/bench-{i}", "?ttl_ms=600000"
        token = {"Lease-Token": LEASE % i}
        small = self.small_sessions[i // FEW_LEASES % len(self.small_sessions)]
        return {
            "earlier_grant": ("PUT", lock + timed, {"Lease-Token": EARLIER % i}, 201),
            "earlier_release": ("DELETE", lock, {"Lease-Token": EARLIER % i}, 200),
            "grant": ("PUT", lock + timed, token, 201),
            "release": ("DELETE", lock, token, 200),
            "refusal": ("PUT", lock + timed, {"Lease-Token": OTHER % i}, 423),
            "renewal": ("PATCH", lock + timed, token, 200),
            "read": ("PUT", lock + timed + "&kind=read", token, 201),
            "write": ("PUT", lock + timed + "&kind=write", token, 201),
            "fair": ("PUT", lock + timed + "&kind=fair", token, 201),
            "session_bound": ("PUT", lock, {**token, "Session-Token": self.session}, 201),
            "session_bound_few": ("PUT", lock, {**token, "Session-Token": small}, 201),
            "confirm": ("PUT", lock + timed, token, 200),
            "look": ("GET", lock, {}, 200),
            "fair_refusal": ("PUT", lock + timed + "&kind=fair", {"Lease-Token": OTHER % i},
                             423),
            "fair_release": ("DELETE", lock, token, 200),
            "fair_release_long": ("DELETE", lock, token, 200),
            "wait": ("PUT", lock + timed + "&wait_ms=600000", {"Lease-Token": OTHER % i}, 201),
            "fair_wait": ("PUT", lock + timed + "&kind=fair&wait_ms=600000",
                          {"Lease-Token": OTHER % i}, 201),
        }[kind]

    def run_one(self, kind, i):
        method, target, headers, good = self.request(kind, i)
        must(kind, self.http.ask(method, target, headers), good)

    def run(self, kind, count):
        self.waited_from = time.monotonic()
        for i in range(count):
            if kind in WAITING:
                self.begin_wait(kind, i)
            else:
                self.run_one(kind, i)
        if kind in WAITING:
            time.sleep(0.5)  # a page of metrics, which tells who waits, takes longer

    def begin_wait(self, kind, i):
        """On a connection of its own, whose answer never comes."""
        method, target, headers, _ = self.request(kind, i)
        self.waiting.append(Http(self.port))
        self.waiting[-1].connection.request(method, target, None, headers)

    def end_waits(self):
        if not self.waiting:
            return
        for client in self.waiting:
            client.connection.close()
        self.waiting = []
        self.await_waiters(0)

    def await_waiters(self, count):
        wait_for(lambda: self.metric("waiters") == count, f"{count} waiters", START_S)

    @staticmethod
    def queue_up(redis, count, length):
        """So many places in the queue of each lock."""
        far_ms = str(int(time.time() * 1000) + 3600000)
        for i in range(count):
            name = f"{{bench-{i}}}"
            redis.command("EVAL", QUEUE_UP, "4", f"redisson_lock_queue:{name}",
                          f"redisson_lock_timeout:{name}", f"rlockd:places:{name}",
                          f"rlockd:waiters:{name}", str(length), far_ms)

    def hold_leases(self, redis, count, per_session):
        """Leases of sessions, for the watchdog."""
        redis.command("FLUSHALL")
        for i in range(count):
            if i % per_session == 0:
                self.open_session()
            self.run_one("session_bound", i)

    def prepare(self, redis, kind, count):
        self.end_waits()
        redis.command("FLUSHALL")
        self.open_session()
        for before in PHASES[kind]:
            self.run(before, count)
        if kind == "session_bound_few":
            self.small_sessions = [self.open_session() for _ in range(0, count, FEW_LEASES)]
        if kind in QUEUED:
            self.queue_up(redis, count, QUEUED[kind])

    def metric(self, name):
        page = self.http.metrics()
        return int(re.search(rf"^rlockd_{name} (\d+)", page, re.M)[1])

    def renewals(self):
        """By the watchdog, so far."""
        return self.metric("watchdog_renewals_total")

    def await_renewals(self, count, before=None):
        """Returns when there were `count` more than `before`, or than now, and how many more
        there were."""
        before = self.renewals() if before is None else before
        while (renewed := self.renewals() - before) < count:
            time.sleep(0.05)
        return renewed
