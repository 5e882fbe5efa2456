/* The waiters of each fair lock on this worker, in the order of the queue in Redis. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

/* How long a line is kept after its last waiter has left, and how long a message that called a
 * waiter counts. */
#define LINE_LINGER_NS (250 * CLOCK_NS_PER_MS)
/* A message within this time after a release by this worker is taken for that release's. */
#define OWN_CALL_NS (2 * CLOCK_NS_PER_MS)
/* A line hands over again and again when it did so within this time. */
#define LINE_HANDS_OVER_NS (20 * CLOCK_NS_PER_MS)

struct wait_line *wait_line_find(const struct waiters *waiters, const char *name, size_t len)
{
    struct wait_line *line;

    HASH_FIND(hh, waiters->lines, name, len, line);
    return line;
}

static void free_line(void *arg)
{
    struct wait_line *line = arg;

    assert(line->queues == NULL);
    timer_cancel(loop_timers(line->owner->options.loop), &line->end);
    if (line->shared != NULL)
        shared_lock_leave(line->owner->options.neighbour->all, line->shared);
    HASH_DEL(line->owner->lines, line);
    free(line);
}

static struct wait_line *make_line(struct waiters *waiters, const char *name, size_t len)
{
    const struct neighbour *neighbour = waiters->options.neighbour;
    struct wait_line *line = calloc(1, sizeof(*line) + len);

    assert(line != NULL);
    if (neighbour != NULL)
        line->shared = shared_lock_join(neighbour->all, WAIT_LOCK, name, len);
    memcpy(line->name, name, len);
    line->len = len;
    line->owner = waiters;
    line->end = (struct timer){.fire = free_line, .arg = line};
    HASH_ADD(hh, waiters->lines, name, line->len, line);
    return line;
}

/* Tells the other workers since when the first queue waits; 0: the line is empty. */
static void tell_first(const struct wait_line *line)
{
    int64_t asked_ns = line->queues != NULL ? line->queues->asked_ns : 0;

    if (line->shared != NULL)
        shared_lock_asked(line->shared, line->owner->options.neighbour, asked_ns);
}

void wait_line_join(struct wait_queue *queue, const struct waiter *waiter, const char *name,
                    size_t len)
{
    struct waiters *waiters = queue->owner;

    if (queue->kind != WAIT_FAIR)
        return;
    struct wait_line *line = wait_line_find(waiters, name, len);
    if (line == NULL)
        line = make_line(waiters, name, len);
    timer_cancel(loop_timers(waiters->options.loop), &line->end);
    queue->line = line;
    queue->asked_ns = waiter->asked_ns;
    DL_APPEND(line->queues, queue);
    if (line->queues == queue)
        tell_first(line);
}

void wait_line_leave(struct wait_queue *queue)
{
    struct wait_line *line = queue->line;

    if (line == NULL)
        return;
    struct loop *loop = queue->owner->options.loop;
    bool was_first = line->queues == queue;
    DL_DELETE(line->queues, queue);
    queue->line = NULL;
    if (was_first)
        tell_first(line);
    if (line->queues == NULL)
        timer_arm(loop_timers(loop), &line->end, loop_now_ns(loop) + LINE_LINGER_NS);
}

void wait_lines_free(struct waiters *waiters)
{
    struct wait_line *line, *next;

    HASH_ITER(hh, waiters->lines, line, next) {
        free_line(line);
    }
}

void wait_line_called(struct wait_queue *queue)
{
    if (queue->line != NULL)
        queue->line->called_ns = loop_now_ns(queue->owner->options.loop);
}

void wait_line_notified(struct wait_queue *queue)
{
    const struct wait_line *line = queue->line;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);

    if (line != NULL && now_ns - line->released_ns > OWN_CALL_NS)
        wait_line_called(queue);
}

void wait_line_released(struct wait_line *line)
{
    line->generation = ++line->owner->generation;
    line->released_ns = loop_now_ns(line->owner->options.loop);
}

/* Whether another worker may release the lock to a waiter of the line, by a message. */
static bool is_shared(const struct wait_line *line)
{
    return line->shared != NULL &&
           shared_lock_is_shared(line->owner->options.neighbour->all, line->shared);
}

bool wait_line_hands_over(const struct wait_queue *queue)
{
    const struct wait_line *line = queue->line;

    if (line == NULL || line->handed_over_ns == 0 || is_shared(line))
        return false;
    int64_t now_ns = loop_now_ns(queue->owner->options.loop);
    return now_ns - line->handed_over_ns <= LINE_HANDS_OVER_NS &&
           (line->called_ns == 0 || now_ns - line->called_ns > LINE_LINGER_NS);
}

bool wait_line_is_behind(const struct wait_line *line)
{
    const struct waiters_options *options = &line->owner->options;

    return line->shared != NULL && shared_lock_next_worker(line->shared, options->neighbour,
                                                           loop_now_ns(options->loop)) != NULL;
}
