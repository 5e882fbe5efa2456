# shorten.awk: a script with short names for its locals and without needless blanks. Its lines
# stay lines, so an error of Redis at line 12 is one of the same line of the text that was read.
#
# A local gets the same short name everywhere in the text, wherever else it is declared, and no
# two names the same: what a name means cannot change. Fields and globals keep their names. A
# local may not be called like a global, lest that be taken for the local.

function fail(why) {
    print why > "/dev/stderr"
    failed = 1
    exit 1
}

function declare(i) {
    if (word[i] in is_global) fail("a local has the name of a global: " word[i])
    is_local[word[i]] = 1
}

# Notes the names that are declared from token `i` on, with commas between.
function declare_list(i) {
    for (; sort[i] == "name"; i += 2) {
        declare(i)
        if (word[i + 1] != ",") return
    }
}

function find_locals(   i, j) {
    for (i = 1; i <= words; i++) {
        if (sort[i] != "name" || is_field(i)) continue
        if (word[i] == "local" && word[i + 1] == "function") declare(i + 2)
        else if (word[i] == "local" || word[i] == "for") declare_list(i + 1)
        else if (word[i] == "function") {
            for (j = i + 1; word[j] != "("; j++) if (word[j] == ":") fail("no methods")
            declare_list(j + 1)
        }
    }
}

# Whether a token is the name of a field: `.name`, or a key of a table's constructor.
function is_field(i) {
    if (word[i - 1] == "." || word[i - 1] == ":") return 1
    return inside[i] == "{" && word[i + 1] == "=" && word[i - 1] ~ /^[{,;]$/
}

# inside[i]: the bracket or the word that opens the innermost block around token `i`.
function find_blocks(   i, depth, open) {
    for (i = 1; i <= words; i++) {
        if (word[i] ~ /^([])}]|end|until)$/) depth--
        inside[i] = open[depth]
        if (word[i] ~ /^([[({]|function|if|do|repeat)$/) open[++depth] = word[i]
    }
    if (depth != 0) fail("blocks that do not end")
}

# One letter for the names that are used most, two for the others, in the order of their use.
function choose_names(   i, n, name, names, most, rest, used, text) {
    for (i = 1; i <= words; i++) {
        name = word[i]
        if (sort[i] != "name" || !(name in is_local) || is_field(i)) continue
        if (!(name in used)) names[++n] = name
        used[name]++
    }
    for (rest = n; rest > 0; rest--) {
        if (n - rest < LETTERS_COUNT) {
            most = 0
            for (i = 1; i <= n; i++)
                if (!(names[i] in short) && (most == 0 || used[names[i]] > used[names[most]]))
                    most = i
        } else for (most = 1; names[most] in short; most++) continue
        do text = next_name(); while (text in is_keyword)
        short[names[most]] = text
    }
}

function next_name(   high) {
    high = int(name_number / LETTERS_COUNT)
    if (high > LETTERS_COUNT) fail("too many names")
    return (high > 0 ? substr(LETTERS, high, 1) : "") \
        substr(LETTERS, name_number++ % LETTERS_COUNT + 1, 1)
}

# Whether two tokens would be read as others without a blank between.
function is_apart(i, before, after) {
    if (sort[i - 1] == "number" && after ~ /^\./) return 1
    if (before == "-" && after == "-") return 1
    if (before == "[" && after == "[") return 1
    return before ~ /[A-Za-z_0-9]$/ && after ~ /^[A-Za-z_0-9]/
}

BEGIN {
    LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    LETTERS_COUNT = length(LETTERS)
    split("redis KEYS ARGV string table math bit cjson cmsgpack struct os ipairs pairs next " \
        "pcall error tonumber tostring type unpack select rawget rawset rawequal setmetatable " \
        "getmetatable assert _G self arg", list, " ")
    for (at in list) is_global[list[at]] = 1
    split("and break do else elseif end false for function if in local nil not or repeat " \
        "return then true until while", list, " ")
    for (at in list) is_keyword[list[at]] = 1
}

# The first line of a script may name its engine.
/^#!/ { print; next }

{
    line_first[++lines] = words + 1
    count = lex($0, line_word, line_sort)
    for (at = 1; at <= count; at++) {
        word[++words] = line_word[at]
        sort[words] = line_sort[at]
    }
}

END {
    if (failed) exit 1
    line_first[lines + 1] = words + 1
    find_blocks()
    find_locals()
    choose_names()
    for (i = 1; i <= lines; i++) {
        text = before = ""
        for (at = line_first[i]; at < line_first[i + 1]; at++) {
            after = word[at]
            if (sort[at] == "name" && after in short && !is_field(at)) after = short[after]
            if (at > line_first[i] && is_apart(at, before, after)) text = text " "
            text = text after
            before = after
        }
        print text
    }
}
