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
    export RLOCKD=${RLOCKD_URL#http://} LOCK=docs%2Fscript
    local script
    for script in examples/deploy.sh examples/worker.sh; do
        # shellcheck disable=SC2016 # for the inner shell
        expect 0 $script sh -c '[ "$FENCING_TOKEN" -gt 0 ] &&
            curl -fsS "$RLOCKD/v1/locks/$LOCK" | jq -e .locked' || return 1
        expect 7 $script sh -c 'exit 7' || return 1
        expect 0 sh -c "curl -fsS $RLOCKD/v1/locks/$LOCK | jq -e '.locked | not'" || return 1
    done
}

# The same with TLS and an API token. Without the authority of the certificate a script says why
# it fails.
secured_scripts() {
    export RLOCKD=$RLOCKD_URL LOCK=docs%2Fscript RLOCKD_TOKEN=$token
    local trust="--cacert $secured/cert.pem"
    RLOCKD_CURL=$trust expect 7 examples/deploy.sh sh -c 'exit 7' &&
        RLOCKD_CURL=$trust expect 7 examples/worker.sh sh -c 'exit 7' &&
        expect 1 examples/worker.sh true && grep -q certificate build/docs/output
}

secured=$PWD/build/docs/secured
mkdir -p "$secured"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$secured/key.pem" -out "$secured/cert.pem" \
    2> "$secured/openssl" || exit 1
token=$("$rlockd" --make-token)
printf '%s' "$token" | "$rlockd" --hash-token docs > "$secured/tokens"

check README tests/docs/blocks.py README.md
check guide tests/docs/blocks.py docs/guide.md
check examples scripts
FLAGS="--tls-cert $secured/cert.pem --tls-key $secured/key.pem --api-tokens $secured/tokens" \
    SERVER_SCHEME=https SERVER_CURL="--cacert $secured/cert.pem" check secured-examples \
    secured_scripts
[ "$failed" -eq 0 ]
