"""rlock acquire, renew and release: locks that outlive a process, and their lease files."""
import functools
import json
import signal
import stat
from pathlib import Path

from looking import lock_it
from world import World, ended, name, wait_for


class Filed:
    """A lock and a lease file for it."""

    def __init__(self, world, front, url=None, lock=None):
        self.world, self.front, self.url = world, front, url or front.url
        self.lock = lock or name()
        self.path = Path(world.folder) / name()

    def start(self, verb, *arguments):
        return self.world.rlock_does(self.url, verb, self.lock, "--lease-file", str(self.path),
                                     *arguments)

    def does(self, verb, *arguments, status=0):
        run = self.start(verb, *arguments)
        assert run.status() == status, (verb, run.process.returncode, run.err)
        return json.loads(run.out) if run.out else run

    def content(self):
        return json.loads(self.path.read_text(encoding="utf-8"))

    def has_nothing(self):
        left = list(self.path.parent.glob(self.path.name + "*"))
        return not left and self.front.is_free(self.lock)


def every_repetition_is_safe(world, front):
    filed = Filed(world, front)
    grant = filed.does("acquire", "--ttl", "1h", "--note", "freeze")
    assert 3500000 < front.lock(filed.lock)["remaining_ms"] <= 3600000
    assert front.lock(filed.lock)["holders"][0]["note"] == "freeze"
    assert stat.S_IMODE(filed.path.stat().st_mode) == 0o600
    assert filed.content()["lease_token"] not in json.dumps(grant)
    assert filed.does("acquire")["fencing_token"] == grant["fencing_token"]
    filed.does("renew", "--ttl", "2h")
    assert front.lock(filed.lock)["remaining_ms"] > 7000000
    other = Filed(world, front, lock=filed.lock)
    other.does("acquire", "-n", status=75)
    assert not other.path.exists(), "a file without a lease is left"
    filed.does("release")
    assert filed.has_nothing()
    assert "nothing is released" in filed.does("release").err


def killed_while_it_waits(world, front):
    filed = Filed(world, front)
    token, _ = lock_it(front, filed.lock, "ttl_ms=60000")
    run = filed.start("acquire")
    wait_for(lambda: front.has_waiter(filed.lock), "it waits")
    assert "in use" in filed.does("release", status=75).err
    run.signal(signal.SIGKILL)
    run.status()
    kept = filed.content()
    assert kept["state"] == "acquiring", kept
    front.ask("DELETE", f"/v1/locks/{filed.lock}", Lease_Token=token)
    filed.does("acquire")
    assert filed.content() == dict(kept, state="held")
    filed.does("release")
    assert filed.has_nothing()


def interrupted_while_it_waits(world, front):
    filed = Filed(world, front)
    lock_it(front, filed.lock, "ttl_ms=60000", "kind=fair")
    run = filed.start("acquire", "--fair")
    wait_for(lambda: front.has_waiter(filed.lock), "it waits")
    run.signal(signal.SIGINT)
    assert run.status() == 128 + signal.SIGINT, run.err
    assert not filed.path.exists() and not front.has_waiter(filed.lock)


def answers_are_lost(world, front):
    proxy = world.proxy(front)
    filed = Filed(world, front, proxy.url)
    for verb, method in (("acquire", b"PUT"), ("renew", b"PATCH"), ("release", b"DELETE")):
        proxy.lose(2, method)
        filed.does(verb)
        assert proxy.lost == 0, "no answer was lost"
    assert filed.has_nothing()


def no_server(world, front):
    """The servers go away with the answer: the file knows what may be held."""
    proxy = world.proxy(front)
    filed = Filed(world, front, proxy.url)
    gone = ["--connect-timeout", "500ms"]
    for verb, method in (("acquire", b"PUT"), ("release", b"DELETE")):
        proxy.lose(1000, method)
        assert str(filed.path) in filed.does(verb, *gone, status=69).err
        assert filed.path.exists()
    proxy.lose(0)
    filed.does("release")
    assert filed.has_nothing()


def a_release_is_finished_first(world, front):
    filed = Filed(world, front)
    first = filed.does("acquire")
    filed.path.write_text(json.dumps(dict(filed.content(), state="releasing")))
    second = filed.does("acquire")
    assert second["fencing_token"] > first["fencing_token"]
    assert second["lease_id"] != first["lease_id"]
    filed.does("release")


def a_loss_is_told(world, front):
    filed = Filed(world, front)
    for verb in ("renew", "release"):
        filed.does("acquire")
        front.ask("POST", f"/v1/locks/{filed.lock}/force-unlock")
        assert "was lost" in filed.does(verb, status=79).err
    assert filed.has_nothing()


def a_permit(world, front):
    filed = Filed(world, front)
    front.ask("PUT", f"/v1/permit-semaphores/{filed.lock}?permits=1")
    filed.does("acquire", "--permit")
    filed.does("renew")
    assert front.ask("GET", f"/v1/permit-semaphores/{filed.lock}")[1]["available"] == 0
    filed.does("release")
    assert front.ask("GET", f"/v1/permit-semaphores/{filed.lock}")[1]["available"] == 1


def usage(world, front):
    filed = Filed(world, front)
    assert world.rlock_does(front.url, "acquire", filed.lock).status() == 64
    filed.does("renew", status=64)
    filed.does("acquire")
    filed.does("acquire", "--fair", status=64)
    filed.lock = name()
    assert "is for the lock" in filed.does("release", status=64).err
    for text in ("", "{}", "[1]", '{"lock":"x","kind":"lock","lease_token":"../../etc/passwd",'
                 '"state":"held","ttl_ms":1000}'):
        filed.path.write_text(text)
        assert "no lease file" in filed.does("release", status=64).err, text
    filed.path.unlink()
    filed.path = filed.path / "nowhere"
    filed.does("acquire", status=70)
    assert front.is_free(filed.lock), "asked for without a file"


# ---- cells of the matrix: what outlives its process is the file

def freed_by_force(filed):
    filed.front.ask("POST", f"/v1/locks/{filed.lock}/force-unlock")


def without_redis_data(filed):
    filed.world.empty_redis()


def check_file_after_kill(world, step):
    """Killed at the moment at which the server has the request, and its answer is lost: the
    same command, repeated, does what the killed one would have done."""
    front = world.fronts[0]
    proxy = world.proxy(front)
    filed = Filed(world, front, proxy.url)
    if step != "acquire":
        filed.does("acquire")
    before = filed.front.lock(filed.lock).get("fencing_token")
    proxy.mode = "mute"
    run = filed.start(step, "--ttl", "1h") if step != "release" else filed.start(step)
    wait_for(lambda: proxy.muted > 0, "the server has answered")
    run.signal(signal.SIGKILL)
    assert run.status() == -signal.SIGKILL
    proxy.mode = "pass"
    filed.does(step)
    if step == "release":
        assert filed.has_nothing()
        return
    token = front.lock(filed.lock)["fencing_token"]
    assert before in (None, token), "granted twice"
    filed.does("release")
    assert filed.has_nothing()


def check_file_after_loss(world, loss, verb):
    """The lease has ended: renew and release tell so, acquire takes the lock anew."""
    filed = Filed(world, world.fronts[0])
    filed.does("acquire")
    loss(filed)
    assert filed.front.is_free(filed.lock)
    if verb == "acquire":
        filed.does("acquire")
        assert filed.front.holds(filed.lock)
        filed.does("release")
    else:
        filed.does(verb, status=79)
    if verb == "renew":  # the file stays until the release
        filed.does("release", status=79)
    assert filed.has_nothing()


def check_file_in_own_world(verb):
    with ended(World()) as own:
        own.front()
        check_file_after_loss(own, without_redis_data, verb)


def cells(world):
    """title -> test."""
    tests = {}
    for verb in ("acquire", "renew", "release"):
        tests[f"kill_file_{verb}"] = functools.partial(check_file_after_kill, world, verb)
        tests[f"force-unlock_file_{verb}"] = functools.partial(
            check_file_after_loss, world, freed_by_force, verb)
        tests[f"redis-emptied_file_{verb}"] = functools.partial(check_file_in_own_world, verb)
    return tests


TESTS = {"filed_" + test.__name__: test for test in (
    every_repetition_is_safe, killed_while_it_waits, interrupted_while_it_waits,
    answers_are_lost, no_server, a_release_is_finished_first, a_loss_is_told, a_permit, usage)}
