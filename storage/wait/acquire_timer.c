/* The timer of a wait: the end of its deferral, the time when it becomes long, its deadline,
 * and the time when it is answered at the latest. */
#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"

/* Redis answers each call within 2 s or the call fails, but the calls of a request may be
 * several, one after the other: so long after its deadline the request is answered. Clients
 * count on 4 s. */
#define LAST_NS (3500 * CLOCK_NS_PER_MS)

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
    acquisition->last_ns = 0;
    if (acquisition->deferred)
        arm(acquisition, acquisition->wait_began_ns + DEFERRAL_MS * CLOCK_NS_PER_MS);
    else
        arm(acquisition, next_event_ns(acquisition));
}

/* A deadline that passed while this worker stood still leaves its calls as much time. */
void acquisition_arm_last(struct acquisition *acquisition)
{
    int64_t now_ns = loop_now_ns(acquisition->acquirer->options.loop);
    int64_t from_ns = acquisition->deadline_ns > now_ns ? acquisition->deadline_ns : now_ns;

    acquisition->last_ns = from_ns + LAST_NS;
    arm(acquisition, acquisition->last_ns);
}

bool acquisition_is_overdue(const struct acquisition *acquisition)
{
    return acquisition->last_ns != 0 && acquisition->waiter.trying &&
           loop_now_ns(acquisition->acquirer->options.loop) >= acquisition->last_ns;
}

void acquisition_end_deferral(struct acquisition *acquisition)
{
    acquisition->deferred = false;
    acquisition_arm(acquisition);
}

bool acquisition_becomes_long(struct acquisition *acquisition)
{
    const struct long_wait_watcher *long_waits = acquisition->acquirer->options.long_waits;

    if (acquisition->deferred || acquisition->last_ns != 0 ||
        next_event_ns(acquisition) == acquisition->deadline_ns)
        return false;
    acquisition->long_wait = long_waits->began(long_waits->arg, acquisition);
    acquisition_arm(acquisition);
    return true;
}
