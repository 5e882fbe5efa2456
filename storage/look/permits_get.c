/* The permits of a semaphore that are held. */
#include "storage/look/permits_get.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/store.h"
#include "storage/store/lease_record.h"
#include "storage/store/store_call.h"
#include "storage/store/look_turns.h"
#include "storage/store/reply_word.h"

struct get_call {
    struct store *store;
    permits_get_done *done;
    void *arg;
    size_t max, asked; /* of the script that is under way */
    char name[LOCK_NAME_SIZE];
};

/* Redisson's 32 hex digits as the text of a lease id. */
static void dash(const char *hex, char lease_id[LEASE_ID_SIZE])
{
    snprintf(lease_id, LEASE_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}

static void read_permit(const struct redis_result *result, const struct redis_value *list,
                        size_t at, struct permit_view *permit)
{
    struct lease_record record;
    size_t len;
    int64_t remaining_ms = value_integer(
        value_at(list, at + PERMIT_LOOK_REPLY_PERMIT_REMAINING_MS));

    lock_copy_text(value_at(list, at + PERMIT_LOOK_REPLY_PERMIT_PERMIT_ID), permit->permit_id,
                   sizeof(permit->permit_id));
    permit->remaining_ms = store_ms_left(remaining_ms, result->sent_ns);
    const char *text = value_text(value_at(list, at + PERMIT_LOOK_REPLY_PERMIT_RECORD), &len);
    if (len == 0 || strlen(permit->permit_id) != PERMIT_ID_SIZE - 1)
        return; /* no permit of rlockd */
    lease_record_parse(&record, text, len);
    dash(permit->permit_id, permit->lease_id);
    memcpy(permit->session_id, record.session_id, sizeof(permit->session_id));
    memcpy(permit->caller, record.caller, sizeof(permit->caller));
    memcpy(permit->note, record.note, sizeof(permit->note));
    permit->granted_us = lease_granted_us(0, &record);
}

static const struct reply_word reply_words[] = {
    {"looked", COUNTER_SHOWN, METRIC_COUNT},
    {"missing", COUNTER_MISSING, METRIC_COUNT},
    {"wrong-kind", COUNTER_WRONG_KIND, METRIC_COUNT},
};

static void read_view(const struct redis_result *result, struct permits_view *view)
{
    const struct redis_value *list = value_at(result->reply, PERMIT_LOOK_REPLY_LOOKED_PERMITS);

    view->outcome = (enum counter_outcome)reply_word_outcome(
        reply_words, sizeof(reply_words) / sizeof(reply_words[0]), result->reply,
        COUNTER_FAILED);
    if (view->outcome != COUNTER_SHOWN) {
        view->failure = CALL_UNKNOWN; /* unless it is a reply of our script */
        return;
    }
    view->free_count = value_integer(
        value_at(result->reply, PERMIT_LOOK_REPLY_LOOKED_FREE_PERMITS));
    view->held_count = value_integer(
        value_at(result->reply, PERMIT_LOOK_REPLY_LOOKED_HELD_PERMITS));
    view->waiter_count = (size_t)value_integer(
        value_at(result->reply, PERMIT_LOOK_REPLY_LOOKED_WAITER_COUNT));
    view->shown = value_count(list) / PERMIT_LOOK_REPLY_PERMIT_VALUES;
    if (view->shown > PERMITS_SHOWN)
        view->shown = PERMITS_SHOWN;
    for (size_t i = 0; i < view->shown; i++)
        read_permit(result, list, i * PERMIT_LOOK_REPLY_PERMIT_VALUES, &view->permits[i]);
}

static struct store_call *fill_call(struct get_call *get, size_t max)
{
    struct store_call *call = call_begin(get->store, SCRIPT_PERMIT_LOOK);
    struct key_base semaphore = call_object(call, get->name);

    get->asked = max;
    call_key(call, PERMIT_LOOK_KEY_SEMAPHORE, KEY_OBJECT, semaphore, NULL);
    call_key(call, PERMIT_LOOK_KEY_TIMEOUTS, KEY_TIMEOUTS, semaphore, NULL);
    call_key(call, PERMIT_LOOK_KEY_WAITERS, KEY_WAITERS, semaphore, NULL);
    call_number(call, PERMIT_LOOK_ARG_PERMITS_MAX, (int64_t)max);
    return call;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct get_call *call = arg;
    struct permits_view view = {.outcome = COUNTER_FAILED, .failure = call_outcome_of(result)};

    if (view.failure == CALL_WRONG_TYPE)
        view.outcome = COUNTER_WRONG_KIND;
    else if (view.failure == CALL_DONE)
        read_view(result, &view);
    if (view.outcome == COUNTER_SHOWN && call->asked < call->max &&
        view.held_count > (int64_t)call->asked) {
        call_send_in_turn(fill_call(call, call->max), on_reply, call);
        return;
    }
    call->done(call->arg, &view);
    free(call);
}

void permits_get(struct store *store, const char *name, size_t max, permits_get_done *done,
                 void *arg)
{
    struct get_call *get = malloc(sizeof(*get));

    assert(get != NULL && max <= PERMITS_SHOWN);
    *get = (struct get_call){.store = store, .done = done, .arg = arg, .max = max};
    snprintf(get->name, sizeof(get->name), "%s", name);
    call_send(fill_call(get, max < FIRST_LOOK_MAX ? max : FIRST_LOOK_MAX), on_reply, get);
}
