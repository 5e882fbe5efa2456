/* Queues of waiters, and the baton of each. */
#include "storage/wait/waiters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/objects/key.h"
#include "storage/objects/lease.h"

/* A queue polls at least this often: RSpinLock never publishes, an operator may delete a key,
 * pub/sub loses messages. Between 4 and 6 s, so that the polls
 * of many queues do not meet. */
#define POLL_NS (4 * CLOCK_NS_PER_S)
#define POLL_JITTER_NS (2 * CLOCK_NS_PER_S)
#define POLL_STEP_NS 618033989 /* between the polls of queues that were woken one by one */
/* Redis rounds a TTL to milliseconds. */
#define EXPIRY_SLACK_NS (2 * CLOCK_NS_PER_MS)
/* The channel of a lock that is waited for again and again stays subscribed to. */
#define LINGER_NS (2 * CLOCK_NS_PER_S)

enum { LEASE_ID_MAX = 40 };

/* The waiters of one object on this worker. */
struct wait_queue {
    UT_hash_handle hh;
    struct waiters *owner;
    struct subscription subscription;
    struct waiter *waiting;
    struct waiter *baton; /* the waiter that has it, and tries; NULL: it is free */
    /* The baton goes to waiters that want less than this: an attempt that wanted as much was
     * in vain. INT64_MAX: to any. */
    int64_t wants_below;
    bool woken_again;      /* a wake-up came while the baton was not free */
    uint64_t generation;   /* that of all queues, at the last wake-up */
    int64_t woken_ns;      /* when the last message came that wakes */
    int64_t held_until_ns; /* as a message told, for whoever holds then; 0: none did */
    struct timer timer;    /* the next poll; without waiters the end of the queue */
    enum wait_kind kind;
    size_t len;
    char key[]; /* struct queue_key */
};

struct waiters {
    struct waiters_options options;
    struct wait_queue *queues;
    struct subscription leases;
    uint64_t lease_generation;
    /* Of all queues together: a queue that is dropped and made again gets a new value. */
    uint64_t generation;
};

/* --- the baton ---------------------------------------------------------------------------- */

static void give_baton_to(struct wait_queue *queue, struct waiter *waiter, int64_t wants_below)
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
 * the release. Where one release may satisfy several waiters, the waiter tries once more. */
static bool can_take_baton(const struct wait_queue *queue, struct waiter *waiter)
{
    if (!waiter->trying)
        return true;
    waiter->retry_wanted |= serves_several(queue);
    return false;
}

/* Gives the baton to the first waiter that can take it, when the baton is free. */
static void give_baton(struct wait_queue *queue)
{
    struct waiter *waiter;

    if (queue->baton != NULL) {
        queue->woken_again = true;
        return;
    }
    queue->woken_again = false;
    DL_FOREACH(queue->waiting, waiter) {
        if (can_take_baton(queue, waiter))
            break;
    }
    if (waiter == NULL) {
        /* Every waiter has an attempt under way that may have begun before the wake-up. Where
         * one release satisfies one waiter, the first whose attempt ends gets the baton. Where
         * it may satisfy several, each of them was told to try once more, and that is enough:
         * with the baton on top, each further attempt would be too early for the baton that
         * another one waits for, without end. */
        queue->woken_again = queue->waiting != NULL && !serves_several(queue);
        return;
    }
    give_baton_to(queue, waiter, INT64_MAX);
}

/* The first waiter, from `waiter` on, that wants less than `wants_below` and can take the
 * baton. */
static struct waiter *find_smaller(const struct wait_queue *queue, struct waiter *waiter,
                                   int64_t wants_below)
{
    while (waiter != NULL && (waiter->wants >= wants_below || !can_take_baton(queue, waiter)))
        waiter = waiter->next;
    return waiter;
}

/* The waiter that had the baton has left, perhaps with a part of what was released: the rest is
 * for the waiters behind it. Those in front that wanted too much get another chance when no
 * waiter behind is left that wants less, not after each grant. */
static void pass_baton(struct wait_queue *queue, struct waiter *behind)
{
    struct waiter *smaller = NULL;

    if (queue->wants_below != INT64_MAX && !queue->woken_again)
        smaller = find_smaller(queue, behind, queue->wants_below);
    if (smaller != NULL)
        give_baton_to(queue, smaller, queue->wants_below);
    else
        give_baton(queue);
}

/* Makes this waiter try, with or without the baton. */
static void retry(struct waiter *waiter)
{
    if (waiter->trying) {
        waiter->retry_wanted = true;
        return;
    }
    waiter->trying = true;
    waiter->try_now(waiter->arg);
}

/* The object may have become free: one waiter tries. */
static void wake(struct wait_queue *queue)
{
    queue->generation = ++queue->owner->generation;
    give_baton(queue);
}

/* What was waited for has come for all waiters at once. */
static void wake_everyone(struct wait_queue *queue)
{
    struct waiter *waiter, *next;

    queue->generation = ++queue->owner->generation;
    DL_FOREACH_SAFE(queue->waiting, waiter, next) {
        retry(waiter);
    }
}

static void sleep_for(struct wait_queue *queue, int64_t remaining_ms)
{
    struct loop *loop = queue->owner->options.loop;
    int64_t now_ns = loop_now_ns(loop);
    int64_t step_ns = (int64_t)(queue->generation % POLL_JITTER_NS) * POLL_STEP_NS;
    int64_t sleep_ns = POLL_NS + (now_ns % POLL_JITTER_NS + step_ns) % POLL_JITTER_NS;

    if (remaining_ms >= 0 && remaining_ms < sleep_ns / CLOCK_NS_PER_MS)
        sleep_ns = remaining_ms * CLOCK_NS_PER_MS + EXPIRY_SLACK_NS;
    /* A message may have come during the attempt, and be newer than what the attempt found. */
    if (queue->held_until_ns > now_ns && queue->held_until_ns < now_ns + sleep_ns)
        sleep_ns = queue->held_until_ns - now_ns;
    timer_arm(loop_timers(loop), &queue->timer, now_ns + sleep_ns);
}

/* An attempt is over and the baton is free: the baton goes round again, or the queue sleeps. */
static void settle(struct wait_queue *queue, int64_t remaining_ms)
{
    if (queue->woken_again)
        give_baton(queue);
    else
        sleep_for(queue, remaining_ms);
}

/* --- queues ------------------------------------------------------------------------------- */

static void forget(struct wait_queue *queue)
{
    struct waiters *waiters = queue->owner;

    timer_cancel(loop_timers(waiters->options.loop), &queue->timer);
    topology_unsubscribe(waiters->options.topology, &queue->subscription);
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
        give_baton(queue);
}

static void on_ready(void *arg)
{
    wake(arg);
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

/* "held <ms>": a fair lock lasts so long, which the waiter that is next may not know. False:
 * another message. */
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

/* The queue sleeps no longer than until then; its next poll is not put off. */
static void sleep_until_free(struct wait_queue *queue, int64_t ms)
{
    struct loop *loop = queue->owner->options.loop;

    if (ms > POLL_NS / CLOCK_NS_PER_MS * 2)
        return; /* the queue polls before that */
    queue->held_until_ns = loop_now_ns(loop) + ms * CLOCK_NS_PER_MS + EXPIRY_SLACK_NS;
    if (queue->waiting != NULL && queue->baton == NULL &&
        (!timer_is_armed(&queue->timer) || queue->timer.at_ns > queue->held_until_ns))
        timer_arm(loop_timers(loop), &queue->timer, queue->held_until_ns);
}

static void on_message(void *arg, const char *payload, size_t len)
{
    struct wait_queue *queue = arg;
    int64_t held_ms;

    if (read_held(queue, payload, len, &held_ms))
        sleep_until_free(queue, held_ms);
    if (!wakes(queue->kind, payload, len))
        return;
    metrics_add(queue->owner->options.metrics, METRIC_WAKE_MESSAGES, 1);
    queue->woken_ns = loop_now_ns(queue->owner->options.loop);
    /* A latch tells 0 when it is open, 1 when it was set or deleted: then one waiter finds out.
     */
    if (queue->kind == WAIT_LATCH && payload[0] == '0')
        wake_everyone(queue);
    else
        wake(queue);
}

/* What tells one queue from another: the kind, for the name of a lock may soon be that of a
 * semaphore; the lease, where each waiter of a fair lock has a queue of its own; the name. */
struct queue_key {
    size_t len;
    char text[1 + LEASE_ID_MAX + KEY_NAME_MAX + 1];
};

static void make_key(struct queue_key *key, enum wait_kind kind, const char *lease_id,
                     const char *name, size_t len)
{
    size_t id_len = kind == WAIT_FAIR ? strlen(lease_id) : 0;

    assert(id_len <= LEASE_ID_MAX && len <= KEY_NAME_MAX);
    key->text[0] = (char)kind;
    memcpy(key->text + 1, lease_id, id_len);
    memcpy(key->text + 1 + id_len, name, len);
    key->len = 1 + id_len + len;
}

static struct wait_queue *find_queue(const struct waiters *waiters, enum wait_kind kind,
                                     const char *lease_id, const char *name, size_t len)
{
    struct wait_queue *queue;
    struct queue_key key;

    make_key(&key, kind, lease_id, name, len);
    HASH_FIND(hh, waiters->queues, key.text, key.len, queue);
    return queue;
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

static struct wait_queue *make_queue(struct waiters *waiters, const struct waiter *waiter,
                                     const char *name, size_t len)
{
    struct queue_key key;
    struct key channel;

    make_key(&key, waiter->kind, waiter->lease_id, name, len);
    struct wait_queue *queue = calloc(1, sizeof(*queue) + key.len);
    assert(queue != NULL);
    queue->owner = waiters;
    queue->kind = waiter->kind;
    queue->len = key.len;
    memcpy(queue->key, key.text, key.len);
    queue->generation = ++waiters->generation;
    queue->timer = (struct timer){.fire = on_timer, .arg = queue};
    queue->subscription = (struct subscription){
        .ready = on_ready, .message = on_message, .arg = queue};
    HASH_ADD(hh, waiters->queues, key, queue->len, queue);
    metrics_add(waiters->options.metrics, METRIC_WAITED_LOCKS, 1);
    key_make(&channel, channel_kind(waiter->kind), name, len, waiter->lease_id);
    topology_subscribe(waiters->options.topology, &queue->subscription, channel.text,
                       channel.len);
    return queue;
}

uint64_t waiters_generation(const struct waiters *waiters)
{
    return waiters->generation;
}

/* --- waiters ------------------------------------------------------------------------------ */

void waiter_join(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    struct wait_queue *queue = find_queue(waiters, waiter->kind, waiter->lease_id, name, len);

    if (queue == NULL)
        queue = make_queue(waiters, waiter, name, len);
    waiter->queue = queue;
    waiter->trying = false;
    DL_APPEND(queue->waiting, waiter);
    metrics_add(waiters->options.metrics, METRIC_WAITERS, 1);
    bool live = subscription_is_live(&queue->subscription);
    if (live && queue->generation > generation)
        give_baton(queue); /* its attempt began before the subscription or before a message */
    else if (queue->baton == NULL && queue->waiting == waiter)
        sleep_for(queue, remaining_ms); /* until then, or until on_ready() */
}

/* Another attempt has to follow the one that is over; a baton given meanwhile makes that one.
 */
static void follow_retry(struct waiter *waiter, bool retry_wanted)
{
    waiter->retry_wanted = false;
    if (retry_wanted && !waiter->trying)
        retry(waiter);
}

void waiter_busy(struct waiters *waiters, struct waiter *waiter, int64_t remaining_ms)
{
    struct wait_queue *queue = waiter->queue;
    struct waiter *smaller = NULL;
    bool retry_wanted = waiter->retry_wanted;

    (void)waiters;
    waiter->trying = false;
    if (queue->baton == waiter) {
        queue->baton = NULL;
        smaller = queue->woken_again ? NULL : find_smaller(queue, waiter->next, waiter->wants);
    }
    if (queue->baton == NULL && smaller != NULL)
        give_baton_to(queue, smaller, waiter->wants);
    else if (queue->baton == NULL)
        settle(queue, remaining_ms);
    follow_retry(waiter, retry_wanted);
}

void waiter_move(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    if (find_queue(waiters, waiter->kind, waiter->lease_id, name, len) == waiter->queue) {
        waiter_busy(waiters, waiter, remaining_ms);
        return;
    }
    waiter_leave(waiters, waiter, -1);
    waiter_join(waiters, waiter, name, len, generation, remaining_ms);
    follow_retry(waiter, waiter->retry_wanted);
}

void waiter_leave(struct waiters *waiters, struct waiter *waiter, int64_t taken_ms)
{
    struct wait_queue *queue = waiter->queue;
    struct waiter *behind = waiter->next;
    bool had_baton = queue->baton == waiter;

    waiter->queue = NULL;
    waiter->trying = false;
    DL_DELETE(queue->waiting, waiter);
    metrics_add(waiters->options.metrics, METRIC_WAITERS, -1);
    if (had_baton)
        queue->baton = NULL;
    if (queue->waiting == NULL) {
        struct loop *loop = waiters->options.loop;
        timer_arm(loop_timers(loop), &queue->timer, loop_now_ns(loop) + LINGER_NS);
        return;
    }
    if (queue->baton != NULL)
        return;
    if (taken_ms >= 0)
        settle(queue, taken_ms);
    else if (had_baton)
        pass_baton(queue, behind);
    else if (queue->woken_again)
        give_baton(queue);
}

bool waiter_is_waiting(const struct waiter *waiter)
{
    return waiter->queue != NULL;
}

int64_t waiter_woken_ns(const struct waiter *waiter)
{
    return waiter->queue->woken_ns;
}

void waiters_wake_all(struct waiters *waiters)
{
    struct wait_queue *queue, *next;

    HASH_ITER(hh, waiters->queues, queue, next) {
        if (queue->waiting != NULL)
            wake(queue);
    }
}

static void retry_waiters_of(struct wait_queue *queue, const char *lease_id)
{
    struct waiter *waiter, *next;

    DL_FOREACH_SAFE(queue->waiting, waiter, next) {
        if (strcmp(waiter->lease_id, lease_id) == 0)
            retry(waiter);
    }
}

void waiters_retry_lease(struct waiters *waiters, const char *name, size_t len,
                         const char *lease_id)
{
    for (int kind = WAIT_LOCK; kind <= WAIT_LATCH; kind++) {
        struct wait_queue *queue = find_queue(waiters, (enum wait_kind)kind, lease_id, name,
                                              len);
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
        return; /* not from a front end: anybody may publish */
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
    topology_unsubscribe(waiters->options.topology, &waiters->leases);
    free(waiters);
}
