# head.awk: the names in the lines `-- KEYS`, `-- ARGV` and `-- REPLY` of a script's head. For the
# other .awk files here; needs -v file=FILE.lua.
#
#   as FILE.lua [to NAME] name...   the names of FILE.lua's line, the last of them NAME, then more.
#                                   `...` alone belongs to the last name before it

function fail(why) {
    print file ": " why > "/dev/stderr"
    failed = 1
    exit 1
}

# The words of the first such line; of a REPLY those behind `shape`, one of its words.
function head_line(path, what, shape,   line, got, own, is_found) {
    while (!is_found && (got = (getline line < path)) > 0) {
        if (index(line, "-- " what " ") != 1) continue
        line = substr(line, length(what) + 5)
        own = line
        sub(/ .*/, "", own)
        is_found = what != "REPLY" || index("|" own "|", "|" shape "|") > 0
    }
    close(path)
    if (!is_found) fail("no line " what " " shape " in " path)
    if (what == "REPLY") sub(/^[^ ]+ */, "", line)
    return line
}

function names_up_to(names, end,   i, n, name, plain, out) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++) {
        out = out (i > 1 ? " " : "") name[i]
        plain = name[i]
        gsub(/[][.]/, "", plain)
        if (plain == end) return out
    }
    fail("no name " end " in: " names)
}

# The names, a blank between them.
function head_names(path, what, shape,   line, n, word, i, names, dir) {
    line = head_line(path, what, shape)
    n = split(line, word, " ")
    if (word[1] != "as") return line
    dir = path
    sub(/[^\/]*$/, "", dir)
    names = head_names(dir word[2], what, shape)
    i = 3
    if (word[i] == "to") {
        names = names_up_to(names, word[i + 1])
        i += 2
    }
    if (i <= n) sub(/\.\.\.$/, "", names)
    for (; i <= n; i++) names = names (word[i] == "..." ? "" : " ") word[i]
    return names
}

END { exit failed }
