/* Sends the script that releases and grants, and reads its reply for both requests. */
#include "storage/lease/hand_over.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/lease/send.h"
#include "storage/lease/families.h"
#include "storage/notes/bind.h"

struct hand_over {
    struct store *store;
    hand_over_done *done;
    void *arg;
    struct lease lease, next; /* their names are referred to */
};

/* --- the reply ---------------------------------------------------------------------------- */

static void finish(struct hand_over *call, const struct hand_over_result *result)
{
    call->done(call->arg, result);
    lock_names_unref(call->lease.names);
    lock_names_unref(call->next.names);
    free(call);
}

static void finish_unknown(struct hand_over *call, enum call_outcome failure)
{
    const struct lease_result unknown = {
        .outcome = LEASE_FAILED, .failure = failure, .remaining_ms = -1};
    const struct attempt_result attempt = {
        .outcome = TRY_UNKNOWN, .remaining_ms = -1, .lease = &unknown};
    const struct hand_over_result result = {.released = &unknown, .attempt = &attempt};

    finish(call, &result);
}

/* `granted`: the part of the reply about the waiter's attempt; an integer: no grant. */
static void finish_released(struct hand_over *call, const struct redis_result *from,
                            const struct lease_result *released,
                            const struct redis_value *granted)
{
    struct redis_result of_next = *from;
    struct lease_reading reading;

    metrics_add(store_metrics(call->store), METRIC_RELEASES, 1);
    if (value_is_integer(granted)) {
        finish(call, &(struct hand_over_result){.released = released,
                                                .others_listen = value_integer(granted) == 1});
        return;
    }
    of_next.reply = granted;
    lease_reading_read(&reading, call->store, &call->next, true, &of_next);
    const struct attempt_result attempt = {
        .outcome = reading.result.outcome == LEASE_GRANTED ? TRY_GRANTED : TRY_UNKNOWN,
        .remaining_ms = reading.result.remaining_ms,
        .none_left_ms = lease_none_left_ms(&reading.result),
        .lease = &reading.result};
    const struct hand_over_result result = {.released = released, .attempt = &attempt};
    metrics_add(store_metrics(call->store), METRIC_HAND_OVERS, 1);
    finish(call, &result);
}

/* Whether the reply tells more of the released lease than its end. That of a granted permit is
 * longer. */
static bool has_released(const struct redis_value *reply)
{
    size_t count = value_count(reply);

    return count > HAND_OVER_REPLY_GRANTED && count <= HAND_OVER_REPLY_VALUES;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct hand_over *call = arg;
    struct lease_result released = {.outcome = LEASE_RELEASED, .remaining_ms = -1};
    const struct redis_value *reply = result->reply;
    enum call_outcome outcome = call_outcome_of(result);

    if (call_is_unknown(outcome)) {
        finish_unknown(call, outcome);
    } else if (outcome != CALL_DONE || value_is_nil(reply)) {
        finish(call, &(struct hand_over_result){0});
    } else if (has_released(reply)) {
        lock_copy_text(value_at(reply, HAND_OVER_REPLY_SESSION_ID), released.session_id,
                       sizeof(released.session_id));
        if (released.session_id[0] != '\0')
            session_unbind(call->store, released.session_id, &call->lease, NULL);
        store_observe_hold(call->store, lease_name(&call->lease),
                           value_integer(value_at(reply, HAND_OVER_REPLY_TOKEN)));
        finish_released(call, result, &released, value_at(reply, HAND_OVER_REPLY_GRANTED));
    } else {
        finish_released(call, result, &released, reply);
    }
}

/* --- sending ------------------------------------------------------------------------------ */

/* A request to release a lease and to grant what it held, with the texts that its script is
 * sent with: they have to stay until then. */
struct order {
    const struct lease *lease, *next;
    const struct attempt *attempt; /* of `next` */
    unsigned own_listeners;
    struct lease_record_text record; /* of `next` */
    struct key channel;              /* of the unlock message */
};

/* The ARGV that all scripts begin with that hand over. */
static void fill_order(struct store_call *call, const struct store *store,
                       const struct order *order)
{
    int64_t window_ms = store_config(store)->retry_window_ms;

    call_string(call, HAND_OVER_ARG_LEASE_ID, order->lease->id);
    call_number(call, HAND_OVER_ARG_WINDOW_MS, window_ms);
    call_text(call, HAND_OVER_ARG_CHANNEL, order->channel.text, order->channel.len);
    call_string(call, HAND_OVER_ARG_NEXT_ID, order->next->id);
    call_number(call, HAND_OVER_ARG_TTL_MS, order->next->ttl_ms);
    call_text(call, HAND_OVER_ARG_RECORD_TEXT, order->record.text, order->record.len);
    call_number(call, HAND_OVER_ARG_KEEP_MS, order->next->ttl_ms + window_ms);
}

static void fill_lock(struct store_call *call, const struct store *store, struct order *order)
{
    const struct lease *lease = order->lease, *next = order->next;
    struct key_base lock = call_object(call, lease_name(lease));
    int64_t keep_ms = next->ttl_ms + store_config(store)->retry_window_ms;
    bool is_read_write = kind_row(next->kind)->wait == WAIT_READ_WRITE;

    call_key(call, HAND_OVER_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, HAND_OVER_KEY_RECORD, KEY_LEASE, lock, lease->id);
    call_key(call, HAND_OVER_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    call_key(call, HAND_OVER_KEY_NEXT_RECORD, KEY_LEASE, lock, next->id);
    call_key(call, HAND_OVER_KEY_WAITERS, KEY_WAITERS, lock, NULL);
    if (!is_read_write)
        call_key(call, HAND_OVER_KEY_QUEUE, KEY_QUEUE, lock, NULL);
    key_make(&order->channel, is_read_write ? CHANNEL_READ_WRITE : CHANNEL_LOCK, lock.text,
             lock.len, NULL);
    fill_order(call, store, order);
    call_number(call, HAND_OVER_ARG_FENCING_TTL_MS, lease_fencing_ttl_ms(store, keep_ms));
    call_flag(call, HAND_OVER_ARG_UNSEEN, !order->attempt->registered);
    call_number(call, HAND_OVER_ARG_OWN_LISTENERS, order->own_listeners);
    if (store_is_timed(store))
        call_flag(call, HAND_OVER_ARG_TIMED, true);
}

static void fill_permit(struct store_call *call, const struct store *store, struct order *order)
{
    const struct lease *lease = order->lease, *next = order->next;
    struct key_base semaphore = call_object(call, lease_name(lease));

    call_key(call, PERMIT_HAND_OVER_KEY_SEMAPHORE, KEY_OBJECT, semaphore, NULL);
    call_key(call, PERMIT_HAND_OVER_KEY_TIMEOUTS, KEY_TIMEOUTS, semaphore, NULL);
    call_key(call, PERMIT_HAND_OVER_KEY_RECORD, KEY_LEASE, semaphore, lease->id);
    call_key(call, PERMIT_HAND_OVER_KEY_NEXT_RECORD, KEY_LEASE, semaphore, next->id);
    call_key(call, PERMIT_HAND_OVER_KEY_WAITERS, KEY_WAITERS, semaphore, NULL);
    key_make(&order->channel, CHANNEL_SEMAPHORE, semaphore.text, semaphore.len, NULL);
    fill_order(call, store, order);
    call_flag(call, PERMIT_HAND_OVER_ARG_UNSEEN, !order->attempt->registered);
    call_number(call, PERMIT_HAND_OVER_ARG_OWN_LISTENERS, order->own_listeners);
}

void hand_over_send(struct store *store, const struct lease *lease, const struct lease *next,
                    const struct attempt *attempt, unsigned own_listeners, hand_over_done *done,
                    void *arg)
{
    struct order order = {
        .lease = lease, .next = next, .attempt = attempt, .own_listeners = own_listeners};
    struct hand_over *hand_over = malloc(sizeof(*hand_over));
    struct store_call *call = call_begin(store, kind_row(next->kind)->hand_over);

    assert(hand_over != NULL && hand_over_serves(next));
    *hand_over = (struct hand_over){
        .store = store, .done = done, .arg = arg, .lease = *lease, .next = *next};
    lock_names_ref(hand_over->lease.names);
    lock_names_ref(hand_over->next.names);
    lease_record_write(&order.record, next, attempt->session_name);
    if (kind_row(next->kind)->family == FAMILY_PERMIT)
        fill_permit(call, store, &order);
    else
        fill_lock(call, store, &order);
    call_send(call, on_reply, hand_over);
}
