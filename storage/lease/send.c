/* Sends scripts about one lease, and reports their results to the lease's session. */
#include "storage/lease/send.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/pool.h"
#include "server/base/text.h"
#include "storage/notes/bind.h"
#include "storage/notes/queues.h"
#include "storage/notes/set_names.h"
#include "storage/store/reply_word.h"
#include "storage/store/visits.h"

struct lease_call {
    struct store *store;
    struct pool *pool; /* that the call is given back to */
    lease_done *done;
    attempt_done *tried; /* instead of `done` */
    void *arg;
    bool is_renewal;
    struct lease lease;     /* that was asked for; its names are referred to */
    struct attempt attempt; /* of `tried` */
    const struct lease_step *steps;
};

/* --- results for a request that waits ----------------------------------------------------- */

enum try_outcome try_outcome_of_failure(enum call_outcome failure)
{
    if (call_is_unknown(failure))
        return TRY_UNKNOWN;
    return failure == CALL_NOT_EXECUTED || failure == CALL_OUT_OF_MEMORY ||
                   failure == CALL_QUARANTINE
               ? TRY_NOT_EXECUTED
               : TRY_REFUSED;
}

static enum try_outcome try_outcome_of(const struct lease_result *result)
{
    switch (result->outcome) {
    case LEASE_GRANTED:
        return TRY_GRANTED;
    case LEASE_HELD:
        return TRY_CONFIRMED;
    case LEASE_BUSY:
        return TRY_BUSY;
    case LEASE_FAILED:
        return try_outcome_of_failure(result->failure);
    case LEASE_RELEASED:
    case LEASE_ENDED:
    case LEASE_SESSION_ENDED:
    case LEASE_SESSION_FULL:
    case LEASE_REUSED:
    case LEASE_WRONG_KIND:
    case LEASE_UPGRADE:
    case LEASE_TOO_MANY:
    case LEASE_MANY_READS:
        break;
    }
    return TRY_REFUSED;
}

int64_t lease_none_left_ms(const struct lease_result *result)
{
    if (result->outcome != LEASE_GRANTED || result->available > 0)
        return 0;
    return result->next_end_ms >= 0 ? result->next_end_ms : INT64_MAX;
}

static void call_free(struct lease_call *call)
{
    lock_names_unref(call->lease.names);
    pool_give(call->pool, call);
}

static void finish(struct lease_call *call, const struct lease_result *result)
{
    if (call->tried != NULL) {
        const struct attempt_result attempt = {.outcome = try_outcome_of(result),
                                               .remaining_ms = result->remaining_ms,
                                               .blocking_index = result->blocking_index,
                                               .none_left_ms = lease_none_left_ms(result),
                                               .lease = result};
        call->tried(call->arg, &attempt);
    } else {
        call->done(call->arg, result);
    }
    call_free(call);
}

/* --- the lease's session ------------------------------------------------------------------ */

/* A lease that holds, before its request is answered: its session is asked whether it is open.
 */
struct session_check {
    struct lease_call *call;
    struct lease_reading reading;
    struct lease_ref ref; /* of the lease, if its session is not open */
};

static struct session_check *check_new(struct lease_call *call,
                                       const struct lease_reading *reading)
{
    struct session_check *check = calloc(1, sizeof(*check));

    assert(check != NULL);
    check->call = call;
    lease_reading_copy(&check->reading, reading);
    return check;
}

static void finish_check(struct session_check *check)
{
    finish(check->call, &check->reading.result);
    lease_ref_release(&check->ref);
    free(check);
}

/* The same request again will find out. The lock's home has granted or renewed the lease, so no
 * later refusal means that nothing was changed. */
static void fail_check(struct session_check *check, enum call_outcome failure)
{
    struct lease_result *result = &check->reading.result;
    bool has_changed = check->call->is_renewal || result->outcome == LEASE_GRANTED;

    if (has_changed && !call_is_unknown(failure))
        failure = CALL_UNKNOWN;
    *result = (struct lease_result){
        .outcome = LEASE_FAILED, .failure = failure, .remaining_ms = -1};
}

static void on_lease_ended(void *arg, size_t i, const struct redis_result *result)
{
    struct session_check *check = arg;
    const struct lease *lease = &check->call->lease;

    (void)i;
    if (result->outcome != REDIS_DONE)
        fail_check(check, call_outcome_of(result));
    else if (lease_is_set(lease))
        set_names_end(check->call->store, lease->id);
}

static void on_end_tried(void *arg)
{
    finish_check(arg);
}

/* The lease has to end with its session. The end of the session may never come to the lease:
 * where Redis has lost the session, nobody else knows of both. */
static void end_lease(struct session_check *check)
{
    struct store *store = check->call->store;
    const struct lease_visit_job job = lease_end_job(
        store, VISIT_DUTIES, check->reading.record.session_id, "session-ended");

    lease_ref_make(&check->ref, store_config(store)->key_prefix, &check->call->lease);
    if (!lease_visits_start(store, &job, &check->ref, 1, NULL, on_lease_ended, on_end_tried,
                            check))
        finish_check(check);
}

static void on_settled(void *arg, const struct session_binding *binding)
{
    struct session_check *check = arg;
    struct lease_result *result = &check->reading.result;

    switch (binding->outcome) {
    case SESSION_BOUND:
    case SESSION_BIND_FULL:
        break;
    case SESSION_BIND_ENDED:
        *result = (struct lease_result){.outcome = LEASE_SESSION_ENDED, .remaining_ms = -1};
        memcpy(result->reason, binding->reason, sizeof(result->reason));
        end_lease(check);
        return;
    case SESSION_BIND_FAILED:
        fail_check(check, binding->failure);
        break;
    }
    finish_check(check);
}

/* The request may have come without the session's token, and the session may have ended: the
 * lease's home does not know. A lease that was confirmed only is due for the watchdog at once,
 * which changes nothing about when it is renewed. */
static void check_session(struct session_check *check)
{
    const struct lease_call *call = check->call;
    const struct lease_record *record = &check->reading.record;
    bool is_renewed = call->is_renewal && record->watchdog;
    const struct session_report report = {
        .verdict = is_renewed ? SESSION_LEASE_RENEWED : SESSION_LEASE_LATER,
        .ms = call->is_renewal ? session_visit_ms(call->store, record->kind, call->lease.ttl_ms)
                               : 0,
        .kind = record->kind};

    session_settle(call->store, record->session_id, &call->lease, &report, on_settled, check);
}

/* Whether the lease holds and its session was not asked before the grant. */
static bool needs_check(const struct lease_call *call, const struct lease_reading *reading)
{
    bool is_by_token = call->is_renewal ||
                       (call->tried != NULL && call->lease.session_id[0] == '\0');

    return is_by_token && reading->result.outcome == LEASE_HELD &&
           reading->record.session_id[0] != '\0';
}

/* --- the names of a set ------------------------------------------------------------------- */

static void on_names_kept(void *arg, const struct set_names *names)
{
    struct session_check *check = arg;

    if (names->outcome == SET_NAMES_FAILED)
        fail_check(check, names->failure);
    if (needs_check(check->call, &check->reading))
        check_session(check);
    else
        finish_check(check);
}

/* Whether the lease holds, and its names last less long. */
static bool needs_names(const struct lease_call *call, const struct lease_result *result)
{
    return (call->tried != NULL || call->is_renewal) && set_names_are_short(&call->lease) &&
           (result->outcome == LEASE_GRANTED || result->outcome == LEASE_HELD);
}

/* --- replies ------------------------------------------------------------------------------ */

static void report_to_session(struct lease_call *call, const struct lease_reading *reading)
{
    const struct lease_result *result = &reading->result;
    const struct session_report lost = {
        .verdict = SESSION_LEASE_LOST, .reason = result->reason, .kind = reading->record.kind};

    if (result->session_id[0] == '\0')
        return;
    if (result->outcome == LEASE_RELEASED)
        session_unbind(call->store, result->session_id, &call->lease, NULL);
    else
        session_settle(call->store, result->session_id, &call->lease, &lost, NULL, NULL);
}

/* Whether the attempt has taken a place in the queue of a fair lock, or kept the place. */
static bool has_place(const struct lease_call *call, const struct lease_result *result)
{
    return result->outcome == LEASE_BUSY && call->tried != NULL && call->attempt.wait_ms > 0 &&
           kind_row(call->lease.kind)->keeps_place;
}

/* The function that sends the next script of the attempt, where the reply names one; NULL: the
 * reply is the result of the attempt. */
static family_try *next_step(const struct lease_call *call, const struct redis_result *result)
{
    const struct lease_step *step = call->steps;

    if (step == NULL || result->outcome != REDIS_DONE)
        return NULL;
    const char *word = reply_word(result->reply);
    while (step->word != NULL && strcmp(step->word, word) != 0)
        step++;
    return step->try;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct lease_call *call = arg;
    struct lease_reading reading;
    family_try *step = next_step(call, result);

    if (step != NULL) {
        step(call->store, &call->lease, &call->attempt, call->tried, call->arg);
        call_free(call);
        return;
    }
    lease_reading_read(&reading, call->store, &call->lease, call->tried != NULL, result);
    report_to_session(call, &reading);
    if (reading.result.outcome == LEASE_RELEASED && lease_is_set(&call->lease))
        set_names_end(call->store, call->lease.id);
    if (has_place(call, &reading.result))
        queue_has_place(call->store, lease_name(&call->lease));
    if (needs_names(call, &reading.result))
        set_names_hold(call->store, &call->lease, on_names_kept, check_new(call, &reading));
    else if (needs_check(call, &reading))
        check_session(check_new(call, &reading));
    else
        finish(call, &reading.result);
}

/* --- sending ------------------------------------------------------------------------------ */

static void calls_init(void *part, struct store *store)
{
    (void)store;
    pool_init(part, sizeof(struct lease_call));
}

static void calls_release(void *part)
{
    pool_release(part);
}

static const struct store_part calls = {
    .size = sizeof(struct pool), .init = calls_init, .release = calls_release};

static struct lease_call *call_new(struct store *store, const struct lease *lease, void *arg)
{
    struct pool *pool = store_part(store, &calls);
    struct lease_call *call = pool_take(pool);

    assert(call != NULL);
    call->store = store;
    call->pool = pool;
    call->done = NULL;
    call->tried = NULL;
    call->arg = arg;
    call->is_renewal = false;
    call->lease = *lease;
    call->steps = NULL;
    lock_names_ref(call->lease.names);
    return call;
}

void lease_call_send(struct store *store, struct store_call *call, const struct lease *lease,
                     lease_done *done, void *arg)
{
    struct lease_call *lease_call = call_new(store, lease, arg);

    lease_call->done = done;
    call_send(call, on_reply, lease_call);
}

void lease_renewal_send(struct store *store, struct store_call *call, const struct lease *lease,
                        lease_done *done, void *arg)
{
    struct lease_call *lease_call = call_new(store, lease, arg);

    call_string(call, RENEW_ARG_LEASE_ID, lease->id);
    call_number(call, RENEW_ARG_TTL_MS, lease->ttl_ms);
    call_number(call, RENEW_ARG_WINDOW_MS, store_config(store)->retry_window_ms);
    call_flag(call, RENEW_ARG_WATCHDOG, lease->watchdog);
    lease_call->done = done;
    lease_call->is_renewal = true;
    call_send(call, on_reply, lease_call);
}

void lease_attempt_send(struct store *store, struct store_call *call,
                        const struct lease_try *asked)
{
    struct lease_call *lease_call = call_new(store, asked->lease, asked->arg);

    lease_call->tried = asked->done;
    lease_call->attempt = *asked->attempt;
    lease_call->steps = asked->steps;
    call_send(call, on_reply, lease_call);
}

/* --- the ARGV of the scripts that acquire --------------------------------------------------
 */

int64_t lease_fencing_ttl_ms(const struct store *store, int64_t keep_ms)
{
    const struct config *config = store_config(store);

    if (config->fencing_ttl_ms == 0)
        return 0; /* for ever */
    return config->fencing_ttl_ms > keep_ms ? config->fencing_ttl_ms : keep_ms;
}

/* Arguments that are as usual are not sent at the end: each costs Redis a few per cent of the
 * whole request. */
void lease_request_fill(struct store_call *call, const struct store *store,
                        const struct lease *lease, const struct attempt *attempt,
                        struct lease_record_text *record)
{
    static const char *const modes[] = {
        [TOKEN_FRESH] = "fresh", [TOKEN_RECORDED] = "recorded", [TOKEN_RETURNED] = "returned"};
    int64_t keep_ms = lease->ttl_ms + store_config(store)->retry_window_ms;
    /* -1: and no client has the token to ask again. */
    int64_t wait_ms = attempt->wait_ms == 0 && lease->unrepeatable ? -1 : attempt->wait_ms;

    lease_record_write(record, lease, attempt->session_name);
    call_string(call, ACQUIRE_ARG_LEASE_ID, lease->id);
    call_number(call, ACQUIRE_ARG_TTL_MS, lease->ttl_ms);
    call_text(call, ACQUIRE_ARG_RECORD_TEXT, record->text, record->len);
    call_number(call, ACQUIRE_ARG_KEEP_MS, keep_ms);
    call_number(call, ACQUIRE_ARG_FENCING_TTL_MS, lease_fencing_ttl_ms(store, keep_ms));
    if (wait_ms != 0)
        call_number(call, ACQUIRE_ARG_WAIT_MS, wait_ms);
    if (lease->token != TOKEN_RECORDED)
        call_string(call, ACQUIRE_ARG_MODE, modes[lease->token]);
    call_flag(call, ACQUIRE_ARG_REGISTERED, attempt->registered);
}
