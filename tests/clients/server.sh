# shellcheck shell=bash
# server.sh: to be sourced. A private rlockd with an embedded Redis, which ends with the script.

# start_server RLOCKD DIR [FLAG VALUE]...: starts it on a free port and exports its RLOCKD_URL.
# DIR gets its data and its log. With TLS: SERVER_SCHEME=https; SERVER_CURL has options of curl.
start_server() {
    local rlockd=$1 dir=$2 listen=
    shift 2
    rm -rf "$dir"
    mkdir -p "$dir"
    "$rlockd" --listen 127.0.0.1:0 --data-dir "$dir/data" "$@" 2> "$dir/log" &
    server=$!
    trap 'kill "$server" 2> /dev/null; wait "$server" 2> /dev/null' EXIT
    for _ in $(seq 100); do
        listen=$(sed -nE 's/.*"msg": *"listening".*"listen": *"([^"]*)".*/\1/p' "$dir/log")
        [ -z "$listen" ] || break
        sleep 0.1
    done
    export RLOCKD_URL=${SERVER_SCHEME:-http}://$listen
    # shellcheck disable=SC2086 # several words
    if [ -z "$listen" ] || ! curl -fsS ${SERVER_CURL:-} --retry 50 --retry-delay 0 \
        --retry-all-errors -o "$dir/readyz" "$RLOCKD_URL/readyz" 2> "$dir/curl"; then
        echo "rlockd does not start:" >&2
        cat "$dir/log" >&2
        exit 1
    fi
}
