"""The subcommands that look and free, and those for semaphores and latches."""
import contextlib
import http.server
import json
import signal
import threading
import time
import uuid

from world import World, ended, name, servers, wait_for


def ask(world, front, *arguments):
    run = world.rlock_does(front.url, *arguments)
    return run.status(), run


def lock_it(front, lock, *fields, **headers):
    token = str(uuid.uuid4())
    status, grant = front.ask("PUT", f"/v1/locks/{lock}?{'&'.join(fields)}", Lease_Token=token,
                              **headers)
    assert status == 201, grant
    return token, grant


def show_and_ls(world, front):
    prefix = name() + "/"
    lock, token = prefix + "a b", str(uuid.uuid4())
    path = f"/v1/locks/{lock}".replace(prefix, prefix[:-1] + "%2F").replace(" ", "%20")
    assert ask(world, front, "show", lock)[1].out.split()[-1] == "free"
    front.ask("PUT", f"{path}?ttl_ms=60000&note=anna&kind=fair", Lease_Token=token)
    run = world.run(front.url, "--fair", "--note", "ben", lock, "true")
    wait_for(lambda: front.ask("GET", path)[1]["waiter_count"] == 1, "the run waits")
    status, shown = ask(world, front, "show", lock)
    assert status == 0 and "anna" in shown.out and "ben" in shown.out, shown.out
    shown = json.loads(ask(world, front, "show", lock, "--json")[1].out)
    assert shown["holders"][0]["note"] == "anna", shown
    lock_it(front, name(), "ttl_ms=5000")
    status, listed = ask(world, front, "ls", prefix)
    assert status == 0 and len(listed.out.splitlines()) == 1, listed.out
    listed = json.loads(ask(world, front, "ls", "--json", prefix)[1].out)
    assert [one["lock"] for one in listed] == [lock], listed
    run.signal(signal.SIGTERM)
    run.status()


def ready(world, front):
    """With --url, and with what rlockd itself has in its environment."""
    assert ask(world, front, "ready")[0] == 0
    own = {"RLOCK_URL": "", "RLOCK_TOKEN_FILE": "/nowhere"}
    for listen in (f"127.0.0.1:{front.port}", f":{front.port}", f"0.0.0.0:{front.port}"):
        run = world.rlock_does("", "ready", "--connect-timeout", "0", RLOCKD_LISTEN=listen,
                               **own)
        assert run.status() == 0, run.err
    closed = world.rlock_does("", "ready", "--connect-timeout", "0",
                              RLOCKD_LISTEN=f"127.0.0.1:{servers.free_port()}", **own)
    assert closed.status() == 69, closed.err


def sessions(world, front):
    lock = name()
    run = world.run(front.url, lock, "sleep", "60")
    run.wait_tree(1)
    status, listed = ask(world, front, "sessions")
    rows = [row.split() for row in listed.out.splitlines() if row.endswith(f"/{run.pid}")]
    assert status == 0 and len(rows) == 1 and rows[0][5] == "1", listed.out
    listed = json.loads(ask(world, front, "sessions", "--json")[1].out)
    assert rows[0][0] in [one["session_id"] for one in listed], listed
    run.signal(signal.SIGTERM)
    run.status()


def wait_takes_nothing(world, front):
    lock = name()
    assert ask(world, front, "wait", lock)[0] == 0
    token, grant = lock_it(front, lock, "ttl_ms=60000")
    status, run = ask(world, front, "wait", lock, "--wait", "300ms")
    assert status == 75 and "not free in time" in run.err, run.err
    assert ask(world, front, "wait", "-n", "-E", "3", lock)[0] == 3
    run = world.rlock_does(front.url, "wait", lock)
    time.sleep(0.3)
    assert run.process.poll() is None and not front.has_waiter(lock)
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    assert run.status() == 0 and run.out == "", run.err
    assert front.lock(lock)["fencing_token"] == grant["fencing_token"], "it took the lock"


def why_of_one_lock(world, front):
    lock = name()
    assert ask(world, front, "why", lock)[1].out == f"{lock} is free\n"
    lock_it(front, lock, "ttl_ms=60000", "note=anna")
    status, run = ask(world, front, "why", lock)
    assert status == 0 and f"{lock} is held by anna" in run.out, run.out
    assert "anna has no session" in run.out, run.out
    lock = name()
    held = world.run(front.url, "--note", "ben", lock, "sleep", "60")
    held.wait_tree(1)
    status, run = ask(world, front, "why", lock)
    assert status == 0 and len(run.out.splitlines()) == 2, run.out
    held.signal(signal.SIGTERM)
    held.status()


@contextlib.contextmanager
def stub(answers):
    """A server that knows these paths only."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = answers.get(self.path)
            body = json.dumps(found or {"status": 404, "detail": "no such thing"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Drains(http.server.BaseHTTPRequestHandler):
    """A server that is not ready."""

    def do_GET(self):
        body = json.dumps({"type": "urn:rlockd:problem:draining", "status": 503,
                           "detail": "draining"}).encode()
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def not_ready(world, front):
    """Until --connect-timeout is over; one server of several that is ready is enough."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drains) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        run = world.rlock_does(url, "ready", "--connect-timeout", "0")
        assert run.status() == 69 and "draining" in run.err, run.err
        assert world.rlock_does(f"{url},{front.url}", "ready").status() == 0
        server.shutdown()


def held_by(lock, note, session):
    holder = {"note": note, "session_id": session, "held_ms": 8000}
    return {"lock": lock, "locked": True, "kind": "lock", "holders": [holder]}


def why_follows_the_chain(world, _):
    answers = {"/v1/locks/a": held_by("a", "anna", "s1"),
               "/v1/sessions/s1": {"waits": [{"lock": "b", "waited_ms": 300000}]},
               "/v1/locks/b": held_by("b", "ben", "s2"),
               "/v1/sessions/s2": {"waits": []}}
    with stub(answers) as url:
        run = world.rlock_does(url, "why", "a")
        assert run.status() == 0, run.err
        assert run.out.splitlines() == [
            "a is held by anna, for 8 s", "  anna waits for b, for 5 min",
            "  b is held by ben, for 8 s",
            "    ben waits for no lock that the server tells of"], run.out
        answers["/v1/sessions/s2"] = {"session_id": "s2"}  # of a server of version 0.1
        again = world.rlock_does(url, "why", "a")
        assert again.status() == 0 and again.out == run.out, again.out
        member = {"note": "anna", "lock": "b"}
        answers["/v1/sessions/s2"]["waits"] = [{"lock": "a"}]
        answers["/v1/locks/a"]["deadlock"] = [member, {"note": "ben", "lock": "a"}]
        run = world.rlock_does(url, "why", "a")
        assert run.status() == 0, run.err
        assert run.out.splitlines()[3:] == [
            "    ben waits for a", "    a cycle: each of these waits for the next one",
            "a deadlock, as the server has found:", "  anna waits for b",
            "  ben waits for a"], run.out


def why_follows_a_lock_once(world, _):
    """Each of three readers of a lock waits for the next lock: 3^12 ways to the last one."""
    answers = {}
    for number in range(13):
        readers = [{"note": f"r{number}-{i}", "session_id": f"s{number}-{i}"} for i in range(3)]
        answers[f"/v1/locks/l{number}"] = {"lock": f"l{number}", "locked": True,
                                           "holders": readers}
        for reader in readers:
            answers[f"/v1/sessions/{reader['session_id']}"] = {
                "waits": [{"lock": f"l{number + 1}"}] if number < 12 else []}
    with stub(answers) as url:
        run = world.rlock_does(url, "why", "l0")
        assert run.status() == 0, run.err
        lines = [line.strip() for line in run.out.splitlines()]
        assert [line for line in lines if line.startswith("l12 is held")] == [
            f"l12 is held by r12-{i}" for i in range(3)], lines
        assert lines[-3:] == ["l0 is held by r0-2", "r0-2 waits for l1", "l1: see above"], lines


def open_session(front):
    session = front.ask("POST", "/v1/sessions?ttl_ms=60000")[1]
    return session["session_id"], {"Session_Token": session["session_token"]}


def why_of_sessions_that_wait(world, front):
    """A lease of the first session waits for the lock of the second, then the other way
    round."""
    one, two = name(), name()
    (first, anna), (second, ben) = open_session(front), open_session(front)
    lock_it(front, one, "note=anna", **anna)
    lock_it(front, two, "note=ben", **ben)

    def wait(lock, session_id, headers):
        target = f"/v1/locks/{lock}?wait_ms=20000"
        thread = threading.Thread(daemon=True, target=lambda: front.ask(
            "PUT", target, Lease_Token=str(uuid.uuid4()), **headers))
        thread.start()
        wait_for(lambda: front.ask("GET", f"/v1/sessions/{session_id}")[1]["waits"],
                 "the session waits for long")
        return thread

    waiting = [wait(two, first, anna)]
    lines = ask(world, front, "why", one)[1].out.splitlines()
    assert f"{one} is held by anna" in lines[0] and len(lines) == 4, lines
    assert lines[1].startswith(f"  anna waits for {two}, for "), lines
    assert lines[2].startswith(f"  {two} is held by ben, for "), lines
    assert lines[3] == "    ben waits for no lock that the server tells of", lines
    waiting.append(wait(one, second, ben))
    out = ask(world, front, "why", one)[1].out
    assert f"ben waits for {one}, for " in out and "a cycle: each of these" in out, out
    for session_id, headers in ((first, anna), (second, ben)):
        front.ask("DELETE", f"/v1/sessions/{session_id}", **headers)
    for thread in waiting:
        thread.join()


def force_unlock_frees_the_grant_that_was_shown(world, front):
    lock = name()
    grant = lock_it(front, lock, "ttl_ms=60000")[1]["fencing_token"]
    why = ["--reason", "a test"]
    assert ask(world, front, "force-unlock", lock, *why)[0] == 64  # nobody to ask
    assert ask(world, front, "force-unlock", lock, "--yes")[0] == 64  # no reason
    free = ["force-unlock", *why, "--yes", "--fencing-token"]
    assert ask(world, front, *free, str(grant - 1), lock)[0] == 75
    assert front.holds(lock)
    assert ask(world, front, *free, str(grant), lock)[0] == 0
    assert front.is_free(lock)
    assert "is free" in ask(world, front, "force-unlock", "-y", lock, *why)[1].out


def force_unlock_frees_all_readers(world, front):
    """Each has a grant, and the newest is that of the lock."""
    lock = name()
    tokens = [str(uuid.uuid4()) for _ in range(3)]
    for token in tokens:
        front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000&kind=read", Lease_Token=token)
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=tokens[2])
    assert ask(world, front, "force-unlock", "-y", lock, "--reason", "a test")[0] == 0
    assert front.is_free(lock)
    for token in tokens[:2]:
        status, problem = front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
        assert (status, problem["reason"]) == (410, "forced"), problem


def force_unlock_frees_a_java_client(world, front):
    """Its grant has no number; the newest number is that of a grant before."""
    for kind, fields in (("lock", ()), ("write", ("mode", "write"))):
        lock, holder = name(), str(uuid.uuid4()) + ":7" + (":write" if fields else "")
        token, grant = lock_it(front, lock, f"ttl_ms=60000&kind={kind}")
        front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
        world.redis.command("HSET", lock, *fields, holder, 1)
        world.redis.command("PEXPIRE", lock, 60000)
        free = ["force-unlock", "--reason", "a test", "--yes"]
        before = ["--fencing-token", str(grant["fencing_token"])]
        assert ask(world, front, *free, *before, lock)[0] == 75
        assert front.holds(lock)
        status, run = ask(world, front, *free, lock)
        assert status == 0 and front.is_free(lock), (kind, run.err)


def force_unlock_tells_the_holder_the_reason(world, front):
    for options in ([], ["--at-least", "1s"]):  # by the keep-alive, by a renewal's answer
        lock = name()
        run = world.run(front.url, *options, lock, "sleep", "60")
        run.wait_tree(1)
        assert ask(world, front, "force-unlock", lock, "-y", "--reason", "it hangs")[0] == 0
        assert run.status() == 79 and "forced: it hangs" in run.err, (options, run.err)
    lock = name()
    lock_it(front, lock, "ttl_ms=60000")
    status, run = ask(world, front, "force-unlock", lock, "-y", "--reason", "x" * 257)
    assert status == 64 and front.holds(lock), (status, run.err)


def semaphores(world, front):
    pool = name()

    def does(verb, *arguments, status=0):
        run = world.rlock_does(front.url, "semaphore", verb, pool, *arguments)
        assert run.status() == status, (verb, run.err)
        return run.out

    does("show", status=64)
    assert "available 3" in does("create", "3")
    assert "available 1" in does("acquire", "2")
    does("acquire", "2", "-n", status=75)
    does("acquire", "2", "--wait", "1", status=75)
    waits = world.rlock_does(front.url, "semaphore", "acquire", pool, "2")
    wait_for(lambda: '"waiter_count": 1' in does("show", "--json"), "it waits")
    does("release")
    assert waits.status() == 0, waits.err
    assert "available 0" in does("show")
    does("release", "3")
    assert "permits 3" in does("drain")
    assert "deleted true" in does("delete")
    for wrong in (("create",), ("create", "x"), ("show", "1"), ("count-down",)):
        does(*wrong, status=64)


def repeated_requests_count_once(world, front):
    pool, latch, proxy = name(), name(), world.proxy(front)
    front.ask("PUT", f"/v1/semaphores/{pool}?permits=5")
    front.ask("PUT", f"/v1/latches/{latch}?count=5")
    for thing in (["semaphore", "acquire", pool], ["latch", "count-down", latch]):
        proxy.lose(2, b"POST")
        run = world.rlock_does(proxy.url, *thing)
        assert run.status() == 0 and proxy.lost == 0, run.err
    assert front.ask("GET", f"/v1/semaphores/{pool}")[1]["available"] == 4
    assert front.ask("GET", f"/v1/latches/{latch}")[1]["count"] == 4


def latches_and_permits(world, front):
    latch, permits = name(), name()
    assert ask(world, front, "latch", "create", latch, "1")[0] == 0
    assert ask(world, front, "latch", "wait", latch, "-w", "300ms")[0] == 75
    waits = world.rlock_does(front.url, "latch", "wait", latch)
    path = f"/v1/latches/{latch}"
    wait_for(lambda: front.ask("GET", path)[1]["waiter_count"] == 1, "it waits")
    assert "count 0" in ask(world, front, "latch", "count-down", latch)[1].out
    assert waits.status() == 0, waits.err
    assert "available 2" in ask(world, front, "permits", "create", permits, "2")[1].out
    assert "available 2" in ask(world, front, "permits", "show", permits)[1].out
    assert "deleted true" in ask(world, front, "permits", "delete", permits)[1].out


def rows_of(picture, headline):
    """The rows of this list of rlock top, without its head."""
    rows = picture.split(headline)[1].splitlines()[1:]
    return [row for row in rows if not row.startswith(("HELD", "  WAITED"))]


def top_once(*_):
    """Without a terminal one picture is printed; the longest come first. On a Redis of its own:
    the pictures of the census are late when a front end was killed."""
    with ended(World()) as own:
        check_top(own, own.front())


def check_top(world, front):
    prefix = name() + "-"
    runs = []
    for end, note, count in (("a", "anna", 1), ("b", "b" * 200, 0), ("c", "carl", 2)):
        lock = prefix + end
        lock_it(front, lock, "ttl_ms=60000", "note=" + note)
        runs += [world.run(front.url, lock, "true") for _ in range(count)]
        wait_for(lambda lock=lock, count=count: front.lock(lock)["waiter_count"] == count,
                 "the runs wait")
        time.sleep(0.05)  # so that the times differ

    def take():
        run = world.rlock_does(front.url, "top", prefix)
        assert run.status() == 0, run.err
        return run.out

    def has_all():
        picture = take()
        waited, held = picture.split("HELD, the longest")
        return waited.count(prefix) == 3 and " 2 " in waited and held.count(prefix) == 3

    wait_for(has_all, "the picture has all locks and waiters")
    picture = take()
    waited = rows_of(picture.split("HELD, the longest")[0], "WAITED FOR, ")
    held = rows_of(picture, "HELD, the longest")
    assert prefix in picture.splitlines()[0] and "hand-overs/s" in picture, picture
    assert [row.split()[5] for row in waited] == [prefix + "a", prefix + "c"], picture
    assert [row.split()[2] for row in waited] == ["1", "2"], picture
    assert [row.split()[2] for row in held] == [prefix + end for end in "abc"], picture
    assert max(map(len, picture.splitlines())) <= 80 and "\x1b" not in picture, picture


TESTS = {test.__name__: test for test in (
    show_and_ls, ready, not_ready, sessions, wait_takes_nothing, why_of_one_lock,
    why_follows_the_chain, why_follows_a_lock_once, why_of_sessions_that_wait,
    force_unlock_frees_the_grant_that_was_shown, force_unlock_frees_all_readers,
    force_unlock_frees_a_java_client, force_unlock_tells_the_holder_the_reason,
    semaphores, repeated_requests_count_once, latches_and_permits, top_once)}
