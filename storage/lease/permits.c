/* Leases of one permit of a semaphore: Redisson's RPermitExpirableSemaphore. */
#include "storage/lease/send.h"

/* `count`: so many of the KEYS of permit_acquire.lua. */
static void fill_keys(struct store_call *call, const struct lease *lease, size_t count)
{
    struct key_base semaphore = call_object(call, lease_name(lease));

    call_key(call, PERMIT_ACQUIRE_KEY_SEMAPHORE, KEY_OBJECT, semaphore, NULL);
    call_key(call, PERMIT_ACQUIRE_KEY_TIMEOUTS, KEY_TIMEOUTS, semaphore, NULL);
    call_key(call, PERMIT_ACQUIRE_KEY_RECORD, KEY_LEASE, semaphore, lease->id);
    if (count > PERMIT_ACQUIRE_KEY_WAITERS)
        call_key(call, PERMIT_ACQUIRE_KEY_WAITERS, KEY_WAITERS, semaphore, NULL);
}

void permit_try(struct store *store, const struct lease *lease, const struct attempt *attempt,
                attempt_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->try);
    struct lease_record_text record;

    fill_keys(call, lease, PERMIT_ACQUIRE_KEYS);
    lease_request_fill(call, store, lease, attempt, &record);
    call_flag(call, PERMIT_ACQUIRE_ARG_WAITING, attempt->waiting);
    call_flag(call, PERMIT_ACQUIRE_ARG_REUSABLE, lease->reusable);
    lease_attempt_send(
        store, call,
        &(struct lease_try){.lease = lease, .attempt = attempt, .done = done, .arg = arg});
}

void permit_renew(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->renew);

    fill_keys(call, lease, PERMIT_RENEW_KEYS);
    lease_renewal_send(store, call, lease, done, arg);
}

void permit_release(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->release);

    fill_keys(call, lease, PERMIT_RELEASE_KEYS);
    call_string(call, PERMIT_RELEASE_ARG_LEASE_ID, lease->id);
    call_number(call, PERMIT_RELEASE_ARG_WINDOW_MS,
                lease->reusable ? 0 : store_config(store)->retry_window_ms);
    lease_call_send(store, call, lease, done, arg);
}
