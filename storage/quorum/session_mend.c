/* Gives a session to servers that lack it, or its later deadline (S2, S3 of docs/quorum.md). */
#include <string.h>

#include "server/base/clock.h"
#include "storage/quorum/calls_internal.h"

static const struct call_word get_words[] = {
    {"open", NODE_OPEN, SESSION_GET_REPLY_OPEN_REMAINING_MS},
    {"ended", NODE_ENDED, 0},
};

/* `from`: a server that has the session. `node_ms`: the clock of the server that is to get it,
 * when it was asked. */
static void mend(const struct quorum_call *call, size_t node, size_t from, int64_t node_ms,
                 int64_t until_ms)
{
    static const enum quorum_key keys[QUORUM_SESSION_REPAIR_KEYS] = {
        [QUORUM_SESSION_REPAIR_KEY_SESSION] = QUORUM_KEY_SESSION,
        [QUORUM_SESSION_REPAIR_KEY_NOTES] = QUORUM_KEY_SESSION_LEASES,
        [QUORUM_SESSION_REPAIR_KEY_DUE] = QUORUM_KEY_SESSION_DUE,
        [QUORUM_SESSION_REPAIR_KEY_LOST] = QUORUM_KEY_SESSION_LOST};
    char texts[QUORUM_SESSION_REPAIR_KEYS][SESSION_KEY_SIZE];
    const struct script_text *session = &call->args->keys[SESSION_GET_KEY_SESSION];
    struct redis_tag id = redis_tag_of(session->text, session->len);
    const struct redis_value *reply = call->round.replies[from].value;
    int64_t left_ms = until_ms - clock_ns() / CLOCK_NS_PER_MS;
    struct script_args args;

    if (left_ms <= 0 || node_ms <= 0)
        return;
    args_init(&args);
    quorum_put_session_keys(call->calls, &args, keys, QUORUM_SESSION_REPAIR_KEYS, id, texts);
    args_number(&args, QUORUM_SESSION_REPAIR_ARG_TTL_MS,
                value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_TTL_MS)));
    args_string(&args, QUORUM_SESSION_REPAIR_ARG_NAME,
                quorum_value_text(call, from, SESSION_GET_REPLY_OPEN_NAME));
    args_number(&args, QUORUM_SESSION_REPAIR_ARG_WINDOW_MS,
                call->calls->options.config->retry_window_ms);
    args_number(&args, QUORUM_SESSION_REPAIR_ARG_OPENED_MS,
                node_ms - value_integer(value_at(reply, SESSION_GET_REPLY_OPEN_AGE_MS)));
    args_number(&args, QUORUM_SESSION_REPAIR_ARG_DEADLINE_MS, node_ms + left_ms);
    quorum_call_mend(quorum_call_inside(call, SCRIPT_SESSION_REPAIR, &args), node);
}

static void decide_mend(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    if (!call->round.is_over)
        return;
    quorum_session_words(call, WORDS(get_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_OPEN && replies[i].value > 0)
            quorum_call_reckon(call, replies[i].value);
    const struct conclusion found = quorum_conclude(call, conclude_due, replies);
    size_t from = quorum_call_find(call, replies, NODE_OPEN, -1);
    for (size_t i = 0; found.word == CONCLUDE_KEEP && i < call->calls->nodes; i++)
        if (node_is_in(found.mend, i))
            mend(call, i, from,
                 value_integer(quorum_value(call, i, SESSION_GET_REPLY_ENDED_NOW_MS)),
                 found.until_ms);
    quorum_call_answer(call, value_make_integer(0));
}

/* Which servers lack the session is asked once more, with all that a repair needs. */
static void start_mending(const struct quorum_call *call)
{
    static const enum quorum_key keys[SESSION_GET_KEYS] = {
        [SESSION_GET_KEY_SESSION] = QUORUM_KEY_SESSION,
        [SESSION_GET_KEY_NOTES] = QUORUM_KEY_SESSION_LEASES,
        [SESSION_GET_KEY_LOST] = QUORUM_KEY_SESSION_LOST,
        [SESSION_GET_KEY_WAITS] = QUORUM_KEY_SESSION_WAITS};
    char texts[SESSION_GET_KEYS][SESSION_KEY_SIZE];
    const struct script_text *session = &call->args->keys[0];
    struct redis_tag id = redis_tag_of(session->text, session->len);
    struct script_args args;

    args_init(&args);
    quorum_put_session_keys(call->calls, &args, keys, SESSION_GET_KEYS, id, texts);
    struct quorum_call *look = quorum_call_inside(call, SCRIPT_SESSION_GET, &args);
    quorum_call_ask(look, SCRIPT_SESSION_GET, look->args, decide_mend);
}

static void mend_at_last(struct quorum_call *call)
{
    static const struct call_word lacking[] = {
        {"ended", NODE_ENDED, 0}, {"expired", NODE_ENDED, 0}, {"unknown", NODE_UNKNOWN, 0}};
    struct node_reply replies[QUORUM_NODES_MAX];

    if (!call->round.is_over)
        return;
    quorum_session_words(call, WORDS(lacking), replies);
    if (quorum_count(call, replies, NODE_PASSED) > 0 ||
        quorum_count(call, replies, NODE_UNKNOWN) > 0)
        start_mending(call);
    quorum_call_free(call);
}

void quorum_session_mend_later(struct quorum_call *call)
{
    call->after = mend_at_last;
}
