#!/usr/bin/env bash
# run.sh FOLDER [WORD]: runs the fuzz targets in it (those whose name has the word), each from
# its corpus and always with the same seed: as many inputs as RUNS says, for no longer than
# FUZZ_SECONDS. An input that breaks something stays, and its file is printed.
set -eu

folder=$1
word=${2:-}
runs=${RUNS:-200000}
seconds=${FUZZ_SECONDS:-10}
here=$(dirname "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/rlockd-fuzz-XXXXXX")
failed=()

for program in "$folder"/fuzz_*; do
    name=${program##*/fuzz_}
    if [[ $name == *.* || $name != *"$word"* ]]; then
        continue
    fi
    mkdir "$work/$name"
    dictionary=$here/$name.dict
    [ -e "$dictionary" ] && dictionary=-dict=$dictionary || dictionary=
    if "$program" -seed=1 -runs="$runs" -max_total_time="$seconds" -timeout=60 \
        -rss_limit_mb=2048 -print_final_stats=1 ${dictionary:+"$dictionary"} \
        -artifact_prefix="$work/$name-" "$work/$name" "$here/corpus/$name" \
        > "$work/$name.log" 2>&1; then
        awk -v name="$name" '/^#[0-9]+.*cov: / { cov = $4; ft = $6 }
            /number_of_executed_units/ { runs = $2 } /average_exec_per_sec/ { rate = $2 }
            END { printf "%-10s %9d inputs, %6d a second, %5d edges, %5d features\n",
                  name, runs, rate, cov, ft }' "$work/$name.log"
    else
        tail -n 60 "$work/$name.log"
        echo "fuzz: $name: broken; the input is $work/$name-*; again: $program THAT"
        failed+=("$name")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "fuzz: broken: ${failed[*]}"
    exit 1
fi
rm -rf "$work"
echo "fuzz: nothing found"
