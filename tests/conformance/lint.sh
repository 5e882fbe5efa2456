#!/bin/sh
# The clients to copy, as their languages' own tools see them.
cd "$(dirname "$0")/../.." || exit 1
status=0
mypy --strict clients/python/rlockd.py || status=1
flake8 --max-line-length 96 clients/python tests/conformance || status=1
for file in clients/*/rlockd.*; do
    [ "$(wc -l < "$file")" -le 250 ] || { echo "$file has more than 250 lines"; status=1; }
done
exit $status
