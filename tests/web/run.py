#!/usr/bin/env python3
"""What web pages in a real Chromium can do to a front end: those of other origins and of
rebound names change and read nothing, those of the front end and of allowed origins use it.

usage: run.py BINARY"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from processes import Browser, Pages  # noqa: E402
from servers import PATIENCE, Place, wait_for  # noqa: E402

# What a page may see of a request that it must not read.
BLIND = {"opaque", "sent", "error", "TypeError"}
USED = {"held": 201, "shown": True, "locked": True, "renewed": 200, "released": 200}

# A browser refuses some attempts itself, those with a preflight; and without Sec-Fetch-Site a
# GET is served.
REFUSED_MIN = 40

PAGE_S = 30 * PATIENCE

failures = []


def check(name, condition, detail):
    if not condition:
        failures.append(name)
        print(f"FAILED: {name}: {detail}")


def fill(front):
    """Something to change and to read."""
    steps = (("PUT", "/v1/locks/deploy?ttl_ms=600000", 201),
             ("PUT", "/v1/semaphores/s?permits=3", 201),
             ("PUT", "/v1/permit-semaphores/p?permits=3", 201),
             ("PUT", "/v1/latches/l?count=3", 201))
    token = {"Lease-Token": "4f0d2f7e-61a9-4d7b-8a8e-0d6a3a1d5b11"}
    for method, path, status in steps:
        headers = token if "locks" in path else {}
        got = front.ask(method, path, headers)
        if got[0] != status:
            raise OSError(f"{method} {path}: {got}")


def state(front):
    """All that pages might have changed."""
    lock = front.ask("GET", "/v1/locks/deploy")[1]
    return {
        "locks": sorted(entry["lock"] for entry in front.ask("GET", "/v1/locks")[1]["locks"]),
        "fencing token": lock.get("fencing_token"),
        "sessions": len(front.ask("GET", "/v1/sessions")[1]["sessions"]),
        **{path: front.ask("GET", path)[1].get(member)
           for path, member in (("/v1/semaphores/s", "available"),
                                ("/v1/semaphores/made", "available"),
                                ("/v1/permit-semaphores/p", "available"),
                                ("/v1/latches/l", "count"), ("/v1/latches/made", "count"))},
    }


def is_blind(result, rebound):
    """A page of a rebound name reads answers: they must be refusals."""
    saw = result["saw"]
    if not rebound:
        return isinstance(saw, str) and saw in BLIND
    if isinstance(saw, dict):
        return saw["status"] == (404 if result["path"] == "/v1/nothing" else 403)
    return saw in BLIND | {"load"}


class Runs:
    def __init__(self, place):
        self.place, self.pages, self.fronts = place, Pages(), []

    def front(self, *flags):
        """One whose log has requests of open paths, too."""
        front = self.place.front(None, "--log-level", "debug", *flags)
        self.fronts.append(front)
        fill(front)
        return front

    def browse(self, url, condition):
        """Opens the page, until the condition holds."""
        browser = self.place.add(Browser(self.place, url))
        try:
            wait_for(condition, url, PAGE_S)
        finally:
            browser.kill()

    def report_of(self, page, host, target):
        """What the page has reported; `target` is the server that it sends requests to."""
        done = self.pages.server.done
        done.clear()
        self.browse(f"http://{host}:{self.pages.port}/{page}?target={target}"
                    f"&patience={PATIENCE}", lambda: done)
        return done[0]

    def attack(self, name, host, target, front, relay=None):
        """A page that must change and read nothing."""
        self.pages.server.relay = relay
        known = sum(line["status"] == 403 for line in front.log_lines("request"))
        before = state(front)
        results = self.report_of("attack.html", host, target)
        after = state(front)
        check(name, after == before,
              {what: (before[what], after[what]) for what in after
               if after[what] != before[what]})
        seen = [result for result in results if not is_blind(result, relay is not None)]
        check(name, not seen, f"it saw {seen[:5]}, {len(seen)} in all")
        for what in {result["what"] for result in results} if relay is None else ():
            saw = {result["saw"] for result in results
                   if result["what"] == what and isinstance(result["saw"], str)}
            check(name, len(saw) == 1, f"{what}: tells answers apart: {saw}")
        refused = sum(line["status"] == 403 for line in front.log_lines("request")) - known
        check(name, refused >= REFUSED_MIN, f"{refused} requests have come to the front end")
        print(f"{name}: {len(results)} attempts, {refused} refused")

    def use(self, name, host, target, relay=None):
        """A page that must be able to use the server."""
        self.pages.server.relay = relay
        result = self.report_of("use.html", host, target)
        check(name, result == USED, result)
        print(f"{name}: {result}")

    def link(self, name, front, path, status):
        """A link of another site."""
        self.pages.server.relay = None

        def statuses():
            return [line["status"] for line in front.log_lines("request")
                    if line["route"] == path]

        known = len(statuses())
        self.browse(f"http://evil.test:{self.pages.port}/link.html?target={front.url}{path}",
                    lambda: len(statuses()) > known)
        check(name, statuses()[known] == status, statuses()[known:])
        print(f"{name}: {statuses()[known]}")

    def stop(self):
        self.pages.stop()
        for front in self.fronts:
            status = front.stop()
            check("front ends", status == 0, f"one has ended with {status}")


def run(runs):
    alone = runs.front()
    runs.attack("a page of another site", "evil.test", alone.url, alone)
    runs.attack("a page of another port", "127.0.0.1", alone.url, alone)
    runs.attack("a page of a rebound name", "rebind.test", "", alone, relay=alone)
    runs.use("a page of the front end", "127.0.0.1", "", relay=alone)
    runs.use("the same as localhost", "localhost", "", relay=alone)
    runs.link("a link to an open page", alone, "/version", 200)
    runs.link("a link to locks", alone, "/v1/locks", 403)
    # Browsers send no Sec-Fetch-Site to a name without TLS.
    named = runs.front("--server-names", "lan.test",
                       "--cors-origins", f"http://good.test:{runs.pages.port}")
    url = f"http://lan.test:{named.port}"
    runs.attack("a page of another site, to a name", "evil.test", url, named)
    runs.use("a page of the front end's name", "lan.test", "", relay=named)
    runs.use("a page of an allowed origin", "good.test", url)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Place("web", sys.argv[1]) as place:
        runs = Runs(place)
        try:
            run(runs)
        finally:
            runs.stop()
        if failures:
            sys.exit(f"{len(failures)} failures")


main()
