/* The timer of a wait: the end of its deferral, the time when it becomes long, its deadline. */
#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"

static void arm(struct acquisition *acquisition, int64_t at_ns)
{
    timer_arm(loop_timers(acquisition->acquirer->options.loop), &acquisition->deadline, at_ns);
}

/* When the wait becomes long, if that is still to come and is before the deadline; else the
 * deadline. */
static int64_t next_event_ns(const struct acquisition *acquisition)
{
    int64_t long_ns = acquisition->wait_began_ns + LONG_WAIT_MS * CLOCK_NS_PER_MS;
    bool becomes_long = acquisition->acquirer->options.long_waits != NULL &&
                        acquisition->long_wait == NULL && long_ns < acquisition->deadline_ns;

    return becomes_long ? long_ns : acquisition->deadline_ns;
}

void acquisition_arm(struct acquisition *acquisition)
{
    if (acquisition->deferred)
        arm(acquisition, acquisition->wait_began_ns + DEFERRAL_MS * CLOCK_NS_PER_MS);
    else
        arm(acquisition, next_event_ns(acquisition));
}

void acquisition_end_deferral(struct acquisition *acquisition)
{
    acquisition->deferred = false;
    acquisition_arm(acquisition);
}

bool acquisition_becomes_long(struct acquisition *acquisition)
{
    const struct long_wait_watcher *long_waits = acquisition->acquirer->options.long_waits;

    if (acquisition->deferred || next_event_ns(acquisition) == acquisition->deadline_ns)
        return false;
    acquisition->long_wait = long_waits->began(long_waits->arg, acquisition);
    acquisition_arm(acquisition);
    return true;
}
