#!/usr/bin/env python3
"""A real Prometheus and a real Alertmanager beside real front ends.

usage: run.py BINARY

Every expression of deploy/grafana/rlockd.json, its variables filled as Grafana does, has an
answer from a Prometheus that scrapes two front ends under load, or, of the panels of a quorum,
a front end of a quorum. A server of the quorum that is away starts its alarm. The alarm of a
lock that a Java client holds for too long comes to a receiver of the Alertmanager, and so does
its end."""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from java_holder import JavaHolder  # noqa: E402
from load import Load  # noqa: E402
from monitoring import Alertmanager, Prometheus, Receiver  # noqa: E402
from servers import PATIENCE, Place, Quorum, wait_for  # noqa: E402

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "rlockd.json"
LONG_HOLD_MS = 3000
# A Java client's hold counts from the first walk that sees it; a walk begins every 2 s.
ALARM_S = 30 * PATIENCE
ANSWERS_S = 40 * PATIENCE


def variables(dashboard, prometheus, job):
    """What Grafana puts in for each variable of the expressions, with this job chosen."""
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
        if not variable["multi"] and job not in found:
            raise LookupError(f"the variable {name} has no value {job}: {found}")
        values[name] = "|".join(found) if variable["multi"] else job
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
    values = variables(dashboard, prometheus, "rlockd")
    of_quorum = variables(dashboard, prometheus, "rlockd-quorum")
    assert values["instance"].count("|") == 1, f"not two front ends: {values}"
    texts = {name: filled(expression, of_quorum if "rlockd_quorum_" in expression else values)
             for name, expression in targets}
    assert not prometheus.has_answer('rlockd_workers{job="none"}'), "an empty answer passes"
    silent = {}

    def all_answer():
        silent.clear()
        silent.update((name, text) for name, text in texts.items()
                      if not prometheus.has_answer(text))
        return not silent

    try:
        wait_for(all_answer, "answers", ANSWERS_S)
    except TimeoutError:
        sys.exit("no answer: " + "; ".join(f"{name}: {text}" for name, text in silent.items()))
    print(f"dashboard: {len(targets)} expressions have an answer, with {values}")


def check_quorum(quorum, prometheus):
    """What the alarms of a quorum are made of; each begins minutes later."""
    members = {f"127.0.0.1:{server.port}" for server in quorum.servers}

    def have_offsets():
        offsets = prometheus.query('rlockd_quorum_clock_offset_seconds{job="rlockd-quorum"}')
        return {series["metric"]["member"] for series in offsets} == members
    wait_for(have_offsets, f"the offsets of {members}", ANSWERS_S)
    pending = ('ALERTS{alertname="RlockdQuorumServerAway", job="rlockd-quorum", '
               'alertstate="pending"}')
    wait_for(lambda: not prometheus.query(pending), "no server is away", ANSWERS_S)
    quorum.servers[0].kill()
    wait_for(lambda: prometheus.query(pending), "the alarm of a server that is away", ANSWERS_S)
    print("quorum: the offset of each clock is there, and the alarm of a server begins")


def check_alarm(holder, receiver, prometheus):
    alarm = "RlockdLocksHeldLong"
    with holder:
        firing = wait_for(lambda: receiver.find(alarm, "firing"), "the alarm", ALARM_S)
        assert firing["labels"]["job"] == "rlockd-java", firing
        summary = firing["annotations"]["summary"]
        assert summary.startswith("rlockd-java: 1 of its locks"), firing
        assert not receiver.find(alarm, "resolved"), "it has ended already"
    firing = f'ALERTS{{alertname="{alarm}", alertstate="firing"}}'
    # A scrape that failed on a busy machine may have told its end before.
    wait_for(lambda: receiver.find(alarm, "resolved") and not prometheus.query(firing),
             "the alarm's end", ALARM_S)
    print("alarm: a Java client's hold has come to the receiver, and its end")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Place("alarms", sys.argv[1]) as place, Receiver() as receiver:
        redis, java = place.redis(), place.redis()
        fronts = [place.front(redis, "--watchdog-timeout-ms", "9000") for _ in range(2)]
        quorum = Quorum(place, 3)
        of_quorum = place.front(quorum)
        long_hold = place.front(java, "--long-hold-ms", LONG_HOLD_MS)
        alertmanager = place.add(Alertmanager(place, receiver.url))
        prometheus = place.add(Prometheus(place, alertmanager, {
            "rlockd": fronts, "rlockd-java": [long_hold], "rlockd-quorum": [of_quorum]}))
        wait_for(lambda: len(prometheus.query("rlockd_workers")) == 4, "four scrapes")
        with Load(fronts, of_quorum):
            check_dashboard(prometheus)
        check_quorum(quorum, prometheus)
        check_alarm(JavaHolder(place, java, "report"), receiver, prometheus)


main()
