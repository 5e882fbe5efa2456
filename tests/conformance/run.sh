#!/usr/bin/env bash
# run.sh [CLIENT]...: runs the kit with each of these clients, `mutants` among them. Those of
# clients/ go through their languages' own tools first, and their adapters are built.
# ONLY="forced busy": these checks only.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/clients/tools.sh
. tests/clients/tools.sh
OUT=$PWD/build/conformance

# example LANGUAGE FILE: the block of the guide in this language.
example() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" docs/guide.md | sed '1d;$d' > "$2" && [ -s "$2" ]
}

python_client() {
    mypy --strict clients/python/rlockd.py &&
        flake8 --max-line-length 96 clients/python tests/conformance &&
        /usr/bin/python3 tests/conformance/test_python.py
}

go_client() {
    local unformatted

    use_go
    rm -rf "$OUT/go"
    mkdir -p "$OUT/go/rlockd" "$OUT/go/example"
    cp tests/conformance/adapter_go/* "$OUT/go"
    cp clients/go/rlockd.go tests/conformance/go_package/* "$OUT/go/rlockd"
    example go "$OUT/go/example/main.go" || return 1
    sed -i 's,example.org/site/rlockd,conformance/rlockd,' "$OUT/go/example/main.go"
    cd "$OUT/go" || return 1
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ] || { echo "not formatted by gofmt: $unformatted"; return 1; }
    go vet ./... && go test ./rlockd && go build -o "$OUT/adapter_go" .
}

node_client() {
    use_node
    node_packages node-types typescript@5.9.3 @types/node@20.19.25
    mkdir -p "$OUT/node"
    cp clients/node/rlockd.mjs "$OUT/node"
    example js "$OUT/node/example.mjs" &&
        "$TOOLS/node-types/node_modules/.bin/tsc" --allowJs --checkJs --strict --noEmit \
            --target ES2022 --module NodeNext --types node \
            --typeRoots "$TOOLS/node-types/node_modules/@types" \
            "$OUT/node/rlockd.mjs" "$OUT/node/example.mjs" &&
        node tests/conformance/test_node.mjs
}

for file in clients/*/rlockd.*; do
    [ "$(wc -l < "$file")" -le 250 ] || { echo "$file has more than 250 lines"; exit 1; }
done
for client in "$@"; do
    case $client in
        python | go | node)
            ("${client}_client") || exit 1
            ;;
    esac
    [ "$client" != node ] || use_node
    # shellcheck disable=SC2086 # names
    /usr/bin/python3 tests/conformance/run.py "$client" ${ONLY:-} || exit 1
done
