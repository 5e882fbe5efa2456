/* A look at a session, and a keep-alive: the home of each lease says whether it holds. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/visits.h"
#include "storage/notes/bind.h"
#include "storage/notes/set_names.h"
#include "storage/session/keep_alive.h"
#include "storage/store/reply_word.h"

static void look_call_free(struct look_call *call)
{
    session_losses_release(&call->losses);
    session_look_free_waits(call);
    free(call->refs);
    free(call->noted_ms);
    free(call->found);
    free(call->verdicts);
    free(call->held);
    session_notes_release(&call->reading);
    free(call);
}

static void show(void *arg)
{
    struct look_call *call = arg;

    session_look_show(call);
    look_call_free(call);
}

static void finish(struct look_call *call)
{
    if (call->has_failed)
        call->view = (struct session_view){.outcome = SESSION_FAILED,
                                           .failure = call->view.failure};
    if (call->view.outcome != SESSION_OPEN) {
        call->done(call->arg, &call->view);
        look_call_free(call);
    } else if (!call->claims || !session_losses_ask(call, show)) {
        show(call);
    }
}

/* --- losses ------------------------------------------------------------------------------- */

/* Verdicts that could not be written down are found again: the notes of the leases stay. */
static void on_settled(void *arg, const struct session_settled *settled)
{
    struct look_call *call = arg;

    if (call->has_overdue && settled->outcome == SESSION_BOUND)
        session_index_set(call->store, call->session_id, settled->next_ms, NULL, NULL, NULL);
    finish(call);
}

static void settle_losses(struct look_call *call)
{
    if (!session_settle_all(call->store, call->session_id, call->refs, call->verdicts,
                            call->count, 0, 0, on_settled, call))
        finish(call);
}

static void lose(struct look_call *call, size_t i, const struct redis_value *reply)
{
    char reason[LEASE_REASON_SIZE], kind[KIND_NAME_SIZE];

    session_copy_word(value_at(reply, LEASE_CLAIM_REPLY_LOST_REASON), reason, sizeof(reason),
                      "expired");
    session_copy_word(value_at(reply, LEASE_CLAIM_REPLY_LOST_KIND), kind, sizeof(kind), "lock");
    session_verdict_lost(&call->verdicts[i], reason, kind);
    if (!session_loss_was_told(&call->reading, &call->refs[i], call->noted_ms[i]))
        session_losses_add(call, &call->refs[i], reason, kind);
}

/* --- leases that the client does not know of ---------------------------------------------- */

/* A grant whose answer never reached the client: no request would ever release it. The lease is
 * as old as the newest sign of its grant: a lock that its owner had before has the token of
 * that grant, and a request may be granted long after it was noted. */
static bool is_unclaimed(const struct look_call *call, size_t i)
{
    const struct found_lease *found = &call->found[i];
    int64_t granted_ms = found->record.since_ms;

    if (!call->says_held || !found->is_held ||
        session_look_find_held(call, &call->refs[i]) != call->held_count)
        return false;
    for (size_t k = 0; k < call->refs[i].lock_count; k++)
        if (found->tokens[k] / 1000 > granted_ms)
            granted_ms = found->tokens[k] / 1000;
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

    if (result->outcome != REDIS_DONE || lease_stays(result->reply))
        return; /* it still holds, and the next keep-alive comes here again */
    set_names_end_noted(call->look->store, &call->refs[i], result->reply);
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

/* After all visits. A request may have been answered meanwhile that the lease holds: a lease
 * ends that was listed before this keep-alive began, and that no request was answered to hold
 * since. A quarter of the ttl is more than the way of a keep-alive and the difference of two
 * clocks, and less than the time between two keep-alives. */
static void release_unclaimed(void *arg)
{
    struct look_call *look = arg;
    struct lease_visit_job job = lease_end_job(look->store, VISIT_KEEP_ALIVES, look->session_id,
                                               "released");
    struct release_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    text_format_int64(job.arguments[LEASE_END_ARG_BEFORE_MS],
                      look->now_ms - look->view.ttl_ms / 4);
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

/* The watchdog renews a lease after a third of its time. When half of it is over, the time of
 * its visit was lost, or is far away: a front end died between the two steps of a renewal that
 * made it the watchdog's, or Redis' clock was set back, or a master took over whose clock is
 * behind.
 */
static bool is_overdue(const struct look_call *call, const struct found_lease *found)
{
    return call->claims && found->is_held && found->record.watchdog &&
           found->remaining_ms < store_config(call->store)->watchdog_timeout_ms / 2;
}

static void read_held(struct look_call *call, size_t i, const struct redis_result *result)
{
    struct found_lease *found = &call->found[i];
    int64_t left_ms = value_integer(
        value_at(result->reply, LEASE_CLAIM_REPLY_HELD_REMAINING_MS));
    size_t len;

    read_tokens(value_at(result->reply, LEASE_CLAIM_REPLY_HELD_TOKEN), found->tokens);
    found->remaining_ms = store_ms_left(left_ms, result->sent_ns);
    const char *text = value_text(value_at(result->reply, LEASE_CLAIM_REPLY_HELD_RECORD), &len);
    lease_record_parse(&found->record, text, len);
    found->is_held = true;
    if (is_overdue(call, found)) {
        session_verdict_later(&call->verdicts[i], 0);
        call->has_overdue = true;
    }
}

/* The replies of lease_claim.lua about a lease. */
enum claim_outcome { CLAIM_HELD, CLAIM_GONE, CLAIM_LOST, CLAIM_ENDED, CLAIM_OTHER };

static const struct reply_word claim_words[] = {
    {"held", CLAIM_HELD, METRIC_COUNT},
    {"gone", CLAIM_GONE, METRIC_COUNT},
    {"lost", CLAIM_LOST, METRIC_COUNT},
    {"ended", CLAIM_ENDED, METRIC_COUNT},
};

static void read_claim(struct look_call *call, size_t i, const struct redis_result *result)
{
    const struct redis_value *reason = value_at(result->reply, LEASE_CLAIM_REPLY_ENDED_REASON);
    size_t len;

    switch ((enum claim_outcome)reply_word_outcome(claim_words,
                                                   sizeof(claim_words) / sizeof(claim_words[0]),
                                                   result->reply, CLAIM_OTHER)) {
    case CLAIM_HELD:
        read_held(call, i, result);
        return;
    case CLAIM_GONE:
        call->found[i].has_no_record = true;
        return;
    case CLAIM_ENDED:
        if (session_reason_is_loss(value_text(reason, &len)))
            lose(call, i, result->reply);
        return;
    case CLAIM_LOST:
        lose(call, i, result->reply);
        return;
    case CLAIM_OTHER: /* it waits, or is another session's */
        return;
    }
}

static void on_visited(void *arg, size_t i, const struct redis_result *result)
{
    struct look_call *call = arg;

    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        return; /* the watchdog forgets it */
    if (result->outcome != REDIS_DONE) {
        call->found[i].is_unknown = true;
        return;
    }
    read_claim(call, i, result);
}

/* --- the session's home ------------------------------------------------------------------- */

static void take_notes(struct look_call *call)
{
    struct session_notes *notes = &call->reading.hashes[SESSION_HASH_NOTES];

    call->count = call->claims
                      ? notes->count
                      : session_page_choose(&call->page, notes, call->view.next_cursor);
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
    struct lease_visit_job job = {.script = SCRIPT_LEASE_CLAIM,
                                  .line = call->claims ? VISIT_KEEP_ALIVES : VISIT_LOOKS,
                                  .session_id = call->session_id,
                                  .has_counter = true};

    text_format_int64(job.arguments[LEASE_CLAIM_ARG_WINDOW_MS],
                      store_config(call->store)->retry_window_ms);
    memcpy(job.arguments[LEASE_CLAIM_ARG_CLAIM], "1", call->claims ? 2 : 0);
    if (!lease_visits_start(call->store, &job, call->refs, call->count, NULL, on_visited,
                            release_unclaimed, call))
        finish(call);
}

/* In a cluster the index may be lost alone: then the watchdog would not visit the session. */
static void stay_indexed(const struct look_call *call)
{
    if (topology_is_cluster(store_topology(call->store)))
        session_index_set(call->store, call->session_id,
                          watchdog_period_ms(store_config(call->store)), SESSION_NOT_INDEXED,
                          NULL, NULL);
}

/* The keep-alive has reached the session, so its answer tells that. */
static void on_not_read(struct look_call *call, enum call_outcome outcome)
{
    call->view.has_no_leases = call->claims;
    call->has_failed = !call->claims;
    call->view.failure = outcome;
    finish(call);
}

/* Of a quorum: a server that is back has losses that were told meanwhile. The front end that
 * told them may be gone. */
static void forget_told(const struct look_call *call)
{
    const struct session_notes *told = &call->reading.told;
    char **texts = calloc(told->count + 1, sizeof(*texts));

    assert(texts != NULL);
    for (size_t i = 0; i < told->count; i++)
        texts[i] = session_loss_text(&told->notes[i].ref, told->notes[i].value);
    if (call->claims && told->count > 0)
        session_forget_losses(call->store, call->session_id, texts, told->count);
    for (size_t i = 0; i < told->count; i++)
        free(texts[i]);
    free(texts);
}

static void on_read(void *arg, enum call_outcome outcome)
{
    struct look_call *call = arg;

    if (outcome != CALL_DONE) {
        on_not_read(call, outcome);
        return;
    }
    take_notes(call);
    session_losses_take(call);
    forget_told(call);
    start_visits(call);
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct look_call *call = arg;
    struct session_view *view = &call->view;
    const struct redis_value *reply = result->reply;

    session_read_outcome(view, result);
    if (result->outcome == REDIS_DONE)
        view->ttl_ms = value_integer(
            value_at(reply, SESSION_KEEP_ALIVE_REPLY_WAIT_TOO_LONG_TTL_MS));
    if (view->outcome != SESSION_OPEN) {
        finish(call);
        return;
    }
    call->remaining_ms = value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_REMAINING_MS));
    call->sent_ns = result->sent_ns;
    view->ttl_ms = value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_TTL_MS));
    view->age_ms = value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_AGE_MS));
    lock_copy_text(value_at(reply, SESSION_GET_REPLY_OPEN_NAME), call->name,
                   sizeof(call->name));
    call->now_ms = value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_NOW_MS));
    if (call->is_keep_alive)
        stay_indexed(call);
    session_look_take_waits(call, reply);
    call->reading.store = call->store;
    call->reading.session_id = call->session_id;
    call->reading.turns = session_large_turns(call->store, call->claims);
    call->reading.done = on_read;
    call->reading.arg = call;
    session_notes_read(&call->reading, value_at(reply, SESSION_GET_REPLY_OPEN_NOTES),
                       value_at(reply, SESSION_GET_REPLY_OPEN_LOST));
}

static struct look_call *look_call_new(struct store *store, const char *session_id,
                                       session_done *done, void *arg)
{
    struct look_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    snprintf(call->session_id, sizeof(call->session_id), "%s", session_id);
    return call;
}

static void take_held(struct look_call *call, const struct session_keep_alive *keep_alive)
{
    size_t count = keep_alive->held_count;

    call->says_held = keep_alive->says_held;
    call->held = calloc(count + 1, sizeof(*call->held));
    assert(call->held != NULL);
    if (count == 0)
        return;
    memcpy(call->held, keep_alive->held, count * sizeof(*call->held));
    qsort(call->held, count, sizeof(*call->held), session_compare_ids);
    call->held_count = 1;
    for (size_t i = 1; i < count; i++)
        if (session_compare_ids(call->held[call->held_count - 1], call->held[i]) != 0)
            memmove(call->held[call->held_count++], call->held[i], LEASE_ID_SIZE);
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
                store_config(look->store)->retry_window_ms);
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
    call_key(call, SESSION_GET_KEY_WAITS, KEY_SESSION_WAITS, session, NULL);
    if (!look->claims)
        call_number(call, SESSION_GET_ARG_WAIT_LIMIT, SESSION_WAITS_MAX);
    call_send(call, on_looked, look);
}

void session_keep_alive(struct store *store, const char *session_id,
                        const struct session_keep_alive *keep_alive, session_done *done,
                        void *arg)
{
    struct look_call *look = look_call_new(store, session_id, done, arg);

    look->claims = true;
    if (keep_alive->is_repeated) {
        send_get(look);
        return;
    }
    look->is_keep_alive = true;
    take_held(look, keep_alive);
    send_keep_alive(look, keep_alive);
}

int session_look(struct store *store, const char *session_id, size_t limit, const char *cursor,
                 session_done *done, void *arg)
{
    struct session_cursor page = {.limit = limit};

    if (session_cursor_parse(&page, cursor) != 0)
        return -1;
    struct look_call *look = look_call_new(store, session_id, done, arg);
    look->page = page;
    send_get(look);
    return 0;
}
