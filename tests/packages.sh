#!/bin/sh
# packages.sh PACKAGE...: installs those Debian packages that are missing and says which.
# Nothing missing: silent. A download that fails is asked for again.
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

# --no-remove: never trade a package of this machine for one of ours. The lock may be another
# apt's.
options="-o Acquire::Retries=5 -o DPkg::Lock::Timeout=300"
command="apt-get install $options -y --no-install-recommends --no-remove$missing"
if [ "$(id -u)" -eq 0 ]; then
    become_root=
elif command -v sudo > /dev/null; then
    become_root=sudo
else
    echo "Debian packages are missing, and this is neither root nor is sudo here. As root:" >&2
    echo "    $command" >&2
    exit 1
fi

# apt waits for another apt's lock of dpkg, not for that of the package lists.
exec 9< "$0"
flock 9

echo "Installing Debian packages:$missing"
case $missing in
    *redis-server*) echo "(Debian also starts a Redis on port 6379; rlockd leaves it alone)" ;;
    *prometheus*) echo "(Debian also starts a Prometheus on port 9090; unused here)" ;;
    *postgresql*) echo "(Debian also starts a PostgreSQL on port 5432; unused here)" ;;
    *nginx*) echo "(Debian also starts an nginx on port 80; the tests leave it alone)" ;;
esac
# The package lists may be older than what the mirror has: so they are asked for again, too.
for pause_s in 10 30 0; do
    # shellcheck disable=SC2086 # lists of words
    $become_root apt-get update -q $options 9<&- || echo "note: apt-get update failed" >&2
    # shellcheck disable=SC2086
    if $become_root env DEBIAN_FRONTEND=noninteractive $command < /dev/null 9<&-; then
        exit 0
    fi
    # shellcheck disable=SC2086
    $become_root $command -s > /dev/null 2>&1 < /dev/null 9<&- || break # no such package
    sleep "$pause_s"
done
echo "Debian packages cannot be installed:$missing; does this machine reach a mirror?" >&2
exit 1
