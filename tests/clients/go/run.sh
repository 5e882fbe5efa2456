#!/usr/bin/env bash
# oapi-codegen, a client in Go.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh

use_go
go_program github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
cp go.mod go.sum smoke.go steps.go "$OUT"
mkdir "$OUT/rlockd"
"$GOPATH/bin/oapi-codegen" -generate types,client -package rlockd \
    -o "$OUT/rlockd/client.go" "$SPEC"
echo ok generate
cd "$OUT"
with_patience go mod download
go vet ./...
go build -o smoke .
echo ok compile
./smoke
