# chroot.sh: fresh Debian systems as chroots in namespaces of their own, so that no mount and no
# process outlives the run. For scripts that run again inside the namespaces, as process 1, with
# `--inside` and what they ask for. They define `fail`, and need tests/lib.sh.
# shellcheck shell=bash
#
# The network is the machine's. DEBIAN_CACHE=DIR keeps the minimal systems and the packages
# there for the next run, instead of in build/debian.

# chroot_prepare RELEASE: outside; sets cache, and makes its minimal system.
chroot_prepare() {
    case ${1:-} in
        '' | *[!a-z]*) fail "no name of a Debian release: '${1:-}'" ;;
    esac
    [ "$(id -u)" -eq 0 ] || fail "needs root, for a chroot"
    unshare --mount --pid --fork true || fail "this machine gives out no namespaces"
    tests/packages.sh mmdebstrap git curl uuid-runtime
    cache=${DEBIAN_CACHE:-build/debian}
    mkdir -p "$cache/$1-packages/partial"
    cache=$(realpath "$cache")
    if [ ! -f "$cache/$1.tar" ]; then
        mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Retries "5"' --format=tar \
            "$1" "$cache/$1.tar.new"
        mv "$cache/$1.tar.new" "$cache/$1.tar"
    fi
    systems=$(mktemp -d "${TMPDIR:-/tmp}/rlockd-debian.XXXXXX")
    trap 'rm -rf --one-file-system "$systems"' EXIT
    trap 'kill "${namespaces:-}" 2> /dev/null; exit 130' INT TERM
}

# chroot_new RELEASE NAME: outside; a fresh system in $systems/NAME, with a clean checkout of
# what is committed in its folder /rlockd.
chroot_new() {
    mkdir "$systems/$2"
    tar -C "$systems/$2" -xf "$cache/$1.tar"
    git clone --quiet --no-hardlinks . "$systems/$2/rlockd"
}

# in_namespaces ARGUMENT...: runs this script again inside. In the background, so that a signal
# is answered at once.
in_namespaces() {
    unshare --mount --pid --fork --kill-child "$0" --inside "$@" &
    namespaces=$!
    wait "$namespaces"
}

# chroot_mount DIR PACKAGES: inside; PACKAGES is where apt keeps them.
chroot_mount() {
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --bind "$2" "$1/var/cache/apt/archives"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    start_no_services "$1"
}

# in_chroot COMMAND: in $chroot, by its sh; takes the place of this process.
# shellcheck disable=SC2154
in_chroot() {
    exec chroot "$chroot" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive ONLY="${ONLY:-}" EXCEPT="${EXCEPT:-}" \
        JOBS="${JOBS:-}" E2E_PATIENCE="${E2E_PATIENCE:-}" sh -c "$1"
}
