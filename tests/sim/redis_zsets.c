/* Sorted sets. */
#include <math.h>
#include <string.h>

#include "tests/sim/redis.h"

struct zadd_options {
    bool if_absent, if_present, if_greater, if_less, counts_changes, increments;
};

/* Index of the first score. */
static size_t read_zadd_options(const struct call *call, struct zadd_options *options)
{
    size_t i = 2;

    for (; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        if (bytes_is_word(word, "nx"))
            options->if_absent = true;
        else if (bytes_is_word(word, "xx"))
            options->if_present = true;
        else if (bytes_is_word(word, "gt"))
            options->if_greater = true;
        else if (bytes_is_word(word, "lt"))
            options->if_less = true;
        else if (bytes_is_word(word, "ch"))
            options->counts_changes = true;
        else if (bytes_is_word(word, "incr"))
            options->increments = true;
        else
            break;
    }
    return i;
}

static void put(struct value *value, struct bytes member, double score)
{
    long at = value_find(value, member);

    if (at >= 0)
        value_remove(value, (size_t)at);
    value_insert(value, value_place(value, member, score), member)->score = score;
}

struct zadd_counts {
    int64_t added, updated;
    bool done; /* the last member has the score that was asked for */
    bool no_number;
    double score;
};

static void add_member(struct value *value, const struct zadd_options *options,
                       struct bytes member, double score, struct zadd_counts *counts)
{
    long at = value_find(value, member);

    counts->done = false;
    if (at < 0 ? options->if_present : options->if_absent)
        return;
    double old = at >= 0 ? value->items[at].score : 0;
    counts->score = options->increments ? old + score : score;
    counts->no_number = isnan(counts->score);
    if (counts->no_number)
        return;
    if (at >= 0 && ((options->if_greater && counts->score <= old) ||
                    (options->if_less && counts->score >= old)))
        return;
    counts->done = true;
    counts->added += at < 0;
    counts->updated += at >= 0 && counts->score != old;
    if (at < 0 || counts->score != old)
        put(value, member, counts->score);
}

static void run_zadd(struct call *call)
{
    struct zadd_options options = {0};
    struct zadd_counts counts = {0};
    struct value *value;
    double score;
    size_t first = read_zadd_options(call, &options);

    if (first == call->argc || (call->argc - first) % 2 != 0) {
        reply_error(call, "ERR syntax error");
        return;
    }
    if (options.increments && call->argc - first > 2) {
        reply_error(call, "ERR INCR option supports a single increment-element pair");
        return;
    }
    for (size_t i = first; i < call->argc; i += 2)
        if (!read_score(call, call->argv[i], &score))
            return;
    if (!find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    if (value == NULL && !options.if_present)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_ZSET);
    for (size_t i = first; value != NULL && i < call->argc; i += 2) {
        read_score(call, call->argv[i], &score);
        add_member(value, &options, call->argv[i + 1], score, &counts);
    }
    drop_if_empty(call, value);
    if (counts.no_number)
        reply_error(call, "ERR resulting score is not a number (NaN)");
    else if (!options.increments)
        reply_integer(call, counts.added + (options.counts_changes ? counts.updated : 0));
    else if (counts.done)
        reply_number(call, counts.score);
    else
        reply_nil(call);
}

static void run_zincrby(struct call *call)
{
    const struct zadd_options options = {.increments = true};
    struct zadd_counts counts = {0};
    struct value *value;
    double score;

    if (!read_score(call, call->argv[2], &score) ||
        !find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    if (value == NULL)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_ZSET);
    add_member(value, &options, call->argv[3], score, &counts);
    if (counts.no_number)
        reply_error(call, "ERR resulting score is not a number (NaN)");
    else
        reply_number(call, counts.score);
}

static void run_zcard(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_ZSET, &value))
        reply_integer(call, value != NULL ? (int64_t)value->count : 0);
}

static void run_zscore(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    long at = value != NULL ? value_find(value, call->argv[2]) : -1;
    if (at < 0)
        reply_nil(call);
    else
        reply_number(call, value->items[at].score);
}

static void run_zrem(struct call *call)
{
    remove_items(call, VALUE_ZSET);
}

struct range {
    double least, most;
    bool above, below; /* the border itself does not count */
};

static bool read_border(struct bytes text, double *border, bool *is_open)
{
    char *end;

    *is_open = text.len > 0 && text.text[0] == '(';
    *border = strtod(text.text + *is_open, &end);
    return text.len > (size_t)*is_open && end == text.text + text.len && !isnan(*border);
}

static bool read_range(struct call *call, size_t at, struct range *range)
{
    if (read_border(call->argv[at], &range->least, &range->above) &&
        read_border(call->argv[at + 1], &range->most, &range->below))
        return true;
    reply_error(call, "ERR min or max is not a float");
    return false;
}

static bool is_in(const struct range *range, double score)
{
    return (range->above ? score > range->least : score >= range->least) &&
           (range->below ? score < range->most : score <= range->most);
}

static void run_zcount(struct call *call)
{
    struct range range;
    struct value *value;
    int64_t count = 0;

    if (!read_range(call, 2, &range) || !find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    for (size_t i = 0; value != NULL && i < value->count; i++)
        count += is_in(&range, value->items[i].score);
    reply_integer(call, count);
}

static void run_zremrangebyscore(struct call *call)
{
    struct range range;
    struct value *value;
    int64_t removed = 0;

    if (!read_range(call, 2, &range) || !find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    for (size_t i = value != NULL ? value->count : 0; i-- > 0;)
        if (is_in(&range, value->items[i].score)) {
            value_remove(value, i);
            removed++;
        }
    drop_if_empty(call, value);
    reply_integer(call, removed);
}

static void reply_member(struct call *call, const struct item *item, bool with_scores)
{
    reply_bytes(call, item->text);
    if (with_scores)
        reply_number(call, item->score);
}

static void run_zrangebyscore(struct call *call)
{
    struct range range;
    struct value *value;
    bool with_scores = false;
    int64_t skip = 0, limit = -1;
    size_t count = 0, first = 0;

    for (size_t i = 4; i < call->argc; i++) {
        if (bytes_is_word(call->argv[i], "withscores")) {
            with_scores = true;
        } else if (bytes_is_word(call->argv[i], "limit") && i + 2 < call->argc) {
            if (!read_integer(call, i + 1, &skip) || !read_integer(call, i + 2, &limit))
                return;
            i += 2;
        } else {
            reply_error(call, "ERR syntax error");
            return;
        }
    }
    if (!read_range(call, 2, &range) || !find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    size_t all = value != NULL ? value->count : 0;
    while (first < all && !is_in(&range, value->items[first].score))
        first++;
    first += skip > 0 ? (size_t)skip : 0;
    while (skip >= 0 && first + count < all && (limit < 0 || count < (size_t)limit) &&
           is_in(&range, value->items[first + count].score))
        count++;
    reply_count(call, with_scores ? 2 * count : count);
    for (size_t i = 0; i < count; i++)
        reply_member(call, value->items + first + i, with_scores);
}

/* By index. */
static void run_zrange(struct call *call)
{
    struct value *value;
    int64_t from, to;
    bool with_scores = call->argc == 5 && bytes_is_word(call->argv[4], "withscores");

    if (call->argc > 5 || (call->argc == 5 && !with_scores)) {
        reply_error(call, "ERR syntax error");
        return;
    }
    if (!read_integer(call, 2, &from) || !read_integer(call, 3, &to) ||
        !find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    int64_t all = value != NULL ? (int64_t)value->count : 0;
    from += from < 0 ? all : 0;
    to += to < 0 ? all : 0;
    from = from < 0 ? 0 : from;
    to = to >= all ? all - 1 : to;
    size_t count = from > to ? 0 : (size_t)(to - from + 1);
    reply_count(call, with_scores ? 2 * count : count);
    for (size_t i = 0; i < count; i++)
        reply_member(call, value->items + from + i, with_scores);
}

/* All of it at once, as Redis may: the stores ask, no script does. */
static void run_zscan(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_ZSET, &value))
        return;
    reply_count(call, 2);
    reply_bytes(call, bytes_of("0"));
    size_t all = value != NULL ? value->count : 0;
    reply_count(call, 2 * all);
    for (size_t i = 0; i < all; i++)
        reply_member(call, value->items + i, true);
}

const struct command zset_commands[] = {
    {"zadd", -4, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_zadd},
    {"zincrby", 4, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_zincrby},
    {"zcard", 2, 0, run_zcard},
    {"zscore", 3, 0, run_zscore},
    {"zrem", -3, COMMAND_WRITES, run_zrem},
    {"zcount", 4, 0, run_zcount},
    {"zremrangebyscore", 4, COMMAND_WRITES, run_zremrangebyscore},
    {"zrangebyscore", -4, 0, run_zrangebyscore},
    {"zrange", -4, 0, run_zrange},
    {"zscan", -3, 0, run_zscan},
    {0}};
