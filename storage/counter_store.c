#include "storage/counter_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lock_store_internal.h"

/* --- a call and its reply ----------------------------------------------------------------- */

struct counter_call {
    struct lock_store *store;
    enum metric metric; /* of the first answer; METRIC_COUNT: not counted */
    lock_done *done;
    void *arg;
};

struct reply_word {
    const char *word;
    enum lock_outcome outcome;
    bool replayed;
};

static const struct reply_word reply_words[] = {
    {"granted", LOCK_GRANTED, false},
    {"created", LOCK_GRANTED, false},
    {"released", LOCK_RELEASED, false},
    {"counted", LOCK_RELEASED, false},
    {"replayed", LOCK_HELD, true},
    {"exists", LOCK_HELD, false},
    {"busy", LOCK_BUSY, false},
    {"looked", LOCK_LOOKED, false},
    {"deleted", LOCK_UNLOCKED, false},
    {"missing", LOCK_NOT_FOUND, false},
    {"reused", LOCK_REUSED, false},
    {"too-large", LOCK_TOO_LARGE, false},
    {"wrong-kind", LOCK_WRONG_KIND, false},
};

static const struct reply_word *find_reply_word(const struct redisReply *reply)
{
    size_t len;
    const char *word = redis_reply_text(redis_reply_at(reply, 0), &len);

    for (size_t i = 0; i < sizeof(reply_words) / sizeof(reply_words[0]); i++)
        if (strcmp(reply_words[i].word, word) == 0)
            return &reply_words[i];
    return NULL;
}

static void read_reply(struct lock_result *out, const struct counter_call *call,
                       const struct redisReply *reply)
{
    const struct reply_word *row = find_reply_word(reply);
    struct metrics *metrics = call->store->options.metrics;

    if (row == NULL) { /* not one of our scripts' replies: something else sits there */
        out->outcome = LOCK_UNKNOWN;
        return;
    }
    out->outcome = row->outcome;
    out->value = redis_reply_integer(redis_reply_at(reply, 1));
    out->permits = redis_reply_integer(redis_reply_at(reply, 2));
    out->waiter_count = (size_t)out->permits; /* where the script tells them */
    if (row->replayed)
        metrics_add(metrics, METRIC_REPLAYS, 1);
    else if (call->metric != METRIC_COUNT &&
             (row->outcome == LOCK_GRANTED || row->outcome == LOCK_RELEASED))
        metrics_add(metrics, call->metric, 1);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct counter_call *call = arg;
    struct lock_result out = {.outcome = lock_outcome_of(result), .remaining_ms = -1};

    if (result->outcome == REDIS_DONE)
        read_reply(&out, call, result->reply);
    call->done(call->arg, &out);
    free(call);
}

static void send_call(struct lock_store *store, enum script script,
                      const struct script_args *args, enum metric metric, lock_done *done,
                      void *arg)
{
    struct counter_call *call = malloc(sizeof(*call));

    assert(call != NULL);
    *call = (struct counter_call){.store = store, .metric = metric, .done = done, .arg = arg};
    args_send(store, script, args, on_reply, call);
}

/* Every key of a counter, and what belongs to one request about it. */
struct counter_keys {
    struct key name, timeouts, waiters, record, channel;
};

static void keys_make(const struct lock_store *store, struct counter_keys *keys,
                      enum counter_kind kind, const char *name)
{
    struct key *counter = &keys->name;

    counter->len = lock_store_key_name(store, name, counter->text, sizeof(counter->text));
    key_for_timeouts(&keys->timeouts, counter->text, counter->len);
    key_for_lock(&keys->waiters, KEY_WAITERS, counter->text, counter->len);
    if (kind == COUNTER_LATCH)
        key_for_latch_channel(&keys->channel, counter->text, counter->len);
    else
        key_for_lock(&keys->channel, KEY_SEMAPHORE_CHANNEL, counter->text, counter->len);
}

static void add_request_keys(struct script_args *args, struct counter_keys *keys,
                             const struct lease *request)
{
    args_key(args, &keys->name);
    args_key(args, &keys->timeouts);
    args_key(args, &keys->waiters);
    if (request->id[0] == '\0')
        return;
    key_for_id(&keys->record, KEY_IDEMPOTENCY, request->id);
    args_key(args, &keys->record);
}

/* --- every kind --------------------------------------------------------------------------- */

void counter_create(struct lock_store *store, enum counter_kind kind, const char *name,
                    int64_t value, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, kind, name);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_number(&args, value);
    args_text(&args, keys.channel.text, keys.channel.len);
    if (kind == COUNTER_LATCH)
        args_string(&args, "1"); /* Redisson: there is something to wait for again */
    else
        args_number(&args, value);
    args_string(&args, kind == COUNTER_PERMIT_SEMAPHORE ? "1" : "");
    send_call(store, SCRIPT_COUNTER_CREATE, &args, METRIC_COUNT, done, arg);
}

void counter_delete(struct lock_store *store, enum counter_kind kind, const char *name,
                    lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, kind, name);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_string(&args, kind == COUNTER_PERMIT_SEMAPHORE ? "1" : "");
    /* Redisson tells of the end of latches only. */
    args_string(&args, kind == COUNTER_LATCH ? keys.channel.text : "");
    args_string(&args, "1");
    send_call(store, SCRIPT_COUNTER_DELETE, &args, METRIC_COUNT, done, arg);
}

/* --- semaphores --------------------------------------------------------------------------- */

void semaphore_look(struct lock_store *store, const char *name, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_SEMAPHORE, name);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.waiters);
    send_call(store, SCRIPT_COUNTER_LOOK, &args, METRIC_COUNT, done, arg);
}

static void semaphore_try(struct lock_store *store, const struct lease *request,
                          int64_t register_ms, bool registered, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_SEMAPHORE, request->name);
    add_request_keys(&args, &keys, request);
    args_number(&args, request->permits);
    args_string(&args, request->id);
    args_string(&args, request->mark);
    args_number(&args, store->options.config->retry_window_ms);
    args_number(&args, register_ms);
    args_string(&args, registered ? "1" : "0");
    send_call(store, SCRIPT_SEMAPHORE_ACQUIRE, &args, METRIC_SEMAPHORE_ACQUIRES, done, arg);
}

void semaphore_withdraw(struct lock_store *store, const struct lease *request)
{
    withdraw_by(store, SCRIPT_COUNTER_WITHDRAW, KEY_IDEMPOTENCY, request, false);
}

const struct acquire_object semaphore_object = {.wait = WAIT_SEMAPHORE,
                                                .shared = true,
                                                .try = semaphore_try,
                                                .withdraw = semaphore_withdraw};

void semaphore_drain(struct lock_store *store, const struct lease *request, lock_done *done,
                     void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_SEMAPHORE, request->name);
    add_request_keys(&args, &keys, request);
    args_string(&args, request->mark);
    args_number(&args, store->options.config->retry_window_ms);
    send_call(store, SCRIPT_SEMAPHORE_DRAIN, &args, METRIC_SEMAPHORE_ACQUIRES, done, arg);
}

void semaphore_release(struct lock_store *store, const struct lease *request, lock_done *done,
                       void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_SEMAPHORE, request->name);
    add_request_keys(&args, &keys, request);
    args_number(&args, request->permits);
    args_text(&args, keys.channel.text, keys.channel.len);
    args_number(&args, store->options.config->retry_window_ms);
    args_number(&args, COUNTER_MAX);
    send_call(store, SCRIPT_SEMAPHORE_RELEASE, &args, METRIC_SEMAPHORE_RELEASES, done, arg);
}

/* --- latches ------------------------------------------------------------------------------ */

static void latch_try(struct lock_store *store, const struct lease *request,
                      int64_t register_ms, bool registered, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_LATCH, request->name);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.waiters);
    args_string(&args, request->mark);
    args_number(&args, store->options.config->retry_window_ms);
    args_number(&args, register_ms);
    args_string(&args, registered ? "1" : "0");
    send_call(store, SCRIPT_LATCH_AWAIT, &args, METRIC_COUNT, done, arg);
}

/* The same as of a semaphore, whose key never did anything: it leaves the waiters. */
const struct acquire_object latch_object = {
    .wait = WAIT_LATCH, .shared = true, .try = latch_try, .withdraw = semaphore_withdraw};

void latch_count_down(struct lock_store *store, const struct lease *request, lock_done *done,
                      void *arg)
{
    struct script_args args = {0};
    struct counter_keys keys;

    keys_make(store, &keys, COUNTER_LATCH, request->name);
    add_request_keys(&args, &keys, request);
    args_text(&args, keys.channel.text, keys.channel.len);
    args_number(&args, store->options.config->retry_window_ms);
    send_call(store, SCRIPT_LATCH_COUNT_DOWN, &args, METRIC_COUNT_DOWNS, done, arg);
}
