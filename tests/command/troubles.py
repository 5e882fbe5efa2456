"""Servers that refuse for a while, gateways that speak for them, answers that come too late,
faults in the middle of a start."""
import contextlib
import hashlib
import http.server
import json
import os
import signal
import struct
import threading
import time
import uuid
from pathlib import Path

import holding
from looking import lock_it
from world import LONG_S, PATIENCE, name, servers, wait_for

BUSY_S = 0.5 * PATIENCE  # what a busy machine adds to a time


def answer(status, body, *headers):
    text = json.dumps(body)
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}",
            "Content-Type: application/json", *headers]
    return ("\r\n".join(head) + "\r\n\r\n" + text).encode()


TOO_FAST = answer(429, {"type": "urn:rlockd:problem:limit-reached", "status": 429,
                        "detail": "this API token has used up its requests of this second"},
                  "Retry-After: 1")
NOT_EXECUTED = answer(503, {"type": "urn:rlockd:problem:redis-unavailable", "status": 503,
                            "detail": "nothing was changed", "outcome": "not-executed"})
UNKNOWN = answer(503, {"type": "urn:rlockd:problem:redis-unavailable", "status": 503,
                       "detail": "Redis did not answer", "outcome": "unknown"})
NO_ROUTE = answer(404, {"message": "no Route matched with those values"})


@contextlib.contextmanager
def stub(reply):
    """A server whose answers are `reply(method, path)`: (delay in s, body). Yields its URL."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            delay_s, body = reply(self.command, self.path)
            time.sleep(delay_s)
            body = json.dumps(body).encode()
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# ---- refusals that end by themselves

def limited(world, per_second):
    """A front end whose API token may send so many requests a second; the token, its file."""
    tokens, given = (Path(world.folder) / name() for _ in range(2))
    secret = "rlockd-test-" + uuid.uuid4().hex
    given.write_text(secret + "\n", encoding="utf-8")
    digest = hashlib.sha256(secret.encode()).hexdigest()
    tokens.write_text(f"ci sha256:{digest} lock=* max-requests-per-second={per_second}\n",
                      encoding="utf-8")
    return world.front("--api-tokens", str(tokens)), f"Bearer {secret}", str(given)


def a_request_over_the_rate_is_repeated(world, front):
    for asked in ([b"POST /v1/sessions ", b"PUT ", b"DELETE "], [b"PUT ", b"DELETE "]):
        proxy, lock = world.proxy(front), name()
        proxy.instead = [(one, TOO_FAST) for one in asked]
        keeper = [] if len(asked) == 3 else ["--at-least", "1ms"]
        run = world.run(proxy.url, "-n", *keeper, lock, "sh", "-c", "echo ran")
        assert run.status() == 0 and run.out == "ran\n", (asked, run.err)
        assert not proxy.instead, "it was asked"
        assert front.is_free(lock)
    proxy.instead = [(b"PATCH ", TOO_FAST), (b"GET ", TOO_FAST)]
    file = str(Path(world.folder) / name())
    for verb in ("acquire", "renew", "show", "release"):
        filed = [] if verb == "show" else ["--lease-file", file]
        run = world.rlock_does(proxy.url, verb, lock, *filed)
        assert run.status() == 0, (verb, run.err)
    proxy.instead += [(one, TOO_FAST) for one in (b"PUT ", b"POST ", b"GET ")]
    for verb in (["create", lock, "1"], ["count-down", lock], ["wait", lock]):
        run = world.rlock_does(proxy.url, "latch", *verb)
        assert run.status() == 0, (verb, run.err)
    assert not proxy.instead


def an_api_token_with_few_requests(world, front):
    for per_second in (2, 1):
        server, bearer, given = limited(world, per_second)
        given = ["--token-file", given]
        lock = name()
        assert world.run(server.url, *given, "-n", lock, "true").status() == 0
        assert front.is_free(lock)
        token, _ = lock_it(front, lock, "ttl_ms=60000")
        run = world.run(server.url, *given, lock, "true")
        wait_for(lambda lock=lock: front.has_waiter(lock), "the run waits")
        front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
        assert run.status() == 0, run.err
        assert front.is_free(lock)
    over = threading.Event()

    def empty_the_bucket():
        while not over.is_set():
            server.ask("GET", "/v1/locks/x", Authorization=bearer)

    emptied = [threading.Thread(target=empty_the_bucket) for _ in range(2)]
    for one in emptied:
        one.start()
    try:
        # On a machine that is busy enough it may find a gap, and has to use it.
        run = world.run(server.url, *given, "-n", "-q", "-E", "0", lock, "touch", "ran")
        status, ran = run.status(), (run.temporary / "ran").exists()
        assert ran or (status == 69 and "requests of this second" in run.err), (status, run.err)
    finally:
        over.set()
        for one in emptied:
            one.join()


def full_queues_keep_their_meaning(world, _):
    """Too many wait: somebody else has the lock."""
    server = world.front("--max-connections", "16")
    lock = name()
    lock_it(server, lock, "ttl_ms=60000")
    waiters = [world.run(server.url, lock, "true") for _ in range(12)]
    wait_for(lambda: server.lock(lock)["waiter_count"] >= 11, "the front end is full")
    run = world.run(server.url, "-w", "1s", lock, "true")
    assert run.status() == 75, run.err
    for one in waiters:
        one.signal(signal.SIGTERM)
    for one in waiters:
        one.status()


def a_gateways_refusal_is_no_word_of_rlockd(world, front):
    proxy, lock = world.proxy(front), name()
    proxy.instead = [(b"PUT ", NO_ROUTE), (b"DELETE ", NO_ROUTE)]
    run = world.run(proxy.url, "-w", "9s", "-t", f"{2 * PATIENCE}s", lock, "sleep",
                    str(2 * PATIENCE))
    wait_for(lambda: front.holds(lock), "COMMAND runs")
    proxy.instead.append((b"POST ", NO_ROUTE))
    assert run.status() == 0, run.err
    assert not proxy.instead and front.is_free(lock)


def an_answer_without_a_grant_is_none(world, _):
    with stub(lambda *_: (0, {})) as url:
        for keeper in ([], ["--at-least", "1ms"]):
            run = world.run(url, "-w", "1s", *keeper, name(), "touch", "ran")
            assert run.status() == 69 and "not from rlockd" in run.err, run.err
            assert not (run.temporary / "ran").exists(), "COMMAND ran without a lock"


# ---- answers that come too late

def suspended(world, *libraries):
    """The variables of a run whose machine can be suspended, and a function that does so."""
    clock = Path(world.folder) / name()
    clock.write_bytes(struct.pack("=q", 0))

    def suspend():
        with clock.open("r+b") as file:
            file.write(struct.pack("=q", 70000))

    return {"LD_PRELOAD": world.preloaded("suspend", *libraries),
            "RLOCK_TEST_SUSPENDED_MS": str(clock)}, suspend


def a_proof_that_is_out_of_date_starts_nothing(world, front):
    """The machine is suspended after the grant, before the answer to the first keep-alive."""
    variables, suspend = suspended(world)
    if not variables["LD_PRELOAD"]:
        return
    proxy, lock = world.proxy(front), name()
    token, _ = lock_it(front, lock, "ttl_ms=60000")
    run = world.run(proxy.url, "-t", "60s", lock, "touch", "ran", **variables)
    wait_for(lambda: front.has_waiter(lock), "the run waits")
    time.sleep(0.3)  # else no first keep-alive is needed
    proxy.hold(b"POST", "answer")
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    proxy.wait_held()
    suspend()
    proxy.go()
    assert run.status() == 0, run.err
    assert len(proxy.sent("Lease-Token")) == 2, "it has begun anew"


def late_proofs_start_nothing(world, _):
    """Each comes when the lease that it proves has ended."""
    body = {"session_id": "s", "lease_id": "l", "ttl_ms": 1000, "remaining_ms": 1000,
            "fencing_token": 1, "released": 1, "draining": False, "lost": [],
            "leases": [{"lease_id": "l", "state": "held", "remaining_ms": 1000}]}

    def reply(method, path):
        return (0 if method == "DELETE" else 1.1), body

    with stub(reply) as url:
        run = world.run(url, "-n", "-t", "1s", name(), "touch", "ran")
        assert run.status() == 69, run.err
        assert not (run.temporary / "ran").exists(), "COMMAND ran without a lock"


def a_repeated_session_lasts_no_longer(world, _):
    """The answer to the first attempt to open the session was lost, and the repetition finds
    what is left of the session. Its keep-alives fail."""
    def reply(_, path):
        rest_ms = 300 if path == "/v1/sessions" else 30000
        grant = {"lease_id": "l", "ttl_ms": 30000, "remaining_ms": rest_ms, "fencing_token": 1,
                 "released": 1}
        return 0, grant if path.endswith("/keep-alive") else {"session_id": "s", **grant}

    with stub(reply) as url:
        run = world.run(url, "-n", name(), "touch", "ran")
        assert run.status() == 69, run.err
        assert not (run.temporary / "ran").exists(), "COMMAND ran without a session"


def nothing_is_started_after_a_suspend(world, front):
    """In the middle of the start: before the guard is there, before COMMAND is."""
    for fork in (1, 2):
        variables, _ = suspended(world, "faults")
        if not variables["LD_PRELOAD"]:
            return
        lock = name()
        run = world.run(front.url, "-t", "60s", lock, "touch", "ran",
                        RLOCK_TEST_FORK=f"{fork}:suspend", **variables)
        assert run.status() == 79, (fork, run.err)
        assert not (run.temporary / "ran").exists(), (fork, "COMMAND ran without a lock")
        assert front.is_free(lock)


def a_late_answer_proves_no_more(world, _):
    """Answered at once, and late on its way: the answer proves the lease for as long as any."""
    ttl_s, grace_s, last = 6 + 3 * PATIENCE, 2, []
    ttl_ms = int(1000 * ttl_s)
    body = {"session_id": "s", "lease_id": "l", "ttl_ms": ttl_ms, "remaining_ms": ttl_ms,
            "fencing_token": 1, "released": 1, "draining": False, "lost": [],
            "leases": [{"lease_id": "l", "state": "held", "remaining_ms": ttl_ms}]}

    def reply(_, path):
        if not path.endswith("/keep-alive"):
            return 0, body
        last.append(time.monotonic())
        return (ttl_s / 3 if len(last) == 1 else 999), body

    with stub(reply) as url:
        run = world.run(url, "-t", f"{ttl_s}s", "-k", f"{grace_s}s", name(), "sleep", "60")
        assert run.status() == 79, run.err
        took_s = time.monotonic() - last[0]
        assert took_s < ttl_s - grace_s + BUSY_S, f"ended {took_s:.1f} s after the last proof"


def a_stopped_guard_and_no_server(world, _):
    """rlock itself ends COMMAND before the deadline, though it asks for proofs until then. A
    busy machine may be late, but not again and again."""
    left_s, late_s = 3.4, []

    def reply(method, path):
        if method == "PUT":
            granted.append(time.monotonic())
        rest_ms = 25000 if path == "/v1/sessions" else int(1000 * left_s)
        return (999 if path.endswith("/keep-alive") else 0), {
            "session_id": "s", "lease_id": "l", "ttl_ms": 30000, "fencing_token": 1,
            "remaining_ms": rest_ms, "released": 1}

    for _ in range(3):
        granted = []
        with stub(reply) as url:
            run = world.run(url, "-t", "25s", "-k", "1s", name(), "sleep", "60")
            run.wait_tree(1)
            os.kill(run.guard(), signal.SIGSTOP)
            wait_for(lambda: not run.tree(), "COMMAND has ended")
            late_s.append(time.monotonic() - granted[-1] - left_s)
            assert run.status() == 79, run.err
        if late_s[-1] < 0:
            return
    raise AssertionError(f"COMMAND has outlived its lock by {late_s} s")


def a_key_that_was_forgotten_is_not_sent(world, _):
    """The first server has done it, and dies; then the window of the key has passed."""
    short = world.front("--retry-window-ms", "1000")
    for thing in (["semaphore", "acquire"], ["semaphore", "release"], ["latch", "count-down"]):
        variables, suspend = suspended(world)
        if not variables["LD_PRELOAD"]:
            return
        proxy, one = world.proxy(short), name()
        path = f"/v1/{'latches' if thing[0] == 'latch' else 'semaphores'}/{one}"
        short.ask("PUT", f"{path}?{'count' if thing[0] == 'latch' else 'permits'}=5")
        proxy.hold(b"POST", "answer")
        proxy.lose(1, b"POST")
        run = world.rlock_does(f"{proxy.url},{short.url}", *thing, one, "--connect-timeout",
                               "5m", **variables)
        proxy.wait_held()
        done = short.ask("GET", path)[1]
        time.sleep(1.2)
        suspend()
        proxy.go()
        assert run.status() == 69 and "unknown" in run.err, (thing, run.err)
        assert short.ask("GET", path)[1] == done, thing
        (wait,) = proxy.sent("Prefer") or {"wait=0"}
        assert int(wait.removeprefix("wait=")) <= 20, "time is left to repeat it"


def only_what_was_sent_may_be_unknown(world, front):
    """A server that cannot be reached has done nothing, and the key stays good."""
    away, latch, proxy = f"http://127.0.0.1:{servers.free_port()}", name(), world.proxy(front)
    run = world.rlock_does(away, "latch", "count-down", latch, "--connect-timeout", "0")
    assert run.status() == 69 and "no server is available" in run.err, run.err
    front.ask("PUT", f"/v1/latches/{latch}?count=5")
    proxy.lose(1, b"POST")
    run = world.rlock_does(proxy.url, "latch", "count-down", latch, "--connect-timeout", "0")
    assert run.status() == 69 and "unknown" in run.err, run.err
    variables, suspend = suspended(world)
    if not variables["LD_PRELOAD"]:
        return
    late = world.proxy(front)
    late.hold(b"POST", "answer")
    late.instead = [(b"POST ", NOT_EXECUTED), (b"POST ", NOT_EXECUTED)]
    run = world.rlock_does(f"{away},{late.url}", "latch", "count-down", latch,
                           "--connect-timeout", "5m", **variables)
    wait_for(lambda: len(late.heads) == 1, "it was asked")
    suspend()
    late.wait_held()
    late.go()
    assert run.status() == 0, run.err
    assert front.ask("GET", f"/v1/latches/{latch}")[1]["count"] == 3


def force_unlock_of_a_java_client_is_not_repeated_blindly(world, front):
    """Its hold has no number that would keep a repetition from a later one."""
    proxy, lock = world.proxy(front), name()
    first, other = (str(uuid.uuid4()) + ":7" for _ in range(2))

    def java(holder, *fields):
        world.redis.command("HSET", lock, *fields, holder, 1)
        world.redis.command("PEXPIRE", lock, 60000)

    def free():
        return world.rlock_does(proxy.url, "force-unlock", lock, "-y", "--reason", "a test")

    java(first)
    proxy.instead = [(b"POST ", UNKNOWN)]
    run = free()
    assert run.status() == 0 and front.is_free(lock) and not proxy.instead, run.err
    java(first)
    proxy.lose(1, b"POST")
    run = free()
    assert run.status() == 0 and "freed" in run.out and proxy.lost == 0, (run.out, run.err)
    for fields, end in (((), ""), (("mode", "write"), ":write")):
        java(first + end, *fields)
        proxy.hold(b"POST", "answer")
        proxy.lose(1, b"POST")
        run = free()
        proxy.wait_held()
        proxy.held.clear()
        java(other + end, *fields)
        proxy.go()
        assert run.status() == 69 and "unknown" in run.err, (run.out, run.err)
        assert front.lock(lock)["holders"][0]["redisson_holder"].startswith(other), "freed"
        world.redis.command("DEL", lock)


# ---- faults of processes and files

def rlock_is_killed_while_the_guard_starts(world, front):
    variables, _ = suspended(world, "faults")
    if not variables["LD_PRELOAD"]:
        return
    run = world.run(front.url, "-t", "10m", "--at-least", "1ms", name(), "sleep", "600",
                    RLOCK_TEST_FORK="2:kill", **variables)
    assert run.process.wait(LONG_S) == -signal.SIGKILL
    wait_for(lambda: not run.processes(), "nothing is left of the run")


def a_holder_that_dies_is_a_loss(world, front):
    for number in (signal.SIGTERM, signal.SIGSEGV):
        lock = name()
        with holding.sleeper() as process:
            run = holding.hold(world, front, lock, "--pid", str(process.pid))
            holding.held(run, lock)
            os.kill(holding.named(run, "rlock-holder"), number)
            assert holding.got_signal(process), number
            assert run.status() == 128 + number, run.err


def a_signal_reaches_what_command_has_left(world, front):
    lock = name()
    run = world.run(front.url, "--descendants", "wait", lock, "sh", "-c",
                    "setsid sh -c 'trap \": > got; exit\" TERM; : > up; sleep 60 & wait' "
                    "> /dev/null 2>&1 & exit 4")
    wait_for((run.temporary / "up").exists, "the descendant runs")
    wait_for(lambda: sorted(of for _, of in run.processes() if not of.startswith("rlock")) ==
             ["sh", "sleep"], "COMMAND has ended")
    run.signal(signal.SIGTERM)
    assert run.status() == 4, run.err
    assert (run.temporary / "got").exists(), "no signal has come"
    assert front.is_free(lock)


def a_script_without_an_interpreter(world, front):
    """As by execvp(3), and so by flock(1) and timeout(1): it is one of the shell."""
    script = Path(world.folder) / name()
    script.write_text('echo "$@"; exit 3\n', encoding="utf-8")
    script.chmod(0o755)
    run = world.run(front.url, script.name, str(script), "a", "b c")
    assert run.status() == 3 and run.out == "a b c\n", run.err


def a_lease_file_on_nfs(world, front):
    library = world.preloaded("faults")
    if not library:
        return
    lock, file = name(), str(Path(world.folder) / name())
    for verb in ("acquire", "renew", "release"):
        run = world.rlock_does(front.url, verb, lock, "--lease-file", file, LD_PRELOAD=library,
                               RLOCK_TEST_FLOCK="nfs")
        assert run.status() == 0, (verb, run.err)
    assert front.is_free(lock)


TESTS = {"troubles_" + test.__name__: test for test in (
    a_request_over_the_rate_is_repeated, an_api_token_with_few_requests,
    full_queues_keep_their_meaning, a_gateways_refusal_is_no_word_of_rlockd,
    an_answer_without_a_grant_is_none, a_proof_that_is_out_of_date_starts_nothing,
    a_key_that_was_forgotten_is_not_sent, only_what_was_sent_may_be_unknown,
    force_unlock_of_a_java_client_is_not_repeated_blindly,
    late_proofs_start_nothing, a_repeated_session_lasts_no_longer,
    nothing_is_started_after_a_suspend, a_late_answer_proves_no_more,
    a_stopped_guard_and_no_server,
    rlock_is_killed_while_the_guard_starts, a_holder_that_dies_is_a_loss,
    a_signal_reaches_what_command_has_left, a_script_without_an_interpreter,
    a_lease_file_on_nfs)}
