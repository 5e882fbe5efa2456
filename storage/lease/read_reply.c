/* How a reply about a lease is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/lease/send.h"
#include "storage/store/reply_word.h"

static const struct reply_word reply_words[] = {
    {"granted", LEASE_GRANTED, METRIC_GRANTS},
    {"held", LEASE_HELD, METRIC_COUNT},
    {"busy", LEASE_BUSY, METRIC_COUNT},
    {"released", LEASE_RELEASED, METRIC_RELEASES},
    {"ended", LEASE_ENDED, METRIC_COUNT},
    {"reused", LEASE_REUSED, METRIC_COUNT},
    {"wrong-kind", LEASE_WRONG_KIND, METRIC_COUNT},
    {"upgrade", LEASE_UPGRADE, METRIC_COUNT},
    {"too-many", LEASE_TOO_MANY, METRIC_COUNT},
    {"many-reads", LEASE_MANY_READS, METRIC_COUNT},
    {"unknown", LEASE_ENDED, METRIC_COUNT},
    {"waiting", LEASE_BUSY, METRIC_COUNT}, /* this and the next words are of lease_claim.lua */
    {"gone", LEASE_ENDED, METRIC_COUNT},
    {"lost", LEASE_ENDED, METRIC_COUNT},
    /* Of a quorum, where the note in the session goes with the votes. */
    {"session-ended", LEASE_SESSION_ENDED, METRIC_COUNT},
    {"session-full", LEASE_SESSION_FULL, METRIC_COUNT},
};

/* A reply that is being read. */
struct reader {
    struct lease_reading *out;
    const struct store *store;
    const struct lease *lease;
    bool is_attempt;
    const struct redis_result *from;
};

/* The numbers of a text, a blank between them; 0 for those that are missing. */
static int64_t next_number(const char **text)
{
    char *end;
    int64_t number = strtoll(*text, &end, 10);

    *text = end;
    return number;
}

static void read_holds(struct lease_reading *reading, const struct redis_value *tokens,
                       const struct redis_value *counts, size_t count)
{
    size_t len;
    const char *token = value_text(tokens, &len), *held = value_text(counts, &len);

    for (size_t i = 0; i < count; i++) {
        reading->holds[i].fencing_token = next_number(&token);
        reading->holds[i].hold_count = next_number(&held);
    }
}

static int64_t ms_left(const struct reader *reader, int64_t ms)
{
    return store_ms_left(ms, reader->from->sent_ns);
}

static void read_hold(const struct reader *reader)
{
    struct lease_reading *reading = reader->out;
    struct lease_result *out = &reading->result;
    const struct redis_value *reply = reader->from->reply;
    const struct lease *lease = reader->lease;
    bool is_as_asked = out->outcome == LEASE_GRANTED ||
                       (!reader->is_attempt && lease->ttl_ms > 0);
    size_t len;
    const char *text = value_text(value_at(reply, ACQUIRE_REPLY_HELD_RECORD), &len);

    lease_record_parse(&reading->record, text, len);
    if (out->outcome != LEASE_GRANTED)
        out->record = &reading->record;
    out->remaining_ms = ms_left(
        reader, value_integer(value_at(reply, ACQUIRE_REPLY_HELD_REMAINING_MS)));
    out->ttl_ms = is_as_asked ? lease->ttl_ms : reading->record.ttl_ms;
    out->holds = reading->holds;
    out->hold_count = lease->names->count;
    switch (kind_row(lease->kind)->family) {
    case FAMILY_LOCK:
        reading->holds[0].fencing_token = value_integer(
            value_at(reply, ACQUIRE_REPLY_HELD_TOKEN));
        reading->holds[0].hold_count = value_integer(value_at(reply, ACQUIRE_REPLY_HELD_HOLDS));
        return;
    case FAMILY_SET:
        read_holds(reading, value_at(reply, ACQUIRE_REPLY_HELD_TOKEN),
                   value_at(reply, ACQUIRE_REPLY_HELD_HOLDS), out->hold_count);
        return;
    case FAMILY_PERMIT:
        out->available = value_integer(
            value_at(reply, PERMIT_ACQUIRE_REPLY_GRANTED_FREE_PERMITS));
        out->next_end_ms = value_integer(
            value_at(reply, PERMIT_ACQUIRE_REPLY_GRANTED_NEXT_END_MS));
        return;
    case FAMILY_SEMAPHORE:
    case FAMILY_LATCH:
    case FAMILY_COUNT:
        return; /* have no leases */
    }
}

/* The holder is a Java client, or a lease without a record: a holder that blocks a reader or a
 * writer reads or writes itself. */
static void read_kind(struct lock_holder *holder, enum object_kind wanted)
{
    bool is_writer = lock_holder_len(holder->field) < strlen(holder->field);

    if (kind_row(wanted)->shares_holder)
        snprintf(holder->kind, sizeof(holder->kind), "%s", is_writer ? "write" : "read");
}

static void read_busy(const struct reader *reader)
{
    struct lease_result *out = &reader->out->result;
    struct lock_holder *holder = &reader->out->holder;
    const struct redis_value *reply = reader->from->reply;
    size_t len;
    const char *text = value_text(value_at(reply, ACQUIRE_REPLY_BUSY_TEXT), &len);

    out->remaining_ms = ms_left(
        reader, value_integer(value_at(reply, ACQUIRE_REPLY_BUSY_REMAINING_MS)));
    out->blocking_index = (size_t)value_integer(value_at(reply, SET_ACQUIRE_REPLY_BUSY_NUMBER));
    memset(holder, 0, sizeof(*holder));
    lock_copy_text(value_at(reply, ACQUIRE_REPLY_BUSY_FIELD), holder->field,
                   sizeof(holder->field));
    holder->hold_count = value_integer(value_at(reply, ACQUIRE_REPLY_BUSY_HOLDS));
    lock_holder_parse(holder, text, len);
    if (holder->fencing_token == 0)
        holder->fencing_token = value_integer(value_at(reply, ACQUIRE_REPLY_BUSY_TOKEN));
    if (holder->kind[0] == '\0')
        read_kind(holder, reader->lease->kind);
    if (holder->field[0] != '\0')
        out->holder = holder;
}

/* The bare replies of the common case: a fencing token for a grant, the holds left for a
 * release. */
static bool read_bare_reply(const struct reader *reader)
{
    struct lease_reading *reading = reader->out;
    struct lease_result *out = &reading->result;
    const struct redis_value *reply = reader->from->reply;
    size_t len;
    const char *token = value_text(reply, &len);

    if (value_is_integer(reply)) {
        out->outcome = LEASE_RELEASED;
        out->holds_left = value_integer(reply);
        metrics_add(store_metrics(reader->store), METRIC_RELEASES, 1);
        return true;
    }
    if (!text_parse_int64(token, &reading->holds[0].fencing_token))
        return false;
    out->outcome = LEASE_GRANTED;
    out->remaining_ms = ms_left(reader, reader->lease->ttl_ms);
    out->ttl_ms = reader->lease->ttl_ms;
    reading->holds[0].hold_count = 1;
    out->holds = reading->holds;
    out->hold_count = 1;
    metrics_add(store_metrics(reader->store), METRIC_GRANTS, 1);
    return true;
}

/* A caller, a newline and a reason. */
static void read_forced(struct lease_reading *reading, const struct redis_value *value)
{
    lock_copy_text(value, reading->forced, sizeof(reading->forced));
    char *newline = strchr(reading->forced, '\n');
    if (newline == NULL)
        return;
    *newline = '\0';
    reading->result.forced_by = reading->forced;
    reading->result.forced_reason = newline + 1;
}

static void read_end(const struct reader *reader)
{
    struct lease_result *out = &reader->out->result;
    const struct redis_value *reply = reader->from->reply;

    lock_copy_text(value_at(reply, ACQUIRE_REPLY_ENDED_REASON), out->reason,
                   sizeof(out->reason));
    lock_copy_text(value_at(reply, ACQUIRE_REPLY_ENDED_SESSION_ID), out->session_id,
                   sizeof(out->session_id));
    lock_copy_text(value_at(reply, ACQUIRE_REPLY_ENDED_KIND), reader->out->record.kind,
                   sizeof(reader->out->record.kind));
    if (strlen(out->session_id) != SESSION_ID_SIZE - 1) /* the kind, of lease_claim.lua */
        out->session_id[0] = '\0';
    if (out->reason[0] == '\0')
        memcpy(out->reason, "unknown", sizeof("unknown"));
    read_forced(reader->out, value_at(reply, ACQUIRE_REPLY_ENDED_FORCED_BY));
}

static void read_details(const struct reader *reader)
{
    struct lease_result *out = &reader->out->result;
    const struct redis_value *reply = reader->from->reply;

    switch (out->outcome) {
    case LEASE_GRANTED:
    case LEASE_HELD:
        read_hold(reader);
        return;
    case LEASE_BUSY:
        read_busy(reader);
        return;
    case LEASE_RELEASED:
        out->holds_left = value_integer(value_at(reply, RELEASE_REPLY_RELEASED_HOLDS_LEFT));
        lock_copy_text(value_at(reply, RELEASE_REPLY_RELEASED_SESSION_ID), out->session_id,
                       sizeof(out->session_id));
        store_observe_hold(reader->store, lease_name(reader->lease),
                           value_integer(value_at(reply, RELEASE_REPLY_RELEASED_TOKEN)));
        return;
    case LEASE_ENDED:
        read_end(reader);
        return;
    case LEASE_WRONG_KIND:
    case LEASE_UPGRADE:
    case LEASE_TOO_MANY:
    case LEASE_MANY_READS:
        out->blocking_index = (size_t)value_integer(
            value_at(reply, SET_ACQUIRE_REPLY_WRONG_KIND_NUMBER));
        return;
    case LEASE_SESSION_ENDED:
        lock_copy_text(value_at(reply, SESSION_BIND_REPLY_ENDED_REASON), out->reason,
                       sizeof(out->reason));
        return;
    case LEASE_SESSION_FULL:
    case LEASE_REUSED:
    case LEASE_FAILED:
        return; /* the word says all */
    }
}

void lease_reading_read(struct lease_reading *reading, const struct store *store,
                        const struct lease *lease, bool is_attempt,
                        const struct redis_result *result)
{
    const struct reader reader = {.out = reading,
                                  .store = store,
                                  .lease = lease,
                                  .is_attempt = is_attempt,
                                  .from = result};
    struct lease_result *out = &reading->result;

    *out = (struct lease_result){
        .outcome = LEASE_FAILED, .failure = call_outcome_of(result), .remaining_ms = -1};
    if (out->failure == CALL_WRONG_TYPE)
        out->outcome = LEASE_WRONG_KIND;
    if (out->failure != CALL_DONE || read_bare_reply(&reader))
        return;
    const struct reply_word *row = reply_word_find(
        reply_words, sizeof(reply_words) / sizeof(reply_words[0]), result->reply);
    if (row == NULL) { /* no reply of this script: the key has another type */
        out->failure = CALL_UNKNOWN;
        return;
    }
    out->outcome = (enum lease_outcome)row->outcome;
    if (row->metric != METRIC_COUNT)
        metrics_add(store_metrics(store), row->metric, 1);
    read_details(&reader);
}

void lease_reading_copy(struct lease_reading *to, const struct lease_reading *from)
{
    const struct lease_result *result = &from->result;

    *to = *from;
    if (result->holds != NULL)
        to->result.holds = to->holds;
    if (result->record != NULL)
        to->result.record = &to->record;
    if (result->holder != NULL)
        to->result.holder = &to->holder;
    if (result->forced_by != NULL) {
        to->result.forced_by = to->forced;
        to->result.forced_reason = to->forced + (result->forced_reason - from->forced);
    }
}
