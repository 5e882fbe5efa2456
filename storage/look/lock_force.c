/* Forcing a lock open. */
#include "storage/look/locks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/look/grant_find.h"
#include "storage/store/store_call.h"
#include "storage/store/reply_word.h"

struct force_call {
    struct store *store;
    lock_force_done *done;
    void *arg;
    char name[LOCK_NAME_SIZE];
    char only[FENCING_TOKEN_SIZE];
    char by[LEASE_CALLER_SIZE + LOCK_NOTE_SIZE]; /* caller and reason, as the script has them */
    char holder[LOCK_HOLDER_SIZE];
    char lease_id[LEASE_ID_SIZE];
    char *holders, *left; /* NULL: no leases are to be spent */
};

/* "search": there is more to do. */
enum { FORCE_SEARCH = -1 };

/* Of a quorum: behind holder and token a list of all holders. */
enum { FORCE_REPLY_HOLDERS = 3 };

static const struct reply_word reply_words[] = {
    {"unlocked", FORCE_UNLOCKED, METRIC_FORCED}, {"free", FORCE_FREE, METRIC_COUNT},
    {"stale", FORCE_STALE, METRIC_COUNT},        {"wrong-kind", FORCE_WRONG_KIND, METRIC_COUNT},
    {"search", FORCE_SEARCH, METRIC_COUNT},
};

static void finish_with(struct force_call *force, const struct force_result *result)
{
    force->done(force->arg, result);
    free(force->holders);
    free(force);
}

static void finish(struct force_call *force, enum force_outcome outcome,
                   enum call_outcome failure)
{
    finish_with(force,
                &(struct force_result){.outcome = outcome, .failure = failure, .holder = ""});
}

/* --- the leases that were freed, in a quorum ---------------------------------------------- */

/* A server of a quorum that the script has not reached may hold one of them still. */
static void spend_next(struct force_call *force);

static void on_spent(void *arg, const struct redis_result *result)
{
    struct force_call *force = arg;
    enum call_outcome failure = call_outcome_of(result);

    if (failure == CALL_DONE)
        spend_next(force);
    else
        finish(force, FORCE_FAILED, CALL_UNKNOWN);
}

static void send_end(struct force_call *force, const char *field)
{
    struct store_call *call = call_begin(force->store, SCRIPT_LEASE_END);
    struct key_base lock = call_object(call, force->name);
    bool is_of_set = field[LEASE_ID_SIZE] == 'm'; /* <lease id>:0… or :m… */

    snprintf(force->lease_id, sizeof(force->lease_id), "%.*s", LEASE_ID_SIZE - 1, field);
    call_key(call, LEASE_END_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, LEASE_END_KEY_RECORD, is_of_set ? KEY_MEMBER : KEY_LEASE, lock,
             force->lease_id);
    call_string(call, LEASE_END_ARG_LEASE_ID, force->lease_id);
    call_string(call, LEASE_END_ARG_REASON, "forced");
    call_number(call, LEASE_END_ARG_WINDOW_MS, store_config(force->store)->retry_window_ms);
    call_send(call, on_spent, force);
}

/* The holders stand in `left`, a newline behind each. */
static void spend_next(struct force_call *force)
{
    char *field = force->left;
    char *newline = strchr(field, '\n');

    if (newline == NULL) {
        finish_with(force,
                    &(struct force_result){.outcome = FORCE_UNLOCKED, .holder = force->holder});
        return;
    }
    *newline = '\0';
    force->left = newline + 1;
    if (lock_holder_is_ours(field) && strlen(field) > LEASE_ID_SIZE)
        send_end(force, field);
    else
        spend_next(force);
}

static void spend_all(struct force_call *force, const struct redis_value *holders)
{
    size_t size = 1, len;

    for (size_t i = 0; i < value_count(holders); i++)
        size += strlen(value_text(value_at(holders, i), &len)) + 1;
    force->holders = calloc(1, size);
    assert(force->holders != NULL);
    force->left = force->holders;
    for (size_t i = 0, at = 0; i < value_count(holders); i++)
        at += (size_t)snprintf(force->holders + at, size - at, "%s\n",
                               value_text(value_at(holders, i), &len));
    spend_next(force);
}

static void finish_or_spend(struct force_call *force, enum force_outcome outcome,
                            const struct redis_value *reply)
{
    const struct redis_value *holders = value_at(reply, FORCE_REPLY_HOLDERS);
    size_t len;

    if (outcome == FORCE_UNLOCKED && value_count(holders) > 0) {
        lock_copy_text(value_at(reply, 1), force->holder, sizeof(force->holder));
        spend_all(force, holders);
        return;
    }
    finish_with(force, &(struct force_result){.outcome = outcome,
                                              .holder = value_text(value_at(reply, 1), &len)});
}

static void on_found(void *arg, const struct grant_found *found);

static void on_reply(void *arg, const struct redis_result *result)
{
    struct force_call *force = arg;
    enum call_outcome failure = call_outcome_of(result);
    size_t len;

    if (failure != CALL_DONE) {
        finish(force, failure == CALL_WRONG_TYPE ? FORCE_WRONG_KIND : FORCE_FAILED, failure);
        return;
    }
    const struct reply_word *row = reply_word_find(
        reply_words, sizeof(reply_words) / sizeof(reply_words[0]), result->reply);
    if (row == NULL) { /* no reply of this script: the key has another type */
        finish(force, FORCE_FAILED, CALL_UNKNOWN);
        return;
    }
    if (row->metric != METRIC_COUNT)
        metrics_add(store_metrics(force->store), row->metric, 1);
    if (row->outcome == FORCE_UNLOCKED && !value_is_nil(value_at(result->reply, 2)) &&
        lock_holder_is_ours(value_text(value_at(result->reply, 1), &len)))
        store_observe_hold(force->store, force->name,
                           value_integer(value_at(result->reply, 2)));
    if (row->outcome == FORCE_SEARCH)
        grant_find(force->store, force->name, force->only, on_found, force);
    else
        finish_or_spend(force, (enum force_outcome)row->outcome, result->reply);
}

/* `holder`: of the grant that is to be freed, where readers hold the lock; or NULL. */
static void send_force(struct force_call *force, const char *holder)
{
    struct store_call *call = call_begin(force->store, SCRIPT_FORCE_UNLOCK);
    struct key_base lock = call_object(call, force->name);

    call_key(call, FORCE_UNLOCK_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, FORCE_UNLOCK_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    call_key(call, FORCE_UNLOCK_KEY_FORCED, KEY_FORCED, lock, NULL);
    call_number(call, FORCE_UNLOCK_ARG_WINDOW_MS, store_config(force->store)->retry_window_ms);
    call_string(call, FORCE_UNLOCK_ARG_ASKED_TOKEN, force->only);
    call_string(call, FORCE_UNLOCK_ARG_BY, force->by);
    if (holder != NULL)
        call_string(call, FORCE_UNLOCK_ARG_ASKED_HOLDER, holder);
    call_send(call, on_reply, force);
}

static void on_found(void *arg, const struct grant_found *found)
{
    struct force_call *force = arg;

    if (found->outcome == CALL_DONE && found->holder[0] != '\0')
        send_force(force, found->holder);
    else if (found->has_more_readers)
        finish(force, FORCE_MANY_READERS, CALL_DONE);
    else
        finish(force, found->outcome == CALL_DONE ? FORCE_STALE : FORCE_FAILED, found->outcome);
}

void lock_force(struct store *store, const char *name, const struct force_order *order,
                lock_force_done *done, void *arg)
{
    struct force_call *force = calloc(1, sizeof(*force));

    assert(force != NULL);
    force->store = store;
    force->done = done;
    force->arg = arg;
    snprintf(force->name, sizeof(force->name), "%s", name);
    snprintf(force->only, sizeof(force->only), "%s", order->only);
    if (order->caller[0] != '\0' || order->reason[0] != '\0')
        snprintf(force->by, sizeof(force->by), "%s\n%s", order->caller, order->reason);
    send_force(force, NULL);
}
