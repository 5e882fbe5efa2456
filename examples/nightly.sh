#!/bin/sh
# nightly.sh COMMAND [ARGUMENT...]: for the crontab of several machines, of which one runs the job:
#
#     RLOCK_URL=http://one:7400,http://two:7400
#     0 3 * * * nightly.sh /usr/local/bin/nightly
#
# The first machine runs it. The others end at once, with status 0 and no output, which cron would
# send as mail. --at-least keeps the lock for a minute, so that a machine whose clock is late does
# not run a short job again.
#
# When things go wrong
# - The job fails: its status is that of this script. It runs again the next night, not earlier.
# - The job hangs: it is ended after two hours, with status 124.
# - Its machine dies: the night's job is not done. The lock is free after 30 s.
# - No server answers: status 69, and the job does not run.
# - The lock is freed by force, or all servers are gone for long: the job is ended, status 79.
exec rlock run --no-wait --quiet --busy-status 0 --at-least "${AT_LEAST:-1m}" --max-time 2h \
    "${LOCK:-nightly}" "$@"
