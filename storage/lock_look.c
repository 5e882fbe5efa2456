#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lock_store_internal.h"

/* A look under way: first the script, then the records of the leases that it named, for their
 * notes. */
struct look {
    struct lock_store *store;
    lock_look_done *done;
    void *arg;
    bool asks_for_lease;
    struct lock_view view;
    int64_t redis_now_ms;
    struct timer not_sent;
    size_t waiters_max;
    struct lock_waiter_view waiters[]; /* waiters_max of them */
};

static void finish(struct look *look)
{
    look->done(look->arg, &look->view);
    free(look);
}

static void on_not_sent(void *arg)
{
    struct look *look = arg;

    look->view.outcome = LOCK_NOT_EXECUTED;
    finish(look);
}

static void describe_waiter(struct look *look, struct lock_waiter_view *waiter,
                            const struct lease_record *record)
{
    memcpy(waiter->note, record->note, sizeof(waiter->note));
    waiter->waited_ms = record->since_ms > 0 && look->redis_now_ms > record->since_ms
                            ? look->redis_now_ms - record->since_ms
                            : 0;
}

/* The records, in the order of the keys: the holder's, then the waiters'. What has gone
 * meanwhile keeps an empty note. */
static void on_records(void *arg, const struct redis_result *result)
{
    struct look *look = arg;
    struct lock_view *view = &look->view;
    struct lease_record record;
    size_t i = 0, len;
    char lease_id[LEASE_ID_SIZE];

    if (lock_holder_is_lease(view->holder, lease_id)) {
        const char *text = redis_reply_text(redis_reply_at(result->reply, i++), &len);
        lease_record_parse(&record, text, len);
        memcpy(view->note, record.note, sizeof(view->note));
    }
    for (size_t w = 0; w < view->waiters_shown; w++) {
        const char *text = redis_reply_text(redis_reply_at(result->reply, i++), &len);
        lease_record_parse(&record, text, len);
        describe_waiter(look, &look->waiters[w], &record);
    }
    finish(look);
}

/* False when there is nothing to ask for. */
static bool ask_for_records(struct look *look)
{
    const char *argv[2 + LOCK_WAITERS_SHOWN] = {"MGET"};
    size_t lens[2 + LOCK_WAITERS_SHOWN] = {4}, argc = 1;
    struct key *keys = malloc((1 + LOCK_WAITERS_SHOWN) * sizeof(*keys));
    char lease_id[LEASE_ID_SIZE];

    assert(keys != NULL);
    if (lock_holder_is_lease(look->view.holder, lease_id))
        key_for_id(&keys[argc++ - 1], KEY_LEASE, lease_id);
    for (size_t w = 0; w < look->view.waiters_shown; w++)
        key_for_id(&keys[argc++ - 1], KEY_LEASE, look->waiters[w].lease_id);
    for (size_t i = 1; i < argc; i++) {
        argv[i] = keys[i - 1].text;
        lens[i] = keys[i - 1].len;
    }
    bool asked = argc > 1 && redis_command(look->store->options.redis, argc, argv, lens,
                                           on_records, look) == 0;
    free(keys);
    return asked;
}

static void read_waiters(struct look *look, const struct redisReply *reply)
{
    size_t count = redis_reply_count(reply) / 2;

    for (size_t i = 0; i < count && i < look->waiters_max; i++) {
        struct lock_waiter_view *waiter = &look->waiters[i];
        lock_copy_text(redis_reply_at(reply, 2 * i), waiter->lease_id,
                       sizeof(waiter->lease_id));
        waiter->remaining_ms = redis_reply_integer(redis_reply_at(reply, 2 * i + 1)) -
                               look->redis_now_ms;
        waiter->waited_ms = -1;
        look->view.waiters_shown = i + 1;
    }
    look->view.waiters = look->waiters;
}

static void read_lease(struct look *look, const struct redisReply *record_reply,
                       const char *forced, const char *holder)
{
    struct lock_view *view = &look->view;
    struct lease_record record;
    size_t len;
    const char *text = redis_reply_text(record_reply, &len);

    lease_record_parse(&record, text, len);
    if (view->locked && strcmp(view->holder, holder) == 0) {
        view->lease_state = LEASE_HELD;
    } else if (strcmp(record.state, "waiting") == 0) {
        view->lease_state = LEASE_WAITING;
    } else if (strcmp(record.state, "ended") == 0) {
        view->lease_state = LEASE_ENDED;
        memcpy(view->reason, record.detail, sizeof(view->reason));
    } else if (strcmp(record.state, "held") == 0) {
        view->lease_state = LEASE_ENDED; /* and nobody has asked since */
        snprintf(view->reason, sizeof(view->reason), "%s",
                 strcmp(forced, holder) == 0 ? "forced" : "expired");
    } else {
        view->lease_state = LEASE_UNKNOWN;
    }
}

/* A hash with one field that is no holder, or with more fields, is another kind of object. */
static bool read_holder(struct lock_view *view, const struct redisReply *holders)
{
    if (redis_reply_count(holders) == 0)
        return true;
    lock_copy_text(redis_reply_at(holders, 0), view->holder, sizeof(view->holder));
    view->hold_count = redis_reply_integer(redis_reply_at(holders, 1));
    view->locked = true;
    return redis_reply_count(holders) == 2 && lock_is_holder(view->holder);
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look *look = arg;
    struct lock_view *view = &look->view;
    char forced[LOCK_HOLDER_SIZE], asking[LOCK_HOLDER_SIZE];

    view->outcome = lock_outcome_of(result);
    if (view->outcome == LOCK_LOOKED && !read_holder(view, redis_reply_at(result->reply, 2)))
        view->outcome = LOCK_WRONG_KIND;
    if (view->outcome != LOCK_LOOKED) {
        finish(look);
        return;
    }
    view->remaining_ms = lock_ms_left(
        look->store, redis_reply_integer(redis_reply_at(result->reply, 0)), result->sent_ns);
    view->fencing_token = redis_reply_integer(redis_reply_at(result->reply, 1));
    look->redis_now_ms = redis_reply_integer(redis_reply_at(result->reply, 3));
    view->waiter_count = (size_t)redis_reply_integer(redis_reply_at(result->reply, 4));
    read_waiters(look, redis_reply_at(result->reply, 5));
    lock_copy_text(redis_reply_at(result->reply, 7), forced, sizeof(forced));
    lock_copy_text(redis_reply_at(result->reply, 8), asking, sizeof(asking));
    if (look->asks_for_lease)
        read_lease(look, redis_reply_at(result->reply, 6), forced, asking);
    if (!ask_for_records(look))
        finish(look);
}

void lock_look(struct lock_store *store, const char *name, const struct lease *lease,
               size_t waiters_max, lock_look_done *done, void *arg)
{
    struct script_args args = {0};
    struct lease_keys keys;
    struct look *look = calloc(1, sizeof(*look) + waiters_max * sizeof(look->waiters[0]));

    assert(look != NULL && waiters_max <= LOCK_WAITERS_SHOWN);
    look->store = store;
    look->done = done;
    look->arg = arg;
    look->waiters_max = waiters_max;
    look->asks_for_lease = lease != NULL;
    look->view.waiters = look->waiters;
    look->view.lease_state = LEASE_UNASKED;
    lease_keys_make(store, &keys, name, lease ? lease->id : "");
    args_key(&args, &keys.lock.name);
    args_key(&args, &keys.lock.counter);
    args_key(&args, &keys.lock.waiters);
    args_key(&args, &keys.record);
    args_key(&args, &keys.lock.forced);
    args_number(&args, (int64_t)waiters_max);
    args_string(&args, lease ? keys.holder : "");
    args_string(&args, lease ? lease->mark : "");
    if (args_send(store, SCRIPT_LOOK, &args, on_looked, look) == 0)
        return;
    look->not_sent = (struct timer){.fire = on_not_sent, .arg = look};
    timer_arm(loop_timers(store->options.loop), &look->not_sent, 0);
}

/* --- the note of whoever is in the way ------------------------------------------------------
 */

struct describe {
    lock_done *done;
    void *arg;
    struct lock_result result;
    struct timer no_record;
};

static void on_holder_record(void *arg, const struct redis_result *result)
{
    struct describe *describe = arg;
    struct lease_record record;
    size_t len;

    if (result->outcome == REDIS_DONE) {
        const char *text = redis_reply_text(result->reply, &len);
        lease_record_parse(&record, text, len);
        memcpy(describe->result.note, record.note, sizeof(record.note));
    }
    describe->done(describe->arg, &describe->result);
    free(describe);
}

static void on_no_record(void *arg)
{
    struct describe *describe = arg;

    describe->done(describe->arg, &describe->result);
    free(describe);
}

void lock_describe_holder(struct lock_store *store, const struct lock_result *result,
                          lock_done *done, void *arg)
{
    struct describe *describe = calloc(1, sizeof(*describe));
    char lease_id[LEASE_ID_SIZE];
    struct key record;

    assert(describe != NULL);
    describe->done = done;
    describe->arg = arg;
    describe->result = *result;
    if (lock_holder_is_lease(result->holder, lease_id)) {
        key_for_id(&record, KEY_LEASE, lease_id);
        const char *argv[] = {"GET", record.text};
        const size_t lens[] = {3, record.len};
        if (redis_command(store->options.redis, 2, argv, lens, on_holder_record, describe) == 0)
            return;
    }
    describe->no_record = (struct timer){.fire = on_no_record, .arg = describe};
    timer_arm(loop_timers(store->options.loop), &describe->no_record, 0);
}
