"""The server of the pages, and the browser."""
import http.client
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from servers import PATIENCE, Program

PAGES = Path(__file__).parent
# No name outside of the test is looked up.
NAMES = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


class PageHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        """Nothing."""

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def relay(self, body):
        """To the front end, with the headers of the browser: as if the name of this server had
        been led to the front end after the page was loaded."""
        front = http.client.HTTPConnection("127.0.0.1", self.server.relay.port,
                                           timeout=10 * PATIENCE)
        try:
            front.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                front.putheader(name, value)
            front.endheaders(body or None)
            reply = front.getresponse()
            headers = [pair for pair in reply.getheaders()
                       if pair[0].lower() not in ("content-length", "connection")]
            self.answer(reply.status, headers, reply.read())
        finally:
            front.close()

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        page = PAGES / self.path.split("?")[0].lstrip("/")
        if self.path == "/done":
            self.server.done.append(json.loads(body))
            self.answer(204, [], b"")
        elif page.suffix == ".html":
            self.answer(200, [("Content-Type", "text/html")], page.read_bytes())
        elif self.server.relay is not None:
            self.relay(body)
        else:
            self.answer(404, [], b"")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve


class PageServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A browser that is stopped resets its connections."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Pages:
    """The server of the pages. With `relay` all else goes to that front end."""

    def __init__(self):
        self.server = PageServer(("127.0.0.1", 0), PageHandler)
        self.server.relay, self.server.done = None, []
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Browser(Program):
    """Chromium with one page."""

    def __init__(self, place, url):
        number = place.number()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                   "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync",
                   f"--user-data-dir={place.folder}/profile-{number}",
                   f"--host-resolver-rules={NAMES}",
                   # Keeps the browser open: without it, it ends when the page is loaded.
                   "--remote-debugging-pipe", url]
        requests, self.requests = os.pipe()
        self.answers_pipe, answers = os.pipe()
        self.passed = (requests, answers)
        super().__init__(
            # Debian's sh takes descriptors of one digit alone.
            ["bash", "-c", f'exec "$@" 3<&{requests} 4>&{answers}', "bash", *command],
            place.folder / f"browser-{number}.log", start_new_session=True,
            pass_fds=self.passed)

    def kill(self):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        for end in (self.requests, self.answers_pipe, *self.passed):
            os.close(end)
