#!/usr/bin/env bash
# run.sh RLOCKD CLIENT...: generates a client of each kind from openapi.yaml, compiles it, and
# runs its smoke test against a private rlockd with a Redis of its own. A client is a folder
# here; its run.sh prints `ok STEP` for each step that passed, and must pass every step of
# `steps`. Logs and generated code are in build/clients/CLIENT.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
cd "$here/../.." || exit 1

rlockd=$1
shift
export SPEC=$PWD/openapi.yaml
timeout_s=${CLIENTS_TIMEOUT_S:-900}
passed=0 failed=0 summary=()

# shellcheck source=tests/clients/server.sh
. "$here/server.sh"

# judge CLIENT LOG MILLISECONDS: counts the steps that passed and those that did not.
judge() {
    local client=$1 log=$2 took_ms=$3 missing good bad verdict=ok

    missing=$(grep -vxFf <(sed -n 's/^ok //p' "$log") "$here/steps" | xargs)
    bad=$(wc -w <<< "$missing")
    good=$(($(wc -l < "$here/steps") - bad))
    passed=$((passed + good)) failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        verdict=FAILED
        summary+=("failed: $client: $missing")
        tail -n 60 "$log"
    fi
    printf '%-6s %-20s %3d passed, %d failed  %d.%d s\n' "$verdict" "$client" "$good" "$bad" \
        $((took_ms / 1000)) $((took_ms % 1000 / 100))
}

start_server "$rlockd" build/clients/server
for client in "$@"; do
    if [ ! -x "$here/$client/run.sh" ]; then
        echo "no such client: $client" >&2
        exit 2
    fi
    export OUT=$PWD/build/clients/$client
    rm -rf "$OUT"
    mkdir -p "$OUT"
    started_us=${EPOCHREALTIME/[.,]/}
    timeout "$timeout_s" "$here/$client/run.sh" > "$OUT/log" 2>&1 < /dev/null
    judge "$client" "$OUT/log" $(((${EPOCHREALTIME/[.,]/} - started_us) / 1000))
done

[ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
