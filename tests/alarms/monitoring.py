"""A Prometheus, an Alertmanager, and a receiver of its alarms."""
import json
import math
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from servers import Http, Program, free_port

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules.yaml"


class Receiver:
    """A webhook; `alarms` are those of its notifications, the oldest first."""

    def __init__(self):
        self.alarms = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_args):
                """Nothing."""

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.alarms += json.loads(body)["alerts"]
                self.send_response_only(200)
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()

    def find(self, name, status):
        for alarm in self.alarms:
            if alarm["labels"]["alertname"] == name and alarm["status"] == status:
                return alarm
        return None


class Alertmanager(Program):
    def __init__(self, place, receiver_url):
        self.port = free_port()
        config = place.folder / "alertmanager.yaml"
        # JSON is YAML.
        config.write_text(json.dumps({
            "route": {"receiver": "test", "group_by": ["alertname", "job"], "group_wait": "1s",
                      "group_interval": "1s"},
            "receivers": [{"name": "test", "webhook_configs": [{"url": receiver_url}]}],
        }), encoding="utf-8")
        super().__init__(["prometheus-alertmanager", f"--config.file={config}",
                          f"--storage.path={place.folder / 'alertmanager'}",
                          f"--web.listen-address=127.0.0.1:{self.port}",
                          "--cluster.listen-address="],
                         place.folder / "alertmanager.log",
                         lambda: Http(self.port).ask("GET", "/-/ready")[0] == 200)


class Prometheus(Program):
    """Scrapes, and reads the rules, every second. `jobs`: the front ends of each job."""

    def __init__(self, place, alertmanager, jobs):
        self.port = free_port()
        config = place.folder / "prometheus.yaml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s",
                       "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "alerting": {"alertmanagers": [
                {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]},
            "scrape_configs": [
                {"job_name": job, "static_configs": [
                    {"targets": [f"127.0.0.1:{front.port}" for front in fronts]}]}
                for job, fronts in jobs.items()],
        }), encoding="utf-8")
        super().__init__(["prometheus", f"--config.file={config}",
                          f"--storage.tsdb.path={place.folder / 'prometheus'}",
                          f"--web.listen-address=127.0.0.1:{self.port}"],
                         place.folder / "prometheus.log",
                         lambda: Http(self.port).ask("GET", "/-/ready")[0] == 200)

    def ask(self, path, **parameters):
        status, answer = Http(self.port).ask(
            "GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        if status != 200 or answer["status"] != "success":
            raise ValueError(f"{parameters}: {status} {answer}")
        return answer["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def label_values(self, selector, label):
        return self.ask(f"label/{label}/values", **{"match[]": selector})

    def has_answer(self, expression):
        """A number in some series of it; a quantile of nothing is none."""
        return any(not math.isnan(float(series["value"][1]))
                   for series in self.query(expression))
