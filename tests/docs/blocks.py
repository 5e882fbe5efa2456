#!/usr/bin/env python3
"""Runs the `console` and `python` blocks of a document, in order, against $RLOCKD_URL.

usage: blocks.py DOCUMENT [FOLDER]

The commands behind `$ ` run in one shell, as a reader types them; their output has to be what
stands below them, but for line breaks, ids, fencing tokens and times that pass. A Python block
has to end well, and so has each `sh` block where FOLDER has the programs that the blocks name.
Fails with each command whose output is another.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

URL = os.environ["RLOCKD_URL"]
TIMEOUT_S = 120
MARK = "=====command====="
VARYING = [  # what differs from run to run, and what stands for it
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r'("(?:remaining|age|waited|held)_ms":)\d+'), r"\1TIME"),
    (re.compile(r"\b\d{16}\b"), "FENCING"),
    (re.compile(r"\s+"), ""),  # long answers are wrapped by hand
]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def commands(block):
    """Pairs of a command, with the lines that continue it, and what is printed below it."""
    command, output, continued = None, [], False
    for line in block.splitlines():
        if continued:
            command += "\n" + line
        elif line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(output)
            command, output = line[2:], []
        else:
            output.append(line)
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    yield command, "\n".join(output)


def alike(text):
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def here(text):
    return text.replace("http://localhost:7400", URL) \
        .replace("localhost:7400", URL.removeprefix("http://"))


def run(arguments, script, folder):
    """The output of an interpreter that reads this script, errors included."""
    result = subprocess.run(arguments, input=here(script), text=True, cwd=folder, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=TIMEOUT_S)
    return result.returncode, result.stdout


def check_consoles(text, folder):
    steps = [step for block in blocks(text, "console") for step in commands(block)]
    script = "".join(f"echo '{MARK}'\n{command}\n" for command, _ in steps)
    _, output = run(["bash"], script, folder)
    printed = output.split(MARK + "\n")[1:]
    failures = 0
    for (command, wanted), got in zip(steps, printed):
        if alike(got) != alike(wanted):
            failures += 1
            print(f"$ {command}\n  printed: {got}\n  the document has: {wanted}")
    if len(printed) != len(steps):
        failures += 1
        print(f"{len(steps)} commands, and {len(printed)} ran:\n{output[-2000:]}")
    return len(steps), failures


def check_python(text, folder):
    programs = blocks(text, "python")
    failures = 0
    for program in programs:
        status, output = run([sys.executable, "-"], program, folder)
        if status != 0:
            failures += 1
            print(f"a Python block ends with {status}:\n{output}")
    return len(programs), failures


def check_shell(text, folder):
    """Each block in a shell of its own, which has no standard input."""
    scripts = blocks(text, "sh")
    failures = 0
    for script in scripts:
        status, output = run(["bash", "-ec", here(script)], "", folder)
        if status != 0:
            failures += 1
            print(f"a block of the shell ends with {status}:\n{script}{output}")
    return len(scripts), failures


def main():
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 2:
            shutil.copytree(sys.argv[2], folder, dirs_exist_ok=True)
            os.environ["PATH"] = folder + ":" + os.environ["PATH"]
        results = [check_consoles(text, folder), check_python(text, folder)]
        if len(sys.argv) > 2:
            results.append(check_shell(text, folder))
    count, failures = (sum(column) for column in zip(*results))
    print(f"{sys.argv[1]}: {count} commands and programs, {failures} differ")
    sys.exit(failures > 0 or count == 0)


main()
