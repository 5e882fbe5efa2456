"""What an operation costs beside many held locks, sessions or waiters: one request after the
other on one connection, so that nothing queues. Waiters for whom one front end has too few
descriptors stand at several. The servers have duties of their own, like visits to sessions: the
row begins when these go their usual way, measures them, and leaves them out of the CPU of the
operations. BENCH_MANY=0.1: beside a tenth of them."""
import contextlib
import multiprocessing
import os
import re
import resource
import signal
import socket
import time
import uuid
from pathlib import Path

import measure
from operations import must
from servers import Http, wait_for

BESIDE = {"held": (0, 10_000, 1_000_000), "sessions": (0, 1_000, 100_000),
          "waiters": (0, 10_000, 100_000)}
MANY = float(os.environ.get("BENCH_MANY", "1"))  # times the counts above
REQUESTS = 3000
PAGES = 300  # of the requests: a page of a listing is a hundred looks
PAGE = 100  # locks that are held in each row, so that a page of a listing has as many
FOR_LONG = "ttl_ms=86400000"
WAITERS_PER_LOCK = 500
PORTS_PER_ADDRESS = 20_000  # a client's address has some 28,000
DESCRIPTORS = 250_000
PARK_S = 120
SETTLE_S, DUTIES_S = 16, 8  # a wait is written into Redis every 8 s in the end
# The port is chosen by connect(): bind() would look through all that are taken, for longer and
# longer. <linux/in.h>; Python's socket does not know the name.
IP_BIND_ADDRESS_NO_PORT = 24


def cpu_ns(pid):
    """Of all threads so far."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in Path(f"/proc/{pid}/task").iterdir())


def rss_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def used_mib(redis):
    return int(re.search(rb"used_memory:(\d+)", redis.command("INFO", "memory"))[1]) / 2**20


class Operations:
    """The requests of a row, each on the same connection."""

    def __init__(self, port):
        self.http = Http(port)
        for number in range(PAGE):
            self._ask("PUT", f"/v1/locks/page-{number}?{FOR_LONG}", self._token())
        self.session = self._ask("POST", "/v1/sessions?ttl_ms=3600000")
        self.kinds = {"cycle": self.cycle, "look": self.look, "keep_alive": self.keep_alive,
                      "list": self.list}

    @staticmethod
    def _token():
        return {"Lease-Token": str(uuid.uuid4())}

    def _ask(self, method, target, headers=()):
        status, body = self.http.ask(method, target, headers)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {target}: {status} {body}")
        return body

    def cycle(self):
        token = self._token()
        self._ask("PUT", f"/v1/locks/own?{FOR_LONG}", token)
        self._ask("DELETE", "/v1/locks/own", token)

    def look(self):
        self._ask("GET", "/v1/locks/page-7")

    def keep_alive(self):
        self._ask("POST", f"/v1/sessions/{self.session['session_id']}/keep-alive",
                  {"Session-Token": self.session["session_token"]})

    def list(self):
        self._ask("GET", f"/v1/locks?limit={PAGE}")


def duties_of(pids):
    """The share of a core that each process uses by itself."""
    time.sleep(SETTLE_S)
    before, began = [cpu_ns(pid) for pid in pids], time.perf_counter_ns()
    time.sleep(DUTIES_S)
    return [(cpu_ns(pid) - then) / (time.perf_counter_ns() - began)
            for pid, then in zip(pids, before)]


def measure_one(operation, count, pids, duties):
    """Its p99, and the CPU of each process."""
    for _ in range(count // 10):
        operation()
    before, took_us, start = [cpu_ns(pid) for pid in pids], [], time.perf_counter_ns()
    for _ in range(count):
        began = time.perf_counter_ns()
        operation()
        took_us.append((time.perf_counter_ns() - began) / 1000)
    elapsed_us = (time.perf_counter_ns() - start) / 1000
    used_us = [((cpu_ns(pid) - then) / 1000 - duty * elapsed_us) / count
               for pid, then, duty in zip(pids, before, duties)]
    return sorted(took_us)[int(0.99 * count)], *used_us


def measure_all(server, redis):
    pids = (server.pid, redis.pid)
    duties = duties_of(pids)
    figures = dict(zip(("duties_percent", "redis_duties_percent"),
                       (100 * duty for duty in duties)))
    for kind, operation in Operations(server.port).kinds.items():
        names = (f"{kind}_p99_us", f"{kind}_cpu_us", f"{kind}_redis_cpu_us")
        count = PAGES if kind == "list" else REQUESTS
        figures.update(zip(names, measure_one(operation, count, pids, duties)))
    return figures


def hold_locks(place, _, server, count):
    measure.load(place, "hold", server, cycles=count, name="held")
    return [], []


def open_sessions(_, __, server, count):
    http = Http(server.port)
    for _ in range(count):
        must("a session", http.ask("POST", "/v1/sessions?ttl_ms=3600000"), 201)
    return [], []


def wait_at(port, numbers):
    """Connections whose answer does not come, of a client that has several addresses."""
    waiting = []
    for number in numbers:
        connection = socket.socket()
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((f"127.0.1.{1 + number // PORTS_PER_ADDRESS}", 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(
            f"PUT /v1/locks/awaited-{number // WAITERS_PER_LOCK}?{FOR_LONG}&wait_ms=3600000 "
            f"HTTP/1.1\r\nHost: localhost\r\nLease-Token: {uuid.uuid4()}\r\n"
            "Content-Length: 0\r\n\r\n".encode())
        waiting.append(connection)
    signal.pause()


def park(place, redis, server, count):
    """As many front ends as the waiters need, and a client for each. Returns the front ends but
    for the first, and the clients."""
    step = measure.waiters_max()
    shares = [range(first, min(first + step, count)) for first in range(0, count, step)]
    others = [place.rlockd(redis) for _ in shares[1:]]
    http, clients = Http(server.port), []
    for number in range((count + WAITERS_PER_LOCK - 1) // WAITERS_PER_LOCK):
        http.ask("PUT", f"/v1/locks/awaited-{number}?{FOR_LONG}", Operations._token())
    for front, numbers in zip([server, *others], shares):
        clients.append(multiprocessing.Process(target=wait_at, args=(front.port, numbers),
                                               daemon=True))
        clients[-1].start()
        parked = f"\nrlockd_waiters {len(numbers)}\n"
        wait_for(lambda: parked in Http(front.port).metrics(), parked, PARK_S)
    return others, clients


PREPARE = {"held": hold_locks, "sessions": open_sessions, "waiters": park}


def beside(place, redis, what, count):
    redis.command("FLUSHALL")
    server, others, clients = place.rlockd(redis), [], []
    before_mib = rss_mib(server.pid)
    if count:
        others, clients = PREPARE[what](place, redis, server, count)
    figures = measure_all(server, redis)
    figures["rlockd_mib"] = sum(rss_mib(front.pid) - before_mib for front in [server, *others])
    figures["redis_mib"] = used_mib(redis)
    for client in clients:
        client.kill()
        client.join()
    for front in [server, *others]:
        front.stop()
    return figures


def run(place, redis, results):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    for what, counts in BESIDE.items():
        for count in (int(MANY * count) for count in counts):
            results.add(f"beside {what} {count}", beside(place, redis, what, count))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    redis.command("FLUSHALL")
