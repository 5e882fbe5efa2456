"""A cgroup that gives a server so much of a core and no more, where the machine permits one."""
import contextlib
import os
import time
from pathlib import Path

PERIOD_US = 10000
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def own_group(controller):
    """The path of this process' group in the hierarchy of `controller`; "": version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    raise OSError(f"no cgroup of {controller or 'version 2'}")


def parent_group():
    """Where a group may be made, and whether it is one of version 1."""
    if (V1 / "cpu.cfs_quota_us").exists():
        return V1 / own_group("cpu"), True
    return V2 / own_group(""), False


@contextlib.contextmanager
def quota(pid, percent):
    """While it lasts, the process gets `percent` of a core. OSError: not permitted."""
    parent, is_v1 = parent_group()
    group = parent / f"rlockd-bench-{os.getpid()}-{pid}"
    group.mkdir()
    try:
        most_us = PERIOD_US * percent // 100
        if is_v1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(most_us))
        else:
            (group / "cpu.max").write_text(f"{most_us} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        remove(group, parent)


def remove(group, parent):
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (parent / "cgroup.procs").write_text(pid)
    for _ in range(50):  # a process that has just ended still counts for a moment
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.02)
