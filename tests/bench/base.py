"""An earlier version of rlockd, built from the history of this repository."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(folder, commit):
    """The path of its rlockd. RuntimeError: it cannot be built here."""
    source = Path(folder) / "bench" / f"base-{commit}"
    if not (source / "build/rlockd").exists():
        source.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True,
                                check=False)
        if packed.returncode != 0:
            raise RuntimeError(f"BENCH_BASE={commit}: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", source], input=packed.stdout, check=True)
        made = subprocess.run(["make", "-C", source, f"-j{os.cpu_count()}", "build/rlockd"],
                              env={k: v for k, v in os.environ.items() if "MAKE" not in k},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if made.returncode != 0:
            raise RuntimeError(f"BENCH_BASE={commit}: {made.stdout[-2000:]}")
    return source / "build/rlockd"
