#!/bin/sh
# embed.sh FILE.lua...: prints one C table row a script: {"name", "sha1", "text", length},
# A line `-- include NAME` becomes the text of lib/NAME.lua, the first time. The sha1 is that of
# the embedded bytes, since Redis finds a script by it: what would not survive the way into a C
# string unchanged is refused.
set -eu
LC_ALL=C
export LC_ALL

lib=$(dirname "$0")/lib
carriage_return=$(printf '\r')
whole=$(mktemp)
trap 'rm -f "$whole"' EXIT

for file in "$@"; do
    awk -v lib="$lib" -v file="$file" '
        function put(path,   line, got) {
            while ((got = (getline line < path)) > 0) {
                if (line !~ /^-- include /) print line
                else if (!(line in put_already)) {
                    put_already[line] = 1
                    put(lib "/" substr(line, 12) ".lua")
                }
            }
            if (got < 0) { print file ": no " path > "/dev/stderr"; exit 1 }
        }
        BEGIN { put(file) }' > "$whole"
    if [ -n "$(tail -c 1 "$file")" ] || grep -q "$carriage_return" "$whole"; then
        echo "$file: must end in a newline and hold no carriage return" >&2
        exit 1
    fi
    sha1=$(sha1sum < "$whole")
    printf '{"%s", "%s",\n' "$(basename "$file" .lua)" "${sha1%% *}"
    sed -e 's/[\\"?]/\\&/g' -e 's/.*/ "&\\n"/' "$whole"
    printf ' , %d},\n' "$(wc -c < "$whole")"
done
