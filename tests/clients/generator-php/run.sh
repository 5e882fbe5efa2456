#!/usr/bin/env bash
# openapi-generator, a client in PHP with Guzzle, which is a Debian package.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh
# shellcheck source=tests/clients/generator.sh
. ../generator.sh

openapi_generator php invokerPackage=Rlockd,hideGenerationTimestamp=true
echo ok generate
cp smoke.php "$OUT/rlockd"
cd "$OUT/rlockd"
for file in lib/*.php lib/*/*.php; do
    php -l "$file" > "$OUT/compile.log" || {
        cat "$OUT/compile.log"
        exit 1
    }
done
echo ok compile
php smoke.php
