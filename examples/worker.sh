#!/bin/sh
# worker.sh COMMAND [ARGUMENT...]: waits for a lock, then runs COMMAND for as long as COMMAND
# takes, while a session holds the lock. Stops COMMAND when the lock is lost, or could be lost
# within 5 s. COMMAND finds the grant's fencing token in $FENCING_TOKEN.
# Exit status: COMMAND's; 1 when the lock was not granted, or was lost while COMMAND ran.
# Environment: RLOCKD (localhost:7400; with TLS https://...), LOCK (worker; percent-encoded, a slash
# is %2F), RLOCKD_TOKEN (an API token), RLOCKD_CURL (further options of curl: --cacert ca.pem).
set -u
server=${RLOCKD:-localhost:7400} lock=${LOCK:-worker}
session=$(uuidgen) token=$(uuidgen) # a lease token and a session token
files=$(mktemp -d) || exit 1

# ask NAME SECONDS METHOD PATH: prints the status, 000 without an answer; the body is in $files.
# shellcheck disable=SC2086 # RLOCKD_CURL is several words
ask() {
    curl -sS -m "$2" -X "$3" -o "$files/$1" -w '%{http_code}' ${RLOCKD_CURL:-} \
         ${RLOCKD_TOKEN:+-H "Authorization: Bearer $RLOCKD_TOKEN"} \
         "$server/v1/$4" -H "Session-Token: $session" -H "Lease-Token: $token"
}

# Sends keep-alives. Returns when the lock is lost, or when no keep-alive came through for so long
# that the lock could be lost within 5 s.
keep_alive() {
    wait_s=5
    while left=$((safe_until - $(date +%s))) && [ "$left" -gt 0 ]; do
        sent=$(date +%s)
        held=0
        [ ! -e "$files/held" ] || held=1 # asked first: a grant may come while the request hangs
        case $(ask alive "$((left < 8 ? left : 8))" POST \
                   "sessions/$id/keep-alive?wait_ms=$((wait_s * 1000))") in
            200)
                jq -e ".lost == [] and (.leases | length) >= $held" "$files/alive" \
                    > "$files/null" || return
                if jq -e 'any(.leases[]; .state == "unknown")' "$files/alive" > "$files/null"
                then # Redis could not be asked: the lock is safe for as long as before
                    wait_s=0
                    sleep 1
                    continue
                fi
                # Nothing was lost in all of wait_s, unless the server drained and answered early.
                safe_until=$(jq "$sent + (if .draining then 0 else $wait_s end) - 5 +
                    ([.remaining_ms, .leases[].remaining_ms] | min / 1000 | floor)" \
                    "$files/alive")
                wait_s=5 ;;
            4*) return ;; # the session has ended
            *) wait_s=0; sleep 1 ;; # not done or unknown: there is time to ask again
        esac
    done
}

# Waits for the lock; fails when the request is refused for good.
acquire() {
    while :; do
        case $(ask grant 65 PUT "locks/$lock?wait_ms=55000") in
            20?) touch "$files/held"; return 0 ;;
            000 | 423 | 429 | 50?) sleep 1 ;;
            *) cat "$files/grant" >&2; return 1 ;;
        esac
    done
}

# Ends COMMAND first and the session after it. The session's end says whether it held the lock.
finish() {
    status=$?
    trap '' INT TERM HUP
    if [ -n "$command" ]; then
        kill "$command" 2> "$files/null"
        wait "$command" 2> "$files/null"
    fi
    kill "$alive" 2> "$files/null"
    ask end 10 DELETE "sessions/$id" > "$files/null"
    jq -e '.released == 1' "$files/end" > "$files/null" 2>&1 || status=1
    rm -rf "$files"
    exit "$status"
}

command=
safe_until=$(($(date +%s) + 25)) # the session lives for 30 s
case $(ask session 10 POST 'sessions?ttl_ms=30000&name=worker') in
    20?) id=$(jq -r .session_id "$files/session") ;;
    *) rm -rf "$files"; echo "no session at $server" >&2; exit 1 ;;
esac
trap 'exit 1' INT TERM HUP
{ keep_alive; kill $$; } & alive=$!
trap finish EXIT
acquire || exit 1
# timeout 0 sets no limit: it ends the whole group of COMMAND, with KILL 2 s after TERM.
FENCING_TOKEN=$(jq .fencing_token "$files/grant") timeout -k 2 0 "$@" & command=$!
wait "$command"
