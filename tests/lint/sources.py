#!/usr/bin/env python3
"""Reads every source: who may include whom, what nobody may call, how long things may get."""
import re
import sys
from pathlib import Path

COLUMNS_MAX = 96
FILE_LINES_WARN, FILE_LINES_MAX = 500, 700
FUNCTION_LINES_MAX = 70

# Where a file may include from; the first row that fits counts.
LAYERS = [
    (r"server/main\.c", r"(server|storage|handlers)/.*"),
    (r"server/.*", r"server/.*"),
    (r"storage/.*", r"storage/.*|scripts\.inc"
                    r"|server/(loop|timers|log|metrics|config|clock|pool|text)\.h"),
    (r"handlers/.*", r"(server|storage|handlers)/.*|openapi\.inc"),
    (r"tests/.*", r".*"),
]

# Each foreign library has one home (tests may use all of them).
LIBRARIES = [
    (r"microhttpd\.h", r"server/http\w*\.[ch]"),
    (r"hiredis/.*", r"storage/redis\w*\.[ch]"),
    (r"uuid/.*|uuid\.h", r"server/token\.c"),
    (r"curl/.*", r"tests/.*"),
]

# Unbounded writes, silent number parsing, hidden state, a shell.
BANNED = """strcpy strcat stpcpy sprintf vsprintf gets strtok atoi atol atoll atof scanf
            alloca system popen tmpnam mktemp rand srand gmtime localtime ctime asctime
            gethostbyname vfork""".split()

problems = []


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def without_comments_and_strings(text):
    """The same text, with comments and literals blanked and every line break kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def check_includes(path, text):
    allowed = next(a for who, a in LAYERS if re.fullmatch(who, path))
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not include:
            continue
        ours, name = include[1] == '"', include[2]
        if ours and not re.fullmatch(allowed, name):
            complain(path, number, f"may not include {name}")
        for library, home in LIBRARIES:
            if re.fullmatch(library, name) and not re.fullmatch(home + r"|tests/.*", path):
                complain(path, number, f"may not include {name}: its home is {home}")


def check_calls(path, code):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for number, line in enumerate(code.splitlines(), 1):
        for call in pattern.finditer(line):
            complain(path, number, f"{call[1]}() is banned")


def check_functions(path, code):
    start = None
    for number, line in enumerate(code.splitlines(), 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start - 1 > FUNCTION_LINES_MAX:
                complain(path, start, f"function of {number - start - 1} lines"
                                      f" (at most {FUNCTION_LINES_MAX})")
            start = None


def check_sizes(path, lines):
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            complain(path, number, f"{len(line)} columns (at most {COLUMNS_MAX})")
        if line != line.rstrip():
            complain(path, number, "white space at the end")
    if len(lines) > FILE_LINES_MAX:
        complain(path, len(lines), f"file of {len(lines)} lines (at most {FILE_LINES_MAX})")
    elif len(lines) > FILE_LINES_WARN:
        print(f"warning: {path}: {len(lines)} lines, wants splitting (over {FILE_LINES_WARN})")


def sources():
    suffixes = {".c", ".h", ".lua", ".sh", ".py"}
    for top in ("server", "storage", "handlers", "tests"):
        yield from sorted(p for p in Path(top).rglob("*") if p.suffix in suffixes)


for source in sources():
    content = source.read_text(encoding="utf-8")
    name = source.as_posix()
    check_sizes(name, content.splitlines())
    if content and not content.endswith("\n"):
        complain(name, content.count("\n") + 1, "no newline at the end")
    if source.suffix in (".c", ".h"):
        blanked = without_comments_and_strings(content)
        check_includes(name, content)
        if not name.startswith("tests/"):
            check_calls(name, blanked)
            check_functions(name, blanked)

print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
