#!/usr/bin/env python3
"""What open pages cost: 20 of them in Chromium before a front end with 10,000 held locks and
1,000 waiters, and a bystander that acquires and releases. The pages are hidden and shown in
turns, so both figures of the bystander are of one run. run.sh has installed what load.cjs
needs.

usage: load.py BUILD [SECONDS]: SECONDS for each of the turns"""
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from servers import Place, wait_for  # noqa: E402

LOCKS, WAITERS, WAITED, SESSIONS = 10000, 1000, 200, 100
PAGES = [*["#waiting"] * 8, *["#held"] * 4, *["#locks"] * 3, *["#lock/load%2F0"] * 4,
         "#sessions"]
REQUESTS = {"#waiting": "/v1/locks?order=waited&limit=100",
            "#held": "/v1/locks?order=held&limit=100", "#locks": "/v1/locks?limit=100",
            "#lock": "/v1/locks/load%2F0", "#sessions": "/v1/sessions?limit=100",
            "#counters": "/v1/semaphores?limit=100"}
ASKED = 50
TURNS = 5
FILLERS = 8
LEAST_REQUESTS = 10  # of a page a minute: with fewer the browser had too little of the machine
HOUR_MS = 3600000


def token(name="Lease-Token"):
    return {name: str(uuid.uuid4())}


def must(answer):
    if answer[0] not in (200, 201):
        raise RuntimeError(f"load: {answer}")


def fill(front, part):
    """A share of the locks; a tenth of them is held by sessions."""
    http, sessions = front.connect(), []
    for _ in range(SESSIONS // FILLERS):
        sessions.append(token("Session-Token"))
        must(http.ask("POST", f"/v1/sessions?ttl_ms={HOUR_MS}&name=host-{part}", sessions[-1]))
    for number in range(part, LOCKS, FILLERS):
        path = f"/v1/locks/load%2F{number}?note=work+{number}"
        if number % 10 == 9:
            must(http.ask("PUT", path, {**token(), **sessions[number % len(sessions)]}))
        else:
            must(http.ask("PUT", f"{path}&ttl_ms={HOUR_MS}", token()))


def park(front):
    """Requests that wait, on connections of their own."""
    parked = []
    for number in range(WAITERS):
        parked.append(socket.create_connection(("127.0.0.1", front.port)))
        parked[-1].sendall(
            f"PUT /v1/locks/load%2F{number % WAITED}?wait_ms={HOUR_MS}&note=waiter+{number} "
            f"HTTP/1.1\r\nHost: localhost\r\nLease-Token: {uuid.uuid4()}\r\n"
            "Content-Length: 0\r\n\r\n".encode())
    return parked


class Pages:
    def __init__(self, place, front):
        # The machines of a page's readers are others.
        self.process = place.start(
            ["nice", "-n", "5", "node", HERE / "load.cjs", front.url, *PAGES],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True).process
        assert json.loads(self.process.stdout.readline())["pages"] == len(PAGES)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def bystander(build, front, seconds):
    command = [build / "tests/bench/load", "cycle", "--port", str(front.port), "--connections",
               "1", "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["acquire_p99_us"]


def cpu_s(program):
    """The processor time that the program has used."""
    text = Path(f"/proc/{program.pid}/stat").read_text(encoding="utf-8")
    words = text.rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure_cpu(programs, front):
    """Without browser and bystander: what a request of a view costs on any machine."""
    http = front.connect()
    for view, path in REQUESTS.items():
        before = [cpu_s(program) for program in programs]
        for _ in range(ASKED):
            must(http.ask("GET", path))
        used = [1000 * (cpu_s(program) - was) / ASKED
                for program, was in zip(programs, before)]
        print(f"a request of {view}: {used[0]:.1f} ms of rlockd's CPU, {used[1]:.1f} ms of "
              f"Redis', {int(http.headers['Content-Length']) / 1024:.0f} KiB", flush=True)


def measure(build, front, pages, seconds):
    p99 = {"hide": [], "show": []}
    asked = {state: {"requests": 0, "bytes": 0, "refused": 0} for state in p99}
    for _ in range(TURNS):
        for state, figures in p99.items():
            pages.tell(state)
            bystander(build, front, 1)  # what was under way ends
            pages.tell("count")
            figures.append(bystander(build, front, seconds))
            for name, number in pages.tell("count").items():
                asked[state][name] += number
    minutes = TURNS * seconds / 60
    hidden, shown = (statistics.median(p99[state]) for state in ("hide", "show"))
    print(f"bystander's acquire, median of {TURNS} p99: pages hidden {hidden:.0f} µs, shown "
          f"{shown:.0f} µs, {shown / hidden:.2f} times; all: {p99}")
    requests = asked["show"]["requests"] / minutes / len(PAGES)
    print(f"a page a minute: {requests:.1f} requests, "
          f"{asked['show']['bytes'] / minutes / len(PAGES) / 1024:.0f} KiB; "
          f"{asked['show']['refused']} of {asked['show']['requests']} were refused")
    print(f"hidden pages: {asked['hide']['requests']} requests")
    if requests < LEAST_REQUESTS:
        sys.exit("the machine is too busy: the pages hardly asked")
    return shown <= 2 * hidden and asked["hide"]["requests"] == 0


def main():
    build, seconds = Path(sys.argv[1]).resolve(), float((sys.argv[2:] or ["6"])[0])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with Place("page-load", build / "rlockd") as place:
        redis = place.redis()
        front = place.front(redis, "--max-wait-ms", HOUR_MS, "--max-connections", 2 * WAITERS)
        fillers = [threading.Thread(target=fill, args=(front, part)) for part in range(FILLERS)]
        for filler in fillers:
            filler.start()
        for filler in fillers:
            filler.join()
        parked = park(front)
        wait_for(lambda: front.ask("GET", "/v1/locks?order=waited")[1]["locks"], "waits")
        wait_for(lambda: front.ask("GET", "/v1/locks?order=held")[1]["locks"], "holds", 300)
        measure_cpu((front, redis), front)
        pages = Pages(place, front)
        is_cheap = measure(build, front, pages, seconds)
        pages.close()
        for waiter in parked:
            waiter.close()
    sys.exit(0 if is_cheap else "dear")


main()
