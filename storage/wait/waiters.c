/* Queues of waiters, and the baton of each. */
#include "storage/wait/waiters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/key.h"
#include "storage/store/lease.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

/* The channel of a lock that is waited for again and again stays subscribed to. */
#define LINGER_NS (2 * CLOCK_NS_PER_S)
/* A waiter subscribes only after this time if the fair lock is handed over again and again: by
 * then most waiters have got the lock. A message that called the waiter before is made up for
 * when the subscription is there. */
#define SUBSCRIBE_NS (20 * CLOCK_NS_PER_MS)

/* --- queues ------------------------------------------------------------------------------- */

/* A release on another worker of the process may be passed on to a waiter of a plain lock or of
 * a permit. */
static void join_shared(struct wait_queue *queue, const char *name, size_t len)
{
    const struct neighbour *neighbour = queue->owner->options.neighbour;

    if (neighbour != NULL && (queue->kind == WAIT_LOCK || queue->kind == WAIT_SEMAPHORE))
        queue->shared = shared_lock_join(neighbour->all, queue->kind, name, len);
}

static void tell_listens(const struct wait_queue *queue, bool listens)
{
    if (queue->shared != NULL)
        shared_lock_listens(queue->shared, queue->owner->options.neighbour, listens);
}

static void leave_shared(struct wait_queue *queue)
{
    if (queue->shared == NULL)
        return;
    tell_listens(queue, false);
    shared_lock_leave(queue->owner->options.neighbour->all, queue->shared);
}

/* The queue has its first waiter, or has lost its last one. */
static void tell_waits(const struct wait_queue *queue, bool waits)
{
    if (queue->shared != NULL)
        shared_lock_waits(queue->shared, queue->owner->options.neighbour, waits);
}

static void forget(struct wait_queue *queue)
{
    struct waiters *waiters = queue->owner;

    timer_cancel(loop_timers(waiters->options.loop), &queue->timer);
    timer_cancel(loop_timers(waiters->options.loop), &queue->subscribing);
    if (queue->is_subscribed)
        topology_unsubscribe(waiters->options.topology, &queue->subscription);
    leave_shared(queue);
    metrics_add(waiters->options.metrics, METRIC_WAITED_LOCKS, -1);
    HASH_DEL(waiters->queues, queue);
    free(queue);
}

static void on_timer(void *arg)
{
    struct wait_queue *queue = arg;

    if (queue->waiting == NULL)
        forget(queue);
    else
        baton_give(queue);
}

/* Before its first subscription a fair waiter can only have missed the message that it is next;
 * a look at the lock finds that out. */
static void on_ready(void *arg)
{
    struct wait_queue *queue = arg;
    bool may_look = queue->kind == WAIT_FAIR && !queue->was_ready;

    queue->was_ready = true;
    tell_listens(queue, true);
    if (queue->waiting != NULL)
        queue->waiting->may_look = may_look && queue->waiting->next == NULL;
    wait_queue_wake(queue);
}

/* Whether a message is one of those by which Redisson wakes waiters. */
static bool wakes(enum wait_kind kind, const char *payload, size_t len)
{
    switch (kind) {
    case WAIT_LOCK:
    case WAIT_FAIR:
    case WAIT_READ_WRITE:
    case WAIT_LATCH:
        return len == 1 && (payload[0] == '0' || payload[0] == '1');
    case WAIT_SEMAPHORE: /* the permits that are free */
        return len > 0 && payload[0] >= '1' && payload[0] <= '9';
    }
    return false;
}

/* Reads "held <ms>": the fair lock gets free in so many ms, which the next waiter may not know.
 * False: another message. */
static bool read_held(const struct wait_queue *queue, const char *payload, size_t len,
                      int64_t *ms)
{
    static const char word[] = "held ";
    enum { WORD_LEN = sizeof(word) - 1, NUMBER_MAX = 18 };
    char number[NUMBER_MAX + 1];

    if (queue->kind != WAIT_FAIR || len <= WORD_LEN || len > WORD_LEN + NUMBER_MAX ||
        memcmp(payload, word, WORD_LEN) != 0)
        return false;
    memcpy(number, payload + WORD_LEN, len - WORD_LEN);
    number[len - WORD_LEN] = '\0';
    return text_parse_int64(number, ms) && *ms >= 0;
}

/* Whether another message was read in the same turn of the loop: a script tells the waiters of
 * a free read/write lock twice (lib/readers.lua). The attempt upon the first message comes
 * after both messages. */
static bool is_repeated(struct wait_queue *queue)
{
    int64_t before_ns = queue->message_ns;

    queue->message_ns = loop_now_ns(queue->owner->options.loop);
    return queue->kind == WAIT_READ_WRITE && queue->message_ns == before_ns;
}

static void on_message(void *arg, const char *payload, size_t len)
{
    struct wait_queue *queue = arg;
    int64_t held_ms;

    if (read_held(queue, payload, len, &held_ms))
        wait_queue_sleep_until_free(queue, held_ms);
    if (!wakes(queue->kind, payload, len) || is_repeated(queue))
        return;
    metrics_add(queue->owner->options.metrics, METRIC_UNLOCK_MESSAGES, 1);
    queue->woken_ns = loop_now_ns(queue->owner->options.loop);
    share_message(&queue->share);
    wait_line_notified(queue);
    /* The message of a latch is 0 when the latch is open, and 1 when it was set or deleted:
     * then one waiter finds out which. */
    if (queue->kind == WAIT_LATCH && payload[0] == '0')
        wait_queue_wake_everyone(queue);
    else
        wait_queue_wake(queue);
}

static enum key_kind channel_kind(enum wait_kind kind)
{
    switch (kind) {
    case WAIT_LOCK:
        return CHANNEL_LOCK;
    case WAIT_FAIR:
        return CHANNEL_FAIR;
    case WAIT_READ_WRITE:
        return CHANNEL_READ_WRITE;
    case WAIT_SEMAPHORE:
        return CHANNEL_SEMAPHORE;
    case WAIT_LATCH:
        break;
    }
    return CHANNEL_LATCH;
}

static void subscribe(struct wait_queue *queue, const char *lease_id, const char *name,
                      size_t len)
{
    struct key channel;

    key_make(&channel, channel_kind(queue->kind), name, len, lease_id);
    queue->is_subscribed = true;
    topology_subscribe(queue->owner->options.topology, &queue->subscription, channel.text,
                       channel.len);
}

static void on_subscribing(void *arg)
{
    struct wait_queue *queue = arg;
    const char *lease_id = queue->waiting->lease_id;
    size_t before = 1 + strlen(lease_id); /* the name in the key */

    subscribe(queue, lease_id, queue->key + before, queue->len - before);
}

static struct wait_queue *make_queue(struct waiters *waiters, const struct waiter *waiter,
                                     const char *name, size_t len)
{
    struct wait_queue *queue = wait_queue_add(waiters, waiter->kind, waiter->lease_id, name,
                                              len);

    queue->timer = (struct timer){.fire = on_timer, .arg = queue};
    queue->subscription = (struct subscription){
        .ready = on_ready, .message = on_message, .arg = queue};
    queue->subscribing = (struct timer){.fire = on_subscribing, .arg = queue};
    join_shared(queue, name, len);
    metrics_add(waiters->options.metrics, METRIC_WAITED_LOCKS, 1);
    return queue;
}

static void subscribe_in_time(struct wait_queue *queue, const struct waiter *waiter,
                              const char *name, size_t len)
{
    struct loop *loop = queue->owner->options.loop;

    if (queue->is_subscribed)
        return;
    if (wait_line_hands_over(queue))
        timer_arm(loop_timers(loop), &queue->subscribing, loop_now_ns(loop) + SUBSCRIBE_NS);
    else
        subscribe(queue, waiter->lease_id, name, len);
}

uint64_t waiters_generation(const struct waiters *waiters)
{
    return waiters->generation;
}

/* --- waiters ------------------------------------------------------------------------------ */

void waiter_join(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    struct wait_queue *queue = wait_queue_find(waiters, waiter->kind, waiter->lease_id, name,
                                               len);

    if (queue == NULL)
        queue = make_queue(waiters, waiter, name, len);
    waiter->queue = queue;
    waiter->trying = waiter->rests = false;
    waiter->rested_in_round = 0;
    if (queue->waiting == NULL) {
        wait_line_join(queue, waiter, name, len);
        tell_waits(queue, true);
    }
    subscribe_in_time(queue, waiter, name, len);
    DL_APPEND(queue->waiting, waiter);
    queue->waiter_count++;
    metrics_add(waiters->options.metrics, METRIC_WAITERS, 1);
    bool live = subscription_is_live(&queue->subscription);
    bool released = queue->line != NULL && queue->line->generation > generation;
    if (released || (live && queue->generation > generation))
        baton_give(queue); /* its attempt began before that, or before the subscription */
    else if (queue->baton == NULL &&
             (queue->waiting == waiter || !timer_is_armed(&queue->timer)))
        /* Until then, or until on_ready(). The poll may have come while all others try. */
        wait_queue_sleep(queue, remaining_ms);
}

void waiter_follow_retry(struct waiter *waiter, bool retry_wanted)
{
    waiter->retry_wanted = false;
    if (retry_wanted && !waiter->trying)
        waiter_retry(waiter);
}

void waiter_busy(struct waiter *waiter, int64_t remaining_ms)
{
    struct wait_queue *queue = waiter->queue;
    struct waiter *behind = waiter->next, *smaller = NULL;
    int64_t wants_below = waiter->rests ? queue->wants_below : waiter->wants;
    bool retry_wanted = waiter->retry_wanted;

    waiter->trying = false;
    waiter->chosen = false;
    wait_queue_yielded(queue, false);
    if (waiter->rests)
        baton_rest(queue, waiter);
    if (queue->baton == waiter) {
        queue->baton = NULL;
        smaller = queue->woken_again ? NULL : baton_find_smaller(queue, behind, wants_below);
    }
    if (queue->baton == NULL && smaller != NULL)
        baton_give_to(queue, smaller, wants_below);
    else if (queue->baton == NULL)
        baton_settle(queue, remaining_ms);
    waiter_follow_retry(waiter, retry_wanted);
}

void waiter_move(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    if (wait_queue_find(waiters, waiter->kind, waiter->lease_id, name, len) == waiter->queue) {
        waiter_busy(waiter, remaining_ms);
        return;
    }
    waiter_leave(waiters, waiter, -1);
    waiter_join(waiters, waiter, name, len, generation, remaining_ms);
    waiter_follow_retry(waiter, waiter->retry_wanted);
}

/* The last waiter has left the queue; `got_it`: with the lock or permit. A fair lock's queue is
 * that of one lease, and no request waits again for a lease that was granted. */
static void linger(struct wait_queue *queue, bool got_it)
{
    struct loop *loop = queue->owner->options.loop;
    bool is_over = !queue->is_subscribed || (queue->kind == WAIT_FAIR && got_it);
    int64_t ns = is_over ? 0 : LINGER_NS;

    timer_cancel(loop_timers(loop), &queue->subscribing);
    timer_arm(loop_timers(loop), &queue->timer, loop_now_ns(loop) + ns);
}

void waiter_leave(struct waiters *waiters, struct waiter *waiter, int64_t taken_ms)
{
    struct wait_queue *queue = waiter->queue;
    struct waiter *behind = waiter->next;
    bool had_baton = queue->baton == waiter, was_chosen = waiter->chosen;

    waiter->queue = NULL;
    waiter->chosen = false;
    waiter->trying = false;
    DL_DELETE(queue->waiting, waiter);
    queue->waiter_count--;
    metrics_add(waiters->options.metrics, METRIC_WAITERS, -1);
    if (had_baton)
        queue->baton = NULL;
    if (taken_ms >= 0)
        wait_queue_taken(queue, taken_ms, was_chosen);
    else if (waiter->shared_ms > 0)
        wait_queue_shared(queue, was_chosen);
    if (queue->waiting == NULL) {
        queue->woken_again = false; /* a waiter that joins compares generations */
        wait_line_leave(queue);
        tell_waits(queue, false);
        linger(queue, taken_ms >= 0);
        return;
    }
    if (queue->baton != NULL)
        return;
    if (taken_ms >= 0)
        baton_settle(queue, taken_ms);
    else if (had_baton && waiter->shared_ms > 0)
        baton_share(queue, waiter->wants, waiter->shared_ms);
    else if (had_baton)
        baton_pass(queue, behind);
    else if (queue->woken_again)
        baton_give(queue);
}

void waiter_was_called(struct waiter *waiter)
{
    wait_line_called(waiter->queue);
}

bool waiter_is_waiting(const struct waiter *waiter)
{
    return waiter->queue != NULL;
}

int64_t waiter_woken_ns(const struct waiter *waiter)
{
    return waiter->queue->woken_ns;
}

bool waiters_have_queues(const struct waiters *waiters)
{
    return waiters->queues != NULL || waiters->lines != NULL;
}

void waiters_wake_all(struct waiters *waiters)
{
    struct wait_queue *queue, *next;

    HASH_ITER(hh, waiters->queues, queue, next) {
        if (queue->waiting != NULL)
            wait_queue_wake(queue);
    }
}

static void retry_waiters_of(struct wait_queue *queue, const char *lease_id)
{
    struct waiter *waiter, *next;

    DL_FOREACH_SAFE(queue->waiting, waiter, next) {
        if (strcmp(waiter->lease_id, lease_id) == 0)
            waiter_retry(waiter);
    }
}

void waiters_retry_lease(struct waiters *waiters, const char *name, size_t len,
                         const char *lease_id)
{
    for (int kind = WAIT_LOCK; kind <= WAIT_LATCH; kind++) {
        struct wait_queue *queue = wait_queue_find(waiters, (enum wait_kind)kind, lease_id,
                                                   name, len);
        if (queue != NULL)
            retry_waiters_of(queue, lease_id);
    }
}

/* --- life --------------------------------------------------------------------------------- */

uint64_t waiters_lease_generation(const struct waiters *waiters)
{
    return waiters->lease_generation;
}

void waiters_lease_changed(struct waiters *waiters)
{
    waiters->lease_generation++;
}

/* "<lease id> <name of the object>": the scripts publish it when a lease was granted or ended
 * while another request waits with the same token. */
static void on_lease_message(void *arg, const char *payload, size_t len)
{
    struct waiters *waiters = arg;
    char lease_id[LEASE_ID_SIZE];

    if (len < sizeof(lease_id) || len > sizeof(lease_id) + KEY_NAME_MAX ||
        payload[sizeof(lease_id) - 1] != ' ')
        return; /* not from a front end: any client of Redis may publish */
    memcpy(lease_id, payload, sizeof(lease_id) - 1);
    lease_id[sizeof(lease_id) - 1] = '\0';
    waiters_lease_changed(waiters);
    waiters_retry_lease(waiters, payload + sizeof(lease_id), len - sizeof(lease_id), lease_id);
}

struct waiters *waiters_new(const struct waiters_options *options)
{
    struct waiters *waiters = calloc(1, sizeof(*waiters));

    if (waiters == NULL)
        return NULL;
    waiters->options = *options;
    waiters->leases = (struct subscription){.message = on_lease_message, .arg = waiters};
    topology_subscribe(options->topology, &waiters->leases, CHANNEL_LEASES,
                       strlen(CHANNEL_LEASES));
    return waiters;
}

void waiters_free(struct waiters *waiters)
{
    struct wait_queue *queue, *next;

    HASH_ITER(hh, waiters->queues, queue, next) {
        assert(queue->waiting == NULL);
        forget(queue);
    }
    wait_lines_free(waiters);
    topology_unsubscribe(waiters->options.topology, &waiters->leases);
    free(waiters);
}
