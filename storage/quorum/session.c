/* Sessions (S1 of docs/quorum.md): a majority opens them and keeps them alive. */
#include <string.h>

#include "storage/quorum/calls_internal.h"

/* The session is over, or no majority has decided that it is open. */
static void end_unopened(struct quorum_call *call, enum conclusion_word word,
                         const struct node_reply *replies)
{
    if (word == CONCLUDE_SHUT || word == CONCLUDE_GONE)
        quorum_session_answer_ended(call, quorum_end_reason(call, replies));
    else
        quorum_call_fail(call);
}

static const struct call_word get_words[] = {
    {"open", NODE_OPEN, SESSION_GET_REPLY_OPEN_REMAINING_MS},
    {"ended", NODE_ENDED, 0},
};

/* The deadline has passed at a majority, or some server knows more. */
static void close_session(struct quorum_call *call, const struct node_reply *replies)
{
    const struct script_text *session = &call->args->keys[0];
    struct redis_tag id = redis_tag_of(session->text, session->len);
    const char *reason = quorum_end_reason(call, replies);

    if (quorum_count(call, replies, NODE_ENDED) >= quorum_majority(call->calls->nodes)) {
        quorum_session_answer_ended(call, reason);
        return;
    }
    call->kept = value_make_list(SESSION_GET_REPLY_ENDED_REASON + 1);
    value_put(call->kept, 0, value_make_text("ended", sizeof("ended") - 1));
    value_put(call->kept, SESSION_GET_REPLY_ENDED_REASON,
              value_make_text(reason, strlen(reason)));
    quorum_session_close(call, id);
}

/* --- open --------------------------------------------------------------------------------- */

static const struct call_word open_words[] = {
    {"opened", NODE_OPEN, SESSION_OPEN_REPLY_OPENED_REMAINING_MS},
    {"open", NODE_OPEN, SESSION_OPEN_REPLY_OPEN_REMAINING_MS},
    {"ended", NODE_ENDED, 0},
    {"reused", NODE_REFUSED, 0},
};

/* A server that had the session tells that it was open before. */
static void answer_open(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_OPEN, -1);

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_OPEN && strcmp(quorum_value_text(call, i, 0), "open") == 0)
            node = i;
    value_put(call->round.replies[node].value, SESSION_OPEN_REPLY_OPEN_REMAINING_MS,
              value_make_integer(quorum_majority_value(call, replies, NODE_OPEN)));
    quorum_session_mend_later(call);
    quorum_call_answer(call, value_copy(call->round.replies[node].value));
}

static bool answer_refused(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_REFUSED, -1);

    if (node == call->calls->nodes)
        return false;
    if (call->round.replies[node].state == ROUND_REPLIED)
        quorum_call_answer_reply(call, node);
    else
        quorum_call_refuse(call, REDIS_REFUSED_WRONG_TYPE);
    return true;
}

static void decide_open(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_session_words(call, WORDS(open_words), replies);
    if (answer_refused(call, replies))
        return;
    const struct conclusion found = quorum_session_conclude(call, ROUND_OPEN, conclude_due,
                                                            replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_KEEP)
        answer_open(call, replies);
    else if (found.word == CONCLUDE_SHUT)
        close_session(call, replies);
    else
        end_unopened(call, found.word, replies);
}

void quorum_session_open(struct quorum_call *call)
{
    quorum_call_reckon(call, quorum_arg_ms(call, SESSION_OPEN_ARG_TTL_MS));
    quorum_call_ask(call, SCRIPT_SESSION_OPEN, call->args, decide_open);
}

/* --- keep alive, look --------------------------------------------------------------------- */

static const struct call_word keep_words[] = {
    {"open", NODE_OPEN, SESSION_GET_REPLY_OPEN_REMAINING_MS},
    {"ended", NODE_ENDED, 0},
    {"wait-too-long", NODE_REFUSED, 0},
};

/* A page of notes or of losses that every server has in one page. If one has more, the cursor
 * says so, and the pages are read from the start: see notes.c. */
static struct redis_value *merge_page(const struct quorum_call *call,
                                      const struct node_reply *replies, size_t at)
{
    struct redis_value *page = value_make_list(SESSION_PAGE_REPLY_VALUES);
    const char *cursor = "0";
    struct value_union all;
    size_t most = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        most += value_count(value_at(quorum_value(call, i, at), SESSION_PAGE_REPLY_ENTRIES)) /
                SESSION_PAGE_REPLY_ENTRY_VALUES;
    quorum_union_begin(&all, SESSION_PAGE_REPLY_ENTRY_VALUES, most);
    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *own = quorum_value(call, i, at);
        size_t len, before = all.count;
        if (replies[i].word != NODE_OPEN)
            continue;
        if (strcmp(value_text(value_at(own, SESSION_PAGE_REPLY_CURSOR), &len), "0") != 0)
            cursor = "more";
        quorum_union_add(&all, value_at(own, SESSION_PAGE_REPLY_ENTRIES));
        quorum_put_back(all.list, before, all.count, quorum_ahead_ms(call->calls, i));
    }
    value_put(page, SESSION_PAGE_REPLY_CURSOR, value_make_text(cursor, strlen(cursor)));
    value_put(page, SESSION_PAGE_REPLY_ENTRIES, quorum_union_end(&all));
    return page;
}

/* A lease that a majority holds is noted at one of these servers at least. */
static void answer_view(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_OPEN, -1);
    struct redis_value *view = value_copy(call->round.replies[node].value);
    int64_t now_ms = value_integer(value_at(view, SESSION_GET_REPLY_OPEN_NOW_MS));

    value_put(view, SESSION_GET_REPLY_OPEN_NOW_MS,
              value_make_integer(now_ms - quorum_ahead_ms(call->calls, node)));
    value_put(view, SESSION_GET_REPLY_OPEN_REMAINING_MS,
              value_make_integer(quorum_majority_value(call, replies, NODE_OPEN)));
    value_put(view, SESSION_GET_REPLY_OPEN_NOTES,
              merge_page(call, replies, SESSION_GET_REPLY_OPEN_NOTES));
    value_put(view, SESSION_GET_REPLY_OPEN_LOST,
              merge_page(call, replies, SESSION_GET_REPLY_OPEN_LOST));
    quorum_call_answer(call, view);
}

/* The time for which the session was opened, as a server says. */
static void reckon_session(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_OPEN, -1);

    if (node < call->calls->nodes)
        quorum_call_reckon(
            call, value_integer(quorum_value(call, node, SESSION_GET_REPLY_OPEN_TTL_MS)));
}

static void decide_keep_alive(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_session_words(call, WORDS(keep_words), replies);
    if (answer_refused(call, replies))
        return;
    reckon_session(call, replies);
    const struct conclusion found = quorum_session_conclude(call, ROUND_KEEP_ALIVE,
                                                            conclude_keep_alives, replies);
    switch (found.word) {
    case CONCLUDE_WAIT:
        return;
    case CONCLUDE_ALIVE:
        quorum_session_mend_later(call);
        answer_view(call, replies);
        return;
    case CONCLUDE_CLOSE:
        close_session(call, replies);
        return;
    case CONCLUDE_GONE:
        quorum_session_answer_ended(call, quorum_end_reason(call, replies));
        return;
    default:
        quorum_call_fail(call);
        return;
    }
}

void quorum_session_keep_alive(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SESSION_KEEP_ALIVE, call->args, decide_keep_alive);
}

/* A look writes nothing back. */
static void decide_get(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_session_words(call, WORDS(get_words), replies);
    if (answer_refused(call, replies))
        return;
    reckon_session(call, replies);
    const struct conclusion found = quorum_session_conclude(call, ROUND_SESSION, conclude_due,
                                                            replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_KEEP)
        answer_view(call, replies);
    else
        end_unopened(call, found.word, replies);
}

void quorum_session_get(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SESSION_GET, call->args, decide_get);
}

/* --- a row of a listing ------------------------------------------------------------------- */

/* The row of a session that a majority has open, with the time for which a majority has it, and
 * the most leases that a server has notes of. Instead of `indexed` it has the number of the
 * first server that has the session open and in its index: there it is listed. */
static struct redis_value *make_row(const struct quorum_call *call,
                                    const struct node_reply *replies)
{
    size_t first = call->calls->nodes;
    struct redis_value *row = NULL;
    int64_t lease_count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_OPEN)
            continue;
        if (row == NULL)
            row = value_copy(call->round.replies[i].value);
        int64_t own = value_integer(quorum_value(call, i, SESSION_BRIEF_REPLY_LEASE_COUNT));
        lease_count = own > lease_count ? own : lease_count;
        if (first == call->calls->nodes &&
            value_integer(quorum_value(call, i, SESSION_BRIEF_REPLY_INDEXED)) == 1)
            first = i;
    }
    int64_t ttl_ms = value_integer(value_at(row, SESSION_BRIEF_REPLY_TTL_MS));
    int64_t left_ms = quorum_majority_value(call, replies, NODE_OPEN) - quorum_drift_ms(ttl_ms);
    value_put(row, SESSION_BRIEF_REPLY_REMAINING_MS,
              value_make_integer(left_ms > 0 ? left_ms : 0));
    value_put(row, SESSION_BRIEF_REPLY_LEASE_COUNT, value_make_integer(lease_count));
    value_put(row, SESSION_BRIEF_REPLY_INDEXED, value_make_integer((int64_t)first));
    return row;
}

/* As for a listing of locks each server has to reply, and a session is shown that a majority
 * has. */
static void decide_brief(struct quorum_call *call)
{
    unsigned needed = quorum_majority(call->calls->nodes), closed = 0;
    struct node_reply replies[QUORUM_NODES_MAX];

    if (!call->round.is_over)
        return;
    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct round_reply *reply = &call->round.replies[i];
        bool is_open = value_count(reply->value) == SESSION_BRIEF_REPLY_VALUES;
        replies[i] = (struct node_reply){.word = is_open ? NODE_OPEN : NODE_SILENT};
        if (is_open)
            replies[i].value = value_integer(
                quorum_value(call, i, SESSION_BRIEF_REPLY_REMAINING_MS));
        closed += !is_open && (reply->state == ROUND_REPLIED ||
                               (reply->state == ROUND_REFUSED &&
                                reply->refusal == REDIS_REFUSED_WRONG_TYPE));
    }
    unsigned open = quorum_count(call, replies, NODE_OPEN);
    if (open >= needed)
        quorum_call_answer(call, make_row(call, replies));
    else if (open + closed >= needed)
        quorum_call_answer(call, value_make_list(0));
    else
        quorum_call_fail(call);
}

void quorum_session_brief(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SESSION_BRIEF, call->args, decide_brief);
}
