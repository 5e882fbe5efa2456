"""A proxy that does to requests what networks, restarts and other proxies do to them."""
import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = {"connection", "content-length", "keep-alive", "transfer-encoding", "date", "host"}
TIMEOUT_S = 90

# What a rule may do with a request.
LOSE = "lose"    # a front end does it, the answer is lost, the connection is closed
HALF = "half"    # the same, after half of the answer was sent
TWICE = "twice"  # a front end gets it twice, the client the second answer
BLACK = "black"  # nothing passes, nothing is closed


def answer(status, body, **headers):
    """The proxy's own answer; no front end gets the request."""
    return {"status": status, "headers": {name.replace("_", "-"): str(value)
                                          for name, value in headers.items()}, "body": body}


def problem(status, code, **members):
    body = {"type": f"urn:rlockd:problem:{code}", "title": code, "status": status, **members}
    return answer(status, json.dumps(body), Content_Type="application/problem+json",
                  Retry_After=1)


def late(seconds):
    """The answer comes so much later."""
    return {"late": seconds}


def passes(_):
    """The rule that leaves all requests alone."""


class Request:
    """What a client has sent, with the time of its arrival, and its answer."""

    def __init__(self, method, target, headers, body):
        self.at, self.method, self.target = time.monotonic(), method, target
        self.headers, self.body = headers, body
        self.status, self.reply = None, None

    @property
    def token(self):
        return self.headers.get("Lease-Token")

    def is_acquire(self):
        return self.method == "PUT" or (self.method == "POST" and (
            self.target.startswith("/v1/locks/") or "/permit" in self.target))

    def is_proof(self):
        """It keeps a session or a lease alive."""
        return "/keep-alive" in self.target or self.method == "PATCH"

    def is_delete(self):
        return self.method == "DELETE"


class Proxy:
    """It listens on loopback, and passes each request on to a front end that takes connections.
    A client's hang-up is not passed on. `rule(request)` says what to do with a request; None
    is to pass it on."""

    def __init__(self, fronts):
        self.fronts, self.rule = fronts, passes
        self.requests, self.guard, self.is_closed = [], threading.Lock(), threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = \
                lambda handler: proxy.serve(handler)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients hang up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True).start()

    def serve(self, handler):
        length = int(handler.headers.get("Content-Length") or 0)
        request = Request(handler.command, handler.path, dict(handler.headers),
                          handler.rfile.read(length))
        with self.guard:
            self.requests.append(request)
            action = self.rule(request)
        if action == BLACK:
            self.is_closed.wait(TIMEOUT_S)
            handler.close_connection = True
            return
        is_made = isinstance(action, dict) and "body" in action
        made = action if is_made else self.forward(request)
        if action == TWICE:
            made = self.forward(request)
        request.status, request.reply = made["status"], made["body"]
        if isinstance(action, dict):
            self.is_closed.wait(action.get("late", 0))
        self.send(handler, made, action)

    def forward(self, request):
        headers = {name: value for name, value in request.headers.items()
                   if name.lower() not in HOP}
        for front in self.fronts:
            connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=TIMEOUT_S)
            try:
                connection.connect()
            except OSError:
                continue
            try:
                connection.request(request.method, request.target, request.body or None,
                                   headers)
                reply = connection.getresponse()
                return {"status": reply.status, "headers": dict(reply.headers),
                        "body": reply.read().decode()}
            except (OSError, http.client.HTTPException):
                break
            finally:
                connection.close()
        return problem(502, "bad-gateway")

    @staticmethod
    def send(handler, made, action):
        body = made["body"].encode()
        handler.close_connection = action in (LOSE, HALF)
        if action == LOSE:
            return
        handler.send_response(made["status"])
        for name, value in made["headers"].items():
            if name.lower() not in HOP:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:len(body) // 2] if action == HALF else body)

    def seen(self, which):
        """The requests so far of which that is true."""
        with self.guard:
            return [request for request in self.requests if which(request)]

    def first(self, count, which, action):
        """A rule for the first `count` such requests from now on."""
        left = [count]

        def rule(request):
            if left[0] > 0 and which(request):
                left[0] -= 1
                return action
            return None

        self.rule = rule

    def always(self, which, action):
        self.rule = lambda request: action if which(request) else None

    def close(self):
        self.is_closed.set()
        self.server.shutdown()
        self.server.server_close()
