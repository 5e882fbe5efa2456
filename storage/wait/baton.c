/* The baton of each queue, and when a queue without wake-ups tries again. */
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/wait/waiters_internal.h"

/* A queue polls at least this often: RSpinLock never publishes, an operator may delete a key,
 * pub/sub loses messages. Between 4 and 6 s, so that the polls of many queues do not
 * meet. */
#define POLL_NS (4 * CLOCK_NS_PER_S)
#define POLL_JITTER_NS (2 * CLOCK_NS_PER_S)
#define POLL_STEP_NS 618033989 /* between the polls of queues that were woken one by one */
/* Redis rounds a TTL to milliseconds. */
#define EXPIRY_SLACK_NS (2 * CLOCK_NS_PER_MS)

void baton_give_to(struct wait_queue *queue, struct waiter *waiter, int64_t wants_below)
{
    queue->baton = waiter;
    queue->wants_below = wants_below;
    waiter->trying = true;
    waiter->try_now(waiter->arg);
}

/* Whether one release may satisfy more waiters than the one that has the baton. */
static bool serves_several(const struct wait_queue *queue)
{
    return queue->kind == WAIT_READ_WRITE || queue->kind == WAIT_SEMAPHORE;
}

/* A waiter with an attempt under way cannot take the baton: that attempt may have begun before
 * the release. If a release may satisfy several waiters, the waiter tries once more. */
static bool can_take_baton(const struct wait_queue *queue, struct waiter *waiter)
{
    if (!waiter->trying)
        return true;
    waiter->retry_wanted |= serves_several(queue);
    return false;
}

static struct waiter *find_next(struct wait_queue *queue)
{
    struct waiter *waiter = queue->waiting;

    while (waiter != NULL && !can_take_baton(queue, waiter))
        waiter = waiter->next;
    return waiter;
}

void baton_give(struct wait_queue *queue)
{
    struct waiter *waiter;

    if (queue->baton != NULL) {
        queue->woken_again = true;
        return;
    }
    queue->woken_again = false;
    if (queue->waiting == NULL)
        return; /* the timer is that of the queue's end */
    if (wait_queue_yields(queue)) {
        queue->woken_again = true; /* an attempt that ends meanwhile may move the timer */
        timer_arm(loop_timers(queue->owner->options.loop), &queue->timer,
                  wait_queue_yield_end_ns(queue));
        return;
    }
    queue->round++;
    waiter = find_next(queue);
    if (waiter == NULL) {
        /* Every waiter has an attempt under way that may have begun before the wake-up. If a
         * release satisfies one waiter, the baton goes to the waiter whose attempt ends first.
         * If a release may satisfy several, each of them makes another attempt anyway. Handing
         * the baton out as well would loop: each attempt would begin before the next
         * hand-out. */
        queue->woken_again = !serves_several(queue);
        return;
    }
    baton_give_to(queue, waiter, INT64_MAX);
}

struct waiter *baton_find_smaller(const struct wait_queue *queue, struct waiter *waiter,
                                  int64_t wants_below)
{
    while (waiter != NULL &&
           (waiter->wants >= wants_below || waiter->rested_in_round == queue->round ||
            !can_take_baton(queue, waiter)))
        waiter = waiter->next;
    return waiter;
}

void baton_rest(struct wait_queue *queue, struct waiter *waiter)
{
    waiter->rests = false;
    waiter->rested_in_round = queue->round;
    DL_DELETE(queue->waiting, waiter);
    DL_APPEND(queue->waiting, waiter);
}

/* The rest of what was released is for the waiters behind. Waiters in front, which wanted too
 * much, get another chance when no waiter behind wants less, not after each grant. */
void baton_pass(struct wait_queue *queue, struct waiter *behind)
{
    struct waiter *smaller = NULL;

    if (queue->wants_below != INT64_MAX && !queue->woken_again)
        smaller = baton_find_smaller(queue, behind, queue->wants_below);
    if (smaller != NULL)
        baton_give_to(queue, smaller, queue->wants_below);
    else
        baton_give(queue);
}

void baton_share(struct wait_queue *queue, int64_t wants, int64_t shared_ms)
{
    struct waiter *waiter, *next;

    DL_FOREACH_SAFE(queue->waiting, waiter, next) {
        if (waiter->wants <= wants)
            waiter_retry(waiter);
    }
    baton_settle(queue, shared_ms);
}

void waiter_retry(struct waiter *waiter)
{
    if (waiter->trying) {
        waiter->retry_wanted = true;
        return;
    }
    waiter->trying = true;
    waiter->try_now(waiter->arg);
}

void wait_queue_wake(struct wait_queue *queue)
{
    queue->generation = ++queue->owner->generation;
    wait_queue_note_released(queue);
    baton_give(queue);
}

void wait_queue_wake_everyone(struct wait_queue *queue)
{
    struct waiter *waiter, *next;

    queue->generation = ++queue->owner->generation;
    DL_FOREACH_SAFE(queue->waiting, waiter, next) {
        waiter_retry(waiter);
    }
}

void wait_queue_sleep(struct wait_queue *queue, int64_t remaining_ms)
{
    struct loop *loop = queue->owner->options.loop;
    int64_t now_ns = loop_now_ns(loop);
    int64_t step_ns = (int64_t)(queue->generation % POLL_JITTER_NS) * POLL_STEP_NS;
    int64_t sleep_ns = POLL_NS + (now_ns % POLL_JITTER_NS + step_ns) % POLL_JITTER_NS;

    if (remaining_ms >= 0 && remaining_ms < sleep_ns / CLOCK_NS_PER_MS)
        sleep_ns = remaining_ms * CLOCK_NS_PER_MS + EXPIRY_SLACK_NS;
    /* A `held` message that came during the attempt is newer than the attempt's reply. */
    if (queue->held_until_ns > now_ns && queue->held_until_ns < now_ns + sleep_ns)
        sleep_ns = queue->held_until_ns - now_ns;
    if (wait_queue_yields(queue) && wait_queue_yield_end_ns(queue) < now_ns + sleep_ns)
        sleep_ns = wait_queue_yield_end_ns(queue) - now_ns;
    timer_arm(loop_timers(loop), &queue->timer, now_ns + sleep_ns);
}

void baton_settle(struct wait_queue *queue, int64_t remaining_ms)
{
    if (queue->woken_again)
        baton_give(queue);
    else
        wait_queue_sleep(queue, remaining_ms);
}

void wait_queue_sleep_until_free(struct wait_queue *queue, int64_t ms)
{
    struct loop *loop = queue->owner->options.loop;

    if (ms > POLL_NS / CLOCK_NS_PER_MS * 2)
        return; /* the queue polls before that */
    queue->held_until_ns = loop_now_ns(loop) + ms * CLOCK_NS_PER_MS + EXPIRY_SLACK_NS;
    /* Also while the waiter is chosen: a hand-over that grants nothing leaves the timer alone.
     */
    if (queue->waiting != NULL &&
        (!timer_is_armed(&queue->timer) || queue->timer.at_ns > queue->held_until_ns))
        timer_arm(loop_timers(loop), &queue->timer, queue->held_until_ns);
}
