#!/usr/bin/env bash
# same.sh SIM COMMIT SEEDS SEED JOBS: whether the runs of these seeds have the same histories,
# to the last byte, with SIM and with the simulation of COMMIT, which is built below build/same.
# For a change that moves or renames only.
set -eu
cd "$(dirname "$0")/../.."

sim=$1 seeds=$3 seed=$4 jobs=$5
commit=$(git rev-parse --quiet --verify "$2^{commit}") || {
    echo "sim-same: no such commit: '$2'; WITH=COMMIT" >&2
    exit 1
}
folder=build/same/${commit:0:12}
if [ ! -x "$folder/build/tests/sim/sim" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    git archive "$commit" | tar -x -C "$folder"
    # Neither the flags of the make that runs this, nor its version.
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory -s -C "$folder" \
        -j"$jobs" RLOCKD_VERSION=dev build/tests/sim/sim > "$folder.log" 2>&1 || {
        tail -n 20 "$folder.log" >&2
        exit 1
    }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work sim before=$folder/build/tests/sim/sim

# one SEED: prints it where the histories differ or one is empty.
one() {
    "$before" --seed="$1" --history="$work/$1.before" > /dev/null || true
    "$sim" --seed="$1" --history="$work/$1.now" > /dev/null || true
    { [ -s "$work/$1.now" ] && cmp -s "$work/$1.before" "$work/$1.now"; } || echo "$1"
    rm -f "$work/$1.before" "$work/$1.now"
}
export -f one
differ=$(seq "$seed" $((seed + seeds - 1)) |
    xargs -P "$jobs" -I '{}' bash -c 'one {}' | sort -n)
if [ -n "$differ" ]; then
    echo "sim-same: other histories than ${commit:0:12} with the seeds ${differ//$'\n'/ }"
    exit 1
fi
echo "sim-same: $seeds histories from seed $seed on, the same as with ${commit:0:12}"
