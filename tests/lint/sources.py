#!/usr/bin/env python3
"""Reads every source: who may include whom, what nobody may call, how long things may get."""
import re
import sys
from collections import defaultdict
from pathlib import Path

COLUMNS_MAX = 96
FILE_LINES_WARN, FILE_LINES_MAX = 500, 700
FUNCTION_LINES_MAX = 70
FOLDER_FILES_MAX = 40
# What a stranger reads whole.
FIRST_FILES = {"README.md": 150, "Makefile": 200}
# A file is a script or a test program there, and is looked for by its name; tests/sim is a
# world of its own.
LARGE_FOLDERS = ("storage/scripts/", "tests/e2e/", "tests/unit/", "tests/sim/")

# What a room may include, besides itself and server/base; the first row that fits counts.
# `…_internal.h` is for its own room. Arrows go one way: handlers -> wait -> session, census ->
# look -> lease -> notes -> store -> quorum -> topology -> redis -> base; http -> auth, tls ->
# base. Above the topology nobody sees a connection. The client knows the server's HTTP
# interface only, and shares one file with it.
NO_LINK = r"storage/redis/(call|reply|reply_made|script|script_call|subscription)\.h"
SHARED = r"server/base/notify\.h"
STORE = [r"storage/(store|topology)/.*", NO_LINK, r"script_args\.h"]
ROOMS = [
    (r"server/base/.*", []),
    (r"server/auth/.*", []),
    (r"server/tls/.*", []),
    (r"server/http/.*", [r"server/(auth|tls)/.*"]),
    (r"server/(main|worker|redis_settings)\.[ch]",
     [r"server/.*", r"storage/.*", r"handlers/.*"]),
    (r"storage/redis/.*", [r"scripts(_(cluster|shard|quorum))?\.inc", r"script_args\.h"]),
    (r"storage/topology/.*", [r"storage/redis/.*"]),
    (r"storage/quorum/.*", [r"storage/topology/.*", NO_LINK, r"script_args\.h"]),
    (r"storage/store/.*", [r"storage/quorum/.*", *STORE]),
    (r"storage/notes/.*", STORE),
    (r"storage/lease/.*", [r"storage/notes/.*", *STORE]),
    (r"storage/session/.*", [r"storage/(lease|notes)/.*", *STORE]),
    (r"storage/look/.*", [r"storage/lease/.*", *STORE]),
    (r"storage/census/.*", [r"storage/(look|notes)/.*", *STORE]),
    (r"storage/wait/.*", [r"storage/(census|look|lease|notes|store|topology)/.*", NO_LINK]),
    (r"handlers/.*", [r"server/(auth|http)/.*", *STORE,
                      r"storage/(wait|census|session|look|lease|notes)/.*",
                      r"openapi\.inc", r"page\.inc"]),
    (r"client/verbs/.*", [r"client/.*"]),
    (r"client/http/.*", [r"client/(boottime|say|settings|status|values)\.h"]),
    (r"client/.*", [r"client/verbs/verbs\.h", r"client/http/http\.h", SHARED]),
    (r"tests/.*", [r".*"]),
]

# Each foreign library has one home (tests may use all of them).
LIBRARIES = [
    (r"microhttpd\.h", r"server/http/http\w*\.[ch]"),
    (r"gnutls/.*",
     r"server/(tls/tls\w*\.[ch]|auth/auth_hash\.c|base/token\.c)|"
     r"storage/redis/tls_session\.c"),
    (r"hiredis/.*", r"storage/redis/.*"),
    (r"jansson\.h", r"(server|handlers|client)/.*"),
    (r"uuid/.*|uuid\.h", r"server/base/token\.c"),
    (r"event2/.*", r"client/http/.*"),
    (r"openssl/.*", r"client/http/.*"),
    (r"curl/.*", r"tests/.*"),
]

# Unbounded writes, silent number parsing, hidden state, a shell.
BANNED = """strcpy strcat stpcpy sprintf vsprintf gets strtok atoi atol atoll atof scanf
            alloca system popen tmpnam mktemp rand srand gmtime localtime ctime asctime
            gethostbyname vfork""".split()

# Rooms in which no two files may call each other, however far around.
LAYERED_ROOMS = ("server/http/", "server/auth/", "server/tls/", "storage/store/",
                 "storage/notes/", "storage/lease/", "storage/session/", "storage/look/",
                 "storage/census/", "storage/wait/", "storage/redis/", "storage/topology/",
                 "storage/quorum/",
                 "handlers/", "client/", "client/verbs/", "client/http/", "server/base/")

problems = []
included = defaultdict(set)
defined, named = {}, defaultdict(set)  # functions by their file, words by file
openings = defaultdict(str)  # comments that open files, by folder


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def without_comments_and_strings(text):
    """The same text, with comments and literals blanked and every line break kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def room_of(path):
    return path.rsplit("/", 1)[0] + "/"


def check_includes(path, text):
    allowed = next((rooms for who, rooms in ROOMS if re.fullmatch(who, path)), None)
    if allowed is None:
        complain(path, 1, "is in no room: see ROOMS in tests/lint/sources.py")
        return
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not include:
            continue
        ours, name = include[1] == '"', include[2]
        if ours:
            included[path].add(name)
            at_home = room_of(name) == room_of(path) \
                or (room_of(name) == "server/base/" and not path.startswith("client/"))
            may = not name.endswith("_internal.h") \
                and any(re.fullmatch(room, name) for room in allowed)
            if not at_home and not may and not path.startswith("tests/"):
                complain(path, number, f"may not include {name}")
        for library, home in LIBRARIES:
            if re.fullmatch(library, name) and not re.fullmatch(home + r"|tests/.*", path):
                complain(path, number, f"may not include {name}: its home is {home}")


def reached(start, arrows):
    """All that the arrows lead to from there."""
    seen, todo = set(), list(arrows.get(start, ()))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(arrows.get(name, ()))
    return seen


def check_circles():
    """No header includes itself, however far around."""
    for start in sorted(included):
        if start in reached(start, included):
            complain(start, 1, "includes itself through other files")


def note_functions(path, code):
    """Which functions a C file has for other files, and which words it uses."""
    if path.endswith(".c") and room_of(path) in LAYERED_ROOMS:
        for function in re.finditer(r"^(?!static\b)[a-z][\w ]*?[ *](\w+)\([^;{}]*\)\n\{", code,
                                    re.M):
            defined[function[1]] = path
        named[path] = set(re.findall(r"\w+", code))


def check_units():
    """No file of these rooms needs a function of another that needs this one."""
    for room in LAYERED_ROOMS:
        needs = {path: {defined[word] for word in words & set(defined)
                        if defined[word] != path and room_of(defined[word]) == room}
                 for path, words in named.items() if room_of(path) == room}
        for start in sorted(needs):
            if start in reached(start, needs):
                complain(start, 1, "needs functions of a file that needs this one's")


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
        # A script's arguments are one line, which the build reads.
        if len(line) > COLUMNS_MAX and not line.startswith(("-- ARGV ", "-- REPLY ")):
            complain(path, number, f"{len(line)} columns (at most {COLUMNS_MAX})")
        if line != line.rstrip():
            complain(path, number, "white space at the end")
    if len(lines) > FILE_LINES_MAX:
        complain(path, len(lines), f"file of {len(lines)} lines (at most {FILE_LINES_MAX})")
    elif len(lines) > FILE_LINES_WARN:
        print(f"warning: {path}: {len(lines)} lines, wants splitting (over {FILE_LINES_WARN})")


def check_opening(path, text):
    """Each file but headers says first what the file is about."""
    opening = {".c": r"/\* \S", ".lua": r"-- \S", ".sh": r"(#!.*\n)?# \S",
               ".py": r'(#!.*\n)?"""\S'}.get(Path(path).suffix)
    if opening and not re.match(opening, text):
        complain(path, 1, "no opening sentence about the file")


def note_opening(path, text):
    """What the file says about itself and its folder before its first line of code."""
    openings[room_of(path)] += re.split(r"^#", text, 1, re.M)[0]


def check_room_lists():
    """Each C file has a line in the list of its folder: a comment that opens one of the files
    there."""
    for path in sorted(name for name in named if room_of(name) in LAYERED_ROOMS):
        file = Path(path).name
        rows = re.findall(r"^ \*   ((?:\w+\.c(?:, )?)+)(?= |$)", openings[room_of(path)], re.M)
        if file not in {name for row in rows for name in row.split(", ")} and file != "main.c":
            complain(path, 1, f"is not in the list of files of {room_of(path)}")


def check_folders(paths):
    counts = defaultdict(int)
    for path in paths:
        counts[room_of(path)] += 1
    for folder, count in sorted(counts.items()):
        if count > FOLDER_FILES_MAX and folder not in LARGE_FOLDERS:
            complain(folder, 1, f"{count} files (at most {FOLDER_FILES_MAX})")


def check_first_files():
    for path, most in FIRST_FILES.items():
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        if len(lines) > most:
            complain(path, len(lines), f"file of {len(lines)} lines (at most {most})")


def sources():
    suffixes = {".c", ".h", ".lua", ".sh", ".py"}
    for top in ("server", "storage", "handlers", "client", "tests"):
        yield from sorted(p for p in Path(top).rglob("*") if p.suffix in suffixes)


for source in sources():
    content = source.read_text(encoding="utf-8")
    name = source.as_posix()
    check_sizes(name, content.splitlines())
    check_opening(name, content)
    if content and not content.endswith("\n"):
        complain(name, content.count("\n") + 1, "no newline at the end")
    if source.suffix in (".c", ".h"):
        blanked = without_comments_and_strings(content)
        check_includes(name, content)
        note_functions(name, blanked)
        note_opening(name, content)
        if not name.startswith("tests/"):
            check_calls(name, blanked)
            check_functions(name, blanked)

check_folders(source.as_posix() for source in sources())
check_first_files()
check_circles()
check_units()
check_room_lists()
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
