/* Releases that grant the lock or permit to the next acquisition in the same script, instead of
 * waking a waiter that then makes an attempt. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lease/leases.h"
#include "storage/wait/acquire_internal.h"

/* A release under way that may grant. */
struct passing {
    struct acquisition *to;
    struct lease lease; /* the released one; holds a reference to its names */
    lease_done *done;
    hand_over_done *passed; /* instead of `done`, if another worker passed the release on */
    void *arg;
};

/* Whether the acquisition can be granted by a release of that lease. */
static bool may_be_granted(const struct acquisition *acquisition, const struct lease *released)
{
    const struct lease *lease = acquisition->lease;

    if (store_quarantine_ms(acquisition->acquirer->options.store, lease_name(lease)) > 0)
        return false;
    return acquisition->state == SLEEPING && hand_over_serves(lease) &&
           (acquisition->attempt.registered || acquisition->deferred) &&
           acquisition_left_ms(acquisition) > 0 && !acquisition_must_prepare(acquisition) &&
           strcmp(lease->id, released->id) != 0;
}

/* The release granted nothing: sleeps on, or makes the attempt that came due meanwhile. */
static void wait_on(struct acquisition *acquisition)
{
    if (acquisition->state == ORPHANED) {
        acquisition_end_orphan(acquisition, false);
        return;
    }
    acquisition->waiter.trying = false;
    acquisition_enter(acquisition, SLEEPING);
    waiter_unchosen(&acquisition->waiter);
    bool is_due = acquisition_left_ms(acquisition) <= 0 ||
                  (!acquisition->attempt.registered && !acquisition->deferred);
    if (acquisition->state != SLEEPING)
        return;
    if (acquisition->acquirer->draining)
        acquisition_finish_draining(acquisition);
    else if (is_due)
        acquisition_try(acquisition);
}

static void on_handed_over(void *arg, const struct hand_over_result *result)
{
    struct passing *passing = arg;
    struct store *store = passing->to->acquirer->options.store;

    /* The requests that the next waiter sends from here on come after the release. The worker
     * that passed the release on is answered first, so that the client of that worker has as
     * good a chance for the next turn as the client of the waiter. */
    if (passing->passed != NULL)
        passing->passed(passing->arg, result);
    else if (result->released == NULL)
        lease_release(store, &passing->lease, passing->done, passing->arg);
    if (result->others_listen && passing->to->state != ORPHANED)
        waiter_yield(&passing->to->waiter);
    if (result->attempt != NULL)
        acquisition_tried(passing->to, result->attempt);
    else
        wait_on(passing->to);
    if (passing->passed == NULL && result->released != NULL)
        passing->done(passing->arg, result->released);
    lock_names_unref(passing->lease.names);
    free(passing);
}

static void send(struct passing passing)
{
    struct acquisition *to = passing.to;
    struct acquirer *acquirer = to->acquirer;
    struct waiters *waiters = acquirer->options.waiters;
    struct passing *sent = malloc(sizeof(*sent));

    assert(sent != NULL);
    *sent = passing;
    lock_names_ref(sent->lease.names);
    to->attempted = true;
    to->generation = waiters_generation(waiters);
    to->lease_generation = waiters_lease_generation(waiters);
    unsigned own_listeners = waiter_choose(&to->waiter);
    acquisition_enter(to, CHOSEN);
    hand_over_send(acquirer->options.store, &sent->lease, to->lease, &to->attempt,
                   own_listeners, on_handed_over, sent);
}

bool release_may_grant(const struct lease *lease)
{
    enum kind_family family = kind_row(lease->kind)->family;

    return family == FAMILY_LOCK || family == FAMILY_PERMIT;
}

struct acquisition *release_find_next(const struct wait_place *place, const struct lease *lease,
                                      struct hand_over_series *series)
{
    const struct waiter *next = place_next(place, series);

    return next != NULL && may_be_granted(next->arg, lease) ? next->arg : NULL;
}

void release_to(struct acquisition *acquisition, const struct lease *lease, lease_done *done,
                void *arg)
{
    send((struct passing){.to = acquisition, .lease = *lease, .done = done, .arg = arg});
}

bool acquire_hand_over_here(struct acquirer *acquirer, const struct lease *lease,
                            lease_done *done, void *arg)
{
    struct hand_over_series series;
    struct wait_place place;

    if (!release_may_grant(lease) || !waiters_have_queues(acquirer->options.waiters))
        return false;
    acquirer_find_place(acquirer, lease, &place);
    struct acquisition *to = release_find_next(&place, lease, &series);
    if (to == NULL)
        return false;
    release_to(to, lease, done, arg);
    return true;
}

bool acquire_hand_over_passed(struct acquirer *acquirer, const struct lease *lease,
                              const struct hand_over_series *series, hand_over_done *done,
                              void *arg)
{
    struct hand_over_series here;
    struct wait_place place;

    acquirer_find_place(acquirer, lease, &place);
    if (acquirer->draining || !place_take_over(&place, series))
        return false;
    struct acquisition *to = release_find_next(&place, lease, &here);
    if (to == NULL)
        return false;
    send((struct passing){.to = to, .lease = *lease, .passed = done, .arg = arg});
    return true;
}
