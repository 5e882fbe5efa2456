"""Clients of both front ends: locks that are waited for, and a session with a lease. And of a
front end of a quorum."""
import threading
import time
import uuid

LOCKS = ("db", "deploy")
HOLD_S, PAUSE_S = 0.05, 0.02


class Load:
    """Runs while its block does. A client that gets another status than it should ends the
    block with an error."""

    def __init__(self, fronts, quorum):
        self.ended, self.errors = threading.Event(), []
        clients = [(self.contend, front, lock) for front in fronts for lock in LOCKS * 2]
        clients += [(self.keep, front, f"kept-{number}") for number, front in enumerate(fronts)]
        clients += [(self.contend_anyway, quorum, lock) for lock in LOCKS * 2]
        self.threads = [threading.Thread(target=self.run, args=client) for client in clients]

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, _, error, __):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if self.errors and error is None:
            raise AssertionError(f"the load has failed: {self.errors[0]}")

    def run(self, client, front, lock):
        connection = front.connect()
        try:
            client(connection, lock)
        except Exception as error:  # the block has to know of each
            self.errors.append(error)
        finally:
            connection.close()

    def expect(self, connection, statuses, method, target, headers):
        """Repeats a request with a token while Redis is late."""
        status, answer = connection.ask(method, target, headers)
        while status == 503 and not self.ended.is_set():
            time.sleep(PAUSE_S)
            status, answer = connection.ask(method, target, headers)
        if status not in statuses:
            raise AssertionError(f"{method} {target}: {status} {answer}")
        return answer

    def contend(self, connection, lock):
        while not self.ended.is_set():
            lease = {"Lease-Token": str(uuid.uuid4())}
            self.expect(connection, (201, 200), "PUT",
                        f"/v1/locks/{lock}?ttl_ms=30000&wait_ms=20000", lease)
            time.sleep(HOLD_S)
            self.expect(connection, (200,), "DELETE", f"/v1/locks/{lock}", lease)
            time.sleep(PAUSE_S)

    def contend_anyway(self, connection, lock):
        """In a quorum a server that is late may leave a request without a majority."""
        while not self.ended.is_set():
            lease = {"Lease-Token": str(uuid.uuid4())}
            status, answer = connection.ask(
                "PUT", f"/v1/locks/{lock}?ttl_ms=30000&wait_ms=20000", lease)
            if status not in (201, 503):
                raise AssertionError(f"PUT {lock}: {status} {answer}")
            connection.ask("DELETE", f"/v1/locks/{lock}", lease)
            time.sleep(PAUSE_S)

    def keep(self, connection, lock):
        """The watchdog renews the lease."""
        session = {"Session-Token": str(uuid.uuid4())}
        lease = {**session, "Lease-Token": str(uuid.uuid4())}
        opened = self.expect(connection, (200, 201), "POST", "/v1/sessions?ttl_ms=600000",
                             session)
        self.expect(connection, (200, 201), "PUT", f"/v1/locks/{lock}", lease)
        self.ended.wait()
        session_id = opened["session_id"]
        self.expect(connection, (200,), "DELETE", f"/v1/sessions/{session_id}", session)
