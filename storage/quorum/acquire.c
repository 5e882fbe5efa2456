/* Votes for a lease (A1 to A9 of docs/quorum.md), the claim of a lease that holds already, and
 * the end of a lease that has lost its majority (E1). */
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/quorum/calls_internal.h"

enum {
    ROUNDS_MAX = 3,  /* of votes, in one try */
    TRIES_MAX = 6,   /* of an attempt whose votes were split, if the request may wait */
    TRIES_FEW = 3,   /* if it may not, or a server is in quarantine */
    BLOCKED_MAX = 2, /* tries again that one lease blocks: it holds, and is no vote that goes */
    ASK_AGAIN_MAX = 3, /* of the oldest of split votes, which is kept meanwhile */
    ASK_AGAIN_MS = 3,
    TRY_FOR_MS = 1000, /* a request that may wait tries again later on */
    LONG_PAUSE_MS = 500,
    FENCING_TTL_MIN_MS = 60000
};

static const struct call_word vote_words[] = {
    {CALL_WORD_NUMBER, NODE_ACCEPTED, 0},
    {"held", NODE_HELD, QUORUM_VOTE_REPLY_HELD_TOKEN},
    {"busy", NODE_BUSY, 0},
    {"low", NODE_LOW, QUORUM_VOTE_REPLY_LOW_NUMBER},
    {"clock", NODE_CLOCK, QUORUM_VOTE_REPLY_CLOCK_NUMBER},
    {"lapsed", NODE_LAPSED, 0},
    {"spent", NODE_SPENT, 0},
    {"quarantine", NODE_QUARANTINE, 0},
    {"unbound", NODE_UNBOUND, 0},
    {"reused", NODE_REFUSED, 0},
    {"wrong-kind", NODE_REFUSED, 0},
    {"too-many", NODE_REFUSED, 0},
};

static const struct call_word claim_words[] = {
    {"claimed", NODE_CLAIMED, QUORUM_LEASE_CONFIRM_REPLY_CLAIMED_REMAINING_MS},
    {"gone", NODE_GONE, 0},
    {"reused", NODE_GONE, 0},
};

static void cast_votes(struct quorum_call *call);
static void decide_votes(struct quorum_call *call);

/* --- what the request says ---------------------------------------------------------------- */

static void put_line(struct script_args *args, size_t at, const struct quorum_call *call,
                     size_t number)
{
    size_t len;
    const char *text = quorum_record_line(call, number, &len);

    args_text(args, at, text, len);
}

static size_t lock_count(const struct quorum_call *call)
{
    return call->args->key_count / ACQUIRE_KEYS;
}

static int64_t window_ms(const struct quorum_call *call)
{
    return quorum_arg_ms(call, ACQUIRE_ARG_KEEP_MS) - quorum_arg_ms(call, ACQUIRE_ARG_TTL_MS);
}

/* Which key of the vote's KEYS stands where in those of another script. */
struct key_place {
    size_t from, to;
};

static void put_keys(struct script_args *args, const struct quorum_call *call, size_t stride,
                     const struct key_place *places, size_t count)
{
    for (size_t i = 0; i < lock_count(call); i++)
        for (size_t k = 0; k < count; k++) {
            const struct script_text *key =
                &call->args->keys[i * ACQUIRE_KEYS + places[k].from];
            args_key(args, i * stride + places[k].to, key->text, key->len);
        }
}

/* --- withdrawing -------------------------------------------------------------------------- */

/* Removes the votes of the rounds so far. `is_quiet`: the attempt had no majority, and nobody
 * is to try because of it. */
static void withdraw_votes(struct quorum_call *call, node_set from, bool is_quiet)
{
    static const struct key_place places[] = {{ACQUIRE_KEY_LOCK, WITHDRAW_KEY_LOCK},
                                              {ACQUIRE_KEY_RECORD, WITHDRAW_KEY_RECORD}};
    if ((from & call->voted) == 0)
        return;
    struct script_args *args = quorum_call_make_args(call);
    put_keys(args, call, WITHDRAW_KEYS, WORDS(places));
    args_string(args, QUORUM_WITHDRAW_ARG_LEASE_ID, quorum_arg(call, ACQUIRE_ARG_LEASE_ID));
    put_line(args, QUORUM_WITHDRAW_ARG_ATTEMPT, call, LINE_ATTEMPT);
    args_number(args, QUORUM_WITHDRAW_ARG_WINDOW_MS, window_ms(call));
    if (is_quiet)
        args_string(args, QUORUM_WITHDRAW_ARG_QUIET, "1");
    args_number(args, QUORUM_WITHDRAW_ARG_LAST_ROUND, call->last_round);
    quorum_call_repeat(call, SCRIPT_WITHDRAW, args, from & call->voted,
                       quorum_arg_ms(call, ACQUIRE_ARG_KEEP_MS));
    call->voted &= ~from;
}

static void note_replies(struct quorum_call *call, const struct node_reply *replies);

/* After the answer: a server that replies late may have voted. */
static void withdraw_late(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    node_set known = call->round.is_over ? quorum_call_all(call) : 0;

    quorum_call_words(call, WORDS(vote_words), replies);
    note_replies(call, replies);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word != NODE_SILENT)
            known |= 1U << i;
    withdraw_votes(call, known, true);
    if (call->voted == 0)
        quorum_call_free(call);
}

static void withdraw_all(struct quorum_call *call)
{
    withdraw_votes(call, quorum_call_all(call), true);
}

/* --- answers ------------------------------------------------------------------------------ */

/* The number once for each lock, with blanks between. */
static struct redis_value *repeated(const struct quorum_call *call, int64_t number)
{
    char one[TEXT_INT64_SIZE], text[SCRIPT_KEYS_MAX * TEXT_INT64_SIZE];
    size_t one_len = text_format_int64(one, number), len = 0;

    for (size_t i = 0; i < lock_count(call); i++) {
        if (len > 0)
            text[len++] = ' ';
        memcpy(text + len, one, one_len);
        len += one_len;
    }
    return value_make_text(text, len);
}

static void answer_granted(struct quorum_call *call)
{
    if (call->script != SCRIPT_SET_ACQUIRE) {
        quorum_call_answer(call, repeated(call, call->ask.token));
        return;
    }
    struct redis_value *reply = value_make_list(ACQUIRE_REPLY_HELD_HOLDS + 1);
    value_put(reply, 0, value_make_text("granted", sizeof("granted") - 1));
    value_put(reply, ACQUIRE_REPLY_HELD_TOKEN, repeated(call, call->ask.token));
    value_put(reply, ACQUIRE_REPLY_HELD_REMAINING_MS, value_make_integer(call->ask.ttl_ms));
    value_put(reply, ACQUIRE_REPLY_HELD_HOLDS, repeated(call, 1));
    quorum_call_answer(call, reply);
}

static const char *text_at(const struct redis_value *value, size_t i)
{
    size_t len;

    return value_text(value_at(value, i), &len);
}

static void end_lease(struct quorum_call *call, const struct node_reply *replies)
{
    size_t spent = quorum_call_find(call, replies, NODE_SPENT, -1);
    struct script_text attempt;

    if (spent < call->calls->nodes) {
        const struct redis_value *reply = call->round.replies[spent].value;
        call->kept = quorum_make_ended(text_at(reply, QUORUM_VOTE_REPLY_SPENT_REASON));
    } else {
        call->kept = quorum_make_ended("expired");
    }
    attempt.text = quorum_record_line(call, LINE_ATTEMPT, &attempt.len);
    quorum_end_lost(call, ACQUIRE_KEYS, ACQUIRE_KEY_RECORD, window_ms(call), attempt);
}

/* --- the claim ---------------------------------------------------------------------------- */

static void answer_held(struct quorum_call *call, const struct conclusion *found,
                        const struct redis_value *claimed)
{
    const struct repair_keys keys = {.stride = ACQUIRE_KEYS,
                                     .record = ACQUIRE_KEY_RECORD,
                                     .counter = ACQUIRE_KEY_COUNTER,
                                     .window_ms = window_ms(call)};
    int64_t left_ms = found->until_ms - call->ask.sent_ms + call->ask.drift_ms;

    quorum_repair(call, &keys, found,
                  value_at(claimed, QUORUM_LEASE_CONFIRM_REPLY_CLAIMED_RECORD));
    /* Votes for another token, of servers that were not heard. A claimed one stays. */
    withdraw_votes(call, quorum_call_all(call), true);
    struct redis_value *reply = value_make_list(ACQUIRE_REPLY_HELD_HOLDS + 1);
    value_put(reply, 0, value_make_text("held", sizeof("held") - 1));
    value_put(reply, ACQUIRE_REPLY_HELD_TOKEN, repeated(call, call->ask.token));
    value_put(reply, ACQUIRE_REPLY_HELD_REMAINING_MS, value_make_integer(left_ms));
    value_put(reply, ACQUIRE_REPLY_HELD_RECORD,
              value_copy(value_at(claimed, QUORUM_LEASE_CONFIRM_REPLY_CLAIMED_RECORD)));
    value_put(reply, ACQUIRE_REPLY_HELD_HOLDS, repeated(call, 1));
    quorum_call_answer(call, reply);
}

static void decide_claim(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(claim_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++) /* the lease may last longer than asked */
        if (replies[i].word == NODE_CLAIMED &&
            quorum_drift_ms(replies[i].value) > call->ask.drift_ms)
            call->ask.drift_ms = quorum_drift_ms(replies[i].value);
    const struct conclusion found = quorum_call_conclude(call, ROUND_CLAIM, conclude_claims,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_HELD)
        answer_held(
            call, &found,
            call->round.replies[quorum_call_find(call, replies, NODE_CLAIMED, -1)].value);
    else
        quorum_call_fail(call);
}

static void claim(struct quorum_call *call, int64_t token)
{
    static const struct key_place places[] = {{ACQUIRE_KEY_LOCK, LEASE_CONFIRM_KEY_LOCK},
                                              {ACQUIRE_KEY_RECORD, LEASE_CONFIRM_KEY_RECORD},
                                              {ACQUIRE_KEY_COUNTER, LEASE_CONFIRM_KEY_COUNTER}};
    struct script_args *args = quorum_call_make_args(call);

    call->ask.token = token;
    put_keys(args, call, LEASE_CONFIRM_KEYS, WORDS(places));
    args_string(args, LEASE_CONFIRM_ARG_LEASE_ID, quorum_arg(call, ACQUIRE_ARG_LEASE_ID));
    args_number(args, LEASE_CONFIRM_ARG_WINDOW_MS, window_ms(call));
    put_line(args, LEASE_CONFIRM_ARG_KIND, call, LINE_KIND);
    put_line(args, LEASE_CONFIRM_ARG_OWNER, call, LINE_OWNER);
    put_line(args, LEASE_CONFIRM_ARG_SESSION, call, LINE_SESSION);
    put_line(args, LEASE_CONFIRM_ARG_ATTEMPT, call, LINE_ATTEMPT);
    args_string(args, LEASE_CONFIRM_ARG_REGISTERED, quorum_arg(call, ACQUIRE_ARG_REGISTERED));
    args_number(args, QUORUM_LEASE_CONFIRM_ARG_TOKEN, token);
    call->was_sent = true;
    quorum_call_ask(call, SCRIPT_LEASE_CONFIRM, args, decide_claim);
}

/* --- busy, or split ----------------------------------------------------------------------- */

static void go_on(struct quorum_call *call, int64_t pause_ms, void (*then)(void *call))
{
    struct loop *loop = call->calls->options.loop;

    call->was_sent |= round_touched(&call->round) != 0;
    round_release(&call->round);
    call->pause = (struct timer){.fire = then, .arg = call};
    timer_arm(loop_timers(loop), &call->pause, loop_now_ns(loop) + pause_ms * CLOCK_NS_PER_MS);
}

static void ask_again(void *arg)
{
    cast_votes(arg);
}

static void try_again(void *arg)
{
    struct quorum_call *call = arg;

    call->ask.number = 1;
    call->ask.token = 0;
    cast_votes(call);
}

/* For so long the lease of another holder, or a pause, keeps this one away: the drift, by which
 * the own lease is shorter, does not come off. */
static void answer_busy(struct quorum_call *call, struct redis_value *reply)
{
    call->ask.drift_ms = 0;
    quorum_call_answer(call, reply);
}

static bool is_quick(const struct quorum_call *call)
{
    return loop_now_ns(call->calls->options.loop) - call->begun_ns <
           TRY_FOR_MS * CLOCK_NS_PER_MS;
}

/* The votes of a rival have another token with each of its tries. A lease that holds keeps its
 * token, and may last; this front end may not hear all of its majority. */
static bool is_blocked(struct quorum_call *call, const struct node_reply *replies)
{
    uint64_t blockers = quorum_blockers(call, replies);

    call->blocked = blockers != 0 && blockers == call->blockers ? call->blocked + 1 : 0;
    call->blockers = blockers;
    return call->blocked >= BLOCKED_MAX;
}

/* No majority agrees: because of another lease, or because only the token is open. */
static void contend(struct quorum_call *call, const struct node_reply *replies)
{
    bool may_wait = quorum_arg_ms(call, ACQUIRE_ARG_WAIT_MS) > 0;
    bool is_busy = quorum_call_find(call, replies, NODE_BUSY, -1) < call->calls->nodes;
    bool is_short = quorum_call_find(call, replies, NODE_QUARANTINE, -1) < call->calls->nodes;
    unsigned most = may_wait && !is_short ? TRIES_MAX : TRIES_FEW;

    metrics_add(call->calls->options.metrics, METRIC_QUORUM_SPLITS, 1);
    if (is_busy && quorum_is_oldest(call, replies) && call->asked_again < ASK_AGAIN_MAX) {
        call->asked_again++;
        go_on(call, quorum_random_ms(ASK_AGAIN_MS), ask_again);
        return;
    }
    withdraw_all(call);
    call->asked_again = 0;
    bool is_held = is_blocked(call, replies);
    if ((is_busy || !is_short) && !is_held && ++call->tries < most && is_quick(call))
        go_on(call, quorum_random_ms(INT64_C(1) << call->tries), try_again);
    else if (!is_busy && !may_wait)
        quorum_call_fail(call);               /* no lease is in the way */
    else if (is_held || is_short || !is_busy) /* for long, so there is no hurry */
        answer_busy(call, quorum_make_split(quorum_random_ms(LONG_PAUSE_MS)));
    else
        answer_busy(call, quorum_make_split(quorum_random_ms(1 << TRIES_MAX)));
}

static void refuse_busy(struct quorum_call *call, const struct node_reply *replies)
{
    if (quorum_is_split(call, replies)) {
        contend(call, replies);
        return;
    }
    call->after = withdraw_late;
    answer_busy(call, quorum_make_busy(call, replies));
}

/* --- votes -------------------------------------------------------------------------------- */

static void cast_votes(struct quorum_call *call)
{
    struct script_args *args = call->args;

    call->was_sent |= round_touched(&call->round) != 0; /* in the round before */
    if (call->ask.token == 0)
        call->ask.token = quorum_propose(call);
    call->last_round = ++call->calls->rounds;
    args->number_count = 0;
    args_number(args, QUORUM_VOTE_ARG_TOKEN, call->ask.token);
    args_number(args, QUORUM_VOTE_ARG_ROUND, call->last_round);
    args_number(args, QUORUM_VOTE_ARG_QUARANTINE_MS,
                call->calls->options.config->quarantine_ms);
    quorum_call_ask(call, SCRIPT_VOTE, args, decide_votes);
    call->voted |= round_touched(&call->round);
}

/* Notes which tokens and votes the replies tell of, whatever is concluded from them. */
static void note_replies(struct quorum_call *call, const struct node_reply *replies)
{
    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *value = call->round.replies[i].value;
        int64_t token = replies[i].word == NODE_LOW ? replies[i].value : 0;
        if (replies[i].word == NODE_BUSY)
            token = value_integer(value_at(value, QUORUM_VOTE_REPLY_BUSY_COUNTER));
        if (token > call->last_token)
            call->last_token = token;
        /* No server says so that has a vote of the attempt, or the mark of one. */
        if (replies[i].word == NODE_BUSY)
            call->voted &= ~(1U << i);
    }
}

static void refuse(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_REFUSED, -1);

    withdraw_all(call);
    if (call->round.replies[node].state == ROUND_REPLIED)
        quorum_call_answer_reply(call, node);
    else
        quorum_call_refuse(call, REDIS_REFUSED_WRONG_TYPE);
}

/* --- the lease's session ------------------------------------------------------------------ */

static void refuse_unbound(struct quorum_call *call, const char *reason)
{
    bool is_full = strcmp(reason, "full") == 0;
    const char *word = is_full ? "session-full" : "session-ended";
    struct redis_tag session;

    session.text = quorum_record_line(call, LINE_SESSION, &session.len);
    withdraw_all(call);
    call->kept = value_make_list(ACQUIRE_REPLY_ENDED_REASON + 1);
    value_put(call->kept, 0, value_make_text(word, strlen(word)));
    value_put(call->kept, ACQUIRE_REPLY_ENDED_REASON, value_make_text(reason, strlen(reason)));
    if (strcmp(reason, "expired") == 0)
        quorum_session_close(call, session);
    else
        quorum_call_answer_kept(call);
}

static void next_round(struct quorum_call *call, int64_t token)
{
    bool is_same = token == call->ask.token;

    metrics_add(call->calls->options.metrics, METRIC_QUORUM_TOKEN_ROUNDS, 1);
    call->ask.number++;
    call->ask.token = token;
    if (is_same)
        go_on(call, quorum_random_ms(ASK_AGAIN_MS), ask_again);
    else
        cast_votes(call);
}

static void go_on_with(struct quorum_call *call, const struct conclusion *found,
                       const struct node_reply *replies)
{
    const char *reason = "unknown";

    switch (found->word == CONCLUDE_UNBOUND && !quorum_is_session_over(call, replies, &reason)
                ? quorum_conclude_bound(call, replies)
                : found->word) {
    case CONCLUDE_UNBOUND:
        refuse_unbound(call, reason);
        return;
    case CONCLUDE_GRANTED:
        answer_granted(call);
        return;
    case CONCLUDE_CLAIM:
        withdraw_votes(call, found->undo, true);
        claim(call, found->token);
        return;
    case CONCLUDE_VOTE:
        next_round(call, found->token);
        return;
    case CONCLUDE_END:
        end_lease(call, replies);
        return;
    case CONCLUDE_BUSY:
        refuse_busy(call, replies);
        return;
    case CONCLUDE_REFUSED:
        refuse(call, replies);
        return;
    case CONCLUDE_QUARANTINE:
        withdraw_all(call);
        quorum_call_refuse(call, REDIS_QUARANTINED);
        return;
    case CONCLUDE_SPLIT:
        contend(call, replies);
        return;
    default:
        break;
    }
    quorum_call_fail(call); /* unknown, or too late: the attempt withdraws itself */
}

static void decide_votes(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(vote_words), replies);
    const struct conclusion found = quorum_call_conclude(call, ROUND_VOTE, conclude_votes,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    note_replies(call, replies);
    go_on_with(call, &found, replies);
}

void quorum_acquire(struct quorum_call *call)
{
    int64_t fencing_ttl_ms = call->calls->options.config->fencing_ttl_ms;
    int64_t ttl_ms = quorum_arg_ms(call, ACQUIRE_ARG_TTL_MS);
    struct script_text attempt;

    call->args->number_count = 0;
    if (fencing_ttl_ms != 0 && fencing_ttl_ms < FENCING_TTL_MIN_MS &&
        quorum_arg_ms(call, ACQUIRE_ARG_FENCING_TTL_MS) < FENCING_TTL_MIN_MS)
        args_string(call->args, ACQUIRE_ARG_FENCING_TTL_MS, "60000");
    attempt.text = quorum_record_line(call, LINE_ATTEMPT, &attempt.len);
    call->bind = quorum_bind_args(call, ACQUIRE_KEYS, ACQUIRE_KEY_RECORD,
                                  quorum_arg(call, ACQUIRE_ARG_RECORD_TEXT), attempt, ttl_ms);
    quorum_call_reckon(call, ttl_ms);
    call->ask.last = ROUNDS_MAX;
    call->begun_ns = loop_now_ns(call->calls->options.loop);
    cast_votes(call);
}
