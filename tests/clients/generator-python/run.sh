#!/usr/bin/env bash
# openapi-generator, a client in Python with urllib3 and pydantic.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh
# shellcheck source=tests/clients/generator.sh
. ../generator.sh

openapi_generator python packageName=rlockd
echo ok generate
python_packages generator-python requirements.txt
python=$TOOLS/generator-python/bin/python
cp smoke.py "$OUT/rlockd"
cd "$OUT/rlockd"
"$python" -m compileall -q rlockd
echo ok compile
"$python" smoke.py
