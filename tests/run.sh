#!/usr/bin/env bash
# run.sh PROGRAM...: runs cmocka test programs, shows the output of those that fail (VERBOSE=1:
# of all), sums up, and fails when any failed. A program that crashes, hangs or runs no test is
# one failure. A program whose failed tests all failed while the machine stood still, as each of
# them measured, says nothing of rlockd: it runs once more, and the last lines tell of both.
#
# JOBS: how many run at a time. Most programs wait most of the time, so the default is three for
# each processor; 1: one after the other, in the order given.
set -u

if [ $# -eq 0 ]; then
    echo "run.sh: no test program to run" >&2
    exit 1
fi
jobs=${JOBS:-$(($(nproc) * 3))}
case $jobs in
    '' | 0* | *[!0-9]*) echo "run.sh: JOBS is no number above 0: $jobs" >&2 && exit 1 ;;
esac
patience=${E2E_PATIENCE:-1}
patience=${patience%%.*}
timeout_s=${RLOCKD_TEST_TIMEOUT_S:-$((240 + 60 * ${patience:-1}))}
outputs=$(mktemp -d)
started=0
# Of the programs that run, by process id.
declare -A program_of=() output_of=() started_us_of=()
declare -A is_again=() # those that run once more, by their path
trap 'rm -rf "$outputs"' EXIT
trap 'jobs -p | xargs -r kill 2> /dev/null; exit 130' INT TERM

# The programs that take longest, longest first: they start before the rest, so that none is
# left to run alone at the end. A program that is missing here only costs time.
slowest="topology_racer topology_sentinel hand_over_shares lost_data floods sessions_many
    sessions_fronts fair_faults waiter_pace wait_costs watchdog watchdog_redis fair_java
    multi_locks_faults read_write_waiting racer api_tokens keep_alive hand_over
    read_write_sessions session_chaos redis_network limits redis_tls waiting redis_trouble
    redis_connect reentrancy sessions_end tls http_safety operations fair embedded
    read_write_leases idempotency multi_locks_wait permit_semaphores http_bodies lost_wakeups
    readyz command process semaphores places"

# in_order PROGRAM...: fills `programs`, the slowest first.
in_order() {
    local word program
    local -A is_left=()

    programs=()
    for program in "$@"; do is_left[$program]=1; done
    for word in $slowest; do
        for program in "$@"; do
            case $program in
                */test_"$word" | */test_"$word".py)
                    programs+=("$program") && unset "is_left[$program]" ;;
            esac
        done
    done
    for program in "$@"; do
        [ -z "${is_left[$program]:-}" ] || programs+=("$program")
    done
}

# count WORD OUTPUT: the sum over cmocka's summary lines `[  WORD  ] n test(s)`; newer versions
# put the group's name before the number.
count() {
    sed -nE "s/^\[ *$1 *\] (.*: )?([0-9]+) test\(s\).*/\2/p" "$2" |
        awk '{ n += $1 } END { print n + 0 }'
}

start() {
    started=$((started + 1))
    timeout --kill-after=10 "$timeout_s" "$1" < /dev/null > "$outputs/$started" 2>&1 &
    program_of[$!]=$1
    output_of[$!]=$outputs/$started
    started_us_of[$!]=${EPOCHREALTIME/[.,]/}
}

passed=0 failed=0 skipped=0 summary=()

# judge PROGRAM OUTPUT STATUS TOOK_MS
judge() {
    local name=${1#build/} output=$2 status=$3 took_ms=$4
    local errors ok bad left stood why='' bad_tests verdict

    # cmocka counts a test that failed in its set-up, its teardown or by fail() there as an
    # error, and leaves errors out of its summary.
    errors=$(grep -acE '^\[ *ERROR *\] [^ ]+$' "$output")
    ok=$(count PASSED "$output") bad=$(($(count FAILED "$output") + errors))
    left=$(count SKIPPED "$output")
    case $status in
        0) [ $((ok + bad + left)) -gt 0 ] || { bad=1; why="ran no test"; } ;;
        124 | 137) bad=$((bad + 1)) why="still running after $timeout_s s" ;;
        *) [ "$bad" -gt 0 ] || { bad=1; why="exit status $status"; } ;;
    esac

    if [ "$bad" -gt 0 ]; then
        bad_tests=$(sed -nE 's/^\[ *(FAILED|ERROR) *\] ([^ ]+)$/\2/p' "$output" |
            sort -u | xargs)
        stood=$(grep -ac "^the machine stood still" "$output")
        if [ -z "${is_again[$1]:-}" ] && [ "$stood" -ge "$bad" ]; then
            summary+=("again: $name: ${bad_tests:-$why}, while the machine stood still")
            cat "$output"
            rm -f "$output"
            echo "again  $name"
            is_again[$1]=1
            start "$1"
            return
        fi
        summary+=("failed: $name: ${bad_tests:-$why}")
        cat "$output"
        verdict=FAILED
    else
        [ -z "${VERBOSE:-}" ] || cat "$output"
        verdict=ok
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
    rm -f "$output"
    printf '%-6s %-40s %3d passed, %d failed%s  %d.%d s%s\n' "$verdict" "$name" "$ok" "$bad" \
        "$([ "$left" -eq 0 ] || echo ", $left skipped")" \
        $((took_ms / 1000)) $((took_ms % 1000 / 100)) "${why:+  ($why)}"
}

# Waits for the end of any program that runs, and judges it.
reap() {
    local pid='' status took_ms program output

    wait -n -p pid "${!program_of[@]}" 2> /dev/null
    status=$?
    if [ -z "${pid:-}" ]; then # bash may have forgotten which one it was, not its status
        for pid in "${!program_of[@]}"; do kill -0 "$pid" 2> /dev/null || break; done
        wait "$pid" 2> /dev/null
        status=$?
    fi
    took_ms=$(((${EPOCHREALTIME/[.,]/} - started_us_of[$pid]) / 1000))
    program=${program_of[$pid]} output=${output_of[$pid]}
    unset "program_of[$pid]" "output_of[$pid]" "started_us_of[$pid]"
    judge "$program" "$output" "$status" "$took_ms"
}

programs=("$@")
[ "$jobs" -eq 1 ] || in_order "$@"
for program in "${programs[@]}"; do
    [ ${#program_of[@]} -lt "$jobs" ] || reap
    start "$program"
done
while [ ${#program_of[@]} -gt 0 ]; do reap; done

[ "${E2E_REDIS_CLUSTER:-}" != 1 ] || echo "Redis: a cluster of one server (E2E_REDIS_CLUSTER=1)"
[ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
