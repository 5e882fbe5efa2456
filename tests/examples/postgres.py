"""A private PostgreSQL: a cluster of its own in a folder of its own, on a unix socket alone."""
import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path


def programs():
    """The newest ones; Debian has them outside of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"),
                     key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else Path("")


class Postgres:
    """Runs as the user postgres where this is root, for root may not run it. `environment` is
    that of its clients."""

    def __init__(self, place):
        self.place, self.bin = place, programs()
        self.folder = Path(tempfile.mkdtemp(prefix="rlockd-postgres-"))
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self.wrap = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}",
                     "--clear-groups"] if os.getuid() == 0 else []
        self.environment = {"PGHOST": str(self.folder), "PGUSER": self.user,
                            "PGDATABASE": "postgres"}
        self.data = self.folder / "data"

    def __enter__(self):
        if self.wrap:
            shutil.chown(self.folder, self.user, self.user)
        subprocess.run([*self.wrap, self.bin / "initdb", "--auth=trust", "--no-sync", "-D",
                        self.data], check=True, cwd="/", stdout=subprocess.DEVNULL)
        self.program = self.place.start(
            [*self.wrap, self.bin / "postgres", "-D", self.data, "-k", self.folder, "-c",
             "listen_addresses=", "-c", "fsync=off"],
            answers=lambda: self.sql("SELECT 1") == "1", cwd="/")
        return self

    def sql(self, *statements):
        """What the last statement prints; OSError while the server starts."""
        done = subprocess.run(
            [*self.wrap, self.bin / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1",
             *(word for statement in statements for word in ("-c", statement))], cwd="/",
            env={**os.environ, **self.environment}, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr)
        return done.stdout.strip()

    def __exit__(self, *_):
        with contextlib.suppress(AttributeError):  # it did not start
            self.program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
