"""Clients that are broken on purpose, at least one for each check, which has to fail with it. A
mutant is clients/python/rlockd.py with some texts replaced."""
import tempfile
from pathlib import Path

HELD = '''{"state": "held", "lease_id": "", "fencing_token": 1, "ttl_ms": 9e5,
                    "remaining_ms": 9e5}'''
OVER = "or now() >= until + (0 if status else 1):"
DELETED = "while now() < until and status in (0, 429):"
BROKEN = "        except (OSError, http.client.HTTPException, ValueError) as error:\n"
JSON = "json.loads(answer.read())"
ENDED = "if status in (404, 410) or failed and now() > self.until:"
DEADLINE = ("min(self.until, self.session.until)", "now() + 99")
GIVE_UP = "self.cancel()  # its DELETE wins over every PUT with its token"

MUTANTS = [  # the check, and pairs of a text and what stands in its place
    ("acquire_and_release", ('[0].get("fencing_token", 0)', '[0]["remaining_ms"]')),
    ("busy", (OVER, "or False:")),
    ("wait_for_release", (OVER, "or True:"),
     ('int(wait * 1000)}, wait + 5)', "0}, 5)")),
    ("short_waits", ("wait / 2)", "20.0)")),
    ("answer_lost", ("        wait = max(",
                     '        self.headers["Lease-Token"] = str(uuid.uuid4())\n'
                     "        wait = max(")),
    ("answer_cut", (BROKEN, "        except http.client.IncompleteRead:\n"
                            f"            return 201, {HELD}\n" + BROKEN)),
    ("request_twice", ("if status in (200, 201) and body", "if status == 201 and body")),
    ("not_executed", (OVER, "or status == 0:")),
    ("not_executed", ("time.sleep(max(0.1, min(", "time.sleep(min(0, min(")),
    ("not_an_answer_of_rlockd", (JSON, f'{HELD} if "html" in str(answer.headers) else {JSON}')),
    ("not_an_answer_of_rlockd", ('status *= status != 200 or "state" in body', "pass")),
    ("refusal_of_a_gateway", (".startswith(OURS)", '.startswith("")')),
    ("next_server", ("urls[1:] + urls[:1]", "urls")),
    ("next_server_without_a_wait", ("(0 if status else 1)", "0")),
    ("token_for_each_lease", ('{"Lease-Token": str(uuid.uuid4())}, "not held"',
                              '{"Lease-Token": str(uuid.UUID(int=7))}, "not held"')),
    ("several_locks", ("if self.delete() != 200 or lost:",
                       'self.client.ask("DELETE", self.session.path, self.headers, {}, 3)\n'
                       "        if self.delete() not in (200, 410):")),
    ("several_at_once", ('"/v1/multi-locks", list(name)', '"/v1/multi-locks", list(name)[:1]')),
    ("shared", ("dict(fields, kind=kind)", "dict(fields)")),
    ("permit", ('if kind == "permit":', 'if kind == "permits":')),
    ("slow_answers", ('body["remaining_ms"] / 2e3:', "0.2:")),
    ("cancel", (DELETED, "while False:"), ("int(wait * 1000)}, wait + 5)",
                                           "int(wait * 1000)}, 0.5)")),
    ("give_up_what_is_unknown", (GIVE_UP, "pass")),
    ("release_answer_lost", (DELETED, "for _ in range(1):")),
    ("kept_alive", ("(self.keep, self.watch)", "(self.watch,)")),
    ("keep_alive_fails", (ENDED, "if status != 200:")),
    ("keep_alive_refused", (ENDED, "if 400 <= status < 500:")),
    ("rolling_restart", ('failed = body["draining"] or', 'if body["draining"]:\n'
                         '                    return self.lose(known, "draining")\n'
                         "                failed =")),
    ("no_place_to_hang", (' or not body["lost"] and ttl - left < hang / 2', "")),
    ("forced", ('self.lose([lease], "it has ended")', "pass")),
    ("loss_told_once", ("if not rows:", 'if lease.lease_id in str(body["lost"]):'),
     ("elif all(", "elif rows and all("), (', "held": held}', "}")),
    ("session_ended", (ENDED, "if False:"), DEADLINE),
    ("session_ended_between_leases", ('endswith(":session-ended")', 'endswith("!")')),
    ("session_ended_between_leases", ('0.0, {"Lease-Token": str(uuid.uuid4())}',
                                      '0.0, {"Lease-Token": self.headers["Lease-Token"]}')),
    ("black_network", DEADLINE),
    ("deadline_from_sending", ("proven = sent + (0", "proven = now() + (0")),
    ("session_answer_lost", ('{"Session-Token": str(uuid.uuid4())}',
                             '{"Session-Token": str(uuid.UUID(int=7))}')),
    ("secrets", ("while not self.attempt(until):\n",
                 "while not self.attempt(until) or print(self.headers, flush=True,\n"
                 '                    file=__import__("sys").stderr):\n')),
]


def mutated(source, pairs):
    for old, new in pairs:
        assert source.count(old) == 1, f"the client has {source.count(old)} times {old!r}"
        source = source.replace(old, new)
    return source


def write_all(source, folder):
    """Pairs of a check's name and the file of a client that breaks its rule."""
    for number, (name, *pairs) in enumerate(MUTANTS):
        file = Path(folder) / f"mutant_{number}.py"
        file.write_text(mutated(source, pairs), encoding="utf-8")
        yield name, file


def temporary():
    return tempfile.TemporaryDirectory(prefix="rlockd-mutants-")
