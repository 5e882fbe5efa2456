#!/usr/bin/env python3
"""mutants.py BUILD [--only WORD] [--seed N]: plants the bugs of mutants.table one by one in a
copy of the tree, and has the fault run find each. The tree as it is must be clean. Fails when a
bug is not found, or can no longer be planted."""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROUND_MINUTES, ROUNDS = 0.5, 6
COPIED = ["Makefile", "openapi.yaml", "server", "storage", "handlers", "build"]


class Mutant:
    def __init__(self, name):
        self.name, self.about, self.rules, self.faults = name, "", [], "none"
        self.hunks = []  # glob, old text, new text


def read_table(path):
    mutants, glob, is_old = [], None, False
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        word, _, rest = line.partition(" ")
        if line[:1] == "-":
            if not is_old:
                mutants[-1].hunks.append([glob, [], []])
            mutants[-1].hunks[-1][1].append(line[1:])
        elif line[:1] == "+":
            mutants[-1].hunks[-1][2].append(line[1:])
        elif word == "mutant":
            mutants.append(Mutant(rest))
        elif word == "about":
            mutants[-1].about = rest
        elif word == "rules":
            mutants[-1].rules = rest.split()
        elif word == "faults":
            mutants[-1].faults = rest
        elif word == "in":
            glob = rest
        elif line and word != "#" and line != "#":
            sys.exit(f"{path}:{number}: what is {word}?")
        is_old = line[:1] == "-"
    return mutants


def plant(mutant, tree):
    """Complaints; none: it is planted."""
    for glob, old, new in mutant.hunks:
        before, after = "\n".join(old) + "\n", "".join(line + "\n" for line in new)
        places = [path for path in tree.glob(glob) for _ in
                  range(("\n" + path.read_text()).count("\n" + before))]
        if len(places) != 1:
            return f"{glob} has {len(places)} times: {old[0].strip()}"
        text = ("\n" + places[0].read_text()).replace("\n" + before, "\n" + after)
        places[0].write_text(text[1:])
    return None


def copy_tree(root, build):
    tree = Path(tempfile.mkdtemp(prefix="rlockd-mutant-"))
    for name in COPIED:
        source = root / name
        if source.is_dir():
            # symlinks and times as they are: nothing is compiled that has not changed
            shutil.copytree(source, tree / name, symlinks=True)
        else:
            shutil.copy2(source, tree / name)
    shutil.copytree(root / build / "tests" / "checker", tree / "build" / "tests" / "checker",
                    dirs_exist_ok=True)
    return tree


def one_round(tree, faults, seed, keeps_history=False):
    """The rules that the run broke; None: the run itself failed."""
    command = ["/usr/bin/python3", str(HERE / "run.py"), str(tree / "build"), "--minutes",
               str(ROUND_MINUTES), "--no-drain", "--seed", str(seed)]
    command += ["--calm"] if faults == "none" else ["--only", faults]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if keeps_history and result.returncode:
        print(result.stdout)
    else:
        for folder in re.findall(r"(?:history|logs) in ([^; ]+)", result.stdout):
            shutil.rmtree(folder.strip(), ignore_errors=True)
    if "checker: " not in result.stdout:
        print(result.stdout[-2000:] + result.stderr[-2000:])
        return None
    return set(re.findall(r"^broken: (\S+)", result.stdout, re.M)) - {"VACUOUS"}


def hunt(mutant, root, build, seed):
    """Whether it was found."""
    tree = copy_tree(root, build)
    try:
        trouble = plant(mutant, tree)
        if trouble:
            print(f"{mutant.name}: cannot be planted: {trouble}", flush=True)
            return False
        made = subprocess.run(["make", "-C", str(tree), "-s", "all"], capture_output=True,
                              text=True, check=False)
        if made.returncode:
            print(f"{mutant.name}: does not compile\n{made.stderr}", flush=True)
            return False
        began = time.monotonic()
        for number in range(ROUNDS):
            broken = one_round(tree, mutant.faults, seed + number)
            if broken:
                is_named = broken & set(mutant.rules)
                print(f"{mutant.name:28} caught in {time.monotonic() - began:4.0f} s by "
                      f"{' '.join(sorted(broken))}"
                      + ("" if is_named else f", not by {' '.join(mutant.rules)}"), flush=True)
                return bool(is_named)
        print(f"{mutant.name:28} NOT caught in {ROUNDS} rounds: {mutant.about}", flush=True)
        return False
    finally:
        shutil.rmtree(tree)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    root = HERE.parent.parent
    sound = Mutant("none")
    tree = copy_tree(root, options.build)
    broken = one_round(tree, sound.faults, options.seed, keeps_history=True)
    shutil.rmtree(tree)
    if broken is None or broken:
        sys.exit(f"mutants: the tree as it is breaks {broken}: what is found proves nothing")
    chosen = [m for m in read_table(HERE / "mutants.table")
              if any(word in m.name for word in options.only.split(","))]
    lost = [m.name for m in chosen if not hunt(m, root, options.build, options.seed)]
    print(f"mutants: {len(chosen) - len(lost)} of {len(chosen)} caught"
          + (f"; not: {' '.join(lost)}" if lost else ""))
    return bool(lost) or not chosen


if __name__ == "__main__":
    sys.exit(main())
