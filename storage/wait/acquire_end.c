/* How acquisitions end: what is withdrawn, answered and counted, and which calls outlive them.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/neighbours.h"

static const struct kind_row *kind_of(const struct acquisition *acquisition)
{
    return kind_row(acquisition->lease->kind);
}

static void count_end_of_wait(struct acquisition *acquisition, bool got_it)
{
    struct acquirer *acquirer = acquisition->acquirer;
    struct metrics *metrics = acquirer->options.metrics;
    int64_t now_ns = clock_ns();

    if (acquisition->wait_began_ns == 0)
        return;
    acquirer->options.slots->used--;
    metrics_add(metrics, got_it ? METRIC_WAITS_GRANTED : METRIC_WAITS_ENDED, 1);
    metrics_observe(metrics, HISTOGRAM_WAIT, now_ns - acquisition->wait_began_ns);
    metrics_observe_name(metrics, PREFIX_WAIT, lease_name(acquisition->lease),
                         now_ns - acquisition->wait_began_ns);
    int64_t woken_ns = waiter_woken_ns(&acquisition->waiter);
    if (got_it && woken_ns > acquisition->wait_began_ns)
        metrics_observe(metrics, HISTOGRAM_UNLOCK_TO_GRANT, now_ns - woken_ns);
}

/* The call under way outlives its acquisition. If Redis had forgotten the script, an attempt is
 * sent again and runs after its withdrawal: so its reply may cause a second withdrawal. */
static void orphan(struct acquisition *acquisition)
{
    acquisition->orphan = malloc(sizeof(*acquisition->orphan));
    assert(acquisition->orphan != NULL);
    *acquisition->orphan = *acquisition->lease;
    lock_names_ref(acquisition->orphan->names);
    acquisition_enter(acquisition, ORPHANED);
}

void acquisition_end_orphan(struct acquisition *acquisition, bool granted)
{
    struct acquirer *acquirer = acquisition->acquirer;
    struct lease *lease = acquisition->orphan;

    acquisition_enter(acquisition, ENDED);
    if (granted)
        lease_withdraw(acquirer->options.store, lease, acquisition->place);
    lock_names_unref(lease->names);
    free(lease);
    pool_give(&acquirer->pool, acquisition);
}

struct deadlock *acquisition_end_long_wait(struct acquisition *acquisition, bool may_ask_again)
{
    struct long_wait *long_wait = acquisition->long_wait;

    acquisition->long_wait = NULL;
    if (long_wait == NULL)
        return NULL;
    return acquisition->acquirer->options.long_waits->ended(long_wait, may_ask_again);
}

void acquisition_end(struct acquisition *acquisition, bool got_it, int64_t taken_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    bool is_under_way = acquisition->waiter.trying;

    timer_cancel(loop_timers(acquirer->options.loop), &acquisition->deadline);
    count_end_of_wait(acquisition, got_it);
    if (waiter_is_waiting(&acquisition->waiter))
        waiter_leave(acquirer->options.waiters, &acquisition->waiter, taken_ms);
    DL_DELETE(acquirer->acquisitions, acquisition);
    if (acquisition->session_list != NULL)
        DL_DELETE2(*acquisition->session_list, acquisition, session_prev, session_next);
    if (is_under_way) {
        orphan(acquisition);
    } else {
        acquisition_enter(acquisition, ENDED);
        pool_give(&acquirer->pool, acquisition);
    }
}

static bool is_success(enum try_outcome outcome)
{
    return outcome == TRY_GRANTED || outcome == TRY_CONFIRMED;
}

/* Whether the client may wait on by another request with the token. */
static bool may_ask_again(const struct acquisition *acquisition, enum try_outcome outcome)
{
    if (acquisition->lease->unrepeatable)
        return false;
    switch (outcome) {
    case TRY_BUSY:
    case TRY_TOO_MANY_WAITERS:
    case TRY_DRAINING:
    case TRY_NOT_EXECUTED:
    case TRY_UNKNOWN:
        return true;
    case TRY_GRANTED:
    case TRY_CONFIRMED:
    case TRY_MAY_NOT_WAIT: /* nor stand in a queue */
    case TRY_DEADLOCK:     /* the place would hold up the others */
    case TRY_REFUSED:
        break;
    }
    return false;
}

/* Takes back what the attempts of an acquisition that failed may have left in Redis. */
static void withdraw_attempts(struct acquisition *acquisition, enum try_outcome outcome)
{
    /* In a fair lock's queue, for that request. */
    bool keeps_place = kind_of(acquisition)->keeps_place && may_ask_again(acquisition, outcome);

    acquisition->place = keeps_place ? KEEP_PLACE : WITHDRAW_PLACE;
    if (acquisition->attempt.registered || acquisition->uncertain)
        lease_withdraw(acquisition->acquirer->options.store, acquisition->lease,
                       acquisition->place);
    else if (acquisition->prepared)
        lease_unprepare(acquisition->acquirer->options.store, acquisition->lease);
}

/* How long the object has nothing for other waiters, in ms; negative: it may have something.
 * `attempt`: the one that decided; NULL: none did, and nothing was got. */
static int64_t taken_ms_of(const struct acquisition *acquisition, bool got_it,
                           const struct attempt_result *attempt)
{
    if (!got_it)
        return -1;
    if (kind_of(acquisition)->leaves_some)
        return attempt->none_left_ms > 0 ? attempt->none_left_ms : -1;
    /* Without a TTL, which only an operator can have taken away, there is nothing to sleep for.
     */
    return attempt->remaining_ms >= 0 ? attempt->remaining_ms : INT64_MAX;
}

/* How long the acquisition has a read/write lock to read, in ms; 0: it has none. */
static int64_t shared_ms_of(const struct acquisition *acquisition, bool got_it,
                            const struct attempt_result *attempt)
{
    if (!got_it || !kind_of(acquisition)->reads)
        return 0;
    return attempt->remaining_ms >= 0 ? attempt->remaining_ms : INT64_MAX;
}

/* Whether what the acquisition got leaves nothing for a request that comes now. */
static bool leaves_nothing(const struct acquisition *acquisition,
                           const struct attempt_result *attempt)
{
    const struct kind_row *kind = kind_row(acquisition->lease->kind);

    if (kind->family == FAMILY_PERMIT)
        return attempt->lease->available == 0;
    return kind->family == FAMILY_LOCK && !kind->leaves_some && !kind->keeps_place;
}

/* Requests that come now may be put off: see deferral.c. */
static void note_taken(const struct acquisition *acquisition,
                       const struct attempt_result *attempt)
{
    const struct acquirer *acquirer = acquisition->acquirer;
    struct wait_place place;

    if (!leaves_nothing(acquisition, attempt) || waiter_is_waiting(&acquisition->waiter) ||
        !waiters_have_queues(acquirer->options.waiters))
        return;
    acquirer_find_place(acquirer, acquisition->lease, &place);
    place_taken(&place, attempt->remaining_ms >= 0 ? attempt->remaining_ms : INT64_MAX);
}

static void finish(struct acquisition *acquisition, const struct acquire_result *result,
                   const struct attempt_result *attempt)
{
    struct acquire_result shown = *result;
    acquire_done *done = acquisition->done;
    void *arg = acquisition->arg;
    bool got_it = is_success(result->outcome);
    int64_t taken_ms = taken_ms_of(acquisition, got_it, attempt);

    acquisition->waiter.shared_ms = shared_ms_of(acquisition, got_it, attempt);
    if (got_it)
        note_taken(acquisition, attempt);
    else
        withdraw_attempts(acquisition, result->outcome);
    struct deadlock *deadlock = acquisition_end_long_wait(
        acquisition, may_ask_again(acquisition, result->outcome));
    shown.deadlock = deadlock;
    acquisition_end(acquisition, got_it, taken_ms);
    done(arg, &shown);
    free(deadlock);
}

void acquisition_finish_with(struct acquisition *acquisition,
                             const struct attempt_result *attempt)
{
    const struct acquire_result result = {
        .outcome = attempt->outcome, .lease = attempt->lease, .counter = attempt->counter};

    finish(acquisition, &result, attempt);
}

void acquisition_finish_as(struct acquisition *acquisition, enum try_outcome outcome)
{
    const struct acquire_result result = {.outcome = outcome};

    finish(acquisition, &result, NULL);
}

void acquisition_finish_draining(struct acquisition *acquisition)
{
    acquisition_finish_as(acquisition,
                          acquisition_is_in_doubt(acquisition) ? TRY_UNKNOWN : TRY_DRAINING);
}

void acquisition_finish_refused(struct acquisition *acquisition, enum try_outcome outcome,
                                const struct lease_result *lease)
{
    const struct acquire_result result = {.outcome = outcome, .lease = lease};

    finish(acquisition, &result, NULL);
}

/* The call under way may be an attempt. */
void acquisition_finish_overdue(struct acquisition *acquisition)
{
    acquisition->uncertain |= acquisition->state != PREPARING && acquisition->state != LOOKING;
    acquisition_finish_as(acquisition, acquisition_is_in_doubt(acquisition) ? TRY_UNKNOWN
                                                                            : TRY_NOT_EXECUTED);
}

/* Whether an attempt is under way: its reply ends the acquisition, because none of a front end
 * that drains waits on. */
static bool has_attempt_under_way(const struct acquisition *acquisition)
{
    return acquisition->state == RETRYING || acquisition->state == CHOSEN ||
           acquisition->state == LAST_ATTEMPT;
}

void acquirer_drain(struct acquirer *acquirer)
{
    struct acquisition *head, *acquisition, *prev;

    acquirer->draining = true;
    if (acquirer->options.neighbour != NULL)
        inbox_close(acquirer->options.neighbour->inbox);
    head = acquirer->acquisitions;
    /* From the last to the first, so that the baton is not handed through the whole queue. */
    for (acquisition = head ? head->prev : NULL; acquisition != NULL; acquisition = prev) {
        prev = acquisition == head ? NULL : acquisition->prev;
        if (acquisition->wait_began_ns != 0 && !has_attempt_under_way(acquisition))
            acquisition_finish_draining(acquisition);
    }
}
