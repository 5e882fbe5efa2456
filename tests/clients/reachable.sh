#!/usr/bin/env bash
# Whether pip and npm get packages here: asks each for one that the clients need. Says what does
# not answer, and fails.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=tests/clients/tools.sh
. ./tools.sh

ask() {
    timeout 60 "$@" > /dev/null 2>&1 || {
        echo "no answer: $*" >&2
        exit 1
    }
}

/usr/bin/python3 -m venv "$TOOLS/asking" || exit 1
ask "$TOOLS/asking/bin/pip" download --quiet --no-deps --no-cache-dir --dest "$TOOLS/asking" \
    openapi-python-client
# Without npm it comes with Node.js, from pip.
! command -v npm > /dev/null || ask npm view openapi-typescript version
