"""Clones with the real git-lfs, and a server of its objects."""
import hashlib
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
{recipe}
  }}
}}
"""


class Clone:
    """A working copy of one user, with the hooks of git-lfs and the user's credentials."""

    def __init__(self, folder, origin, user, url, password="any"):
        self.folder, home = Path(folder), Path(f"{folder}.home")
        home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home),
                            "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        (home / "password").write_text(f"username={user}\npassword={password}\n",
                                       encoding="utf-8")
        # The hooks of git-lfs change the mode of a file after git has noted its ctime: that is
        # no local change.
        for name, value in (("user.name", user), ("user.email", f"{user}@example.org"),
                            ("core.trustctime", "false"),
                            ("lfs.url", url), (f"lfs.{url}.locksverify", "true"),
                            ("credential.helper", f"!cat {home}/password; true")):
            self._run("git", "config", "--global", name, value)
        self._run("git", "clone", "-q", str(origin), str(folder))
        self.git("lfs", "install")

    def _run(self, *words, folder="/"):
        done = subprocess.run(words, cwd=folder, env=self.environment, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode == 0, done.stdout

    def git(self, *words, works=True):
        """Its output; it has to work, or not to."""
        worked, output = self._run("git", *words, folder=self.folder)
        assert worked == works, (words, output)
        return output

    def lfs(self, *words, works=True):
        return self.git("lfs", *words, works=works)

    def write(self, path, text):
        """A commit that changes one file, whoever has locked it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            file.chmod(0o644)
        file.write_text(text, encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-qm", f"{path} is {text[:40]}")


class Objects:
    """What a server of Git LFS has beside its locks: the objects, by the basic transfer, at
    the address `public`."""

    def __init__(self, public):
        objects = self
        self.kept, self.public = {}, public

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                size = int(self.headers["Content-Length"])
                self.answer(objects.batch(json.loads(self.rfile.read(size))))

            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                objects.kept[hashlib.sha256(body).hexdigest()] = body
                self.answer(b"")

            def do_GET(self):
                self.answer(objects.kept[self.path.rsplit("/", 1)[1]])

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "application/vnd.git-lfs+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def batch(self, asked):
        verb = asked["operation"]
        return json.dumps({"transfer": "basic", "objects": [
            {**each, "actions": {} if verb == "upload" and each["oid"] in self.kept else
             {verb: {"href": f"{self.public}/{each['oid']}"}}}
            for each in asked["objects"]]}).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
