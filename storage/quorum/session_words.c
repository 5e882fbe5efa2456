/* The words of the servers' replies about a session, and the reason why it has ended. */
#include <string.h>

#include "storage/quorum/calls_internal.h"

/* Every script says it so. */
enum { ENDED_REASON = SESSION_GET_REPLY_ENDED_REASON };

static enum node_word word_of_end(const char *reason)
{
    if (strcmp(reason, "expired") == 0)
        return NODE_PASSED;
    return strcmp(reason, "unknown") == 0 ? NODE_UNKNOWN : NODE_ENDED;
}

void quorum_session_words(const struct quorum_call *call, const struct call_word *words,
                          size_t count, struct node_reply replies[QUORUM_NODES_MAX])
{
    quorum_call_words(call, words, count, replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_ENDED)
            replies[i].word = word_of_end(quorum_value_text(call, i, ENDED_REASON));
}

unsigned quorum_count_over(const struct quorum_call *call, const struct node_reply *replies)
{
    return quorum_count(call, replies, NODE_ENDED) + quorum_count(call, replies, NODE_PASSED) +
           quorum_count(call, replies, NODE_UNKNOWN);
}

struct conclusion quorum_session_conclude(const struct quorum_call *call,
                                          enum round_operation operation, conclude *how,
                                          const struct node_reply *replies)
{
    struct conclusion found = quorum_conclude(call, how, replies);

    if (found.word == CONCLUDE_UNKNOWN &&
        quorum_count_over(call, replies) >= quorum_majority(call->calls->nodes))
        found.word = CONCLUDE_GONE;
    if (found.word != CONCLUDE_WAIT)
        quorum_call_count(call, operation, found.word);
    return found;
}

const char *quorum_end_reason(const struct quorum_call *call, const struct node_reply *replies)
{
    static const char *const common[] = {"unknown", "expired", "full"};
    const char *best = "unknown";
    size_t best_rank = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_ENDED && replies[i].word != NODE_PASSED)
            continue;
        const char *reason = quorum_value_text(call, i, ENDED_REASON);
        size_t rank = 0;
        while (rank < sizeof(common) / sizeof(common[0]) && strcmp(common[rank], reason) != 0)
            rank++;
        if (rank >= best_rank)
            best = reason;
        best_rank = rank > best_rank ? rank : best_rank;
    }
    return best;
}

void quorum_session_answer_ended(struct quorum_call *call, const char *reason)
{
    struct redis_value *reply = value_make_list(ENDED_REASON + 1);

    value_put(reply, 0, value_make_text("ended", sizeof("ended") - 1));
    value_put(reply, ENDED_REASON, value_make_text(reason, strlen(reason)));
    quorum_call_answer(call, reply);
}
