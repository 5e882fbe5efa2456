#!/usr/bin/env bash
# The page in Chromium, before a private rlockd with API tokens. playwright-core drives the
# browser, axe-core looks for what people with a disability cannot use; both are from npm.
#
# usage: run.sh RLOCKD [PICTURE]: PICTURE gets a picture of the page.
set -eu
cd "$(dirname "$0")/../clients"
# shellcheck source=tests/clients/tools.sh
. ./tools.sh
cd "$root"
use_node
node_packages page playwright-core@1.65.1 axe-core@4.14.1

folder=build/page
mkdir -p "$folder"
tokens=$folder/tokens
: > "$tokens"
# Each token is its caller's name and this.
for right in 'ops read=* lock=* operate=*' 'reader read=*'; do
    caller=${right%% *}
    printf '%s-secret-aaaaaaaa' "$caller" | "$1" --hash-token "$caller" |
        awk -v rights="${right#* }" '{ print $1, $2, rights }' >> "$tokens"
done

# shellcheck source=tests/clients/server.sh
. tests/clients/server.sh
start_server "$1" "$folder/server" --api-tokens "$PWD/$tokens" --deadlock-check-ms 1000
NODE_PATH=$TOOLS/page/node_modules node tests/page/run.cjs "${2:-}"
