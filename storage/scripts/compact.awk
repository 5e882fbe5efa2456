# compact.awk: the lines of a script as it is sent, without the blanks that Lua does not need;
# needs head.awk and lexer.awk.

# Whether the tokens would be read as one, or as a comment, without a blank between them.
function would_join(before, before_sort, after, after_sort) {
    if (before_sort == "number" && after ~ /^\./) return 1
    if (before == "-" && after ~ /^-/) return 1
    return before_sort ~ /^(name|number)$/ && after_sort ~ /^(name|number)$/
}

{
    n = lex($0, word, sort)
    out = ""
    for (i = 1; i <= n; i++)
        out = out (would_join(word[i - 1], sort[i - 1], word[i], sort[i]) ? " " : "") word[i]
    print out
}
