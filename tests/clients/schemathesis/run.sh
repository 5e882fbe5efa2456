#!/usr/bin/env bash
# run.sh RLOCKD [SEED [EXAMPLES]]: schemathesis against a private rlockd. It makes requests that
# openapi.yaml permits and such as it forbids, and checks every answer. schemathesis.toml says
# which findings are none, and why. All of its phases take two minutes; with EXAMPLES each phase
# runs once, with at most so many requests for each operation that are made up.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
# shellcheck source=tests/clients/tools.sh
. tests/clients/tools.sh
# shellcheck source=tests/clients/server.sh
. tests/clients/server.sh

rlockd=$1 seed=${2:-1} examples=${3:-} out=$PWD/build/clients/schemathesis
extent=(--max-time 120)
[ -z "$examples" ] || extent=(--max-examples "$examples")
mkdir -p "$out"
python_packages schemathesis "$here/requirements.txt"
# Of a wait of 55 s nothing is learnt that one of a second does not tell.
sed -E 's/^(      maximum: )55000$/\11000/; s/^(          maximum: )1800000$/\1500/' \
    openapi.yaml > "$out/openapi.yaml"
start_server "$rlockd" "$out/server" --max-wait-ms 1000
cd "$here"
"$TOOLS/schemathesis/bin/schemathesis" --config-file schemathesis.toml \
    run "$out/openapi.yaml" --url "$RLOCKD_URL" --seed "$seed" "${extent[@]}" --checks all \
    --output-sanitize false --report-dir "$out/report"
