#!/usr/bin/env bash
# openapi-typescript and openapi-fetch, a client in TypeScript.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh

use_node
node_packages openapi-typescript openapi-typescript@7.13.0 openapi-fetch@0.17.0 \
    typescript@5.9.3 @types/node@20.19.25
cp smoke.ts tsconfig.json "$OUT"
echo '{ "type": "module", "private": true }' > "$OUT/package.json"
cd "$OUT"
ln -s "$TOOLS/openapi-typescript/node_modules" node_modules
node_modules/.bin/openapi-typescript "$SPEC" --output rlockd.d.ts
echo ok generate
node_modules/.bin/tsc
echo ok compile
node smoke.js
