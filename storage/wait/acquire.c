/* Acquisitions, each a state machine. */
#include "storage/wait/acquire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/look/locks.h"
#include "storage/store/key.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/neighbours.h"

/* How long a waiter sleeps after Redis refused its attempt (loading, busy, a replica). A new
 * connection wakes every waiter before that. */
#define REFUSED_SLEEP_MS (REDIS_ASK_AGAIN_NS / CLOCK_NS_PER_MS)
/* A note of an attempt stays in the lease's session for longer than this whatever the lock's
 * home says (UNDER_WAY_MS in session_settle.lua). Before an attempt that would be sent later
 * than the second time, there is another note. */
#define NOTE_NS (9 * CLOCK_NS_PER_S)
#define NOTE_SENT_NS (5 * CLOCK_NS_PER_S)

static void on_tried(void *arg, const struct attempt_result *result);
static void on_prepared(void *arg, const struct preparation *preparation);
static void begin_wait(struct acquisition *acquisition, int64_t remaining_ms);
static void stay(struct acquisition *acquisition, int64_t sleep_ms);

/* Writes the name in Redis of the object that the request waits for: of a set, the lock that
 * blocked the last attempt. Returns its length. */
static size_t waited_name(const struct acquisition *acquisition,
                          char name[static KEY_NAME_MAX + 1])
{
    const struct lock_names *names = acquisition->lease->names;
    size_t index = acquisition->attempt.blocking_index;
    size_t i = index > 0 && index <= names->count ? index - 1 : 0;

    return store_key_name(acquisition->acquirer->options.store, names->name[i], name,
                          KEY_NAME_MAX + 1);
}

static bool is_full(const struct acquirer *acquirer)
{
    return acquirer->options.slots->used >= acquirer->options.slots->limit;
}

/* --- attempts ----------------------------------------------------------------------------- */

static void send_attempt(struct acquisition *acquisition, enum acquisition_state state,
                         int64_t wait_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;

    if (acquisition->deferred)
        acquisition_end_deferral(acquisition);
    acquisition->attempted = true;
    acquisition->waiter.trying = true;
    acquisition_enter(acquisition, state);
    acquisition->attempt.wait_ms = wait_ms;
    acquisition->attempt.waiting = waiter_is_waiting(&acquisition->waiter);
    acquisition->generation = waiters_generation(acquirer->options.waiters);
    acquisition->lease_generation = waiters_lease_generation(acquirer->options.waiters);
    if (acquisition->waiter.asked_ns == 0)
        acquisition->waiter.asked_ns = loop_now_ns(acquirer->options.loop);
    attempt_send(acquirer->options.store, acquisition->lease, &acquisition->attempt, on_tried,
                 acquisition);
}

static void prepare(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;
    int64_t left_ms = acquisition_left_ms(acquisition);

    acquisition->waiter.trying = true;
    acquisition_enter(acquisition, PREPARING);
    acquisition->is_note_in_doubt = false;
    acquisition->asked_ns = loop_now_ns(acquirer->options.loop);
    lease_prepare(acquirer->options.store, acquisition->lease, left_ms > 0 ? left_ms : 0,
                  on_prepared, acquisition);
}

/* Whether the note of the attempt may be gone, because this worker stood still, or attempts are
 * held back. A note is safe for `life_ns` from its preparation on; that of a request that
 * waits, and of which the lock's home knows, from its deadline on. */
static bool is_note_stale(const struct acquisition *acquisition, int64_t now_ns,
                          int64_t life_ns)
{
    bool is_known = acquisition->attempt.registered && !acquisition->is_unwritten;
    int64_t since_ns = is_known ? acquisition->deadline_ns : acquisition->asked_ns;

    if (since_ns < acquisition->asked_ns)
        since_ns = acquisition->asked_ns;
    return now_ns - since_ns > life_ns;
}

bool acquisition_must_prepare(const struct acquisition *acquisition)
{
    if (!lease_needs_preparation(acquisition->lease))
        return false;
    return !acquisition->prepared || acquisition->is_note_in_doubt ||
           is_note_stale(acquisition, loop_now_ns(acquisition->acquirer->options.loop),
                         NOTE_SENT_NS);
}

/* Waits without an attempt, if a release is likely to grant the lock to this request. False:
 * the request has to try. */
static bool defer(struct acquisition *acquisition)
{
    struct waiters *waiters = acquisition->acquirer->options.waiters;
    int64_t taken_ms = acquisition_deferrable_ms(acquisition);

    if (taken_ms == 0 || !acquisition->may_wait(acquisition->arg))
        return false;
    acquisition->deferred = true;
    acquisition->generation = waiters_generation(waiters);
    acquisition->lease_generation = waiters_lease_generation(waiters);
    begin_wait(acquisition, taken_ms);
    return true;
}

void acquisition_try(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;
    int64_t left_ms = acquisition_left_ms(acquisition);

    if (acquisition_must_prepare(acquisition))
        prepare(acquisition);
    else if (left_ms <= 0)
        send_attempt(acquisition, LAST_ATTEMPT, 0);
    else if (acquisition->wait_began_ns != 0)
        send_attempt(acquisition, RETRYING, left_ms);
    else if (is_full(acquirer))
        send_attempt(acquisition, TRYING_FULL, 0);
    else if (!defer(acquisition))
        send_attempt(acquisition, TRYING, left_ms);
}

/* --- the lease's session ------------------------------------------------------------------ */

/* Redis did not answer for the session, so a request that waits sleeps on, and is noted anew.
 */
static void end_unprepared(struct acquisition *acquisition,
                           const struct preparation *preparation)
{
    enum try_outcome outcome = preparation->outcome;
    bool waits = acquisition->wait_began_ns != 0 && acquisition_left_ms(acquisition) > 0;

    if (outcome == TRY_REFUSED)
        acquisition->prepared = false;
    if (outcome == TRY_UNKNOWN)
        acquisition->prepared = true; /* it may be, and is taken back at the end */
    if (outcome != TRY_REFUSED && waits && !acquisition->acquirer->draining) {
        acquisition->is_note_in_doubt = true;
        acquisition->waiter.rests = true;
        stay(acquisition, REFUSED_SLEEP_MS);
    } else if (outcome == TRY_NOT_EXECUTED && acquisition_is_in_doubt(acquisition)) {
        acquisition_finish_as(acquisition, TRY_UNKNOWN); /* for an attempt before this */
    } else {
        acquisition_finish_refused(acquisition, outcome, preparation->lease);
    }
}

/* The lock's home says that a session's end has spent the lease, but not which session's. */
static void finish_spent(struct acquisition *acquisition)
{
    static const struct lease_result spent = {
        .outcome = LEASE_ENDED, .remaining_ms = -1, .reason = "session-ended"};

    acquisition_finish_refused(acquisition, TRY_REFUSED, &spent);
}

static void on_prepared(void *arg, const struct preparation *preparation)
{
    struct acquisition *acquisition = arg;

    if (acquisition->state == ORPHANED) {
        if (preparation->outcome == TRY_GRANTED || preparation->outcome == TRY_UNKNOWN)
            lease_unprepare(acquisition->acquirer->options.store, acquisition->orphan);
        acquisition_end_orphan(acquisition, false);
        return;
    }
    acquisition->waiter.trying = false;
    if (preparation->outcome != TRY_GRANTED) {
        end_unprepared(acquisition, preparation);
        return;
    }
    acquisition->prepared = true;
    snprintf(acquisition->attempt.session_name, sizeof(acquisition->attempt.session_name), "%s",
             preparation->session_name);
    if (acquisition->session_is_asked)
        finish_spent(acquisition);
    else
        acquisition_try(acquisition);
}

static bool is_spent_by_session(const struct acquisition *acquisition,
                                const struct attempt_result *result)
{
    return acquisition->lease->session_id[0] != '\0' && /* so it is no counter */
           result->lease->outcome == LEASE_ENDED &&
           strcmp(result->lease->reason, "session-ended") == 0;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* The wait begins: joins the queue of an object that is busy for so long (negative: unknown).
 */
static void begin_wait(struct acquisition *acquisition, int64_t remaining_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    int64_t now_ns = loop_now_ns(acquirer->options.loop);
    char name[KEY_NAME_MAX + 1];
    size_t len = waited_name(acquisition, name);

    acquisition->wait_began_ns = now_ns;
    acquisition_enter(acquisition, SLEEPING);
    acquirer->options.slots->used++;
    metrics_add(acquirer->options.metrics, METRIC_WAITS_STARTED, 1);
    acquisition_arm(acquisition);
    waiter_join(acquirer->options.waiters, &acquisition->waiter, name, len,
                acquisition->generation, remaining_ms);
    if (acquisition->lease_generation != waiters_lease_generation(acquirer->options.waiters) &&
        !acquisition->waiter.trying)
        acquisition_try(acquisition);
}

/* Sleeps on, of a set in the queue of the lock that blocks it now. */
static void stay(struct acquisition *acquisition, int64_t sleep_ms)
{
    struct waiters *waiters = acquisition->acquirer->options.waiters;
    char name[KEY_NAME_MAX + 1];
    size_t len = waited_name(acquisition, name);

    acquisition_enter(acquisition, SLEEPING);
    waiter_move(waiters, &acquisition->waiter, name, len, acquisition->generation, sleep_ms);
}

/* An attempt found the object busy, or did not reach Redis: waits, unless the time is up. */
static void wait_on(struct acquisition *acquisition, const struct attempt_result *result,
                    int64_t sleep_ms)
{
    struct acquirer *acquirer = acquisition->acquirer;
    bool in_time = acquisition->deadline_ns > loop_now_ns(acquirer->options.loop);
    bool wants_to_wait = acquisition->state != LAST_ATTEMPT && in_time;

    if (!wants_to_wait && acquisition_is_in_doubt(acquisition) &&
        result->outcome == TRY_NOT_EXECUTED) {
        acquisition_finish_as(acquisition, TRY_UNKNOWN);
    } else if (!wants_to_wait) {
        acquisition_finish_with(acquisition, result);
    } else if (acquirer->draining) {
        acquisition_finish_draining(acquisition);
    } else if (acquisition->state == RETRYING || acquisition->state == CHOSEN) {
        stay(acquisition, sleep_ms);
    } else if (acquisition->state == TRYING_FULL || is_full(acquirer)) {
        metrics_add(acquirer->options.metrics, METRIC_REFUSED_WAITERS, 1);
        acquisition_finish_as(acquisition, TRY_TOO_MANY_WAITERS);
    } else if (!acquisition->may_wait(acquisition->arg)) {
        acquisition_finish_as(acquisition, TRY_MAY_NOT_WAIT);
    } else {
        begin_wait(acquisition, sleep_ms);
    }
}

/* A reply that came so late that the lease may be over is no grant: its holder would work
 * without the lock. Nor is one without a note: the lease would be renewed by nobody, and last
 * beyond its session. */
static void take(struct acquisition *acquisition, const struct attempt_result *result,
                 bool has_note)
{
    if (result->remaining_ms != 0 && has_note) { /* negative: an operator took its TTL away */
        acquisition_finish_with(acquisition, result);
        return;
    }
    acquisition->uncertain = true;
    acquisition_finish_as(acquisition, TRY_UNKNOWN);
}

/* Whether an attempt did something, or may have. */
static bool may_have_done(const struct attempt_result *result)
{
    return result->outcome == TRY_GRANTED || result->outcome == TRY_BUSY ||
           result->outcome == TRY_UNKNOWN;
}

void acquisition_tried(struct acquisition *acquisition, const struct attempt_result *result)
{
    if (acquisition->state == ORPHANED) {
        acquisition_end_orphan(acquisition, may_have_done(result));
        return;
    }
    /* By the clock and not the loop's: the worker may have stood still within this turn. */
    bool has_note = !lease_needs_preparation(acquisition->lease) ||
                    !is_note_stale(acquisition, clock_ns(), NOTE_NS);
    acquisition->waiter.trying = false;
    acquisition->is_unwritten = result->outcome == TRY_NOT_EXECUTED ||
                                result->outcome == TRY_UNKNOWN;
    switch (result->outcome) {
    case TRY_GRANTED:
    case TRY_CONFIRMED:
        take(acquisition, result, has_note);
        return;
    case TRY_BUSY:
        acquisition->attempt.registered |= acquisition->attempt.wait_ms > 0;
        acquisition->attempt.blocking_index = result->blocking_index;
        wait_on(acquisition, result, result->remaining_ms);
        return;
    case TRY_NOT_EXECUTED:
    case TRY_UNKNOWN:
        acquisition->uncertain |= result->outcome == TRY_UNKNOWN;
        if (acquisition->wait_began_ns != 0)
            wait_on(acquisition, result, REFUSED_SLEEP_MS);
        else
            acquisition_finish_with(acquisition, result);
        return;
    case TRY_REFUSED:
        acquisition->session_is_asked = is_spent_by_session(acquisition, result);
        if (acquisition->session_is_asked)
            prepare(acquisition);
        else
            acquisition_finish_with(acquisition, result);
        return;
    case TRY_TOO_MANY_WAITERS:
    case TRY_MAY_NOT_WAIT:
    case TRY_DEADLOCK:
    case TRY_DRAINING:
        break;
    }
    assert(false); /* no attempt ends so */
}

static void on_tried(void *arg, const struct attempt_result *result)
{
    acquisition_tried(arg, result);
}

static void on_looked(void *arg, int64_t ttl_ms)
{
    struct acquisition *acquisition = arg;

    if (acquisition->state == ORPHANED) {
        acquisition_end_orphan(acquisition, false);
        return;
    }
    acquisition->waiter.trying = false;
    if (ttl_ms <= LOCK_TTL_FREE)
        waiter_was_called(&acquisition->waiter);
    if (ttl_ms > LOCK_TTL_FREE && acquisition_left_ms(acquisition) > 0)
        stay(acquisition, ttl_ms);
    else
        acquisition_try(acquisition);
}

/* Asks by one command how long the lock is held, which is how long to sleep. An attempt would
 * be refused while the lock is held, and the place in the queue needs no refreshing yet. */
static void look(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;

    acquisition->waiter.trying = true;
    acquisition_enter(acquisition, LOOKING);
    lock_ttl(acquirer->options.store, lease_name(acquisition->lease), on_looked, acquisition);
}

static void on_try_now(void *arg)
{
    struct acquisition *acquisition = arg;
    bool may_look = acquisition->waiter.may_look && acquisition->lease->owner[0] == '\0' &&
                    acquisition_left_ms(acquisition) > 0;

    acquisition->waiter.may_look = false;
    if (may_look)
        look(acquisition);
    else
        acquisition_try(acquisition);
}

static void on_timer(void *arg)
{
    struct acquisition *acquisition = arg;

    if (acquisition_becomes_long(acquisition))
        return;
    if (acquisition_is_overdue(acquisition)) {
        acquisition_finish_overdue(acquisition);
        return;
    }
    if (acquisition->deferred)
        acquisition_end_deferral(acquisition);
    else
        acquisition_arm_last(acquisition);
    /* One more attempt, which also takes the request off the list of waiters and learns what
     * blocks it; an attempt under way is the last one. A release under way may still grant. */
    if (acquisition->state == SLEEPING)
        acquisition_try(acquisition);
    else if (acquisition->state == RETRYING)
        acquisition_enter(acquisition, LAST_ATTEMPT);
}

struct acquisition *acquire_start(struct acquirer *acquirer, const struct lease *lease,
                                  int64_t deadline_ns, bool (*may_wait)(void *arg),
                                  acquire_done *done, void *arg)
{
    struct acquisition *acquisition = pool_take(&acquirer->pool);
    const struct kind_row *kind = kind_row(lease->kind);

    assert(acquisition != NULL);
    *acquisition = (struct acquisition){
        .acquirer = acquirer,
        .lease = lease,
        .state = STARTING,
        .waiter = {.lease_id = lease->id,
                   .kind = kind->wait,
                   .wants = kind->wants != 0 ? kind->wants : lease->permits,
                   .try_now = on_try_now,
                   .arg = acquisition},
        .deadline = {.fire = on_timer, .arg = acquisition},
        .deadline_ns = deadline_ns,
        .may_wait = may_wait,
        .done = done,
        .arg = arg,
    };
    DL_APPEND(acquirer->acquisitions, acquisition);
    if (lease->session_id[0] != '\0') {
        acquisition->session_list = &acquirer->of_sessions[session_list(lease->session_id)];
        DL_APPEND2(*acquisition->session_list, acquisition, session_prev, session_next);
    }
    if (lease_needs_preparation(lease) || lease->token != TOKEN_FRESH)
        acquisition_arm_last(acquisition); /* its first attempt may take several calls */
    acquisition_try(acquisition);
    return acquisition;
}

void acquire_cancel(struct acquisition *acquisition)
{
    struct acquirer *acquirer = acquisition->acquirer;

    if (acquisition->wait_began_ns != 0)
        metrics_add(acquirer->options.metrics, METRIC_WAITERS_GONE, 1);
    /* Redis runs the withdrawal after the attempt under way, and before any attempt of the next
     * waiter. Without an attempt there is nothing to withdraw: on_prepared() ends a preparation
     * under way. */
    if (acquisition->attempted)
        lease_withdraw(acquirer->options.store, acquisition->lease, WITHDRAW_PLACE);
    free(acquisition_end_long_wait(acquisition, false));
    acquisition_end(acquisition, false, -1);
}

/* --- acquirers ---------------------------------------------------------------------------- */

void acquirer_doubt_notes(struct acquirer *acquirer)
{
    struct acquisition *acquisition;

    DL_FOREACH(acquirer->acquisitions, acquisition) {
        acquisition->is_note_in_doubt = true;
    }
}

void acquirer_redis_is_up(struct acquirer *acquirer)
{
    acquirer_doubt_notes(acquirer);
    waiters_wake_all(acquirer->options.waiters);
}

void acquirer_session_changed(struct acquirer *acquirer, const char *session_id,
                              const struct owner_grant *grant)
{
    struct acquisition **list = &acquirer->of_sessions[session_list(session_id)];
    struct acquisition *acquisition, *next;
    char name[KEY_NAME_MAX + 1];

    waiters_lease_changed(acquirer->options.waiters);
    DL_FOREACH_SAFE2(*list, acquisition, next, session_next)
    {
        const struct lease *lease = acquisition->lease;
        if (acquisition->wait_began_ns == 0 || strcmp(lease->session_id, session_id) != 0 ||
            (grant != NULL && strcmp(lease->owner, grant->owner) != 0))
            continue;
        size_t len = waited_name(acquisition, name);
        if (grant == NULL || (len == grant->len && memcmp(name, grant->name, len) == 0))
            waiters_retry_lease(acquirer->options.waiters, name, len, lease->id);
    }
}

struct acquirer *acquirer_new(const struct acquirer_options *options)
{
    struct acquirer *acquirer = calloc(1, sizeof(*acquirer));

    if (acquirer == NULL)
        return NULL;
    acquirer->options = *options;
    if (options->neighbour != NULL)
        options->neighbour->acquirer = acquirer;
    pool_init(&acquirer->pool, sizeof(struct acquisition));
    return acquirer;
}

void acquirer_free(struct acquirer *acquirer)
{
    assert(acquirer->acquisitions == NULL);
    pool_release(&acquirer->pool);
    free(acquirer);
}
