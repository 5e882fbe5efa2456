/* The script lease_claim.lua at a quorum (O2, O3 of docs/quorum.md): shows whether a majority
 * of the servers has a lease. With `claim` the lease is claimed where it holds, so that a
 * request whose answer was lost does not withdraw it any more. */
#include <string.h>

#include "server/base/clock.h"
#include "storage/quorum/calls_internal.h"

static const struct call_word claim_words[] = {
    {"held", NODE_HELD, ACQUIRE_REPLY_HELD_TOKEN},
    {"waiting", NODE_BUSY, 0},
    {"gone", NODE_GONE, 0},
    {"lapsed", NODE_LAPSED, 0},
    {"ended", NODE_ENDED, 0},
    {"reused", NODE_OTHER, 0},
};

/* The time for which a majority holds the lease with this token. */
static int64_t majority_left_ms(const struct quorum_call *call,
                                const struct node_reply *replies, int64_t token)
{
    unsigned needed = quorum_majority(call->calls->nodes), count = 0;
    int64_t left_ms[QUORUM_NODES_MAX];

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_HELD || replies[i].value != token)
            continue;
        left_ms[count++] = value_integer(
            quorum_value(call, i, ACQUIRE_REPLY_HELD_REMAINING_MS));
    }
    quorum_sort_down(left_ms, count);
    return count >= needed ? left_ms[needed - 1] : 0;
}

/* The time that is left was measured in the round before. */
static int64_t passed_ms(const struct quorum_call *call)
{
    return (call->round.sent_ns - call->kept_sent_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
}

static void decide_claimed(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    unsigned claimed = call->claimed;

    quorum_call_words(call, WORDS(claim_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        claimed += replies[i].word == NODE_HELD && replies[i].value == call->ask.token;
    if (claimed >= quorum_majority(call->calls->nodes)) {
        call->ask.drift_ms += passed_ms(call);
        quorum_call_answer_kept(call);
    } else if (call->round.is_over) {
        quorum_call_fail(call);
    }
}

/* The servers whose vote for the token may still be withdrawn by the request that cast it. */
static node_set unclaimed(const struct quorum_call *call, const struct node_reply *replies,
                          int64_t token)
{
    node_set found = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const char *record = quorum_value_text(call, i, ACQUIRE_REPLY_HELD_RECORD);
        const char *attempt;
        size_t len;

        if (replies[i].word != NODE_HELD || replies[i].value != token)
            continue;
        attempt = quorum_line(record, LINE_ATTEMPT, &len);
        if (memchr(attempt, '.', len) != NULL) /* see quorum/lib/vote.lua */
            found |= 1U << i;
    }
    return found;
}

/* A lease holds where a majority has it. A vote of a minority is not claimed: a request for the
 * lease is under way, and takes it back. */
static void answer_claim(struct quorum_call *call, const struct node_reply *replies,
                         int64_t token)
{
    size_t node = quorum_call_find(call, replies, NODE_HELD, token);
    int64_t left_ms = majority_left_ms(call, replies, token);
    node_set left = call->claims ? unclaimed(call, replies, token) : 0;

    call->ask.drift_ms = quorum_drift_ms(left_ms);
    value_put(call->round.replies[node].value, ACQUIRE_REPLY_HELD_REMAINING_MS,
              value_make_integer(left_ms));
    if (left == 0) {
        quorum_call_answer_reply(call, node);
        return;
    }
    for (size_t i = 0; i < call->calls->nodes; i++)
        call->claimed += replies[i].word == NODE_HELD && replies[i].value == token &&
                         !node_is_in(left, i);
    call->kept = value_copy(call->round.replies[node].value);
    call->kept_sent_ns = call->round.sent_ns;
    call->ask.token = token;
    args_string(call->args, LEASE_CLAIM_ARG_CLAIM, "1");
    quorum_call_ask_of(call, SCRIPT_LEASE_CLAIM, call->args, left, decide_claimed);
}

static void decide_claim(struct quorum_call *call)
{
    const struct repair_keys keys = {
        .stride = LEASE_CLAIM_KEYS,
        .record = LEASE_CLAIM_KEY_RECORD,
        .window_ms = quorum_arg_ms(call, LEASE_CLAIM_ARG_WINDOW_MS)};
    struct node_reply replies[QUORUM_NODES_MAX];

    /* A hold that is older than the server's process counts for nothing. */
    quorum_call_words(call, WORDS(claim_words), replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_LOOK, conclude_looks,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_LOCKED)
        answer_claim(call, replies, found.token);
    else if (found.word == CONCLUDE_NOT_LOCKED)
        quorum_answer_unheld(call, replies, &keys);
    else
        quorum_call_fail(call);
}

void quorum_claim(struct quorum_call *call)
{
    call->claims = strcmp(quorum_arg(call, LEASE_CLAIM_ARG_CLAIM), "1") == 0;
    if (call->claims)
        args_string(call->args, LEASE_CLAIM_ARG_CLAIM, "");
    quorum_call_ask(call, SCRIPT_LEASE_CLAIM, call->args, decide_claim);
}
