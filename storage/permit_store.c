#include "storage/permit_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lock_store_internal.h"

/* Every key of a semaphore, and what belongs to one lease. */
struct permit_keys {
    struct key name, timeouts, waiters, record;
};

static void keys_make(const struct lock_store *store, struct permit_keys *keys,
                      const char *name, const char *lease_id)
{
    struct key *semaphore = &keys->name;

    semaphore->len = lock_store_key_name(store, name, semaphore->text, sizeof(semaphore->text));
    key_for_timeouts(&keys->timeouts, semaphore->text, semaphore->len);
    key_for_lock(&keys->waiters, KEY_WAITERS, semaphore->text, semaphore->len);
    key_for_id(&keys->record, KEY_LEASE, lease_id);
}

static void permit_try(struct lock_store *store, const struct lease *lease, int64_t register_ms,
                       bool registered, lock_done *done, void *arg)
{
    const struct config *config = store->options.config;
    bool has_session = lease->session_id[0] != '\0';
    struct script_args args = {0};
    struct permit_keys keys;
    struct key session, session_leases, due = {.len = sizeof(KEY_DUE) - 1, .text = KEY_DUE};

    keys_make(store, &keys, lease->name, lease->id);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.record);
    args_key(&args, &keys.waiters);
    if (has_session) {
        key_for_id(&session, KEY_SESSION, lease->session_id);
        key_for_id(&session_leases, KEY_SESSION_LEASES, lease->session_id);
        args_key(&args, &session);
        args_key(&args, &session_leases);
        args_key(&args, &due);
    }
    args_string(&args, lease->id);
    args_number(&args, lease->ttl_ms);
    args_number(&args, config->retry_window_ms);
    args_string(&args, lease->mark);
    args_string(&args, lease->mode == LEASE_MADE ? "1" : "");
    args_number(&args, register_ms);
    args_string(&args, registered ? "1" : "0");
    if (has_session) {
        args_string(&args, lease->session_id);
        args_string(&args, lease->watchdog ? "1" : "");
        args_number(&args, lease->watchdog ? watchdog_period_ms(config) : lease->ttl_ms);
    }
    lock_call_send(store, SCRIPT_PERMIT_ACQUIRE, &args, lease->ttl_ms, done, arg);
}

void permit_withdraw(struct lock_store *store, const struct lease *lease)
{
    withdraw_by(store, SCRIPT_PERMIT_WITHDRAW, KEY_LEASE, lease, false);
}

const struct acquire_object permit_object = {
    .wait = WAIT_SEMAPHORE, .shared = true, .try = permit_try, .withdraw = permit_withdraw};

void permit_renew(struct lock_store *store, const struct lease *lease, lock_done *done,
                  void *arg)
{
    struct script_args args = {0};
    struct permit_keys keys;

    keys_make(store, &keys, lease->name, lease->id);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.record);
    args_string(&args, lease->id);
    args_number(&args, lease->ttl_ms);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, lease->watchdog ? "1" : "");
    args_number(&args, watchdog_period_ms(store->options.config));
    lock_call_send(store, SCRIPT_PERMIT_RENEW, &args, lease->ttl_ms, done, arg);
}

void permit_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                    void *arg)
{
    struct script_args args = {0};
    struct permit_keys keys;

    keys_make(store, &keys, lease->name, lease->id);
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.record);
    args_key(&args, &keys.waiters);
    args_string(&args, lease->id);
    args_number(&args, store->options.config->retry_window_ms);
    lock_call_send(store, SCRIPT_PERMIT_RELEASE, &args, 0, done, arg);
}

/* --- looking ------------------------------------------------------------------------------ */

struct look_call {
    struct lock_store *store;
    permits_look_done *done;
    void *arg;
};

enum { PERMIT_VALUES = 3 };

/* Redisson's 32 hex digits as the text of a lease id. */
static void dash(const char *hex, char lease_id[LEASE_ID_SIZE])
{
    snprintf(lease_id, LEASE_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}

static void read_permit(const struct look_call *call, const struct redis_result *result,
                        const struct redisReply *list, size_t at, struct permit_view *permit)
{
    struct lease_record record;
    size_t len;
    int64_t remaining_ms = redis_reply_integer(redis_reply_at(list, at + 1));

    lock_copy_text(redis_reply_at(list, at), permit->permit_id, sizeof(permit->permit_id));
    permit->remaining_ms = lock_ms_left(call->store, remaining_ms, result->sent_ns);
    const char *text = redis_reply_text(redis_reply_at(list, at + 2), &len);
    if (len == 0 || strlen(permit->permit_id) != PERMIT_ID_SIZE - 1)
        return; /* nobody of ours */
    lease_record_parse(&record, text, len);
    dash(permit->permit_id, permit->lease_id);
    memcpy(permit->session_id, record.session_id, sizeof(permit->session_id));
}

static void read_look(const struct look_call *call, const struct redis_result *result,
                      struct permits_view *view)
{
    size_t len;
    const char *word = redis_reply_text(redis_reply_at(result->reply, 0), &len);
    const struct redisReply *list = redis_reply_at(result->reply, 4);

    if (strcmp(word, "looked") != 0) {
        view->outcome = strcmp(word, "missing") == 0      ? LOCK_NOT_FOUND
                        : strcmp(word, "wrong-kind") == 0 ? LOCK_WRONG_KIND
                                                          : LOCK_UNKNOWN;
        return;
    }
    view->free_count = redis_reply_integer(redis_reply_at(result->reply, 1));
    view->held_count = redis_reply_integer(redis_reply_at(result->reply, 2));
    view->waiter_count = (size_t)redis_reply_integer(redis_reply_at(result->reply, 3));
    view->shown = redis_reply_count(list) / PERMIT_VALUES;
    if (view->shown > PERMITS_SHOWN)
        view->shown = PERMITS_SHOWN;
    for (size_t i = 0; i < view->shown; i++)
        read_permit(call, result, list, i * PERMIT_VALUES, &view->permits[i]);
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look_call *call = arg;
    struct permits_view view = {.outcome = lock_outcome_of(result)};

    if (result->outcome == REDIS_DONE)
        read_look(call, result, &view);
    call->done(call->arg, &view);
    free(call);
}

void permits_look(struct lock_store *store, const char *name, permits_look_done *done,
                  void *arg)
{
    struct look_call *call = malloc(sizeof(*call));
    struct script_args args = {0};
    struct permit_keys keys;

    assert(call != NULL);
    *call = (struct look_call){.store = store, .done = done, .arg = arg};
    keys_make(store, &keys, name, "");
    args_key(&args, &keys.name);
    args_key(&args, &keys.timeouts);
    args_key(&args, &keys.waiters);
    args_number(&args, PERMITS_SHOWN);
    args_send(store, SCRIPT_PERMIT_LOOK, &args, on_looked, call);
}
