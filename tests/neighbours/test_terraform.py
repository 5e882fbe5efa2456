"""Terraform and OpenTofu: what the programs see, and the protocol by hand."""
import json
import re
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from servers import wait_for
from terraforms import Project, programs
from world import BASIC, LOCK, expect, held, made_up

GUIDE = Path(__file__).resolve().parents[2] / "docs/neighbours.md"
LOCK_INFO = {"ID": "7c9be3a8-0c8b-0f65-9c0a-6f2c8a5b1d11", "Operation": "OperationTypeApply",
             "Info": "", "Who": "anna@häuschen", "Version": "1.9.8",
             "Created": "2026-11-23T12:00:00.123456789Z", "Path": ""}


def info(**members):
    return {**LOCK_INFO, "ID": str(uuid.uuid4()), **members}


def lock(world, name, body, query="", method="LOCK", front=0, **headers):
    return world.fronts[front].ask(method, f"/terraform/{name}{query}", headers, body)


def unlock(world, name, body, **headers):
    return lock(world, name, body, method="UNLOCK", **headers)


# --- the real programs -----------------------------------------------------------------------

def each_program(check):
    def checks(world):
        for name, program in programs().items():
            try:
                check(world, name, program)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    checks.__doc__ = check.__doc__
    checks.__name__ = check.__name__
    return checks


def project(world, program, name, url=None, query="", **variables):
    return Project(program, world.place.folder / uuid.uuid4().hex,
                   f"{world.states.url}/{name}",
                   f"{url or world.fronts[0].url}/terraform/{name}{query}", **variables)


@each_program
def apply_holds_the_lock(world, _, program):
    """The lock is held while an apply writes its state, another apply is refused and told by
    whom, and afterwards the lock is free."""
    name = f"contention-{uuid.uuid4().hex}"
    first = project(world, program, name)
    second = project(world, program, name, world.fronts[1].url)
    world.states.go_on.clear()
    before = len(world.states.writes)
    running = first.start_apply("one")
    wait_for(lambda: len(world.states.writes) > before, "an apply that writes its state")
    holder = json.loads(held(world, f"terraform%2F{name}")["note"])
    output = second.apply("two", expect=1)
    assert holder["ID"] in output, output
    assert holder["ID"] in world.states.writes[-1], world.states.writes
    world.states.go_on.set()
    assert running.wait(60) == 0, running.stdout.read()
    assert not world.lock(f"terraform%2F{name}")["locked"]
    second.apply("two")


@each_program
def lock_may_wait(world, _, program):
    """With wait_ms in the address an apply waits for the other: no other server offers it."""
    name = f"waiting-{uuid.uuid4().hex}"
    waiting = project(world, program, name, query="?wait_ms=30000&ttl_ms=600000")
    other = info()
    expect(lock(world, name, other), 200)
    running = waiting.start_apply("one")
    wait_for(lambda: world.lock(f"terraform%2F{name}").get("waiter_count") == 1, "a waiter")
    expect(unlock(world, name, other), 200)
    assert running.wait(60) == 0, running.stdout.read()
    assert not world.lock(f"terraform%2F{name}")["locked"]


@each_program
def front_ends_die(world, _, program):
    """A lock outlives the front end that granted it; another front end takes the unlock."""
    name, dying = f"dying-{uuid.uuid4().hex}", world.place.front(world.redis)
    other = f"{world.fronts[1].url}/terraform/{name}"
    first = project(world, program, name, dying.url, unlock_url=other)
    second = project(world, program, name, world.fronts[1].url)
    world.states.go_on.clear()
    before = len(world.states.writes)
    running = first.start_apply("one")
    wait_for(lambda: len(world.states.writes) > before, "an apply that writes its state")
    dying.kill()
    assert "already locked" in second.apply("two", expect=1)
    world.states.go_on.set()
    assert running.wait(60) == 0, running.stdout.read()
    assert not world.lock(f"terraform%2F{name}")["locked"]
    second.apply("two")


@each_program
def killed_terraform_leaves_the_lock(world, _, program):
    """A lock outlives a killed apply, until force-unlock."""
    name = f"killed-{uuid.uuid4().hex}"
    first = project(world, program, name)
    world.states.go_on.clear()
    before = len(world.states.writes)
    running = first.start_apply("one")
    wait_for(lambda: len(world.states.writes) > before, "an apply that writes its state")
    running.kill()
    running.wait()
    world.states.go_on.set()
    holder = held(world, f"terraform%2F{name}")
    lock_id = json.loads(holder["note"])["ID"]
    first.apply("two", expect=1)
    first.run("force-unlock", "-force", lock_id)
    assert not world.lock(f"terraform%2F{name}")["locked"]
    first.apply("three")


@each_program
def basic_is_enough(world, version, program):
    """With API tokens, username and password of the backend are the caller and its token; the
    lock of another team's state is refused."""
    front = world.guarded
    ours, theirs = f"a-{uuid.uuid4().hex}", f"b-{uuid.uuid4().hex}"
    given = {"TF_HTTP_USERNAME": "anyone", "TF_HTTP_PASSWORD": BASIC["team-a"]}
    if "0.11" in version:  # it knows no variables for them
        more = f'username = "anyone"\n    password = "{BASIC["team-a"]}"'
        given = {"more": more}
    project(world, program, ours, front.url, **given).apply("one")
    output = project(world, program, theirs, front.url, **given).apply("one", expect=1)
    assert re.search(r"403|[Ff]orbidden|access denied|invalid auth", output), output


@each_program
def retries_while_redis_is_away(world, version, program):
    """503 of a draining or a cut-off front end is retried by Terraform with the same ID."""
    if "0.11" in version:
        return  # it does not retry
    name = f"retry-{uuid.uuid4().hex}"
    first = project(world, program, name)
    world.lone_redis.kill()
    lonely = project(world, program, name, world.lonely.url)
    running = lonely.start_apply("one")
    wait_for(lambda: any(line.get("status") == 503 and line.get("method") == "LOCK"
                         for line in world.lonely.log_lines("request")), "a LOCK with 503")
    world.lone_redis.start()
    assert running.wait(60) == 0, running.stdout.read()
    first.apply("two")


@each_program
def another_object_is_no_lock(world, _, program):
    """A name in use as another kind of object is no lock that somebody holds, and no reason to
    try again."""
    name = f"kind-{uuid.uuid4().hex}"
    read_lock(world, name)
    output = project(world, program, name).apply("one", "-lock-timeout=120s", expect=1)
    assert "422" in output and "already locked" not in output, output


@each_program
def note_with_an_odd_time(world, _, program):
    """The real program tells who holds the lock, whatever a client wrote into its note."""
    name = f"odd-{uuid.uuid4().hex}"
    expect(world.fronts[0].ask("PUT", f"/v1/locks/terraform%2F{name}",
                               {"Lease-Token": str(uuid.uuid4())},
                               {"note": json.dumps({"ID": "theirs", "Created": "yesterday"}),
                                "ttl_ms": 600000}), 201)
    output = project(world, program, name).apply("one", expect=1)
    assert "already locked" in output and "theirs" in output, output


# --- by hand ---------------------------------------------------------------------------------

def answers(world):
    """LOCK is 200, also repeated at another front end; another LOCK is 423 with the holder's
    LockInfo; UNLOCK is 200, also repeated."""
    name, ours, theirs = f"hand-{uuid.uuid4().hex}", info(), info(Who="ben@b")
    expect(lock(world, name, ours), 200)
    expect(lock(world, name, ours, front=1), 200)
    busy = expect(lock(world, name, theirs, front=1), 423)
    for member, value in ours.items():
        assert busy.get(member, "") == value, busy
    expect(unlock(world, name, theirs), 410)
    assert world.lock(f"terraform%2F{name}")["locked"]
    expect(unlock(world, name, ours), 200)
    expect(unlock(world, name, ours), 200)
    expect(lock(world, name, ours), 410)


def addresses_of_the_guide(world):
    """A front end with the default settings takes the addresses in docs/neighbours.md."""
    recipe = re.search(r"```hcl\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)[1]
    for method, address in ((LOCK, "lock_address"), ("UNLOCK", "unlock_address")):
        url = urlsplit(re.search(rf' {address}\s*= "(.*)"', recipe)[1])
        expect(world.fronts[0].ask(method, f"{url.path}?{url.query}", {}, LOCK_INFO), 200)


def gitlab_methods(world):
    """POST and DELETE are LOCK and UNLOCK."""
    name, ours = f"gitlab-{uuid.uuid4().hex}", info()
    expect(lock(world, name, ours, method="POST"), 200)
    expect(lock(world, name, info(), method="POST"), 423)
    expect(lock(world, name, ours, method="DELETE"), 200)


def bodies_of_any_type(world):
    """The Content-Type does not matter, nor do members that are not known."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
        body = json.dumps(info(Unknown={"a": [1, 2]}))
        expect(lock(world, f"type-{uuid.uuid4().hex}", body, **{"Content-Type": kind}), 200)


def long_lock_info(world):
    """A LockInfo that is too long for a note loses whole members; its ID stays."""
    name = f"long-{uuid.uuid4().hex}"
    ours = info(Info="x" * 3000, Who="w" * 120, Path="\u0085\n" + "p" * 250)
    expect(lock(world, name, ours), 200)
    busy = expect(lock(world, name, info()), 423)
    assert busy["ID"] == ours["ID"] and busy["Who"] == ours["Who"], busy
    assert "Info" not in busy and "Path" not in busy, busy


def other_holders(world):
    """A lease of the API is shown as a LockInfo that names it, and no UNLOCK with that ID ends
    it."""
    name, token = f"other-{uuid.uuid4().hex}", str(uuid.uuid4())
    expect(world.fronts[0].ask("PUT", f"/v1/locks/terraform%2F{name}",
                               {"Lease-Token": token},
                               {"note": "by hand", "ttl_ms": 60000}), 201)
    busy = expect(lock(world, name, info()), 423)
    assert busy["Info"] == "by hand" and busy["Operation"] == "not by Terraform", busy
    expect(unlock(world, name, info(ID=busy["ID"])), 410)
    assert world.lock(f"terraform%2F{name}")["locked"]


def read_lock(world, name):
    expect(world.fronts[0].ask("PUT", f"/v1/locks/terraform%2F{name}",
                               {"Lease-Token": str(uuid.uuid4())},
                               {"kind": "read", "ttl_ms": 600000}), 201)


def other_objects(world):
    """LOCK of a name in use as another kind of object is neither 409 nor 423, which Terraform
    takes for a lock that is held."""
    name = f"kind-{uuid.uuid4().hex}"
    read_lock(world, name)
    for method in (LOCK, "POST"):
        refused = expect(lock(world, name, info(), method=method), 422)
        assert refused["type"] == "urn:rlockd:problem:wrong-kind", refused
        assert refused["status"] == 422, refused


def notes_like_a_lock_info(world):
    """Any client may write a note that looks like a LockInfo: the answer keeps its own members,
    and shows the texts of a LockInfo only."""
    name = f"like-{uuid.uuid4().hex}"
    note = {"ID": "theirs", "Who": 5, "type": "evil", "status": 200, "detail": "free", "x": []}
    expect(world.fronts[0].ask("PUT", f"/v1/locks/terraform%2F{name}",
                               {"Lease-Token": str(uuid.uuid4())},
                               {"note": json.dumps(note), "ttl_ms": 60000}), 201)
    busy = expect(lock(world, name, info()), 423)
    assert busy["type"] == "urn:rlockd:problem:locked" and busy["status"] == 423, busy
    assert busy["detail"] != "free" and busy["ID"] == "theirs", busy
    assert "Who" not in busy and "x" not in busy, busy


def notes_with_times(world):
    """Go reads no LockInfo whose `Created` is no time as Go writes them: it is left out."""
    times = {"2026-11-23T12:00:00.123456789Z": True, "2026-11-23T12:00:00+01:00": True,
             "": False, "yesterday": False, "2026-11-23": False, "2026-11-31T12:00:00Z": False,
             "2026-11-23t12:00:00z": False, "2026-12-31T23:59:60Z": False}
    for created, is_shown in times.items():
        name = f"times-{uuid.uuid4().hex}"
        expect(world.fronts[0].ask("PUT", f"/v1/locks/terraform%2F{name}",
                                   {"Lease-Token": str(uuid.uuid4())},
                                   {"note": json.dumps({"ID": "theirs", "Created": created}),
                                    "ttl_ms": 60000}), 201)
        busy = expect(lock(world, name, info()), 423)
        assert busy["ID"] == "theirs", busy
        assert busy.get("Created") == (created if is_shown else None), busy


def force_unlock_of_opentofu(world):
    """A LockInfo with nothing but the ID releases the lease with this ID, and no other."""
    name, ours = f"tofu-{uuid.uuid4().hex}", info()
    expect(lock(world, name, ours), 200)
    expect(unlock(world, name, {"ID": info()["ID"]}), 410)
    expect(unlock(world, name, {"ID": ours["ID"]}), 200)
    assert not world.lock(f"terraform%2F{name}")["locked"]


def ids_of_other_locks(world):
    """An ID is good for the lock that it was used for, and for no other lock."""
    one, two, ours = f"one-{uuid.uuid4().hex}", f"two-{uuid.uuid4().hex}", info()
    expect(lock(world, one, ours), 200)
    expect(unlock(world, two, ours), 410)
    assert world.lock(f"terraform%2F{one}")["locked"]


def lasts_as_long_as_asked(world):
    """366 days, or ttl_ms of the address."""
    name, ours = f"ttl-{uuid.uuid4().hex}", info()
    expect(lock(world, name, ours), 200)
    assert world.lock(f"terraform%2F{name}")["remaining_ms"] > 365 * 86400000
    name = f"ttl-{uuid.uuid4().hex}"
    expect(lock(world, name, ours, query="?ttl_ms=60000"), 200)
    assert world.lock(f"terraform%2F{name}")["remaining_ms"] <= 60000
    expect(lock(world, name, ours, query="?ttl=60000"), 400)


def rights(world):
    """A right is to the name with its prefix; force-unlock needs `operate`; a browser is not
    asked for a password."""
    name = f"a-{uuid.uuid4().hex}"

    def ask(method, caller, body, name=name):
        return world.guarded.ask(method, f"/terraform/{name}",
                                 {"Authorization": world.basic(caller)}, body)
    assert world.guarded.ask(LOCK, f"/terraform/{name}", {}, info())[0] == 401
    expect(ask(LOCK, "nobody", info()), 401)
    ours = info()
    expect(ask(LOCK, "team-b", ours), 403)
    expect(ask(LOCK, "team-a", ours), 200)
    expect(ask("UNLOCK", "team-b", ours), 403)
    expect(ask("UNLOCK", "team-a", ""), 403)
    expect(ask("UNLOCK", "admin", ""), 200)
    expect(ask(LOCK, "team-a", info(), "b-other"), 403)
    expect(ask(LOCK, "team-a", info(), "%2e%2e%2fa-other"), 403)
    expect(ask(LOCK, "brief", info(), "c-state"), 403)  # 366 days are more than it may have
    expect(ask(LOCK, "brief", info(), "c-state?ttl_ms=1000"), 200)


def made_up_requests(world):
    """Whatever is sent is answered, soon, and with no 500."""
    made_up(world, ("LOCK", "UNLOCK", "POST", "DELETE"),
            lambda chance: f"/terraform/{chance.name()}{chance.query()}", info)
