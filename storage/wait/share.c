/* The next waiter: a release by the worker itself may hand the lock or permit over to this
 * waiter. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

/* After so many hand-overs of a lock or of permits by one worker, or after so long, one
 * release is open to all clients: clients that poll have a chance, too. */
enum { HAND_OVERS_MAX = 64 };
#define HAND_OVERS_NS (50 * CLOCK_NS_PER_MS)
/* After so many hand-overs a worker yields, if other servers or Java clients listen to the
 * lock: they have the lock to themselves for as long as the hand-overs took, but no longer than
 * a client would notice if none of them takes it. When none did, the number doubles, up to
 * STREAK_MAX: below HAND_OVERS_MAX, or no yield would come before the release that is open to
 * all, which this worker's own waiters may win each time. */
enum { STREAK_MIN = 8, STREAK_MAX = HAND_OVERS_MAX - 1 };
#define YIELD_MAX_NS (5 * CLOCK_NS_PER_MS)
/* After a yield the worker that began it tries first, and finds out whether other clients
 * wanted the lock; the other workers of the process try so much later. */
#define YIELD_SLACK_NS (1 * CLOCK_NS_PER_MS)
/* A lock or permit that was passed on to another worker counts as held there for so long. */
#define PASSED_ON_NS (20 * CLOCK_NS_PER_MS)

/* --- whether a lock is held, whether a permit is free --------------------------------------
 */

bool waiters_have_queues(const struct waiters *waiters)
{
    return waiters->queues != NULL || waiters->lines != NULL;
}

/* Tells the other workers of the process until when other clients have the lock to themselves.
 */
static void share_yield(struct wait_queue *queue, int64_t until_ns)
{
    if (queue->shared != NULL)
        shared_lock_yields(queue->shared, queue->owner->options.neighbour, until_ns);
}

/* For how long this worker yields: as long as it has kept the lock from other clients. */
static int64_t yield_end_ns(const struct wait_queue *queue)
{
    int64_t now_ns = loop_now_ns(queue->owner->options.loop), ns = now_ns - queue->streak_ns;

    return now_ns + (ns < YIELD_MAX_NS ? ns : YIELD_MAX_NS);
}

/* The other clients have had their turn, or have it now. */
static void begin_streak(struct wait_queue *queue)
{
    if (queue->others_first)
        share_yield(queue, 0);
    queue->streak_ns = loop_now_ns(queue->owner->options.loop);
    queue->streak = 0;
    queue->others_first = false;
}

/* The lock was released to all, or is about to be. */
static void note_released(struct wait_queue *queue)
{
    queue->taken_until_ns = 0;
    if (queue->shared != NULL)
        shared_lock_released(queue->shared);
}

static void note_taken(struct wait_queue *queue, int64_t now_ns, int64_t until_ns)
{
    queue->taken_ns = now_ns;
    queue->taken_until_ns = until_ns;
    if (queue->shared != NULL)
        shared_lock_taken(queue->shared, now_ns, until_ns);
}

static void count_hand_over(struct wait_queue *queue)
{
    if (queue->hand_overs++ == 0)
        queue->handing_over_ns = loop_now_ns(queue->owner->options.loop);
    if (queue->others_first)
        begin_streak(queue);
    queue->streak++;
    queue->here++;
}

void wait_queue_taken(struct wait_queue *queue, int64_t taken_ms, bool by_hand_over)
{
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    if (queue->line != NULL)
        queue->line->handed_over_ns = now_ns;
    wait_queue_yielded(queue, true);
    if (by_hand_over) {
        count_hand_over(queue);
    } else {
        /* A lock was free for all clients. Other permits may have been handed over meanwhile.
         */
        if (queue->kind != WAIT_SEMAPHORE || queue->streak == 0)
            begin_streak(queue);
        queue->here = 0;
    }
    note_taken(queue, now_ns,
               taken_ms < CLOCK_MS_MAX ? now_ns + taken_ms * CLOCK_NS_PER_MS : INT64_MAX);
}

void wait_queue_shared(struct wait_queue *queue, bool by_hand_over)
{
    wait_queue_yielded(queue, true);
    if (by_hand_over)
        count_hand_over(queue);
    note_released(queue);
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

static bool is_open_to_all(const struct wait_queue *queue)
{
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    return queue->hand_overs >= HAND_OVERS_MAX ||
           (queue->hand_overs > 0 && now_ns - queue->handing_over_ns > HAND_OVERS_NS);
}

static unsigned streak_max_of(const struct wait_queue *queue)
{
    return queue->streak_max > 0 ? queue->streak_max : STREAK_MIN;
}

/* Whether this worker has handed the object over so often, or for so long, that other clients
 * come first. */
static bool is_turn_of_others(const struct wait_queue *queue)
{
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    return queue->streak >= streak_max_of(queue) || now_ns - queue->streak_ns > HAND_OVERS_NS;
}

int64_t wait_queue_yield_end_ns(const struct wait_queue *queue)
{
    int64_t end_ns = queue->yield_until_ns, others_ns = 0;

    if (queue->shared != NULL)
        others_ns = shared_lock_yield_of_others(queue->shared, queue->owner->options.neighbour);
    if (others_ns != 0 && others_ns + YIELD_SLACK_NS > end_ns)
        end_ns = others_ns + YIELD_SLACK_NS;
    return end_ns;
}

bool wait_queue_yields(const struct wait_queue *queue)
{
    return wait_queue_yield_end_ns(queue) > loop_now_ns(queue->owner->options.loop);
}

/* While other clients listen to a lock and do not want it, the lock lies idle in each yield: so
 * the yields become rarer. */
void wait_queue_yielded(struct wait_queue *queue, bool got_it)
{
    if (!queue->has_yielded || wait_queue_yields(queue))
        return;
    queue->has_yielded = false;
    /* One message is that of the release by this worker. */
    bool is_wanted = !got_it || queue->messages - queue->messages_before > 1;
    unsigned most = streak_max_of(queue);
    queue->streak_max = is_wanted ? STREAK_MIN : most * 2 < STREAK_MAX ? most * 2 : STREAK_MAX;
}

void waiter_yield(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    int64_t end_ns = yield_end_ns(queue);

    queue->woken_again = true; /* an attempt follows */
    if (wait_queue_yields(queue))
        return; /* of permits that were released at the same time */
    begin_streak(queue);
    queue->yield_until_ns = end_ns;
    share_yield(queue, end_ns);
    queue->has_yielded = true;
    queue->hand_overs = 0;
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

/* Fills in the series of a plain lock or of permits. With a release that is open to all clients
 * the next series begins. In a yield each release is open to all clients; this worker may still
 * release other permits. */
static void read_series(struct wait_queue *queue, struct hand_over_series *series)
{
    bool is_open = is_open_to_all(queue);

    *series = (struct hand_over_series){.is_open = is_open || wait_queue_yields(queue),
                                        .has_gone_round = queue->here > queue->waiter_count,
                                        .hand_overs = queue->hand_overs,
                                        .handing_over_ns = queue->handing_over_ns,
                                        .streak = queue->streak,
                                        .streak_ns = queue->streak_ns};
    if (is_open)
        queue->hand_overs = 0;
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
        note_released(queue); /* perhaps */
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
        note_released(queue);
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
    queue->here = 0;
    if (kind != WAIT_SEMAPHORE)
        queue->hand_overs = 0; /* the series is the other worker's now */
    note_taken(queue, now_ns, now_ns + PASSED_ON_NS);
}

void waiters_missed(struct waiters *waiters, enum wait_kind kind, const char *name, size_t len)
{
    struct wait_queue *queue = wait_queue_find(waiters, kind, "", name, len);
    struct wait_line *line = find_line_of(waiters, kind, name, len);

    if (queue != NULL)
        note_released(queue);
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
    queue->here = 0;
    if (kind == WAIT_SEMAPHORE) /* this worker may hand over other permits meanwhile */
        return true;
    queue->hand_overs = series->hand_overs;
    queue->handing_over_ns = series->handing_over_ns;
    queue->streak = series->streak;
    queue->streak_ns = series->streak_ns;
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

    assert(!waiter->trying);
    if (queue->baton == NULL) {
        queue->baton = waiter;
        queue->wants_below = INT64_MAX;
    }
    queue->woken_ns = loop_now_ns(queue->owner->options.loop);
    waiter->trying = waiter->chosen = true;
    queue->messages_before = queue->messages;
    queue->others_first = is_turn_of_others(queue);
    /* The message of the release may reach the other workers before this worker has its answer.
     */
    if (queue->others_first)
        share_yield(queue, yield_end_ns(queue));
    return queue->others_first ? own_listeners(queue) : 0;
}

void waiter_unchosen(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    bool retry_wanted = waiter->retry_wanted;

    waiter->trying = waiter->chosen = false;
    if (queue->others_first)
        share_yield(queue, 0);
    wait_line_called(queue); /* or another waiter is the head */
    if (queue->baton == waiter)
        queue->baton = NULL;
    if (queue->baton == NULL && queue->woken_again)
        baton_give(queue);
    waiter_follow_retry(waiter, retry_wanted);
}
