#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lock_store_internal.h"

/* A look under way. */
struct look {
    struct lock_store *store;
    lock_look_done *done;
    void *arg;
    bool asks_for_lease;
    struct lock_view view;
    size_t waiters_max, holders_max;
    struct lock_waiter_view *waiters; /* waiters_max of them, behind the holders */
    struct lock_holder holders[];     /* holders_max of them */
};

/* Values of a holder and of a waiter in the reply of look.lua. */
enum { HOLDER_VALUES = 10, WAITER_VALUES = 5 };

static void finish(struct look *look)
{
    look->done(look->arg, &look->view);
    free(look);
}

static void read_waiter(struct lock_waiter_view *waiter, const struct redisReply *reply,
                        size_t at)
{
    lock_copy_text(redis_reply_at(reply, at), waiter->lease_id, sizeof(waiter->lease_id));
    waiter->remaining_ms = redis_reply_integer(redis_reply_at(reply, at + 1));
    waiter->waited_ms = redis_reply_integer(redis_reply_at(reply, at + 2));
    lock_copy_text(redis_reply_at(reply, at + 3), waiter->note, sizeof(waiter->note));
    lock_copy_text(redis_reply_at(reply, at + 4), waiter->field, sizeof(waiter->field));
}

static void read_waiters(struct look *look, const struct redisReply *reply)
{
    size_t count = redis_reply_count(reply) / WAITER_VALUES;

    look->view.waiters = look->waiters;
    look->view.waiters_shown = count < look->waiters_max ? count : look->waiters_max;
    for (size_t i = 0; i < look->view.waiters_shown; i++)
        read_waiter(&look->waiters[i], reply, i * WAITER_VALUES);
}

static void read_lease(struct lock_view *view, const struct redisReply *state_reply,
                       const struct redisReply *reason_reply)
{
    char state[16];

    lock_copy_text(state_reply, state, sizeof(state));
    lock_copy_text(reason_reply, view->reason, sizeof(view->reason));
    if (strcmp(state, "held") == 0)
        view->lease_state = LEASE_HELD;
    else if (strcmp(state, "waiting") == 0)
        view->lease_state = LEASE_WAITING;
    else if (strcmp(state, "ended") == 0)
        view->lease_state = LEASE_ENDED;
    else
        view->lease_state = LEASE_UNKNOWN;
}

static void read_holder(struct lock_holder *holder, const struct redisReply *reply, size_t at,
                        const struct look *look, int64_t sent_ns)
{
    char watchdog[4];

    lock_copy_text(redis_reply_at(reply, at), holder->field, sizeof(holder->field));
    holder->hold_count = redis_reply_integer(redis_reply_at(reply, at + 1));
    lock_copy_text(redis_reply_at(reply, at + 2), holder->note, sizeof(holder->note));
    lock_copy_text(redis_reply_at(reply, at + 3), holder->session_id,
                   sizeof(holder->session_id));
    lock_copy_text(redis_reply_at(reply, at + 4), holder->session_name,
                   sizeof(holder->session_name));
    lock_copy_text(redis_reply_at(reply, at + 5), holder->owner, sizeof(holder->owner));
    lock_copy_text(redis_reply_at(reply, at + 6), watchdog, sizeof(watchdog));
    holder->watchdog = watchdog[0] == '1';
    lock_copy_text(redis_reply_at(reply, at + 7), holder->kind, sizeof(holder->kind));
    holder->fencing_token = redis_reply_integer(redis_reply_at(reply, at + 8));
    holder->remaining_ms = lock_ms_left(
        look->store, redis_reply_integer(redis_reply_at(reply, at + 9)), sent_ns);
}

static void read_holders(struct look *look, const struct redisReply *reply, int64_t sent_ns)
{
    size_t count = redis_reply_count(reply) / HOLDER_VALUES;

    look->view.holders = look->holders;
    look->view.holders_shown = count < look->holders_max ? count : look->holders_max;
    for (size_t i = 0; i < look->view.holders_shown; i++)
        read_holder(&look->holders[i], reply, i * HOLDER_VALUES, look, sent_ns);
}

static void read_view(struct look *look, const struct redis_result *result)
{
    struct lock_view *view = &look->view;
    const struct redisReply *reply = result->reply;

    view->remaining_ms = lock_ms_left(
        look->store, redis_reply_integer(redis_reply_at(reply, 0)), result->sent_ns);
    view->fencing_token = redis_reply_integer(redis_reply_at(reply, 1));
    lock_copy_text(redis_reply_at(reply, 2), view->kind, sizeof(view->kind));
    view->holder_count = (size_t)redis_reply_integer(redis_reply_at(reply, 3));
    view->locked = view->holder_count > 0;
    read_holders(look, redis_reply_at(reply, 4), result->sent_ns);
    view->waiter_count = (size_t)redis_reply_integer(redis_reply_at(reply, 5));
    read_waiters(look, redis_reply_at(reply, 6));
    if (look->asks_for_lease)
        read_lease(view, redis_reply_at(reply, 7), redis_reply_at(reply, 8));
    view->is_current = redis_reply_integer(redis_reply_at(reply, 9)) == 1;
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look *look = arg;

    look->view.outcome = lock_outcome_of(result);
    if (look->view.outcome == LOCK_LOOKED && redis_reply_count(result->reply) == 1)
        look->view.outcome = LOCK_WRONG_KIND;
    if (look->view.outcome == LOCK_LOOKED)
        read_view(look, result);
    finish(look);
}

static struct look *look_new(const struct lock_look_wish *wish)
{
    size_t holders_size = wish->holders_max * sizeof(struct lock_holder);
    struct look *look = calloc(1, sizeof(*look) + holders_size +
                                      wish->waiters_max * sizeof(struct lock_waiter_view));

    assert(look != NULL && wish->waiters_max <= LOCK_WAITERS_SHOWN);
    assert(wish->holders_max >= 1 && wish->holders_max <= LOCK_HOLDERS_SHOWN);
    look->holders_max = wish->holders_max;
    look->waiters_max = wish->waiters_max;
    look->waiters = (struct lock_waiter_view *)((char *)look->holders + holders_size);
    look->asks_for_lease = wish->lease != NULL;
    look->view.lease_state = LEASE_UNASKED;
    return look;
}

void lock_look(struct lock_store *store, const char *name, const struct lock_look_wish *wish,
               lock_look_done *done, void *arg)
{
    struct script_args args = {0};
    struct lock_keys keys;
    struct key waiters;
    struct look *look = look_new(wish);

    look->store = store;
    look->done = done;
    look->arg = arg;
    lock_keys_make(store, &keys, name);
    key_for_lock(&waiters, KEY_WAITERS, keys.name.text, keys.name.len);
    args_key(&args, &keys.name);
    args_key(&args, &keys.counter);
    args_key(&args, &waiters);
    args_number(&args, (int64_t)wish->waiters_max);
    args_number(&args, (int64_t)wish->holders_max);
    args_string(&args, wish->lease ? wish->lease->id : "");
    if (wish->fencing_token > 0)
        args_number(&args, wish->fencing_token);
    else
        args_string(&args, "");
    args_string(&args, wish->only ? wish->only : "");
    args_send(store, SCRIPT_LOOK, &args, on_looked, look);
}

/* --- whoever is in the way ------------------------------------------------------------------
 */

struct describe {
    lock_done *done;
    void *arg;
    struct lock_result result;
};

static void on_described(void *arg, const struct lock_view *view)
{
    struct describe *describe = arg;

    /* Another one by now, or nobody: the answer tells what was found when it was decided. */
    if (view->outcome == LOCK_LOOKED && view->holders_shown > 0)
        describe->result.holder = view->holders[0];
    describe->done(describe->arg, &describe->result);
    free(describe);
}

void lock_describe_holder(struct lock_store *store, const char *name,
                          const struct lock_result *result, lock_done *done, void *arg)
{
    struct lock_look_wish wish = {.holders_max = 1, .only = result->holder.field};
    struct describe *describe = malloc(sizeof(*describe));

    assert(describe != NULL);
    *describe = (struct describe){.done = done, .arg = arg, .result = *result};
    describe->result.reply = NULL;
    lock_look(store, name, &wish, on_described, describe);
}
