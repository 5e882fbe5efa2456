/* Conclusions from the replies of nodes: tests/model/quorum/conclusion.py in C. */
#include "storage/quorum/votes.h"

#include <assert.h>

enum { DRIFT_SHARE = 100, DRIFT_MIN_MS = 2 };

const char *const conclusion_names[CONCLUSIONS] = {
    [CONCLUDE_WAIT] = "wait",
    [CONCLUDE_UNKNOWN] = "unknown",
    [CONCLUDE_LATE] = "late",
    [CONCLUDE_GRANTED] = "granted",
    [CONCLUDE_CLAIM] = "claim",
    [CONCLUDE_VOTE] = "vote",
    [CONCLUDE_END] = "end",
    [CONCLUDE_BUSY] = "busy",
    [CONCLUDE_SPLIT] = "split",
    [CONCLUDE_UNBOUND] = "unbound",
    [CONCLUDE_REFUSED] = "refused",
    [CONCLUDE_QUARANTINE] = "quarantine",
    [CONCLUDE_HELD] = "held",
    [CONCLUDE_RENEWED] = "renewed",
    [CONCLUDE_RELEASED] = "released",
    [CONCLUDE_ENDED] = "ended",
    [CONCLUDE_LOST] = "lost",
    [CONCLUDE_FREE] = "free",
    [CONCLUDE_SPEND] = "spend",
    [CONCLUDE_FORCED] = "forced",
    [CONCLUDE_LOCKED] = "locked",
    [CONCLUDE_NOT_LOCKED] = "not-locked",
    [CONCLUDE_UNDECIDED] = "undecided",
    [CONCLUDE_CURRENT] = "current",
    [CONCLUDE_STALE] = "stale",
    [CONCLUDE_ALIVE] = "alive",
    [CONCLUDE_SHUT] = "shut",
    [CONCLUDE_CLOSE] = "close",
    [CONCLUDE_GONE] = "gone",
    [CONCLUDE_CLOSED] = "closed",
    [CONCLUDE_KEEP] = "keep",
};

unsigned quorum_majority(unsigned nodes)
{
    return nodes / 2 + 1;
}

int64_t quorum_drift_ms(int64_t ttl_ms)
{
    return ttl_ms / DRIFT_SHARE + DRIFT_MIN_MS;
}

void quorum_sort_down(int64_t *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t number = numbers[i];
        size_t at = i;

        for (; at > 0 && numbers[at - 1] < number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

int64_t quorum_median(int64_t *numbers, size_t count)
{
    assert(count > 0);
    quorum_sort_down(numbers, count);
    return numbers[count - 1 - count / 2];
}

int64_t quorum_proposal(const int64_t *clocks_us, size_t count, int64_t last)
{
    int64_t sorted[QUORUM_NODES_MAX];

    assert(count > 0 && count <= QUORUM_NODES_MAX);
    for (size_t i = 0; i < count; i++)
        sorted[i] = clocks_us[i];
    int64_t median = quorum_median(sorted, count);
    return median > last ? median : last + 1;
}

/* --- counting ----------------------------------------------------------------------------- */

/* Nodes whose reply is one of these words, a set of 1 << word. */
#define WORDS(word) (1u << (word))

static unsigned nodes_with(const struct quorum_ask *asked, const struct node_reply *replies,
                           unsigned words)
{
    unsigned nodes = 0;

    for (unsigned i = 0; i < asked->nodes; i++)
        if (words & WORDS(replies[i].word))
            nodes |= 1u << i;
    return nodes;
}

static unsigned count_of(const struct quorum_ask *asked, const struct node_reply *replies,
                         unsigned words)
{
    return (unsigned)__builtin_popcount(nodes_with(asked, replies, words));
}

static unsigned replied(const struct quorum_ask *asked, const struct node_reply *replies)
{
    return asked->nodes - count_of(asked, replies, WORDS(NODE_SILENT));
}

/* So many nodes cannot be spared: the other ones are no majority. */
static bool is_decisive(const struct quorum_ask *asked, unsigned count)
{
    return count > asked->nodes - quorum_majority(asked->nodes);
}

static bool is_majority(const struct quorum_ask *asked, unsigned count)
{
    return count >= quorum_majority(asked->nodes);
}

/* The values of the replies with this word, the largest first. Returns their number. */
static unsigned values_of(const struct quorum_ask *asked, const struct node_reply *replies,
                          enum node_word word, int64_t values[QUORUM_NODES_MAX])
{
    unsigned count = 0;

    for (unsigned i = 0; i < asked->nodes; i++)
        if (replies[i].word == word)
            values[count++] = replies[i].value;
    quorum_sort_down(values, count);
    return count;
}

/* The lowest token that a majority holds with, where `own` nodes more hold with the token that
 * was asked for; 0: there is none. */
static int64_t token_of_majority(const struct quorum_ask *asked,
                                 const struct node_reply *replies, unsigned own)
{
    int64_t tokens[QUORUM_NODES_MAX];
    unsigned count = values_of(asked, replies, NODE_HELD, tokens);

    for (unsigned last = count, first; last > 0; last = first) {
        for (first = last - 1; first > 0 && tokens[first - 1] == tokens[last - 1];)
            first--;
        unsigned same = last - first + (tokens[first] == asked->token ? own : 0);
        if (is_majority(asked, same))
            return tokens[first];
    }
    return 0;
}

/* --- conclusions -------------------------------------------------------------------------- */

static unsigned all(const struct quorum_ask *asked)
{
    return (1u << asked->nodes) - 1;
}

static struct conclusion undo_all(const struct quorum_ask *asked, enum conclusion_word word)
{
    return (struct conclusion){.word = word, .undo = all(asked)};
}

static struct conclusion undo_none(enum conclusion_word word)
{
    return (struct conclusion){.word = word};
}

/* Where no majority has agreed: no reply is to come, or one may still decide. */
static struct conclusion undecided(const struct quorum_ask *asked,
                                   const struct node_reply *replies, bool is_over,
                                   enum conclusion_word word)
{
    bool is_last = is_over || replied(asked, replies) == asked->nodes;

    return undo_none(is_last ? word : CONCLUDE_WAIT);
}

static int64_t deadline(const struct quorum_ask *asked, int64_t left_ms)
{
    return asked->sent_ms + left_ms - asked->drift_ms;
}

/* A majority has agreed, for `left_ms` from the sending of the question on. */
static struct conclusion until(const struct quorum_ask *asked, int64_t now_ms, int64_t left_ms,
                               enum conclusion_word word, int64_t token)
{
    int64_t until_ms = deadline(asked, left_ms);

    if (now_ms >= until_ms)
        return undo_all(asked, CONCLUDE_LATE);
    return (struct conclusion){.word = word, .token = token, .until_ms = until_ms};
}

/* --- votes -------------------------------------------------------------------------------- */

static struct conclusion end_lease(unsigned accepted)
{
    return (struct conclusion){.word = CONCLUDE_END, .undo = accepted};
}

/* Whether no majority can vote for the lease any more; fills the conclusion. */
static bool is_hopeless(const struct quorum_ask *asked, const struct node_reply *replies,
                        struct conclusion *conclusion)
{
    static const struct {
        enum node_word reply;
        enum conclusion_word word;
    } reasons[] = {
        {NODE_UNBOUND, CONCLUDE_UNBOUND},
        {NODE_REFUSED, CONCLUDE_REFUSED},
        {NODE_BUSY, CONCLUDE_BUSY},
        {NODE_QUARANTINE, CONCLUDE_QUARANTINE},
    };
    unsigned refusals = WORDS(NODE_BUSY) | WORDS(NODE_LAPSED) | WORDS(NODE_QUARANTINE) |
                        WORDS(NODE_UNBOUND) | WORDS(NODE_REFUSED);
    size_t at = 0;

    if (!is_decisive(asked, count_of(asked, replies, refusals)))
        return false;
    if (count_of(asked, replies, WORDS(NODE_LAPSED)) > 0) {
        *conclusion = end_lease(nodes_with(asked, replies, WORDS(NODE_ACCEPTED)));
        return true;
    }
    while (count_of(asked, replies, WORDS(reasons[at].reply)) == 0)
        at++;
    *conclusion = undo_all(asked, reasons[at].word);
    return true;
}

/* A9: a majority has replied, and no node has the lease by another attempt: only the token is
 * open. */
static struct conclusion exhausted(const struct quorum_ask *asked,
                                   const struct node_reply *replies)
{
    bool is_held = count_of(asked, replies, WORDS(NODE_HELD)) > 0;
    bool is_open = count_of(asked, replies,
                            WORDS(NODE_BUSY) | WORDS(NODE_LOW) | WORDS(NODE_CLOCK)) > 0;
    bool is_split = is_open && !is_held && is_majority(asked, replied(asked, replies));

    return undo_all(asked, is_split ? CONCLUDE_SPLIT : CONCLUDE_UNKNOWN);
}

/* A7, A8: the next round, or that there is none. */
static struct conclusion vote_again(const struct quorum_ask *asked,
                                    const struct node_reply *replies)
{
    int64_t held[QUORUM_NODES_MAX], low[QUORUM_NODES_MAX], clocks[QUORUM_NODES_MAX];
    unsigned held_count = values_of(asked, replies, NODE_HELD, held);
    unsigned low_count = values_of(asked, replies, NODE_LOW, low);
    unsigned clock_count = values_of(asked, replies, NODE_CLOCK, clocks);
    struct conclusion next = undo_all(asked, CONCLUDE_VOTE);

    if (asked->number >= asked->last || !is_majority(asked, replied(asked, replies)))
        return exhausted(asked, replies);
    if (held_count > 0) {
        int64_t oldest = held[held_count - 1];
        next.token = oldest < asked->token ? oldest : asked->token;
        return next;
    }
    if (low_count == 0 && clock_count == 0)
        return exhausted(asked, replies);
    int64_t highest = low_count > 0 ? low[0] : clocks[0];
    next.token = (clock_count > 0 && clocks[0] > highest ? clocks[0] : highest) + 1;
    return next;
}

struct conclusion conclude_votes(const struct quorum_ask *asked,
                                 const struct node_reply *replies, int64_t now_ms, bool is_over)
{
    unsigned accepted = nodes_with(asked, replies, WORDS(NODE_ACCEPTED));
    unsigned votes = count_of(asked, replies, WORDS(NODE_ACCEPTED));
    struct conclusion conclusion;

    if (count_of(asked, replies, WORDS(NODE_SPENT)) > 0)
        return end_lease(accepted);
    if (is_majority(asked, votes))
        return until(asked, now_ms, asked->ttl_ms, CONCLUDE_GRANTED, asked->token);
    int64_t token = token_of_majority(asked, replies, votes);
    if (token != 0)
        return (struct conclusion){.word = CONCLUDE_CLAIM,
                                   .token = token,
                                   .undo = token != asked->token ? accepted : 0};
    if (is_hopeless(asked, replies, &conclusion))
        return conclusion;
    if (is_over || replied(asked, replies) == asked->nodes)
        return vote_again(asked, replies);
    return undo_none(CONCLUDE_WAIT);
}

struct conclusion conclude_claims(const struct quorum_ask *asked,
                                  const struct node_reply *replies, int64_t now_ms,
                                  bool is_over)
{
    int64_t left[QUORUM_NODES_MAX];
    unsigned claimed = values_of(asked, replies, NODE_CLAIMED, left);

    if (!is_majority(asked, claimed)) {
        if (is_over || is_decisive(asked, replied(asked, replies) - claimed))
            return undo_all(asked, CONCLUDE_UNKNOWN);
        return undo_none(CONCLUDE_WAIT);
    }
    struct conclusion held = until(asked, now_ms, left[quorum_majority(asked->nodes) - 1],
                                   CONCLUDE_HELD, asked->token);
    if (held.word == CONCLUDE_LATE)
        return held;
    held.undo = all(asked);
    held.mend = nodes_with(asked, replies, WORDS(NODE_GONE));
    return held;
}

/* --- leases that hold --------------------------------------------------------------------- */

/* Nodes that hold with another token, of a vote that no majority has joined. */
static unsigned nodes_apart(const struct quorum_ask *asked, const struct node_reply *replies,
                            int64_t token)
{
    unsigned nodes = 0;

    for (unsigned i = 0; i < asked->nodes; i++)
        if ((replies[i].word == NODE_HELD || replies[i].word == NODE_MARKED) &&
            replies[i].value != token)
            nodes |= 1U << i;
    return nodes;
}

/* The token of a lease that a majority holds, where some nodes have only marked it; 0: none. */
static int64_t marked_token(const struct quorum_ask *asked, const struct node_reply *replies)
{
    struct node_reply held[QUORUM_NODES_MAX];

    for (unsigned i = 0; i < asked->nodes; i++) {
        held[i] = replies[i];
        if (held[i].word == NODE_MARKED)
            held[i].word = NODE_HELD;
    }
    return token_of_majority(asked, held, 0);
}

/* Nodes that have marked the lease are asked again all at once, so the others have their time.
 */
struct conclusion conclude_renewals(const struct quorum_ask *asked,
                                    const struct node_reply *replies, int64_t now_ms,
                                    bool is_over)
{
    if (asked->number < asked->last && count_of(asked, replies, WORDS(NODE_MARKED)) > 0) {
        if (!is_over && replied(asked, replies) < asked->nodes)
            return undo_none(CONCLUDE_WAIT);
        int64_t marked = marked_token(asked, replies);
        if (marked != 0)
            return (struct conclusion){.word = CONCLUDE_VOTE, .token = marked};
    }
    int64_t token = token_of_majority(asked, replies, 0);
    unsigned lost = count_of(asked, replies, WORDS(NODE_GONE));
    unsigned waiting = count_of(asked, replies, WORDS(NODE_BUSY));

    if (token != 0) {
        struct conclusion renewed = until(asked, now_ms, asked->ttl_ms, CONCLUDE_RENEWED,
                                          token);
        if (renewed.word == CONCLUDE_RENEWED)
            renewed.mend = nodes_apart(asked, replies, token) |
                           nodes_with(asked, replies, WORDS(NODE_GONE) | WORDS(NODE_RESTARTED));
        return renewed;
    }
    if (is_decisive(asked, lost + waiting))
        return undo_none(waiting > 0 ? CONCLUDE_BUSY : CONCLUDE_END);
    return undecided(asked, replies, is_over, CONCLUDE_UNKNOWN);
}

/* Once a majority has done it, whatever each of them found. */
static struct conclusion done_at_majority(const struct quorum_ask *asked,
                                          const struct node_reply *replies, bool is_over,
                                          enum conclusion_word word)
{
    if (is_majority(asked, replied(asked, replies)))
        return undo_none(word);
    return undo_none(is_over ? CONCLUDE_UNKNOWN : CONCLUDE_WAIT);
}

/* A server that has not replied counts as one that had the lease: it is waited for where that
 * decides. */
struct conclusion conclude_releases(const struct quorum_ask *asked,
                                    const struct node_reply *replies, int64_t now_ms,
                                    bool is_over)
{
    unsigned released = count_of(asked, replies, WORDS(NODE_RELEASED));
    unsigned held = released + count_of(asked, replies, WORDS(NODE_SILENT));

    (void)now_ms;
    if (!is_over && is_majority(asked, held) && !is_majority(asked, released))
        return undo_none(CONCLUDE_WAIT);
    return done_at_majority(asked, replies, is_over,
                            is_majority(asked, held) ? CONCLUDE_RELEASED : CONCLUDE_ENDED);
}

struct conclusion conclude_ends(const struct quorum_ask *asked,
                                const struct node_reply *replies, int64_t now_ms, bool is_over)
{
    (void)now_ms;
    return done_at_majority(asked, replies, is_over, CONCLUDE_LOST);
}

struct conclusion conclude_forces(const struct quorum_ask *asked,
                                  const struct node_reply *replies, int64_t now_ms,
                                  bool is_over)
{
    bool is_found = count_of(asked, replies, WORDS(NODE_FORCED)) > 0;
    unsigned done = count_of(asked, replies, WORDS(NODE_FORCED) | WORDS(NODE_FREE));
    unsigned silent = count_of(asked, replies, WORDS(NODE_SILENT));
    int64_t newer[QUORUM_NODES_MAX], clocks[QUORUM_NODES_MAX];
    unsigned low = values_of(asked, replies, NODE_LOW, newer);
    unsigned off = values_of(asked, replies, NODE_CLOCK, clocks);

    (void)now_ms;
    if (is_majority(asked, done))
        return undo_none(is_found ? CONCLUDE_SPEND : CONCLUDE_FREE);
    if (!is_over && is_majority(asked, done + silent))
        return undo_none(CONCLUDE_WAIT);
    unsigned more = quorum_majority(asked->nodes) - done;
    if (asked->number >= asked->last || (low < more && off == 0))
        return undo_none(CONCLUDE_UNKNOWN);
    return (struct conclusion){.word = CONCLUDE_VOTE,
                               .token = low < more ? clocks[off / 2] : newer[low - more]};
}

struct conclusion conclude_spends(const struct quorum_ask *asked,
                                  const struct node_reply *replies, int64_t now_ms,
                                  bool is_over)
{
    (void)now_ms;
    return done_at_majority(asked, replies, is_over, CONCLUDE_FORCED);
}

/* --- looks -------------------------------------------------------------------------------- */

struct conclusion conclude_looks(const struct quorum_ask *asked,
                                 const struct node_reply *replies, int64_t now_ms, bool is_over)
{
    int64_t token = token_of_majority(asked, replies, 0);
    unsigned held = count_of(asked, replies, WORDS(NODE_HELD));

    (void)now_ms;
    if (token != 0)
        return (struct conclusion){.word = CONCLUDE_LOCKED, .token = token};
    if (is_decisive(asked, replied(asked, replies) - held))
        return undo_none(CONCLUDE_NOT_LOCKED);
    return undecided(asked, replies, is_over, CONCLUDE_UNDECIDED);
}

struct conclusion conclude_checks(const struct quorum_ask *asked,
                                  const struct node_reply *replies, int64_t now_ms,
                                  bool is_over)
{
    unsigned held = 0;

    (void)now_ms;
    for (unsigned i = 0; i < asked->nodes; i++)
        held += replies[i].word == NODE_HELD && replies[i].value == asked->token;
    if (is_majority(asked, held))
        return (struct conclusion){.word = CONCLUDE_CURRENT, .token = asked->token};
    if (is_decisive(asked, replied(asked, replies) - held))
        return undo_none(CONCLUDE_STALE);
    return undecided(asked, replies, is_over, CONCLUDE_UNKNOWN);
}

/* --- sessions ----------------------------------------------------------------------------- */

struct conclusion conclude_keep_alives(const struct quorum_ask *asked,
                                       const struct node_reply *replies, int64_t now_ms,
                                       bool is_over)
{
    unsigned over = count_of(asked, replies, WORDS(NODE_PASSED) | WORDS(NODE_ENDED));
    unsigned unknown = count_of(asked, replies, WORDS(NODE_UNKNOWN));

    if (is_majority(asked, count_of(asked, replies, WORDS(NODE_OPEN)))) {
        struct conclusion alive = until(asked, now_ms, asked->ttl_ms, CONCLUDE_ALIVE, 0);
        if (alive.word == CONCLUDE_LATE)
            return undo_none(CONCLUDE_LATE);
        alive.mend = nodes_with(asked, replies, WORDS(NODE_UNKNOWN));
        return alive;
    }
    if (is_decisive(asked, over))
        return undo_none(CONCLUDE_CLOSE);
    if (is_decisive(asked, over + unknown))
        return undo_none(CONCLUDE_GONE);
    return undecided(asked, replies, is_over, CONCLUDE_UNKNOWN);
}

struct conclusion conclude_closings(const struct quorum_ask *asked,
                                    const struct node_reply *replies, int64_t now_ms,
                                    bool is_over)
{
    (void)now_ms;
    return done_at_majority(asked, replies, is_over, CONCLUDE_CLOSED);
}

struct conclusion conclude_due(const struct quorum_ask *asked, const struct node_reply *replies,
                               int64_t now_ms, bool is_over)
{
    int64_t left[QUORUM_NODES_MAX];
    unsigned open = values_of(asked, replies, NODE_OPEN, left);
    unsigned over = count_of(asked, replies, WORDS(NODE_PASSED) | WORDS(NODE_ENDED));

    (void)now_ms;
    if (is_majority(asked, over))
        return undo_none(CONCLUDE_SHUT);
    if (is_majority(asked, open))
        return (struct conclusion){
            .word = CONCLUDE_KEEP,
            .until_ms = deadline(asked, left[quorum_majority(asked->nodes) - 1]),
            .mend = nodes_with(asked, replies, WORDS(NODE_PASSED) | WORDS(NODE_UNKNOWN))};
    return undecided(asked, replies, is_over, CONCLUDE_UNKNOWN);
}

struct conclusion conclude_shuts(const struct quorum_ask *asked,
                                 const struct node_reply *replies, int64_t now_ms, bool is_over)
{
    (void)now_ms;
    if (is_majority(asked, count_of(asked, replies, WORDS(NODE_ENDED))))
        return undo_none(CONCLUDE_CLOSE);
    return undecided(asked, replies, is_over, CONCLUDE_UNKNOWN);
}

/* --- waiting ------------------------------------------------------------------------------ */

bool quorum_may_sleep(const unsigned *holders, size_t count, unsigned nodes)
{
    for (size_t i = 0; i < count; i++) {
        unsigned same = 0;

        for (size_t k = 0; k < count; k++)
            same += holders[k] == holders[i];
        if (same >= quorum_majority(nodes))
            return true;
    }
    return false;
}

bool quorum_withdrawal_publishes(unsigned votes, unsigned nodes)
{
    return votes >= quorum_majority(nodes);
}

bool quorum_has_baton(unsigned heard, bool is_timer_over, unsigned nodes)
{
    return heard >= quorum_majority(nodes) || (heard > 0 && is_timer_over);
}
