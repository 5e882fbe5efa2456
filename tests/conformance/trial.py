"""What one check has: a client behind its adapter, the proxy before it, a lock of its own."""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path

from proxy import Proxy
from servers import PATIENCE, wait_for

TTL_S = 3 * PATIENCE      # of leases and sessions in checks
SOON_S = 10 * PATIENCE    # whatever is bound to happen happens within it
SLACK_S = 0.7 * PATIENCE  # from an event to its arrival here
MARK = "CONFORMANCE_MARK"
LAST = {"busy", "lost", "released", "cancelled", "failed"}  # nothing else comes of a lease


class Adapter:
    """A client, spoken to by JSON lines; docs/conformance.md is their description."""

    def __init__(self, command, url, log):
        self.mark, self.events, self.count = uuid.uuid4().hex, [], 0
        self.log = Path(log)
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                text=True, start_new_session=True,
                env={**os.environ, MARK: self.mark, "RLOCK_URL": url})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.events.append({**json.loads(line), "at": time.monotonic()})

    def do(self, what, **members):
        self.process.stdin.write(json.dumps({"do": what, **members}) + "\n")
        self.process.stdin.flush()

    def acquire(self, lock, wait_s=0.0, **members):
        """Asks for it; the number of this lease."""
        self.count += 1
        self.do("acquire", id=self.count, lock=lock, wait_ms=int(wait_s * 1000),
                ttl_ms=int(TTL_S * 1000), **members)
        return self.count

    def has(self, lease, event):
        for found in self.events:
            if found.get("id") == lease and found["event"] == event:
                return found
        return None

    def expect(self, lease, event, seconds=SOON_S):
        """The event, once it has come."""
        def came():
            assert self.process.poll() is None, f"the client has ended: {self.told(lease)}"
            return self.has(lease, event) or LAST & set(self.told(lease))
        with contextlib.suppress(TimeoutError):
            wait_for(came, event, seconds)
            if found := self.has(lease, event):
                return found
        raise AssertionError(f"no event {event!r}, but {self.told(lease)}")

    def told(self, lease):
        return [found["event"] for found in self.events if found.get("id") == lease]

    def is_held(self, lease):
        """What the client itself says."""
        before = len(self.events)
        self.do("status", id=lease)
        return wait_for(lambda: [found for found in self.events[before:]
                                 if found["event"] == "status" and found["id"] == lease],
                        "an answer to `status`", SOON_S)[0]["held"]

    def processes(self):
        """The folders in /proc of all processes of the client."""
        mark = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
                if mark in environment.split(b"\0"):
                    yield entry

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        for entry in self.processes():
            with contextlib.suppress(OSError):
                os.kill(int(entry.name), signal.SIGKILL)
        self.process.wait()


class Trial:
    """One check's own."""

    def __init__(self, place, fronts, command):
        self.place, self.fronts, self.command = place, fronts, command
        self.lock = "conformance-" + uuid.uuid4().hex[:12]
        self.proxy = Proxy(fronts)
        self.client = self.new_client(self.proxy.url)

    def new_client(self, urls):
        return Adapter(self.command, urls, self.place.folder / f"{self.lock}.log")

    def restart_client(self, urls):
        self.client.close()
        self.client = self.new_client(urls)

    def ask(self, *arguments):
        return self.fronts[0].ask(*arguments)

    def look(self, lock=None):
        return self.ask("GET", f"/v1/locks/{lock or self.lock}")[1]

    def hold(self, lock=None):
        """Somebody else holds the lock. A function that releases it."""
        target, token = f"/v1/locks/{lock or self.lock}", {"Lease-Token": str(uuid.uuid4())}
        status, body = self.ask("PUT", target, token, {"ttl_ms": 120000, "wait_ms": 5000})
        assert status == 201, body
        return lambda: self.ask("DELETE", target, token)

    def force(self):
        self.ask("POST", f"/v1/locks/{self.lock}/force-unlock")

    def held(self, **members):
        """A lease that the client has, as it and the server say."""
        lease = self.client.acquire(self.lock, **members)
        self.client.expect(lease, "held")
        assert self.look()["locked"], "the client says that it holds a lock that is free"
        return lease

    def released(self, lease):
        """It is given back, and nothing is left."""
        self.client.do("release", id=lease)
        self.client.expect(lease, "released")
        self.is_free()

    def is_free(self, lock=None, seconds=SOON_S):
        """Soon, by a release: no lease of a check ends by itself before."""
        def free():
            look = self.look(lock)
            return not look["locked"] and not look.get("waiter_count")
        wait_for(free, "the lock is free, and nobody waits for it", seconds)

    def lost(self, lease, by):
        """The client stops until then."""
        event = self.client.expect(lease, "lost", max(by - time.monotonic(), 0) + SOON_S)
        late = event["at"] - by
        assert late <= 0, f"the client has worked on for {late:.1f} s without a lease"

    def never(self, lease, event, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert not self.client.has(lease, event), f"it says {event!r}"
            time.sleep(0.02)

    def acquires(self):
        return self.proxy.seen(lambda request: request.is_acquire() and request.token)

    def proofs(self):
        return self.proxy.seen(lambda request: request.is_proof() and request.status == 200)

    def close(self):
        self.client.close()
        self.proxy.close()
