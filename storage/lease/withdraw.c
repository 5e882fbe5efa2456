/* Withdrawals under way, and those that wait until Redis can be asked again. */
#include "storage/lease/withdraw.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/lease/prepare.h"
#include "storage/store/store_parts.h"

/* Replies of the scripts that withdraw. */
enum {
    WITHDRAWN_NOTHING,
    WITHDRAWN_GRANT,
    WITHDRAWN_NOT /* the lease holds: it was confirmed */
};

struct withdrawal {
    struct withdrawal *prev, *next;
    struct store *store;
    struct lease lease; /* its names are referred to */
    int64_t expires_ns; /* by then the lease has expired */
    enum withdraw_place place;
    bool in_flight;
};

static void forget(struct withdrawal *withdrawal)
{
    struct store *store = withdrawal->store;

    DL_DELETE(store->withdrawals, withdrawal);
    metrics_add(store->options.metrics, METRIC_PENDING_WITHDRAWALS, -1);
    lock_names_unref(withdrawal->lease.names);
    free(withdrawal);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct withdrawal *withdrawal = arg;
    struct store *store = withdrawal->store;

    withdrawal->in_flight = false;
    if (result->outcome == REDIS_DONE) {
        int64_t reply = value_integer(result->reply);
        if (reply == WITHDRAWN_GRANT)
            metrics_add(store->options.metrics, METRIC_WITHDRAWN_GRANTS, 1);
        /* A lease that was confirmed by its token alone has no other note in its session. */
        if (reply != WITHDRAWN_NOT)
            lease_unprepare(store, &withdrawal->lease);
        forget(withdrawal);
        return;
    }
    if (result->refusal == REDIS_REFUSED_WRONG_TYPE) {
        lease_unprepare(store, &withdrawal->lease);
        forget(withdrawal); /* the name is in use as another kind of object by now */
        return;
    }
    if (!timer_is_armed(&store->retry_withdrawals))
        timer_arm(loop_timers(store->options.loop), &store->retry_withdrawals,
                  loop_now_ns(store->options.loop) + REDIS_ASK_AGAIN_NS);
}

static void fill_lock(struct store_call *call, const struct withdrawal *withdrawal)
{
    const struct lease *lease = &withdrawal->lease;

    for (size_t i = 0; i < lease->names->count; i++) {
        struct key_base lock = call_object(call, lease->names->name[i]);
        size_t at = i * WITHDRAW_KEYS;
        call_key(call, at + WITHDRAW_KEY_LOCK, KEY_OBJECT, lock, NULL);
        call_key(call, at + WITHDRAW_KEY_RECORD, kind_row(lease->kind)->record, lock,
                 lease->id);
    }
    call_string(call, WITHDRAW_ARG_LEASE_ID, lease->id);
    call_string(call, WITHDRAW_ARG_ATTEMPT, lease->attempt);
    call_flag(call, WITHDRAW_ARG_UNREPEATABLE, lease->token == TOKEN_FRESH);
    call_flag(call, WITHDRAW_ARG_KEEP_PLACE, withdrawal->place == KEEP_PLACE);
    call_number(call, WITHDRAW_ARG_WINDOW_MS,
                withdrawal->store->options.config->retry_window_ms);
}

static void fill_permit(struct store_call *call, const struct withdrawal *withdrawal)
{
    const struct lease *lease = &withdrawal->lease;
    struct key_base semaphore = call_object(call, lease_name(lease));

    call_key(call, PERMIT_WITHDRAW_KEY_SEMAPHORE, KEY_OBJECT, semaphore, NULL);
    call_key(call, PERMIT_WITHDRAW_KEY_RECORD, KEY_LEASE, semaphore, lease->id);
    call_string(call, PERMIT_WITHDRAW_ARG_LEASE_ID, lease->id);
    call_string(call, PERMIT_WITHDRAW_ARG_ATTEMPT, lease->attempt);
}

static void fill_counter(struct store_call *call, const struct withdrawal *withdrawal)
{
    const struct lease *request = &withdrawal->lease;
    struct key_base counter = call_object(call, lease_name(request));

    call_key(call, COUNTER_WITHDRAW_KEY_SEMAPHORE, KEY_OBJECT, counter, NULL);
    call_key(call, COUNTER_WITHDRAW_KEY_IDEMPOTENCY, KEY_IDEMPOTENCY, counter, request->id);
    call_key(call, COUNTER_WITHDRAW_KEY_WAITERS, KEY_WAITERS, counter, NULL);
    call_string(call, COUNTER_WITHDRAW_ARG_ATTEMPT, request->attempt);
}

static void send(struct withdrawal *withdrawal)
{
    const struct kind_row *kind = kind_row(withdrawal->lease.kind);
    struct store_call *call = call_begin(withdrawal->store, kind->withdraw);

    switch (kind->family) {
    case FAMILY_LOCK:
    case FAMILY_SET:
        fill_lock(call, withdrawal);
        break;
    case FAMILY_PERMIT:
        fill_permit(call, withdrawal);
        break;
    case FAMILY_SEMAPHORE:
    case FAMILY_LATCH:
    case FAMILY_COUNT:
        fill_counter(call, withdrawal);
        break;
    }
    withdrawal->in_flight = true;
    call_send(call, on_reply, withdrawal);
}

void lease_withdraw(struct store *store, const struct lease *lease, enum withdraw_place place)
{
    struct withdrawal *withdrawal = calloc(1, sizeof(*withdrawal));

    assert(withdrawal != NULL);
    withdrawal->store = store;
    withdrawal->lease = *lease;
    lock_names_ref(withdrawal->lease.names);
    withdrawal->place = place;
    withdrawal->expires_ns = loop_now_ns(store->options.loop) +
                             (lease->ttl_ms + store->options.config->retry_window_ms) *
                                 CLOCK_NS_PER_MS;
    DL_APPEND(store->withdrawals, withdrawal);
    metrics_add(store->options.metrics, METRIC_PENDING_WITHDRAWALS, 1);
    send(withdrawal); /* when Redis is down: store_redis_is_up() does */
}

void withdrawals_retry(void *arg)
{
    struct store *store = arg;
    struct withdrawal *withdrawal, *next;
    int64_t now_ns = loop_now_ns(store->options.loop);

    DL_FOREACH_SAFE(store->withdrawals, withdrawal, next) {
        if (withdrawal->in_flight)
            continue;
        if (withdrawal->expires_ns < now_ns)
            forget(withdrawal);
        else
            send(withdrawal);
    }
}

size_t store_pending(const struct store *store)
{
    const struct withdrawal *withdrawal;
    size_t count;

    DL_COUNT(store->withdrawals, withdrawal, count);
    return count + unbindings_pending(store);
}

void withdrawals_release(struct store *store)
{
    struct withdrawal *withdrawal, *next;

    DL_FOREACH_SAFE(store->withdrawals, withdrawal, next) {
        forget(withdrawal);
    }
}
