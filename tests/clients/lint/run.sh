#!/usr/bin/env bash
# Checks openapi.yaml with the linters of others: errors and warnings fail.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh

use_node
python_packages openapi-spec-validator requirements.txt
node_packages openapi-lint @redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3
bin=$TOOLS/openapi-lint/node_modules/.bin

"$TOOLS/openapi-spec-validator/bin/openapi-spec-validator" ../../../openapi.yaml
REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
    "$bin/redocly" lint --config redocly.yaml ../../../openapi.yaml
"$bin/spectral" lint --ruleset spectral.yaml --fail-severity hint ../../../openapi.yaml
echo "openapi: clean"
