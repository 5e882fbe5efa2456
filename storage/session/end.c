/* Ending a session: marked first, then each noted lease is released and spent in its lock's
 * home, a batch at a time. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/visits.h"
#include "storage/session/session_internal.h"
#include "storage/notes/set_names.h"

enum {
    /* After the first failure it goes on for so long, as long as each batch has leases that can
     * be worked off: those of masters that are there do not wait for a master that is away. The
     * client waits for the answer. */
    PATIENCE_MS = 1000
};

enum worked_off { NOT_WORKED_OFF, WORKED_OFF_HELD, WORKED_OFF_NOT_HELD };

struct end_call {
    struct store *store;
    session_done *done;
    void *arg;
    char session_id[SESSION_ID_SIZE];
    const char *reason;
    struct lease_ref *refs; /* the batch that is worked off */
    enum worked_off *worked_off;
    size_t count;
    bool is_stuck;  /* no lease of the last batch could be worked off */
    bool is_marked; /* as ended: no failure behind that means that nothing was done */
    bool logs_losses;
    bool has_failed;
    enum call_outcome failure;
    int64_t failed_ns; /* of the first failure */
};

static void on_ended(void *arg, const struct redis_result *result);

static void drop_batch(struct end_call *call)
{
    call->is_stuck = call->count > 0;
    for (size_t i = 0; i < call->count; i++)
        if (call->worked_off[i] != NOT_WORKED_OFF)
            call->is_stuck = false;
    lease_refs_free(call->refs, call->count);
    free(call->worked_off);
    call->refs = NULL;
    call->worked_off = NULL;
    call->count = 0;
}

/* Adds the refs of the leases that were worked off like this. Returns the next argument. */
static size_t add_refs(struct end_call *call, struct store_call *script, size_t at,
                       enum worked_off how)
{
    for (size_t i = 0; i < call->count; i++)
        if (call->worked_off[i] == how)
            call_text(script, at++, call->refs[i].text, call->refs[i].len);
    return at;
}

static void send_end(struct end_call *call)
{
    struct store_call *script = call_begin(call->store, SCRIPT_SESSION_END);
    struct key_base session = call_base(call->session_id);
    size_t at;

    call_key(script, SESSION_END_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(script, SESSION_END_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(script, SESSION_END_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_key(script, SESSION_END_KEY_LOST, KEY_SESSION_LOST, session, NULL);
    call_string(script, SESSION_END_ARG_REASON, call->reason);
    call_number(script, SESSION_END_ARG_WINDOW_MS, store_config(call->store)->retry_window_ms);
    call_number(script, SESSION_END_ARG_BATCH, SESSION_BATCH);
    at = add_refs(call, script, SESSION_END_ARG_FORGET, WORKED_OFF_HELD);
    call_number(script, SESSION_END_ARG_HELD, (int64_t)(at - SESSION_END_ARG_FORGET));
    add_refs(call, script, at, WORKED_OFF_NOT_HELD);
    call_send(script, on_ended, call);
    drop_batch(call);
}

static void finish(struct end_call *call, struct session_view *view)
{
    if (view->outcome == SESSION_RELEASED && call->has_failed) {
        view->outcome = SESSION_FAILED; /* the watchdog works off the rest */
        view->failure = call->failure;
    }
    if (view->outcome == SESSION_FAILED) {
        if (call->is_marked && !call_is_unknown(view->failure))
            view->failure = CALL_UNKNOWN;
    } else if (view->outcome == SESSION_RELEASED) {
        session_index_set(call->store, call->session_id, -1, NULL, NULL, NULL);
    }
    call->done(call->arg, view);
    free(call);
}

/* `kind`: the lease held until now. */
static void log_loss(const struct end_call *call, size_t i, const struct redis_value *kind)
{
    char word[KIND_NAME_SIZE];

    if (!call->logs_losses)
        return;
    session_copy_word(kind, word, sizeof(word), "lock");
    session_log_loss(call->store, call->session_id, &call->refs[i], "session-ended", word);
}

/* Under the name of its first lock. */
static void observe_hold(const struct end_call *call, size_t i, const struct redis_value *token)
{
    struct lease_ref_name names[LOCKS_MAX];
    char name[KEY_NAME_MAX + 1];
    size_t prefix_len = strlen(store_config(call->store)->key_prefix);

    if (value_is_nil(token))
        return;
    lease_ref_names(&call->refs[i], names);
    if (names[0].len < prefix_len || names[0].len >= sizeof(name))
        return;
    memcpy(name, names[0].text, names[0].len);
    name[names[0].len] = '\0';
    store_observe_hold(call->store, name + prefix_len, value_integer(token));
}

static void on_visited(void *arg, size_t i, const struct redis_result *result)
{
    struct end_call *call = arg;
    const struct redis_value *kind = value_count(result->reply) > 0
                                         ? value_at(result->reply, LEASE_END_REPLY_KIND)
                                         : result->reply;
    size_t kind_len;

    if (result->outcome == REDIS_DONE)
        set_names_end_noted(call->store, &call->refs[i], result->reply);
    value_text(kind, &kind_len);
    if (result->outcome == REDIS_DONE && kind_len > 0) {
        call->worked_off[i] = WORKED_OFF_HELD;
        log_loss(call, i, kind);
        observe_hold(call, i, value_at(result->reply, LEASE_END_REPLY_TOKEN));
    } else if (result->outcome == REDIS_DONE && value_integer(result->reply) == 1) {
        call->worked_off[i] = WORKED_OFF_HELD;
    } else if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_WRONG_TYPE) {
        /* Also when another type of key is in place of the lease's record: then there is no
         * lease to end. */
        call->worked_off[i] = WORKED_OFF_NOT_HELD;
    } else {
        if (!call->has_failed)
            call->failed_ns = clock_ns();
        call->has_failed = true;
        call->failure = call_outcome_of(result);
    }
}

static void on_all_visited(void *arg)
{
    send_end(arg);
}

static void work_off(struct end_call *call, const struct redis_value *refs)
{
    struct lease_visit_job job = lease_end_job(call->store, VISIT_DUTIES, call->session_id,
                                               "session-ended");
    size_t len;

    if (store_is_timed(call->store))
        job.arguments[LEASE_END_ARG_TIMED][0] = '1';
    call->count = value_count(refs);
    call->refs = calloc(call->count, sizeof(*call->refs));
    call->worked_off = calloc(call->count, sizeof(*call->worked_off));
    assert(call->refs != NULL && call->worked_off != NULL);
    for (size_t i = 0; i < call->count; i++) {
        const char *text = value_text(value_at(refs, i), &len);
        lease_ref_copy(&call->refs[i], text, len);
        if (call->refs[i].lock_count == 0) /* it never was a lease */
            call->worked_off[i] = WORKED_OFF_NOT_HELD;
    }
    if (!lease_visits_start(call->store, &job, call->refs, call->count, NULL, on_visited,
                            on_all_visited, call))
        send_end(call);
}

static bool may_go_on(const struct end_call *call)
{
    return !call->has_failed ||
           (!call->is_stuck && clock_ns() - call->failed_ns < PATIENCE_MS * CLOCK_NS_PER_MS);
}

static void on_ended(void *arg, const struct redis_result *result)
{
    struct end_call *call = arg;
    struct session_view view;

    session_read_outcome(&view, result);
    if (view.outcome == SESSION_RELEASED) {
        call->is_marked = true;
        const struct redis_value *refs = value_at(result->reply,
                                                  SESSION_END_REPLY_RELEASED_REFS);
        view.released = value_integer(
            value_at(result->reply, SESSION_END_REPLY_RELEASED_COUNT));
        if (value_count(refs) == 0)
            call->has_failed = false; /* what had failed has been done meanwhile */
        else if (value_count(refs) <= SESSION_BATCH && may_go_on(call)) {
            work_off(call, refs);
            return;
        }
    }
    finish(call, &view);
}

static void start(struct store *store, const char *session_id, const char *reason,
                  bool logs_losses, session_done *done, void *arg)
{
    struct end_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    call->reason = reason;
    call->logs_losses = logs_losses;
    snprintf(call->session_id, sizeof(call->session_id), "%s", session_id);
    send_end(call);
}

void session_end_expired(struct store *store, const char *session_id, bool logs_losses,
                         session_done *done, void *arg)
{
    start(store, session_id, "expired", logs_losses, done, arg);
}

void session_end(struct store *store, const char *session_id, session_done *done, void *arg)
{
    start(store, session_id, "released", false, done, arg);
}

void session_force_end(struct store *store, const char *session_id, session_done *done,
                       void *arg)
{
    start(store, session_id, "forced", true, done, arg);
}
