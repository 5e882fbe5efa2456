/* The watchdog (S4 of docs/quorum.md): what is due at one of the servers, and the leases that a
 * majority renews. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/quorum/calls_internal.h"

static bool has_majority(const struct quorum_call *call)
{
    unsigned count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        count += call->round.replies[i].state == ROUND_REPLIED;
    return count >= quorum_majority(call->calls->nodes);
}

/* --- the indices -------------------------------------------------------------------------- */

static void decide_index_set(struct quorum_call *call)
{
    int64_t least = INT64_MAX;

    if (!has_majority(call)) {
        if (call->round.is_over)
            quorum_call_fail(call);
        return;
    }
    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct round_reply *reply = &call->round.replies[i];
        if (reply->state == ROUND_REPLIED && value_integer(reply->value) < least)
            least = value_integer(reply->value);
    }
    quorum_call_answer(call, value_make_integer(least));
}

void quorum_index_set(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_INDEX_SET, call->args, decide_index_set);
}

/* Of each partition the next visit at any server, if one is known. */
static struct redis_value *merge_next_visits(const struct quorum_call *call)
{
    size_t count = call->args->key_count;
    struct redis_value *list = value_make_list(count);

    for (size_t k = 0; k < count; k++) {
        int64_t least = -1;
        for (size_t i = 0; i < call->calls->nodes; i++) {
            const struct redis_value *own = quorum_value(call, i,
                                                         INDEX_CLAIM_REPLY_NEXT_VISITS);
            int64_t in_ms = value_count(own) == count ? value_integer(value_at(own, k)) : -1;
            if (in_ms >= 0 && (least < 0 || in_ms < least))
                least = in_ms;
        }
        value_put(list, k, value_make_integer(least));
    }
    return list;
}

static void decide_index_claim(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    if (!has_majority(call)) {
        if (call->round.is_over)
            quorum_call_fail(call);
        return;
    }
    for (size_t i = 0; i < call->calls->nodes; i++)
        replies[i] = (struct node_reply){
            .word = call->round.replies[i].state == ROUND_REPLIED ? NODE_OPEN : NODE_SILENT};
    struct redis_value *reply = value_make_list(INDEX_CLAIM_REPLY_VALUES);
    value_put(reply, INDEX_CLAIM_REPLY_CLAIM,
              value_make_integer(quorum_arg_ms(call, INDEX_CLAIM_ARG_CLAIM_MS)));
    value_put(reply, INDEX_CLAIM_REPLY_FOUND,
              quorum_union(call, replies, NODE_OPEN, INDEX_CLAIM_REPLY_FOUND, 1));
    value_put(reply, INDEX_CLAIM_REPLY_NEXT_VISITS, merge_next_visits(call));
    quorum_call_answer(call, reply);
}

/* The servers ask a majority of the indices for what is due, each with one claim: a number that
 * is the same at all of them, though their clocks differ. What is due at one of them is
 * visited, and the end of the visit sets the time of the next one at all: so the indices agree.
 */
void quorum_index_claim(struct quorum_call *call)
{
    args_number(call->args, INDEX_CLAIM_ARG_CLAIM_MS,
                quorum_clock_ms(call->calls) + quorum_arg_ms(call, INDEX_CLAIM_ARG_CLAIM_MS));
    quorum_call_ask(call, SCRIPT_INDEX_CLAIM, call->args, decide_index_claim);
}

/* --- what is due in a session ------------------------------------------------------------- */

static const struct call_word due_words[] = {
    {"open", NODE_OPEN, 0},
    {"idle", NODE_OPEN, SESSION_DUE_REPLY_IDLE_LEFT_MS},
    {"expired", NODE_ENDED, 0},
    {"unknown", NODE_UNKNOWN, 0},
};

static const char MARK[] = ".5"; /* of a score: see session_settle.lua */

static bool has_due(const struct quorum_call *call, size_t node)
{
    return strcmp(quorum_value_text(call, node, 0), "open") == 0;
}

/* The deadline of an open reply is by the server's clock, as its time is. */
static void read_due(const struct quorum_call *call, struct node_reply *replies)
{
    quorum_session_words(call, WORDS(due_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_OPEN && has_due(call, i))
            replies[i].value =
                value_integer(quorum_value(call, i, SESSION_DUE_REPLY_OPEN_DEADLINE_MS)) -
                value_integer(quorum_value(call, i, SESSION_DUE_REPLY_OPEN_NOW_MS));
}

/* The leases that are due at a server, each with its score, which a server leaves out where all
 * have one. A mark counts only if every server has it for each of its leases. */
static struct redis_value *due_of(const struct quorum_call *call, size_t node, bool has_marks)
{
    const struct redis_value *due = quorum_value(call, node, SESSION_DUE_REPLY_OPEN_DUE);
    const struct redis_value *score = quorum_value(call, node, SESSION_DUE_REPLY_OPEN_SCORE);
    size_t stride = score == NULL ? SESSION_DUE_REPLY_DUE_VALUES : 1;
    size_t count = value_count(due) / stride, len;
    struct redis_value *list = value_make_list(count * SESSION_DUE_REPLY_DUE_VALUES);

    for (size_t i = 0; i < count; i++) {
        const struct redis_value *own = score != NULL
                                            ? score
                                            : value_at(due, i * stride +
                                                                SESSION_DUE_REPLY_DUE_SCORE);
        const char *text = value_text(own, &len);
        const char *mark = strstr(text, MARK);
        if (mark != NULL && !has_marks)
            len = (size_t)(mark - text);
        value_put(list, i * SESSION_DUE_REPLY_DUE_VALUES + SESSION_DUE_REPLY_DUE_REF,
                  value_copy(value_at(due, i * stride + SESSION_DUE_REPLY_DUE_REF)));
        value_put(list, i * SESSION_DUE_REPLY_DUE_VALUES + SESSION_DUE_REPLY_DUE_SCORE,
                  value_make_text(text, len));
    }
    return list;
}

/* Whether all leases that are due have one score with the mark at each server that replied. */
static bool all_are_marked(const struct quorum_call *call, const struct node_reply *replies)
{
    size_t len;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *score = quorum_value(call, i, SESSION_DUE_REPLY_OPEN_SCORE);
        if (replies[i].word == NODE_OPEN &&
            (!has_due(call, i) || strstr(value_text(score, &len), MARK) == NULL))
            return false;
    }
    return true;
}

static struct redis_value *merge_due(const struct quorum_call *call,
                                     const struct node_reply *replies)
{
    bool has_marks = all_are_marked(call, replies);
    size_t most = (size_t)quorum_arg_ms(call, SESSION_DUE_ARG_BATCH) *
                  SESSION_DUE_REPLY_DUE_VALUES;
    struct redis_value *lists[QUORUM_NODES_MAX] = {NULL};
    struct value_union all;
    size_t entries = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_OPEN || !has_due(call, i))
            continue;
        lists[i] = due_of(call, i, has_marks);
        entries += value_count(lists[i]) / SESSION_DUE_REPLY_DUE_VALUES;
    }
    quorum_union_begin(&all, SESSION_DUE_REPLY_DUE_VALUES, entries);
    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (lists[i] != NULL)
            quorum_union_add(&all, lists[i]);
        value_free(lists[i]);
    }
    struct redis_value *due = quorum_union_end(&all);
    if (value_count(due) > most) /* the next batch has the rest */
        value_cut(due, most);
    return due;
}

static void answer_idle(struct quorum_call *call, const struct node_reply *replies)
{
    struct redis_value *reply = value_make_list(SESSION_DUE_REPLY_IDLE_NEXT_MS + 1);
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        int64_t own = value_integer(quorum_value(call, i, SESSION_DUE_REPLY_IDLE_NEXT_MS));
        if (replies[i].word == NODE_OPEN && own < least)
            least = own;
    }
    value_put(reply, 0, value_make_text("idle", sizeof("idle") - 1));
    value_put(reply, SESSION_DUE_REPLY_IDLE_NEXT_MS, value_make_integer(least));
    quorum_call_answer(call, reply);
}

static void answer_due(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = call->calls->nodes;

    quorum_session_mend_later(call);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_OPEN && has_due(call, i))
            node = i;
    if (node == call->calls->nodes) {
        answer_idle(call, replies);
        return;
    }
    struct redis_value *reply = value_make_list(SESSION_DUE_REPLY_OPEN_DEADLINE_MS + 1);
    for (size_t i = 0; i <= SESSION_DUE_REPLY_OPEN_DEADLINE_MS; i++)
        value_put(reply, i, value_copy(quorum_value(call, node, i)));
    int64_t asked_ms = clock_ns() / CLOCK_NS_PER_MS - call->ask.sent_ms; /* so long ago */
    value_put(reply, SESSION_DUE_REPLY_OPEN_NOW_MS,
              value_make_integer(quorum_clock_ms(call->calls) - asked_ms));
    value_put(reply, SESSION_DUE_REPLY_OPEN_DUE, merge_due(call, replies));
    quorum_call_answer(call, reply);
}

/* The session is over, or nothing is left of it. */
static void answer_over(struct quorum_call *call, const struct node_reply *replies)
{
    const char *reason = quorum_end_reason(call, replies);
    size_t node = call->calls->nodes;

    for (size_t i = 0; i < call->calls->nodes; i++)
        if ((replies[i].word == NODE_ENDED || replies[i].word == NODE_PASSED) &&
            strcmp(quorum_value_text(call, i, SESSION_DUE_REPLY_EXPIRED_REASON), reason) == 0)
            node = i;
    if (node < call->calls->nodes)
        quorum_call_answer_reply(call, node);
    else
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_UNKNOWN, -1));
}

static void decide_due(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    read_due(call, replies);
    const struct conclusion found = quorum_session_conclude(call, ROUND_DUE, conclude_due,
                                                            replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_KEEP)
        answer_due(call, replies);
    else if (found.word == CONCLUDE_SHUT || found.word == CONCLUDE_GONE)
        answer_over(call, replies);
    else
        quorum_call_fail(call);
}

void quorum_due(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SESSION_DUE, call->args, decide_due);
}

/* --- leases ------------------------------------------------------------------------------- */

/* Renews a lease that some server lacks at all servers, with the repair that follows (R2).
 * `keys`: lock and record of each lock. */
static void renew_and_repair(const struct quorum_call *call, const struct script_text *keys,
                             size_t locks, const char *lease_id, size_t len)
{
    const struct quorum_calls_options *options = &call->calls->options;
    char *counters = malloc(locks * options->key_size), *counter = counters;
    struct script_args args;

    assert(counters != NULL);
    args_init(&args);
    for (size_t i = 0; i < locks; i++, counter += options->key_size) {
        const struct script_text *lock = &keys[i * LEASE_WATCH_KEYS + LEASE_WATCH_KEY_LOCK];
        const struct script_text *record = &keys[i * LEASE_WATCH_KEYS + LEASE_WATCH_KEY_RECORD];
        args_key(&args, i * RENEW_KEYS + RENEW_KEY_LOCK, lock->text, lock->len);
        args_key(&args, i * RENEW_KEYS + RENEW_KEY_RECORD, record->text, record->len);
        args_key(&args, i * RENEW_KEYS + RENEW_KEY_COUNTER, counter,
                 options->write_key(counter, QUORUM_KEY_COUNTER, lock->text, lock->len));
    }
    args_text(&args, RENEW_ARG_LEASE_ID, lease_id, len);
    args_number(&args, RENEW_ARG_TTL_MS, options->config->watchdog_timeout_ms);
    args_number(&args, RENEW_ARG_WINDOW_MS, options->config->retry_window_ms);
    args_string(&args, RENEW_ARG_WATCHDOG, "visit");
    quorum_renew(quorum_call_inside(call, SCRIPT_RENEW, &args));
    free(counters);
}

/* The token with which each server has renewed lease number `i`; GONE: it has not. */
static void read_token(const struct quorum_call *call, size_t i, struct node_reply *replies)
{
    for (size_t k = 0; k < call->calls->nodes; k++) {
        int64_t token = value_integer(quorum_value(call, k, i));
        replies[k].word = NODE_SILENT;
        if (call->round.replies[k].state == ROUND_REPLIED)
            replies[k] = (struct node_reply){.word = token > 0 ? NODE_HELD : NODE_GONE,
                                             .value = token};
    }
}

static struct conclusion conclude_lease(const struct quorum_call *call, size_t i)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    read_token(call, i, replies);
    return quorum_conclude(call, conclude_renewals, replies);
}

/* Once each server has replied, or is late: those that may lack a lease get it. */
static void mend_many(struct quorum_call *call)
{
    enum { RECORD_ID_LEN = 36 }; /* the record of one lock ends in the lease id */

    if (!call->round.is_over)
        return;
    for (size_t i = 0; i < call->args->key_count / LEASE_WATCH_KEYS; i++) {
        const struct script_text *keys = &call->args->keys[i * LEASE_WATCH_KEYS];
        const struct script_text *record = &keys[LEASE_WATCH_KEY_RECORD];
        const struct conclusion found = conclude_lease(call, i);
        if (found.word == CONCLUDE_RENEWED && found.mend != 0 && record->len > RECORD_ID_LEN)
            renew_and_repair(call, keys, 1, record->text + record->len - RECORD_ID_LEN,
                             RECORD_ID_LEN);
    }
    quorum_call_free(call);
}

static void decide_watch_many(struct quorum_call *call)
{
    size_t count = call->args->key_count / LEASE_WATCH_KEYS;

    if (!call->round.is_over && !has_majority(call))
        return;
    for (size_t i = 0; i < count && !call->round.is_over; i++)
        if (conclude_lease(call, i).word == CONCLUDE_WAIT)
            return;
    if (!has_majority(call)) {
        quorum_call_fail(call);
        return;
    }
    struct redis_value *reply = value_make_list(count);
    for (size_t i = 0; i < count; i++) {
        const struct conclusion found = conclude_lease(call, i);
        quorum_call_count(call, ROUND_WATCH, found.word);
        value_put(reply, i, value_make_integer(found.word == CONCLUDE_RENEWED));
    }
    call->after = mend_many;
    quorum_call_answer(call, reply);
}

void quorum_watch_many(struct quorum_call *call)
{
    quorum_call_reckon(call, quorum_arg_ms(call, WATCH_MANY_ARG_TIMEOUT_MS));
    quorum_call_ask(call, SCRIPT_WATCH_MANY, call->args, decide_watch_many);
}

static const struct call_word watch_words[] = {
    {"renewed", NODE_HELD, LEASE_WATCH_REPLY_RENEWED_TOKEN},
    {"ends", NODE_CLAIMED, LEASE_WATCH_REPLY_ENDS_MS},
    {"waiting", NODE_BUSY, 0},
    {"gone", NODE_GONE, 0},
    {"lapsed", NODE_LAPSED, 0},
    {"ended", NODE_ENDED, 0},
    {"restarted", NODE_RESTARTED, 0},
    {"reused", NODE_OTHER, 0},
};

static bool lacks_watched(const struct quorum_call *call, const struct node_reply *reply)
{
    return reply->word == NODE_GONE || reply->word == NODE_LAPSED || reply->word == NODE_BUSY ||
           reply->word == NODE_RESTARTED ||
           (reply->word == NODE_HELD && reply->value != call->ask.token);
}

/* Servers that may lack a lease which a majority has renewed get it. */
static void mend_watched(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    bool lacks = false;

    if (!call->round.is_over)
        return;
    quorum_call_words(call, WORDS(watch_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        lacks = lacks || lacks_watched(call, &replies[i]);
    if (lacks)
        renew_and_repair(call, call->args->keys, call->args->key_count / LEASE_WATCH_KEYS,
                         call->args->args[LEASE_WATCH_ARG_LEASE_ID].text,
                         call->args->args[LEASE_WATCH_ARG_LEASE_ID].len);
    quorum_call_free(call);
}

/* The lease ends by itself, in this time: a majority has it for so long. */
static void answer_ends(struct quorum_call *call, int64_t left_ms)
{
    struct redis_value *reply = value_make_list(LEASE_WATCH_REPLY_ENDS_MS + 1);

    value_put(reply, 0, value_make_text("ends", sizeof("ends") - 1));
    value_put(reply, LEASE_WATCH_REPLY_ENDS_MS, value_make_integer(left_ms));
    quorum_call_answer(call, reply);
}

static void decide_watch(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX], asked[QUORUM_NODES_MAX];
    struct repair_keys keys = {.stride = LEASE_WATCH_KEYS, .record = LEASE_WATCH_KEY_RECORD};

    quorum_call_words(call, WORDS(watch_words), replies);
    if (quorum_count(call, replies, NODE_CLAIMED) >= quorum_majority(call->calls->nodes)) {
        quorum_call_count(call, ROUND_WATCH, CONCLUDE_KEEP);
        answer_ends(call, quorum_majority_value(call, replies, NODE_CLAIMED));
        return;
    }
    memcpy(asked, replies, sizeof(asked));
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (asked[i].word == NODE_LAPSED || asked[i].word == NODE_ENDED ||
            asked[i].word == NODE_OTHER)
            asked[i].word = NODE_GONE;
    const struct conclusion found = quorum_call_conclude(call, ROUND_WATCH, conclude_renewals,
                                                         asked);
    switch (found.word) {
    case CONCLUDE_WAIT:
        return;
    case CONCLUDE_RENEWED:
        call->ask.token = found.token;
        call->after = mend_watched;
        quorum_call_answer(
            call,
            value_copy(
                call->round.replies[quorum_call_find(call, replies, NODE_HELD, found.token)]
                    .value));
        return;
    case CONCLUDE_BUSY:
    case CONCLUDE_END:
        keys.window_ms = quorum_arg_ms(call, LEASE_WATCH_ARG_WINDOW_MS);
        quorum_answer_unheld(call, replies, &keys);
        return;
    default:
        quorum_call_fail(call);
        return;
    }
}

void quorum_watch(struct quorum_call *call)
{
    quorum_call_reckon(call, quorum_arg_ms(call, LEASE_WATCH_ARG_TIMEOUT_MS));
    quorum_call_ask(call, SCRIPT_LEASE_WATCH, call->args, decide_watch);
}
