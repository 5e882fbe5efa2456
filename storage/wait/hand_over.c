/* Releases that grant the lock or permit to the acquisition that is next, instead of telling
 * the waiters. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/objects/hand_over.h"
#include "storage/objects/key.h"
#include "storage/objects/leases.h"
#include "storage/wait/acquire_internal.h"

/* A release under way that may grant. */
struct passing {
    struct acquirer *acquirer;
    struct acquisition *to;
    struct lease lease; /* that is released; its names are referred to */
    lease_done *done;
    void *arg;
};

/* Whether the acquisition waits for what is released as a release may grant it. */
static bool may_be_granted(const struct acquisition *acquisition, const struct lease *released)
{
    const struct lease *lease = acquisition->lease;

    if (lock_store_quarantine_ms(acquisition->acquirer->options.store, lease_name(lease)) > 0)
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
    struct lock_store *store = passing->acquirer->options.store;

    /* What the next one in line sends now comes after the release. */
    if (result->released == NULL)
        lease_release(store, &passing->lease, passing->done, passing->arg);
    if (result->others_listen && passing->to->state != ORPHANED)
        waiter_yield(&passing->to->waiter);
    if (result->attempt != NULL)
        acquisition_tried(passing->to, result->attempt);
    else
        wait_on(passing->to);
    if (result->released != NULL)
        passing->done(passing->arg, result->released);
    lock_names_unref(passing->lease.names);
    free(passing);
}

static void send(struct acquirer *acquirer, struct acquisition *to, const struct lease *lease,
                 lease_done *done, void *arg)
{
    struct waiters *waiters = acquirer->options.waiters;
    struct passing *passing = malloc(sizeof(*passing));

    assert(passing != NULL);
    *passing = (struct passing){
        .acquirer = acquirer, .to = to, .lease = *lease, .done = done, .arg = arg};
    lock_names_ref(passing->lease.names);
    acquisition_enter(to, CHOSEN);
    to->attempted = true;
    to->generation = waiters_generation(waiters);
    to->lease_generation = waiters_lease_generation(waiters);
    bool others_first = waiter_choose(&to->waiter);
    hand_over_send(acquirer->options.store, lease, to->lease, &to->attempt, others_first,
                   on_handed_over, passing);
}

bool acquire_hand_over(struct acquirer *acquirer, const struct lease *lease, lease_done *done,
                       void *arg)
{
    const struct kind_row *kind = kind_row(lease->kind);
    char name[KEY_NAME_MAX + 1];

    if ((kind->family != FAMILY_LOCK && kind->family != FAMILY_PERMIT) ||
        !waiters_have_queues(acquirer->options.waiters))
        return false;
    size_t len = lock_store_key_name(acquirer->options.store, lease_name(lease), name,
                                     sizeof(name));
    struct waiter *waiter = waiters_next(acquirer->options.waiters, kind->wait, name, len);
    if (waiter == NULL || !may_be_granted(waiter->arg, lease))
        return false;
    send(acquirer, waiter->arg, lease, done, arg);
    return true;
}
