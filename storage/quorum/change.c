/* Renewals (R1), releases (D1, D2) and withdrawals (A10 of docs/quorum.md), and the names of a
 * set. */
#include <stdlib.h>
#include <string.h>

#include "server/base/token.h"
#include "storage/quorum/calls_internal.h"

/* A token that belongs to another kind of object, or a name that does: no other server can say
 * otherwise. False: no server has refused so. */
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

/* --- renew -------------------------------------------------------------------------------- */

enum { RENEW_ROUNDS = 3 };

static const struct call_word renew_words[] = {
    {"held", NODE_HELD, ACQUIRE_REPLY_HELD_TOKEN},
    {"marked", NODE_MARKED, ACQUIRE_REPLY_HELD_TOKEN},
    {"busy", NODE_BUSY, 0},
    {"spent", NODE_GONE, 0},
    {"lapsed", NODE_GONE, 0},
    {"unknown", NODE_GONE, 0},
    {"restarted", NODE_RESTARTED, 0},
    {"ends", NODE_OTHER, 0},
    {"reused", NODE_REFUSED, 0},
};

/* Why a lease that a majority does not have has ended: a server that has spent it knows. */
static void end_renewed(struct quorum_call *call)
{
    const char *reason = "unknown";
    size_t len;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *value = call->round.replies[i].value;
        const char *word = value_text(value_at(value, 0), &len);
        if (strcmp(word, "lapsed") == 0 && strcmp(reason, "unknown") == 0)
            reason = "expired";
        if (strcmp(word, "spent") == 0)
            reason = value_text(value_at(value, QUORUM_RENEW_REPLY_SPENT_REASON), &len);
    }
    call->kept = quorum_make_ended(reason);
    quorum_end_lost(call, RENEW_KEYS, RENEW_KEY_RECORD,
                    quorum_arg_ms(call, RENEW_ARG_WINDOW_MS), (struct script_text){"", 0});
}

static void repair_renewed(struct quorum_call *call, const struct conclusion *found,
                           const struct node_reply *replies)
{
    const struct repair_keys keys = {.stride = RENEW_KEYS,
                                     .record = RENEW_KEY_RECORD,
                                     .counter = RENEW_KEY_COUNTER,
                                     .window_ms = quorum_arg_ms(call, RENEW_ARG_WINDOW_MS)};
    size_t held = quorum_call_find(call, replies, NODE_HELD, found->token);

    quorum_repair(call, &keys, found,
                  value_at(call->round.replies[held].value, ACQUIRE_REPLY_HELD_RECORD));
}

/* Of one renewal alone. */
static int64_t make_mark(void)
{
    char hex[16];

    token_random_hex(hex, sizeof(hex) - 1);
    return strtoll(hex, NULL, 16);
}

static void decide_renew(struct quorum_call *call);

/* Only servers whose reply is here: at others this renewal may be late by now, and would find
 * the mark that it has just left. */
static void renew_again(struct quorum_call *call)
{
    node_set heard = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (call->round.replies[i].state == ROUND_REPLIED)
            heard |= 1U << i;
    call->ask.number++;
    quorum_call_ask_of(call, SCRIPT_RENEW, call->args, heard, decide_renew);
}

static void decide_renew(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(renew_words), replies);
    if (answer_refused(call, replies))
        return;
    const struct conclusion found = quorum_call_conclude(call, ROUND_RENEW, conclude_renewals,
                                                         replies);
    switch (found.word) {
    case CONCLUDE_WAIT:
        return;
    case CONCLUDE_VOTE:
        renew_again(call);
        return;
    case CONCLUDE_RENEWED:
        repair_renewed(call, &found, replies);
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_HELD, found.token));
        return;
    case CONCLUDE_BUSY:
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_BUSY, -1));
        return;
    case CONCLUDE_END:
        end_renewed(call);
        return;
    default:
        quorum_call_fail(call);
        return;
    }
}

void quorum_renew(struct quorum_call *call)
{
    call->ask.last = RENEW_ROUNDS;
    args_number(call->args, QUORUM_RENEW_ARG_MARK, make_mark());
    quorum_call_reckon(call, quorum_arg_ms(call, RENEW_ARG_TTL_MS));
    quorum_call_ask(call, SCRIPT_RENEW, call->args, decide_renew);
}

/* --- release ------------------------------------------------------------------------------ */

static const struct call_word release_words[] = {
    {CALL_WORD_NUMBER, NODE_RELEASED, 0},
    {"released", NODE_RELEASED, 0},
    {"ended", NODE_ENDED, 0},
    {"reused", NODE_REFUSED, 0},
};

static void decide_release(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(release_words), replies);
    if (answer_refused(call, replies))
        return;
    const struct conclusion found = quorum_call_conclude(call, ROUND_RELEASE, conclude_releases,
                                                         replies);
    switch (found.word) {
    case CONCLUDE_WAIT:
        return;
    case CONCLUDE_RELEASED:
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_RELEASED, -1));
        return;
    case CONCLUDE_ENDED:
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_ENDED, -1));
        return;
    default:
        if (round_touched(&call->round) == 0)
            call->after = NULL; /* the client is told that nothing was done */
        quorum_call_fail(call);
        return;
    }
}

void quorum_release(struct quorum_call *call)
{
    /* A hold that a server still has when the time for this is over ends by its own. */
    quorum_call_insist(call, SCRIPT_RELEASE, call->args,
                       quorum_memory_ms(quorum_arg_ms(call, RELEASE_ARG_WINDOW_MS)));
    quorum_call_ask_any(call, SCRIPT_RELEASE, call->args, decide_release);
}

/* --- withdraw ----------------------------------------------------------------------------- */

/* No client waits for it, and it is sent to each server until that has confirmed it, or the
 * time for it is over. The store needs to know only whether a vote was undone, or the lease is
 * claimed. */
static void decide_withdraw(struct quorum_call *call)
{
    int64_t reply = 0;
    unsigned confirmed = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (call->round.replies[i].state != ROUND_REPLIED)
            continue;
        int64_t own = value_integer(call->round.replies[i].value);
        reply = own > reply ? own : reply;
        confirmed++;
    }
    if (confirmed >= quorum_majority(call->calls->nodes) || call->round.is_over)
        quorum_call_answer(call, value_make_integer(reply));
}

void quorum_withdraw(struct quorum_call *call)
{
    quorum_call_insist(call, SCRIPT_WITHDRAW, call->args,
                       call->calls->options.config->quarantine_ms +
                           quorum_arg_ms(call, WITHDRAW_ARG_WINDOW_MS));
    quorum_call_ask_any(call, SCRIPT_WITHDRAW, call->args, decide_withdraw);
}

/* --- force-unlock ------------------------------------------------------------------------- */

/* Behind the word: "unlocked", "low" or "clock". */
enum { FORCE_HOLDER = 1, FORCE_TOKEN, FORCE_HOLDERS };

enum { FORCE_ROUNDS = 3 };

/* So far above what was found, for leases that are granted meanwhile. */
static const int64_t FORCE_AHEAD_US = 1000000;

static const struct call_word force_words[] = {
    {"unlocked", NODE_FORCED, 0},
    {"free", NODE_FREE, 0},
    {"stale", NODE_FREE, 0},
    {"wrong-kind", NODE_REFUSED, 0},
    {"search", NODE_REFUSED, 0},
    {"low", NODE_LOW, FORCE_TOKEN},
    {"clock", NODE_CLOCK, FORCE_TOKEN},
};

static void add_holder(struct redis_value *all, size_t *count, const struct redis_value *holder)
{
    size_t len, other_len;
    const char *text = value_text(holder, &len);

    for (size_t i = 0; i < *count; i++)
        if (strcmp(value_text(value_at(all, i), &other_len), text) == 0)
            return;
    if (*count < value_count(all))
        value_put(all, (*count)++, value_copy(holder));
}

static void add_holders(struct redis_value *all, size_t *count, const struct redis_value *reply)
{
    const struct redis_value *more = value_at(reply, FORCE_HOLDERS);

    if (value_count(more) == 0)
        add_holder(all, count, value_at(reply, FORCE_HOLDER));
    for (size_t i = 0; i < value_count(more); i++)
        add_holder(all, count, value_at(more, i));
}

static size_t count_holders(const struct redis_value *reply)
{
    return 1 + value_count(value_at(reply, FORCE_HOLDERS));
}

/* The reply of force_unlock.lua with a list of all holders that some server had, in this round
 * (`words`, a set of 1 << word) or before. Their leases are still to be spent at every server
 * (O1). The token is nil where only clocks were told. NULL: there are none. */
static struct redis_value *make_unlocked(const struct quorum_call *call,
                                         const struct node_reply *replies, unsigned words)
{
    const struct redis_value *found[QUORUM_NODES_MAX + 1] = {call->kept};
    const struct redis_value *token = value_at(call->kept, FORCE_TOKEN);
    size_t count = call->kept != NULL, most = 0, holders = 0, len;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *value = call->round.replies[i].value;
        (void)value_text(value_at(value, FORCE_HOLDER), &len);
        if ((words >> replies[i].word & 1) == 0 || len == 0)
            continue;
        found[count++] = value;
        if (value_is_nil(token) && replies[i].word != NODE_CLOCK)
            token = value_at(value, FORCE_TOKEN);
    }
    if (count == 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        most += count_holders(found[i]);
    struct redis_value *made = value_make_list(FORCE_HOLDERS + 1), *all = value_make_list(most);
    for (size_t i = 0; i < count; i++)
        add_holders(all, &holders, found[i]);
    value_cut(all, holders);
    value_put(made, 0, value_make_text("unlocked", sizeof("unlocked") - 1));
    value_put(made, FORCE_HOLDER, value_copy(value_at(found[0], FORCE_HOLDER)));
    if (!value_is_nil(token))
        value_put(made, FORCE_TOKEN, value_copy(token));
    value_put(made, FORCE_HOLDERS, all);
    return made;
}

static void answer_free(struct quorum_call *call, const struct node_reply *replies)
{
    size_t node = quorum_call_find(call, replies, NODE_FREE, -1), len;

    for (size_t i = node; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_FREE &&
            strcmp(value_text(value_at(call->round.replies[i].value, 0), &len), "stale") == 0)
            node = i;
    quorum_call_answer_reply(call, node);
}

static void ask_force(struct quorum_call *call, int64_t up_to);

/* So many servers have a newer lease, or a clock behind, that no majority has done it. What
 * holds there is named now: the reply of a server that frees it may come too late. */
static void force_again(struct quorum_call *call, const struct node_reply *replies,
                        int64_t up_to)
{
    struct redis_value *unlocked = make_unlocked(
        call, replies, 1U << NODE_FORCED | 1U << NODE_LOW | 1U << NODE_CLOCK);

    value_free(call->kept);
    call->kept = unlocked;
    call->ask.number++;
    call->was_sent = true;
    ask_force(call, up_to + FORCE_AHEAD_US);
}

static void decide_force(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];

    quorum_call_words(call, WORDS(force_words), replies);
    if (answer_refused(call, replies))
        return;
    const struct conclusion found = quorum_call_conclude(call, ROUND_FORCE, conclude_forces,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word == CONCLUDE_VOTE)
        force_again(call, replies, found.token);
    else if (found.word == CONCLUDE_FREE && call->kept == NULL)
        answer_free(call, replies);
    else if (found.word == CONCLUDE_FREE || found.word == CONCLUDE_SPEND)
        quorum_call_answer(call, make_unlocked(call, replies, 1U << NODE_FORCED));
    else
        quorum_call_fail(call);
}

static void ask_force(struct quorum_call *call, int64_t up_to)
{
    call->args->number_count = 0;
    args_number(call->args, FORCE_UNLOCK_ARG_UP_TO, up_to);
    quorum_call_ask(call, SCRIPT_FORCE_UNLOCK, call->args, decide_force);
}

void quorum_force(struct quorum_call *call)
{
    const char *only = quorum_arg(call, FORCE_UNLOCK_ARG_ASKED_TOKEN);

    call->ask.last = FORCE_ROUNDS;
    if (only[0] == '\0' || strcmp(only, "*") == 0)
        ask_force(call, quorum_propose(call));
    else
        quorum_call_ask(call, SCRIPT_FORCE_UNLOCK, call->args, decide_force);
}

/* The second round of a force-unlock, and the end of a session: a lease is spent at every
 * server. A server names the kind of a lease that held; else the largest number decides: a
 * lease of another session lives as long as one server has it, and a repetition is told what it
 * did. With `before_ms` a lease goes on unless a majority ends it. */
static void decide_end(struct quorum_call *call)
{
    enum { STAYS = 2 };
    struct node_reply replies[QUORUM_NODES_MAX];
    size_t held = call->calls->nodes, len;
    int64_t most = 0;
    unsigned ended = 0, stays = 0, needed = quorum_majority(call->calls->nodes);

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *value = call->round.replies[i].value;
        bool is_list = value_count(value) > 0, is_named;
        (void)value_text(value, &len);
        is_named = is_list || len > 0;
        replies[i] = (struct node_reply){
            .word = call->round.replies[i].state == ROUND_REPLIED ? NODE_ENDED : NODE_SILENT};
        if (replies[i].word == NODE_ENDED)
            *(!is_named && value_integer(value) == STAYS ? &stays : &ended) += 1;
        if (is_named)
            held = i;
        else if (value_integer(value) > most)
            most = value_integer(value);
    }
    bool may_stay = call->args->count > LEASE_END_ARG_BEFORE_MS;
    if (may_stay && ended < needed && stays < needed && !call->round.is_over)
        return;
    const struct conclusion found = quorum_call_conclude(call, ROUND_SPEND, conclude_spends,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word != CONCLUDE_FORCED)
        quorum_call_fail(call);
    else if (may_stay && ended < needed)
        quorum_call_answer(call, value_make_integer(STAYS));
    else if (held < call->calls->nodes)
        quorum_call_answer(call, value_copy(call->round.replies[held].value));
    else
        quorum_call_answer(call, value_make_integer(most));
}

void quorum_end(struct quorum_call *call)
{
    quorum_call_insist(call, SCRIPT_LEASE_END, call->args,
                       quorum_memory_ms(quorum_arg_ms(call, LEASE_END_ARG_WINDOW_MS)));
    quorum_call_ask_any(call, SCRIPT_LEASE_END, call->args, decide_end);
}

/* --- the names of a set ------------------------------------------------------------------- */

static const struct call_word names_words[] = {
    {CALL_WORD_NUMBER, NODE_OPEN, 0}, {"reused", NODE_REFUSED, 0}, {"spent", NODE_SPENT, 0}};

/* Kept when a majority has them, and spent when a majority says so. They never change for one
 * token, so one server that has others decides. */
static void decide_names(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    unsigned kept = 0, spent = 0;

    quorum_call_words(call, WORDS(names_words), replies);
    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word == NODE_REFUSED) {
            if (call->round.replies[i].state != ROUND_REPLIED)
                continue; /* another type of key */
            quorum_call_answer_reply(call, i);
            return;
        }
        kept += replies[i].word == NODE_OPEN;
        spent += replies[i].word == NODE_SPENT;
    }
    if (kept >= quorum_majority(call->calls->nodes))
        quorum_call_answer(call, value_make_integer(1));
    else if (spent >= quorum_majority(call->calls->nodes))
        quorum_call_answer_reply(call, quorum_call_find(call, replies, NODE_SPENT, -1));
    else if (call->round.is_over)
        quorum_call_fail(call);
}

void quorum_set_names(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SET_NAMES, call->args, decide_names);
}
