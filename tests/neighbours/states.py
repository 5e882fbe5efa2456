"""A server of Terraform's states, which can hold back the answer to a write: so a real apply
stands still while it has the lock."""
import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class States:
    def __init__(self):
        states = self
        self.states, self.writes, self.go_on = {}, [], threading.Event()
        self.go_on.set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(states.states.get(self.path.split("?")[0]))

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                states.writes.append(self.path)
                states.go_on.wait(60)
                states.states[self.path.split("?")[0]] = body
                self.answer(b"")

            def answer(self, body):
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                with contextlib.suppress(OSError):  # a client that was killed
                    self.end_headers()
                    self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()
