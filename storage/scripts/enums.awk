# enums.awk -v file=FILE.lua -v script=NAME: the positions of a script's names as C enums, as
# embed.sh says; needs head.awk.

function constant(name) {
    gsub(/[][.]/, "", name)
    gsub(/-/, "_", name)
    return toupper(name)
}

# An enum of prefix_NAME..., and of `count`, if that is not empty.
function put(prefix, names, first, count,   i, n, name, out) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++) {
        out = out (i > 1 ? ", " : " ") prefix constant(name[i])
        if (i == 1 && first > 0) out = out " = " first
    }
    if (count != "") out = out (n > 0 ? ", " : " ") count
    print "enum {" out " };"
}

# `shapes`: the words of a reply, with | between; `[]`; or `[item]`.
function put_reply(shapes,   i, n, shape, names, prefix) {
    n = split(shapes, shape, "|")
    names = head_names(file, "REPLY", shape[1])
    for (i = 1; i <= n; i++) {
        prefix = toupper(script) "_REPLY_"
        if (shape[i] != "[]") prefix = prefix constant(shape[i]) "_"
        if (shape[i] ~ /^\[/) put(prefix, names, 0, prefix "VALUES")
        else put(prefix, names, 1, "")
    }
}

BEGIN {
    while ((getline line < file) > 0)
        if (line ~ /^-- (KEYS|ARGV|REPLY) /) head[++heads] = line
    close(file)
    for (at = 1; at <= heads; at++) {
        split(head[at], part, " ")
        what = part[2]
        if (what == "REPLY") {
            put_reply(part[3])
            continue
        }
        prefix = toupper(script) (what == "KEYS" ? "_KEY" : "_ARG")
        put(prefix "_", head_names(file, what, ""), 0, prefix "S")
    }
}
