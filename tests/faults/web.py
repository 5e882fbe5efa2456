"""HTTP requests that may be left without an answer, and what their answers mean."""
import asyncio
import contextlib
import json
import urllib.parse
import uuid

import proxy

LEASE_NAMESPACE = uuid.UUID("fe47f7b5-f964-4276-ac79-ac8e35866386")


class Answer:
    """Status 0: none came."""

    def __init__(self, status=0, body=None, is_sent=True, is_abandoned=False, problem=None):
        self.status, self.body = status, body if isinstance(body, dict) else {}
        self.is_sent, self.is_abandoned, self.problem = is_sent, is_abandoned, problem

    def outcome(self):
        if self.is_abandoned:
            return "abandoned"
        if not self.is_sent:
            return "not-done"
        if self.status in (200, 201):
            return "ok"
        if self.status == 410:
            return "ended"
        if self.status in (0, 502, 504):
            return "unknown"
        return "unknown" if self.body.get("outcome") == "unknown" else "not-done"


def find_problem(status, content_type, body):
    """What is wrong with the form of an answer; None: nothing."""
    if status < 400:
        return None if isinstance(body, dict) else f"status {status} without a JSON object"
    if not isinstance(body, dict) or "problem+json" not in content_type:
        return f"status {status} without a problem document"
    if body.get("status") != status or "type" not in body:
        return f"status {status} with a wrong problem document"
    if status == 503 and body.get("outcome") not in ("unknown", "not-executed"):
        return "status 503 without an outcome"
    if status not in (404, 410, 412, 423, 429, 503):
        return f"status {status} was not to be expected: {body.get('detail')}"
    return None


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def is_usable(self):
        return not self.reader.at_eof() and not self.writer.is_closing() and \
            self.reader.exception() is None

    async def exchange(self, text):
        self.writer.write(text)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        body = await self.reader.readexactly(int(fields.get("content-length", 0)))
        closes = "close" in fields.get("connection", "")
        return int(first.split()[1]), fields.get("content-type", ""), body, closes

    def close(self, with_reset=False):
        with contextlib.suppress(OSError, RuntimeError):
            if with_reset:
                proxy.reset(self.writer)
            else:
                self.writer.close()


class Agent:
    """The connections of one client, kept for its next request."""

    def __init__(self):
        self.idle = {}

    def close(self):
        for connections in self.idle.values():
            for connection in connections:
                connection.close()
        self.idle = {}

    async def _connect(self, port):
        kept = self.idle.setdefault(port, [])
        while kept:
            connection = kept.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return Connection(*await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", port), 3))

    async def ask(self, port, method, path, query=(), headers=None, timeout=10,
                  abandon_after=None, abandons_with_reset=False):
        """`abandon_after` s the request is hung up on, unless it is answered by then."""
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        text = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in (headers or {}).items()) + \
            ("Content-Length: 0\r\n\r\n" if method != "GET" else "\r\n")
        try:
            connection = await self._connect(port)
        except (OSError, asyncio.TimeoutError):
            return Answer(is_sent=False)
        is_abandoned = abandon_after is not None and abandon_after < timeout
        try:
            status, content_type, body, closes = await asyncio.wait_for(
                connection.exchange(text.encode()),
                abandon_after if is_abandoned else timeout)
        except asyncio.TimeoutError:
            connection.close(is_abandoned and abandons_with_reset)
            return Answer(is_abandoned=is_abandoned)
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError):
            connection.close()
            return Answer()
        except asyncio.CancelledError:
            connection.close()
            raise
        if closes:
            connection.close()
        else:
            self.idle.setdefault(port, []).append(connection)
        try:
            parsed = json.loads(body) if body else None
        except ValueError:
            parsed = None
        return Answer(status, parsed, problem=find_problem(status, content_type, parsed))
