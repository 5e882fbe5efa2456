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
    struct redis_value *ended = call->kept;
    call->kept = NULL;
    quorum_call_answer(call, ended);
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
    quorum_call_insist(call, SCRIPT_LEASE_LOST, args, window_ms);
    quorum_call_ask(call, SCRIPT_LEASE_LOST, args, decide_end);
}
