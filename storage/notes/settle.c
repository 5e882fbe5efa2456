/* Writes the verdicts of the locks' homes on leases into the home of their session. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/notes/notes.h"
#include "storage/store/reply_word.h"

struct settlement {
    struct store *store;
    char session_id[SESSION_ID_SIZE];
    const struct lease_ref *refs;
    const struct session_verdict_text *verdicts;
    size_t count, next;
    int64_t deadline_ms, seen_ms;
    session_settled_done *done;
    void *arg;
};

void session_verdict_renewed(struct session_verdict_text *verdict, const char *kind,
                             bool is_marked)
{
    snprintf(verdict->text, sizeof(verdict->text), "renewed %.16s", kind);
    verdict->is_marked = is_marked;
}

void session_verdict_later(struct session_verdict_text *verdict, int64_t ms)
{
    snprintf(verdict->text, sizeof(verdict->text), "later %" PRId64, ms > 0 ? ms : 0);
}

void session_verdict_lost(struct session_verdict_text *verdict, const char *reason,
                          const char *kind)
{
    snprintf(verdict->text, sizeof(verdict->text), "lost %.16s %.16s", reason, kind);
}

void session_copy_word(const struct redis_value *value, char *out, size_t out_size,
                       const char *instead)
{
    lock_copy_text(value, out, out_size);
    size_t len = strlen(out);
    if (len == 0 || strspn(out, "abcdefghijklmnopqrstuvwxyz-") != len)
        snprintf(out, out_size, "%s", instead);
}

bool session_reason_is_loss(const char *reason)
{
    return strcmp(reason, "expired") == 0 || strcmp(reason, "forced") == 0;
}

/* A batch of verdicts to write. */
struct batch {
    size_t count;
    size_t at[SESSION_BATCH]; /* of each in the settlement */
};

static void next_batch(struct settlement *settlement, struct batch *batch)
{
    batch->count = 0;
    while (settlement->next < settlement->count && batch->count < SESSION_BATCH) {
        size_t i = settlement->next++;
        if (settlement->verdicts[i].text[0] != '\0')
            batch->at[batch->count++] = i;
    }
}

/* Fills in the refs of marked leases. Returns the number of the argument behind them. */
static size_t fill_marked(struct store_call *call, const struct settlement *settlement,
                          const struct batch *batch)
{
    size_t at = SESSION_SETTLE_ARG_VERDICTS;

    for (size_t i = 0; i < batch->count; i++) {
        const struct lease_ref *ref = &settlement->refs[batch->at[i]];
        if (settlement->verdicts[batch->at[i]].is_marked)
            call_text(call, at++, ref->text, ref->len);
    }
    call_number(call, SESSION_SETTLE_ARG_MARKED, (int64_t)(at - SESSION_SETTLE_ARG_VERDICTS));
    return at;
}

static void fill_others(struct store_call *call, size_t at, const struct settlement *settlement,
                        const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct lease_ref *ref = &settlement->refs[batch->at[i]];
        const struct session_verdict_text *verdict = &settlement->verdicts[batch->at[i]];
        if (verdict->is_marked)
            continue;
        call_text(call, at++, ref->text, ref->len);
        call_string(call, at++, verdict->text);
    }
}

static void on_settled(void *arg, const struct redis_result *result);

/* False: no verdict is left. */
static bool send_batch(struct settlement *settlement)
{
    const struct config *config = store_config(settlement->store);
    struct key_base session = call_base(settlement->session_id);
    struct batch batch;

    next_batch(settlement, &batch);
    if (batch.count == 0)
        return false;
    struct store_call *call = call_begin(settlement->store, SCRIPT_SESSION_SETTLE);
    call_key(call, SESSION_SETTLE_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_SETTLE_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_SETTLE_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_key(call, SESSION_SETTLE_KEY_LOST, KEY_SESSION_LOST, session, NULL);
    call_number(call, SESSION_SETTLE_ARG_WINDOW_MS, config->retry_window_ms);
    call_number(call, SESSION_SETTLE_ARG_AGAIN_MS, watchdog_period_ms(config));
    if (settlement->deadline_ms > 0)
        call_number(call, SESSION_SETTLE_ARG_DEADLINE, settlement->deadline_ms);
    if (settlement->seen_ms > 0)
        call_number(call, SESSION_SETTLE_ARG_SEEN, settlement->seen_ms);
    fill_others(call, fill_marked(call, settlement, &batch), settlement, &batch);
    call_send(call, on_settled, settlement);
    return true;
}

/* `losses`: ref, reason and kind of each. */
static void log_losses(const struct settlement *settlement, const struct redis_value *losses)
{
    char reason[LEASE_REASON_SIZE], kind[KIND_NAME_SIZE];
    struct lease_ref ref;
    size_t len;

    for (size_t i = 0; i < value_count(losses); i += SESSION_SETTLE_REPLY_LOSS_VALUES) {
        const char *text = value_text(value_at(losses, i + SESSION_SETTLE_REPLY_LOSS_REF),
                                      &len);
        session_copy_word(value_at(losses, i + SESSION_SETTLE_REPLY_LOSS_REASON), reason,
                          sizeof(reason), "unknown");
        session_copy_word(value_at(losses, i + SESSION_SETTLE_REPLY_LOSS_KIND), kind,
                          sizeof(kind), "lock");
        lease_ref_copy(&ref, text, len);
        if (ref.lock_count > 0)
            session_log_loss(settlement->store, settlement->session_id, &ref, reason, kind);
        lease_ref_release(&ref);
    }
}

static void read_settled(struct session_settled *settled, const struct redis_result *result)
{
    static const struct reply_word words[] = {{"open", SESSION_BOUND, METRIC_COUNT},
                                              {"ended", SESSION_BIND_ENDED, METRIC_COUNT}};
    const struct reply_word *word = NULL;

    *settled = (struct session_settled){.outcome = SESSION_BIND_FAILED,
                                        .failure = CALL_UNKNOWN};
    if (result->outcome != REDIS_DONE)
        settled->failure = call_outcome_of(result);
    else
        word = reply_word_find(words, sizeof(words) / sizeof(words[0]), result->reply);
    if (word == NULL)
        return;
    settled->outcome = (enum session_bind_outcome)word->outcome;
    if (settled->outcome == SESSION_BOUND)
        settled->next_ms = value_integer(
            value_at(result->reply, SESSION_SETTLE_REPLY_OPEN_NEXT_MS));
    else
        lock_copy_text(value_at(result->reply, SESSION_SETTLE_REPLY_ENDED_REASON),
                       settled->reason, sizeof(settled->reason));
}

static void on_settled(void *arg, const struct redis_result *result)
{
    struct settlement *settlement = arg;
    struct session_settled settled;

    read_settled(&settled, result);
    log_losses(settlement, value_at(result->reply, SESSION_SETTLE_REPLY_OPEN_LOSSES));
    if (settled.outcome == SESSION_BOUND && send_batch(settlement))
        return;
    settlement->done(settlement->arg, &settled);
    free(settlement);
}

bool session_settle_all(struct store *store, const char *session_id,
                        const struct lease_ref *refs,
                        const struct session_verdict_text *verdicts, size_t count,
                        int64_t deadline_ms, int64_t seen_ms, session_settled_done *done,
                        void *arg)
{
    struct settlement *settlement = calloc(1, sizeof(*settlement));

    assert(settlement != NULL);
    settlement->store = store;
    snprintf(settlement->session_id, sizeof(settlement->session_id), "%s", session_id);
    settlement->refs = refs;
    settlement->verdicts = verdicts;
    settlement->count = count;
    settlement->deadline_ms = deadline_ms;
    settlement->seen_ms = seen_ms;
    settlement->done = done;
    settlement->arg = arg;
    if (send_batch(settlement))
        return true;
    free(settlement);
    return false;
}
