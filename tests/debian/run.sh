#!/usr/bin/env bash
# run.sh RELEASE: README's first steps on a fresh Debian, as root: a minimal system of that
# release (trixie, bookworm), the packages that README names, a clean checkout of what is
# committed, `make run` until the server is ready, one lock, the stop, and `make test`, which
# gets ONLY, EXCEPT, JOBS and E2E_PATIENCE. What is not run is built.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib.sh
. tests/debian/chroot.sh

fail() {
    echo "debian/run.sh: $*" >&2
    exit 1
}

# request METHOD PATH: prints the status, 000 for no answer.
request() {
    curl -s -o /dev/null -w '%{http_code}' --max-time 10 -X "$1" \
        -H "Lease-Token: $(uuidgen)" "http://127.0.0.1:$port$2" || true
}

is_ready() {
    kill -0 "$server" 2> /dev/null || fail "make run has ended before the server was ready"
    [ "$(request GET /readyz)" = 200 ]
}

has_ended() {
    ! kill -0 "$server" 2> /dev/null && [ "$(request GET /livez)" = 000 ]
}

# A background job without job control ignores the SIGINT of Ctrl-C; SIGTERM stops as well.
try_make_run() {
    local answer
    port=$(free_port)
    set -m
    (in_chroot "cd /rlockd && make run ARGS='--listen 127.0.0.1:$port'") < /dev/null &
    server=$!
    set +m
    wait_until 1200 "make run: the server is ready" is_ready
    answer=$(request PUT /v1/locks/deploy)
    [ "$answer" = 201 ] || fail "the PUT of a lock was answered $answer"
    kill -TERM -- "-$server"
    wait_until 30 "make run: the server grants a lock and stops" has_ended
}

inside() {
    chroot=$1
    chroot_mount "$chroot" "$2"
    (in_chroot "apt-get update -q && apt-get install -q -y make git jq") < /dev/null
    echo "ok: the packages that README names"
    try_make_run
    (in_chroot "cd /rlockd && make test") < /dev/null
    (in_chroot "cd /rlockd && make -j$(nproc) test-programs ONLY= EXCEPT=") < /dev/null
}

if [ "${1:-}" = --inside ]; then
    inside "$2" "$3"
else
    chroot_prepare "${1:-}"
    chroot_new "$1" system
    in_namespaces "$systems/system" "$cache/$1-packages"
fi
