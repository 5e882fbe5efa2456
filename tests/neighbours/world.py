"""Servers and made-up requests for the tests of neighbours' protocols."""
import base64
import contextlib
import hashlib
import http.client
import json
import random
import time
import uuid

from servers import PATIENCE
from states import States

LOCK = "LOCK"
REQUESTS = 10000
SLOW_S = 2 * PATIENCE
BASIC = {caller: f"password-of-{caller}-0123456789" for caller in
         ("team-a", "team-b", "admin", "brief", "machines", "artist-a", "artist-b",
          "outsider", "web-machines")}
RIGHTS = {"team-a": "lock=terraform/a- read=terraform/a-", "team-b": "lock=terraform/b-",
          "admin": "lock=* operate=* read=*",
          "brief": "lock=terraform/ lock=lfs/art/ lock=fleetlock/ max-ttl-ms=60000",
          "machines": "lock=fleetlock/", "web-machines": "lock=fleetlock/web-",
          "artist-a": "lock=lfs/art/ read=lfs/art/",
          "artist-b": "lock=lfs/art/ read=lfs/art/",
          "outsider": "lock=lfs/part/free/ read=lfs/part/free/"}


class World:
    """Two front ends on one Redis, one with API tokens, and one with a Redis of its own."""

    def __init__(self, place):
        self.place, self.states = place, States()
        self.redis, self.lone_redis = place.redis(), place.redis()
        self.fronts = [place.front(self.redis, "--log-level", "warn") for _ in range(2)]
        tokens = place.folder / "api-tokens"
        tokens.write_text("".join(
            f"{caller} sha256:{hashlib.sha256(token.encode()).hexdigest()} {RIGHTS[caller]}\n"
            for caller, token in BASIC.items()), encoding="utf-8")
        tokens.chmod(0o600)
        self.guarded = place.front(self.redis, "--api-tokens", tokens)
        self.lonely = place.front(self.lone_redis)

    def lock(self, name):
        return self.fronts[0].ask("GET", f"/v1/locks/{name}")[1]

    @staticmethod
    def basic(caller):
        pair = f"user:{BASIC.get(caller, 'of-nobody-0123456789')}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    def close(self):
        self.states.close()


def expect(answer, status):
    """The body of an answer with this status."""
    assert answer[0] == status, f"{answer[0]} instead of {status}: {answer[1]}"
    return answer[1]


def held(world, name):
    """The only holder."""
    return world.lock(name)["holders"][0]


class Chance:
    """Parts of requests, the odd ones included."""

    TEXTS = ("", "a", "x" * 300, "x" * 9000, "\0", "\u2028", "é" * 40, '"', "../..", "{a}b")

    def __init__(self, seed):
        self.random = random.Random(seed)

    def name(self):
        return self.random.choice(["state", "a%2Fb", "%00", "%", "", "x" * 600, "%C3",
                                   "a/b", "rlockd:", "%7Bt%7Da", uuid.uuid4().hex])

    def query(self):
        return self.random.choice(["", "", "", "?", "?ttl_ms=100", "?ttl_ms=-1", "?wait_ms=1",
                                   "?wait_ms=x", "?a=b", "?ttl_ms=100&ttl_ms=200", "?%"])

    def value(self, depth=0):
        pick = self.random.randrange(8 if depth < 3 else 5)
        if pick < 2:
            return self.random.choice(self.TEXTS)
        if pick < 5:
            return [None, True, -1e300][pick - 2]
        if pick == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice([*self.TEXTS, "ID", "client_params", "id", "group"]):
                self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def body(self, good):
        pick = self.random.randrange(8)
        if pick == 0:
            return good()
        if pick == 1:
            return {**good(), self.random.choice([*good()]): self.value()}
        if pick == 2:
            text = bytearray(json.dumps(good()).encode())
            for _ in range(3):
                text[self.random.randrange(len(text))] = self.random.randrange(256)
            return bytes(text)
        if pick == 3:
            return self.random.choice([b"", b"[" * 16000, b"{}", b"null", b'{"a":' * 3000,
                                       b'{"ID":"a","ID":"a"}', b"x" * 17000])
        return json.dumps(self.value())


def made_up(world, methods, target, good, requests=REQUESTS, headers=None):
    """Requests that the seed makes up; a failure names it."""
    seed = random.randrange(1 << 32)
    chance, connection = Chance(seed), world.fronts[0].connect()
    statuses = set()
    for number in range(requests):
        method, where = chance.random.choice(methods), target(chance)
        kind = chance.random.choice(["", "text/plain", "application/json"])
        sent = {**(headers or {}), "Content-Type": kind}
        if chance.random.randrange(4):
            sent["fleet-lock-protocol"] = "true"
        began = time.monotonic()
        try:
            status, _ = connection.ask(method, where, sent, chance.body(good))
        except (http.client.HTTPException, ConnectionError):
            connection.close()
            status, connection = 0, world.fronts[0].connect()
        statuses.add(status)
        took = time.monotonic() - began
        assert status not in (0, 500) and took < SLOW_S, (seed, number, method, where, status)
    with contextlib.suppress(OSError):
        connection.close()
    assert {200, 400} <= statuses, (seed, statuses)
    assert all(front.is_alive() for front in world.fronts)
