/* One answer from the replies of several servers: counts, and lists that are joined. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/quorum/calls_internal.h"

unsigned quorum_count(const struct quorum_call *call, const struct node_reply *replies,
                      enum node_word word)
{
    unsigned count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        count += replies[i].word == word;
    return count;
}

const struct redis_value *quorum_value(const struct quorum_call *call, size_t node, size_t at)
{
    return value_at(call->round.replies[node].value, at);
}

const char *quorum_value_text(const struct quorum_call *call, size_t node, size_t at)
{
    size_t len;

    return value_text(quorum_value(call, node, at), &len);
}

int64_t quorum_majority_value(const struct quorum_call *call, const struct node_reply *replies,
                              enum node_word word)
{
    unsigned needed = quorum_majority(call->calls->nodes), count = 0;
    int64_t values[QUORUM_NODES_MAX];

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == word)
            values[count++] = replies[i].value;
    quorum_sort_down(values, count);
    return count >= needed ? values[needed - 1] : 0;
}

/* --- lists -------------------------------------------------------------------------------- */

void quorum_union_begin(struct value_union *all, size_t stride, size_t entries)
{
    *all = (struct value_union){
        .stride = stride, .room = entries, .list = value_make_list(entries * stride)};
}

void quorum_union_add(struct value_union *all, const struct redis_value *entries)
{
    for (size_t i = 0; i + all->stride <= value_count(entries); i += all->stride) {
        assert(all->count < all->room * all->stride);
        for (size_t k = 0; k < all->stride; k++)
            value_put(all->list, all->count++, value_copy(value_at(entries, i + k)));
    }
}

struct entry {
    const char *text;
    size_t len, at;
};

static int by_text(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    if (order == 0)
        order = (a->len > b->len) - (a->len < b->len);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* Of several entries with one text the first one stays. */
struct redis_value *quorum_union_end(struct value_union *all)
{
    size_t count = all->count / all->stride, kept = 0;
    struct entry *entries = calloc(count + 1, sizeof(*entries));
    struct redis_value *list = value_make_list(all->count);

    assert(entries != NULL);
    for (size_t i = 0; i < count; i++) {
        entries[i].at = i * all->stride;
        entries[i].text = value_text(value_at(all->list, entries[i].at), &entries[i].len);
    }
    qsort(entries, count, sizeof(entries[0]), by_text);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && entries[i].len == entries[i - 1].len &&
            memcmp(entries[i].text, entries[i - 1].text, entries[i].len) == 0)
            continue;
        for (size_t k = 0; k < all->stride; k++)
            value_put(list, kept++, value_copy(value_at(all->list, entries[i].at + k)));
    }
    value_cut(list, kept);
    value_free(all->list);
    free(entries);
    return list;
}

struct redis_value *quorum_union(const struct quorum_call *call,
                                 const struct node_reply *replies, enum node_word word,
                                 size_t at, size_t stride)
{
    struct value_union all;
    size_t entries = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == word)
            entries += value_count(quorum_value(call, i, at)) / stride;
    quorum_union_begin(&all, stride, entries);
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == word)
            quorum_union_add(&all, quorum_value(call, i, at));
    return quorum_union_end(&all);
}
