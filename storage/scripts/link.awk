# link.awk -v lib=FOLDER -v file=FILE.lua [-v cluster=1]: the text of one script as embed.sh
# says. Of a module only what the script can reach is put in: a function is reached by its name
# from a text of its module that is reached, and an entry of the module's table by `.name` from
# any such text.
#
# A module is written for that: `local function name(` and its `end` begin a line, or are on one
# line, and so do `return {` and its `}`, with entries `name = value` separated by commas.

function fail(why) {
    print file ": " why > "/dev/stderr"
    failed = 1
    exit 1
}

# A line without indentation and comment; a comment begins with "--" outside a string.
function strip(line,   at, quote, char) {
    sub(/^ +/, "", line)
    for (at = 1; at <= length(line); at++) {
        char = substr(line, at, 1)
        if (quote != "") {
            if (char == "\\") at++
            else if (char == quote) quote = ""
        } else if (char == "\"" || char == "'") quote = char
        else if (substr(line, at, 2) == "--") line = substr(line, 1, at - 1)
        else if (substr(line, at, 2) == "[[") fail("no long strings")
    }
    sub(/ +$/, "", line)
    return line
}

# Cuts a module into chunks: its functions, and all else between them; and its table's entries.
function load(module,   path, line, got, chunk, kind, table_text, n, i, part, entry) {
    if (module in first) return
    path = lib "/" module ".lua"
    order[++modules] = module
    first[module] = chunk = ++chunks
    while ((got = (getline line < path)) > 0) {
        if (kind == "table" || line ~ /^return \{/) {
            table_text = table_text " " strip(line)
            kind = "table"
            continue
        }
        if (line ~ /^local function /) {
            chunk = ++chunks
            split(line, part, /[ (]/)
            name_of[chunk] = part[3]
            chunk_of[module, part[3]] = chunk
            kind = line ~ / end$/ ? "line" : "function"
        }
        line_text = strip(line)
        if (line_text != "") text[chunk] = text[chunk] line_text "\n"
        if (kind == "line" || (kind == "function" && line == "end")) {
            kind = ""
            chunk = ++chunks
        }
    }
    if (got < 0) fail("no " path)
    close(path)
    last[module] = chunks
    gsub(/^ *return \{|\} *$/, "", table_text)
    n = split(table_text, entry, ",")
    for (i = 1; i <= n; i++) {
        split(entry[i], part, " = ")
        gsub(/ /, "", part[1])
        entry_name[module, i] = part[1]
        entry_value[module, i] = part[2]
    }
    entries[module] = n
    for (i = first[module]; i <= chunks; i++)
        if (!(i in name_of)) reach(module, i)
    for (i = 1; i <= n; i++)
        if (entry_name[module, i] in wanted) reach_text(module, entry_value[module, i])
}

function reach(module, chunk) {
    if (chunk in reached) return
    reached[chunk] = 1
    reach_text(module, text[chunk])
}

function want(name,   i, j) {
    if (name in wanted) return
    wanted[name] = 1
    for (i = 1; i <= modules; i++)
        for (j = 1; j <= entries[order[i]]; j++)
            if (entry_name[order[i], j] == name) reach_text(order[i], entry_value[order[i], j])
}

function reach_text(module, code,   word, before) {
    while (match(code, /\.?[A-Za-z_][A-Za-z_0-9]*/)) {
        word = substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
        if (word ~ /^\./) {
            word = substr(word, 2)
            if (before == "lib") load(word)
            else want(word)
        } else if ((module, word) in chunk_of) reach(module, chunk_of[module, word])
        before = word
    }
}

function put_module(module,   i, list) {
    for (i = first[module]; i <= last[module]; i++)
        if (i in reached) printf "%s", text[i]
    for (i = 1; i <= entries[module]; i++)
        if (entry_name[module, i] in wanted)
            list = list (list == "" ? "" : ", ") entry_name[module, i] " = " \
                entry_value[module, i]
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

# In a cluster a script opens with a command that a node refuses while it sends or receives the
# slot of the keys key by key: it asks for two keys that no node has. Otherwise a script might
# find a key gone to the other node in its midst, and end half done. Clients of Redisson listen to
# channels of the shard or to those of the cluster, as their version is, so messages go both ways;
# `try`, since Redis 6.2 knows no channels of a shard; the probe tells a missing permission.
# Messages among front ends go one way.
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
        if (line ~ /^-- KEYS /) keys = substr(line, 9)
        else if (line ~ /^-- ARGV /) args = substr(line, 9)
        else if (line ~ /^-- modules/) {
            has_modules = 1
            given_count = split(substr(line, 12), given, " ")
        } else if ((line = strip(line)) != "") {
            if (has_modules) after = after line "\n"
            else before = before line "\n"
        }
    }
    if (got < 0) fail("cannot be read")
    for (i = 1; i <= given_count; i++) load(given[i])
    reach_text("", after)
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

END { exit failed }
