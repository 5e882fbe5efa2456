/* Leases of locks, plain, fair, read or write: of one lock, or of a set of them. */
#include "storage/lease/send.h"

/* --- acquire ------------------------------------------------------------------------------ */

static void fill_acquire_keys(struct store_call *call, const struct lease *lease)
{
    for (size_t i = 0; i < lease->names->count; i++) {
        struct key_base lock = call_object(call, lease->names->name[i]);
        size_t at = i * ACQUIRE_KEYS;
        call_key(call, at + ACQUIRE_KEY_LOCK, KEY_OBJECT, lock, NULL);
        call_key(call, at + ACQUIRE_KEY_COUNTER, KEY_COUNTER, lock, NULL);
        call_key(call, at + ACQUIRE_KEY_QUEUE, KEY_QUEUE, lock, NULL);
        call_key(call, at + ACQUIRE_KEY_RECORD, kind_row(lease->kind)->record, lock, lease->id);
    }
}

static void fill_lost_ms(struct store_call *call, size_t at, const struct lease *lease)
{
    int64_t lost_ms = call_lost_ms(call, call_object(call, lease_name(lease)));

    if (lost_ms >= 0)
        call_number(call, at, lost_ms);
}

static family_try lock_confirm;

/* A request that is repeated takes two steps: lock_confirm() finds out about the lease that the
 * record says holds; if the record changed meanwhile, the first step follows again. */
static const struct lease_step steps[] = {
    {"recorded", lock_confirm}, {"again", lock_try}, {NULL, NULL}};

static void send_attempt(struct store *store, struct store_call *call,
                         const struct lease *lease, const struct attempt *attempt,
                         attempt_done *done, void *arg)
{
    lease_attempt_send(
        store, call,
        &(struct lease_try){
            .lease = lease, .attempt = attempt, .steps = steps, .done = done, .arg = arg});
}

void lock_try(struct store *store, const struct lease *lease, const struct attempt *attempt,
              attempt_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->try);
    struct lease_record_text record;

    fill_acquire_keys(call, lease);
    lease_request_fill(call, store, lease, attempt, &record);
    if (kind_row(lease->kind)->keeps_place)
        fill_lost_ms(call, FAIR_ACQUIRE_ARG_LOST_MS, lease);
    if (lease_is_set(lease) && attempt->blocking_index > 0)
        call_number(call, SET_ACQUIRE_ARG_BLOCKING, (int64_t)attempt->blocking_index);
    send_attempt(store, call, lease, attempt, done, arg);
}

/* --- confirm, renew, release, look -------------------------------------------------------- */

/* Fills in KEYS: per lock its name, the lease's record at `record`, and the fencing counter at
 * `counter` (0: none). Returns the first lock. */
static struct key_base fill_keys(struct store_call *call, const struct lease *lease,
                                 size_t stride, size_t record, size_t counter)
{
    struct key_base first = {0};

    for (size_t i = 0; i < lease->names->count; i++) {
        struct key_base lock = call_object(call, lease->names->name[i]);
        call_key(call, i * stride, KEY_OBJECT, lock, NULL);
        call_key(call, i * stride + record, kind_row(lease->kind)->record, lock, lease->id);
        if (counter > 0)
            call_key(call, i * stride + counter, KEY_COUNTER, lock, NULL);
        if (i == 0)
            first = lock;
    }
    return first;
}

static void lock_confirm(struct store *store, const struct lease *lease,
                         const struct attempt *attempt, attempt_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_LEASE_CONFIRM);

    fill_keys(call, lease, LEASE_CONFIRM_KEYS, LEASE_CONFIRM_KEY_RECORD,
              LEASE_CONFIRM_KEY_COUNTER);
    call_string(call, LEASE_CONFIRM_ARG_LEASE_ID, lease->id);
    call_number(call, LEASE_CONFIRM_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    call_string(call, LEASE_CONFIRM_ARG_KIND, kind_row(lease->kind)->name);
    call_string(call, LEASE_CONFIRM_ARG_OWNER, lease->owner);
    call_string(call, LEASE_CONFIRM_ARG_SESSION, lease->session_id);
    call_string(call, LEASE_CONFIRM_ARG_ATTEMPT, lease->attempt);
    call_flag(call, LEASE_CONFIRM_ARG_REGISTERED, attempt->registered);
    send_attempt(store, call, lease, attempt, done, arg);
}

void lock_renew(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->renew);

    fill_keys(call, lease, RENEW_KEYS, RENEW_KEY_RECORD, RENEW_KEY_COUNTER);
    lease_renewal_send(store, call, lease, done, arg);
}

void lock_release(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    struct store_call *call = call_begin(store, kind_row(lease->kind)->release);
    struct key_base lock = fill_keys(call, lease, RELEASE_KEYS, RELEASE_KEY_RECORD, 0);
    struct key channel;

    key_make(&channel, CHANNEL_LOCK, lock.text, lock.len, NULL);
    call_string(call, RELEASE_ARG_LEASE_ID, lease->id);
    call_text(call, RELEASE_ARG_CHANNEL, channel.text, channel.len);
    call_number(call, RELEASE_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    if (store_is_timed(store))
        call_flag(call, RELEASE_ARG_TIMED, true);
    lease_call_send(store, call, lease, done, arg);
}

void lock_claim(struct store *store, const struct lease *lease, lease_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_LEASE_CLAIM);

    fill_keys(call, lease, LEASE_CLAIM_KEYS, LEASE_CLAIM_KEY_RECORD, LEASE_CLAIM_KEY_COUNTER);
    call_string(call, LEASE_CLAIM_ARG_LEASE_ID, lease->id);
    call_number(call, LEASE_CLAIM_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    call_flag(call, LEASE_CLAIM_ARG_CLAIM, true);
    lease_call_send(store, call, lease, done, arg);
}
