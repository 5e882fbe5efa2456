"""What has to hold behind every proxy."""
import collections
import contextlib
import http.client
import json
import threading
import time
import uuid

from servers import wait_for

GONE_S = 10  # a hang-up is through long before
NOT_GRANTED_S = 2


class Failed(Exception):
    """A check that did not hold."""


def expect(condition, what):
    if not condition:
        raise Failed(what)


def send(connection, method, path, token=None, body=None, **headers):
    """Status and JSON of an answer."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        headers["Lease-Token"] = token
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")


def paths_and_bodies(site):
    """A slash in a name stays one, and a body without a length arrives."""
    with contextlib.closing(site.connect()) as connection:
        token = str(uuid.uuid4())
        status, answer = send(connection, "PUT", "/v1/locks/a%2Fb?ttl_ms=60000", token)
        expect((status, answer.get("lock")) == (201, "a/b"), f"%2F: {status} {answer}")
        chunks = iter([b'{"ttl_ms":', b"60000", b"}"])
        status, answer = send(connection, "PATCH", "/v1/locks/a%2Fb", token, body=chunks)
        expect(status == 200, f"a chunked body: {status} {answer}")
        status, answer = send(connection, "DELETE", "/v1/locks/a%2Fb", token)
        expect(status == 200, f"release: {status} {answer}")


def client_address(site):
    """The log has the client's address, and not the one that the client makes up."""
    mark = uuid.uuid4().hex
    with contextlib.closing(site.connect("127.0.0.9")) as connection:
        status, _ = send(connection, "GET", "/v1/locks/address", X_Forwarded_For="6.6.6.6",
                         X_Request_Id=mark)
    expect(status == 200, f"GET: {status}")

    def line():
        lines = "".join(front.log.read_text(encoding="utf-8") for front in site.fronts)
        return next((json.loads(text) for text in lines.splitlines() if mark in text), None)
    remote = wait_for(line, "the log line", GONE_S)["remote"]
    expect(remote == "127.0.0.9", f"the log has {remote} in place of the client's address")


def hang_up(site):
    """A client that hangs up while it waits leaves the queue, and is granted nothing."""
    front, holder = site.fronts[0], str(uuid.uuid4())
    path = "/v1/locks/ghost"

    def look():
        return front.ask("GET", path)[1]
    front.ask("PUT", path + "?ttl_ms=120000", {"Lease-Token": holder})
    ghost = site.connect()
    ghost.request("PUT", path + "?wait_ms=50000&ttl_ms=100000",
                  headers={"Lease-Token": str(uuid.uuid4())})
    wait_for(lambda: look()["waiter_count"] == 1, "the waiter", GONE_S)
    ghost.close()
    wait_for(lambda: look()["waiter_count"] == 0, "the end of a waiter that hung up", GONE_S)
    front.ask("DELETE", path, {"Lease-Token": holder})
    give_up = time.monotonic() + NOT_GRANTED_S
    while time.monotonic() < give_up:
        expect(not look()["locked"], f"granted to a client that hung up: {look()}")
        time.sleep(0.1)


class Load:
    """Clients that acquire, renew, look at and release locks, until they are told to stop."""

    def __init__(self, site):
        self.site, self.stopped = site, threading.Event()
        self.statuses, self.bad = collections.Counter(), []
        self.threads = [threading.Thread(target=self.run, args=(self.cycle, number))
                        for number in range(6)]
        self.threads.append(threading.Thread(target=self.run, args=(self.session, 0)))
        self.lock = threading.Lock()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self, work, number):
        connection = self.site.connect()
        while not self.stopped.is_set():
            try:
                work(connection, number)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.note(0, f"{work.__name__}: {error!r}")
                connection.close()
        connection.close()

    def note(self, status, what):
        with self.lock:
            self.statuses[status] += 1
            if not 200 <= status < 300:
                self.bad.append(f"{time.strftime('%H:%M:%S')} {status} {what}")

    def ask(self, connection, method, path, token=None, **headers):
        status, answer = send(connection, method, path, token, **headers)
        self.note(status, f"{method} {path} {answer}")
        return answer

    def cycle(self, connection, number):
        path, token = f"/v1/locks/restart%2F{number % 3}", str(uuid.uuid4())
        status, answer = send(connection, "PUT", path, token,
                              body=b'{"wait_ms": 3000, "ttl_ms": 30000}')
        self.note(status, f"PUT {path} {answer}")
        if status not in (200, 201):  # 200: the proxy repeated it, and the first was granted
            return
        self.ask(connection, "PATCH", path + "?ttl_ms=20000", token)
        self.ask(connection, "GET", path)
        self.ask(connection, "DELETE", path, token)
        time.sleep(0.01)

    def session(self, connection, _):
        token = str(uuid.uuid4())
        answer = self.ask(connection, "POST", "/v1/sessions?ttl_ms=30000", Session_Token=token)
        path = f"/v1/sessions/{answer.get('session_id')}"
        for _ in range(3):
            self.ask(connection, "POST", path + "/keep-alive?wait_ms=300", Session_Token=token)
        self.ask(connection, "DELETE", path, Session_Token=token)


def restart(front):
    status = front.stop()
    expect(status == 0, f"a front end ended with {status}")
    front.start()
    # As an operator does who is careful: the next one when this one is in use again.
    wait_for(lambda: front.served() > 0, "the proxy uses a front end that came back", 30)


def rolling_restarts(site, rounds):
    with Load(site) as load:
        time.sleep(0.5)
        for _ in range(rounds):
            for front in site.fronts:
                restart(front)
        time.sleep(0.5)
    total = sum(load.statuses.values())
    expect(not load.bad, f"{len(load.bad)} of {total} answers were not 2xx: "
           + "; ".join(load.bad[:5]))
    expect(load.statuses[201] > 20, f"hardly any load: {dict(load.statuses)}")
    return f"{total} answers during {rounds} rolling restarts, all 2xx"
