#!/usr/bin/env python3
"""What the kit does not ask of clients/python/rlockd.py: asyncio, threads, suspensions."""
import asyncio
import http.server
import json
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "clients/python")]
from servers import PATIENCE, Place, free_port, wait_for  # noqa: E402
import rlockd  # noqa: E402

SOON_S = 4 * PATIENCE


def is_free(front, lock):
    look = front.ask("GET", f"/v1/locks/{lock}")[1]
    return not look["locked"] and not look["waiter_count"]


async def a_loss_cancels_the_body(front, client):
    try:
        async with rlockd.Lease(client, "forced", wait=5):
            front.ask("POST", "/v1/locks/forced/force-unlock")
            await asyncio.sleep(60)
        raise AssertionError("the body went on")
    except rlockd.LeaseLost:
        pass


async def a_loss_is_told_where_the_body_awaits_nothing_more(front, client):
    try:
        async with rlockd.Lease(client, "blocked", wait=5) as lease:
            front.ask("POST", "/v1/locks/blocked/force-unlock")
            wait_for(lambda: lease.lost, "the loss", SOON_S)
            time.sleep(0.2)  # until the loop was asked to cancel the body
        raise AssertionError("the loss was not told")
    except rlockd.LeaseLost:
        await asyncio.sleep(0.1)


async def a_cancelled_wait_leaves_nothing(front, client):
    async with rlockd.Lease(client, "waited"):
        task = asyncio.ensure_future(rlockd.Lease(client, "waited", wait=60).__aenter__())
        while not front.ask("GET", "/v1/locks/waited")[1]["waiter_count"]:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    wait_for(lambda: is_free(front, "waited"), "the lock is free")


def deaf_after_a_grant(front, granted):
    """A client whose releases have no answer. granted() is called in the thread of a grant,
    whose lease is kept alive already. Also what its keep-alives name."""
    client, named = rlockd.Client(front.url, ttl=3 * PATIENCE), []
    session, real = client.open(), client.ask

    def ask(method, path, headers, fields, timeout):
        if method == "DELETE":
            return 0, {}
        if "held" in fields:
            named.append(fields["held"])
        return real(method, path, headers, fields, timeout)

    def notify_all():
        real_notify()
        granted()
    client.ask = ask
    real_notify, session.changed.notify_all = session.changed.notify_all, notify_all
    return client, named


def is_named_no_more(named):
    before = len(named)
    wait_for(lambda: len(named) > before + 2, "keep-alives", SOON_S)
    assert named[-1] == [], named


async def a_grant_that_comes_with_the_cancellation_is_not_kept(front, _):
    loop, told = asyncio.get_running_loop(), []
    client, named = deaf_after_a_grant(front, lambda: loop.call_soon_threadsafe(task.cancel))
    lease = rlockd.Lease(client, "late-cancel", on_lost=lambda: told.append(1))
    task = asyncio.ensure_future(lease.__aenter__())
    await asyncio.wait([task])
    assert task.cancelled()
    await loop.run_in_executor(None, is_named_no_more, named)
    assert lease.lost and not told, told


def a_grant_that_is_interrupted_is_not_kept(front, _):
    def interrupt():
        raise KeyboardInterrupt
    client, named = deaf_after_a_grant(front, interrupt)
    try:
        rlockd.Lease(client, "interrupted").acquire()
        raise AssertionError("it was not interrupted")
    except KeyboardInterrupt:
        is_named_no_more(named)


async def waiters_do_not_hold_up_a_release(front, client):
    """More of them than asyncio has threads."""
    async def hold():
        async with rlockd.Lease(client, "wanted", wait=20 * PATIENCE):
            await asyncio.sleep(0.01)
    await asyncio.gather(*(hold() for _ in range(40)))


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def two_threads_change_to_the_next_server(front, _):
    """And not back again."""
    with socket.create_server(("127.0.0.1", 0)) as dead:
        client = rlockd.Client(f"http://127.0.0.1:{dead.getsockname()[1]},{front.url}")
        threads = in_threads(2, lambda _: client.ask("GET", "/v1/locks/a", {}, {}, SOON_S))
        for connection in [dead.accept()[0] for _ in threads]:
            connection.close()
        for thread in threads:
            thread.join()
    assert client.urls[0] == front.url, client.urls


def addresses_are_read_as_by_rlock(_, __):
    for urls in (" http://one, http://two ", "http://one http://two,"):
        assert rlockd.Client(urls).urls == ["http://one", "http://two"], urls


def after_what_is_no_address_the_next_one_is_asked(front, _):
    for wrong in ("http://[::1", "http://one:port", "ftp://one"):
        with rlockd.Lease(rlockd.Client(f"{wrong} {front.url}"), "a", wait=1):
            pass
    assert rlockd.Client(",").ask("GET", "/", {}, {}, SOON_S)[0] == 0


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers who has asked."""
    def do_GET(self):
        body = json.dumps({"who": self.headers["Authorization"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def who_asks(_, __):
    """The API token, or else the user of the address, as with the other clients."""
    with tempfile.NamedTemporaryFile("w") as file, \
            http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        print("secret", file=file, flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for user, token, who in (("", "", None), ("", file.name, "Bearer secret"),
                                 ("me:p%40@", file.name, "Bearer secret"),
                                 ("me:p%40@", "", "Basic bWU6cEA="), ("me@", "", "Basic bWU6")):
            client = rlockd.Client(f"http://{user}127.0.0.1:{server.server_port}")
            with mock.patch.dict(os.environ, RLOCK_TOKEN_FILE=token):
                answer = client.ask("GET", "/", {}, {}, SOON_S)
            assert answer == (200, {"who": who}), (user, token, answer)
        server.shutdown()


def what_is_wrong_is_told(front, _):
    """Without the API token."""
    with tempfile.NamedTemporaryFile("w") as file:
        print("secret\nsecret", file=file, flush=True)
        with mock.patch.dict(os.environ, RLOCK_TOKEN_FILE=file.name):
            answer = rlockd.Client(front.url).ask("GET", "/", {}, {}, SOON_S)
    assert answer == (0, {"detail": "no answer of an rlockd: ValueError"}), answer
    try:
        with mock.patch.dict(os.environ, RLOCK_TOKEN_FILE="/none"):
            rlockd.Lease(rlockd.Client(front.url), "a").acquire()
        raise AssertionError("asks without the API token")
    except rlockd.NotAcquired as error:
        assert "/none" in str(error), error


def cancels_while_a_session_is_opened(_, __):
    """Also one that another thread opens."""
    client = rlockd.Client(f"http://127.0.0.1:{free_port()}")
    leases, ended = [rlockd.Lease(client, "a", wait=60) for _ in range(2)], []

    def acquire(number):
        try:
            leases[number].acquire()
        except rlockd.NotAcquired:
            ended.append(number)
    in_threads(2, acquire)
    time.sleep(0.3)
    in_threads(2, lambda number: leases[number].cancel())
    wait_for(lambda: len(ended) == 2, "both have ended", SOON_S)


def threads_share_an_attempt_to_open_a_session(_, __):
    """None waits for one attempt of each of the others, where servers are silent."""
    client, asked, ended = rlockd.Client("http://127.0.0.1:9"), [], []

    def ask(*_):
        asked.append(rlockd.now())
        time.sleep(1)
        return 0, {}

    def acquire(_):
        try:
            rlockd.Lease(client, "a").acquire()
        except rlockd.NotAcquired:
            ended.append(rlockd.now())
    client.ask = ask
    for thread in in_threads(8, acquire):
        thread.join()
    assert len(ended) == 8 and len(asked) < 6, (ended, asked)


def a_session_that_is_over_asks_no_more(front, _):
    """Also where its API token counts no more."""
    client, asked = rlockd.Client(front.url, ttl=1), []
    with rlockd.Lease(client, "brief"):
        pass
    client.ask = lambda *_: (401, {"at": asked.append(rlockd.now())})
    wait_for(lambda: asked, "a keep-alive", SOON_S)
    wait_for(lambda: rlockd.now() > asked[-1] + 0.5, "no keep-alive any more", SOON_S)


def an_answer_that_was_only_late_proves_no_more(front, _):
    """The server had no place for a request that waits; the answer took long on its way."""
    client, sent = rlockd.Client(front.url, ttl=8), []
    lease = rlockd.Lease(client, "late").acquire()
    real = client.ask

    def ask(method, path, headers, fields, timeout):
        if sent and path.endswith("keep-alive"):
            return 0, {}
        if fields.get("wait_ms"):
            sent.append(rlockd.now())
            answer = real(method, path, headers, {**fields, "wait_ms": 0}, timeout)
            time.sleep(fields["wait_ms"] / 1000 + 0.1)
            return answer
        return real(method, path, headers, fields, timeout)
    client.ask = ask
    wait_for(lambda: lease.lost, "the loss", 8 + SOON_S)
    assert lease.deadline() <= sent[0] + 8.2, lease.deadline() - sent[0]


def a_loss_is_told_after_a_suspension(front, _):
    told = threading.Event()
    lease = rlockd.Lease(rlockd.Client(front.url), "suspended", on_lost=told.set).acquire()
    time.sleep(0.3)  # until its session waits
    clock = rlockd.now
    try:
        rlockd.now = lambda: clock() + 3600
        assert told.wait(SOON_S), "no loss was told"
    finally:
        rlockd.now = clock
    lease.delete()


def main():
    with Place("python") as place:
        front = place.front()
        client = rlockd.Client(front.url, ttl=3 * PATIENCE)
        for test in (a_loss_cancels_the_body,
                     a_loss_is_told_where_the_body_awaits_nothing_more,
                     a_cancelled_wait_leaves_nothing,
                     a_grant_that_comes_with_the_cancellation_is_not_kept,
                     waiters_do_not_hold_up_a_release):
            asyncio.run(test(front, client))
        for test in (a_grant_that_is_interrupted_is_not_kept,
                     two_threads_change_to_the_next_server, addresses_are_read_as_by_rlock,
                     after_what_is_no_address_the_next_one_is_asked,
                     who_asks, what_is_wrong_is_told, cancels_while_a_session_is_opened,
                     threads_share_an_attempt_to_open_a_session,
                     a_session_that_is_over_asks_no_more,
                     an_answer_that_was_only_late_proves_no_more,
                     a_loss_is_told_after_a_suspension):
            test(front, client)
    print("clients/python/rlockd.py: asyncio, threads: ok")


if __name__ == "__main__":
    main()
