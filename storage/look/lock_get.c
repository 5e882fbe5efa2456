/* Looks at a lock: its holders, its waiters, and one lease. */
#include "storage/look/locks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/look/deadlock.h"
#include "storage/look/grant_find.h"
#include "storage/store/store_call.h"
#include "storage/store/look_turns.h"

/* A look under way. */
struct look {
    struct store *store;
    lock_get_done *done;
    void *arg;
    char name[LOCK_NAME_SIZE];
    char lease_id[LEASE_ID_SIZE];   /* of the lease that asks; empty: none */
    char token[FENCING_TOKEN_SIZE]; /* that is asked for; empty: none */
    struct lock_view view;
    size_t waiters_max, holders_max;
    size_t waiters_asked, holders_asked; /* of the script that is under way */
    struct lock_waiter_view *waiters;    /* waiters_max of them, behind the holders */
    struct lock_holder holders[];        /* holders_max of them */
};

static void finish(struct look *look)
{
    look->done(look->arg, &look->view);
    free(look->view.deadlock);
    free(look);
}

/* The note of a record, and the caller behind it. */
static void read_note(const struct redis_value *value, char note[LOCK_NOTE_SIZE],
                      char caller[LEASE_CALLER_SIZE])
{
    char line[LOCK_NOTE_SIZE + LEASE_CALLER_SIZE];

    lock_copy_text(value, line, sizeof(line));
    lease_record_split(line, caller);
    snprintf(note, LOCK_NOTE_SIZE, "%.*s", LOCK_NOTE_SIZE - 1, line);
}

static void read_waiter(struct lock_waiter_view *waiter, const struct redis_value *reply,
                        size_t at)
{
    lock_copy_text(value_at(reply, at + LOOK_REPLY_WAITER_LEASE_ID), waiter->lease_id,
                   sizeof(waiter->lease_id));
    waiter->remaining_ms = value_integer(value_at(reply, at + LOOK_REPLY_WAITER_REMAINING_MS));
    waiter->waited_ms = value_integer(value_at(reply, at + LOOK_REPLY_WAITER_WAITED_MS));
    read_note(value_at(reply, at + LOOK_REPLY_WAITER_NOTE), waiter->note, waiter->caller);
    lock_copy_text(value_at(reply, at + LOOK_REPLY_WAITER_FIELD), waiter->field,
                   sizeof(waiter->field));
}

static void read_waiters(struct look *look, const struct redis_value *reply)
{
    size_t count = value_count(reply) / LOOK_REPLY_WAITER_VALUES;

    look->view.waiters = look->waiters;
    look->view.waiters_shown = count < look->waiters_max ? count : look->waiters_max;
    for (size_t i = 0; i < look->view.waiters_shown; i++)
        read_waiter(&look->waiters[i], reply, i * LOOK_REPLY_WAITER_VALUES);
}

static void read_lease(struct lock_view *view, const struct redis_value *state_reply,
                       const struct redis_value *reason_reply)
{
    char state[16];

    lock_copy_text(state_reply, state, sizeof(state));
    lock_copy_text(reason_reply, view->reason, sizeof(view->reason));
    if (strcmp(state, "held") == 0)
        view->lease_state = LEASE_STATE_HELD;
    else if (strcmp(state, "waiting") == 0)
        view->lease_state = LEASE_STATE_WAITING;
    else if (strcmp(state, "ended") == 0)
        view->lease_state = LEASE_STATE_ENDED;
    else
        view->lease_state = LEASE_STATE_UNKNOWN;
}

static void read_holder(struct lock_holder *holder, const struct redis_value *reply, size_t at,
                        int64_t sent_ns)
{
    char watchdog[4];

    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_FIELD), holder->field,
                   sizeof(holder->field));
    holder->hold_count = value_integer(value_at(reply, at + LOOK_REPLY_HOLDER_HOLDS));
    read_note(value_at(reply, at + LOOK_REPLY_HOLDER_NOTE), holder->note, holder->caller);
    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_SESSION_ID), holder->session_id,
                   sizeof(holder->session_id));
    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_SESSION_NAME), holder->session_name,
                   sizeof(holder->session_name));
    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_OWNER), holder->owner,
                   sizeof(holder->owner));
    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_WATCHDOG), watchdog,
                   sizeof(watchdog));
    holder->watchdog = watchdog[0] == '1';
    lock_copy_text(value_at(reply, at + LOOK_REPLY_HOLDER_KIND), holder->kind,
                   sizeof(holder->kind));
    holder->fencing_token = value_integer(
        value_at(reply, at + LOOK_REPLY_HOLDER_FENCING_TOKEN));
    holder->remaining_ms = store_ms_left(
        value_integer(value_at(reply, at + LOOK_REPLY_HOLDER_REMAINING_MS)), sent_ns);
}

static void read_holders(struct look *look, const struct redis_value *reply, int64_t sent_ns)
{
    size_t count = value_count(reply) / LOOK_REPLY_HOLDER_VALUES;

    look->view.holders = look->holders;
    look->view.holders_shown = count < look->holders_max ? count : look->holders_max;
    for (size_t i = 0; i < look->view.holders_shown; i++)
        read_holder(&look->holders[i], reply, i * LOOK_REPLY_HOLDER_VALUES, sent_ns);
}

/* A quorum has four numbers more. */
static void read_quorum(struct lock_view *view, const struct redis_value *reply)
{
    if (value_count(reply) <= LOOK_REPLY_VALUES)
        return;
    view->quorum.nodes = (size_t)value_integer(value_at(reply, LOOK_REPLY_VALUES));
    view->quorum.replied = (size_t)value_integer(value_at(reply, LOOK_REPLY_VALUES + 1));
    view->quorum.held = (size_t)value_integer(value_at(reply, LOOK_REPLY_VALUES + 2));
    view->quorum.first = (size_t)value_integer(value_at(reply, LOOK_REPLY_VALUES + 3));
}

static void read_view(struct look *look, const struct redis_result *result)
{
    struct lock_view *view = &look->view;
    const struct redis_value *reply = result->reply;

    view->remaining_ms = store_ms_left(value_integer(value_at(reply, LOOK_REPLY_REMAINING_MS)),
                                       result->sent_ns);
    view->fencing_token = value_integer(value_at(reply, LOOK_REPLY_FENCING_TOKEN));
    lock_copy_text(value_at(reply, LOOK_REPLY_KIND), view->kind, sizeof(view->kind));
    view->holder_count = (size_t)value_integer(value_at(reply, LOOK_REPLY_HOLDER_COUNT));
    view->locked = view->holder_count > 0;
    read_holders(look, value_at(reply, LOOK_REPLY_HOLDERS), result->sent_ns);
    view->waiter_count = (size_t)value_integer(value_at(reply, LOOK_REPLY_WAITER_COUNT));
    read_waiters(look, value_at(reply, LOOK_REPLY_WAITERS));
    if (look->lease_id[0] != '\0')
        read_lease(view, value_at(reply, LOOK_REPLY_LEASE_STATE),
                   value_at(reply, LOOK_REPLY_LEASE_REASON));
    size_t len;
    const char *mark = value_text(value_at(reply, LOOK_REPLY_DEADLOCK), &len);
    view->deadlock = deadlock_parse_mark(mark, len);
    view->is_current = value_integer(value_at(reply, LOOK_REPLY_IS_CURRENT)) == 1;
    read_quorum(view, reply);
}

/* Another reader than those that the look has seen may have the fencing token. */
static bool may_be_another(const struct look *look, const struct redis_result *result)
{
    return look->token[0] != '\0' &&
           value_integer(value_at(result->reply, LOOK_REPLY_IS_CURRENT)) == -1;
}

static void on_found(void *arg, const struct grant_found *found)
{
    struct look *look = arg;

    look->view.outcome = found->outcome;
    look->view.is_current = found->holder[0] != '\0';
    look->view.has_more_readers = found->has_more_readers;
    finish(look);
}

/* Whether the script may have left out holders or waiters that are to be named. Where it found
 * as many holders as it was to name, it has not told the dead readers from the living. Of the
 * waiters it has passed over places that nobody asks for any more. */
static bool may_have_left_out(const struct look *look)
{
    return (look->holders_asked < look->holders_max &&
            look->view.holder_count >= look->holders_asked) ||
           (look->waiters_asked < look->waiters_max &&
            look->view.waiter_count > look->view.waiters_shown);
}

static void look_at_all(struct look *look);

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look *look = arg;

    look->view.outcome = call_outcome_of(result);
    if (look->view.outcome == CALL_DONE && value_count(result->reply) == 1)
        look->view.outcome = CALL_WRONG_TYPE;
    if (look->view.outcome == CALL_DONE)
        read_view(look, result);
    if (look->view.outcome == CALL_DONE && may_have_left_out(look))
        look_at_all(look);
    else if (look->view.outcome == CALL_DONE && may_be_another(look, result))
        grant_find(look->store, look->name, look->token, on_found, look);
    else
        finish(look);
}

static struct store_call *fill_call(struct look *look, size_t holders_max, size_t waiters_max)
{
    struct store_call *call = call_begin(look->store, SCRIPT_LOOK);
    struct key_base lock = call_object(call, look->name);

    look->holders_asked = holders_max;
    look->waiters_asked = waiters_max;
    call_key(call, LOOK_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, LOOK_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    call_key(call, LOOK_KEY_QUEUE, KEY_QUEUE, lock, NULL);
    call_key(call, LOOK_KEY_WAITERS, KEY_WAITERS, lock, NULL);
    call_key(call, LOOK_KEY_DEADLOCK, KEY_DEADLOCK, lock, NULL);
    call_number(call, LOOK_ARG_WAITERS_MAX, (int64_t)waiters_max);
    call_number(call, LOOK_ARG_HOLDERS_MAX, (int64_t)holders_max);
    call_string(call, LOOK_ARG_LEASE_ID, look->lease_id);
    call_string(call, LOOK_ARG_ASKED_TOKEN, look->token);
    return call;
}

static void look_at_all(struct look *look)
{
    struct store_call *call = fill_call(look, look->holders_max, look->waiters_max);

    free(look->view.deadlock);
    look->view.deadlock = NULL;
    call_send_in_turn(call, on_looked, look);
}

static bool is_of_quorum(const struct look *look)
{
    return topology_quorum_nodes(store_topology(look->store)) > 0;
}

/* The servers of a quorum have to name the same readers. */
static void look_at_few(struct look *look)
{
    size_t waiters = look->waiters_max < FIRST_LOOK_MAX ? look->waiters_max : FIRST_LOOK_MAX;
    bool is_first = look->holders_max > FIRST_LOOK_MAX && !is_of_quorum(look);
    struct store_call *call = fill_call(look, is_first ? FIRST_LOOK_MAX : look->holders_max,
                                        waiters);

    if (is_first)
        call_flag(call, LOOK_ARG_IS_FIRST, true);
    call_send(call, on_looked, look);
}

static struct look *look_new(const struct lock_query *query)
{
    size_t holders_size = query->holders_max * sizeof(struct lock_holder);
    struct look *look = calloc(1, sizeof(*look) + holders_size +
                                      query->waiters_max * sizeof(struct lock_waiter_view));

    assert(look != NULL && query->waiters_max <= LOCK_WAITERS_SHOWN);
    assert(query->holders_max >= 1 && query->holders_max <= LOCK_HOLDERS_SHOWN);
    look->holders_max = query->holders_max;
    look->waiters_max = query->waiters_max;
    look->waiters = (struct lock_waiter_view *)((char *)look->holders + holders_size);
    look->view.lease_state = LEASE_STATE_UNASKED;
    return look;
}

void lock_get(struct store *store, const char *name, const struct lock_query *query,
              lock_get_done *done, void *arg)
{
    struct look *look = look_new(query);

    look->store = store;
    look->done = done;
    look->arg = arg;
    snprintf(look->name, sizeof(look->name), "%s", name);
    if (query->lease != NULL)
        memcpy(look->lease_id, query->lease->id, sizeof(look->lease_id));
    if (query->fencing_token > 0)
        snprintf(look->token, sizeof(look->token), "%" PRId64, query->fencing_token);
    if (look->waiters_max > 0 && is_of_quorum(look))
        look_at_all(look);
    else
        look_at_few(look);
}
