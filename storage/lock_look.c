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
    size_t waiters_max;
    struct lock_waiter_view waiters[]; /* waiters_max of them */
};

static void finish(struct look *look)
{
    look->done(look->arg, &look->view);
    free(look);
}

static void read_waiters(struct look *look, const struct redisReply *reply)
{
    size_t count = redis_reply_count(reply) / 4;

    for (size_t i = 0; i < count && i < look->waiters_max; i++) {
        struct lock_waiter_view *waiter = &look->waiters[i];
        lock_copy_text(redis_reply_at(reply, 4 * i), waiter->lease_id,
                       sizeof(waiter->lease_id));
        waiter->remaining_ms = redis_reply_integer(redis_reply_at(reply, 4 * i + 1));
        waiter->waited_ms = redis_reply_integer(redis_reply_at(reply, 4 * i + 2));
        lock_copy_text(redis_reply_at(reply, 4 * i + 3), waiter->note, sizeof(waiter->note));
        look->view.waiters_shown = i + 1;
    }
    look->view.waiters = look->waiters;
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

/* False for a hash with one field that is no holder, or with more fields: another kind of
 * object. */
static bool read_holder(struct lock_view *view, const struct redisReply *reply)
{
    struct lock_holder *holder = &view->holder;
    char watchdog[4];

    if (redis_reply_count(reply) == 0)
        return true;
    lock_copy_text(redis_reply_at(reply, 0), holder->field, sizeof(holder->field));
    if (redis_reply_count(reply) != 7 || !lock_is_holder(holder->field))
        return false;
    view->locked = true;
    holder->hold_count = redis_reply_integer(redis_reply_at(reply, 1));
    lock_copy_text(redis_reply_at(reply, 2), holder->note, sizeof(holder->note));
    lock_copy_text(redis_reply_at(reply, 3), holder->session_id, sizeof(holder->session_id));
    lock_copy_text(redis_reply_at(reply, 4), holder->session_name,
                   sizeof(holder->session_name));
    lock_copy_text(redis_reply_at(reply, 5), holder->owner, sizeof(holder->owner));
    lock_copy_text(redis_reply_at(reply, 6), watchdog, sizeof(watchdog));
    holder->watchdog = watchdog[0] == '1';
    return true;
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look *look = arg;
    struct lock_view *view = &look->view;
    const struct redisReply *reply = result->reply;

    view->outcome = lock_outcome_of(result);
    if (view->outcome == LOCK_LOOKED && !read_holder(view, redis_reply_at(reply, 2)))
        view->outcome = LOCK_WRONG_KIND;
    if (view->outcome == LOCK_LOOKED) {
        view->remaining_ms = lock_ms_left(
            look->store, redis_reply_integer(redis_reply_at(reply, 0)), result->sent_ns);
        view->fencing_token = redis_reply_integer(redis_reply_at(reply, 1));
        view->waiter_count = (size_t)redis_reply_integer(redis_reply_at(reply, 3));
        read_waiters(look, redis_reply_at(reply, 4));
        if (look->asks_for_lease)
            read_lease(view, redis_reply_at(reply, 5), redis_reply_at(reply, 6));
    }
    finish(look);
}

void lock_look(struct lock_store *store, const char *name, const struct lease *lease,
               size_t waiters_max, lock_look_done *done, void *arg)
{
    struct script_args args = {0};
    struct lock_keys keys;
    struct look *look = calloc(1, sizeof(*look) + waiters_max * sizeof(look->waiters[0]));

    assert(look != NULL && waiters_max <= LOCK_WAITERS_SHOWN);
    look->store = store;
    look->done = done;
    look->arg = arg;
    look->waiters_max = waiters_max;
    look->asks_for_lease = lease != NULL;
    look->view.lease_state = LEASE_UNASKED;
    lock_keys_make(store, &keys, name);
    args_key(&args, &keys.name);
    args_key(&args, &keys.counter);
    args_key(&args, &keys.waiters);
    args_number(&args, (int64_t)waiters_max);
    args_string(&args, lease ? lease->id : "");
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
    if (view->outcome == LOCK_LOOKED &&
        strcmp(view->holder.field, describe->result.holder.field) == 0)
        describe->result.holder = view->holder;
    describe->done(describe->arg, &describe->result);
    free(describe);
}

void lock_describe_holder(struct lock_store *store, const char *name,
                          const struct lock_result *result, lock_done *done, void *arg)
{
    struct describe *describe = malloc(sizeof(*describe));

    assert(describe != NULL);
    *describe = (struct describe){.done = done, .arg = arg, .result = *result};
    lock_look(store, name, NULL, 0, on_described, describe);
}
