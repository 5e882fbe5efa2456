"""rlock hold: until standard input or a process ends; the process learns of every loss."""
import contextlib
import json
import os
import select
import signal
import subprocess
import uuid

from world import LONG_S, PATIENCE, name, wait_for


def shell(world, front, text, program="sh"):
    """A script with $rlock; its standard output."""
    environment = dict(os.environ, RLOCK_URL=front.url, rlock=world.rlock)
    return subprocess.run([program, "-c", text], env=environment, timeout=LONG_S, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          cwd=world.folder)


@contextlib.contextmanager
def sleeper(seconds="60"):
    """The process of --pid, which writes to its output when TERM comes."""
    script = f"trap 'echo got; exit 9' TERM; echo up; sleep {seconds} & wait"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def got_signal(process):
    """Has the process of --pid had its signal?"""
    ready = select.select([process.stdout], [], [], LONG_S)[0]
    return bool(ready) and process.stdout.readline() == "got\n"


def hold(world, front, *arguments, **variables):
    return world.rlock_does(front.url, "hold", *arguments, **variables)


def held(run, lock):
    """The grant, after which standard output ends."""
    grant = json.loads(run.process.stdout.readline())
    assert run.process.stdout.read() == "", "standard output stays open"
    assert grant["lock"] == lock and grant["fencing_token"] > 0, grant
    assert "lease_token" not in grant, grant


def until_standard_input_ends(world, front):
    lock = name()
    run = hold(world, front, lock, stdin=subprocess.PIPE)
    held(run, lock)
    run.process.stdin.write("not looked at\n")
    run.process.stdin.flush()
    assert front.holds(lock)
    run.process.stdin.close()
    assert run.process.wait(LONG_S) == 0
    assert front.is_free(lock)
    wait_for(lambda: not run.processes(), "nothing is left of rlock")


def until_the_process_ends(world, front):
    lock = name()
    with sleeper() as process:
        run = hold(world, front, lock, "--pid", str(process.pid))
        held(run, lock)
        process.kill()
        assert run.process.wait(LONG_S) == 0
        assert front.is_free(lock)


def terminated_it_releases_and_leaves_the_process_alone(world, front):
    lock = name()
    with sleeper() as process:
        run = hold(world, front, "--pid", str(process.pid), lock)
        held(run, lock)
        run.signal(signal.SIGTERM)
        assert run.process.wait(LONG_S) == 128 + signal.SIGTERM
        assert front.is_free(lock) and process.poll() is None


def two_signals_release_it_and_leave_the_process_alone(world, front):
    lock = name()
    with sleeper() as process:
        run = hold(world, front, "--pid", str(process.pid), lock)
        held(run, lock)
        for number in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
            run.signal(number)
        assert run.process.wait(LONG_S) > 128
        assert front.is_free(lock) and process.poll() is None


def the_process_learns_of_a_loss(world, front):
    lock = name()
    with sleeper() as process:
        run = hold(world, front, lock, "--pid", str(process.pid))
        held(run, lock)
        front.ask("POST", f"/v1/locks/{lock}/force-unlock")
        assert got_signal(process)
        assert run.status() == 79, run.err


def named(run, comm):
    found = [pid for pid, known in run.processes() if known == comm]
    return found[0] if found else None


def the_process_learns_of_any_single_fault(world, front):
    for victim in ("rlock", "rlock-guard", "rlock-holder"):
        lock = name()
        with sleeper() as process:
            run = hold(world, front, "-t", f"{2 + PATIENCE}s", "-k", "1s", lock, "--pid",
                       str(process.pid))
            held(run, lock)
            os.kill(named(run, victim), signal.SIGKILL)
            assert got_signal(process), (victim, run.processes())
            wait_for(lambda lock=lock: front.is_free(lock), "the lock is free")
            wait_for(lambda run=run: not run.processes(), "nothing is left of rlock")


def a_blocked_signal_hides_no_loss(world, front):
    """The guard tells its child of a loss by SIGRTMIN, which rlock may inherit blocked."""
    for is_killed in (False, True):
        lock = name()
        with sleeper() as process:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
            run = hold(world, front, "-k", "1s", lock, "--pid", str(process.pid))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGRTMIN})
            held(run, lock)
            if is_killed:  # then only the guard and the child are left
                run.signal(signal.SIGKILL)
            else:
                front.ask("POST", f"/v1/locks/{lock}/force-unlock")
            assert got_signal(process), f"rlock was killed: {is_killed}"


def a_stopped_rlock_is_a_loss(world, front):
    lock = name()
    with sleeper() as process:
        run = hold(world, front, "-t", f"{3 * PATIENCE}s", "-k", f"{PATIENCE}s", lock, "--pid",
                   str(process.pid))
        held(run, lock)
        run.signal(signal.SIGSTOP)
        assert got_signal(process)
        assert front.holds(lock), "told too late"
        run.signal(signal.SIGCONT)
        assert run.status() == 79, run.err


def a_wait_ends_with_the_process(world, front):
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000", Lease_Token=token)
    with sleeper() as process:
        run = hold(world, front, lock, "--pid", str(process.pid))
        wait_for(lambda: front.has_waiter(lock), "it waits")
        process.kill()
        assert run.status() == 75, run.err
        assert run.out == "" and not front.has_waiter(lock)
    run = hold(world, front, lock, stdin=subprocess.PIPE)
    wait_for(lambda: front.has_waiter(lock), "it waits")
    run.process.stdin.close()
    run.process.stdin = None
    assert run.status() == 75, run.err


def usage(world, front):
    for arguments in ([name()], [name(), "--pid", "0"], [name(), "--pid", "2147483647"],
                      [name(), "--pid", "1", "--ready-fd", "77"]):
        run = hold(world, front, *arguments)
        assert run.status() == 64, (arguments, run.err)
        assert run.err.startswith("rlock: "), run.err


def in_a_shell(world, front):
    lock = name()
    done = shell(world, front, f'''
        grant=$($rlock hold {lock} --pid $$ &)
        [ -n "$grant" ] || exit 1
        $rlock show {lock}
        $rlock hold -n {lock} --pid $$ > {lock} || echo refused $?
        cat {lock}''')
    assert done.stdout.split()[-2:] == ["refused", "75"], done
    assert " hold" in done.stdout, done.stdout
    wait_for(lambda: front.is_free(lock), "the lock is free after the shell")


def the_reader_of_a_descriptor_sees_its_end(world, front):
    done = shell(world, front, f'''
        grant=$($rlock hold {name()} --pid $$ --ready-fd 3 3>&1 > /dev/null 2>&1 &)
        echo "$grant"''')
    assert json.loads(done.stdout)["fencing_token"] > 0, done


def with_a_coprocess_of_bash(world, front):
    lock = name()
    script = f'''
        coproc $rlock hold {lock} --pid $$ -n
        read -r grant <&"${{COPROC[0]}}" || exit 75
        $rlock run -n {lock} true || echo refused $?
        exec {{COPROC[1]}}>&-
        $rlock run -w 10 {lock} echo free
        echo "$grant"'''
    done = shell(world, front, script, "bash")
    *words, grant = done.stdout.split("\n")[:-1]
    assert words == ["refused 75", "free"], done
    assert json.loads(grant)["fencing_token"] > 0, done
    token = str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000", Lease_Token=token)
    assert shell(world, front, script, "bash").returncode == 75


TESTS = {"hold_" + test.__name__: test for test in (
    until_standard_input_ends, until_the_process_ends,
    terminated_it_releases_and_leaves_the_process_alone,
    two_signals_release_it_and_leave_the_process_alone, the_process_learns_of_a_loss,
    the_process_learns_of_any_single_fault, a_blocked_signal_hides_no_loss,
    a_stopped_rlock_is_a_loss,
    a_wait_ends_with_the_process, usage, in_a_shell, the_reader_of_a_descriptor_sees_its_end,
    with_a_coprocess_of_bash)}
