#!/usr/bin/env bash
# run.sh RELEASE: README's first steps on a fresh Debian, as root: a minimal system of that
# release (trixie, bookworm), the packages that README names, a clean checkout of what is
# committed, `make run` until the server is ready, one lock, the stop, and `make test`.
#
# The system is a chroot in namespaces of its own, so no mount and no process outlives the run.
# The network is the machine's. DEBIAN_CACHE=DIR keeps the minimal system and the packages there
# for the next run, instead of in build/debian. `make test` gets ONLY, JOBS and E2E_PATIENCE.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib.sh

fail() {
    echo "debian/run.sh: $*" >&2
    exit 1
}

# Outside: the chroot, and the namespaces in which this script runs again.
prepare() {
    local release=$1 cache=${DEBIAN_CACHE:-build/debian}

    [ "$(id -u)" -eq 0 ] || fail "needs root, for a chroot"
    unshare --mount --pid --fork true || fail "this machine gives out no namespaces"
    tests/packages.sh mmdebstrap git curl uuid-runtime
    mkdir -p "$cache/$release-packages/partial"
    cache=$(realpath "$cache")
    if [ ! -f "$cache/$release.tar" ]; then
        mmdebstrap --quiet --variant=minbase --format=tar "$release" "$cache/$release.tar.new"
        mv "$cache/$release.tar.new" "$cache/$release.tar"
    fi
    chroot=$(mktemp -d "${TMPDIR:-/tmp}/rlockd-debian.XXXXXX")
    trap 'rm -rf --one-file-system "$chroot"' EXIT
    trap 'kill "${namespaces:-}" 2> /dev/null; exit 130' INT TERM
    tar -C "$chroot" -xf "$cache/$release.tar"
    git clone --quiet --no-hardlinks . "$chroot/rlockd"
    # In the background, so that a signal is answered at once.
    unshare --mount --pid --fork --kill-child "$0" --inside "$chroot" \
        "$cache/$release-packages" &
    namespaces=$!
    wait "$namespaces"
}

in_chroot() {
    exec chroot "$chroot" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        ONLY="${ONLY:-}" JOBS="${JOBS:-}" E2E_PATIENCE="${E2E_PATIENCE:-}" sh -c "$1"
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

# Inside the namespaces, where this is process 1: all others end with it.
inside() {
    chroot=$1
    mount -t proc proc "$chroot/proc"
    mount --rbind /dev "$chroot/dev"
    mount --bind "$2" "$chroot/var/cache/apt/archives"
    cp /etc/resolv.conf "$chroot/etc/resolv.conf"
    start_no_services "$chroot"
    (in_chroot "apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y make git jq") < /dev/null
    echo "ok: the packages that README names"
    try_make_run
    (in_chroot "cd /rlockd && make test") < /dev/null
}

case ${1:-} in
    --inside) inside "$2" "$3" ;;
    '' | *[!a-z]*) fail "no name of a Debian release: '${1:-}'" ;;
    *) prepare "$1" ;;
esac
