"""Simple bugs, planted by rule: every place where a rule fits is a candidate, and a seed
chooses among them. Nobody picks favourites, and the same seed gives the same bugs for the same
source."""
import random
import re
from collections import namedtuple

# A bug: in `line` (from 1) of `path`, the columns from `start` to `end` become `new`.
Bug = namedtuple("Bug", "path line start end new rule")

SOURCES = ("storage/*/*.c", "handlers/*.c", "storage/scripts/*.lua",
           "storage/scripts/lib/*.lua", "storage/scripts/quorum/*.lua",
           "storage/scripts/quorum/lib/*.lua")

TURNED = {suffix: {"==": unequal, unequal: "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
          for suffix, unequal in ((".c", "!="), (".lua", "~="))}
MOVED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
JOINED = {"&&": "||", "||": "&&", "and": "or", "or": "and"}
ANSWERS = {"return true;": "return false;", "return false;": "return true;"}
COMPARISON = re.compile(r"(?<= )(==|!=|~=|<=|>=|<|>)(?= )")
JUNCTION = re.compile(r"(?<= )(&&|\|\||and|or)(?= )")
LIMIT = re.compile(
    r"\b[A-Z_]*(?:MAX|MIN|LIMIT|BATCH|COUNT)(?!\w*_(?:[MNU]?S|SIZE)\b)\w* *(?:=|\() *(\d+)\b")
ALONE = re.compile(r"^\s+((?:lib\.)?[a-z_][\w.]*\(.*\));?$")
# Whether two texts are equal, and the lesser of two numbers, do not depend on the order.
PAIR = re.compile(
    r"(?<!strcmp)(?<!memcmp)(?<!math\.m[ai][nx])\(([a-z_]\w*), ([a-z_]\w*)(?=[,)])")
# Without these a program does the same, or leaks memory, which other checks see.
HARMLESS = re.compile(
    r"^\s*(?:free|json_decref|log_\w+|\w+_(?:free|unref)|lease_ref_release|json_text_drop|"
    r"pool_release|redis_link_calls_release|memset)\(")
COMMENT = {".c": re.compile(r"^\s*(?:/\*|\*|//|#)"), ".lua": re.compile(r"^\s*--")}
# One that is weaker does the same as long as it holds; one that is turned ends any program.
ASSERTION = re.compile(r"^\s*(?:_Static_)?assert\(")
TEXT = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|/\*.*?\*/|--.*$")


def swaps(line, pattern, table, rule):
    return [(found.start(1), found.end(1), table[found[1]], rule)
            for found in pattern.finditer(line) if found[1] in table]


def in_line(line, suffix):
    """(start, end, new, rule) of each bug that the line may have, in C or Lua."""
    bugs = swaps(line, COMPARISON, TURNED[suffix], "comparison turned")
    bugs += swaps(line, COMPARISON, MOVED, "comparison moved by one")
    bugs += swaps(line, JUNCTION, JOINED, "and for or")
    bugs += [(found.start(1), found.end(1), str(int(found[1]) + 1), "limit moved by one")
             for found in LIMIT.finditer(line)]
    bugs += [(found.start(1), found.end(2), f"{found[2]}, {found[1]}", "arguments swapped")
             for found in PAIR.finditer(line) if found[1] != found[2]]
    if (alone := ALONE.match(line)) and not HARMLESS.match(line):
        bugs.append((alone.start(1), len(line), "", "call left out"))
    answer = line.strip()
    if answer in ANSWERS:
        start = line.index(answer)
        bugs.append((start, len(line), ANSWERS[answer], "answer turned"))
    return bugs


def in_file(root, path):
    text, bugs, is_assertion = path.read_text(encoding="utf-8"), [], False
    for number, line in enumerate(text.splitlines(), 1):
        is_assertion = is_assertion or (path.suffix == ".c" and bool(ASSERTION.match(line)))
        if is_assertion:
            is_assertion = not line.partition("/*")[0].rstrip().endswith(";")
            continue
        if COMMENT[path.suffix].search(line):
            continue
        # What stands in texts and comments is no code, and keeps its columns.
        code = TEXT.sub(lambda found: "\0" * len(found[0]), line)
        bugs += [Bug(str(path.relative_to(root)), number, *bug)
                 for bug in in_line(code, path.suffix)]
    return bugs


def choose(root, count, seed):
    """Bugs in the order in which they are to be tried: rules take turns, so that frequent ones
    do not crowd out the rest."""
    by_rule = {}
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            for bug in in_file(root, path):
                by_rule.setdefault(bug.rule, []).append(bug)
    chance, chosen = random.Random(seed), []
    for bugs in by_rule.values():
        chance.shuffle(bugs)
    while len(chosen) < count and any(by_rule.values()):
        chosen += [bugs.pop() for bugs in by_rule.values() if bugs]
    return chosen[:count]


def planted(root, bug):
    """The text of the file with the bug, and the line as it is then; of a call that is left
    out, `without CALL`."""
    lines = (root / bug.path).read_text(encoding="utf-8").splitlines()
    line = lines[bug.line - 1]
    changed = (line[:bug.start] + bug.new + line[bug.end:]).rstrip()
    shown = changed.strip()
    if not shown:
        shown = f"without {line.strip()}"
        if bug.path.endswith(".c"):
            changed += ";"  # `if (…)` above keeps its statement
    lines[bug.line - 1] = changed
    return "\n".join(lines) + "\n", shown
