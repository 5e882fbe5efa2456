#!/usr/bin/env bash
# Runs a program of this folder with what it needs of npm: playwright-core drives the browser,
# axe-core looks for what people with a disability cannot use.
#
# usage: run.sh run.py|load.py ARGUMENT...
set -eu
cd "$(dirname "$0")/../clients"
# shellcheck source=tests/clients/tools.sh
. ./tools.sh
cd "$root"
use_node
node_packages page playwright-core@1.65.1 axe-core@4.14.1

program=tests/page/$1
shift
NODE_PATH=$TOOLS/page/node_modules exec /usr/bin/python3 "$program" "$@"
