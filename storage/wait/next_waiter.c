/* The next waiter: a release by the worker itself may hand the lock or permit over to this
 * waiter. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

/* A lock or permit that was passed on to another worker counts as held there for so long. */
#define PASSED_ON_NS (20 * CLOCK_NS_PER_MS)

/* --- whether a lock is held, whether a permit is free --------------------------------------
 */

bool waiters_have_queues(const struct waiters *waiters)
{
    return waiters->queues != NULL || waiters->lines != NULL;
}

void waiters_taken(struct waiters *waiters, enum wait_kind kind, const char *name, size_t len,
                   int64_t ttl_ms)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);

    if (queue != NULL)
        wait_queue_taken(queue, ttl_ms, false);
}

int64_t waiters_recently_taken_ms(const struct waiters *waiters, enum wait_kind kind,
                                  const char *name, size_t len, bool reads, int64_t recent_ns)
{
    const struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);

    if (queue == NULL || !subscription_is_live(&queue->subscription))
        return 0;
    int64_t now_ns = loop_now_ns(waiters->options.loop);
    if (wait_queue_yields(queue))
        return 1;
    int64_t taken_ns = queue->taken_ns, until_ns = queue->taken_until_ns;
    if (queue->shared != NULL)
        shared_lock_read_taken(queue->shared, &taken_ns, &until_ns);
    if (now_ns - taken_ns > recent_ns)
        return 0;
    bool is_waited_for = queue->waiting != NULL ||
                         (queue->shared != NULL && shared_lock_is_waited_for(queue->shared));
    if (is_waited_for && !reads)
        return 1; /* the waiters come first */
    return now_ns < until_ns ? (until_ns - now_ns) / CLOCK_NS_PER_MS : 0;
}

/* --- the next waiter ---------------------------------------------------------------------- */

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

/* The first waiter of a fair lock of this name, as next_of() gives it. */
static struct waiter *next_in_line(const struct waiters *waiters, const char *name, size_t len)
{
    struct wait_line *line = wait_line_find(waiters, name, len);

    if (line != NULL && wait_line_is_behind(line))
        return NULL;
    struct waiter *next = next_of(line != NULL ? line->queues : NULL);

    if (line != NULL && next == NULL)
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

/* The queue of the lock or semaphore that is released: of a plain or of a read/write lock, as
 * nothing but its waiters tell here. */
static struct wait_queue *find_released(const struct waiters *waiters, enum wait_kind kind,
                                        const char *name, size_t len)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);

    if (kind != WAIT_LOCK || (queue != NULL && queue->waiting != NULL))
        return queue;
    struct wait_queue *other = wait_queue_find(waiters, WAIT_READ_WRITE, "", name, len);
    if (other == NULL)
        return queue;
    if (queue != NULL)
        wait_queue_note_released(queue); /* perhaps */
    return other;
}

struct waiter *waiters_next(struct waiters *waiters, enum wait_kind kind, const char *name,
                            size_t len, struct hand_over_series *series)
{
    struct wait_queue *queue = find_released(waiters, kind, name, len);
    struct waiter *next = NULL;

    *series = (struct hand_over_series){.streak_ns = loop_now_ns(waiters->options.loop)};
    if (queue != NULL)
        read_series(queue, series);
    if (queue != NULL && !series->is_open && may_hand_over(queue))
        next = next_of(queue);
    else if (kind == WAIT_LOCK)
        next = next_in_line(waiters, name, len);
    if (queue != NULL && next == NULL)
        wait_queue_note_released(queue);
    return next;
}

/* The line of a fair lock; NULL: there is none, or the object is a semaphore. */
static struct wait_line *find_line_of(const struct waiters *waiters, enum wait_kind kind,
                                      const char *name, size_t len)
{
    return kind == WAIT_LOCK ? wait_line_find(waiters, name, len) : NULL;
}

void waiters_passed_on(struct waiters *waiters, enum wait_kind kind, const char *name,
                       size_t len)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);

    if (queue == NULL)
        return;
    int64_t now_ns = loop_now_ns(waiters->options.loop);
    share_passed_on(&queue->share);
    wait_queue_note_taken(queue, now_ns + PASSED_ON_NS);
}

void waiters_missed(struct waiters *waiters, enum wait_kind kind, const char *name, size_t len)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);
    struct wait_line *line = find_line_of(waiters, kind, name, len);

    if (queue != NULL)
        wait_queue_note_released(queue);
    if (line != NULL)
        wait_line_released(line);
}

bool waiters_take_over(struct waiters *waiters, enum wait_kind kind, const char *name,
                       size_t len, const struct hand_over_series *series)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);

    if (queue == NULL)
        return find_line_of(waiters, kind, name, len) != NULL;
    if (wait_queue_yields(queue))
        return false;
    share_take_over(&queue->share, series);
    return true;
}

/* How many may listen to the lock's channel without being others. */
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
    share_choose(&queue->share, now_ns);
    if (!queue->share.others_first)
        return 0;
    /* The message of the release may reach the other workers before this worker has its answer.
     */
    wait_queue_announce_yield(queue, share_next_yield_end_ns(&queue->share, now_ns));
    return own_listeners(queue);
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
