/* The end of a lease that has lost its majority (E1 of docs/quorum.md). */
#include <string.h>

#include "storage/quorum/calls_internal.h"

static const struct call_word end_words[] = {{"ended", NODE_ENDED, 0}};

/* The same reply as that of a single Redis. The session is not told: it is none of its own. */
struct redis_value *quorum_make_ended(const char *reason)
{
    struct redis_value *reply = value_make_list(ACQUIRE_REPLY_ENDED_FORCED_BY + 1);

    value_put(reply, 0, value_make_text("ended", sizeof("ended") - 1));
    value_put(reply, ACQUIRE_REPLY_ENDED_REASON, value_make_text(reason, strlen(reason)));
    return reply;
}

/* A server that the lease ended at before knows more than that it is over. */
static void learn_reason(const struct quorum_call *call)
{
    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *value = call->round.replies[i].value;
        const struct redis_value *by = value_at(value, QUORUM_LEASE_LOST_REPLY_ENDED_FORCED_BY);
        size_t len;
        const char *reason = value_text(value_at(value, QUORUM_LEASE_LOST_REPLY_ENDED_REASON),
                                        &len);
        if (len > 0 && strcmp(reason, "expired") != 0 && strcmp(reason, "unknown") != 0)
            value_put(call->kept, ACQUIRE_REPLY_ENDED_REASON, value_make_text(reason, len));
        (void)value_text(by, &len);
        if (len > 0)
            value_put(call->kept, ACQUIRE_REPLY_ENDED_FORCED_BY, value_copy(by));
    }
}

static bool is_loss(const char *reason)
{
    return strcmp(reason, "expired") == 0 || strcmp(reason, "forced") == 0;
}

/* A lease that was released, or whose session has ended, is not lost. */
static void correct_word(const struct quorum_call *call)
{
    size_t len;
    const char *word = value_text(value_at(call->kept, 0), &len);
    const char *reason = value_text(value_at(call->kept, ACQUIRE_REPLY_ENDED_REASON), &len);

    if (strcmp(word, "lost") == 0 && !is_loss(reason))
        value_put(call->kept, 0, value_make_text("ended", sizeof("ended") - 1));
}

static void decide_end(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, end_words, 1, replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_END, conclude_ends,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word != CONCLUDE_LOST) {
        quorum_call_fail(call);
        return;
    }
    learn_reason(call);
    correct_word(call);
    quorum_call_answer_kept(call);
}

void quorum_end_lost(struct quorum_call *call, size_t stride, size_t record, int64_t window_ms,
                     struct script_text attempt)
{
    struct script_args *args = quorum_call_make_args(call);
    size_t len;
    const char *reason = value_text(value_at(call->kept, ACQUIRE_REPLY_ENDED_REASON), &len);

    for (size_t i = 0; i < call->args->key_count / stride; i++) {
        const struct script_text *keys = &call->args->keys[i * stride];
        args_key(args, i * LEASE_WATCH_KEYS + LEASE_WATCH_KEY_LOCK, keys[0].text, keys[0].len);
        args_key(args, i * LEASE_WATCH_KEYS + LEASE_WATCH_KEY_RECORD, keys[record].text,
                 keys[record].len);
    }
    args_string(args, QUORUM_LEASE_LOST_ARG_LEASE_ID, quorum_arg(call, 0));
    args_number(args, QUORUM_LEASE_LOST_ARG_WINDOW_MS, window_ms);
    args_string(args, QUORUM_LEASE_LOST_ARG_REASON,
                strcmp(reason, "forced") == 0 ? "forced" : "expired");
    args_text(args, QUORUM_LEASE_LOST_ARG_ATTEMPT, attempt.text, attempt.len);
    metrics_add(call->calls->options.metrics, METRIC_QUORUM_LOST, 1);
    call->was_sent = true;
    quorum_call_insist(call, SCRIPT_LEASE_LOST, args, quorum_memory_ms(window_ms));
    quorum_call_ask(call, SCRIPT_LEASE_LOST, args, decide_end);
}

/* The kind of the lease, as a server says where its hold has ended by time. */
static const char *kind_of(const struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_LAPSED, -1);

    return node < call->calls->nodes
               ? quorum_value_text(call, node, LEASE_WATCH_REPLY_LAPSED_KIND)
               : "";
}

static void lose(struct quorum_call *call, const struct node_reply *replies, const char *reason,
                 const struct repair_keys *keys)
{
    const char *kind = kind_of(call, replies);

    call->kept = quorum_make_ended(reason);
    value_put(call->kept, 0, value_make_text("lost", sizeof("lost") - 1));
    value_put(call->kept, LEASE_WATCH_REPLY_LOST_KIND, value_make_text(kind, strlen(kind)));
    quorum_end_lost(call, keys->stride, keys->record, keys->window_ms,
                    (struct script_text){"", 0});
}

void quorum_answer_unheld(struct quorum_call *call, const struct node_reply *replies,
                          const struct repair_keys *keys)
{
    size_t other = quorum_call_find(call, replies, NODE_OTHER, -1);
    unsigned over = quorum_count(call, replies, NODE_ENDED) +
                    quorum_count(call, replies, NODE_LAPSED);
    const char *reason = NULL;

    /* No other session can have the lease where a majority says that it is over: the record of
     * that session is what a vote has left. */
    if (other < call->calls->nodes && over < quorum_majority(call->calls->nodes)) {
        if (call->round.is_over)
            quorum_call_answer_reply(call, other);
        return;
    }
    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_ENDED)
            continue;
        reason = quorum_value_text(call, i, LEASE_WATCH_REPLY_ENDED_REASON);
        if (is_loss(reason))
            continue;
        quorum_call_answer_reply(call, i);
        return;
    }
    if (reason == NULL && quorum_call_find(call, replies, NODE_LAPSED, -1) < call->calls->nodes)
        reason = "expired";
    size_t waiting = quorum_call_find(call, replies, NODE_BUSY, -1);
    if (reason != NULL)
        lose(call, replies, reason, keys);
    else if (waiting < call->calls->nodes)
        quorum_call_answer_reply(call, waiting);
    else
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_GONE, -1));
}
