#!/usr/bin/env python3
"""mutants.py [--only WORD] [--seed N] [--jobs N]: plants the bugs of mutants.table that are
marked `quick` one by one in a copy of the tree, and has the fault run find each. The tree as it
is must be clean in runs of the same kinds. Fails when a bug is not found, or can no longer be
planted. `--lint`: only whether all bugs of the table can be planted."""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CALM = ["--calm", "--no-drain"]
# Minutes of the rounds: most bugs show at once.
ROUNDS = [0.2, 0.4, 0.5, 0.5, 0.5, 0.5]
# What the server is built of, and what is built of it. Other tests may run meanwhile, and write
# in build.
SERVER = ["Makefile", "openapi.yaml", "server", "storage", "handlers", "web",
          *(f"build/{name}" for name in ("flags", "version", "gen", "server", "storage",
                                         "handlers", "librlockd.a"))]
COPIED = [*SERVER, "build/tests/checker", "build/tests/faults"]


class Mutant:
    def __init__(self, name, *marks):
        self.name, self.is_quick, self.about = name, "quick" in marks, ""
        self.rules, self.run, self.seed = [], CALM, 0
        self.tests = []  # programs that catch it instead of the simulation
        self.hunks = []  # glob, old lines, new lines


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
            mutants.append(Mutant(*rest.split()))
        elif word == "about":
            mutants[-1].about = rest
        elif word == "rules":
            mutants[-1].rules = rest.split()
        elif word == "run":
            mutants[-1].run = rest.split()
        elif word == "sim":
            mutants[-1].seed = int(rest)
        elif word == "tests":
            mutants[-1].tests = rest.split()
        elif word == "in":
            glob = rest
        elif line and word != "#" and line != "#":
            sys.exit(f"{path}:{number}: what is {word}?")
        is_old = line[:1] == "-"
    return mutants


def note_seeds(path, seed_of):
    """Writes the seeds, mutant -> seed, into the table."""
    lines, seed = [], None
    for line in path.read_text(encoding="ascii").splitlines():
        word, _, rest = line.partition(" ")
        if word == "mutant":
            seed = seed_of.get(rest.split()[0])
        if word != "sim" or seed is None:
            lines.append(line)
        if word == "rules" and seed is not None:
            lines.append(f"sim {seed}")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def planted(mutant, tree):
    """The files that the bug changes, path -> text; or a complaint."""
    texts = {}
    for glob, old, new in mutant.hunks:
        before, after = ("".join(line + "\n" for line in lines) for lines in (old, new))
        found = []
        for path in sorted(tree.glob(glob)):
            text = texts.get(path) or "\n" + path.read_text(encoding="utf-8")
            found += [(path, text)] * text.count("\n" + before)
        if len(found) != 1:
            return f"{glob} has {len(found)} times: {old[0].strip()}"
        path, text = found[0]
        texts[path] = text.replace("\n" + before, "\n" + after)
    return {path: text[1:] for path, text in texts.items()}


def lint(mutants):
    """Complaints about the table."""
    names, complaints = set(), 0
    for mutant in mutants:
        trouble = planted(mutant, ROOT)
        is_hunted = bool(mutant.rules and mutant.seed) != bool(mutant.tests)
        has_all = is_hunted and mutant.about and mutant.hunks
        if not has_all or mutant.name in names:
            trouble = ("neither rules with a seed nor tests, no text, no patch, or a name that "
                       "is taken")
        if isinstance(trouble, str):
            print(f"tests/faults/mutants.table: {mutant.name}: {trouble}")
            complaints += 1
        names.add(mutant.name)
    return complaints


def copy_tree(names, left_out=()):
    """What is built is copied, too, with its times: make compiles only what changes. Other
    servers for the tests, with device files among them, are not."""
    tree = Path(tempfile.mkdtemp(prefix="rlockd-mutant-"))
    ignore = shutil.ignore_patterns("sanitize*", "coverage", "fuzz", "clients", "servers",
                                    *left_out)
    for name in names:
        source = ROOT / name
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=ignore,
                            dirs_exist_ok=True)
        else:
            shutil.copy2(source, tree / name)
    return tree


def one_round(tree, arguments, minutes, seed, keeps_history=False):
    """The rules that the run broke; None: the run itself failed."""
    command = ["/usr/bin/python3", str(HERE / "run.py"), str(tree / "build"), "--minutes",
               str(minutes), "--seed", str(seed), *arguments]
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


def is_sound(tree, arguments, seed):
    """Whether a run without any bug planted is clean, as it has to be: else what a run of this
    kind finds proves nothing."""
    broken = one_round(tree, arguments, ROUNDS[-1], seed, keeps_history=True)
    if broken is None or broken:
        print(f"mutants: the tree as it is breaks {broken} with {' '.join(arguments)}")
    return broken == set()


def build_with(mutant, tree, *targets):
    """A complaint; none: it is built."""
    files = planted(mutant, tree)
    if isinstance(files, str):
        return f"cannot be planted: {files}"
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    # The version that is built in is that of the tree, for the copy is no repository.
    version = (ROOT / "build" / "version").read_text(encoding="ascii").strip()
    made = subprocess.run(["make", "-C", str(tree), "-s", "-j2", f"RLOCKD_VERSION={version}",
                           *targets], capture_output=True, text=True, check=False)
    return f"does not compile\n{made.stderr}" if made.returncode else None


def hunt(mutant, seed):
    """Whether it was found."""
    tree = copy_tree(COPIED)
    try:
        trouble = build_with(mutant, tree, "build/rlockd")
        if trouble:
            print(f"{mutant.name}: {trouble}", flush=True)
            return False
        began = time.monotonic()
        for number, minutes in enumerate(ROUNDS):
            broken = one_round(tree, mutant.run, minutes, seed + number)
            if broken and broken & set(mutant.rules):
                print(f"{mutant.name:30} caught in {time.monotonic() - began:4.0f} s by "
                      f"{' '.join(sorted(broken))}", flush=True)
                return True
        print(f"{mutant.name:30} NOT caught in {len(ROUNDS)} rounds: {mutant.about}",
              flush=True)
        return False
    finally:
        shutil.rmtree(tree)


def choose(mutants, only):
    return [mutant for mutant in mutants
            if mutant.is_quick and any(word in mutant.name for word in only.split(","))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="words of names, a comma between")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="bugs that are hunted at a time")
    parser.add_argument("--lint", action="store_true")
    options = parser.parse_args()
    mutants = read_table(HERE / "mutants.table")
    if options.lint:
        return lint(mutants) > 0
    chosen = choose(mutants, options.only)
    kinds = sorted({tuple(mutant.run) for mutant in chosen})
    with ThreadPoolExecutor(options.jobs) as pool:
        if not all(list(pool.map(lambda kind: is_sound(ROOT, kind, options.seed), kinds))):
            return 1
        found = list(pool.map(lambda mutant: hunt(mutant, options.seed), chosen))
    lost = [mutant.name for mutant, is_found in zip(chosen, found) if not is_found]
    print(f"mutants: {len(chosen) - len(lost)} of {len(chosen)} caught"
          + (f"; not: {' '.join(lost)}" if lost else ""))
    return bool(lost) or not chosen


if __name__ == "__main__":
    sys.exit(main())
