#!/bin/sh
# worker.sh COMMAND [ARGUMENT...]: a worker of which one runs at a time. Start it on every machine
# under a supervisor that starts it again: the next one takes over when the running one dies.
exec rlock run "${LOCK:-worker}" "$@"
