# lexer.awk: the tokens of a line of Lua, for link.awk. Strings of several lines and comments of
# several lines are refused.

# Fills word[1..n] and sort[1..n], "name", "number", "string" or "sign", and returns n. A comment
# is no token. lex_end: the length of the line up to its last token. Fails on what Lua does not
# know.
function lex(line, word, sort,   n, size, whole) {
    whole = length(line)
    lex_end = 0
    for (n = 0; ; line = substr(line, size + 1)) {
        sub(/^[ \t]+/, "", line)
        if (line == "" || line ~ /^--/) break
        n++
        if (match(line, /^[A-Za-z_][A-Za-z_0-9]*/)) sort[n] = "name"
        else if (match(line, /^(0[xX][0-9A-Fa-f]+|[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)/))
            sort[n] = "number"
        else if (match(line, /^('([^'\\]|\\.)*'|"([^"\\]|\\.)*")/)) sort[n] = "string"
        else if (match(line, /^(\.\.\.|\.\.|==|~=|<=|>=|[-+*\/%^#<>=(){};:,.]|\[|\])/))
            sort[n] = "sign"
        else fail("no Lua: " line)
        size = RLENGTH
        word[n] = substr(line, 1, size)
        lex_end = whole - length(line) + size
        if (line ~ /^\[=*\[/) fail("strings of several lines are not read: " line)
    }
    if (line ~ /^--\[=*\[/) fail("comments of several lines are not read: " line)
    return n
}
