/* Releases that are handed over here, or passed on to another worker of the process, whose
 * waiter may get the lock. The release goes to the waiter, not the waiter to the release: so
 * the attempt, its withdrawal and an unknown outcome stay with the worker and the connection of
 * the waiter. */
#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/lease/leases.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/neighbours.h"

/* The pause after a release came back: the other worker's waiters may be ones that no release
 * can grant to (with owners, with a session that must be asked first). */
#define REST_NS (CLOCK_NS_PER_MS / 2)

/* Goes to the worker with the waiter, and comes back. */
struct passed_release {
    struct inbox_message message;
    struct acquirer *from, *to;
    struct lease lease; /* with names of its own: references are not counted atomically */
    struct hand_over_series series;
    bool is_released, is_granted;
    struct lease_result result; /* if is_released */
    lease_done *done;
    void *arg;
};

/* --- back on the worker of the release ---------------------------------------------------- */

/* No waiter over there may have the lock or permit now. */
static void release_here(struct passed_release *passed)
{
    struct acquirer *from = passed->from;
    struct wait_place place;

    acquirer_find_place(from, &passed->lease, &place);
    place_rest(&place, REST_NS);
    place_missed(&place);
    if (!acquire_hand_over_here(from, &passed->lease, passed->done, passed->arg))
        lease_release(from->options.store, &passed->lease, passed->done, passed->arg);
}

static void finish(struct passed_release *passed)
{
    struct wait_place place;

    if (!passed->is_granted) {
        acquirer_find_place(passed->from, &passed->lease, &place);
        place_missed(&place);
    }
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
           passed->result.holds == NULL); /* they would be gone by then */
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

static bool pass_on(struct acquirer *acquirer, const struct lease *lease,
                    const struct wait_place *place, const struct hand_over_series *series,
                    lease_done *done, void *arg)
{
    struct neighbour *own = acquirer->options.neighbour;
    struct neighbour *other = place_next_worker(place);
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
    place_passed_on(place);
    metrics_add(acquirer->options.metrics, METRIC_PASSED_RELEASES, 1);
    return true;
}

bool acquire_hand_over(struct acquirer *acquirer, const struct lease *lease, lease_done *done,
                       void *arg)
{
    struct hand_over_series series;
    struct wait_place place;

    if (acquirer->options.keeps_releases_open)
        return false;
    if (acquirer->options.neighbour == NULL)
        return acquire_hand_over_here(acquirer, lease, done, arg);
    if (!release_may_grant(lease))
        return false;
    acquirer_find_place(acquirer, lease, &place);
    struct acquisition *to = release_find_next(&place, lease, &series);
    if ((to == NULL || series.has_gone_round) && !series.is_open &&
        pass_on(acquirer, lease, &place, &series, done, arg))
        return true;
    if (to == NULL)
        return false;
    release_to(to, lease, done, arg);
    return true;
}
