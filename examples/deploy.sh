#!/bin/sh
# deploy.sh COMMAND [ARGUMENT...]: runs COMMAND under a lock, one COMMAND at a time wherever it is
# started. The lease lasts 10 minutes, COMMAND at most 9; COMMAND finds the grant's fencing token
# in $FENCING_TOKEN. Waits for the lock for about 10 minutes.
# Exit status: COMMAND's (124: stopped after 9 minutes); 1 when the lock was not granted, or was
# lost while COMMAND ran.
# Environment: RLOCKD (localhost:7400; with TLS https://...), LOCK (deploy; percent-encoded, a slash
# is %2F), RLOCKD_TOKEN (an API token), RLOCKD_CURL (further options of curl: --cacert ca.pem).
set -u
lock=${RLOCKD:-localhost:7400}/v1/locks/${LOCK:-deploy}
token=$(uuidgen)
answer=$(mktemp) || exit 1

# ask METHOD [QUERY]: repeats a request with the same token until its outcome is known.
# shellcheck disable=SC2086 # RLOCKD_CURL is several words
ask() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        status=$(curl -sS -m 65 -o "$answer" -w '%{http_code}' ${RLOCKD_CURL:-} \
                      ${RLOCKD_TOKEN:+-H "Authorization: Bearer $RLOCKD_TOKEN"} \
                      -X "$1" -H "Lease-Token: $token" "$lock${2:-}")
        case $status in
            200 | 201) return 0 ;;
            000 | 423 | 429 | 50[234]) sleep 1 ;; # no answer, locked, not executed
            *) break ;;
        esac
    done
    echo "$1 $lock: $status $(cat "$answer")" >&2
    return 1
}

# Releases the lock, or gives up the wait. A release that fails says that the lock was lost.
finish() {
    status_of_command=$?
    ask DELETE || status_of_command=1
    rm -f "$answer"
    exit "$status_of_command"
}

trap finish EXIT
trap 'exit 1' INT TERM HUP
ask PUT '?ttl_ms=600000&wait_ms=55000' || exit 1
FENCING_TOKEN=$(jq .fencing_token "$answer") timeout 540 "$@"
