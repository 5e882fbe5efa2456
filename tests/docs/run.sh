#!/usr/bin/env bash
# run.sh RLOCKD: the commands of the documents as they are printed, and the scripts of
# examples/, each against a private rlockd with a Redis of its own. Logs are in build/docs.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/clients/server.sh
. tests/clients/server.sh

rlockd=$1
failed=0

# check NAME COMMAND...: runs COMMAND with RLOCKD_URL of a fresh server, which has FLAGS.
check() {
    local name=$1
    shift
    if (
        # shellcheck disable=SC2086 # several words
        start_server "$rlockd" "build/docs/$name" ${FLAGS:-}
        PATH=$(realpath "$(dirname "$rlockd")"):$PATH
        # shellcheck disable=SC2153 # start_server sets it
        RLOCK_URL=$RLOCKD_URL
        export PATH RLOCK_URL
        "$@"
    ); then
        echo "ok     $name"
    else
        echo "FAILED $name"
        failed=1
    fi
}

# expect STATUS COMMAND...
expect() {
    local wanted=$1 status=0
    shift
    "$@" > build/docs/output 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] || {
        echo "$*: status $status, not $wanted"
        cat build/docs/output
        return 1
    }
}

# Runs the command under the lock with its fencing token, hands its status on, leaves no lock.
scripts() {
    export LOCK=docs-script
    local script
    for script in examples/deploy.sh examples/worker.sh; do
        # shellcheck disable=SC2016 # for the inner shell
        expect 0 $script sh -c '[ "$RLOCK_FENCING_TOKEN" -gt 0 ] &&
            curl -fsS "$RLOCKD_URL/v1/locks/$LOCK" | jq -e .locked' || return 1
        expect 7 $script sh -c 'exit 7' || return 1
        expect 0 sh -c "curl -fsS $RLOCKD_URL/v1/locks/$LOCK | jq -e '.locked | not'" ||
            return 1
    done
}

# The programs that docs/command.md names run under a lock; no block leaves its lock.
commands() {
    local folder=build/docs/command-programs program lock
    mkdir -p "$folder"
    for program in deploy.sh upload; do
        # shellcheck disable=SC2016 # for the program
        printf '#!/bin/sh\n[ "$RLOCK_FENCING_TOKEN" -gt 0 ]\n' > "$folder/$program"
        chmod +x "$folder/$program"
    done
    export CI_JOB_URL=https://ci.example/job/1
    tests/docs/blocks.py docs/command.md "$folder" &&
        for lock in deploy deploy/production report nightly; do
            expect 0 rlock run -w 10 "$lock" true || return 1
        done
}

# The scripts with TLS and an API token. Without the authority of the certificate a script says
# why it fails.
secured_scripts() {
    printf '%s' "$token" > "$secured/token"
    export RLOCK_TOKEN_FILE=$secured/token
    RLOCK_CA=$secured/cert.pem expect 7 examples/deploy.sh sh -c 'exit 7' &&
        RLOCK_CA=$secured/cert.pem expect 7 examples/worker.sh sh -c 'exit 7' &&
        expect 69 timeout 60 rlock run -w 1 docs true && grep -q certificate build/docs/output
}

# The two lines of operations.md that make a report of the audit trail, beside the server's log.
audit_report() {
    local dir=build/docs/audit-report
    curl -fsS -X POST "$RLOCKD_URL/v1/locks/audited" > "$dir/grant" &&
        expect 0 rlock force-unlock --yes --reason 'a test' audited || return 1
    grep '^jq ' docs/operations.md > "$dir/report.sh"
    [ "$(wc -l < "$dir/report.sh")" -eq 2 ] &&
        ln -sf front-1.log "$dir/rlockd.log" && (cd "$dir" && bash -e report.sh > report) &&
        grep -qP '\tlock forced open\t.*\taudited\ta test\t' "$dir/report" &&
        grep -q '^ *1 -$' "$dir/report"
}

secured=$PWD/build/docs/secured
mkdir -p "$secured"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$secured/key.pem" -out "$secured/cert.pem" \
    2> "$secured/openssl" || exit 1
token=$("$rlockd" --make-token)
printf '%s' "$token" | "$rlockd" --hash-token docs > "$secured/tokens"

check README tests/docs/blocks.py README.md
PYTHONPATH=$PWD/clients/python check guide tests/docs/blocks.py docs/guide.md
check command commands
check examples scripts
check audit-report audit_report
FLAGS="--tls-cert $secured/cert.pem --tls-key $secured/key.pem --api-tokens $secured/tokens" \
    check secured-examples secured_scripts
[ "$failed" -eq 0 ]
