/* Releases that are passed on to another worker of the process, whose waiter may get the lock.
 * The release goes to the waiter, not the waiter to the release: so the attempt, a withdrawal
 * and what is unknown stay with the worker and the connection of the waiter. */
#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/lease/leases.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/neighbours.h"

/* Where a release came back, none is passed on for so long: perhaps the waiters over there are
 * of a sort that no release may grant the lock to. */
#define REST_NS (CLOCK_NS_PER_MS / 2)

/* Goes to the worker with the waiter, and comes back. */
struct passed_release {
    struct inbox_message message;
    struct acquirer *from, *to;
    struct lease lease; /* with names of its own: references are not counted atomically */
    struct hand_over_series series;
    bool is_released, is_granted;
    struct lease_result result; /* if it is released */
    lease_done *done;
    void *arg;
};

/* --- back on the worker of the release ---------------------------------------------------- */

static enum wait_kind kind_of(const struct lease *lease)
{
    return kind_row(lease->kind)->wait;
}

/* No waiter over there may have the lock or permit now. */
static void release_here(struct passed_release *passed)
{
    struct acquirer *from = passed->from;
    enum wait_kind kind = kind_of(&passed->lease);
    char name[KEY_NAME_MAX + 1];
    size_t len = acquirer_key_name(from, &passed->lease, name);

    neighbours_rest(from->options.neighbour, kind, name, len,
                    loop_now_ns(from->options.loop) + REST_NS);
    waiters_missed(from->options.waiters, kind, name, len);
    if (!acquire_hand_over_here(from, &passed->lease, passed->done, passed->arg))
        lease_release(from->options.store, &passed->lease, passed->done, passed->arg);
}

static void finish(struct passed_release *passed)
{
    char name[KEY_NAME_MAX + 1];

    if (!passed->is_granted)
        waiters_missed(passed->from->options.waiters, kind_of(&passed->lease), name,
                       acquirer_key_name(passed->from, &passed->lease, name));
    passed->done(passed->arg, &passed->result);
}

static void on_back(struct inbox_message *message)
{
    struct passed_release *passed = (struct passed_release *)message;

    passed->from->options.neighbour->under_way--;
    if (passed->is_released)
        finish(passed);
    else
        release_here(passed);
    lock_names_unref(passed->lease.names);
    free(passed);
}

/* --- on the worker of the waiter ---------------------------------------------------------- */

static void send_back(struct passed_release *passed)
{
    passed->to->options.neighbour->under_way--;
    passed->message.deliver = on_back;
    inbox_return(passed->from->options.neighbour->inbox, &passed->message);
}

static void on_handed_over(void *arg, const struct hand_over_result *result)
{
    struct passed_release *passed = arg;

    passed->is_released = result->released != NULL;
    passed->is_granted = result->attempt != NULL;
    if (passed->is_released)
        passed->result = *result->released;
    assert(passed->result.record == NULL && passed->result.holder == NULL &&
           passed->result.holds == NULL); /* nothing that is gone by then */
    send_back(passed);
}

static void on_come(struct inbox_message *message)
{
    struct passed_release *passed = (struct passed_release *)message;

    /* This worker refers to names of its own: the worker of the release may free the release as
     * soon as the release is back. */
    struct lease lease = passed->lease;
    lease.names = lock_names_of_one(lease_name(&passed->lease));
    passed->to->options.neighbour->under_way++;
    if (!acquire_hand_over_passed(passed->to, &lease, &passed->series, on_handed_over, passed))
        send_back(passed);
    lock_names_unref(lease.names);
}

/* --- passing on --------------------------------------------------------------------------- */

bool release_pass_on(struct acquirer *acquirer, const struct lease *lease, const char *name,
                     size_t len, const struct hand_over_series *series, lease_done *done,
                     void *arg)
{
    struct neighbour *own = acquirer->options.neighbour;
    struct neighbour *other = neighbour_that_waits(own, kind_of(lease), name, len,
                                                   loop_now_ns(acquirer->options.loop));
    struct passed_release *passed;

    if (other == NULL)
        return false;
    passed = malloc(sizeof(*passed));
    assert(passed != NULL);
    *passed = (struct passed_release){.message = {.deliver = on_come},
                                      .from = acquirer,
                                      .to = other->acquirer,
                                      .lease = *lease,
                                      .series = *series,
                                      .done = done,
                                      .arg = arg};
    passed->lease.names = lock_names_of_one(lease_name(lease));
    if (!inbox_post(other->inbox, &passed->message)) {
        lock_names_unref(passed->lease.names);
        free(passed);
        return false;
    }
    own->under_way++;
    waiters_passed_on(acquirer->options.waiters, kind_of(lease), name, len);
    metrics_add(acquirer->options.metrics, METRIC_PASSED_RELEASES, 1);
    return true;
}
