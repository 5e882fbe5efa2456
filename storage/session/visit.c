/* The steps of a visit: the leases that are due, their renewals, the report. */
#include "storage/session/visit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/visits.h"
#include "storage/session/session_internal.h"
#include "storage/notes/set_names.h"
#include "storage/store/reply_word.h"

enum {
    /* The largest number of batches in one visit, more than a session's leases need: after them
     * other sessions come first. */
    BATCHES_MAX = 20,
    /* Until a lease is looked at again whose home could not be asked. */
    RETRY_MS = 1000,
    LATE_MAX_MS = 86400000 /* a later renewal is no measure of the watchdog */
};

/* The entry of a lease that is due, as the home of its session keeps the entry. */
struct due_lease {
    int64_t late_ms;
    bool is_marked; /* it was renewed before, and its note says so */
};

struct visit_call {
    struct store *store;
    visit_done *done;
    void *arg;
    char session_id[SESSION_ID_SIZE];
    char claim[VISIT_CLAIM_SIZE];
    int64_t deadline_ms;   /* of the session, in epoch ms */
    int64_t seen_ms;       /* epoch ms when the leases were found due */
    size_t batches, count; /* of leases that are due now */
    struct lease_ref *refs;
    struct due_lease *due;
    struct session_verdict_text *verdicts;
    bool *is_wanted; /* that a script visits the lease */
    /* The session's time was over; not so if the client ended it. */
    bool has_expired;
    char name[SESSION_NAME_SIZE]; /* of a session that has */
};

static void ask_what_is_due(struct visit_call *call);

static void drop_batch(struct visit_call *call)
{
    lease_refs_free(call->refs, call->count);
    free(call->due);
    free(call->verdicts);
    free(call->is_wanted);
    call->refs = NULL;
    call->due = NULL;
    call->verdicts = NULL;
    call->is_wanted = NULL;
    call->count = 0;
}

static void finish(struct visit_call *call)
{
    drop_batch(call);
    call->done(call->arg);
    free(call);
}

/* `next_ms` negative: the session leaves the index. */
static void finish_with(struct visit_call *call, int64_t next_ms)
{
    int64_t period_ms = watchdog_period_ms(store_config(call->store));

    session_index_set(call->store, call->session_id, next_ms < period_ms ? next_ms : period_ms,
                      call->claim, NULL, NULL);
    finish(call);
}

/* --- leases that are due ------------------------------------------------------------------ */

static void on_settled(void *arg, const struct session_settled *settled)
{
    struct visit_call *call = arg;

    if (settled->outcome == SESSION_BIND_FAILED)
        finish(call); /* the leases are due still when the claim is over */
    else if (settled->outcome == SESSION_BIND_ENDED)
        finish_with(call, 0); /* meanwhile: the next visit works it off */
    else if (settled->next_ms > 0 || call->batches >= BATCHES_MAX)
        finish_with(call, settled->next_ms);
    else
        ask_what_is_due(call);
}

static void settle(void *arg)
{
    struct visit_call *call = arg;

    if (!session_settle_all(call->store, call->session_id, call->refs, call->verdicts,
                            call->count, call->deadline_ms, call->seen_ms, on_settled, call))
        assert(false); /* every lease of the batch has a verdict */
}

static void note_renewal(struct visit_call *call, size_t i, const char *kind)
{
    struct metrics *metrics = store_metrics(call->store);
    const struct config *config = store_config(call->store);

    session_verdict_renewed(&call->verdicts[i], kind, call->due[i].is_marked);
    if (lease_ref_is_set(&call->refs[i]))
        set_names_extend(call->store, &call->refs[i],
                         config->watchdog_timeout_ms + config->retry_window_ms);
    metrics_add(metrics, METRIC_WATCHDOG_RENEWALS, 1);
    metrics_observe(metrics, HISTOGRAM_WATCHDOG_LATENESS,
                    call->due[i].late_ms * CLOCK_NS_PER_MS);
}

static void note_loss(struct visit_call *call, size_t i, const struct redis_value *reply)
{
    char reason[LEASE_REASON_SIZE], kind[KIND_NAME_SIZE];

    session_copy_word(value_at(reply, LEASE_WATCH_REPLY_LOST_REASON), reason, sizeof(reason),
                      "expired");
    session_copy_word(value_at(reply, LEASE_WATCH_REPLY_LOST_KIND), kind, sizeof(kind), "lock");
    session_verdict_lost(&call->verdicts[i], reason, kind);
    metrics_add(store_metrics(call->store), METRIC_WATCHDOG_LOSSES, 1);
}

/* The replies of lease_watch.lua about a lease. */
enum watch_outcome {
    WATCH_RENEWED,
    WATCH_GONE,
    WATCH_ENDS,
    WATCH_WAITING,
    WATCH_LOST,
    WATCH_ENDED,
    WATCH_REUSED,
    WATCH_UNREADABLE
};

static const struct reply_word watch_words[] = {
    {"renewed", WATCH_RENEWED, METRIC_COUNT}, {"gone", WATCH_GONE, METRIC_COUNT},
    {"ends", WATCH_ENDS, METRIC_COUNT},       {"waiting", WATCH_WAITING, METRIC_COUNT},
    {"lost", WATCH_LOST, METRIC_COUNT},       {"ended", WATCH_ENDED, METRIC_COUNT},
    {"reused", WATCH_REUSED, METRIC_COUNT},
};

static void read_watch(struct visit_call *call, size_t i, const struct redis_value *reply)
{
    struct session_verdict_text *verdict = &call->verdicts[i];
    char kind[KIND_NAME_SIZE];
    size_t len;

    switch ((enum watch_outcome)reply_word_outcome(
        watch_words, sizeof(watch_words) / sizeof(watch_words[0]), reply, WATCH_UNREADABLE)) {
    case WATCH_RENEWED:
        session_copy_word(value_at(reply, LEASE_WATCH_REPLY_RENEWED_KIND), kind, sizeof(kind),
                          "lock");
        note_renewal(call, i, kind);
        return;
    case WATCH_GONE:
        snprintf(verdict->text, sizeof(verdict->text), "vanished");
        return;
    case WATCH_ENDS:
        session_verdict_later(verdict,
                              value_integer(value_at(reply, LEASE_WATCH_REPLY_ENDS_MS)));
        return;
    case WATCH_WAITING:
        session_verdict_later(verdict, watchdog_period_ms(store_config(call->store)));
        return;
    case WATCH_ENDED:
        if (session_reason_is_loss(
                value_text(value_at(reply, LEASE_WATCH_REPLY_ENDED_REASON), &len)))
            note_loss(call, i, reply);
        return;
    case WATCH_LOST:
        note_loss(call, i, reply);
        return;
    case WATCH_REUSED:
    case WATCH_UNREADABLE:
        return;
    }
}

/* A verdict stands already for a text that is no ref, and stays for a lease that has ended by
 * itself, is another session's, or has another type of key in its place: "gone". */
static void on_watched(void *arg, size_t i, const struct redis_result *result)
{
    struct visit_call *call = arg;
    int64_t period_ms = watchdog_period_ms(store_config(call->store));

    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        return;
    if (result->outcome != REDIS_DONE) {
        session_verdict_later(&call->verdicts[i], period_ms < RETRY_MS ? period_ms : RETRY_MS);
        return;
    }
    read_watch(call, i, result->reply);
}

/* The fraction that session_settle.lua gives the score of a lease that was renewed before. */
static const char MARK[] = ".5";

static struct due_lease read_score(const struct redis_value *value, int64_t now_ms)
{
    size_t len;
    const char *text = value_text(value, &len);
    int64_t at_ms = strtoll(text, NULL, 10);
    struct due_lease due = {.is_marked = strstr(text, MARK) != NULL};

    if (at_ms >= 0 && at_ms < now_ms)
        due.late_ms = now_ms - at_ms < LATE_MAX_MS ? now_ms - at_ms : LATE_MAX_MS;
    return due;
}

static bool is_of_set(const struct lease_ref *ref)
{
    return ref->lock_count > 0 && lease_ref_is_set(ref);
}

/* Visits each lease on its own that the script for many leases has not renewed, or could not be
 * asked for. */
static void watch_the_rest(void *arg)
{
    struct visit_call *call = arg;
    const struct config *config = store_config(call->store);
    struct lease_visit_job job = {
        .script = SCRIPT_LEASE_WATCH, .line = VISIT_DUTIES, .session_id = call->session_id};

    text_format_int64(job.arguments[LEASE_WATCH_ARG_TIMEOUT_MS], config->watchdog_timeout_ms);
    text_format_int64(job.arguments[LEASE_WATCH_ARG_WINDOW_MS], config->retry_window_ms);
    for (size_t i = 0; i < call->count; i++)
        if (is_of_set(&call->refs[i]))
            call->is_wanted[i] = true;
    if (!lease_visits_start(call->store, &job, call->refs, call->count, call->is_wanted,
                            on_watched, settle, call))
        settle(call);
}

static void on_watched_together(void *arg, size_t i, const struct redis_result *result)
{
    struct visit_call *call = arg;
    int64_t kind = value_integer(result->reply);

    if (result->outcome != REDIS_DONE || (kind != 1 && kind != 2))
        return;
    note_renewal(call, i, kind_row(kind == 1 ? KIND_LOCK : KIND_FAIR)->name);
    call->is_wanted[i] = false;
}

/* `reply`: of session_due.lua. */
static void take_due(struct visit_call *call, const struct redis_value *reply)
{
    const struct redis_value *due = value_at(reply, SESSION_DUE_REPLY_OPEN_DUE);
    const struct redis_value *score = value_at(reply, SESSION_DUE_REPLY_OPEN_SCORE);
    size_t len, stride = score == NULL ? SESSION_DUE_REPLY_DUE_VALUES : 1;

    call->batches++;
    call->seen_ms = value_integer(value_at(reply, SESSION_DUE_REPLY_OPEN_NOW_MS));
    call->count = value_count(due) / stride;
    call->refs = calloc(call->count, sizeof(*call->refs));
    call->due = calloc(call->count, sizeof(*call->due));
    call->verdicts = calloc(call->count, sizeof(*call->verdicts));
    call->is_wanted = calloc(call->count, sizeof(*call->is_wanted));
    assert(call->refs != NULL && call->due != NULL && call->verdicts != NULL &&
           call->is_wanted != NULL);
    for (size_t i = 0; i < call->count; i++) {
        const char *text = value_text(value_at(due, i * stride + SESSION_DUE_REPLY_DUE_REF),
                                      &len);
        lease_ref_copy(&call->refs[i], text, len);
        call->due[i] = read_score(
            score != NULL ? score : value_at(due, i * stride + SESSION_DUE_REPLY_DUE_SCORE),
            call->seen_ms);
        snprintf(call->verdicts[i].text, sizeof(call->verdicts[i].text), "gone");
        call->is_wanted[i] = !is_of_set(&call->refs[i]);
    }
}

/* Whether the TTL of a fencing counter may end before a lease that is renewed: the counter of a
 * lease lasts --fencing-ttl-ms from the grant on, and a session is older than its leases. Half
 * of that is left for clocks of several masters and for front ends with another setting. */
static bool may_outlast_counters(const struct config *config, int64_t age_ms)
{
    int64_t keep_ms = config->watchdog_timeout_ms + config->retry_window_ms;

    return config->fencing_ttl_ms > 0 && age_ms > config->fencing_ttl_ms / 2 - keep_ms;
}

/* `reply`: of session_due.lua. */
static void watch_leases(struct visit_call *call, const struct redis_value *reply)
{
    const struct config *config = store_config(call->store);
    struct lease_visit_job job = {.script = SCRIPT_WATCH_MANY,
                                  .line = VISIT_DUTIES,
                                  .session_id = call->session_id,
                                  .is_shared = true};

    text_format_int64(job.arguments[WATCH_MANY_ARG_TIMEOUT_MS], config->watchdog_timeout_ms);
    text_format_int64(job.arguments[WATCH_MANY_ARG_WINDOW_MS], config->retry_window_ms);
    call->deadline_ms = value_integer(value_at(reply, SESSION_DUE_REPLY_OPEN_DEADLINE_MS));
    take_due(call, reply);
    if (may_outlast_counters(config,
                             value_integer(value_at(reply, SESSION_DUE_REPLY_OPEN_AGE_MS))))
        job.arguments[WATCH_MANY_ARG_COUNTERS][0] = '1';
    if (!lease_visits_start(call->store, &job, call->refs, call->count, call->is_wanted,
                            on_watched_together, watch_the_rest, call))
        watch_the_rest(call);
}

/* --- the session -------------------------------------------------------------------------- */

static void on_ended(void *arg, const struct session_view *view)
{
    struct visit_call *call = arg;

    if (view->outcome == SESSION_RELEASED) { /* worked off, and out of the index */
        metrics_add(store_metrics(call->store), METRIC_SESSIONS_EXPIRED, 1);
        if (call->has_expired)
            session_log_expiry(call->session_id, call->name, view->released);
    }
    if (view->outcome == SESSION_OPEN) /* a keep-alive came first */
        finish_with(call, 0);
    else if (view->outcome == SESSION_ENDED) /* the session is gone */
        finish_with(call, -1);
    else
        finish(call);
}

/* `reply`: of session_due.lua. */
static void end_session(struct visit_call *call, const struct redis_value *reply)
{
    size_t len;

    call->has_expired = strcmp(
                            value_text(value_at(reply, SESSION_DUE_REPLY_EXPIRED_REASON), &len),
                            "expired") == 0;
    lock_copy_text(value_at(reply, SESSION_DUE_REPLY_EXPIRED_NAME), call->name,
                   sizeof(call->name));
    session_end_expired(call->store, call->session_id, call->has_expired, on_ended, call);
}

/* The replies of session_due.lua about a session. */
enum due_outcome { DUE_OPEN, DUE_IDLE, DUE_EXPIRED, DUE_UNKNOWN, DUE_UNREADABLE };

static const struct reply_word due_words[] = {
    {"open", DUE_OPEN, METRIC_COUNT},
    {"idle", DUE_IDLE, METRIC_COUNT},
    {"expired", DUE_EXPIRED, METRIC_COUNT},
    {"unknown", DUE_UNKNOWN, METRIC_COUNT},
};

static void read_due(struct visit_call *call, const struct redis_value *reply)
{
    switch ((enum due_outcome)reply_word_outcome(
        due_words, sizeof(due_words) / sizeof(due_words[0]), reply, DUE_UNREADABLE)) {
    case DUE_OPEN:
        if (value_count(value_at(reply, SESSION_DUE_REPLY_OPEN_DUE)) >=
            SESSION_DUE_REPLY_DUE_VALUES)
            watch_leases(call, reply);
        else
            finish(call); /* unreadable */
        return;
    case DUE_IDLE:
        finish_with(call, value_integer(value_at(reply, SESSION_DUE_REPLY_IDLE_NEXT_MS)));
        return;
    case DUE_EXPIRED:
        end_session(call, reply);
        return;
    case DUE_UNKNOWN:
        finish_with(call, -1);
        return;
    case DUE_UNREADABLE:
        finish(call);
        return;
    }
}

static void on_due(void *arg, const struct redis_result *result)
{
    struct visit_call *call = arg;

    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        finish_with(call, -1); /* another type of key is in the session's place */
    else if (result->outcome != REDIS_DONE)
        finish(call);
    else
        read_due(call, result->reply);
}

static void ask_what_is_due(struct visit_call *call)
{
    struct key_base session = call_base(call->session_id);

    drop_batch(call);
    struct store_call *script = call_begin(call->store, SCRIPT_SESSION_DUE);
    call_key(script, SESSION_DUE_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(script, SESSION_DUE_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(script, SESSION_DUE_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_number(script, SESSION_DUE_ARG_BATCH, SESSION_BATCH);
    call_send(script, on_due, call);
}

void session_visit(struct store *store, const char *session_id,
                   const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg)
{
    struct visit_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    snprintf(call->session_id, sizeof(call->session_id), "%s", session_id);
    snprintf(call->claim, sizeof(call->claim), "%s", claim);
    ask_what_is_due(call);
}
