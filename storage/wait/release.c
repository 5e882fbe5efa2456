/* Releases that grant the lock or permit to the acquisition that is next, instead of telling
 * the waiters. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lease/leases.h"
#include "storage/wait/acquire_internal.h"

/* A release under way that may grant. */
struct passing {
    struct acquirer *acquirer;
    struct acquisition *to;
    struct lease lease; /* that is released; its names are referred to */
    lease_done *done;
    hand_over_done *passed; /* instead of `done`, of a release that was passed on to here */
    void *arg;
};

/* Whether the acquisition waits for what is released as a release may grant it. */
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

/* Waits on as before, or makes the attempt that came due meanwhile. */
static void wait_on(struct acquisition *acquisition)
{
    if (acquisition->state == ORPHANED) {
        acquisition_end_orphan(acquisition, false);
        return;
    }
    acquisition_enter(acquisition, SLEEPING);
    waiter_unchosen(&acquisition->waiter);
    bool is_due = acquisition_left_ms(acquisition) <= 0 ||
                  (!acquisition->attempt.registered && !acquisition->deferred);
    if (is_due && acquisition->state == SLEEPING)
        acquisition_try(acquisition);
}

static void on_handed_over(void *arg, const struct hand_over_result *result)
{
    struct passing *passing = arg;
    struct store *store = passing->acquirer->options.store;

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
    struct acquirer *acquirer = passing.acquirer;
    struct waiters *waiters = acquirer->options.waiters;
    struct acquisition *to = passing.to;
    struct passing *sent = malloc(sizeof(*sent));

    assert(sent != NULL);
    *sent = passing;
    lock_names_ref(sent->lease.names);
    acquisition_enter(to, CHOSEN);
    to->attempted = true;
    to->generation = waiters_generation(waiters);
    to->lease_generation = waiters_lease_generation(waiters);
    unsigned own_listeners = waiter_choose(&to->waiter);
    hand_over_send(acquirer->options.store, &sent->lease, to->lease, &to->attempt,
                   own_listeners, on_handed_over, sent);
}

/* The acquisition of this worker that may get the lock, or NULL. */
static struct acquisition *find_next(const struct acquirer *acquirer, const struct lease *lease,
                                     const char *name, size_t len,
                                     struct hand_over_series *series)
{
    const struct waiter *next = waiters_next(acquirer->options.waiters,
                                             kind_row(lease->kind)->wait, name, len, series);

    return next != NULL && may_be_granted(next->arg, lease) ? next->arg : NULL;
}

static bool hand_over(struct acquirer *acquirer, const struct lease *lease, bool may_pass_on,
                      lease_done *done, void *arg)
{
    enum kind_family family = kind_row(lease->kind)->family;
    struct hand_over_series series;
    char name[KEY_NAME_MAX + 1];

    if ((family != FAMILY_LOCK && family != FAMILY_PERMIT) ||
        (!may_pass_on && !waiters_have_queues(acquirer->options.waiters)))
        return false;
    size_t len = acquirer_key_name(acquirer, lease, name);
    struct acquisition *to = find_next(acquirer, lease, name, len, &series);
    if (may_pass_on && (to == NULL || series.has_gone_round) && !series.is_open &&
        release_pass_on(acquirer, lease, name, len, &series, done, arg))
        return true;
    if (to == NULL)
        return false;
    send((struct passing){
        .acquirer = acquirer, .to = to, .lease = *lease, .done = done, .arg = arg});
    return true;
}

bool acquire_hand_over(struct acquirer *acquirer, const struct lease *lease, lease_done *done,
                       void *arg)
{
    return hand_over(acquirer, lease, acquirer->options.neighbour != NULL, done, arg);
}

bool acquire_hand_over_here(struct acquirer *acquirer, const struct lease *lease,
                            lease_done *done, void *arg)
{
    return hand_over(acquirer, lease, false, done, arg);
}

bool acquire_hand_over_passed(struct acquirer *acquirer, const struct lease *lease,
                              const struct hand_over_series *series, hand_over_done *done,
                              void *arg)
{
    struct waiters *waiters = acquirer->options.waiters;
    enum wait_kind kind = kind_row(lease->kind)->wait;
    struct hand_over_series here;
    char name[KEY_NAME_MAX + 1];
    size_t len = acquirer_key_name(acquirer, lease, name);

    if (acquirer->draining || !waiters_take_over(waiters, kind, name, len, series))
        return false;
    struct acquisition *to = find_next(acquirer, lease, name, len, &here);
    if (to == NULL)
        return false;
    send((struct passing){
        .acquirer = acquirer, .to = to, .lease = *lease, .passed = done, .arg = arg});
    return true;
}
