#!/usr/bin/env bash
# Checks openapi.yaml with the linters of others: errors and warnings fail.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
export SPEC=$root/openapi.yaml TOOLS=$root/build/clients/tools
# shellcheck source=tests/clients/tools.sh
. ../tools.sh

mkdir -p "$TOOLS"
use_node
python_packages openapi-spec-validator openapi-spec-validator==0.9.0
node_packages openapi-lint @redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3
bin=$TOOLS/openapi-lint/node_modules/.bin

"$TOOLS/openapi-spec-validator/bin/openapi-spec-validator" "$SPEC"
REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
    "$bin/redocly" lint --config redocly.yaml "$SPEC"
"$bin/spectral" lint --ruleset spectral.yaml --fail-severity hint "$SPEC"
echo "openapi: clean"
