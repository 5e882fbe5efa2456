#!/bin/sh
# deploy.sh COMMAND [ARGUMENT...]: one deploy at a time, wherever it is started, in the order of
# the requests; gives up after 10 minutes with status 75, and ends a deploy that takes 30.
exec rlock run --fair --wait 10m --max-time 30m "${LOCK:-deploy}" "$@"
