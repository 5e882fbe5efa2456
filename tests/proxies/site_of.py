"""A site as the recipes have it: a Redis, two front ends, and a proxy before them."""
import http.client
import os

from servers import Front, Http, free_port

ENVIRONMENT = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
               "HOME": "/tmp"}
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


class CountingFront(Front):
    """An rlockd that says how much it is used."""

    def served(self):
        """Requests about locks since it started."""
        text = self.ask("GET", "/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith("rlockd_requests_total") and '"/v1/' in line)


class Site:
    """Of a place, `folder` and all that ends with it."""

    def __init__(self, place, name, recipes):
        self.place, self.folder, self.name = place, place.folder, name
        self.port, self.proxy = free_port(), PROXIES[name]
        self.recipe = (recipes / self.proxy.recipe).read_text(encoding="utf-8")
        redis = place.redis()
        self.fronts = [
            place.add(CountingFront(place, redis, "--trusted-proxies", "127.0.0.1",
                                    "--drain-delay-ms", DRAIN_DELAY_MS)) for _ in range(2)]
        file = self.folder / self.proxy.recipe
        file.write_text(self.config(), encoding="utf-8")
        place.start([word.format(folder=self.folder, file=file) for word in self.proxy.command],
                    answers=self.is_ready, env=ENVIRONMENT)

    def is_ready(self):
        return Http(self.port).ask("GET", "/readyz")[0] == 200

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

    def connect(self, address="127.0.0.1"):
        """A client's connection to the proxy."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60,
                                          source_address=(address, 0))
