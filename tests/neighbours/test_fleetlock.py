"""FleetLock: each rule of the protocol, by a client that repeats as Zincati does."""
import json
import random
import re
import threading
import uuid

from servers import wait_for
from world import expect, made_up

HEADER = {"fleet-lock-protocol": "true"}
GROUP = re.compile(r"^[a-zA-Z0-9.-]+$")


class Machine:
    """A client written from the protocol's text. It sends no Content-Type."""

    def __init__(self, front, group, machine_id=None, **headers):
        self.front, self.group = front, group
        self.id = machine_id or uuid.uuid4().hex
        self.headers = {**HEADER, **headers}
        assert GROUP.match(group)

    def ask(self, path):
        """Whether it succeeded; an error has a kind and a value."""
        body = json.dumps({"client_params": {"id": self.id, "group": self.group}})
        status, answer = self.front.ask("POST", f"/fleetlock/v1/{path}", self.headers, body)
        if 200 <= status < 300:
            return True
        assert 400 <= status < 600 and answer["kind"] and answer["value"], (status, answer)
        self.failure = status, answer["kind"]
        return False

    def pre_reboot(self):
        return self.ask("pre-reboot")

    def steady_state(self):
        return self.ask("steady-state")

    def refused(self, path="pre-reboot"):
        assert not self.ask(path), "it was allowed"
        return self.failure

    def reboot(self, pause):
        """As Zincati: asks again, after a while with jitter, until it may; and reports back
        until it was heard."""
        wait_for(lambda: self.pre_reboot() or pause.wait(random.uniform(0.02, 0.1)), "a slot")
        yield
        wait_for(lambda: self.steady_state() or pause.wait(random.uniform(0.02, 0.1)), "an end")


def new_group():
    return f"group-{uuid.uuid4().hex}"


def slots(world, group):
    return world.fronts[0].ask("GET", f"/v1/permit-semaphores/fleetlock%2F{group}")[1]


def one_slot(world):
    """A group is made on first use with one slot; the second machine waits until the first one
    is steady; asking again is allowed to both, at any front end."""
    group = new_group()
    one, two = Machine(world.fronts[0], group), Machine(world.fronts[1], group)
    assert one.pre_reboot() and one.pre_reboot()
    one.front = world.fronts[1]
    assert one.pre_reboot()
    assert two.refused() == (423, "locked") and two.refused() == (423, "locked")
    assert slots(world, group)["permits"] == 1, slots(world, group)
    assert one.steady_state() and one.steady_state()
    assert two.pre_reboot()
    assert one.refused() == (423, "locked")


def reboots_again_and_again(world):
    """A machine has one id for all its reboots: a slot that it gave back it gets again at
    once."""
    machine = Machine(world.fronts[0], new_group())
    for _ in range(20):
        assert machine.pre_reboot() and machine.steady_state()
    assert slots(world, machine.group)["available"] == 1


def steady_without_a_slot(world):
    """steady-state of a machine that holds nothing is a success, and takes no other machine's
    slot."""
    group = new_group()
    one, two = Machine(world.fronts[0], group), Machine(world.fronts[0], group)
    assert two.steady_state()
    assert one.pre_reboot() and two.steady_state()
    assert two.refused() == (423, "locked")
    assert two.steady_state() and one.steady_state() and two.pre_reboot()


def ids_are_case_sensitive(world):
    """Machines whose ids differ in case only are two machines."""
    group = new_group()
    assert Machine(world.fronts[0], group, "abc").pre_reboot()
    assert Machine(world.fronts[0], group, "ABC").refused() == (423, "locked")


def groups_have_limits(world):
    """The slots of a group are those of its permit semaphore; no group touches another."""
    group = new_group()
    expect(world.fronts[0].ask("PUT", f"/v1/permit-semaphores/fleetlock%2F{group}", {},
                               {"permits": 2}), 201)
    machines = [Machine(world.fronts[i % 2], group) for i in range(3)]
    assert [machine.pre_reboot() for machine in machines] == [True, True, False]
    assert Machine(world.fronts[0], new_group()).pre_reboot()
    assert machines[0].steady_state() and machines[2].pre_reboot()


def slots_stay(world):
    """A slot does not end by itself, and shows its machine; an operator frees it in the
    machine's name."""
    group = new_group()
    dead = Machine(world.fronts[0], group, "dead-machine")
    assert dead.pre_reboot()
    holder = slots(world, group)["holders"][0]
    assert holder["note"] == "dead-machine" and holder["remaining_ms"] > 365 * 86400000, holder
    assert Machine(world.fronts[1], group, holder["note"]).steady_state()
    assert slots(world, group)["holder_count"] == 0


def fleet(world):
    """Twelve machines that reboot at once, two slots, two front ends: never three at a time,
    and each of them has its turn."""
    group, pause = new_group(), threading.Event()
    expect(world.fronts[0].ask("PUT", f"/v1/permit-semaphores/fleetlock%2F{group}", {},
                               {"permits": 2}), 201)
    down, most, done, guard = set(), [0], [], threading.Lock()

    def live(machine):
        for _ in machine.reboot(pause):
            with guard:
                down.add(machine.id)
                most[0] = max(most[0], len(down))
            pause.wait(0.05)
            with guard:
                down.remove(machine.id)
        done.append(machine.id)

    threads = [threading.Thread(target=live, args=(Machine(world.fronts[i % 2], group),))
               for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 12 and 1 <= most[0] <= 2, (done, most)
    assert slots(world, group)["available"] == 2


def refusals(world):
    """The header is required, and both texts of a machine; every refusal has kind and value."""
    good = {"client_params": {"id": "a", "group": new_group()}}

    def ask(body, headers=HEADER, method="POST"):
        status, answer = world.fronts[0].ask(method, "/fleetlock/v1/pre-reboot", headers, body)
        return status, answer.get("kind") and answer.get("value") and answer["kind"]
    bad = (400, "malformed-request")
    assert ask(good, {}) == bad
    assert ask(good, {"fleet-lock-protocol": "yes"}) == bad
    for machine in ({}, None, [], {"id": "a"}, {"group": "g"}, {"id": "", "group": "g"},
                    {"id": "a", "group": ""}, {"id": 7, "group": "g"},
                    {"id": "a", "group": "ä"}, {"id": "a", "group": "a/b"},
                    {"id": "a\n", "group": "g"}, {"id": "a" * 257, "group": "g"},
                    {"id": "a", "group": "g" * 129}):
        assert ask({"client_params": machine}) == bad, machine
    assert ask("") == bad and ask("[]") == bad and ask('{"client_params"') == bad
    assert ask(good, method="GET")[0] == 405
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        assert ask(json.dumps(good), {**HEADER, "Content-Type": kind})[0] == 200


def rights(world):
    """The right `lock` to fleetlock/ is needed, as Basic or as Bearer; refusals have a kind."""
    group = new_group()
    for caller, refusal in (("nobody", (401, "unauthenticated")),
                            ("team-a", (403, "forbidden"))):
        machine = Machine(world.guarded, group, Authorization=world.basic(caller))
        assert machine.refused() == machine.refused("steady-state") == refusal
    assert Machine(world.guarded, group).refused() == (401, "unauthenticated")
    assert Machine(world.guarded, group, Authorization=world.basic("machines")).pre_reboot()
    web = world.basic("web-machines")
    assert Machine(world.guarded, group, Authorization=web).refused() == (403, "forbidden")
    assert Machine(world.guarded, f"web-{group}", Authorization=web).pre_reboot()


def a_refusal_makes_no_group(world):
    """Nor does a parameter that the protocol does not have."""
    group = new_group()
    machine = Machine(world.guarded, group, Authorization=world.basic("brief"))
    assert machine.refused() == (403, "forbidden")
    path = "/fleetlock/v1/pre-reboot?ttl_ms=60000"
    expect(world.fronts[0].ask("POST", path, HEADER,
                               {"client_params": {"id": "a", "group": group}}), 400)
    expect(world.fronts[0].ask("GET", f"/v1/permit-semaphores/fleetlock%2F{group}"), 404)


def group_of_another_kind(world):
    """A name that is another kind of object in Redis is a refusal, and stays as it is."""
    group = new_group()
    world.redis.command("SADD", f"fleetlock/{group}", "x")
    machine = Machine(world.fronts[0], group)
    assert machine.refused() == machine.refused("steady-state") == (409, "wrong-kind")


def made_up_requests(world):
    """Whatever is sent is answered, soon, and with no 500."""
    made_up(world, ("POST",), lambda chance: "/fleetlock/v1/" + chance.random.choice(
        ["pre-reboot", "steady-state", "pre-reboot?a=b", chance.name()]),
        lambda: {"client_params": {"id": uuid.uuid4().hex, "group": new_group()}})
