#!/usr/bin/env python3
"""A real Prometheus and a real Alertmanager beside real front ends.

usage: run.py BINARY

Every expression of deploy/grafana/rlockd.json, its variables filled as Grafana does, has an
answer from a Prometheus that scrapes two front ends under load. The alarm of a lock that a Java
client holds for too long comes to a receiver of the Alertmanager, and so does its end."""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from java_holder import JavaHolder  # noqa: E402
from load import Load  # noqa: E402
from monitoring import Alertmanager, Prometheus, Receiver  # noqa: E402
from servers import PATIENCE, Place, wait_for  # noqa: E402

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "rlockd.json"
LONG_HOLD_MS = 3000
# A Java client's hold counts from the first walk that sees it; a walk begins every 2 s.
ALARM_S = 30 * PATIENCE
ANSWERS_S = 40 * PATIENCE


def variables(dashboard, prometheus):
    """What Grafana puts in for each variable of the expressions."""
    values = {"__rate_interval": "1m", "__interval": "15s", "__range": "1h"}
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            continue
        selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)",
                                       variable["query"]["query"]).groups()
        found = prometheus.label_values(filled(selector, values), label)
        if not found:
            raise LookupError(f"the variable {name} has no value")
        # Grafana chooses the first one in its order, or all of them.
        values[name] = "|".join(found) if variable["multi"] else sorted(found)[0]
    return values


def filled(expression, values):
    expression = re.sub(r"\$(\w+)", lambda match: values.get(match[1], match[0]), expression)
    if "$" in expression:
        raise LookupError(f"a variable that nobody fills: {expression}")
    return expression


def check_dashboard(prometheus):
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    targets = [(f"{panel['title']}, {target['legendFormat']}", target["expr"])
               for panel in dashboard["panels"] for target in panel.get("targets", ())]
    values = variables(dashboard, prometheus)
    assert values["instance"].count("|") == 1, f"not two front ends: {values}"
    assert not prometheus.has_answer('rlockd_workers{job="none"}'), "an empty answer passes"
    silent = {}

    def all_answer():
        silent.clear()
        for name, expression in targets:
            if not prometheus.has_answer(filled(expression, values)):
                silent[name] = filled(expression, values)
        return not silent

    try:
        wait_for(all_answer, "answers", ANSWERS_S)
    except TimeoutError:
        sys.exit("no answer: " + "; ".join(f"{name}: {text}" for name, text in silent.items()))
    print(f"dashboard: {len(targets)} expressions have an answer, with {values}")


def check_alarm(holder, receiver, prometheus):
    alarm = "RlockdLocksHeldLong"
    with holder:
        firing = wait_for(lambda: receiver.find(alarm, "firing"), "the alarm", ALARM_S)
        assert firing["labels"]["job"] == "rlockd-java", firing
        summary = firing["annotations"]["summary"]
        assert summary.startswith("rlockd-java: 1 of its locks"), firing
        assert not receiver.find(alarm, "resolved"), "it has ended already"
    wait_for(lambda: receiver.find(alarm, "resolved"), "the alarm's end", ALARM_S)
    still = prometheus.query(f'ALERTS{{alertname="{alarm}", alertstate="firing"}}')
    assert not still, still
    print("alarm: a Java client's hold has come to the receiver, and its end")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Place("alarms", sys.argv[1]) as place, Receiver() as receiver:
        redis, java = place.redis(), place.redis()
        fronts = [place.front(redis, "--watchdog-timeout-ms", "9000") for _ in range(2)]
        long_hold = place.front(java, "--long-hold-ms", LONG_HOLD_MS)
        alertmanager = place.add(Alertmanager(place, receiver.url))
        prometheus = place.add(Prometheus(place, alertmanager, {
            "rlockd": fronts, "rlockd-java": [long_hold]}))
        wait_for(lambda: len(prometheus.query("rlockd_workers")) == 3, "three scrapes")
        with Load(fronts):
            check_dashboard(prometheus)
        check_alarm(JavaHolder(place, java, "report"), receiver, prometheus)


main()
