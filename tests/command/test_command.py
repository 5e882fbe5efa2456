#!/usr/bin/env python3
"""rlock with real servers and real processes. The short form is a part of `make test`; with
COMMAND_FULL=1 (`make test-command`) every event meets every shape of tree at every step."""
import contextlib
import functools
import hashlib
import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import cancelled
import encrypted
import filed
import holding
import looking
import managed
import matrix
import sending
import terminal
import troubles
from runner import run_all
from world import LONG_S, PATIENCE, World, ended, name, wait_for

world = World()
front = world.front()


def finish(*arguments, **variables):
    run = world.run(front.url, *arguments, **variables)
    return run.status(), run


def expect(wanted, *arguments, **variables):
    status, run = finish(*arguments, **variables)
    assert status == wanted, f"{arguments}: {status}, not {wanted}: {run.err!r}"
    return run


# ---- exit statuses

def commands_own_status():
    for status in (0, 1, 3, 75, 79, 255):
        run = expect(status, name(), "sh", "-c", f"exit {status}")
        assert run.err == "", run.err
    expect(128 + 9, name(), "sh", "-c", "kill -9 $$")


def command_not_found_takes_no_lock():
    lock = name()
    assert "command not found" in expect(127, lock, "no-such-command").err
    expect(127, lock, "./no-such-file")
    expect(126, lock, "/etc/passwd")
    expect(126, lock, "/")
    assert "fencing_token" not in front.lock(lock), "the lock was taken"


def usage():
    for arguments in ([], ["x"], ["--wait", "soon", "x", "true"], ["-E", "256", "x", "true"],
                      ["--nothing", "x", "true"], ["-t", "4s", "-k", "4s", "x", "true"],
                      ["-t", "999ms", "x", "true"], ["--kind", "odd", "x", "true"],
                      ["--signal", "NONE", "x", "true"], ["--url", "ftp://x", "x", "true"],
                      ["--permit", "--also", "y", "x", "true"], ["", "true"],
                      ["-w", "1e3", "x", "true"], ["-w", "0x10", "x", "true"]):
        run = expect(64, *arguments)
        assert run.err.startswith("rlock: "), run.err
    for arguments, message in ((["-nX", "x"], "-X is not an option"),
                               (["--wiat", "5", "x"], "--wiat is not an option"),
                               (["-w"], "-w needs an argument"),
                               (["--fair=3", "x"], "--fair=3 takes no argument")):
        run = expect(64, *arguments)
        assert f"{message}; see rlock run --help" in run.err, run.err
    run = world.rlock_does(front.url, "deploy", "./deploy.sh")
    assert run.status() == 64 and "rlock run deploy ./deploy.sh" in run.err, run.err


def nested_run_of_a_held_name():
    lock, rlock = name(), world.rlock
    run = expect(64, lock, rlock, "run", lock, "true")
    assert "wait for itself" in run.err, run.err
    inner = expect(0, lock, rlock, "run", "--also", name(), name(), "sh", "-c",
                   'test "$(echo "$RLOCK_HELD" | wc -l)" = 3')
    assert inner.err == "", inner.err


def options_end_at_the_name():
    run = expect(0, name(), "echo", "-n", "--wait", "x")
    assert run.out == "--wait x", run.out
    assert expect(0, name(), "--", "echo", "a").out == "a\n"
    assert expect(0, "-c", 'echo "$0"', name(), "b").out == "b\n"
    assert "options come before NAME" in expect(127, name(), "--wait", "1", "true").err


def help_comes_among_options():
    assert "usage: rlock run" in expect(0, "-n", "--wait", "5s", "--help").out
    assert expect(0, name(), "printf", "%s", "--help").out == "--help"
    run = world.rlock_does(front.url, "show", name(), "--json", "-h")
    assert run.status() == 0 and "usage: rlock show" in run.out, run.err


def busy():
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000&note=anna", Lease_Token=token)
    run = expect(75, "-n", lock, "true")
    assert "not acquired in time" in run.err and "anna" in run.err, run.err
    assert expect(0, "-n", "-q", "-E", "0", lock, "false").err == ""
    pid = expect(75, "-w", "300ms", lock, "true").pid
    left = [one["name"] for one in front.ask("GET", "/v1/sessions")[1]["sessions"]
            if one["name"].endswith(f"/{pid}")]
    assert not left, "a session was left behind"


def no_server():
    url = "http://127.0.0.1:1"
    for wait in (["-n"], ["-w", "300ms"], ["--connect-timeout", "300ms"]):
        run = expect(69, *wait, "--url", url, name(), "true")
        assert "no server is available" in run.err, run.err
    assert "Connection refused" in run.err and "RLOCK_URL is not set" not in run.err, run.err
    expect(69, name(), "true", RLOCK_URL=url, RLOCK_CONNECT_TIMEOUT="300ms")
    expect(0, "--url", f"{url},{front.url}", name(), "true")


def a_server_in_trouble():
    """A server that answers 503 can be reached: a wait without an end goes on, and each trouble
    is told once."""
    with ended(World()) as own:
        troubled, lock = own.front(), name()
        own.redis.stop()
        run = own.run(troubled.url, "-n", lock, "true")
        assert run.status() == 69 and "nothing was changed" in run.err, run.err
        waits = own.run(troubled.url, "-v", "--connect-timeout", "300ms", lock, "true")
        time.sleep(2)
        assert waits.process.poll() is None, "it did not wait"
        own.redis.start()
        assert waits.status() == 0, waits.err
        lines = waits.err.splitlines()
        assert len(lines) == len(set(lines)) >= 2, lines


def refused():
    file = Path(world.folder) / "tokens"
    secret = "rlockd-test-" + uuid.uuid4().hex
    digest = hashlib.sha256(secret.encode()).hexdigest()
    file.write_text(f"ci sha256:{digest} lock=deploy/\n", encoding="utf-8")
    given = Path(world.folder) / "token"
    given.write_text(secret + "\n", encoding="utf-8")
    guarded = world.front("--api-tokens", str(file))
    run = world.run(guarded.url, "-n", "deploy/1", "true")
    assert run.status() == 77 and "RLOCK_TOKEN_FILE" in run.err, run.err
    given, lock = ["--token-file", str(given)], "deploy/" + name()
    assert world.run(guarded.url, *given, "-n", "x", "true").status() == 77
    run = world.run(guarded.url, *given, "-n", lock, "sh", "-c", "env")
    assert run.status() == 0, run.err
    assert secret not in run.out, "COMMAND sees the API token"


def an_exchanged_api_token():
    """During the run the file gets another one, and the server forgets the first."""
    tokens, given, lock = (Path(world.folder) / name() for _ in range(3))
    secrets = ["rlockd-test-" + uuid.uuid4().hex for _ in range(2)]

    def give(secret):
        given.write_text(secret + "\n", encoding="utf-8")
        digest = hashlib.sha256(secret.encode()).hexdigest()
        tokens.write_text(f"ci sha256:{digest} lock=*\n", encoding="utf-8")

    give(secrets[0])
    guarded = world.front("--api-tokens", str(tokens))
    script = "until rm end 2> /dev/null; do sleep 0.1; done"
    run = world.run(guarded.url, "--token-file", str(given), "-t", f"{2 * PATIENCE}s",
                    lock.name, "sh", "-c", script)
    run.wait_tree(1)
    give(secrets[1])
    guarded.process.send_signal(signal.SIGHUP)
    time.sleep(2 * PATIENCE + 1)
    (run.temporary / "end").touch()
    assert run.status() == 0, run.err


def an_ignored_signal_stays_ignored():
    """As nohup(1) has it."""
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000", Lease_Token=token)
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", world.rlock, "run", lock, "true"],
        env=dict(os.environ, RLOCK_URL=front.url), start_new_session=True)
    wait_for(lambda: front.has_waiter(lock), "the run waits")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    assert process.wait(LONG_S) == 0


def a_process_whose_main_thread_has_ended():
    """It is a zombie in /proc, and works on."""
    script = ("import ctypes, threading, time\n"
              "threading.Thread(target=time.sleep, args=(60,)).start()\n"
              "ctypes.CDLL(None).pthread_exit(None)\n")
    expect(124, "-T", "1s", "-k", "200ms", name(), "python3", "-c", script)


def a_server_with_short_waits():
    short = world.front("--max-wait-ms", "1000")
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000", Lease_Token=token)
    run = world.run(short.url, lock, "true")
    wait_for(lambda: front.has_waiter(lock), "the run waits")
    front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
    assert run.status() == 0, run.err


def a_fast_watchdog_needs_renewals():
    """On a Redis of its own, for its watchdog shortens the leases of other front ends."""
    timeout_s = 6 + 2 * PATIENCE
    with ended(World()) as own:
        fast = own.front("--watchdog-timeout-ms", f"{1000 * timeout_s:.0f}")
        run = own.run(fast.url, "-t", f"{timeout_s + 6}s", "-k", "3s", name(), "sleep",
                      str(timeout_s + 1))
        assert run.status() == 0, run.err


def max_time():
    run = expect(124, "-T", "300ms", name(), "sleep", "60")
    assert "--max-time" in run.err, run.err
    run = expect(124, "-T", "300ms", "-k", "300ms", name(), "sh", "-c",
                 "trap '' TERM; while :; do sleep 1; done")
    assert not run.tree()


# ---- what COMMAND gets

def environment_and_descriptors():
    lock = name()
    run = expect(0, "--fair", lock, "sh", "-c", "env; ls /proc/self/fd | wc -l")
    got = dict(line.split("=", 1) for line in run.out.splitlines() if "=" in line)
    assert got["RLOCK_NAME"] == lock and got["RLOCK_KIND"] == "fair", got
    assert got["RLOCK_HELD"] == lock, got
    assert int(got["RLOCK_FENCING_TOKEN"]) == front.lock(lock)["fencing_token"], got
    uuid.UUID(got["RLOCK_LEASE_ID"])
    assert run.out.splitlines()[-1] == "4", run.out  # 0, 1, 2 and that of ls itself


def several_locks():
    a, b = name(), name()
    run = expect(0, "--also", b, a, "sh", "-c", 'echo "$RLOCK_FENCING_TOKENS"')
    tokens = json.loads(run.out)
    assert sorted(tokens) == sorted([a, b]), tokens
    assert front.is_free(a) and front.is_free(b)


def permit():
    lock = name()
    front.ask("PUT", f"/v1/permit-semaphores/{lock}?permits=1")
    run = world.run(front.url, "--permit", lock, "sh", "-c", "sleep 60")
    run.wait_tree(1)
    expect(75, "--permit", "-n", lock, "true")
    run.signal(signal.SIGINT)
    assert run.status() == 128 + 2
    expect(0, "--permit", "-n", lock, "sh", "-c", 'test -z "$RLOCK_FENCING_TOKEN"')


def readers_share():
    lock = name()
    run = world.run(front.url, "-s", lock, "sleep", "60")
    run.wait_tree(1)
    expect(0, "-s", "-n", lock, "true")
    expect(75, "-n", "--kind", "write", lock, "true")
    run.signal(signal.SIGTERM)
    run.status()


def closed_standard_streams():
    script = '"$@" <&- >&- 2>&-'
    run = subprocess.run(["sh", "-c", script, "sh", world.rlock, "run", "--url", front.url,
                          name(), "sh", "-c", "exit 3"], check=False, timeout=20)
    assert run.returncode == 3, run.returncode


def a_waiting_run_costs_little():
    case = matrix.Case(world, step="wait")
    if "libasan" not in Path(f"/proc/{case.run.pid}/maps").read_text(encoding="utf-8"):
        rows = Path(f"/proc/{case.run.pid}/smaps_rollup").read_text(encoding="utf-8")
        private = sum(int(row.split()[1]) for row in rows.splitlines()
                      if row.startswith("Private_"))
        assert private <= 3072, f"{private} KiB of private memory"
    case.run.signal(signal.SIGTERM)
    case.check_status(128 + 15)
    case.unblock()


def standard_streams_are_commands_own():
    """A reader sees the end when COMMAND closes its output, though rlock and the guard live."""
    run = world.run(front.url, name(), "sh", "-c", "echo out; exec >&-; sleep 60")
    assert run.process.stdout.read() == "out\n"
    assert run.process.poll() is None
    run.signal(signal.SIGTERM)
    run.process.wait(20)


# ---- signals

def signals_are_handed_on():
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        run = world.run(front.url, name(), "sh", "-c",
                        f"trap 'exit 7' {number.name[3:]}; sleep 60 & wait")
        run.wait_tree(2)
        run.signal(number)
        assert run.status() == 7, (number, run.err)


def one_signal_may_be_ignored():
    run = world.run(front.url, name(), "sh", "-c", "trap 'touch got; sleep 1; exit 5' TERM; "
                    "sleep 60 & wait")
    run.wait_tree(2)
    run.signal(signal.SIGTERM)
    wait_for((run.temporary / "got").exists, "COMMAND has TERM")
    assert run.status() == 5, run.err


def the_first_process_of_a_container():
    """It hands signals on and waits for orphans, as tini would."""
    new = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*new, "true"], check=False, capture_output=True).returncode != 0:
        return  # not allowed here
    lock = name()
    script = "trap 'exit 7' TERM; (setsid sh -c 'sleep 0.1 & sleep 0.2' &); sleep 60 & wait"
    run = subprocess.Popen([*new, world.rlock, "run", "--url", front.url, lock, "sh", "-c",
                            script], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: front.holds(lock), "COMMAND runs")
        first = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0]

        def processes(pid):
            """State and arguments of each, unless one has ended meanwhile."""
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return [(state, arguments[:2]),
                    *(one for child in children for one in processes(child))]

        def has_no_orphans():
            with contextlib.suppress(OSError):
                found = processes(first)
                sleeps = [arguments for _, arguments in found if arguments[0] == b"sleep"]
                return sleeps == [[b"sleep", b"60"]] and not any(
                    state == "Z" for state, _ in found)
            return False
        wait_for(has_no_orphans, "the orphans have ended, and nothing is left of them")
        os.kill(int(first), signal.SIGTERM)
        assert run.wait(LONG_S) == 7, run.stderr.read()
        assert front.is_free(lock)
    finally:
        run.kill()
        run.wait()
        run.stderr.close()


# ---- descendants and times

def descendants():
    script = "setsid sleep 60 & exit 4"
    run = expect(4, name(), "sh", "-c", script)
    assert not run.tree(), "what COMMAND left behind lives"
    lock = name()
    run = world.run(front.url, "--descendants", "wait", lock, "sh", "-c",
                    "setsid sh -c 'sleep 1; touch done' & exit 4")
    assert run.status() == 4, run.err
    assert (run.temporary / "done").exists()
    run = world.run(front.url, "--descendants", "leave", lock, "sh", "-c",
                    "setsid sleep 60 >&- 2>&- & exit 4")
    assert run.status() == 4, run.err
    wait_for(lambda: len(run.tree()) == 1, "setsid runs sleep")
    assert front.is_free(lock)
    run.clean()


def at_least():
    lock, least_s = name(), 2 + PATIENCE
    run = expect(0, "--at-least", f"{least_s}s", lock, "true")
    expect(75, "-n", lock, "true")
    assert front.holds(lock), "the lock is free before its time"
    assert front.lock(lock)["remaining_ms"] <= 1000 * least_s
    expect(0, lock, "true")
    assert time.monotonic() - run.started >= least_s, "granted before its time"


def long_grace_is_renewed():
    """The watchdog leaves a lease no less than 18 s: too little for a grace of 20 s."""
    lock = name()
    run = world.run(front.url, "-t", "60s", "-k", "20s", lock, "sleep", "60")
    run.wait_tree(1)
    first = front.lock(lock)["remaining_ms"]
    wait_for(lambda: front.lock(lock)["remaining_ms"] > first, "a renewal")
    front.ask("POST", f"/v1/locks/{lock}/force-unlock")
    assert run.status() == 79, run.err


# ---- lost answers, servers that come and go

def lost_answers():
    for method in (b"POST", b"PUT", b"DELETE"):
        proxy, lock = world.proxy(front), name()
        proxy.lose(2, method)
        run = world.run(proxy.url, "-v", lock, "sh", "-c", "echo $RLOCK_FENCING_TOKEN")
        assert run.status() == 0, (method, run.err)
        assert proxy.lost == 0, "no answer was lost"
        assert front.is_free(lock), method
        assert int(run.out) == front.lock(lock)["fencing_token"], "granted twice"


def loss_is_told_though_command_succeeds():
    """The lock is forced away in the last moment: rlock hears of it at the release."""
    lock = name()
    run = world.run(front.url, lock, "sh", "-c", f"trap '' TERM; touch up; while [ -e up ]; do "
                    f"sleep 0.05; done; exit 0")
    wait_for((run.temporary / "up").exists, "COMMAND runs")
    run.signal(signal.SIGSTOP)
    front.ask("POST", f"/v1/locks/{lock}/force-unlock")
    (run.temporary / "up").unlink()
    wait_for(lambda: not run.tree(), "COMMAND has ended")
    run.signal(signal.SIGCONT)
    assert run.status() == 79, run.err
    assert "lost" in run.err, run.err


# ---- built from the table

def help_man_and_completions():
    def printed(*arguments):
        return subprocess.run([world.rlock, *arguments], capture_output=True, text=True,
                              check=True, timeout=20).stdout

    options = [word for word in printed("run", "--help").split() if word.startswith("--")]
    assert "--at-least" in options
    man = printed("--print-man").replace("\\-", "-")
    for shell in ("bash", "zsh", "fish"):
        text = printed("--print-completion", shell)
        for option in options:
            assert option.strip(",;.").lstrip("-") in text, (shell, option)
    for option in options:
        assert option.strip(",;.").lstrip("-") in man, option
    assert printed("--version").startswith("rlock ")
    server = [subprocess.run([world.rlockd, flag], capture_output=True, text=True, check=True,
                             timeout=20).stdout for flag in ("--help", "--print-man")]
    page = server[1].replace("\\-", "-")
    for flag in (row.split()[0] for row in server[0].splitlines() if row.startswith("  --")):
        assert flag.lstrip("-") in page, flag
    done = subprocess.run(
        ["bash", "-c", 'eval "$("$1" --print-completion bash)"; '
         'COMP_WORDS=(rlock run --at); COMP_CWORD=2; _rlock rlock --at run; '
         'echo "${COMPREPLY[@]}"', "bash", world.rlock],
        capture_output=True, text=True, check=True, timeout=20).stdout
    assert done.split() == ["--at-least"], done


TESTS = [commands_own_status, command_not_found_takes_no_lock, usage, nested_run_of_a_held_name,
         options_end_at_the_name, help_comes_among_options, busy, no_server,
         a_server_in_trouble, refused, an_exchanged_api_token, max_time,
         an_ignored_signal_stays_ignored, a_process_whose_main_thread_has_ended,
         a_server_with_short_waits,
         a_fast_watchdog_needs_renewals, environment_and_descriptors, several_locks, permit,
         readers_share, standard_streams_are_commands_own,
         closed_standard_streams, signals_are_handed_on, a_waiting_run_costs_little,
         the_first_process_of_a_container, one_signal_may_be_ignored,
         descendants, at_least, long_grace_is_renewed, lost_answers,
         loss_is_told_though_command_succeeds, help_man_and_completions]

chosen = {test.__name__: test for test in TESTS}
for part in (cancelled, encrypted, filed, holding, looking, managed, sending, terminal,
             troubles):
    chosen.update((title, functools.partial(test, world, front))
                  for title, test in part.TESTS.items())
library = world.preloaded("suspend")
if os.environ.get("COMMAND_FULL"):
    of_matrix = matrix.cells(world, [*matrix.SHAPES, "hold"], library) | filed.cells(world)
else:
    of_matrix = matrix.cells(world, ["double-fork"], library)
chosen.update(of_matrix)
try:
    run_all(chosen)
finally:
    world.close()
    print(f"{len(of_matrix)} cells; from the event to the end of the last process, at most:")
    for (event, step), seconds in sorted(matrix.longest_s.items()):
        print(f"  {event:16} {step:8} {seconds:.1f} s")
