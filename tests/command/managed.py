"""rlock as a service: a test plays the service manager."""
import signal
import socket
import subprocess
import time
import uuid

from looking import lock_it
from world import LONG_S, PATIENCE, name


class Manager:
    """A service manager, whose unit may take so long to start, as by TimeoutStartSec."""

    def __init__(self, world, start_s):
        self.path = f"{world.folder}/{uuid.uuid4().hex}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.until = time.monotonic() + start_s

    def next(self):
        """The next message, which may lengthen the start: sd_notify(3)."""
        self.socket.settimeout(max(0.01, self.until - time.monotonic()))
        try:
            text = self.socket.recv(999).decode()
        except TimeoutError:
            raise AssertionError("the unit was ended: it has not started in time") from None
        message = dict(line.split("=", 1) for line in text.splitlines())
        more_s = int(message.get("EXTEND_TIMEOUT_USEC", 0)) / 1e6
        self.until = max(self.until, time.monotonic() + more_s)
        return message

    def wait(self, member):
        end = time.monotonic() + LONG_S
        while member not in (message := self.next()):
            assert "READY" not in message and time.monotonic() < end, (member, message)
        return message


def service_manager(world, front):
    lock = name()
    token, _ = lock_it(front, lock, "ttl_ms=60000", "note=anna")
    manager = Manager(world, 20)
    run = world.run(front.url, lock, "true", NOTIFY_SOCKET=manager.path)
    assert manager.wait("STATUS")["STATUS"].startswith("waiting for ")
    assert "anna" in manager.wait("STATUS")["STATUS"]
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    manager.wait("READY")
    assert run.status() == 0


def a_unit_may_wait_for_long(world, front):
    """In requests that last for long, in short ones, while no server answers."""
    away = world.proxy(front)
    away.mode = "black"
    units = []
    for url, verb, options, end in ((front.url, "run", ["--at-least", "1ms"], ["true"]),
                                    (front.url, "hold", [], []),
                                    (away.url, "run", ["-w", "2m"], ["true"])):
        manager, lock = Manager(world, 2 * PATIENCE), name()
        token, _ = lock_it(front, lock, "ttl_ms=120000")
        run = world.rlock_does(url, verb, *options, lock, *end, stdin=subprocess.PIPE,
                               NOTIFY_SOCKET=manager.path)
        units.append((manager, run, lock, token))
    for manager, run, lock, token in units:
        for _ in range(2):
            manager.wait("EXTEND_TIMEOUT_USEC")
        assert run.process.poll() is None, run.status()
        front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    for manager, run, *_ in units:
        if run is not units[-1][1]:
            manager.wait("READY")
        run.signal(signal.SIGTERM)
        run.status()


TESTS = {test.__name__: test for test in (service_manager, a_unit_may_wait_for_long)}
