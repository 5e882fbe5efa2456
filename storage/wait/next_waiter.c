/* The next waiter: the one to which a release by this worker may hand the lock or permit over.
 */
#include <assert.h>

#include "server/base/clock.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/place.h"
#include "storage/wait/waiters_internal.h"

/* Whether a lock or a permit may be handed over to a waiter of the queue. Not without a
 * live subscription, because the worker would miss the messages of other clients. */
static bool may_hand_over(const struct wait_queue *queue)
{
    return queue->waiting != NULL && subscription_is_live(&queue->subscription);
}

/* The first waiter of the queue, if neither that waiter nor the baton's has an attempt under
 * way. Several permits may be released at a time: of a semaphore the first waiter without an
 * attempt under way. */
static struct waiter *next_of(const struct wait_queue *queue)
{
    struct waiter *waiter = queue != NULL ? queue->waiting : NULL;

    if (waiter != NULL && queue->kind == WAIT_SEMAPHORE)
        while (waiter != NULL && waiter->trying)
            waiter = waiter->next;
    else if (waiter != NULL && (queue->baton != NULL || waiter->trying))
        waiter = NULL;
    return waiter;
}

/* The first waiter of the fair lock, as next_of() gives it. */
static struct waiter *next_in_line(struct wait_line *line)
{
    if (line == NULL || wait_line_is_behind(line))
        return NULL;
    struct waiter *next = next_of(line->queues);
    if (next == NULL)
        wait_line_released(line);
    return next;
}

/* Fills in the series of a plain lock or of permits. During a yield each release is open to
 * all clients; this worker may still release other permits. */
static void read_series(struct wait_queue *queue, struct hand_over_series *series)
{
    share_read_series(&queue->share, queue->waiter_count,
                      loop_now_ns(queue->owner->options.loop), series);
    series->is_open |= wait_queue_yields(queue);
}

/* The queue that the release is for. A release does not say whether the lock is plain or
 * read/write: the queue that has waiters decides. */
static struct wait_queue *released_queue(const struct wait_place *place)
{
    struct wait_queue *queue = place->queue;

    if (place->read_write == NULL || (queue != NULL && queue->waiting != NULL))
        return queue;
    if (queue != NULL)
        wait_queue_note_released(queue); /* perhaps */
    return place->read_write;
}

/* No waiter of the queue gets what is released. There is a yield only if nothing was free until
 * now: readers and the many permits of a semaphore need no turns. Workers of one process hand a
 * plain lock and permits over to each other. */
static void release_openly(struct wait_queue *queue)
{
    struct neighbour *neighbour = queue->owner->options.neighbour;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);
    bool is_shared = queue->shared != NULL &&
                     shared_lock_is_shared(neighbour->all, queue->shared);

    if (queue->taken_until_ns > now_ns && queue->waiting == NULL && !is_shared &&
        subscription_is_live(&queue->subscription))
        share_open_release(&queue->share, queue->woken_ns, now_ns);
    wait_queue_note_released(queue);
}

struct waiter *place_next(const struct wait_place *place, struct hand_over_series *series)
{
    struct wait_queue *queue = released_queue(place);
    struct waiter *next = NULL;

    *series = (struct hand_over_series){.streak_ns = loop_now_ns(place->waiters->options.loop)};
    if (queue != NULL)
        read_series(queue, series);
    if (queue != NULL && !series->is_open && may_hand_over(queue))
        next = next_of(queue);
    else
        next = next_in_line(place->line);
    if (queue != NULL && next == NULL)
        release_openly(queue);
    return next;
}

/* How many of the lock's listeners are workers of this process: this one, at least. */
static unsigned own_listeners(const struct wait_queue *queue)
{
    unsigned count = queue->shared != NULL ? shared_lock_listeners(queue->shared) : 0;

    return count > 0 ? count : 1;
}

unsigned waiter_choose(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    assert(!waiter->trying);
    if (queue->baton == NULL) {
        queue->baton = waiter;
        queue->wants_below = INT64_MAX;
    }
    queue->woken_ns = now_ns;
    waiter->trying = waiter->chosen = true;
    share_choose(&queue->share, queue->waiter_count, now_ns);
    if (!queue->share.others_first)
        return 0;
    /* The message of the release may reach the other workers before this worker has its answer.
     */
    wait_queue_announce_yield(queue, share_next_yield_end_ns(&queue->share, now_ns));
    return own_listeners(queue);
}

void waiter_yield(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);
    int64_t end_ns = share_next_yield_end_ns(&queue->share, now_ns);

    queue->woken_again = true; /* an attempt follows */
    if (wait_queue_yields(queue))
        return; /* of permits that were released at the same time */
    share_yield(&queue->share, now_ns, end_ns);
    wait_queue_announce_yield(queue, end_ns);
}

void waiter_unchosen(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    bool retry_wanted = waiter->retry_wanted;

    waiter->trying = waiter->chosen = false;
    if (queue->share.others_first)
        wait_queue_announce_yield(queue, 0);
    wait_line_called(queue); /* or another waiter is the head */
    if (queue->baton == waiter)
        queue->baton = NULL;
    if (queue->baton == NULL && queue->woken_again)
        baton_give(queue);
    waiter_follow_retry(waiter, retry_wanted);
}
