#!/usr/bin/env bash
# build.sh COMMIT: builds the rlockd of that commit below build/upgrade, unless it is there, and
# prints the path of the program.
set -eu
cd "$(dirname "$0")/../.."

commit=$(git rev-parse --quiet --verify "$1^{commit}") || {
    echo "test-upgrade: this clone has no commit $1 (git fetch --unshallow)" >&2
    exit 1
}
folder=build/upgrade/${commit:0:12}
if [ ! -x "$folder/build/rlockd" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    git archive "$commit" | tar -x -C "$folder"
    # Neither the flags of the make that runs this, nor its version.
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory -C "$folder" \
        -j"$(nproc)" RLOCKD_VERSION="${commit:0:12}" build/rlockd > "$folder.log" 2>&1 || {
        tail -20 "$folder.log" >&2
        exit 1
    }
fi
echo "$folder/build/rlockd"
