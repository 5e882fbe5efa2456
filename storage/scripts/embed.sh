#!/bin/sh
# embed.sh FILE.lua...: prints one C table row a script: {"name", "sha1", "text", length},
# The sha1 is that of the embedded bytes, since Redis finds a script by it: what would not
# survive the way into a C string unchanged is refused.
set -eu
LC_ALL=C
export LC_ALL

carriage_return=$(printf '\r')
for file in "$@"; do
    if [ -n "$(tail -c 1 "$file")" ] || grep -q "$carriage_return" "$file"; then
        echo "$file: must end in a newline and hold no carriage return" >&2
        exit 1
    fi
    sha1=$(sha1sum < "$file")
    printf '{"%s", "%s",\n' "$(basename "$file" .lua)" "${sha1%% *}"
    sed -e 's/[\\"?]/\\&/g' -e 's/.*/ "&\\n"/' "$file"
    printf ' , %d},\n' "$(wc -c < "$file")"
done
