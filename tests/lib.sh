# lib.sh: for the tests in bash that start servers. They define `fail`, which ends the test.
# shellcheck shell=bash

free_port() {
    local port
    while port=$((20000 + RANDOM % 10000)); do
        (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null || break
    done
    echo "$port"
}

# wait_until SECONDS WHAT COMMAND...: fails the test when the command does not succeed in time.
wait_until() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $deadline ] || fail "$what: not within its time"
        sleep 0.2
    done
    echo "ok: $what"
}

# In the system below $1, packages start no service.
start_no_services() {
    printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d"
    chmod 755 "$1/usr/sbin/policy-rc.d"
}
