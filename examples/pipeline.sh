#!/bin/sh
# pipeline.sh lock | step COMMAND [ARGUMENT...] | unlock: a deploy of several CI jobs, each a
# process of its own, with one lock for all of them:
#
#     pipeline.sh lock
#     pipeline.sh step ./deploy.sh
#     pipeline.sh step ./smoke-test.sh
#     pipeline.sh unlock                    # also when a step has failed
#
# The jobs hand on the file .lease, which keeps the lease's secret token.
#
# When things go wrong
# - Another pipeline has the lock: `lock` waits 20 minutes, then its status is 75. Its message names
#   the job that holds the lock.
# - A job is repeated: that is safe, each of these commands may be.
# - The pipeline is cancelled, and `unlock` never comes: the lock is free two hours after the last
#   step began, or after `rlock force-unlock`.
# - The lock was freed by force, or its time was over: the next step does not begin, status 79. A
#   step without `lock` before it does not, either, status 64.
set -eu
lock=${LOCK:-deploy/production}
verb=$1
shift
case $verb in
    lock) rlock acquire "$lock" --lease-file .lease --fair --wait "${WAIT:-20m}" --ttl 2h \
        --note "${CI_JOB_URL:-by hand}" ;;
    step) rlock renew "$lock" --lease-file .lease --ttl 2h > /dev/null && "$@" ;;
    unlock) rlock release "$lock" --lease-file .lease ;;
    *)
        echo "usage: pipeline.sh lock | step COMMAND [ARGUMENT...] | unlock" >&2
        exit 64
        ;;
esac
