/* The scripts that withdraw, by the family of the lease's kind, and their replies. */
#include "storage/lease/withdraw.h"

#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/lease/prepare.h"
#include "storage/notes/queues.h"
#include "storage/store/errand.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"

/* Replies of the scripts that withdraw. */
enum {
    WITHDRAWN_NOTHING,
    WITHDRAWN_GRANT,
    WITHDRAWN_NOT /* the lease holds: it was confirmed */
};

struct withdrawal {
    struct errand errand;
    struct lease lease; /* its names are referred to */
    enum withdraw_place place;
};

static void on_confirmed(void *arg, const struct redis_result *result)
{
    struct withdrawal *withdrawal = arg;
    struct store *store = withdrawal->errand.store;
    int64_t reply = WITHDRAWN_NOTHING; /* the name may be in use as another kind of object */

    if (result->outcome == REDIS_DONE)
        reply = value_integer(result->reply);
    if (reply == WITHDRAWN_GRANT)
        metrics_add(store_metrics(store), METRIC_WITHDRAWN_GRANTS, 1);
    /* The attempts of the place may have had no reply. */
    if (withdrawal->place == KEEP_PLACE)
        queue_has_place(store, lease_name(&withdrawal->lease));
    /* A lease that was confirmed by its token alone has no other note in its session. */
    if (reply != WITHDRAWN_NOT)
        lease_unprepare(store, &withdrawal->lease);
}

static void on_end(void *arg)
{
    struct withdrawal *withdrawal = arg;

    metrics_add(store_metrics(withdrawal->errand.store), METRIC_PENDING_WITHDRAWALS, -1);
    lock_names_unref(withdrawal->lease.names);
    free(withdrawal);
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
                store_config(withdrawal->errand.store)->retry_window_ms);
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
    call_key(call, COUNTER_WITHDRAW_KEY_DELETED, KEY_DELETED, counter, NULL);
    call_string(call, COUNTER_WITHDRAW_ARG_ATTEMPT, request->attempt);
}

static struct store_call *fill(struct store *store, void *arg)
{
    const struct withdrawal *withdrawal = arg;
    const struct kind_row *kind = kind_row(withdrawal->lease.kind);
    struct store_call *call = call_begin(store, kind->withdraw);

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
    return call;
}

static const struct errand_job withdraw_job = {
    .rank = ERRAND_FREES, .fill = fill, .confirmed = on_confirmed, .end = on_end};

void lease_withdraw(struct store *store, const struct lease *lease, enum withdraw_place place)
{
    struct withdrawal *withdrawal = calloc(1, sizeof(*withdrawal));
    /* In the end the lease has expired, unless another front end's watchdog renews it. */
    int64_t ttl_ns = (lease->ttl_ms + store_config(store)->retry_window_ms) * CLOCK_NS_PER_MS;

    assert(withdrawal != NULL);
    withdrawal->lease = *lease;
    lock_names_ref(withdrawal->lease.names);
    withdrawal->place = place;
    metrics_add(store_metrics(store), METRIC_PENDING_WITHDRAWALS, 1);
    errand_start(store, &withdrawal->errand, &withdraw_job, withdrawal,
                 lease->watchdog ? INT64_MAX : ttl_ns);
}
