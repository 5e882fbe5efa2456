"""rlock on a pseudo-terminal, below a shell with job control: Ctrl-C, Ctrl-Z and fg, the status
line."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
import uuid
from pathlib import Path

from world import PATIENCE, World, ended, name, wait_for


SHELL = ("bash", "--norc", "--noprofile", "-i")


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, world, url, columns, shell):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = dict(os.environ, RLOCK_URL=url, PS1="ready> ", TERM="xterm",
                               rlock=world.rlock, HISTFILE="")
            os.execvpe(shell[0], shell, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        if shell == SHELL:
            self.expect(b"ready> ")

    def read(self):
        with contextlib.suppress(OSError):
            if select.select([self.fd], [], [], 0.05)[0]:
                self.seen += os.read(self.fd, 65536)

    def expect(self, text):
        """Waits for the text, and forgets everything up to its end."""
        def found():
            self.read()
            return text in self.seen
        try:
            wait_for(found, text)
        except TimeoutError:
            raise AssertionError(f"no {text!r} in {self.seen!r}") from None
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text):
        os.write(self.fd, text)

    def close(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)


@contextlib.contextmanager
def terminal(world, front, columns=200, shell=SHELL):
    opened = Terminal(world, front.url, columns, shell)
    try:
        yield opened
    finally:
        opened.close()


def ctrl_c_reaches_command_once(world, front):
    lock = name()
    script = ("trap \"echo g\"\"ot; n=x\" INT; echo u\"\"p; "
              "while [ -z $n ]; do sleep 0.1; done; exit 4")
    with terminal(world, front) as tty:
        tty.type(f"$rlock run {lock} sh -c '{script}'; echo status=$?\n".encode())
        tty.expect(b"\rup")
        tty.type(b"\x03")
        tty.expect(b"got")
        assert b"got" not in tty.expect(b"status=4")
        assert front.is_free(lock)


def ctrl_c_reaches_a_script_around_rlock(world, front):
    script = Path(world.folder) / name()
    script.write_text(f'{world.rlock} run {script.name} sh -c "echo up; exec sleep 60"\n'
                      "echo after\n", encoding="utf-8")
    with terminal(world, front) as tty:
        tty.type(f"sh {script}\n".encode())
        tty.expect(b"up\r\n")
        tty.type(b"\x03")
        assert b"after" not in tty.expect(b"ready> ")


def ctrl_z_stops_and_fg_goes_on(world, front):
    lock = name()
    with terminal(world, front) as tty:
        tty.type(f"$rlock run {lock} sh -c 'echo u\"\"p; read x; echo x=$x; exit 3'; "
                 f"echo status=$?\n".encode())
        tty.expect(b"up")
        tty.type(b"\x1a")
        tty.expect(b"Stopped")
        tty.expect(b"ready> ")
        tty.type(b"echo he''re\n")
        tty.expect(b"\rhere")
        assert front.holds(lock), "the lock was given up"
        tty.type(b"fg; echo status=$?\n")
        tty.expect(lock.encode())
        tty.type(b"word\n")
        tty.expect(b"x=word")
        tty.expect(b"status=3")
        assert front.is_free(lock)


def a_run_in_the_background_leaves_the_terminal(world, front):
    """It was stopped while it waited, and sent to the background."""
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000", Lease_Token=token)
    with terminal(world, front) as tty:
        tty.type(f"$rlock run {lock} sh -c 'echo u\"\"p; sleep 60'\n".encode())
        wait_for(lambda: front.has_waiter(lock), "the run waits")
        tty.type(b"\x1a")
        tty.expect(b"Stopped")
        tty.expect(b"ready> ")
        tty.type(b"bg\n")
        tty.expect(b"ready> ")
        front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
        tty.expect(b"up\r\n")
        tty.type(b"echo he''re\n")
        tty.expect(b"\rhere")
        tty.type(b"kill %1\n")
        wait_for(lambda: front.is_free(lock), "the run has ended")


def ctrl_z_without_job_control_does_nothing(world, front):
    """As of `ssh -t`: nobody would continue rlock."""
    script = (f"$rlock run {name()} sh -c 'echo u\"\"p; read x; echo x=$x; exit 3'; "
              "echo status=$?")
    with terminal(world, front, shell=("sh", "-c", script)) as tty:
        tty.expect(b"up")
        tty.type(b"\x1a")
        time.sleep(0.3)
        tty.type(b"word\n")
        tty.expect(b"x=word")
        tty.expect(b"status=3")


def stopped_for_too_long_is_lost(world, front):
    lock = name()
    with terminal(world, front) as tty:
        command = f"$rlock run -t {1 + PATIENCE}s -k 300ms {lock} sh -c 'echo u\"\"p; read x'\n"
        tty.type(command.encode())
        tty.expect(b"up")
        tty.type(b"\x1a")
        tty.expect(b"Stopped")
        wait_for(lambda: front.is_free(lock), "the session has ended")
        tty.type(b"fg; echo status=$?\n")
        tty.expect(b"before COMMAND had ended")  # by the guard's word, or the server's
        tty.expect(b"status=79")


def pipeline_keeps_the_terminal(world, front):
    """A pager behind the run reads from the terminal, and COMMAND may ask for a password."""
    lock = name()
    with terminal(world, front) as tty:
        tty.type(f"$rlock run {lock} sh -c 'read x < /dev/tty; echo x=$x' | cat; "
                 f"echo status=$?\n".encode())
        wait_for(lambda: front.holds(lock), "COMMAND runs")
        time.sleep(0.3)  # for COMMAND to stop at its read
        tty.type(b"word\n")
        tty.expect(b"x=word")
        tty.expect(b"status=0")


def status_line_tells_the_holder(world, front):
    lock, token = name(), str(uuid.uuid4())
    front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000&note=anna", Lease_Token=token)
    with terminal(world, front) as tty:
        tty.type(f"$rlock run {lock} echo ran; echo status=$?\n".encode())
        line = tty.expect(b", lease until ")
        assert b"(0 in front): held by anna since " in line, line
        front.ask("DELETE", f"/v1/locks/{lock}", Lease_Token=token)
        cleared = tty.expect(b"ran")
        assert b"\r\x1b[K" in cleared, cleared
        tty.expect(b"status=0")


def top_ends_cleanly(*_):
    """On a Redis of its own: the census is late when a front end was killed."""
    lock, token = name(), str(uuid.uuid4())
    with ended(World()) as own:
        front = own.front()
        front.ask("PUT", f"/v1/locks/{lock}?ttl_ms=60000&note=anna", Lease_Token=token)
        own.run(front.url, lock, "true")
        path = f"/v1/locks?order=waited&prefix={lock}"
        wait_for(lambda: front.ask("GET", path)[1].get("locks"), "the server lists the wait")
        with terminal(own, front, 80) as tty:
            tty.type(f"$rlock top --every 300ms {lock}; echo status=$?\n".encode())
            tty.expect(b"\x1b[2J")
            picture = tty.expect(b"\x1b[J") + tty.expect(b"\x1b[J")
            assert lock.encode() in picture and b"anna" in picture, picture
            tty.type(b"\x03")
            tty.expect(b"status=0")


TESTS = {test.__name__: test for test in (
    ctrl_c_reaches_command_once, ctrl_c_reaches_a_script_around_rlock,
    ctrl_z_stops_and_fg_goes_on, ctrl_z_without_job_control_does_nothing,
    a_run_in_the_background_leaves_the_terminal, stopped_for_too_long_is_lost,
    pipeline_keeps_the_terminal, status_line_tells_the_holder, top_ends_cleanly)}
