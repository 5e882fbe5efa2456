/* The waiter that a release by the worker itself may give the lock to. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/waiters_internal.h"

/* So often, or for so long, a plain lock is handed over from lease to lease of one worker; then
 * a release is everybody's: a client that polls has a chance, too. */
enum { HAND_OVERS_MAX = 64 };
#define HAND_OVERS_NS (50 * CLOCK_NS_PER_MS)

/* --- fair locks --------------------------------------------------------------------------- */

static struct wait_line *find_line(const struct waiters *waiters, const char *name, size_t len)
{
    struct wait_line *line;

    HASH_FIND(hh, waiters->lines, name, len, line);
    return line;
}

void wait_line_join(struct wait_queue *queue, const char *name, size_t len)
{
    struct waiters *waiters = queue->owner;

    if (queue->kind != WAIT_FAIR)
        return;
    struct wait_line *line = find_line(waiters, name, len);
    if (line == NULL) {
        line = calloc(1, sizeof(*line) + len);
        assert(line != NULL);
        memcpy(line->name, name, len);
        line->len = len;
        HASH_ADD(hh, waiters->lines, name, line->len, line);
    }
    queue->line = line;
    DL_APPEND(line->queues, queue);
}

void wait_line_leave(struct wait_queue *queue)
{
    struct wait_line *line = queue->line;

    if (line == NULL)
        return;
    DL_DELETE(line->queues, queue);
    queue->line = NULL;
    if (line->queues != NULL)
        return;
    HASH_DEL(queue->owner->lines, line);
    free(line);
}

/* --- the next waiter ---------------------------------------------------------------------- */

static bool is_everybodys_turn(const struct wait_queue *queue)
{
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    return queue->hand_overs >= HAND_OVERS_MAX ||
           (queue->hand_overs > 0 && now_ns - queue->handing_over_ns > HAND_OVERS_NS);
}

/* Of a plain lock. While the subscription is not there, other clients' messages would not be
 * heard either. */
static bool may_hand_over(struct wait_queue *queue)
{
    if (queue->waiting == NULL || !subscription_is_live(&queue->subscription))
        return false;
    if (!is_everybodys_turn(queue))
        return true;
    queue->hand_overs = 0;
    return false;
}

struct waiter *waiters_next(struct waiters *waiters, const char *name, size_t len)
{
    struct wait_queue *queue = wait_queue_find(waiters, WAIT_LOCK, "", name, len);
    struct wait_line *line;

    if (queue == NULL || !may_hand_over(queue)) {
        line = find_line(waiters, name, len);
        queue = line != NULL ? line->queues : NULL;
    }
    if (queue == NULL || queue->baton != NULL || queue->waiting->trying)
        return NULL;
    return queue->waiting;
}

void waiter_choose(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    assert(queue->baton == NULL && !waiter->trying);
    queue->baton = waiter;
    queue->wants_below = INT64_MAX;
    queue->woken_ns = now_ns;
    waiter->trying = true;
    if (queue->hand_overs++ == 0)
        queue->handing_over_ns = now_ns;
}

void waiter_unchosen(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;
    bool retry_wanted = waiter->retry_wanted;

    assert(queue->baton == waiter);
    waiter->trying = false;
    queue->baton = NULL;
    if (queue->woken_again)
        baton_give(queue);
    waiter_follow_retry(waiter, retry_wanted);
}
