"""Locks of an rlockd server, for Python 3.9 and later. Version 1. Copy this file.
A session in the background keeps leases alive. Reads RLOCK_URL, RLOCK_TOKEN_FILE, RLOCK_CA.

    with lock("deploy", wait=30) as lease:        # NotAcquired before the body runs
        lease.check()                             # LeaseLost; again before each step
        write(part, lease.fencing_token)          # the end: a release, or LeaseLost
    async with lock("deploy", wait=30) as lease:  # a loss cancels the body: LeaseLost
        await work()"""
from __future__ import annotations
import asyncio
import http.client
import json
import os
import ssl
import threading
import time
import uuid
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor as Thread
from contextlib import closing
from functools import partial
from typing import Any, Callable, Sequence
from urllib.parse import quote, unquote_to_bytes as unquoted, urlsplit
OURS = "urn:rlockd:problem:"  # a gateway's refusals have other types; only its 401 counts
now = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class RlockdError(Exception):
    """The server refuses the request for good; the text says why."""


class NotAcquired(RlockdError):
    """The wait was in vain, or no server has answered in time."""


class LeaseLost(RlockdError):
    """The lease has ended, or can no longer be proven."""


class Client:
    """Servers, tried in turn. `ttl`: how many seconds others wait when this process dies."""
    def __init__(self, url: str = "", ttl: float = 30.0) -> None:
        urls = url or os.environ.get("RLOCK_URL") or "http://localhost:7400"
        self.urls = urls.replace(",", " ").split() or [""]  # as rlock reads them
        self.ttl, self.guard, self.wait_max = ttl, threading.Lock(), 20.0  # of one request
        self.session: Session | None = None

    def open(self) -> Session:
        """The session, or one that is over, since the attempt to open it has failed."""
        before = self.session
        with self.guard:
            last = self.session  # another one than before: by the attempt of another thread
            if not last or last is before and (now() > last.until or last.pid != os.getpid()):
                last = self.session = Session(self)
            return last

    def ask(self, method: str, path: str, headers: dict[str, str], fields: dict[str, Any],
            timeout: float) -> tuple[int, dict[str, Any]]:
        """Status and body. Status 0: no answer of an rlockd; the outcome is unknown."""
        urls, detail = self.urls, "no answer of an rlockd"
        try:
            user, _, host = (url := urlsplit(urls[0])).netloc.rpartition("@")
            link = http.client.HTTPConnection(host, timeout=timeout)
            if url.scheme == "https":
                tls = ssl.create_default_context(cafile=os.environ.get("RLOCK_CA"))
                link = http.client.HTTPSConnection(host, timeout=timeout, context=tls)
            with closing(link), open(os.environ.get("RLOCK_TOKEN_FILE") or os.devnull) as file:
                basic = "Basic " + b64encode(unquoted(user + ":" * (":" not in user))).decode()
                own = f"Bearer {secret}" if (secret := file.read().strip()) else user and basic
                headers = {**headers, "Authorization": own} if own else headers
                link.request(method, url.path.rstrip("/") + path, json.dumps(fields), headers)
                detail += f": {(status := (answer := link.getresponse()).status)}"
                if status < 500 and isinstance(body := json.loads(answer.read()), dict) and (
                        status in (200, 201, 401) or str(body.get("type")).startswith(OURS)):
                    return status, body
        except (OSError, http.client.HTTPException, ValueError) as error:
            detail += f": {error if isinstance(error, OSError) else type(error).__name__}"
        self.urls = urls[1:] + urls[:1] if self.urls is urls else self.urls  # by another thread
        return 0, {"detail": detail}


class Session:
    """One thread proves the leases, another one ends those that were not proven in time."""
    def __init__(self, client: Client) -> None:
        self.client, self.pid, self.is_over = client, os.getpid(), False
        self.changed, self.leases = threading.Condition(), set[Lease]()
        self.headers, sent = {"Session-Token": str(uuid.uuid4())}, now()
        self.status, self.answer = client.ask("POST", "/v1/sessions", self.headers, {
            "ttl_ms": int(client.ttl * 1000), "name": f"{os.uname()[1]}/{self.pid}"}, 5)
        self.path = f"/v1/sessions/{self.answer.get('session_id')}"
        self.until = sent + client.ttl if "session_id" in self.answer else 0.0
        for work in (self.keep, self.watch) if self.until else ():
            threading.Thread(target=work, daemon=True).start()

    def keep(self) -> None:  # it hangs, but not after a loss
        failed, ttl = False, self.client.ttl
        while True:
            with self.changed:
                if failed or not self.leases:
                    self.changed.wait(min(1.0, ttl / 15) if failed else ttl / 3)
                known = list(self.leases)  # grants that were never answered are not among them
            hang = 0.0 if failed or not known else min(5, ttl / 4, *(x.ttl / 6 for x in known))
            held, sent = [x.lease_id for x in known] if len(known) <= 400 else None, now()
            status, body = self.client.ask("POST", self.path + "/keep-alive", self.headers, {
                "wait_ms": int(hang * 1000), "held": held}, hang + 3)
            failed = status != 200 or "leases" not in body
            if status in (404, 410) or failed and now() > self.until:
                self.is_over, self.until = True, 0.0
                return self.lose(list(self.leases), "the session has ended")
            if not failed:  # nothing was lost while the server held the answer back
                left = body["remaining_ms"] / 1000
                failed = body["draining"] or not body["lost"] and ttl - left < hang / 2
                proven = sent + (0 if failed or body["lost"] else min(hang, ttl - left))
                self.until = max(self.until, proven + left)
                for lease in known:
                    rows = [row for row in body["leases"] if row["lease_id"] == lease.lease_id]
                    if not rows:
                        self.lose([lease], "it has ended")
                    elif all("remaining_ms" in row for row in rows):
                        lease.until = proven + min(row["remaining_ms"] for row in rows) / 1000

    def watch(self) -> None:
        with self.changed:
            while not self.is_over:  # the clock of the wait stands still in a suspend
                self.lose([one for one in self.leases if one.lost], "not proven")
                self.changed.wait(min(0.25, self.client.ttl / 40) if self.leases else 60)

    def lose(self, leases: list[Lease], reason: str) -> None:
        with self.changed:
            for lease in self.leases.intersection(leases):
                self.leases.discard(lease)
                lease.reason = reason
                threading.Thread(target=lease.on_lost, daemon=True).start()


class Lease:
    """A lock, or several, all or none; used once. `kind`: lock, fair, read, write or permit.
    `on_lost` is called in a thread of its own. `grant` is the server's answer."""
    def __init__(self, client: Client, name: str | Sequence[str], wait: float = 0,
                 kind: str = "lock", on_lost: Callable[[], object] = lambda: None,
                 **fields: Any) -> None:
        self.client, self.wait, self.on_lost, self.is_cancelled = client, wait, on_lost, False
        self.path, self.fields = f"/v1/locks/{quote(str(name), '')}", dict(fields, kind=kind)
        if kind == "permit":
            self.path = f"/v1/permit-semaphores/{quote(str(name), '')}/permit"
            del self.fields["kind"]
        elif not isinstance(name, str):
            self.path, self.fields["locks"] = "/v1/multi-locks", list(name)
        self.headers, self.reason = {"Lease-Token": str(uuid.uuid4())}, "not held"

    @property
    def lost(self) -> bool:
        return self.is_cancelled or bool(self.reason) or now() >= self.deadline()

    def check(self) -> None:
        if self.lost:
            raise LeaseLost(self.reason or "not proven")

    def deadline(self) -> float:
        return float(min(self.until, self.session.until) - min(0.5, self.client.ttl / 20))

    def acquire(self) -> Lease:
        until = now() + self.wait
        try:
            while not self.attempt(until):
                pass
        except BaseException:
            if "Session-Token" in self.headers:
                self.cancel()  # its DELETE wins over every PUT with its token
            raise
        return self
    __enter__ = acquire

    def attempt(self, until: float) -> bool:
        if "Session-Token" not in self.headers:
            self.session = self.client.open()
            if now() > self.session.until:
                return self.again(self.session.status, self.session.answer, until + 1)
            self.headers = {**self.session.headers, **self.headers}
        wait = max(0.0, min(until - (sent := now()), self.client.wait_max))
        status, body = self.client.ask("PUT", self.path, self.headers, {
            **self.fields, "wait_ms": int(wait * 1000)}, wait + 5)
        if status == 400 and wait and body.get("detail", "").startswith("wait_ms:"):
            self.client.wait_max = min(self.client.wait_max, wait / 2)
            return False
        if status == 410 and body.get("type", "").endswith(":session-ended"):
            self.session.until, self.headers = 0.0, {"Lease-Token": str(uuid.uuid4())}
            return self.again(0, {"retry_after_ms": 0}, until)  # in another session
        if status in (200, 201) and body.get("state") == "held" and not self.is_cancelled:
            if now() - sent > body["remaining_ms"] / 2e3:  # a repetition's deadline is later
                return self.again(0, {"retry_after_ms": 0}, until)
            self.grant, self.lease_id, self.reason = body, body["lease_id"], ""
            self.fencing_token = int((body.get("locks") or [body])[0].get("fencing_token", 0))
            self.until, self.ttl = sent + body["remaining_ms"] / 1e3, body["ttl_ms"] / 1e3
            with self.session.changed:
                self.session.leases.add(self)
                self.session.changed.notify_all()
            return not self.session.is_over
        return self.again(status, body, until)

    def again(self, status: int, body: dict[str, Any], until: float) -> bool:
        """False, after a pause. Status 0: for one second more, at another server."""
        if 400 <= status < 500 and status not in (408, 410, 423, 425, 429):
            raise RlockdError(f"{status}: {body.get('detail', body.get('title'))}")
        if self.is_cancelled or status == 410 or now() >= until + (0 if status else 1):
            raise NotAcquired(body.get("detail", "cancelled, or no answer in time"))
        time.sleep(max(0.1, min(body.get("retry_after_ms", 500) / 1000, until - now(), 1.0)))
        return False

    def delete(self) -> int:
        until, status = now() + 5, 0
        while now() < until and status in (0, 429):
            status, body = self.client.ask("DELETE", self.path, self.headers, {}, 3)
            status *= status != 200 or "state" in body
            time.sleep(0.2 if status in (0, 429) else 0)
        return status

    def cancel(self) -> None:  # ends acquire() in another thread: NotAcquired
        self.is_cancelled = True  # so that it is lost, if it was granted
        self.delete()

    def release(self, *_: object) -> None:
        with self.session.changed:
            lost, self.reason = self.lost and (self.reason or "not proven"), "released"
            self.session.leases.discard(self)
        if self.delete() != 200 or lost:
            raise LeaseLost(lost or "its release was not confirmed")
    __exit__ = release

    async def __aenter__(self) -> Lease:
        loop, task, then = asyncio.get_running_loop(), asyncio.current_task(), self.on_lost
        self.body = [task.cancel] if task else []
        self.on_lost = lambda: (loop.call_soon_threadsafe(
            lambda: self.body and self.body.pop()()), then())
        work = loop.run_in_executor(Thread(1), self.acquire)  # no release waits for a place
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.on_lost, run = int, loop.run_in_executor  # nobody is told of its loss
            await asyncio.gather(run(Thread(1), self.cancel), work, return_exceptions=True)
            raise

    async def __aexit__(self, *_: object) -> None:
        if not self.body:  # the loss has cancelled the body, nobody else
            getattr(asyncio.current_task(), "uncancel", int)()
        self.body.clear()
        await asyncio.get_running_loop().run_in_executor(Thread(1), self.release)


lock = partial(Lease, Client())  # a lease of a client for all of the process
