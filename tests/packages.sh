#!/bin/sh
# packages.sh PACKAGE...: installs those Debian packages that are missing and says which.
# Nothing missing: silent.
set -eu

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "note: this is no Debian, so nothing is installed; needed: $*" >&2
    exit 0
fi

missing=
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) || state=unknown
    if [ "$state" != installed ]; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi

# --no-remove: never trade a package of this machine for one of ours.
command="apt-get install -y --no-install-recommends --no-remove$missing"
if [ "$(id -u)" -eq 0 ]; then
    become_root=
elif command -v sudo > /dev/null; then
    become_root=sudo
else
    echo "Debian packages are missing, and this is neither root nor is sudo here. As root:" >&2
    echo "    $command" >&2
    exit 1
fi

echo "Installing Debian packages:$missing"
case $missing in
    *redis-server*) echo "(Debian also starts a Redis on port 6379; rlockd leaves it alone)" ;;
    *nginx*) echo "(Debian also starts an nginx on port 80; the tests leave it alone)" ;;
esac
$become_root apt-get update -q || echo "note: apt-get update failed, trying without it" >&2
# shellcheck disable=SC2086 # two lists of words
$become_root env DEBIAN_FRONTEND=noninteractive $command < /dev/null
