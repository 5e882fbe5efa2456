#!/usr/bin/env bash
# run.sh VERSION...: runs the suite with each of these versions of Redisson against $RLOCKD_BIN,
# two at a time, prints the matrix (object, direction, version; docs/redisson.md counts the same
# tests) and what the races measured, and fails when a cell of it does. Logs and reports are in
# build/interop/VERSION. INTEROP_PATIENCE=3: a busy machine may take three times as long.
# INTEROP_TOPOLOGY=sentinel, cluster: used by all versions instead of one server; then logs are
# in build/interop/TOPOLOGY/VERSION. ONLY=CensusTest: this class alone.
set -u
cd "$(dirname "$0")" || exit 1

versions=("$@")
output=$(realpath -m "../../build/interop${INTEROP_TOPOLOGY:+/$INTEROP_TOPOLOGY}")
patience=${INTEROP_PATIENCE:-1}
failed=0 summary=()

# run_suite VERSION DIR LOG: up to three times where a download failed; Maven keeps the rest.
run_suite() {
    local version=$1 dir=$2 log=$3 pause_s
    for pause_s in 10 30 0; do
        ! mvn --batch-mode --no-transfer-progress -Dmaven.wagon.http.retryHandler.count=5 \
            -Dtest.seconds=$((120 * patience)) -Dsuite.seconds=$((900 * patience)) \
            -Dredisson.version="$version" -Doutput.dir="$dir" \
            ${ONLY:+"-Dtest=$ONLY"} test > "$log" 2>&1 < /dev/null ||
            return 0
        grep -qE 'Could not (transfer|find) artifact' "$log" || return 1
        grep -m 1 -oE 'Could not (transfer|find) artifact .*' "$log"
        sleep "$pause_s"
    done
    echo "Maven failed three times: does this machine reach Maven's repository?"
    return 1
}

# Two versions at a time: a suite waits two thirds of its time. Background jobs do not hear of a
# Ctrl-C.
trap 'trap - TERM; kill 0' INT TERM
for version in "${versions[@]}"; do
    dir=$output/$version
    rm -rf "$dir"
    mkdir -p "$dir"
    echo "Redisson $version ..."
    [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
    (run_suite "$version" "$dir" "$dir/maven.log" && touch "$dir/passed") > "$dir/run.log" &
done
wait

for version in "${versions[@]}"; do
    dir=$output/$version log=$dir/maven.log
    cat "$dir/run.log"
    if [ ! -f "$dir/passed" ]; then
        failed=1
        echo "Redisson $version:"
        grep -vE '^\[INFO\]|^\sat (java\.base|org\.junit|org\.apache)' "$log"
    fi
    if grep -HE 'Sanitizer|runtime error:' "$dir"/*.log; then
        failed=1
    fi
    touch "$dir/cells.tsv" "$dir/race.txt" "$dir/skipped.txt"
    ran=$(sed -nE 's/^\[[A-Z]+\] (Tests run: [^T]*)$/\1/p' "$log" | tail -1)
    took=$(sed -n 's/.*Total time: *//p' "$log")
    summary+=("Redisson $version: ${ran:-no test was run}${took:+, $took}")
done

# matrix: a row per object and direction, a column per version. When fewer tests ran with one
# version than with the first, that is a failure, too.
matrix() {
    for version in "${versions[@]}"; do
        sed "s/^/$version\t/" "$output/$version/cells.tsv"
    done | sort | awk -F '\t' -v versions="${versions[*]}" '
        {
            row = $2 "\t" $3
            rows[row] = 1
            if ($4 == "passed") passed[$1, row]++
            else if ($4 == "skipped") skipped[$1, row]++
            else failed[$1, row]++
        }
        END {
            columns = split(versions, version, " ")
            head = "| object | direction |"; rule = "|---|---|"
            for (i = 1; i <= columns; i++) {
                head = head " Redisson " version[i] " |"; rule = rule "---|"
            }
            print head; print rule
            arrow["java-to-rest"] = "1 Java → REST"; arrow["rest-to-java"] = "2 REST → Java"
            arrow["both-ways"] = "3 both at once"
            for (row in rows) {
                split(row, at, "\t")
                line = at[1] "\t" arrow[at[2]] "\t"
                for (i = 1; i <= columns; i++) {
                    good = passed[version[i], row] + 0; bad = failed[version[i], row] + 0
                    left_out = skipped[version[i], row] + 0
                    if (i == 1) all = good + bad + left_out
                    if (good + bad + left_out < all || all == 0)
                        cell = "**" good " of " all " passed**"
                    else if (bad > 0) cell = "**" bad " of " good + bad " failed**"
                    else cell = good " passed"
                    if (left_out > 0) cell = cell ", " left_out " skipped"
                    line = line " " cell " |"
                }
                lines[row] = line
            }
            for (row in lines) print lines[row] | "sort"
        }' | sed -E 's/^([^|\t]+)\t[0-9] ([^\t]+)\t/| \1 | \2 |/'
}

echo
matrix | tee "$output/matrix.md"
echo
for version in "${versions[@]}"; do
    sed "s/^/skipped with $version: /" "$output/$version/skipped.txt"
    sed "s/^/race with $version: /" "$output/$version/race.txt"
done
! grep -q -F '**' "$output/matrix.md" && [ "$(wc -l < "$output/matrix.md")" -gt 2 ] || failed=1
echo
printf '%s\n' "${summary[@]}"
echo "interop: $([ $failed -eq 0 ] && echo passed || echo FAILED)"
exit $failed
