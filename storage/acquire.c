#include "storage/acquire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/clock.h"
#include "server/pool.h"
#include "storage/keys.h"

/* What a waiter sleeps after Redis refused its attempt (loading, busy, a replica): it is not to
 * be asked all the time, and a new connection wakes everyone anyway. */
enum { REFUSED_SLEEP_MS = 500 };

struct acquirer {
    struct acquirer_options options;
    struct acquisition *acquisitions;
    struct pool pool; /* of them */
    bool draining;
};

/* An acquisition is in the queue (waiter_is_waiting()) or not, and has an attempt under way or
 * not: `waiter.trying`. When it ends with one under way, it is `over` until that attempt's
 * reply. */
struct acquisition {
    struct acquisition *prev, *next;
    struct acquirer *acquirer;
    const struct lease *lease;
    struct waiter waiter;
    struct timer deadline;
    int64_t deadline_ns, started_ns;
    int64_t parked_ns;   /* 0: never had to wait */
    uint64_t generation; /* of the waiters, when the attempt under way began */
    uint64_t heard;      /* of leases and sessions, at that time */
    void (*parked)(void *arg);
    lock_done *done;
    void *arg;
    struct lease *orphan; /* of an attempt that outlives the acquisition */
    bool registering;     /* the attempt under way will register it if the lock is busy */
    bool no_room;         /* … and would, were there not too many waiters */
    bool registered;      /* stands among the waiters in Redis, as far as we know */
    bool uncertain;       /* an attempt's outcome is unknown */
    bool keeps_place;     /* when it has ended: see struct acquire_object */
    bool final;           /* the deadline has come: no attempt after this one */
    bool over;
};

/* Where a writer has to wait, a reader may get in. */
static const struct acquire_object lock_objects[LOCK_KIND_COUNT] = {
    [LOCK_KIND_LOCK] = {.wait = WAIT_LOCK, .try = lock_try, .withdraw = lock_withdraw},
    [LOCK_KIND_FAIR] = {.wait = WAIT_FAIR,
                        .try = lock_try,
                        .withdraw = lock_withdraw,
                        .keep_place = lock_keep_place},
    [LOCK_KIND_READ] = {.wait = WAIT_READ_WRITE,
                        .shared = true,
                        .wants = 1,
                        .try = lock_try,
                        .withdraw = lock_withdraw},
    [LOCK_KIND_WRITE] = {
        .wait = WAIT_READ_WRITE, .wants = 2, .try = lock_try, .withdraw = lock_withdraw}};

static const struct acquire_object *object_of(const struct lease *lease)
{
    return lease->object != NULL ? lease->object : &lock_objects[lease->kind];
}

static void on_tried(void *arg, const struct lock_result *result);

/* The hash of the lock that it waits for: of several, of the one that was in the way last. */
static size_t waited_lock(const struct acquisition *acquisition,
                          char lock[static KEY_NAME_MAX + 1])
{
    const struct lock_names *locks = acquisition->lease->locks;
    const char *name = acquisition->lease->name;

    if (locks != NULL && locks->in_the_way > 0 && locks->in_the_way <= locks->count)
        name = locks->name[locks->in_the_way - 1];
    return lock_store_key_name(acquisition->acquirer->options.store, name, lock,
                               KEY_NAME_MAX + 1);
}

static bool is_full(const struct acquirer *acquirer)
{
    return acquirer->options.parking->taken >= acquirer->options.parking->places;
}

static void try(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;
    int64_t left_ms = (acquisition->deadline_ns - loop_now_ns(acquirer->options.loop)) /
                      CLOCK_NS_PER_MS;
    bool wants_to_wait = !acquisition->final && left_ms > 0;
    bool has_room = acquisition->parked_ns != 0 || !is_full(acquirer);
    bool may_wait = wants_to_wait && has_room;

    acquisition->registering = may_wait;
    acquisition->no_room = wants_to_wait && !has_room;
    acquisition->heard = waiters_heard(acquirer->options.waiters);
    acquisition->generation = waiters_generation(acquirer->options.waiters);
    acquisition->waiter.trying = true;
    object_of(acquisition->lease)
        ->try(acquirer->options.store, acquisition->lease, may_wait ? left_ms : 0,
              acquisition->registered, on_tried, acquisition);
}

static void count_end_of_wait(struct acquisition *acquisition, bool got_it)
{
    struct acquirer *acquirer = acquisition->acquirer;
    struct metrics *metrics = acquirer->options.metrics;
    int64_t now_ns = clock_ns();

    if (acquisition->parked_ns == 0)
        return;
    acquirer->options.parking->taken--;
    metrics_add(metrics, got_it ? METRIC_WAITS_GRANTED : METRIC_WAITS_ENDED, 1);
    metrics_observe(metrics, HISTOGRAM_WAIT, now_ns - acquisition->parked_ns);
    int64_t woken_ns = waiter_woken_ns(&acquisition->waiter);
    if (got_it && woken_ns > acquisition->parked_ns)
        metrics_observe(metrics, HISTOGRAM_HAND_OFF, now_ns - woken_ns);
}

static void take_back(const struct acquisition *acquisition, const struct lease *lease)
{
    const struct acquire_object *object = object_of(lease);

    (acquisition->keeps_place ? object->keep_place
                              : object->withdraw)(acquisition->acquirer->options.store, lease);
}

/* The attempt under way goes on alone. Redis may run it after the withdrawal that was sent
 * behind it, when it had forgotten the script: then what it took is taken back once more. */
static void leave_behind(struct acquisition *acquisition)
{
    acquisition->over = true;
    acquisition->orphan = malloc(sizeof(*acquisition->orphan));
    assert(acquisition->orphan != NULL);
    *acquisition->orphan = *acquisition->lease;
    lock_names_share(acquisition->orphan->locks);
}

static void end_orphan(struct acquisition *acquisition, const struct lock_result *result)
{
    if (result->outcome == LOCK_GRANTED || result->outcome == LOCK_BUSY ||
        result->outcome == LOCK_UNKNOWN)
        take_back(acquisition, acquisition->orphan);
    lock_names_drop(acquisition->orphan->locks);
    free(acquisition->orphan);
    pool_give(&acquisition->acquirer->pool, acquisition);
}

/* Out of the queue and of the timers; what is left is freed now, or by the attempt under way.
 * `taken_ms`: see waiter_leave(). */
static void end(struct acquisition *acquisition, bool got_it, int64_t taken_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    bool trying = acquisition->waiter.trying;

    timer_cancel(loop_timers(acquirer->options.loop), &acquisition->deadline);
    count_end_of_wait(acquisition, got_it);
    if (waiter_is_waiting(&acquisition->waiter))
        waiter_leave(acquirer->options.waiters, &acquisition->waiter, taken_ms);
    DL_DELETE(acquirer->acquisitions, acquisition);
    if (trying)
        leave_behind(acquisition);
    else
        pool_give(&acquirer->pool, acquisition);
}

/* Whether its client is told to, and finds its place in line as it was. */
static bool may_ask_again(const struct acquisition *acquisition, enum lock_outcome outcome)
{
    if (object_of(acquisition->lease)->keep_place == NULL || acquisition->lease->once)
        return false;
    return outcome == LOCK_BUSY || outcome == LOCK_DRAINING ||
           outcome == LOCK_TOO_MANY_WAITERS || outcome == LOCK_NOT_EXECUTED ||
           outcome == LOCK_UNKNOWN;
}

static void finish(struct acquisition *acquisition, const struct lock_result *result)
{
    lock_done *done = acquisition->done;
    void *arg = acquisition->arg;
    bool got_it = result->outcome == LOCK_GRANTED || result->outcome == LOCK_HELD;

    acquisition->keeps_place = may_ask_again(acquisition, result->outcome);
    bool has_left = acquisition->keeps_place && result->outcome == LOCK_BUSY &&
                    !acquisition->registering;
    if (!got_it && ((acquisition->registered && !has_left) || acquisition->uncertain))
        take_back(acquisition, acquisition->lease);
    bool is_taken = got_it && !object_of(acquisition->lease)->shared;
    /* Without a TTL, which only an operator can have taken away, there is nothing to sleep for.
     */
    int64_t taken_ms = result->remaining_ms >= 0 ? result->remaining_ms : INT64_MAX;
    end(acquisition, got_it, is_taken ? taken_ms : -1);
    done(arg, result);
}

static void finish_as(struct acquisition *acquisition, enum lock_outcome outcome)
{
    struct lock_result result = {.outcome = outcome, .remaining_ms = -1};

    finish(acquisition, &result);
}

static void park(struct acquisition *acquisition, int64_t remaining_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    char lock[KEY_NAME_MAX + 1];

    acquisition->parked_ns = loop_now_ns(acquirer->options.loop);
    acquirer->options.parking->taken++;
    metrics_add(acquirer->options.metrics, METRIC_WAITS_STARTED, 1);
    timer_arm(loop_timers(acquirer->options.loop), &acquisition->deadline,
              acquisition->deadline_ns);
    size_t len = waited_lock(acquisition, lock);
    acquisition->parked(acquisition->arg);
    waiter_join(acquirer->options.waiters, &acquisition->waiter, lock, len,
                acquisition->generation, remaining_ms);
    if (acquisition->heard != waiters_heard(acquirer->options.waiters) &&
        !acquisition->waiter.trying)
        try(acquisition);
}

/* Sleeps on, of several locks for the one that is in the way now. */
static void stay(struct acquisition *acquisition, int64_t sleep_ms)
{
    struct waiters *waiters = acquisition->acquirer->options.waiters;
    char lock[KEY_NAME_MAX + 1];

    if (acquisition->lease->locks == NULL) {
        waiter_busy(waiters, &acquisition->waiter, sleep_ms);
        return;
    }
    size_t len = waited_lock(acquisition, lock);
    waiter_move(waiters, &acquisition->waiter, lock, len, acquisition->generation, sleep_ms);
}

/* The lock was not to be had. */
static void wait_on(struct acquisition *acquisition, const struct lock_result *result,
                    int64_t sleep_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    bool in_time = acquisition->deadline_ns > loop_now_ns(acquirer->options.loop);

    if (acquisition->final || !in_time || !(acquisition->registered || acquisition->no_room)) {
        if (acquisition->uncertain && result->outcome == LOCK_NOT_EXECUTED)
            finish_as(acquisition, LOCK_UNKNOWN);
        else
            finish(acquisition, result);
    } else if (acquirer->draining) {
        finish_as(acquisition, LOCK_DRAINING);
    } else if (acquisition->parked_ns != 0) {
        stay(acquisition, sleep_ms);
    } else if (acquisition->no_room || is_full(acquirer)) {
        metrics_add(acquirer->options.metrics, METRIC_REFUSED_WAITERS, 1);
        finish_as(acquisition, LOCK_TOO_MANY_WAITERS);
    } else {
        park(acquisition, sleep_ms);
    }
}

/* A reply that came so late that the lease may be over is no grant: its holder would work
 * without the lock. */
static void take(struct acquisition *acquisition, const struct lock_result *result)
{
    if (result->remaining_ms != 0) { /* negative: an operator took its TTL away */
        finish(acquisition, result);
        return;
    }
    acquisition->uncertain = true;
    finish_as(acquisition, LOCK_UNKNOWN);
}

static void on_tried(void *arg, const struct lock_result *result)
{
    struct acquisition *acquisition = arg;
    bool has_waited = acquisition->parked_ns != 0;

    if (acquisition->over) {
        end_orphan(acquisition, result);
        return;
    }
    acquisition->waiter.trying = false;
    switch (result->outcome) {
    case LOCK_GRANTED:
    case LOCK_HELD:
        take(acquisition, result);
        return;
    case LOCK_BUSY:
        acquisition->registered |= acquisition->registering;
        if (acquisition->lease->locks != NULL)
            acquisition->lease->locks->in_the_way = result->in_the_way;
        wait_on(acquisition, result, result->remaining_ms);
        return;
    case LOCK_UNKNOWN:
        acquisition->uncertain = true;
        if (has_waited)
            wait_on(acquisition, result, REFUSED_SLEEP_MS);
        else
            finish(acquisition, result);
        return;
    case LOCK_NOT_EXECUTED:
        if (has_waited)
            wait_on(acquisition, result, REFUSED_SLEEP_MS);
        else
            finish(acquisition, result);
        return;
    case LOCK_ENDED:
    case LOCK_SESSION_ENDED:
    case LOCK_REUSED:
    case LOCK_WRONG_KIND:
    case LOCK_UPGRADE:
    case LOCK_OUT_OF_MEMORY:
    case LOCK_NOT_FOUND:
    case LOCK_TOO_LARGE:
    case LOCK_RELEASED:
    case LOCK_UNLOCKED:
    case LOCK_FREE:
    case LOCK_STALE:
    case LOCK_LOOKED:
    case LOCK_TOO_MANY_WAITERS:
    case LOCK_DRAINING:
        finish(acquisition, result);
        return;
    }
}

static void on_turn(void *arg)
{
    try(arg);
}

static void on_deadline(void *arg)
{
    struct acquisition *acquisition = arg;

    /* One more attempt, which also takes it off the list of waiters and learns who is in the
     * way; an attempt under way is the last one. */
    acquisition->final = true;
    if (!acquisition->waiter.trying)
        try(acquisition);
}

struct acquisition *acquire_start(struct acquirer *acquirer, const struct lease *lease,
                                  int64_t deadline_ns, void (*parked)(void *arg),
                                  lock_done *done, void *arg)
{
    struct acquisition *acquisition = pool_take(&acquirer->pool);

    assert(acquisition != NULL);
    *acquisition = (struct acquisition){
        .acquirer = acquirer,
        .lease = lease,
        .waiter = {.lease_id = lease->id,
                   .kind = object_of(lease)->wait,
                   .wants = object_of(lease)->wants ? object_of(lease)->wants : lease->permits,
                   .turn = on_turn,
                   .arg = acquisition},
        .deadline = {.fire = on_deadline, .arg = acquisition},
        .deadline_ns = deadline_ns,
        .parked = parked,
        .done = done,
        .arg = arg,
    };
    DL_APPEND(acquirer->acquisitions, acquisition);
    try(acquisition);
    return acquisition;
}

void acquire_cancel(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;

    if (acquisition->parked_ns != 0)
        metrics_add(acquirer->options.metrics, METRIC_WAITERS_GONE, 1);
    /* Redis runs it after the attempt under way, and before any attempt of the next one in
     * line. */
    object_of(acquisition->lease)->withdraw(acquirer->options.store, acquisition->lease);
    end(acquisition, false, -1);
}

void acquirer_drain(struct acquirer *acquirer)
{
    struct acquisition *head, *acquisition, *prev;

    acquirer->draining = true;
    head = acquirer->acquisitions;
    /* From the last to the first, so that the turn is not handed through the whole queue. */
    for (acquisition = head ? head->prev : NULL; acquisition != NULL; acquisition = prev) {
        prev = acquisition == head ? NULL : acquisition->prev;
        if (acquisition->parked_ns != 0)
            finish_as(acquisition, LOCK_DRAINING);
    }
}

void acquirer_redis_is_up(struct acquirer *acquirer)
{
    waiters_wake_all(acquirer->options.waiters);
}

void acquirer_session_changed(struct acquirer *acquirer, const char *session_id)
{
    struct acquisition *acquisition, *next;
    char lock[KEY_NAME_MAX + 1];

    waiters_hear(acquirer->options.waiters);
    DL_FOREACH_SAFE(acquirer->acquisitions, acquisition, next) {
        const struct lease *lease = acquisition->lease;
        if (acquisition->parked_ns == 0 || strcmp(lease->session_id, session_id) != 0)
            continue;
        size_t len = waited_lock(acquisition, lock);
        waiters_nudge(acquirer->options.waiters, lock, len, lease->id);
    }
}

struct acquirer *acquirer_new(const struct acquirer_options *options)
{
    struct acquirer *acquirer = calloc(1, sizeof(*acquirer));

    if (acquirer == NULL)
        return NULL;
    acquirer->options = *options;
    pool_init(&acquirer->pool, sizeof(struct acquisition));
    return acquirer;
}

void acquirer_free(struct acquirer *acquirer)
{
    assert(acquirer->acquisitions == NULL);
    pool_release(&acquirer->pool);
    free(acquirer);
}
