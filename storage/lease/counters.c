/* Semaphores and latches on Redis. */
#include "storage/lease/counters.h"

#include <assert.h>
#include <stdlib.h>

#include "storage/lease/families.h"
#include "storage/lease/quarantine.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/store/reply_word.h"

/* --- a call and its reply ----------------------------------------------------------------- */

/* The meaning of the number behind the value in a reply. */
enum second_value { NO_SECOND_VALUE, PERMITS, WAITERS };

struct counter_call {
    struct store *store;
    enum metric metric; /* of the first answer; METRIC_COUNT: not counted */
    enum second_value second;
    counter_done *done;
    attempt_done *tried; /* instead of `done` */
    void *arg;
};

static const struct reply_word reply_words[] = {
    {"granted", COUNTER_GRANTED, METRIC_COUNT},
    {"created", COUNTER_CREATED, METRIC_COUNT},
    {"released", COUNTER_RELEASED, METRIC_COUNT},
    {"counted", COUNTER_RELEASED, METRIC_COUNT},
    {"replayed", COUNTER_REPLAYED, METRIC_COUNT},
    {"exists", COUNTER_EXISTS, METRIC_COUNT},
    {"busy", COUNTER_BUSY, METRIC_COUNT},
    {"looked", COUNTER_SHOWN, METRIC_COUNT},
    {"deleted", COUNTER_DELETED, METRIC_COUNT},
    {"missing", COUNTER_MISSING, METRIC_COUNT},
    {"reused", COUNTER_REUSED, METRIC_COUNT},
    {"too-large", COUNTER_TOO_LARGE, METRIC_COUNT},
    {"too-many", COUNTER_TOO_MANY, METRIC_COUNT},
    {"wrong-kind", COUNTER_WRONG_KIND, METRIC_COUNT},
};

static void count(const struct counter_call *call, enum counter_outcome outcome)
{
    struct metrics *metrics = store_metrics(call->store);

    if (outcome == COUNTER_REPLAYED)
        metrics_add(metrics, METRIC_REPLAYS, 1);
    else if (call->metric != METRIC_COUNT &&
             (outcome == COUNTER_GRANTED || outcome == COUNTER_RELEASED))
        metrics_add(metrics, call->metric, 1);
}

static void read_reply(struct counter_result *out, const struct counter_call *call,
                       const struct redis_result *result)
{
    const struct redis_value *reply = result->reply;

    *out = (struct counter_result){.outcome = COUNTER_FAILED,
                                   .failure = call_outcome_of(result)};
    if (out->failure == CALL_WRONG_TYPE)
        out->outcome = COUNTER_WRONG_KIND;
    if (out->failure != CALL_DONE)
        return;
    const struct reply_word *row = reply_word_find(
        reply_words, sizeof(reply_words) / sizeof(reply_words[0]), reply);
    if (row == NULL) { /* no reply of this script: the key has another type */
        out->failure = CALL_UNKNOWN;
        return;
    }
    out->outcome = (enum counter_outcome)row->outcome;
    out->value = value_integer(value_at(reply, COUNTER_LOOK_REPLY_LOOKED_VALUE));
    if (call->second == PERMITS)
        out->permits = value_integer(value_at(reply, SEMAPHORE_DRAIN_REPLY_GRANTED_PERMITS));
    else if (call->second == WAITERS)
        out->waiter_count = (size_t)value_integer(
            value_at(reply, COUNTER_LOOK_REPLY_LOOKED_WAITER_COUNT));
    count(call, out->outcome);
}

static enum try_outcome try_outcome_of(const struct counter_result *result)
{
    switch (result->outcome) {
    case COUNTER_GRANTED:
        return TRY_GRANTED;
    case COUNTER_REPLAYED:
        return TRY_CONFIRMED;
    case COUNTER_BUSY:
        return TRY_BUSY;
    case COUNTER_FAILED:
        return try_outcome_of_failure(result->failure);
    case COUNTER_CREATED:
    case COUNTER_EXISTS:
    case COUNTER_DELETED:
    case COUNTER_MISSING:
    case COUNTER_SHOWN:
    case COUNTER_RELEASED:
    case COUNTER_REUSED:
    case COUNTER_TOO_LARGE:
    case COUNTER_TOO_MANY:
    case COUNTER_WRONG_KIND:
        break;
    }
    return TRY_REFUSED;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct counter_call *call = arg;
    struct counter_result out;

    read_reply(&out, call, result);
    if (call->tried != NULL) {
        bool is_last = call->second == PERMITS && out.outcome == COUNTER_GRANTED &&
                       out.value == 0;
        const struct attempt_result attempt = {.outcome = try_outcome_of(&out),
                                               .remaining_ms = -1,
                                               .none_left_ms = is_last ? INT64_MAX : 0,
                                               .counter = &out};
        call->tried(call->arg, &attempt);
    } else {
        call->done(call->arg, &out);
    }
    free(call);
}

/* The caller still has to set the function that gets the result. */
static struct counter_call *call_new(struct store *store, enum metric metric,
                                     enum second_value second, void *arg)
{
    struct counter_call *call = malloc(sizeof(*call));

    assert(call != NULL);
    *call = (struct counter_call){
        .store = store, .metric = metric, .second = second, .arg = arg};
    return call;
}

static void send_script(struct store_call *call, struct counter_call *counter,
                        counter_done *done)
{
    counter->done = done;
    call_send(call, on_reply, counter);
}

static void send_attempt(struct store_call *call, struct counter_call *counter,
                         attempt_done *done)
{
    counter->tried = done;
    call_send(call, on_reply, counter);
}

/* --- keys --------------------------------------------------------------------------------- */

/* The first `count` KEYS of counter_look.lua, with which every script about a counter begins.
 */
static struct key_base fill_keys(struct store_call *call, const char *name, size_t count)
{
    struct key_base counter = call_object(call, name);

    call_key(call, COUNTER_LOOK_KEY_COUNTER, KEY_OBJECT, counter, NULL);
    call_key(call, COUNTER_LOOK_KEY_TIMEOUTS, KEY_TIMEOUTS, counter, NULL);
    if (count > COUNTER_LOOK_KEY_WAITERS)
        call_key(call, COUNTER_LOOK_KEY_WAITERS, KEY_WAITERS, counter, NULL);
    return counter;
}

static struct key_base fill_request_keys(struct store_call *call, const struct lease *request)
{
    struct key_base counter = fill_keys(call, lease_name(request), COUNTER_LOOK_KEYS);

    if (request->id[0] != '\0')
        call_key(call, SEMAPHORE_DRAIN_KEY_IDEMPOTENCY, KEY_IDEMPOTENCY, counter, request->id);
    return counter;
}

static void make_channel(struct key *channel, enum object_kind kind, struct key_base counter)
{
    key_make(channel, kind == KIND_LATCH ? CHANNEL_LATCH : CHANNEL_SEMAPHORE, counter.text,
             counter.len, NULL);
}

/* The ARGV of latch_await.lua, with which every script that waits begins. */
static void fill_attempt(struct store_call *call, const struct store *store,
                         const struct lease *request, const struct attempt *attempt)
{
    call_string(call, LATCH_AWAIT_ARG_ATTEMPT, request->attempt);
    call_number(call, LATCH_AWAIT_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    call_number(call, LATCH_AWAIT_ARG_WAIT_MS, attempt->wait_ms);
    call_flag(call, LATCH_AWAIT_ARG_REGISTERED, attempt->registered);
}

/* --- every kind --------------------------------------------------------------------------- */

void counter_create(struct store *store, enum object_kind kind, const char *name, int64_t value,
                    counter_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_COUNTER_CREATE);
    struct key channel;

    make_channel(&channel, kind, fill_keys(call, name, COUNTER_CREATE_KEYS));
    call_number(call, COUNTER_CREATE_ARG_VALUE, value);
    call_text(call, COUNTER_CREATE_ARG_CHANNEL, channel.text, channel.len);
    if (kind == KIND_LATCH)
        call_string(call, COUNTER_CREATE_ARG_MESSAGE, "1"); /* Redisson: it is not open */
    else
        call_number(call, COUNTER_CREATE_ARG_MESSAGE, value);
    call_flag(call, COUNTER_CREATE_ARG_IS_PERMIT, kind == KIND_PERMIT);
    send_script(call, call_new(store, METRIC_COUNT, NO_SECOND_VALUE, arg), done);
}

void counter_delete(struct store *store, enum object_kind kind, const char *name,
                    counter_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_COUNTER_DELETE);
    struct key channel;

    struct key_base counter = fill_keys(call, name, COUNTER_DELETE_KEY_DELETED);
    if (kind == KIND_SEMAPHORE)
        call_key(call, COUNTER_DELETE_KEY_DELETED, KEY_DELETED, counter, NULL);
    make_channel(&channel, kind, counter);
    call_flag(call, COUNTER_DELETE_ARG_IS_PERMIT, kind == KIND_PERMIT);
    /* Redisson tells of the end of latches only. */
    call_string(call, COUNTER_DELETE_ARG_CHANNEL, kind == KIND_LATCH ? channel.text : "");
    call_string(call, COUNTER_DELETE_ARG_MESSAGE, "1");
    call_number(call, COUNTER_DELETE_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    send_script(call, call_new(store, METRIC_COUNT, NO_SECOND_VALUE, arg), done);
}

/* --- semaphores --------------------------------------------------------------------------- */

void semaphore_get(struct store *store, const char *name, counter_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_COUNTER_LOOK);

    fill_keys(call, name, COUNTER_LOOK_KEYS);
    send_script(call, call_new(store, METRIC_COUNT, WAITERS, arg), done);
}

void semaphore_try(struct store *store, const struct lease *request,
                   const struct attempt *attempt, attempt_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(request->kind)->try);

    fill_request_keys(call, request);
    fill_attempt(call, store, request, attempt);
    call_number(call, SEMAPHORE_ACQUIRE_ARG_PERMITS, request->permits);
    call_string(call, SEMAPHORE_ACQUIRE_ARG_KEY_ID, request->id);
    send_attempt(call, call_new(store, METRIC_SEMAPHORE_ACQUIRES, PERMITS, arg), done);
}

void semaphore_drain(struct store *store, const struct lease *request, counter_done *done,
                     void *arg)
{
    if (store_quarantine_ms(store, lease_name(request)) > 0) {
        drain_hold_back(store, done, arg);
        return;
    }
    struct store_call *call = call_begin(store, SCRIPT_SEMAPHORE_DRAIN);

    fill_request_keys(call, request);
    call_string(call, SEMAPHORE_DRAIN_ARG_ATTEMPT, request->attempt);
    call_number(call, SEMAPHORE_DRAIN_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    send_script(call, call_new(store, METRIC_SEMAPHORE_ACQUIRES, PERMITS, arg), done);
}

void semaphore_release(struct store *store, const struct lease *request, bool create,
                       counter_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_SEMAPHORE_RELEASE);
    struct key channel;

    make_channel(&channel, KIND_SEMAPHORE, fill_request_keys(call, request));
    call_number(call, SEMAPHORE_RELEASE_ARG_PERMITS, request->permits);
    call_text(call, SEMAPHORE_RELEASE_ARG_CHANNEL, channel.text, channel.len);
    call_number(call, SEMAPHORE_RELEASE_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    call_number(call, SEMAPHORE_RELEASE_ARG_PERMITS_MAX, COUNTER_MAX);
    call_flag(call, SEMAPHORE_RELEASE_ARG_CREATE, create);
    send_script(call, call_new(store, METRIC_SEMAPHORE_RELEASES, PERMITS, arg), done);
}

/* --- latches ------------------------------------------------------------------------------ */

void latch_try(struct store *store, const struct lease *request, const struct attempt *attempt,
               attempt_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(request->kind)->try);

    fill_keys(call, lease_name(request), LATCH_AWAIT_KEYS);
    fill_attempt(call, store, request, attempt);
    send_attempt(call, call_new(store, METRIC_COUNT, WAITERS, arg), done);
}

void latch_count_down(struct store *store, const struct lease *request, counter_done *done,
                      void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_LATCH_COUNT_DOWN);
    struct key channel;

    make_channel(&channel, KIND_LATCH, fill_request_keys(call, request));
    call_text(call, LATCH_COUNT_DOWN_ARG_CHANNEL, channel.text, channel.len);
    call_number(call, LATCH_COUNT_DOWN_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    send_script(call, call_new(store, METRIC_COUNT_DOWNS, NO_SECOND_VALUE, arg), done);
}
