#!/usr/bin/env python3
"""Reads the Lua scripts as they are sent to Redis: syntax, globals, names, arguments, keys."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path("storage/scripts")
STORES = "store notes lease session look".split()
EMBED = str(SCRIPTS / "embed.sh")
GLOBALS = """KEYS ARGV redis string table math ipairs pairs pcall tonumber tostring type unpack
             setmetatable""".split()
LOCALS_MAX = 100

# A script that uses two modules, and what link.awk makes of it.
LINKED = {
    "base.lua": """-- KEYS lock record...
-- ARGV id window_ms [wait_ms]
-- REPLY held left text
""",
    "main.lua": r"""-- KEYS as base.lua counter ...
-- ARGV as base.lua to window_ms [last]
-- REPLY held|lost as base.lua [more]
-- REPLY [] at
local early = "a -- b" -- a comment
-- modules kind
local one, row = lib.one, lib[id]
return one.used(row.size, KEY_COUNTER, ARG_LAST, #KEYS / KEY_COUNT)
""",
    "lib/one.lua": r"""local SIZE, UNUSED = 2, 3
local function helper(a)
  return a + SIZE
end
local function used(a) return helper(a) end
local function unused() return lib.two end

return {used = used, unused = unused}
""",
    "lib/kind.lua": "local a, b = 1, 2\nreturn {size = a, other = b}\n",
    "node.lua": "-- modules\n--quorum: local a = 1\nreturn lib.kind.size\n",
    "quorum/lib/kind.lua": "local a = 5\n--quorum: local b = 6\nreturn {size = a + b}\n",
}
# The end of node.lua, and of the module that it uses, as it is sent to a node of a quorum.
LINKED_FOR_QUORUM = r"""local a = 5
local b = 6
return {size = a + b}
end)()
end
lib[name] = module
return module
end})
local a = 1
return lib.kind.size
"""
LINKED_TEXT = r"""local call, try = redis.call, redis.pcall
local lock, record = KEYS[1], KEYS[2]
local id, window_ms, last = ARGV[1], ARGV[2], ARGV[3]
local early = "a -- b"
local lib = setmetatable({}, {__index = function(lib, name)
local module
if name == 'kind' then
module = (function()
local a = 1
return {size = a}
end)()
elseif name == 'one' then
module = (function()
local SIZE = 2
local function helper(a)
return a + SIZE
end
local function used(a) return helper(a) end
return {used = used}
end)()
end
lib[name] = module
return module
end})
local one, row = lib.one, lib[id]
return one.used(row.size, 3, 3, #KEYS / 3)
"""
LINKED_ENUMS = """enum { MAIN_KEY_LOCK, MAIN_KEY_RECORD, MAIN_KEY_COUNTER, MAIN_KEYS };
enum { MAIN_ARG_ID, MAIN_ARG_WINDOW_MS, MAIN_ARG_LAST, MAIN_ARGS };
enum { MAIN_REPLY_HELD_LEFT = 1, MAIN_REPLY_HELD_TEXT, MAIN_REPLY_HELD_MORE };
enum { MAIN_REPLY_LOST_LEFT = 1, MAIN_REPLY_LOST_TEXT, MAIN_REPLY_LOST_MORE };
enum { MAIN_REPLY_AT, MAIN_REPLY_VALUES };
"""
REFUSED = ["-- KEYS as none.lua", "-- KEYS as base.lua to none", "-- modules\nlib.none.entry()",
           "-- modules\nlib.one.none()", "return KEY_NONE", "local text = [[\n]]",
           "--[[ of\nlines ]]", "return 'not closed", "return $"]

# What rlockd asks for outside of scripts.
OTHER_COMMANDS = set("client|id client|kill client|setname cluster|info eval evalsha info ping "
                     "select subscribe unsubscribe".split())

problems = []


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done.returncode, done.stdout


def check_text(path, text):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(text)
        file.flush()
        status, listing = run("luac5.1", "-l", "-p", file.name)
    if status != 0:
        problems.append(f"{path}: {listing.strip()}")
        return
    for name in sorted(set(re.findall(r"[GS]ETGLOBAL.*; (\w+)", listing)) - set(GLOBALS)):
        problems.append(f"{path}: global {name}")
    if "SETGLOBAL" in listing:
        problems.append(f"{path}: sets a global")
    most = max(int(n) for n in re.findall(r"(\d+) locals?,", listing))
    if most >= LOCALS_MAX:
        problems.append(f"{path}: a function of {most} locals (fewer than {LOCALS_MAX})")


def link(folder, path, quorum=""):
    return run("awk", "-v", f"lib={folder}/lib", "-v", f"file={path}", "-v", f"quorum={quorum}",
               *(word for name in ("head", "lexer", "link")
                 for word in ("-f", str(SCRIPTS / f"{name}.awk"))))


def check_linked(folder):
    """What is reached is put in, and nothing else."""
    status, text = link(folder, folder / "main.lua")
    if status or text != LINKED_TEXT:
        problems.append(f"link.awk puts in:\n{text}")
    _, text = link(folder, folder / "node.lua", folder / "quorum")
    if not text.endswith(LINKED_FOR_QUORUM):
        problems.append(f"link.awk puts in for a quorum:\n{text}")
    _, text = link(folder, folder / "node.lua")
    if "return {size = a}" not in text or "local a = 5" in text or "b = 6" in text:
        problems.append(f"link.awk puts in, but for a quorum only:\n{text}")


def check_enums(folder):
    _, enums = run("sh", EMBED, "enums", str(folder / "main.lua"))
    if enums.partition("\n")[2] != LINKED_ENUMS:
        problems.append(f"enums.awk: {enums}")


def check_refused(folder):
    for text in REFUSED:
        (folder / "refused.lua").write_text(text + "\n")
        if link(folder, folder / "refused.lua")[0] == 0:
            problems.append(f"link.awk takes: {text!r}")


def check_linking():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lib").mkdir()
        (folder / "quorum/lib").mkdir(parents=True)
        for path, text in LINKED.items():
            (folder / path).write_text(text)
        check_linked(folder)
        check_enums(folder)
        check_refused(folder)


# Arguments of one script that stand for nothing in another script with the same ARGV, or that
# only a quorum sends.
UNUSED_ARGUMENTS = {("force_unlock.lua", "up_to"),
                    ("permit_acquire.lua", "fencing_ttl_ms"),
                    ("quorum/lease_confirm.lua", "attempt"),
                    ("quorum/withdraw.lua", "unrepeatable"),
                    ("quorum/withdraw.lua", "keep_place")}


def check_arguments(path):
    source = path.read_text()
    code = re.sub(r"--.*", "", source)
    _, heads = run("sh", EMBED, "enums", str(path))
    for name in re.findall(rf"\b{path.stem.upper()}_ARG_(\w+)", heads):
        name = name.lower()
        is_used = re.search(rf"\b{name}\b", code) \
            or (str(path.relative_to(SCRIPTS)), name) in UNUSED_ARGUMENTS
        if not is_used and f"{name}..." not in source:
            problems.append(f"{path}: argument {name} is not used")
    if re.search(r"\b(KEYS|ARGV)\[", code) and not re.search("-- KEYS as|[.]{3}", source):
        problems.append(f"{path}: KEYS and ARGV have names: use them")
    if path.name != "probe.lua" and re.search(r"\b(KEYS|ARGV)(\[\d| *[=<>~]+ *\d)", code):
        problems.append(f"{path}: positions have names: KEY_NAME, ARG_NAME")


def check_keys():
    """Names of keys in Lua are those of key.c."""
    headers = "".join(path.read_text() for path in Path("storage").rglob("key.[ch]"))
    known = set(re.findall(r'"((?:rlockd|redisson)[\w:-]+)"', headers))
    for path in sorted(SCRIPTS.rglob("*.lua")):
        code = re.sub(r"--.*", "", path.read_text())
        for name in re.findall(r"'((?:rlockd:|redisson_)[\w:-]+)'", code):
            if name.rstrip(":") not in known:
                problems.append(f"{path}: key {name} is not in key.c")
        for name in re.findall(r"\bsibling\(\w+, '(\w+)'", code):
            if "rlockd:" + name not in known:
                problems.append(f"{path}: key rlockd:{name} is not in key.c")


def commands_of(how, *paths):
    code = "".join(re.sub(r"--.*", "", path.read_text()) for path in paths)
    names = re.findall(rf"\b(?:{how})\('(\w+)'(?:, '(numsub)')?", code)
    return {f"{name}|{part}" if part else name for name, part in names}


def commands_of_stores():
    """What the stores ask for themselves, such as pages of a listing."""
    code = "".join(path.read_text() for path in sorted(
        path for room in STORES for path in Path("storage", room).glob("*.c")))
    return {name.lower() for name in re.findall(r'\bargv\[\] = \{"(\w+)"', code)}


def check_permissions():
    """The probe tries what the other scripts need, and the documented user may do all of it."""
    probe = SCRIPTS / "probe.lua"
    scripts = [path for path in SCRIPTS.rglob("*.lua") if path != probe]
    used = commands_of("call|try", *scripts) | commands_of_stores()
    permitted = set(re.findall(r"\+([\w|]+)", Path("docs/rlockd.acl").read_text()))
    tried = commands_of("call|try", probe)
    for command in sorted(commands_of("call", *scripts) - tried):
        problems.append(f"{probe}: does not try {command}")
    for command in sorted(tried - used):
        problems.append(f"{probe}: tries {command}, which no script needs")
    for command in sorted((used | tried) - permitted):
        problems.append(f"docs/rlockd.acl: {command} is not permitted")
    for command in sorted(permitted - used - tried - OTHER_COMMANDS):
        problems.append(f"docs/rlockd.acl: {command} is not needed")


for script in sorted([*SCRIPTS.glob("*.lua"), *SCRIPTS.glob("quorum/*.lua")]):
    forms = ["quorum-"] if "quorum" in script.parts else ["", "cluster-", "shard-", "quorum-"]
    for form in forms:
        failed, sent = run("sh", EMBED, f"{form}text", str(script))
        if failed:
            problems.append(sent.strip())
            continue
        check_text(script, sent)
    check_arguments(script)
check_linking()
check_keys()
check_permissions()

print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
