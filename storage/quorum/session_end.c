/* The end of a session (S1, S2 of docs/quorum.md): by its client or an operator everywhere, for
 * its deadline where a majority has found that it has passed. */
#include <stdlib.h>
#include <string.h>

#include "storage/quorum/calls_internal.h"

/* --- closing ------------------------------------------------------------------------------ */

static const struct call_word end_words[] = {
    {"released", NODE_ENDED, 0},
    {"ended", NODE_ENDED, 0},
    {"open", NODE_OPEN, SESSION_END_REPLY_OPEN_REMAINING_MS},
};

/* Of session_end.lua with the reason "expired": whether the session is over at the server now.
 */
static void read_shut(const struct quorum_call *call, struct node_reply *replies)
{
    quorum_call_words(call, WORDS(end_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_ENDED && value_count(call->round.replies[i].value) <= 2 &&
            strcmp(quorum_value_text(call, i, SESSION_GET_REPLY_ENDED_REASON), "unknown") == 0)
            replies[i].word = NODE_UNKNOWN;
}

static void put_end(const struct quorum_call *call, struct script_args *args,
                    struct redis_tag id, const char *reason,
                    char texts[SESSION_END_KEYS][SESSION_KEY_SIZE])
{
    static const enum quorum_key keys[SESSION_END_KEYS] = {
        [SESSION_END_KEY_SESSION] = QUORUM_KEY_SESSION,
        [SESSION_END_KEY_NOTES] = QUORUM_KEY_SESSION_LEASES,
        [SESSION_END_KEY_DUE] = QUORUM_KEY_SESSION_DUE,
        [SESSION_END_KEY_LOST] = QUORUM_KEY_SESSION_LOST};

    args_init(args);
    quorum_put_session_keys(call->calls, args, keys, SESSION_END_KEYS, id, texts);
    args_string(args, SESSION_END_ARG_REASON, reason);
    args_number(args, SESSION_END_ARG_WINDOW_MS, call->calls->options.config->retry_window_ms);
    args_number(args, SESSION_END_ARG_BATCH, 1); /* the watchdog works the leases off */
    args_number(args, SESSION_END_ARG_HELD, 0);
}

static int64_t repeat_ms(const struct quorum_call *call)
{
    return quorum_memory_ms(call->calls->options.config->retry_window_ms);
}

static void decide_shut(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    struct script_args args;
    char texts[SESSION_END_KEYS][SESSION_KEY_SIZE];

    read_shut(call, replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_SHUT, conclude_shuts,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word != CONCLUDE_CLOSE) {
        quorum_call_fail(call);
        return;
    }
    const struct script_text *session = &call->made->keys[SESSION_END_KEY_SESSION];
    struct redis_tag id = redis_tag_of(session->text, session->len);
    put_end(call, &args, id, "closed", texts);
    quorum_call_repeat(call, SCRIPT_SESSION_END, &args, quorum_call_all(call), repeat_ms(call));
    quorum_call_answer_kept(call);
}

void quorum_session_close(struct quorum_call *call, struct redis_tag id)
{
    char texts[SESSION_END_KEYS][SESSION_KEY_SIZE];
    struct script_args args;

    put_end(call, &args, id, "expired", texts);
    free(call->made);
    call->made = args_copy(&args);
    call->was_sent = true;
    quorum_call_ask(call, SCRIPT_SESSION_END, call->made, decide_shut);
}

/* --- end ---------------------------------------------------------------------------------- */

static const struct call_word released_words[] = {
    {"released", NODE_RELEASED, SESSION_END_REPLY_RELEASED_COUNT},
    {"ended", NODE_ENDED, 0},
    {"open", NODE_OPEN, SESSION_END_REPLY_OPEN_REMAINING_MS},
};

/* Each server counts the leases that it had notes of. */
static void answer_released(struct quorum_call *call)
{
    struct redis_value *reply = value_make_list(SESSION_END_REPLY_RELEASED_REFS + 1);
    struct node_reply replies[QUORUM_NODES_MAX];
    size_t most = (size_t)quorum_arg_ms(call, SESSION_END_ARG_BATCH);
    int64_t count = 0;

    quorum_call_words(call, WORDS(released_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_RELEASED && replies[i].value > count)
            count = replies[i].value;
    struct redis_value *refs = quorum_union(call, replies, NODE_RELEASED,
                                            SESSION_END_REPLY_RELEASED_REFS, 1);
    if (value_count(refs) > most)
        value_cut(refs, most);
    value_put(reply, 0, value_make_text("released", sizeof("released") - 1));
    value_put(reply, SESSION_END_REPLY_RELEASED_COUNT, value_make_integer(count));
    value_put(reply, SESSION_END_REPLY_RELEASED_REFS, refs);
    quorum_call_answer(call, reply);
}

/* By its client or an operator. */
static void decide_released(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(released_words), replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_CLOSE, conclude_closings,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word != CONCLUDE_CLOSED) {
        if (round_touched(&call->round) == 0)
            call->after = NULL; /* the client is told that nothing was done */
        quorum_call_fail(call);
    } else if (quorum_count(call, replies, NODE_ENDED) >= quorum_majority(call->calls->nodes)) {
        quorum_session_answer_ended(call, quorum_end_reason(call, replies));
    } else {
        answer_released(call);
    }
}

/* The second round of the watchdog's: everywhere. */
static void decide_closed(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(released_words), replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_CLOSE, conclude_closings,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_CLOSED)
        answer_released(call);
    else
        quorum_call_fail(call);
}

static void close_everywhere(struct quorum_call *call)
{
    args_string(call->args, SESSION_END_ARG_REASON, "closed");
    call->was_sent = true;
    quorum_call_insist(call, SCRIPT_SESSION_END, call->args, repeat_ms(call));
    quorum_call_ask(call, SCRIPT_SESSION_END, call->args, decide_closed);
}

/* By the watchdog: where the deadline has passed. A majority may have the session open, or know
 * nothing of it. */
static enum conclusion_word conclude_expired(const struct quorum_call *call,
                                             const struct node_reply *replies)
{
    const struct conclusion found = quorum_conclude(call, conclude_shuts, replies);
    unsigned needed = quorum_majority(call->calls->nodes);

    if (found.word != CONCLUDE_UNKNOWN)
        return found.word;
    if (quorum_count(call, replies, NODE_OPEN) >= needed)
        return CONCLUDE_KEEP;
    return quorum_count(call, replies, NODE_UNKNOWN) >= needed ? CONCLUDE_GONE
                                                               : CONCLUDE_UNKNOWN;
}

static void decide_expired(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    read_shut(call, replies);
    enum conclusion_word word = conclude_expired(call, replies);
    if (word == CONCLUDE_WAIT)
        return;
    quorum_call_count(call, ROUND_SHUT, word);
    if (word == CONCLUDE_CLOSE)
        close_everywhere(call);
    else if (word == CONCLUDE_KEEP)
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_OPEN, -1));
    else if (word == CONCLUDE_GONE)
        quorum_session_answer_ended(call, "unknown");
    else
        quorum_call_fail(call);
}

void quorum_session_end(struct quorum_call *call)
{
    if (strcmp(quorum_arg(call, SESSION_END_ARG_REASON), "expired") == 0) {
        quorum_call_ask(call, SCRIPT_SESSION_END, call->args, decide_expired);
        return;
    }
    quorum_call_insist(call, SCRIPT_SESSION_END, call->args, repeat_ms(call));
    quorum_call_ask(call, SCRIPT_SESSION_END, call->args, decide_released);
}
