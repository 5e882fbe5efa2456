# link.awk -v lib=FOLDER -v file=FILE.lua [-v cluster=1] [-v quorum=FOLDER]: the text of one script
# as embed.sh says; needs head.awk and lexer.awk. Of a module only what the script can reach is
# put in:
#
#   lib.NAME.entry     one entry of the table that the module NAME returns
#   alias.entry        the same, after `local alias = lib.NAME` in the same file
#   lib[name].entry    that entry of each module in the script's line `-- modules NAME...`; also
#                      after `local alias = lib[name]`
#   lib.NAME, alias    in any other place: the whole module
#   name               a function or a local of the module itself
#
# KEY_NAME and ARG_NAME are the positions of the names in the script's lines `-- KEYS` and
# `-- ARGV`, KEY_COUNT is the number of names in the first: in modules, too, which so are for
# scripts with such names.
#
# A module is written for that. It has functions, `local function name(` and its `end` at the
# beginning of a line, or all on one line; locals, whose further lines are indented; and at its
# end `return {` and `}`, with entries `name = value` separated by commas.

# A line without indentation and comment.
function strip(line) {
    lex(line, line_word, line_sort)
    line = substr(line, 1, lex_end)
    sub(/^ +/, "", line)
    return line
}

# Adds a chunk to a module: a function, or one or several locals.
function add_chunk(module, names, code,   i, n, name) {
    text[++chunks] = code "\n"
    n = split(names, name, /, */)
    for (i = 1; i <= n; i++) chunk_of[module, name[i]] = chunks
    if (n == 1 && match(code, / = lib\.[a-z_]+$/))
        alias[module, names] = substr(code, RSTART + 7)
}

# Adds the locals of a statement, each as a chunk of its own where each has a value of its own.
function add_locals(module, code,   at, names, values, n, name, value, i) {
    at = index(code, " = ")
    if (at == 0) fail("a local without a value in " module ": " code)
    names = substr(code, 7, at - 7)
    values = substr(code, at + 3)
    n = split(names, name, /, */)
    if (n == 1 || n != split(values, value, /, */) || values ~ /[({[]/) {
        add_chunk(module, names, code)
        return
    }
    for (i = 1; i <= n; i++) add_chunk(module, name[i], "local " name[i] " = " value[i])
}

# The file of a module: in the form for a quorum that of FOLDER/lib, if there is one.
function path_of(module,   path, line, got) {
    path = quorum "/lib/" module ".lua"
    if (quorum == "" || (got = (getline line < path)) < 0) return lib "/" module ".lua"
    close(path)
    return path
}

# A line of a file. What stands behind `--quorum: ` is code in the form for a quorum, and in all
# others a comment.
function in_form(line) {
    if (quorum != "") sub(/^ *--quorum: /, "", line)
    return line
}

function load(module,   path, line, got, code, kind, name, table_text, n, i, part, entry) {
    if (module in first) return
    path = path_of(module)
    order[++modules] = module
    first[module] = chunks + 1
    while ((got = (getline line < path)) > 0) {
        if (line ~ /^ *--quorum: / && quorum != "") line = " " in_form(line)
        if (kind == "locals" && line !~ /^ /) {
            add_locals(module, code)
            kind = ""
        }
        if (strip(line) == "") continue
        if (kind == "") {
            code = ""
            if (line ~ /^return \{/) kind = "table"
            else if (line ~ /^local function /) kind = "function"
            else if (line ~ /^local /) kind = "locals"
            else fail("neither function nor local in " path ": " line)
            split(line, part, /[ (]/)
            name = part[3]
        }
        code = code (code == "" ? "" : kind == "table" ? " " : "\n") strip(line)
        if (kind == "table") table_text = code
        if (kind == "function" && (line == "end" || (line ~ /^local .* end$/))) {
            add_chunk(module, name, code)
            kind = ""
        }
    }
    if (got < 0) fail("no " path)
    if (kind != "table") fail("no table at the end of " path)
    close(path)
    last[module] = chunks
    gsub(/^return \{|\} *$/, "", table_text)
    n = split(table_text, entry, ",")
    for (i = 1; i <= n; i++) {
        split(entry[i], part, " = ")
        gsub(/ /, "", part[1])
        entry_name[module, i] = part[1]
        entry_value[module, part[1]] = part[2]
    }
    entries[module] = n
}

function want(module, name) {
    load(module)
    if ((module, name) in wanted) return
    if (!((module, name) in entry_value)) fail("lib." module " has no " name)
    wanted[module, name] = 1
    reach_text(module, entry_value[module, name])
}

function want_all(module,   i) {
    load(module)
    for (i = 1; i <= entries[module]; i++) want(module, entry_name[module, i])
}

# Wants an entry of each module that the script's line `-- modules` names, where it has one.
function want_given(name,   i) {
    for (i = 1; i <= given_count; i++) {
        load(given[i])
        if ((given[i], name) in entry_value) want(given[i], name)
    }
}

function reach(chunk, module) {
    if (chunk in reached) return
    reached[chunk] = 1
    reach_text(module, text[chunk])
}

# The tokens of a text in tokens[number, 1..n], "\n" for the end of a line.
function take_tokens(code, number,   line, lines, i, j, n, count) {
    lines = split(code, line, "\n")
    for (i = 1; i <= lines; i++) {
        count = lex(line[i], line_word, line_sort)
        for (j = 1; j <= count; j++)
            tokens[number, ++n] = line_sort[j] == "string" ? "''" : line_word[j]
        tokens[number, ++n] = "\n"
    }
    return n
}

# The token after the bracket that closes the one at `i`.
function after_bracket(t, i,   depth) {
    do {
        if (tokens[t, i] ~ /^[[({]$/) depth++
        else if (tokens[t, i] ~ /^[])}]$/) depth--
        i++
    } while (depth > 0)
    return i
}

# `local a, b = lib.x, lib[y]`: what the names stand for. `at`: of the first name.
function note_aliases(module, t, at,   names, i, name, value) {
    for (i = at; tokens[t, i] ~ /^[a-z_]+$/; i += 2) {
        name[++names] = tokens[t, i]
        if (tokens[t, i + 1] != ",") break
    }
    if (tokens[t, ++i] != "=") return
    for (at = 1; at <= names; at++) {
        value = ""
        if (tokens[t, ++i] == "lib" && tokens[t, i + 1] == ".") {
            value = tokens[t, i + 2]
            i += 3
        } else if (tokens[t, i] == "lib" && tokens[t, i + 1] == "[") {
            value = "[]"
            i = after_bracket(t, i + 1)
        }
        if (value != "" && tokens[t, i] ~ /^[,\n]$/) alias[module, name[at]] = value
        while (tokens[t, i] !~ /^[,\n]$/)
            i = tokens[t, i] ~ /^[[({]$/ ? after_bracket(t, i) : i + 1
        if (tokens[t, i] == "\n") return
    }
}

function reach_text(module, code,   t, n, i, token, value, next_at) {
    t = ++texts
    n = take_tokens(code, t)
    for (i = 1; i <= n; i++) {
        token = tokens[t, i]
        if (token == "local") {
            note_aliases(module, t, i + 1)
            continue
        }
        if (token !~ /^[A-Za-z_]/ || tokens[t, i - 1] == ".") continue
        value = ""
        next_at = i + 1
        if (token == "lib" && tokens[t, i + 1] == ".") {
            value = tokens[t, i + 2]
            next_at = i + 3
        } else if (token == "lib" && tokens[t, i + 1] == "[") {
            value = "[]"
            next_at = after_bracket(t, i + 1)
        } else if ((module, token) in alias) {
            value = alias[module, token]
        }
        if ((module, token) in chunk_of) reach(chunk_of[module, token], module)
        if (value == "") continue
        if (tokens[t, next_at] == ".") {
            if (value == "[]") want_given(tokens[t, next_at + 1])
            else want(value, tokens[t, next_at + 1])
        } else if (value != "[]" && !is_declared(module, t, i, next_at)) {
            want_all(value)
        }
    }
}

# Whether a module's name in a text only gives the module another name.
function is_declared(module, t, i, next_at) {
    if (tokens[t, i] == "lib")
        return tokens[t, next_at] ~ /^[,\n]$/ && tokens[t, i - 1] ~ /^[=,]$/
    while (tokens[t, i - 1] == ",") i -= 2
    return tokens[t, i - 1] == "local"
}

function put_module(module,   i, list, name) {
    for (i = first[module]; i <= last[module]; i++)
        if (i in reached) printf "%s", text[i]
    for (i = 1; i <= entries[module]; i++) {
        name = entry_name[module, i]
        if ((module, name) in wanted)
            list = list (list == "" ? "" : ", ") name " = " entry_value[module, name]
    }
    print "return {" list "}"
}

function put_modules(   i) {
    if (modules == 0) return
    print "local lib = setmetatable({}, {__index = function(lib, name)"
    print "local module"
    for (i = 1; i <= modules; i++) {
        print (i > 1 ? "elseif" : "if") " name == '" order[i] "' then"
        print "module = (function()"
        put_module(order[i])
        print "end)()"
    }
    print "end"
    print "lib[name] = module"
    print "return module"
    print "end})"
}

function put_locals(table_name, words,   i, n, name, names, values, word) {
    n = split(words, word, " ")
    for (i = 1; i <= n; i++) {
        name = word[i]
        if (name ~ /\.\.\.$/) continue
        gsub(/[][]/, "", name)
        names = names (names == "" ? "" : ", ") name
        values = values (values == "" ? "" : ", ") table_name "[" i "]"
    }
    if (names != "") print "local " names " = " values
}

# Notes the positions of names.
function note_positions(what, words,   i, n, name, word) {
    n = split(words, word, " ")
    for (i = 1; i <= n; i++) {
        name = word[i]
        gsub(/[][.]/, "", name)
        position[what "_" toupper(name)] = i
    }
    position[what "_COUNT"] = n
}

# The text with numbers instead of the names of positions.
function with_positions(code,   name, out) {
    while (match(code, /(^|[^A-Za-z0-9_])(KEY|ARG)_[A-Z_]+/)) {
        name = substr(code, RSTART, RLENGTH)
        out = out substr(code, 1, RSTART - 1)
        if (name !~ /^[KA]/) out = out substr(name, 1, 1)
        code = substr(code, RSTART + RLENGTH)
        sub(/^[^KA]/, "", name)
        if (!(name in position)) fail("no name for " name)
        out = out position[name]
    }
    return out code
}

# In a cluster a script opens with a command that a node refuses while it sends or receives the
# slot of the keys key by key: it asks for two keys that no node has. Otherwise a script might
# find a key gone to the other node in its midst, and end half done. Clients of Redisson listen to
# channels of the shard or to those of the cluster, as their version is, so messages go both ways;
# `try`, since Redis 6.2 knows no channels of a shard; the probe tells a missing permission.
# Messages among front ends go one way. In the form for a shard (`shard`) messages go to the shard
# only, where Redis knows it: every node gets, and has to read, what is published to all.
# The listeners of a channel, of the kind that has more: rlockd is among both.
function put_cluster_listeners() {
    print "local function listeners_of(channel)"
    print "local all, shard = try('pubsub', 'numsub', channel), try('pubsub', 'shardnumsub', channel)"
    print "if all.err then return all end"
    print "if shard.err then return string.find(shard.err, 'nknown subcommand') and all or shard end"
    print "return shard[2] > all[2] and shard or all"
    print "end"
}

function put_cluster_prelude(text,   tag) {
    print "local guard = 'rlockd:none:{' .. (string.match(KEYS[1], '{([^}]+)}') or KEYS[1]) .. '}'"
    print "call('mget', guard, guard .. ':')"
    if (text ~ /listeners_of\(/) put_cluster_listeners()
    if (text !~ /announce\(/) return
    print "local function announce(channel, message)"
    print "local reply = try('spublish', channel, message)"
    if (file ~ /probe\.lua$/) {
        print "local err = type(reply) == 'table' and reply.err or ''"
        print "if string.find(err, 'user executing') or string.find(err, 'ACL failure') then"
        print "return call('spublish', channel, message)"
        print "end"
    }
    if (shard) print "if type(reply) ~= 'table' then return reply end"
    print "return call('publish', channel, message)"
    print "end"
}

function for_cluster(code) {
    gsub(/call\('publish', /, "announce(", code)
    gsub(/announce\('rlockd:/, "call('publish', 'rlockd:", code)
    gsub(/try\('pubsub', 'numsub', /, "listeners_of(", code)
    return code
}

BEGIN {
    while ((got = (getline line < file)) > 0) {
        if (line ~ /^-- KEYS /) has_keys = 1
        else if (line ~ /^-- ARGV /) has_args = 1
        else if (line ~ /^-- modules/) {
            has_modules = 1
            given_count = split(substr(line, 12), given, " ")
        } else if ((line = strip(in_form(line))) != "") {
            if (has_modules) after = after line "\n"
            else before = before line "\n"
        }
    }
    if (got < 0) fail("cannot be read")
    close(file)
    if (has_keys) keys = head_names(file, "KEYS")
    if (has_args) args = head_names(file, "ARGV")
    note_positions("KEY", keys)
    note_positions("ARG", args)
    for (i = 1; i <= given_count; i++) load(given[i])
    reach_text("", after)
    before = with_positions(before)
    after = with_positions(after)
    for (i = 1; i <= chunks; i++) if (i in reached) text[i] = with_positions(text[i])
    if (cluster) {
        before = for_cluster(before)
        after = for_cluster(after)
        for (i = 1; i <= chunks; i++) if (i in reached) all = all (text[i] = for_cluster(text[i]))
    }
    print "local call, try = redis.call, redis.pcall"
    if (cluster) put_cluster_prelude(before after all)
    put_locals("KEYS", keys)
    put_locals("ARGV", args)
    printf "%s", before
    put_modules()
    printf "%s", after
}
