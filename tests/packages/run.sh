#!/usr/bin/env bash
# run.sh RELEASE: the packages of what is committed, as people use them, in fresh systems of a
# Debian release: built in one together with those of a lower version, looked at by lintian;
# installed in another, started as the unit says, upgraded while a lock is held, and purged. No
# systemd runs there: what it would do with the unit is done by hand.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib.sh
. tests/debian/chroot.sh

OLDER=0.1.99

fail() {
    echo "packages/run.sh: $*" >&2
    exit 1
}

# as WHAT COMMAND: in the chroot; its output comes only when it fails.
as() {
    (in_chroot "$2") < /dev/null > "$systems/log" 2>&1 || {
        tail -n 60 "$systems/log" >&2
        fail "$1"
    }
    echo "ok: $1"
}

# ---- build

build() {
    local cached=PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin
    chroot=$systems/build
    as "the packages to build with" "apt-get update -q &&
        apt-get install -q -y --no-install-recommends git build-essential ccache lintian &&
        apt-get build-dep -q -y --no-install-recommends /rlockd"
    as "version $OLDER is built" "cd /rlockd && $cached deploy/deb.sh $OLDER &&
        mv build/deb /older"
    as "this version is built" "cd /rlockd && $cached deploy/deb.sh && mv build/deb /newer"
    as "lintian has neither errors nor warnings" \
        "cd /newer && lintian --fail-on error,warning --allow-root ./*.changes"
    as "an upgrade leaves the socket alone, a removal stops it before the service" \
        "dpkg-deb -e /newer/rlockd_*.deb /scripts && cd /scripts &&
        ! grep rlockd.socket preinst && ! grep -E '(start|stop).*rlockd.socket' postinst &&
        grep -oE 'stop .?rlockd.(socket|service)' prerm | tr -d \"'\" > stopped &&
        cat stopped && printf 'stop rlockd.%s\n' socket service | cmp - stopped"
    mkdir "$systems/use/packages"
    cp "$systems"/build/older/rlock*_"$OLDER"_*.deb "$systems"/build/newer/rlock*.deb \
        "$systems/use/packages"
    rm "$systems"/use/packages/*-dbgsym_*
}

# ---- the server, started as systemd would by the unit

unit=usr/lib/systemd/system/rlockd.service

# The values of a key of the unit, one a line.
unit_values() {
    sed -n "s/^$1=//p" "$chroot/$unit"
}

start() {
    local user state variables
    user=$(unit_values User)
    state=/var/lib/$(unit_values StateDirectory)
    variables=$(unit_values Environment; sed -n '/^[A-Z]/p' "$settings")
    variables=${variables//$'\n'/ }
    (in_chroot "install -d -o $user -g $user -m $(unit_values StateDirectoryMode) $state &&
        umask $(unit_values UMask) &&
        exec setpriv --reuid $user --regid $user --clear-groups --no-new-privs \
            --bounding-set=-all --inh-caps=-all \
            env $variables $(unit_values ExecStart)") < /dev/null 2> "$systems/server.log" &
    server=$!
    wait_until 60 "the server of $1 is ready" rlock ready --connect-timeout 0
}

# As `systemctl stop` does: the main process alone gets SIGTERM (KillMode=mixed).
stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with status $?"
}

rlock() {
    (in_chroot "RLOCK_URL=http://127.0.0.1:$port rlock $*") < /dev/null
}

version_of() {
    (in_chroot "$1 --version") < /dev/null
}

install_version() {
    as "$1 is installed" "apt-get install -q -y --no-install-recommends \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        /packages/rlockd_$1_*.deb /packages/rlock_$1_*.deb $2"
    version_of rlockd | grep -qxF "rlockd $1" || fail "the version is $(version_of rlockd)"
    version_of rlock | grep -qxF "rlock $1" || fail "the version is $(version_of rlock)"
}

expect_files() {
    local path
    for path in etc/rlockd/rlockd.conf usr/share/man/man8/rlockd.8.gz \
        usr/share/man/man1/rlock.1.gz usr/share/bash-completion/completions/rlock \
        usr/share/zsh/vendor-completions/_rlock usr/share/fish/vendor_completions.d/rlock.fish \
        usr/share/doc/rlockd/operations.md; do
        [ -s "$chroot/$path" ] || fail "$path is not installed"
    done
    [ ! -e "$chroot/usr/bin/redis-server" ] || fail "a package brought redis-server"
    as "the completion is one of bash" "bash -n /usr/share/bash-completion/completions/rlock"
}

use() {
    local version
    chroot=$systems/use
    version=$(sed -n 's/^VERSION *:= *//p' Makefile)
    port=$(free_port)
    as "the lists of packages" "apt-get update -q"
    install_version "$OLDER" redis-tools
    expect_files
    settings=$chroot$(unit_values EnvironmentFile | sed 's/^-//')
    sed -i "s/^#RLOCKD_LISTEN=.*/RLOCKD_LISTEN=127.0.0.1:$port/" "$settings"
    start "$OLDER"
    [ "$(rlock run job echo alone)" = alone ] || fail "rlock runs nothing"
    rlock acquire deploy --lease-file /root/lease --ttl 1h > /dev/null
    stop

    install_version "$version" ""
    grep -qx "RLOCKD_LISTEN=127.0.0.1:$port" "$settings" ||
        fail "the upgrade has changed a setting"
    start "$version"
    rlock show deploy | grep -q root@ || fail "the lock was lost in the upgrade"
    rlock release deploy --lease-file /root/lease
    rlock show deploy | grep -q free || fail "the lock of the older version is not released"
    echo "ok: a lock outlives the upgrade"
    stop

    rm -r "$chroot/packages"
    as "both are purged" "apt-get purge -q -y rlockd rlock"
    # pcrlock is systemd's.
    left=$(find "$chroot" -xdev -name '*rlock*' -not -name '*pcrlock*')
    [ -z "$left" ] || fail "left behind: $left"
    echo "ok: nothing is left but the user"
}

if [ "${1:-}" = --inside ]; then
    systems=$2
    chroot_mount "$systems/build" "$3"
    chroot_mount "$systems/use" "$3"
    build
    use
else
    chroot_prepare "${1:-}"
    chroot_new "$1" build
    chroot_new "$1" use
    rm -r "$systems/use/rlockd"
    in_namespaces "$systems" "$cache/$1-packages"
    echo "packages on $1: all checks passed"
fi
