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
    for (i = 1; i <= n; i++)
        out = out (i > 1 ? ", " : " ") prefix constant(name[i]) (i == 1 && first ? " = " first : "")
    if (count != "") out = out (n > 0 ? ", " : " ") count
    print "enum {" out " };"
}

function put_reply(shapes,   i, n, shape, names, prefix) {
    names = head_names(file, "REPLY", shapes ~ /\|/ ? substr(shapes, 1, index(shapes, "|") - 1) : shapes)
    prefix = toupper(script) "_REPLY_"
    if (shapes == "[]") put(prefix, names, 0, prefix "VALUES")
    else if (shapes ~ /^\[/) put(prefix constant(shapes) "_", names, 0, prefix constant(shapes) "_VALUES")
    else {
        n = split(shapes, shape, "|")
        for (i = 1; i <= n; i++) put(prefix constant(shape[i]) "_", names, 1, "")
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
