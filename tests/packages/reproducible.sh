#!/usr/bin/env bash
# reproducible.sh: builds what is committed twice, in folders of different depth, with another
# time zone, language, umask and number of jobs, and compares every byte.
set -eu
cd "$(dirname "$0")/../.."

work=$(mktemp -d "${TMPDIR:-/tmp}/rlockd-reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# build DIR JOBS NAME=VALUE...: a cache of compilations would hide differences.
build() {
    local dir=$1 jobs=$2
    shift 2
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$dir" CCACHE_DISABLE=1 "$@" \
        make -s -C "$dir" -j"$jobs" all sbom > "$dir.log" 2>&1 || {
        tail -n 20 "$dir.log" >&2
        exit 1
    }
}

mkdir -p "$work/and/another"
git clone --quiet --no-hardlinks . "$work/a"
(umask 077 && git clone --quiet --no-hardlinks "$work/a" "$work/and/another/folder")
build "$work/a" "$(nproc)" TZ=UTC LC_ALL=C
(umask 077 && build "$work/and/another/folder" 2 TZ=Asia/Tokyo LC_ALL=C.UTF-8)
count=0
for file in rlockd rlock sbom.cdx.json share/man/man1/rlock.1 share/man/man8/rlockd.8 \
    share/bash-completion/completions/rlock share/zsh/site-functions/_rlock; do
    cmp "$work/a/build/$file" "$work/and/another/folder/build/$file"
    count=$((count + 1))
done
if grep -qaF "$work" "$work/a/build/rlockd" "$work/a/build/rlock"; then
    echo "reproducible.sh: a program names the folder of its build" >&2
    exit 1
fi
echo "ok: two builds, the same bytes in $count files"
