# shellcheck shell=bash
# tools.sh: to be sourced. Installs what is no Debian package in $TOOLS, unless it is there.
# Versions are pinned, also those of what the packages need: by requirements.txt, go.sum, and
# for npm by a date. CLIENT_TOOLS is a folder to keep the tools in, for a CI that caches it.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TOOLS=${CLIENT_TOOLS:-$root/build/clients/tools}
mkdir -p "$TOOLS"

# /usr/bin/python3: the one whose venv is a Debian package.
export PIP_CACHE_DIR=$TOOLS/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=1
export npm_config_cache=$TOOLS/cache/npm npm_config_update_notifier=false
export npm_config_fetch_retries=1 npm_config_before=2026-11-20T00:00:00Z

# with_patience COMMAND...: a download, tried three times.
with_patience() {
    local pause_s
    for pause_s in 5 20; do
        ! "$@" || return 0
        echo "again in $pause_s s: $1" >&2
        sleep "$pause_s"
    done
    "$@" || {
        echo "the download failed three times: does this machine reach the package" \
            "registries of pip, npm, Go and Maven?" >&2
        return 1
    }
}

# python_packages NAME REQUIREMENTS: an environment with exactly these, in $TOOLS/NAME.
# REQUIREMENTS is a file as `pip freeze` prints it.
python_packages() {
    local dir=$TOOLS/$1
    ! cmp -s "$2" "$dir/installed" || return 0
    rm -rf "$dir"
    /usr/bin/python3 -m venv "$dir"
    with_patience "$dir/bin/pip" install --quiet --requirement "$2"
    cp "$2" "$dir/installed"
}

# node_packages NAME PACKAGE@VERSION...: the same with npm; programs are in node_modules/.bin.
node_packages() {
    local dir=$TOOLS/$1
    shift
    [ "$(cat "$dir/installed" 2> /dev/null)" != "$*" ] || return 0
    rm -rf "$dir"
    mkdir -p "$dir"
    with_patience npm install --prefix "$dir" --no-package-lock --no-audit --no-fund \
        --loglevel error "$@"
    echo "$*" > "$dir/installed"
}

# is_at_least MINIMUM VERSION
is_at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Debian 12 has older ones of both than the generators need; PyPI has them as packages.
use_node() {
    local version
    version=$(node --version 2> /dev/null || true)
    version=${version#v}
    if ! is_at_least 20.19 "${version:-0}" || ! command -v npm > /dev/null; then
        python_packages node "$root/tests/clients/node-requirements.txt"
        PATH=$TOOLS/node/bin:$PATH
    fi
}

use_go() {
    local version
    version=$(GOTOOLCHAIN=local go env GOVERSION 2> /dev/null || true)
    version=${version#go}
    if ! is_at_least 1.25 "${version:-0}"; then
        python_packages go "$root/tests/clients/go-requirements.txt"
        PATH=$TOOLS/go/bin:$PATH
    fi
    # -modcacherw: so that `make clean` can remove it. Without optimisation: what is compiled
    # here runs once, and is compiled in half the time.
    export GOPATH=$TOOLS/gopath GOCACHE=$TOOLS/cache/go GOTOOLCHAIN=local
    export GOFLAGS="-modcacherw '-gcflags=all=-N -l'"
}

# go_program PACKAGE@VERSION: a program in $GOPATH/bin, after use_go.
go_program() {
    local stamp=$GOPATH/${1##*/}
    [ ! -f "$stamp" ] || return 0
    with_patience go install "$1"
    touch "$stamp"
}
