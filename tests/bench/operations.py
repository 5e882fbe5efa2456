"""Single requests of each kind, against a real rlockd, so that what they cost Redis can be
counted whatever keys and arguments the scripts take."""
import re
import time

from servers import Http

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
    "fair": ONCE_HELD, "session_bound": ONCE_HELD,
}
WHAT = {
    "grant": "grant of a free lock", "release": "release",
    "refusal": "refusal of a held lock (423)", "renewal": "renewal",
    "watchdog": "renewal by the watchdog, with the visit of its session",
    "watchdog_few": f"the same, {FEW_LEASES} leases a session",
    "read": "grant to read", "write": "grant to write", "fair": "grant of a fair lock",
    "session_bound": "grant of a lease of a session",
}


class Operations:
    """One connection to a front end; operation number `i` is about lock number `i`."""

    def __init__(self, server):
        self.http = Http(server.port)
        self.session = None

    def open_session(self):
        """A new one: Redis may have been emptied."""
        answer = self.http.ask("POST", "/v1/sessions?ttl_ms=600000")
        self.session = answer[1]["session_token"]

    def request(self, kind, i):
        """Method, target, headers and the status of a good answer."""
        lock, timed = f"/v1/locks/bench-{i}", "?ttl_ms=600000"
        token = {"Lease-Token": LEASE % i}
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
        }[kind]

    def run_one(self, kind, i):
        method, target, headers, good = self.request(kind, i)
        status, body = self.http.ask(method, target, headers)
        if status != good:
            raise RuntimeError(f"{kind}: {status} {body}")

    def run(self, kind, count):
        for i in range(count):
            self.run_one(kind, i)

    def hold_leases(self, redis, count, per_session):
        """Leases of sessions, for the watchdog."""
        redis.command("FLUSHALL")
        for i in range(count):
            if i % per_session == 0:
                self.open_session()
            self.run_one("session_bound", i)

    def prepare(self, redis, kind, count):
        redis.command("FLUSHALL")
        self.open_session()
        for before in PHASES[kind]:
            self.run(before, count)

    def renewals(self):
        """By the watchdog, so far."""
        page = self.http.ask("GET", "/metrics")[1]
        return int(re.search(r"^rlockd_watchdog_renewals_total (\d+)", page, re.M)[1])

    def await_renewals(self, count):
        """Returns when there were `count` more than now, and how many more there were."""
        before = self.renewals()
        while (renewed := self.renewals() - before) < count:
            time.sleep(0.05)
        return renewed
