/* Servers that are busy with other leases (W2 of docs/quorum.md): with one lease that has a
 * majority, or with several between which the votes are split. */
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "server/base/token.h"
#include "storage/quorum/calls_internal.h"

int64_t quorum_random_ms(int64_t most)
{
    char hex[9];

    token_random_hex(hex, sizeof(hex) - 1);
    return 1 + (int64_t)(strtoul(hex, NULL, 16) % (unsigned long)most);
}

static const char *text_at(const struct redis_value *value, size_t i)
{
    size_t len;

    return value_text(value_at(value, i), &len);
}

/* Whether an attempt of kind read or write has met a reader. Each server names any of the
 * readers, which hold the lock together. */
static bool is_reader(const struct quorum_call *call, const char *field)
{
    static const char writer[] = ":write";
    size_t kind_len, len = strlen(field), writer_len = sizeof(writer) - 1;
    const char *kind = quorum_record_line(call, LINE_KIND, &kind_len);
    bool is_plain = kind_len == 4 && memcmp(kind, "lock", 4) == 0;

    return !is_plain && (len < writer_len || strcmp(field + len - writer_len, writer) != 0);
}

static bool is_same_holder(const struct quorum_call *call, const struct redis_value *one,
                           const struct redis_value *other)
{
    const char *field = text_at(one, QUORUM_VOTE_REPLY_BUSY_FIELD);
    const char *other_field = text_at(other, QUORUM_VOTE_REPLY_BUSY_FIELD);

    return strcmp(field, other_field) == 0 ||
           (is_reader(call, field) && is_reader(call, other_field));
}

/* Numbers the holders that the servers are busy with: the first server with the same holder.
 * Returns how many servers are busy. */
static size_t number_holders(const struct quorum_call *call, const struct node_reply *replies,
                             unsigned holders[QUORUM_NODES_MAX], size_t at[QUORUM_NODES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (replies[i].word != NODE_BUSY)
            continue;
        const struct redis_value *own = call->round.replies[i].value;
        unsigned number = (unsigned)i;
        for (size_t k = 0; k < count; k++) {
            const struct redis_value *other = call->round.replies[at[k]].value;
            if (is_same_holder(call, own, other))
                number = holders[k];
        }
        holders[count] = number;
        at[count++] = i;
    }
    return count;
}

bool quorum_is_split(const struct quorum_call *call, const struct node_reply *replies)
{
    unsigned holders[QUORUM_NODES_MAX];
    size_t at[QUORUM_NODES_MAX];
    size_t count = number_holders(call, replies, holders, at);

    return !quorum_may_sleep(holders, count, call->calls->nodes);
}

struct redis_value *quorum_make_busy(const struct quorum_call *call,
                                     const struct node_reply *replies)
{
    unsigned needed = quorum_majority(call->calls->nodes), found = 0;
    unsigned holders[QUORUM_NODES_MAX];
    size_t at[QUORUM_NODES_MAX], best = 0;
    size_t count = number_holders(call, replies, holders, at);
    int64_t left_ms[QUORUM_NODES_MAX];

    for (size_t k = 0; k < count; k++) {
        unsigned same = 0;
        for (size_t i = 0; i < count; i++)
            same += holders[i] == holders[k];
        if (same >= needed)
            best = k;
    }
    for (size_t k = 0; k < count; k++) {
        if (holders[k] != holders[best])
            continue;
        left_ms[found++] = value_integer(
            value_at(call->round.replies[at[k]].value, QUORUM_VOTE_REPLY_BUSY_REMAINING_MS));
    }
    quorum_sort_down(left_ms, found);
    struct redis_value *reply = value_copy(call->round.replies[at[best]].value);
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_REMAINING_MS,
              value_make_integer(left_ms[needed - 1]));
    return reply;
}

struct redis_value *quorum_make_split(int64_t pause_ms)
{
    struct redis_value *reply = value_make_list(QUORUM_VOTE_REPLY_BUSY_COUNTER + 1);

    value_put(reply, 0, value_make_text("busy", sizeof("busy") - 1));
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_REMAINING_MS, value_make_integer(pause_ms));
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_FIELD, value_make_text("", 0));
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_TEXT, value_make_text("", 0));
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_TOKEN, value_make_text("", 0));
    value_put(reply, QUORUM_VOTE_REPLY_BUSY_NUMBER, value_make_integer(1));
    return reply;
}

static int64_t busy_token_of(const struct quorum_call *call, size_t node)
{
    return strtoll(text_at(call->round.replies[node].value, QUORUM_VOTE_REPLY_BUSY_TOKEN), NULL,
                   10);
}

bool quorum_is_oldest(const struct quorum_call *call, const struct node_reply *replies)
{
    bool has_votes = false;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        has_votes |= replies[i].word == NODE_ACCEPTED;
        if (replies[i].word == NODE_BUSY && busy_token_of(call, i) <= call->ask.token)
            return false;
    }
    return has_votes;
}

uint64_t quorum_blockers(const struct quorum_call *call, const struct node_reply *replies)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        size_t len;
        const char *field = value_text(quorum_value(call, i, QUORUM_VOTE_REPLY_BUSY_FIELD),
                                       &len);
        if (replies[i].word == NODE_BUSY)
            sum += text_hash(field, len) + (uint64_t)busy_token_of(call, i);
    }
    return sum;
}
