"""A site as the recipes have it: a Redis, two front ends, and a proxy before them."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
START_S = 20
STOP_S = 30
# Above three failed checks, one a second, and above every wait of the load.
DRAIN_DELAY_MS = 4000


class Proxy:
    """How a proxy is started: what has to stand around its recipe."""

    def __init__(self, program, recipe, listens, wrap, command):
        self.program, self.recipe, self.listens = program, recipe, listens
        self.wrap, self.command = wrap, command


PROXIES = {
    "nginx": Proxy("nginx", "nginx.conf", "listen 7400;",
                   "daemon off; pid {folder}/pid; error_log {folder}/proxy.log;\n"
                   "events {{ }}\n"
                   "http {{\naccess_log off; client_body_temp_path {folder}/body;\n"
                   "proxy_temp_path {folder}/proxied; fastcgi_temp_path {folder}/fastcgi;\n"
                   "uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n"
                   "{recipe}}}\n",
                   ["nginx", "-p", "{folder}", "-e", "{folder}/proxy.log", "-c", "{file}"]),
    "haproxy": Proxy("haproxy", "haproxy.cfg", "bind :7400", "{recipe}",
                     ["haproxy", "-db", "-f", "{file}"]),
    "caddy": Proxy("caddy", "Caddyfile", ":7400 {",
                   "{{\nadmin off\nauto_https off\nstorage file_system {folder}/caddy\n}}\n"
                   "{recipe}",
                   ["caddy", "run", "--adapter", "caddyfile", "--config", "{file}"]),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, seconds, what):
    """Until the condition holds; its value."""
    give_up = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            value = condition()
            if value:
                return value
        if time.monotonic() > give_up:
            raise TimeoutError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.02)


class Process:
    def __init__(self, command, log):
        with open(log, "ab") as file:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file,
                                            stderr=file,
                                            env={**os.environ, "PATH": PATH, "HOME": "/tmp"})

    def stop(self):
        """Its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Front:
    """An rlockd on a port that it keeps."""

    def __init__(self, site, number):
        self.site, self.port = site, free_port()
        self.log = site.folder / f"front-{number}.log"
        self.process = None

    def start(self):
        self.process = Process(
            [self.site.binary, "--listen", f"127.0.0.1:{self.port}", "--redis",
             f"unix://{self.site.folder}/redis.sock", "--trusted-proxies", "127.0.0.1",
             "--drain-delay-ms", str(DRAIN_DELAY_MS)], self.log)
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, START_S, "a front end")

    def ask(self, method, path, headers=()):
        """Past the proxy: status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def served(self):
        """Requests about locks since it started."""
        text = self.ask("GET", "/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith("rlockd_requests_total") and '"/v1/' in line)


class Site:
    def __init__(self, folder, binary, name, recipes):
        self.folder, self.binary, self.name = folder, binary, name
        self.port, self.proxy, self.redis = free_port(), PROXIES[name], None
        self.recipe = (recipes / self.proxy.recipe).read_text(encoding="utf-8")
        self.fronts = [Front(self, number) for number in range(2)]
        self.proxy_process = None

    def config(self):
        """The recipe with the addresses of this machine."""
        text = self.recipe
        for old, new in (("10.0.0.1:7400", f"127.0.0.1:{self.fronts[0].port}"),
                         ("10.0.0.2:7400", f"127.0.0.1:{self.fronts[1].port}"),
                         (self.proxy.listens,
                          self.proxy.listens.replace("7400", str(self.port)))):
            if old not in text:
                raise OSError(f"the recipe of {self.name} lacks {old}")
            text = text.replace(old, new)
        return self.proxy.wrap.format(folder=self.folder, recipe=text)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        self.redis = Process(["redis-server", "--port", "0", "--unixsocket",
                              str(self.folder / "redis.sock"), "--save", "", "--dir",
                              str(self.folder)], self.folder / "redis.log")
        for front in self.fronts:
            front.start()
        file = self.folder / self.proxy.recipe
        file.write_text(self.config(), encoding="utf-8")
        command = [word.format(folder=self.folder, file=file) for word in self.proxy.command]
        self.proxy_process = Process(command, self.folder / "proxy.log")
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, START_S, self.name)

    def ask(self, method, path):
        connection = self.connect()
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def connect(self, address="127.0.0.1"):
        """A client's connection to the proxy."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60,
                                          source_address=(address, 0))

    def __exit__(self, *_):
        for part in (self.proxy_process, *(front.process for front in self.fronts), self.redis):
            if part is not None:
                part.kill()
