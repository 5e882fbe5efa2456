"""The processes of the test: front ends, the server of the pages, the browser."""
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = Path(__file__).parent
PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
START_S, PAGE_S, STOP_S = 15 * PATIENCE, 30 * PATIENCE, 15 * PATIENCE
# No name outside of the test is looked up.
NAMES = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.02)


class Front:
    """An rlockd on 127.0.0.1 with an embedded Redis; settings as environment variables."""

    def __init__(self, binary, folder, **settings):
        folder.mkdir()
        self.log = folder / "log"
        environment = {"PATH": os.environ["PATH"], "RLOCKD_LISTEN": "127.0.0.1:0",
                       "RLOCKD_DATA_DIR": str(folder / "data"),
                       "RLOCKD_LOG_LEVEL": "debug",  # with requests of open paths
                       **settings}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([binary], env=environment, stderr=log,
                                            stdin=subprocess.DEVNULL)
        wait_for(lambda: self.lines("listening") or self.process.poll() is not None, START_S,
                 "a front end")
        if self.process.poll() is not None:
            raise OSError(self.log.read_text(encoding="utf-8"))
        self.port = int(self.lines("listening")[0]["listen"].rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}"
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, START_S, "/readyz")

    def lines(self, message):
        """The lines of the log with this message."""
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        parsed = (json.loads(line) for line in lines if line.endswith("\n"))
        return [line for line in parsed if line["msg"] == message]

    def ask(self, method, path, headers=()):
        """As a program: status and parsed body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10 * PATIENCE)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        if self.process.wait(timeout=STOP_S) != 0:
            raise OSError("a front end has failed:\n" + self.log.read_text(encoding="utf-8"))


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


class Browser:
    """Chromium with one page."""

    def __init__(self, folder, url):
        folder.mkdir()
        self.log = folder / "log"
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                   "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync",
                   f"--user-data-dir={folder / 'profile'}", f"--host-resolver-rules={NAMES}",
                   # Keeps the browser open: without it, it ends when the page is loaded.
                   "--remote-debugging-pipe", url]
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", f'exec "$@" 3<&{requests} 4>&{answers}', "sh", *command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                pass_fds=(requests, answers))
        os.close(requests)
        os.close(answers)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.requests)
        os.close(self.answers)
