#!/usr/bin/env bash
# test_docker.sh: builds the image and uses it as a user would. Takes the running Docker engine;
# else starts a private one (as root on Debian); else skips and says why. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib.sh

work=$(mktemp -d /tmp/rlockd-docker.XXXXXX)
tag=rlockd-test-$$
image=$tag:latest
docker=(docker)
build_args=()
private_engine=
version=$(sed -n 's/^VERSION *:= *//p' Makefile)
lease_token=
scheme=http
url= # of the server under test, set by start()

skip() {
    echo "skipped: $*"
    exit 0
}

fail() {
    echo "FAILED: $*" >&2
    for container in $("${docker[@]}" ps -aq --filter "name=$tag"); do
        "${docker[@]}" inspect -f '--- {{.Name}} {{.State.Status}} {{.State.ExitCode}}' \
            "$container"
        "${docker[@]}" logs --tail 30 "$container"
    done >&2
    exit 1
}

clean_up() {
    local status=$?
    trap - EXIT
    if "${docker[@]}" version > /dev/null 2>&1; then
        "${docker[@]}" ps -aq --filter "name=$tag" | xargs -r "${docker[@]}" rm -fv
        "${docker[@]}" volume ls -q --filter "name=$tag" | xargs -r "${docker[@]}" volume rm
        "${docker[@]}" images -q "$tag" | xargs -r "${docker[@]}" rmi -f
    fi > /dev/null 2>&1
    if [ -n "$private_engine" ]; then
        kill "$private_engine" 2> /dev/null && wait "$private_engine" 2> /dev/null
        awk -v below="$work/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r |
            xargs -r umount
    fi
    rm -rf "$work"
    exit $status
}

# expect WHAT WANTED GOT
expect() {
    [ "$2" = "$3" ] || fail "$1: wanted $2, got $3"
    echo "ok: $1"
}

engine_answers() {
    "${docker[@]}" version -f '{{.Server.Version}}' > /dev/null 2>&1
}

start_private_engine() {
    [ "$(id -u)" -eq 0 ] || skip "no Docker engine answers, and only root can start one"
    command -v apt-get > /dev/null || skip "no Docker engine answers, and this is no Debian"
    tests/packages.sh docker.io mmdebstrap iptables || skip "Debian's docker.io cannot be had"

    # No bridge and no firewall rules: nothing of this machine's network changes.
    dockerd --bridge=none --iptables=false --ip6tables=false --data-root "$work/data" \
        --exec-root "$work/exec" --pidfile "$work/pid" -H "unix://$work/docker.sock" \
        > "$work/dockerd.log" 2>&1 &
    private_engine=$!
    export DOCKER_CONFIG=$work/config DOCKER_BUILDKIT=1
    # The client of the same package; another one on the PATH may lack its builder.
    docker=(/usr/bin/docker -H "unix://$work/docker.sock")
    for _ in $(seq 100); do
        ! engine_answers || return 0
        kill -0 "$private_engine" 2> /dev/null || break
        sleep 0.2
    done
    skip "a private dockerd does not start here: $(tail -n 1 "$work/dockerd.log")"
}

# use_base RELEASE: build() takes this Debian. A private engine is taken to have no registry:
# its base image is made from Debian's packages.
use_base() {
    if [ -z "$private_engine" ]; then
        build_args=(--build-arg "BASE=debian:$1-slim")
        return
    fi
    mmdebstrap --variant=minbase --quiet \
        --customize-hook=". '$PWD/tests/lib.sh'; start_no_services \"\$1\"" \
        "$1" "$work/base.tar" ||
        skip "mmdebstrap cannot make the base image"
    "${docker[@]}" import -c 'CMD ["bash"]' \
        -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        "$work/base.tar" "$tag:$1" > /dev/null
    rm "$work/base.tar"
    build_args=(--build-arg "BASE=$tag:$1")
}

# start NAME [DOCKER-OPTION...]: runs the image, waits until it is ready.
start() {
    local name=$tag-$1 port
    shift
    inner_port=7400
    if [ -n "$private_engine" ]; then
        port=$(free_port)
        inner_port=$port
        "${docker[@]}" run -d --name "$name" --network host -e "RLOCKD_LISTEN=127.0.0.1:$port" \
            "$@" "$image" > /dev/null
    else
        "${docker[@]}" run -d --name "$name" -p 127.0.0.1::7400 "$@" "$image" > /dev/null
        port=$("${docker[@]}" port "$name" 7400/tcp)
        port=${port##*:}
    fi
    url=$scheme://127.0.0.1:$port
    wait_until 30 "$name is ready" curl -kfs -o /dev/null --max-time 2 \
        "$url/readyz"
}

state() {
    "${docker[@]}" inspect -f "{{.State.$2}}" "$tag-$1"
}

health_is() {
    [ "$(state "$1" Health.Status)" = "$2" ]
}

stop_cleanly() {
    "${docker[@]}" stop --time 20 "$tag-$1" > /dev/null
    expect "$1 stops with exit status 0" 0 "$(state "$1" ExitCode)"
}

new_token() {
    lease_token=$(cat /proc/sys/kernel/random/uuid)
}

# request METHOD PATH: prints the status; the body is left in $work/body.
request() {
    curl -sS --max-time 10 -X "$1" -H "Lease-Token: $lease_token" -o "$work/body" \
        -w '%{http_code}' "$url$2"
}

body_has() {
    grep -q "$2" "$work/body" || fail "$1: no $2 in $(cat "$work/body")"
    echo "ok: $1"
}

trap clean_up EXIT
trap 'exit 130' INT TERM

if engine_answers; then
    echo "using the running Docker engine"
else
    start_private_engine
    echo "using a private Docker engine"
    use_base trixie
fi
build() {
    "${docker[@]}" build --network host "${build_args[@]}" "$@" . > "$work/build.log" 2>&1 || {
        tail -n 40 "$work/build.log" >&2
        fail "the image does not build"
    }
}
build -t "$image"
build --target rlock -t "$tag:rlock"
echo "ok: the image builds ($("${docker[@]}" images --format '{{.Size}}' "$image"))"
use_base bookworm # whose packages have other names
build --target rlock -t "$tag:rlock-bookworm"
expect "rlock runs on bookworm" "rlock $version" \
    "$("${docker[@]}" run --rm --network none "$tag:rlock-bookworm" rlock --version)"

start plain -v "$tag-data:/data"
expect "it does not run as root" 7400 "$("${docker[@]}" top "$tag-plain" -eo uid,pid |
    awk 'NR == 2 { print $1 }')"
expect "it declares no volume" 0 \
    "$("${docker[@]}" inspect -f '{{len .Config.Volumes}}' "$image")"
expect "it is labelled" "$version" "$("${docker[@]}" inspect \
    -f '{{index .Config.Labels "org.opencontainers.image.version"}}' "$image")"
expect "rlock is inside" "rlock $version" "$("${docker[@]}" exec \
    -e "RLOCK_URL=http://localhost:$inner_port" "$tag-plain" rlock run job rlock --version)"
expect "the image of rlock runs a command under a lock" alone "$("${docker[@]}" run --rm \
    --network "container:$tag-plain" -e "RLOCK_URL=http://localhost:$inner_port" "$tag:rlock" \
    rlock run job sh -c 'echo alone')"
new_token
expect "a lock is acquired" 201 "$(request PUT '/v1/locks/other?ttl_ms=600000')"
new_token
expect "another lock is acquired" 201 "$(request PUT '/v1/locks/deploy?ttl_ms=600000')"
expect "its holder is shown" 200 "$(request GET /v1/locks/deploy)"
body_has "it is locked" '"locked": *true'
expect "it is released" 200 "$(request DELETE /v1/locks/deploy)"
expect "it can be looked at" 200 "$(request GET /v1/locks/deploy)"
body_has "it is free" '"locked": *false'
wait_until 60 "it becomes healthy" health_is plain healthy
stop_cleanly plain

start hardened -v "$tag-data:/data" --read-only --cap-drop ALL \
    --security-opt no-new-privileges
expect "the data survived: the first lock can be looked at" 200 "$(request GET /v1/locks/other)"
body_has "the data survived: it is still held" '"locked": *true'
new_token
expect "a hardened container grants" 201 "$(request PUT /v1/locks/third)"
wait_until 60 "a hardened container becomes healthy" health_is hardened healthy
stop_cleanly hardened

# The certificate is for another name than the check of health asks for.
mkdir "$work/tls"
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost \
    -keyout "$work/tls/key.pem" -out "$work/tls/cert.pem" 2> /dev/null
chmod -R a+rX "$work/tls"
scheme=https
start tls -v "$work/tls:/tls:ro" -e RLOCKD_TLS_CERT=/tls/cert.pem -e RLOCKD_TLS_KEY=/tls/key.pem
scheme=http
wait_until 60 "with TLS it becomes healthy" health_is tls healthy
stop_cleanly tls

# An external Redis, here of the same image and on a unix socket in a shared volume.
"${docker[@]}" run -d --name "$tag-redis" --network none -v "$tag-redis:/data" \
    --entrypoint redis-server "$image" --port 0 --unixsocket /data/external.sock > /dev/null
start external -v "$tag-redis:/data" -e RLOCKD_REDIS=unix:///data/external.sock
new_token
expect "a lock is acquired in an external Redis" 201 "$(request PUT /v1/locks/deploy)"
start beside -v "$tag-redis:/data" -e RLOCKD_REDIS=unix:///data/external.sock
expect "another server confirms it by that Redis" 200 "$(request PUT /v1/locks/deploy)"
stop_cleanly beside
wait_until 60 "with an external Redis it becomes healthy" health_is external healthy
"${docker[@]}" stop "$tag-redis" > /dev/null
wait_until 60 "without its Redis it becomes unhealthy" health_is external unhealthy
stop_cleanly external

echo "docker: all checks passed"
