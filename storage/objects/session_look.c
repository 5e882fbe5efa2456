/* A look at a session, and a keep-alive: the home of each lease says whether it holds. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/objects/lease_replies.h"
#include "storage/objects/lease_visits.h"
#include "storage/objects/look_turns.h"
#include "storage/objects/session_home.h"
#include "storage/objects/session_internal.h"
#include "storage/objects/session_notes.h"

/* A lease that holds, as its lock's home says. */
struct found_lease {
    struct lease_record record;
    int64_t tokens[LOCKS_MAX];
    int64_t remaining_ms;
    bool is_held;
    bool has_no_record; /* at the lock's home */
};

struct look_call {
    struct lock_store *store;
    session_done *done;
    void *arg;
    char session_id[SESSION_ID_SIZE], name[SESSION_NAME_SIZE];
    bool is_keep_alive, says_held, has_failed;
    bool claims;       /* each lease that it lists */
    size_t held_count; /* the lease ids in `held` of the request */
    char (*held)[LEASE_ID_SIZE];
    struct session_view view;
    int64_t now_ms;       /* by Redis' clock */
    int64_t remaining_ms; /* of the session, since `sent_ns` */
    int64_t sent_ns;
    struct session_reading reading;
    size_t count, loss_count; /* of notes, of losses */
    struct lease_ref *refs;   /* of the notes; their texts are those that were read */
    int64_t *noted_ms;
    struct found_lease *found;
    struct session_verdict_text *verdicts;
    size_t lost_count; /* losses that were found before, not yet named by a delivered answer */
    struct lease_ref *lost;           /* their texts are those that were read */
    struct session_loss_view *losses; /* these losses, and the losses that this look finds */
};

/* --- the answer --------------------------------------------------------------------------- */

/* A lock as clients say it, without the operator's prefix, or several of them. */
static const char *read_names(const struct lock_store *store, const struct lease_ref *ref,
                              struct lock_names **locks)
{
    size_t prefix_len = strlen(store->options.config->key_prefix);
    const char *names = ref->text + LEASE_ID_SIZE;

    *locks = lease_ref_is_set(ref) ? lock_names_parse(names, prefix_len) : NULL;
    return strlen(names) >= prefix_len ? names + prefix_len : "";
}

static void show_lease(const struct look_call *call, size_t i, struct session_lease_view *out)
{
    const struct found_lease *found = &call->found[i];
    const struct lease_record *record = &found->record;

    lease_ref_id(&call->refs[i], out->lease_id);
    out->lock = read_names(call->store, &call->refs[i], &out->locks);
    memcpy(out->fencing_tokens, found->tokens, sizeof(out->fencing_tokens));
    out->fencing_token = found->tokens[0];
    out->remaining_ms = found->remaining_ms;
    out->owner = record->owner;
    out->ttl_ms = record->ttl_ms;
    out->watchdog = record->watchdog;
    out->note = record->note;
    out->kind = record->kind;
}

static bool has_ref(const struct lease_ref *refs, size_t count, const char *lease_id)
{
    for (size_t i = 0; i < count; i++)
        if (refs[i].lock_count > 0 && memcmp(refs[i].text, lease_id, LEASE_ID_SIZE - 1) == 0)
            return true;
    return false;
}

/* Whether the session has a note of this lease, and the lock's home knows the lease. */
static bool has_lease(const struct look_call *call, const char *lease_id)
{
    for (size_t i = 0; i < call->count; i++)
        if (!call->found[i].has_no_record && has_ref(&call->refs[i], 1, lease_id))
            return true;
    return false;
}

/* Moves the ids of which the session has no lease to the front of `held`. */
static void find_unknown(struct look_call *call)
{
    for (size_t i = 0; i < call->held_count; i++) {
        if (has_lease(call, call->held[i]) ||
            has_ref(call->lost, call->lost_count, call->held[i]))
            continue;
        if (i != call->view.unknown_count)
            memcpy(call->held[call->view.unknown_count], call->held[i], LEASE_ID_SIZE);
        call->view.unknown_count++;
    }
    call->view.unknown = (const char(*)[LEASE_ID_SIZE])call->held;
}

static void show(struct look_call *call)
{
    struct session_lease_view *leases = calloc(call->count + 1, sizeof(*leases));
    struct session_view *view = &call->view;

    assert(leases != NULL);
    for (size_t i = 0; i < call->count; i++)
        if (call->found[i].is_held)
            show_lease(call, i, &leases[view->lease_count++]);
    view->remaining_ms = lock_ms_left(call->store, call->remaining_ms, call->sent_ns);
    view->leases = leases;
    view->losses = call->losses;
    view->loss_count = call->loss_count;
    view->name = call->name;
    find_unknown(call);
    call->done(call->arg, view);
    for (size_t i = 0; i < view->lease_count; i++)
        lock_names_unref(leases[i].locks);
    free(leases);
}

static void look_call_free(struct look_call *call)
{
    for (size_t i = 0; i < call->loss_count; i++)
        lock_names_unref(call->losses[i].locks);
    free(call->refs);
    free(call->lost);
    free(call->losses);
    free(call->noted_ms);
    free(call->found);
    free(call->verdicts);
    free(call->held);
    session_notes_release(&call->reading);
    free(call);
}

static void finish(struct look_call *call)
{
    if (call->has_failed)
        call->view = (struct session_view){.outcome = SESSION_FAILED,
                                           .failure = call->view.failure};
    if (call->view.outcome == SESSION_OPEN)
        show(call);
    else
        call->done(call->arg, &call->view);
    look_call_free(call);
}

/* --- losses ------------------------------------------------------------------------------- */

static void add_loss(struct look_call *call, const struct lease_ref *ref, const char *reason,
                     const char *kind)
{
    struct session_loss_view *loss = &call->losses[call->loss_count++];

    loss->ref = ref->text;
    lease_ref_id(ref, loss->lease_id);
    loss->lock = read_names(call->store, ref, &loss->locks);
    snprintf(loss->reason, sizeof(loss->reason), "%s", reason);
    snprintf(loss->kind, sizeof(loss->kind), "%s", kind);
}

/* A loss that could not be written down is found again: its note is still there. */
static void on_settled(void *arg, const struct session_settled *settled)
{
    (void)settled;
    finish(arg);
}

static void settle_losses(struct look_call *call)
{
    if (!session_settle_all(call->store, call->session_id, call->refs, call->verdicts,
                            call->count, 0, on_settled, call))
        finish(call);
}

static void lose(struct look_call *call, size_t i, const struct redis_value *reply)
{
    char reason[LEASE_REASON_SIZE], kind[KIND_NAME_SIZE];

    session_copy_word(value_at(reply, LOST_REPLY_REASON), reason, sizeof(reason), "expired");
    session_copy_word(value_at(reply, LOST_REPLY_KIND), kind, sizeof(kind), "lock");
    session_verdict_lost(&call->verdicts[i], reason, kind);
    add_loss(call, &call->refs[i], reason, kind);
}

/* --- leases that the client does not know of ---------------------------------------------- */

static bool is_named(const struct look_call *call, const struct lease_ref *ref)
{
    for (size_t i = 0; i < call->held_count; i++)
        if (memcmp(call->held[i], ref->text, LEASE_ID_SIZE - 1) == 0)
            return true;
    return false;
}

/* A grant whose answer never reached the client: no request would ever release it. The lease is
 * as old as the newest sign of its grant: a reentrant lease has the token of its owner's first
 * lease, and a request may be granted long after it was noted. */
static bool is_unclaimed(const struct look_call *call, size_t i)
{
    const struct found_lease *found = &call->found[i];
    int64_t granted_ms = found->tokens[0] / 1000;

    if (!call->says_held || !found->is_held || is_named(call, &call->refs[i]))
        return false;
    if (found->record.since_ms > granted_ms)
        granted_ms = found->record.since_ms;
    if (call->noted_ms[i] > granted_ms)
        granted_ms = call->noted_ms[i];
    return granted_ms < call->now_ms - call->view.ttl_ms;
}

struct release_call {
    struct look_call *look;
    size_t count;
    size_t *at; /* of each ref in the look */
    struct lease_ref *refs;
};

static void on_released(void *arg, size_t i, const struct redis_result *result)
{
    struct release_call *call = arg;
    size_t at = call->at[i];

    if (result->outcome != REDIS_DONE)
        return; /* it still holds, and the next keep-alive comes here again */
    call->look->found[at].is_held = false;
    session_unbind_ref(call->look->store, call->look->session_id, &call->refs[i]);
}

static void on_all_released(void *arg)
{
    struct release_call *call = arg;
    struct look_call *look = call->look;

    free(call->at);
    free(call->refs); /* their texts are the look's */
    free(call);
    settle_losses(look);
}

/* After all visits. */
static void release_unclaimed(void *arg)
{
    struct look_call *look = arg;
    struct lease_visit_job job = {.script = SCRIPT_LEASE_END,
                                  .line = VISIT_LOOKS,
                                  .arguments = {[LEASE_END_ARG_REASON] = "released"}};
    struct release_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    text_format_int64(job.arguments[LEASE_END_ARG_WINDOW_MS],
                      look->store->options.config->retry_window_ms);
    call->look = look;
    call->at = calloc(look->count, sizeof(*call->at));
    call->refs = calloc(look->count, sizeof(*call->refs));
    assert(call->at != NULL && call->refs != NULL);
    for (size_t i = 0; i < look->count; i++) {
        if (!is_unclaimed(look, i))
            continue;
        call->at[call->count] = i;
        call->refs[call->count++] = look->refs[i];
    }
    if (!lease_visits_start(look->store, &job, call->refs, call->count, NULL, on_released,
                            on_all_released, call))
        on_all_released(call);
}

/* --- visits of the locks' homes ----------------------------------------------------------- */

static void read_tokens(const struct redis_value *value, int64_t tokens[LOCKS_MAX])
{
    size_t len;
    const char *text = value_text(value, &len);

    for (size_t i = 0; i < LOCKS_MAX; i++) {
        char *end;
        tokens[i] = strtoll(text, &end, 10);
        text = end;
    }
}

static void read_held(struct look_call *call, size_t i, const struct redis_result *result)
{
    struct found_lease *found = &call->found[i];
    int64_t left_ms = value_integer(value_at(result->reply, HOLD_REPLY_REMAINING_MS));
    size_t len;

    read_tokens(value_at(result->reply, HOLD_REPLY_TOKEN), found->tokens);
    found->remaining_ms = lock_ms_left(call->store, left_ms, result->sent_ns);
    const char *text = value_text(value_at(result->reply, HOLD_REPLY_RECORD), &len);
    lease_record_parse(&found->record, text, len);
    /* Otherwise the note is of a request that was or will be refused. */
    found->is_held = strcmp(found->record.session_id, call->session_id) == 0;
}

/* By then a keep-alive has kept the session alive, and is not "not executed". */
static void note_failure(struct look_call *call, enum call_outcome outcome)
{
    call->has_failed = true;
    call->view.failure = call->is_keep_alive ? CALL_UNKNOWN : outcome;
}

static void on_visited(void *arg, size_t i, const struct redis_result *result)
{
    struct look_call *call = arg;
    size_t len;

    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        return; /* the watchdog forgets it */
    if (result->outcome != REDIS_DONE) {
        note_failure(call, call_outcome_of(result));
        return;
    }
    const char *word = value_text(value_at(result->reply, LEASE_REPLY_WORD), &len);
    const char *reason = value_text(value_at(result->reply, ENDED_REPLY_REASON), &len);
    if (strcmp(word, "held") == 0)
        read_held(call, i, result);
    else if (strcmp(word, "gone") == 0)
        call->found[i].has_no_record = true;
    else if (strcmp(word, "lost") == 0 ||
             (strcmp(word, "ended") == 0 && session_reason_is_loss(reason)))
        lose(call, i, result->reply);
}

/* --- the session's home ------------------------------------------------------------------- */

static void take_notes(struct look_call *call)
{
    const struct session_notes *notes = &call->reading.hashes[SESSION_HASH_NOTES];

    call->count = notes->count;
    call->refs = calloc(call->count + 1, sizeof(*call->refs));
    call->noted_ms = calloc(call->count + 1, sizeof(*call->noted_ms));
    call->found = calloc(call->count + 1, sizeof(*call->found));
    call->verdicts = calloc(call->count + 1, sizeof(*call->verdicts));
    assert(call->refs != NULL && call->noted_ms != NULL);
    assert(call->found != NULL && call->verdicts != NULL);
    for (size_t i = 0; i < call->count; i++) {
        call->refs[i] = notes->notes[i].ref;
        call->noted_ms[i] = strtoll(notes->notes[i].value, NULL, 10);
    }
}

static void start_visits(struct look_call *call)
{
    struct lease_visit_job job = {
        .script = SCRIPT_LEASE_CLAIM, .line = VISIT_LOOKS, .has_counter = true};

    text_format_int64(job.arguments[LEASE_CLAIM_ARG_WINDOW_MS],
                      call->store->options.config->retry_window_ms);
    memcpy(job.arguments[LEASE_CLAIM_ARG_CLAIM], "1", call->claims ? 2 : 0);
    if (!lease_visits_start(call->store, &job, call->refs, call->count, NULL, on_visited,
                            release_unclaimed, call))
        finish(call);
}

static void take_losses(struct look_call *call)
{
    const struct session_notes *lost = &call->reading.hashes[SESSION_HASH_LOST];

    call->lost_count = lost->count;
    call->lost = calloc(lost->count + 1, sizeof(*call->lost));
    call->losses = calloc(lost->count + call->count + 1, sizeof(*call->losses));
    assert(call->lost != NULL && call->losses != NULL);
    for (size_t i = 0; i < lost->count; i++) {
        const char *text = lost->notes[i].value;
        size_t reason_len = strcspn(text, "\n");
        char reason[LEASE_REASON_SIZE];
        snprintf(reason, sizeof(reason), "%.*s", (int)reason_len, text);
        call->lost[i] = lost->notes[i].ref;
        if (call->lost[i].lock_count > 0)
            add_loss(call, &call->lost[i], reason,
                     text + reason_len + (text[reason_len] == '\n'));
    }
}

/* In a cluster the index may be lost alone: then the watchdog would not visit the session. */
static void stay_indexed(const struct look_call *call)
{
    if (topology_is_cluster(call->store->options.topology))
        session_index_set(call->store, call->session_id,
                          watchdog_period_ms(call->store->options.config), SESSION_NOT_INDEXED,
                          NULL, NULL);
}

static void on_read(void *arg, enum call_outcome outcome)
{
    struct look_call *call = arg;

    if (outcome != CALL_DONE) {
        note_failure(call, outcome);
        finish(call);
        return;
    }
    take_notes(call);
    take_losses(call);
    start_visits(call);
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look_call *call = arg;
    struct session_view *view = &call->view;
    const struct redis_value *reply = result->reply;

    session_read_outcome(view, result);
    if (result->outcome == REDIS_DONE)
        view->ttl_ms = value_integer(value_at(reply, TOO_LONG_REPLY_TTL_MS));
    if (view->outcome != SESSION_OPEN) {
        finish(call);
        return;
    }
    call->remaining_ms = value_integer(value_at(reply, OPEN_REPLY_REMAINING_MS));
    call->sent_ns = result->sent_ns;
    view->ttl_ms = value_integer(value_at(reply, OPEN_REPLY_TTL_MS));
    view->age_ms = value_integer(value_at(reply, OPEN_REPLY_AGE_MS));
    lock_copy_text(value_at(reply, OPEN_REPLY_NAME), call->name, sizeof(call->name));
    call->now_ms = value_integer(value_at(reply, OPEN_REPLY_NOW_MS));
    if (call->is_keep_alive)
        stay_indexed(call);
    call->reading.store = call->store;
    call->reading.session_id = call->session_id;
    call->reading.done = on_read;
    call->reading.arg = call;
    session_notes_read(&call->reading, value_at(reply, OPEN_REPLY_NOTES),
                       value_at(reply, OPEN_REPLY_LOST));
}

static struct look_call *look_call_new(struct lock_store *store, const char *session_id,
                                       const struct session_keep_alive *keep_alive)
{
    struct look_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    snprintf(call->session_id, sizeof(call->session_id), "%s", session_id);
    call->claims = keep_alive != NULL;
    if (keep_alive == NULL || keep_alive->is_repeated)
        return call;
    call->is_keep_alive = true;
    call->says_held = keep_alive->says_held;
    call->held_count = keep_alive->held_count;
    call->held = calloc(keep_alive->held_count + 1, sizeof(*call->held));
    assert(call->held != NULL);
    if (keep_alive->held_count > 0)
        memcpy(call->held, keep_alive->held, keep_alive->held_count * sizeof(*call->held));
    return call;
}

static void send_keep_alive(struct look_call *look, const struct session_keep_alive *keep_alive)
{
    struct store_call *call = call_begin(look->store, SCRIPT_SESSION_KEEP_ALIVE);
    struct key_base session = call_base(look->session_id);

    call_key(call, SESSION_KEEP_ALIVE_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_KEEP_ALIVE_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_KEEP_ALIVE_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_key(call, SESSION_KEEP_ALIVE_KEY_LOST, KEY_SESSION_LOST, session, NULL);
    call_number(call, SESSION_KEEP_ALIVE_ARG_WINDOW_MS,
                look->store->options.config->retry_window_ms);
    call_number(call, SESSION_KEEP_ALIVE_ARG_AGE_MS,
                (clock_ns() - keep_alive->received_ns) / CLOCK_NS_PER_MS);
    call_number(call, SESSION_KEEP_ALIVE_ARG_WAIT_MS, keep_alive->wait_ms);
    call_send(call, on_looked, look);
}

static void send_get(struct look_call *look)
{
    struct store_call *call = call_begin(look->store, SCRIPT_SESSION_GET);
    struct key_base session = call_base(look->session_id);

    call_key(call, SESSION_GET_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_GET_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_GET_KEY_LOST, KEY_SESSION_LOST, session, NULL);
    call_send_in_turn(call, on_looked, look);
}

void session_look(struct lock_store *store, const char *session_id,
                  const struct session_keep_alive *keep_alive, session_done *done, void *arg)
{
    struct look_call *look = look_call_new(store, session_id, keep_alive);

    look->done = done;
    look->arg = arg;
    if (look->is_keep_alive)
        send_keep_alive(look, keep_alive);
    else
        send_get(look);
}
