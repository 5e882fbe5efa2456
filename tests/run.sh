#!/usr/bin/env bash
# run.sh PROGRAM...: runs cmocka test programs one after the other, shows the output of those
# that fail (VERBOSE=1: of all), sums up, and fails when any failed. A program that crashes,
# hangs or runs no test is one failure.
set -u

if [ $# -eq 0 ]; then
    echo "run.sh: no test program to run" >&2
    exit 1
fi
timeout_s=${RLOCKD_TEST_TIMEOUT_S:-300}
output=$(mktemp)
running=
trap 'rm -f "$output"' EXIT
trap '[ -z "$running" ] || kill "$running"; exit 130' INT TERM

# count WORD: the sum over cmocka's summary lines `[  WORD  ] n test(s)`; newer versions put the
# group's name before the number.
count() {
    sed -nE "s/^\[ *$1 *\] (.*: )?([0-9]+) test\(s\).*/\2/p" "$output" |
        awk '{ n += $1 } END { print n + 0 }'
}

passed=0 failed=0 skipped=0 summary=()
for program in "$@"; do
    name=${program#build/}
    started_us=${EPOCHREALTIME/[.,]/}
    timeout --kill-after=10 "$timeout_s" "$program" < /dev/null > "$output" 2>&1 &
    running=$!
    wait "$running" 2> /dev/null
    status=$?
    running=
    took_ms=$(((${EPOCHREALTIME/[.,]/} - started_us) / 1000))

    # cmocka counts a test that failed in its set-up, its teardown or by fail() there as an
    # error, and leaves errors out of its summary.
    errors=$(grep -acE '^\[ *ERROR *\] [^ ]+$' "$output")
    ok=$(count PASSED) bad=$(($(count FAILED) + errors)) left=$(count SKIPPED) why=
    case $status in
        0) [ $((ok + bad + left)) -gt 0 ] || { bad=1; why="ran no test"; } ;;
        124 | 137) bad=$((bad + 1)) why="still running after $timeout_s s" ;;
        *) [ "$bad" -gt 0 ] || { bad=1; why="exit status $status"; } ;;
    esac
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))

    if [ "$bad" -gt 0 ]; then
        bad_tests=$(sed -nE 's/^\[ *(FAILED|ERROR) *\] ([^ ]+)$/\2/p' "$output" |
            sort -u | xargs)
        summary+=("failed: $name: ${bad_tests:-$why}")
        cat "$output"
        verdict=FAILED
    else
        [ -z "${VERBOSE:-}" ] || cat "$output"
        verdict=ok
    fi
    printf '%-6s %-40s %3d passed, %d failed%s  %d.%d s%s\n' "$verdict" "$name" "$ok" "$bad" \
        "$([ "$left" -eq 0 ] || echo ", $left skipped")" \
        $((took_ms / 1000)) $((took_ms % 1000 / 100)) "${why:+  ($why)}"
done

[ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
