#!/bin/sh
# embed.sh rows FILE.lua...: one C table row a script: {"name", "sha1", "text", length, sync,
# grants},
# embed.sh cluster-rows FILE.lua...: the same, of the scripts as they are sent to a cluster;
# shard-rows: to a cluster where messages go to the shard only; quorum-rows: to a node of a
# quorum
# embed.sh enums FILE.lua...: positions of KEYS, ARGV and of values in replies as C enums
# embed.sh text FILE.lua: a script as it is sent to Redis
# embed.sh cluster-text FILE.lua, shard-text, quorum-text: as it is sent there
#
# To a node of a quorum the script quorum/FILE.lua is sent, if there is one, and of modules
# those in quorum/lib; KEYS, ARGV and replies of quorum/FILE.lua are QUORUM_FILE_... in C. A
# line `--quorum: code` of another script or module is code in this form only. A script that is
# in quorum/ alone has an empty row in the other forms.
#
# Redis is sent the script without comments and indentation, and this:
#
#   first             the line $SCRIPT_HEAD, if that is set
#   then              local call, try = redis.call, redis.pcall
#   then              a local for each name in the lines `-- KEYS name...`, `-- ARGV name...`.
#                     [name]: may be missing. `name...`, the last of KEYS: it gets no local; the
#                     keys up to it come once or more
#                     KEY_NAME and ARG_NAME are the positions of these names, KEY_COUNT the
#                     number of those of KEYS. `as FILE.lua`: those of another script; see
#                     head.awk
#   `-- modules`      the modules lib/NAME.lua that are used as `lib.NAME` below this line or by
#                     a module: see link.awk. A module runs when it is first used, and returns
#                     a table. `-- modules NAME...`: and those that are used as `lib[name]`
#
# Lines `-- REPLY word|word name...` name the values of a reply behind the word that the reply
# begins with: in C SCRIPT_REPLY_WORD_NAME. `[]` in place of the words: the reply has no word,
# SCRIPT_REPLY_NAME, and there are SCRIPT_REPLY_VALUES of them. `[item] name...`: the names of
# each item of a flat list in a reply, SCRIPT_REPLY_ITEM_NAME, SCRIPT_REPLY_ITEM_VALUES.
#
# A line `-- sync yes` or `-- sync no` in a script says whether its reply waits for the replicas
# of --sync-replicas: yes, where a client relies on what the script did. `-- sync cluster`: in a
# cluster only; elsewhere the script whose reply the client gets waits for both. A line
# `-- grants yes` says that it may grant a lease, which a quarantine forbids.
#
# Redis finds a script by the SHA-1 of its bytes: what would not come through a C string
# unchanged is refused.
set -eu
LC_ALL=C
export LC_ALL

here=$(dirname "$0")

SIZE_MAX=32768

# Without blanks that Lua does not need: a vote has much to do, and would be too long with them.
compact() {
    awk -f "$here/head.awk" -f "$here/lexer.awk" -f "$here/compact.awk" "$whole" > "$whole.c"
    mv "$whole.c" "$whole"
}

# The script in the file $whole.
expand() {
    {
        [ -z "${SCRIPT_HEAD:-}" ] || printf '%s\n' "$SCRIPT_HEAD"
        awk -v lib="$here/lib" -v file="$1" -v cluster="$cluster" -v shard="$shard" \
            -v quorum="$quorum" -f "$here/head.awk" -f "$here/lexer.awk" -f "$here/link.awk"
    } > "$whole"
    [ -z "$quorum" ] || compact
    size=$(wc -c < "$whole")
    [ "$size" -le "$SIZE_MAX" ] || {
        echo "$1: $size bytes as sent (at most $SIZE_MAX)" >&2
        exit 1
    }
}

# Where the script quorum/NAME.lua of a file NAME.lua is.
of_quorum() {
    echo "$(dirname "$1")/quorum/$(basename "$1")"
}

enums() {
    awk -v file="$1" -v script="$2" -f "$here/head.awk" -f "$here/enums.awk"
}

row() {
    [ -f "$1" ] || {
        printf '{"%s", "", "", 0, false, false},\n' "$(basename "$1" .lua)"
        return
    }
    expand "$1"
    if [ -n "$(tail -c 1 "$1")" ] || grep -q "$(printf '\r')" "$whole"; then
        echo "$1: must end in a newline and hold no carriage return" >&2
        exit 1
    fi
    case $(grep '^-- sync ' "$1") in
        '-- sync yes') sync=true ;;
        '-- sync no') sync=false ;;
        '-- sync cluster') sync=$([ -n "$cluster" ] && echo true || echo false) ;;
        *) echo "$1: one line must be \`-- sync yes\`, \`no\` or \`cluster\`" >&2 && exit 1 ;;
    esac
    grants=$(grep -qx -- '-- grants yes' "$1" && echo true || echo false)
    sha1=$(sha1sum < "$whole")
    printf '{"%s", "%s",\n' "$(basename "$1" .lua)" "${sha1%% *}"
    sed -e 's/[\\"?]/\\&/g' -e 's/.*/ "&\\n"/' "$whole"
    printf ' , %d, %s, %s},\n' "$size" "$sync" "$grants"
}

form=${1#*-} cluster='' shard='' quorum=''
case $1 in
    cluster-*) cluster=1 ;;
    shard-*) cluster=1 shard=1 ;;
    quorum-*) quorum=$here/quorum ;;
esac
shift
whole=$(mktemp)
trap 'rm -f "$whole"' EXIT
[ "$form" != enums ] || echo "/* Positions of KEYS, ARGV and replies. */"
for file in "$@"; do
    name=$(basename "$file" .lua)
    other=$(of_quorum "$file")
    [ -z "$quorum" ] || [ ! -f "$other" ] || file=$other
    case $form in
        rows) row "$file" ;;
        enums)
            [ ! -f "$file" ] || enums "$file" "$name"
            [ ! -f "$other" ] || enums "$other" "quorum_$name"
            ;;
        text) expand "$file" && cat "$whole" ;;
    esac
done
