#!/bin/sh
# backup.sh FOLDER TARGET: a script that takes a lock for the rest of its life, by one line.
#
# When things go wrong
# - Another backup runs: this one waits five minutes, then ends with status 75.
# - The script fails, or is killed: `rlock hold` notices that its process is gone, and releases the
#   lock.
# - TERM to the process group, as of a CI system: `rlock hold` gets it, too, and releases the lock
#   while this script removes its half copy. `rlock run` releases it when a script has ended.
# - The lock is lost: the script gets TERM before another client can have the lock. `trap` leaves
#   no half copy, and the status is 143.
# - The machine dies: the lock is free after 30 s.
set -eu
grant=$(rlock hold "${LOCK:-backup}" --wait "${WAIT:-5m}" --pid $$ &)
[ -n "$grant" ] || exit 75

part=$2.part
trap 'rm -rf "$part"' EXIT
trap 'exit 143' TERM
mkdir "$part"
for file in "$1"/*; do
    cp "$file" "$part/"
    sleep "${PAUSE:-0}" & wait $! # a shell runs its traps between two commands, and during `wait`
done
mv "$part" "$2"
