/* Looks (O2, O3 of docs/quorum.md): what a majority of the servers has is shown. A look writes
 * nothing back, so it is a snapshot. */
#include <string.h>

#include "storage/quorum/calls_internal.h"

static const struct redis_value *reply_of(const struct quorum_call *call, size_t node)
{
    return call->round.replies[node].value; /* NULL: none has come */
}

/* Whether the server has replied with a view of the lock, and not that it is none. */
static bool has_view(const struct quorum_call *call, size_t node)
{
    return value_count(reply_of(call, node)) >= LOOK_REPLY_VALUES;
}

/* --- holders ------------------------------------------------------------------------------ */

static const char *text_at(const struct redis_value *value, size_t i)
{
    size_t len;

    return value_text(value_at(value, i), &len);
}

/* A lease of rlockd without a token is one that the server has had before its process began,
 * and that no repair has confirmed. Ids of rlockd are UUIDs of version 5. */
static bool is_unconfirmed(const char *field, const char *token)
{
    enum { VERSION_AT = 14 };

    return token[0] == '\0' && strlen(field) > VERSION_AT && field[VERSION_AT] == '5';
}

/* The place of this holder, with this token, in the list of another server. -1: it is not
 * there.
 */
static long find_holder(const struct redis_value *holders, const char *field, const char *token)
{
    for (size_t at = 0; at < value_count(holders); at += LOOK_REPLY_HOLDER_VALUES)
        if (strcmp(text_at(holders, at + LOOK_REPLY_HOLDER_FIELD), field) == 0 &&
            strcmp(text_at(holders, at + LOOK_REPLY_HOLDER_FENCING_TOKEN), token) == 0)
            return (long)at;
    return -1;
}

struct held_at {
    unsigned count;
    int64_t left_ms; /* for which a majority has it; -1: no majority has */
};

/* At how many servers the holder at this place of a list holds with one token. */
static struct held_at count_holder(const struct quorum_call *call,
                                   const struct redis_value *holders, size_t place)
{
    const char *field = text_at(holders, place + LOOK_REPLY_HOLDER_FIELD);
    const char *token = text_at(holders, place + LOOK_REPLY_HOLDER_FENCING_TOKEN);
    unsigned needed = quorum_majority(call->calls->nodes);
    int64_t left_ms[QUORUM_NODES_MAX];
    struct held_at held = {.left_ms = -1};

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct redis_value *others = value_at(reply_of(call, i), LOOK_REPLY_HOLDERS);
        long at = has_view(call, i) ? find_holder(others, field, token) : -1;
        if (at < 0 || is_unconfirmed(field, token))
            continue;
        left_ms[held.count++] = value_integer(
            value_at(others, (size_t)at + LOOK_REPLY_HOLDER_REMAINING_MS));
    }
    quorum_sort_down(left_ms, held.count);
    if (held.count >= needed)
        held.left_ms = left_ms[needed - 1];
    return held;
}

struct summary {
    unsigned replied;
    unsigned most;  /* servers at which one holder holds with one token */
    size_t best;    /* a server that names this holder */
    unsigned doubt; /* the most servers at which a holder that no majority names holds */
    bool is_wrong;  /* some server has another kind of key */
    size_t wrong;   /* that one */
    size_t first;   /* the first server with a holder */
};

static struct summary sum_up(const struct quorum_call *call)
{
    struct summary sum = {.first = call->calls->nodes};

    for (size_t i = 0; i < call->calls->nodes; i++) {
        const struct round_reply *reply = &call->round.replies[i];
        bool is_wrong = reply->state == ROUND_REPLIED && !has_view(call, i);
        if (is_wrong ||
            (reply->state == ROUND_REFUSED && reply->refusal == REDIS_REFUSED_WRONG_TYPE)) {
            sum.is_wrong = true;
            sum.wrong = i;
        }
        if (!has_view(call, i))
            continue;
        const struct redis_value *holders = value_at(reply->value, LOOK_REPLY_HOLDERS);
        if (sum.replied == 0)
            sum.best = i;
        if (value_count(holders) > 0 && i < sum.first)
            sum.first = i;
        sum.replied++;
        for (size_t at = 0; at < value_count(holders); at += LOOK_REPLY_HOLDER_VALUES) {
            struct held_at held = count_holder(call, holders, at);
            if (held.count > sum.most) {
                sum.most = held.count;
                sum.best = i;
            }
            if (held.left_ms < 0 && held.count > sum.doubt)
                sum.doubt = held.count;
        }
    }
    return sum;
}

/* The holders that a server names. */
static const struct redis_value *holders_at(const struct quorum_call *call, size_t node)
{
    return has_view(call, node) ? value_at(reply_of(call, node), LOOK_REPLY_HOLDERS) : NULL;
}

/* Adds the holders of a list that a majority has and that are not there yet, each with the time
 * for which a majority has it. Returns the number of values in `kept`. */
static size_t keep_holders(const struct quorum_call *call, const struct redis_value *holders,
                           struct redis_value *kept, size_t count, int64_t *left_ms)
{
    for (size_t at = 0; at < value_count(holders); at += LOOK_REPLY_HOLDER_VALUES) {
        struct held_at held = count_holder(call, holders, at);
        if (held.left_ms < 0 ||
            find_holder(kept, text_at(holders, at + LOOK_REPLY_HOLDER_FIELD),
                        text_at(holders, at + LOOK_REPLY_HOLDER_FENCING_TOKEN)) >= 0)
            continue;
        for (size_t i = 0; i < LOOK_REPLY_HOLDER_VALUES; i++)
            value_put(kept, count + i, value_copy(value_at(holders, at + i)));
        value_put(kept, count + LOOK_REPLY_HOLDER_REMAINING_MS,
                  value_make_integer(held.left_ms));
        count += LOOK_REPLY_HOLDER_VALUES;
        if (held.left_ms > *left_ms)
            *left_ms = held.left_ms;
    }
    return count;
}

/* Of several readers no server need have all: those that a majority has, in the order of the
 * server `best`, and then of the others. */
static struct redis_value *kept_holders(const struct quorum_call *call, size_t best,
                                        int64_t *left_ms)
{
    size_t most = 0, count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        most += value_count(holders_at(call, i));
    struct redis_value *kept = value_make_list(most);
    *left_ms = -2;
    count = keep_holders(call, holders_at(call, best), kept, count, left_ms);
    for (size_t i = 0; i < call->calls->nodes; i++)
        count = keep_holders(call, holders_at(call, i), kept, count, left_ms);
    value_cut(kept, count);
    return kept;
}

/* --- waiters ------------------------------------------------------------------------------ */

/* Whether the waiter is a holder: a server that refused a lease which the others granted then
 * has it among its waiters until a repair, or until its wait would be over. */
static bool is_kept(const struct redis_value *kept, const char *lease_id)
{
    size_t len = strlen(lease_id);

    for (size_t at = 0; len > 0 && at < value_count(kept); at += LOOK_REPLY_HOLDER_VALUES)
        if (strncmp(text_at(kept, at + LOOK_REPLY_HOLDER_FIELD), lease_id, len) == 0)
            return true;
    return false;
}

/* Copies the waiters that hold nothing; returns how many were left out. */
static size_t copy_waiters(const struct redis_value *waiters, const struct redis_value *kept,
                           struct redis_value *copy)
{
    size_t count = 0;

    for (size_t at = 0; at < value_count(waiters); at += LOOK_REPLY_WAITER_VALUES) {
        bool is_holder = is_kept(kept, text_at(waiters, at + LOOK_REPLY_WAITER_LEASE_ID));
        for (size_t i = 0; !is_holder && i < LOOK_REPLY_WAITER_VALUES; i++)
            value_put(copy, count++, value_copy(value_at(waiters, at + i)));
    }
    value_cut(copy, count);
    return (value_count(waiters) - count) / LOOK_REPLY_WAITER_VALUES;
}

/* A waiter is registered where the lock was busy: the server with the most of them is shown. */
static void put_waiters(const struct quorum_call *call, const struct redis_value *kept,
                        struct redis_value *view)
{
    int64_t most = -1;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (!has_view(call, i))
            continue;
        const struct redis_value *waiters = value_at(reply_of(call, i), LOOK_REPLY_WAITERS);
        struct redis_value *copy = value_make_list(value_count(waiters));
        int64_t left_out = (int64_t)copy_waiters(waiters, kept, copy);
        int64_t count = value_integer(value_at(reply_of(call, i), LOOK_REPLY_WAITER_COUNT)) -
                        left_out;
        if (count > most) {
            value_put(view, LOOK_REPLY_WAITER_COUNT, value_make_integer(count));
            value_put(view, LOOK_REPLY_WAITERS, copy);
        } else {
            value_free(copy);
        }
        most = count > most ? count : most;
    }
}

/* --- the lease that asks ------------------------------------------------------------------ */

/* The state that a majority of the servers sees; the place of a server that does, or `nodes`.
 */
static size_t find_state(const struct quorum_call *call)
{
    for (size_t i = 0; i < call->calls->nodes; i++) {
        unsigned same = 0;
        for (size_t k = 0; has_view(call, i) && k < call->calls->nodes; k++)
            same += has_view(call, k) &&
                    strcmp(text_at(reply_of(call, i), LOOK_REPLY_LEASE_STATE),
                           text_at(reply_of(call, k), LOOK_REPLY_LEASE_STATE)) == 0;
        if (same >= quorum_majority(call->calls->nodes))
            return i;
    }
    return call->calls->nodes;
}

static void put_state(const struct quorum_call *call, struct redis_value *view)
{
    size_t node = find_state(call);

    if (node == call->calls->nodes) {
        value_put(view, LOOK_REPLY_LEASE_STATE, value_make_text("", 0));
        value_put(view, LOOK_REPLY_LEASE_REASON, value_make_text("", 0));
        return;
    }
    value_put(view, LOOK_REPLY_LEASE_STATE,
              value_copy(value_at(reply_of(call, node), LOOK_REPLY_LEASE_STATE)));
    value_put(view, LOOK_REPLY_LEASE_REASON,
              value_copy(value_at(reply_of(call, node), LOOK_REPLY_LEASE_REASON)));
}

/* --- the view ----------------------------------------------------------------------------- */

/* Behind the values of look.lua: how many servers there are, how many have replied, at how many
 * of them the lock is held with one token, and which is the first with a holder. */
static struct redis_value *make_view(const struct quorum_call *call, const struct summary *sum)
{
    const struct redis_value *best = reply_of(call, sum->best);
    struct redis_value *view = value_make_list(LOOK_REPLY_VALUES + 4);
    int64_t left_ms;

    for (size_t i = 0; i < LOOK_REPLY_VALUES; i++)
        value_put(view, i, value_copy(value_at(best, i)));
    struct redis_value *kept = kept_holders(call, sum->best, &left_ms);
    size_t count = value_count(kept) / LOOK_REPLY_HOLDER_VALUES;
    put_waiters(call, kept, view);
    value_put(view, LOOK_REPLY_HOLDERS, kept);
    value_put(view, LOOK_REPLY_HOLDER_COUNT, value_make_integer((int64_t)count));
    value_put(view, LOOK_REPLY_REMAINING_MS, value_make_integer(left_ms));
    if (count == 0)
        value_put(view, LOOK_REPLY_KIND, value_make_text("", 0));
    put_state(call, view);
    value_put(view, LOOK_REPLY_VALUES, value_make_integer(call->calls->nodes));
    value_put(view, LOOK_REPLY_VALUES + 1, value_make_integer(sum->replied));
    value_put(view, LOOK_REPLY_VALUES + 2, value_make_integer(sum->most));
    value_put(view, LOOK_REPLY_VALUES + 3, value_make_integer((int64_t)sum->first));
    return view;
}

static void answer_view(struct quorum_call *call, struct redis_value *view)
{
    int64_t left_ms = value_integer(value_at(view, LOOK_REPLY_REMAINING_MS));

    call->ask.drift_ms = left_ms > 0 ? quorum_drift_ms(left_ms) : 0;
    quorum_call_answer(call, view);
}

/* A listing shows a lock at the first server that has it, so each server has to reply. */
static bool is_for_listing(const struct quorum_call *call)
{
    return strcmp(quorum_arg(call, LOOK_ARG_WAITERS_MAX), "0") == 0;
}

/* Whether further replies can change who is shown. */
static bool is_settled(const struct quorum_call *call, const struct summary *sum)
{
    unsigned needed = quorum_majority(call->calls->nodes);
    unsigned missing = call->calls->nodes - sum->replied;

    if (call->round.is_over || is_for_listing(call))
        return call->round.is_over;
    return sum->replied >= needed && sum->doubt + missing < needed;
}

static enum conclusion_word word_of(const struct quorum_call *call, const struct summary *sum)
{
    unsigned needed = quorum_majority(call->calls->nodes);

    if (sum->replied < needed)
        return sum->is_wrong ? CONCLUDE_REFUSED : CONCLUDE_UNKNOWN;
    if (sum->most >= needed)
        return CONCLUDE_LOCKED;
    return sum->most > 0 ? CONCLUDE_UNDECIDED : CONCLUDE_NOT_LOCKED;
}

static void decide_look(struct quorum_call *call)
{
    struct summary sum = sum_up(call);

    if (!is_settled(call, &sum))
        return;
    quorum_call_count(call, ROUND_LOOK, word_of(call, &sum));
    if (sum.replied >= quorum_majority(call->calls->nodes))
        answer_view(call, make_view(call, &sum));
    else if (sum.is_wrong && call->round.replies[sum.wrong].state == ROUND_REPLIED)
        quorum_call_answer_reply(call, sum.wrong);
    else if (sum.is_wrong)
        quorum_call_refuse(call, REDIS_REFUSED_WRONG_TYPE);
    else
        quorum_call_fail(call);
}

/* --- fencing tokens ----------------------------------------------------------------------- */

/* Whether no holder that the server names has the token. -1: an unnamed reader may have it. */
static bool is_stale(const struct redis_value *view)
{
    int64_t is_current = value_integer(value_at(view, LOOK_REPLY_IS_CURRENT));
    int64_t named = (int64_t)(value_count(value_at(view, LOOK_REPLY_HOLDERS)) /
                              LOOK_REPLY_HOLDER_VALUES);

    return is_current == 0 || (is_current == -1 &&
                               named >= value_integer(value_at(view, LOOK_REPLY_HOLDER_COUNT)));
}

static void decide_check(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    struct summary sum = sum_up(call);

    for (size_t i = 0; i < call->calls->nodes; i++) {
        int64_t is_current = value_integer(value_at(reply_of(call, i), LOOK_REPLY_IS_CURRENT));
        replies[i] = (struct node_reply){.word = NODE_SILENT};
        if (has_view(call, i) && is_current == 1)
            replies[i] = (struct node_reply){.word = NODE_HELD, .value = call->ask.token};
        else if (has_view(call, i) && is_stale(reply_of(call, i)))
            replies[i].word = NODE_OTHER;
    }
    const struct conclusion found = quorum_call_conclude(call, ROUND_CHECK, conclude_checks,
                                                         replies);
    if (found.word == CONCLUDE_WAIT)
        return;
    if (found.word != CONCLUDE_CURRENT && found.word != CONCLUDE_STALE) {
        quorum_call_fail(call);
        return;
    }
    struct redis_value *view = make_view(call, &sum);
    value_put(view, LOOK_REPLY_IS_CURRENT,
              value_make_integer(found.word == CONCLUDE_CURRENT ? 1 : 0));
    answer_view(call, view);
}

/* Which reader has the token: the one that a server names. A server with so many readers that
 * one script does not look at all of them cannot say. */
static void decide_grant(struct quorum_call *call)
{
    unsigned without = 0;
    size_t last = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (reply_of(call, i) == NULL)
            continue;
        if (text_at(reply_of(call, i), GRANT_FIND_REPLY_HOLDER)[0] != '\0') {
            quorum_call_answer_reply(call, i);
            return;
        }
        without += text_at(reply_of(call, i), GRANT_FIND_REPLY_STATE)[0] == '\0';
        last = i;
    }
    if (without >= quorum_majority(call->calls->nodes))
        quorum_call_answer_reply(call, last);
    else if (call->round.is_over)
        quorum_call_fail(call);
}

void quorum_grant_find(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_GRANT_FIND, call->args, decide_grant);
}

/* The record of a force-unlock at one server. */
static void decide_forced_by(struct quorum_call *call)
{
    unsigned replied = 0;
    size_t len;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        replied += call->round.replies[i].state == ROUND_REPLIED;
        (void)value_text(reply_of(call, i), &len);
        if (len == 0)
            continue;
        quorum_call_answer_reply(call, i);
        return;
    }
    if (replied >= quorum_majority(call->calls->nodes))
        quorum_call_answer(call, value_copy(NULL));
    else if (call->round.is_over)
        quorum_call_fail(call);
}

void quorum_forced_by(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_FORCED_BY, call->args, decide_forced_by);
}

void quorum_look(struct quorum_call *call)
{
    bool is_check = quorum_arg(call, LOOK_ARG_ASKED_TOKEN)[0] != '\0';

    call->ask.token = quorum_arg_ms(call, LOOK_ARG_ASKED_TOKEN);
    quorum_call_ask(call, SCRIPT_LOOK, call->args, is_check ? decide_check : decide_look);
}
