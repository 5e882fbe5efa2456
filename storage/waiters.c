#include "storage/waiters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "server/clock.h"
#include "storage/keys.h"

/* No message is trusted for longer: RSpinLock never publishes, an operator may delete a key,
 * pub/sub loses messages. Between 4 and 6 s, so that the polls of many locks do not meet. */
#define POLL_NS (4 * CLOCK_NS_PER_S)
#define POLL_JITTER_NS (2 * CLOCK_NS_PER_S)
/* Redis rounds a TTL to milliseconds. */
#define EXPIRY_SLACK_NS (2 * CLOCK_NS_PER_MS)
/* A lock that is waited for again and again stays subscribed to. */
#define LINGER_NS (2 * CLOCK_NS_PER_S)

enum { LEASE_ID_MAX = 40 };

struct waited_lock {
    UT_hash_handle hh;
    struct waiters *waiters;
    struct subscription subscription;
    struct waiter *queue;
    struct waiter *turn; /* who has it; NULL: nobody */
    int64_t too_much;    /* what one before it wanted in vain; INT64_MAX: it began here */
    bool again;          /* something happened during that turn */
    uint64_t generation; /* changes with everything that happens to the lock */
    int64_t woken_ns;
    struct timer timer; /* the next poll, or the end of lingering when nobody waits */
    enum wait_kind kind;
    size_t len;
    char name[]; /* struct queue_name */
};

struct waiters {
    struct waiters_options options;
    struct waited_lock *locks;
    struct subscription leases;
    uint64_t heard;
    uint64_t
        generation; /* of them all: a lock that is forgotten and comes back has a new one */
};

/* --- turns -------------------------------------------------------------------------------- */

static void give_turn_to(struct waited_lock *lock, struct waiter *waiter, int64_t too_much)
{
    lock->turn = waiter;
    lock->too_much = too_much;
    waiter->trying = true;
    waiter->turn(waiter->arg);
}

/* One that tries on its own is passed over. Where several are served, what it finds out may be
 * older than what there is for it. */
static bool can_have_turn(const struct waited_lock *lock, struct waiter *waiter)
{
    if (!waiter->trying)
        return true;
    waiter->nudged |= lock->kind == WAIT_READ_WRITE || lock->kind == WAIT_SEMAPHORE;
    return false;
}

static void give_turn(struct waited_lock *lock)
{
    struct waiter *waiter;

    if (lock->turn != NULL) {
        lock->again = true;
        return;
    }
    lock->again = false;
    DL_FOREACH(lock->queue, waiter) {
        if (can_have_turn(lock, waiter))
            break;
    }
    if (waiter == NULL) {
        /* All are trying on their own: what they find out may be too old. */
        lock->again = lock->queue != NULL;
        return;
    }
    give_turn_to(lock, waiter, INT64_MAX);
}

/* The first one from `waiter` on that wants less, and does not try already. */
static struct waiter *find_modest(const struct waited_lock *lock, struct waiter *waiter,
                                  int64_t too_much)
{
    while (waiter != NULL && (waiter->wants >= too_much || !can_have_turn(lock, waiter)))
        waiter = waiter->next;
    return waiter;
}

/* Who had the turn has left, and there may be something left. Where some were passed over, they
 * come again at the end, not after each that got something. */
static void pass_turn(struct waited_lock *lock, struct waiter *behind)
{
    struct waiter *modest = NULL;

    if (lock->too_much != INT64_MAX && !lock->again)
        modest = find_modest(lock, behind, lock->too_much);
    if (modest != NULL)
        give_turn_to(lock, modest, lock->too_much);
    else
        give_turn(lock);
}

static void nudge(struct waiter *waiter)
{
    if (waiter->trying) {
        waiter->nudged = true;
        return;
    }
    waiter->trying = true;
    waiter->turn(waiter->arg);
}

static void something_happened(struct waited_lock *lock)
{
    lock->generation = ++lock->waiters->generation;
    give_turn(lock);
}

/* What happened is for all of them. */
static void wake_everyone(struct waited_lock *lock)
{
    struct waiter *waiter, *next;

    lock->generation = ++lock->waiters->generation;
    DL_FOREACH_SAFE(lock->queue, waiter, next) {
        nudge(waiter);
    }
}

static void sleep_for(struct waited_lock *lock, int64_t remaining_ms)
{
    struct loop *loop = lock->waiters->options.loop;
    int64_t now_ns = loop_now_ns(loop);
    int64_t sleep_ns = POLL_NS + (now_ns + (int64_t)(uintptr_t)lock) % POLL_JITTER_NS;

    if (remaining_ms >= 0 && remaining_ms < sleep_ns / CLOCK_NS_PER_MS)
        sleep_ns = remaining_ms * CLOCK_NS_PER_MS + EXPIRY_SLACK_NS;
    timer_arm(loop_timers(loop), &lock->timer, now_ns + sleep_ns);
}

/* An attempt is over and nobody has the turn: the next one, or sleep. */
static void settle(struct waited_lock *lock, int64_t remaining_ms)
{
    if (lock->again)
        give_turn(lock);
    else
        sleep_for(lock, remaining_ms);
}

/* --- locks -------------------------------------------------------------------------------- */

static void forget(struct waited_lock *lock)
{
    struct waiters *waiters = lock->waiters;

    timer_cancel(loop_timers(waiters->options.loop), &lock->timer);
    subscriber_remove(waiters->options.subscriber, &lock->subscription);
    metrics_add(waiters->options.metrics, METRIC_WAITED_LOCKS, -1);
    HASH_DEL(waiters->locks, lock);
    free(lock);
}

static void on_timer(void *arg)
{
    struct waited_lock *lock = arg;

    if (lock->queue == NULL)
        forget(lock);
    else
        give_turn(lock);
}

static void on_ready(void *arg)
{
    something_happened(arg);
}

/* Whether a message is one that Redisson sends: other numbers are not for waiters. */
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

static void on_message(void *arg, const char *payload, size_t len)
{
    struct waited_lock *lock = arg;

    if (!wakes(lock->kind, payload, len))
        return;
    metrics_add(lock->waiters->options.metrics, METRIC_WAKE_MESSAGES, 1);
    lock->woken_ns = loop_now_ns(lock->waiters->options.loop);
    /* 1 on a latch's channel: it was set or deleted, and one of them finds out. */
    if (lock->kind == WAIT_LATCH && payload[0] == '0')
        wake_everyone(lock);
    else
        something_happened(lock);
}

/* What tells one queue from another: its kind, for a name that was a lock's may soon be a
 * semaphore's; for a fair lock the lease; the name. */
struct queue_name {
    size_t len;
    char text[1 + LEASE_ID_MAX + KEY_NAME_MAX + 1];
};

static void name_queue(struct queue_name *name, enum wait_kind kind, const char *lease_id,
                       const char *lock, size_t len)
{
    size_t id_len = kind == WAIT_FAIR ? strlen(lease_id) : 0;

    assert(id_len <= LEASE_ID_MAX && len <= KEY_NAME_MAX);
    name->text[0] = (char)kind;
    memcpy(name->text + 1, lease_id, id_len);
    memcpy(name->text + 1 + id_len, lock, len);
    name->len = 1 + id_len + len;
}

static struct waited_lock *find_lock(const struct waiters *waiters, enum wait_kind kind,
                                     const char *lease_id, const char *name, size_t len)
{
    struct waited_lock *lock;
    struct queue_name queue;

    name_queue(&queue, kind, lease_id, name, len);
    HASH_FIND(hh, waiters->locks, queue.text, queue.len, lock);
    return lock;
}

static void name_channel(struct key *channel, enum wait_kind kind, const char *lease_id,
                         const char *name, size_t len)
{
    switch (kind) {
    case WAIT_LOCK:
        key_for_lock(channel, KEY_CHANNEL, name, len);
        return;
    case WAIT_FAIR:
        key_for_fair_channel(channel, name, len, lease_id);
        return;
    case WAIT_READ_WRITE:
        key_for_lock(channel, KEY_READ_WRITE_CHANNEL, name, len);
        return;
    case WAIT_SEMAPHORE:
        key_for_lock(channel, KEY_SEMAPHORE_CHANNEL, name, len);
        return;
    case WAIT_LATCH:
        key_for_latch_channel(channel, name, len);
        return;
    }
}

static struct waited_lock *make_lock(struct waiters *waiters, const struct waiter *waiter,
                                     const char *name, size_t len)
{
    struct queue_name queue;
    struct key channel;

    name_queue(&queue, waiter->kind, waiter->lease_id, name, len);
    struct waited_lock *lock = calloc(1, sizeof(*lock) + queue.len);
    assert(lock != NULL);
    lock->waiters = waiters;
    lock->kind = waiter->kind;
    lock->len = queue.len;
    memcpy(lock->name, queue.text, queue.len);
    lock->generation = ++waiters->generation;
    lock->timer = (struct timer){.fire = on_timer, .arg = lock};
    lock->subscription = (struct subscription){
        .ready = on_ready, .message = on_message, .arg = lock};
    HASH_ADD(hh, waiters->locks, name, lock->len, lock);
    metrics_add(waiters->options.metrics, METRIC_WAITED_LOCKS, 1);
    name_channel(&channel, waiter->kind, waiter->lease_id, name, len);
    subscriber_add(waiters->options.subscriber, &lock->subscription, channel.text, channel.len);
    return lock;
}

uint64_t waiters_generation(const struct waiters *waiters)
{
    return waiters->generation;
}

/* --- waiters ------------------------------------------------------------------------------ */

void waiter_join(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    struct waited_lock *lock = find_lock(waiters, waiter->kind, waiter->lease_id, name, len);

    if (lock == NULL)
        lock = make_lock(waiters, waiter, name, len);
    waiter->lock = lock;
    waiter->trying = false;
    DL_APPEND(lock->queue, waiter);
    metrics_add(waiters->options.metrics, METRIC_WAITERS, 1);
    bool live = subscription_is_live(&lock->subscription);
    if (live && lock->generation > generation)
        give_turn(lock); /* its attempt began before the subscription or before a message */
    else if (lock->turn == NULL && lock->queue == waiter)
        sleep_for(lock, remaining_ms); /* until then, or until on_ready() */
}

void waiter_busy(struct waiters *waiters, struct waiter *waiter, int64_t remaining_ms)
{
    struct waited_lock *lock = waiter->lock;
    struct waiter *modest = NULL;

    (void)waiters;
    waiter->trying = false;
    if (lock->turn == waiter) {
        lock->turn = NULL;
        modest = lock->again ? NULL : find_modest(lock, waiter->next, waiter->wants);
    }
    if (waiter->nudged) {
        waiter->nudged = false;
        waiter->trying = true;
        waiter->turn(waiter->arg);
    }
    if (lock->turn == NULL && modest != NULL)
        give_turn_to(lock, modest, waiter->wants);
    else if (lock->turn == NULL)
        settle(lock, remaining_ms);
}

void waiter_move(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms)
{
    if (find_lock(waiters, waiter->kind, waiter->lease_id, name, len) == waiter->lock) {
        waiter_busy(waiters, waiter, remaining_ms);
        return;
    }
    waiter_leave(waiters, waiter, -1);
    waiter_join(waiters, waiter, name, len, generation, remaining_ms);
    if (waiter->nudged && !waiter->trying) {
        waiter->trying = true;
        waiter->turn(waiter->arg);
    }
    waiter->nudged = false;
}

void waiter_leave(struct waiters *waiters, struct waiter *waiter, int64_t taken_ms)
{
    struct waited_lock *lock = waiter->lock;
    struct waiter *behind = waiter->next;
    bool had_turn = lock->turn == waiter;

    waiter->lock = NULL;
    waiter->trying = false;
    DL_DELETE(lock->queue, waiter);
    metrics_add(waiters->options.metrics, METRIC_WAITERS, -1);
    if (had_turn)
        lock->turn = NULL;
    if (lock->queue == NULL) {
        struct loop *loop = waiters->options.loop;
        timer_arm(loop_timers(loop), &lock->timer, loop_now_ns(loop) + LINGER_NS);
        return;
    }
    if (lock->turn != NULL)
        return;
    if (taken_ms >= 0)
        settle(lock, taken_ms);
    else if (had_turn)
        pass_turn(lock, behind);
    else if (lock->again)
        give_turn(lock);
}

bool waiter_is_waiting(const struct waiter *waiter)
{
    return waiter->lock != NULL;
}

int64_t waiter_woken_ns(const struct waiter *waiter)
{
    return waiter->lock->woken_ns;
}

void waiters_wake_all(struct waiters *waiters)
{
    struct waited_lock *lock, *next;

    HASH_ITER(hh, waiters->locks, lock, next) {
        if (lock->queue != NULL)
            something_happened(lock);
    }
}

static void nudge_lease(struct waited_lock *lock, const char *lease_id)
{
    struct waiter *waiter, *next;

    DL_FOREACH_SAFE(lock->queue, waiter, next) {
        if (strcmp(waiter->lease_id, lease_id) == 0)
            nudge(waiter);
    }
}

void waiters_nudge(struct waiters *waiters, const char *name, size_t len, const char *lease_id)
{
    for (int kind = WAIT_LOCK; kind <= WAIT_LATCH; kind++) {
        struct waited_lock *lock = find_lock(waiters, (enum wait_kind)kind, lease_id, name,
                                             len);
        if (lock != NULL)
            nudge_lease(lock, lease_id);
    }
}

/* --- life --------------------------------------------------------------------------------- */

uint64_t waiters_heard(const struct waiters *waiters)
{
    return waiters->heard;
}

void waiters_hear(struct waiters *waiters)
{
    waiters->heard++;
}

/* "<lease id> <lock>": see acquire.lua and release.lua. */
static void on_lease_message(void *arg, const char *payload, size_t len)
{
    struct waiters *waiters = arg;
    char lease_id[37];

    if (len < sizeof(lease_id) || len > sizeof(lease_id) + KEY_NAME_MAX ||
        payload[sizeof(lease_id) - 1] != ' ')
        return; /* not from a front end: anybody may publish */
    memcpy(lease_id, payload, sizeof(lease_id) - 1);
    lease_id[sizeof(lease_id) - 1] = '\0';
    waiters_hear(waiters);
    waiters_nudge(waiters, payload + sizeof(lease_id), len - sizeof(lease_id), lease_id);
}

struct waiters *waiters_new(const struct waiters_options *options)
{
    struct waiters *waiters = calloc(1, sizeof(*waiters));

    if (waiters == NULL)
        return NULL;
    waiters->options = *options;
    waiters->leases = (struct subscription){.message = on_lease_message, .arg = waiters};
    subscriber_add(options->subscriber, &waiters->leases, CHANNEL_LEASES,
                   strlen(CHANNEL_LEASES));
    return waiters;
}

void waiters_free(struct waiters *waiters)
{
    struct waited_lock *lock, *next;

    HASH_ITER(hh, waiters->locks, lock, next) {
        assert(lock->queue == NULL);
        forget(lock);
    }
    subscriber_remove(waiters->options.subscriber, &waiters->leases);
    free(waiters);
}
