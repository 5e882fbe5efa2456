# shellcheck shell=bash
# server.sh: to be sourced. A private rlockd with an embedded Redis, which ends with the script.

# start_server RLOCKD DIR [FLAG VALUE]...: starts it and exports its RLOCKD_URL. DIR gets its
# data and its log. If it does not start, the script ends.
start_server() {
    coproc SERVER { exec /usr/bin/python3 tests/lib/servers.py "$@"; }
    # It ends with its standard input.
    # shellcheck disable=SC1083
    trap 'exec {SERVER[1]}>&-; wait' EXIT
    read -r RLOCKD_URL <&"${SERVER[0]}" || exit 1
    export RLOCKD_URL
}
