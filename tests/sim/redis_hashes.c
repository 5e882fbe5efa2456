/* Hashes: fields in the order in which they came, as in a small hash of Redis. */
#include "tests/sim/redis.h"

static void run_hset(struct call *call)
{
    struct value *value;
    int64_t added = 0;

    if (call->argc % 2 != 0) {
        reply_error(call, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!find_value(call, call->argv[1], VALUE_HASH, &value))
        return;
    if (value == NULL)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_HASH);
    for (size_t i = 2; i < call->argc; i += 2) {
        long at = value_find(value, call->argv[i]);
        struct item *item = at < 0 ? value_insert(value, value->count, call->argv[i])
                                   : value->items + at;
        item_set_value(item, call->argv[i + 1]);
        added += at < 0;
    }
    reply_integer(call, added);
}

static void reply_field(struct call *call, const struct value *value, struct bytes field)
{
    long at = value != NULL ? value_find(value, field) : -1;

    if (at < 0)
        reply_nil(call);
    else
        reply_bytes(call, value->items[at].value);
}

static void run_hget(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_HASH, &value))
        reply_field(call, value, call->argv[2]);
}

static void run_hmget(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_HASH, &value))
        return;
    reply_count(call, call->argc - 2);
    for (size_t i = 2; i < call->argc; i++)
        reply_field(call, value, call->argv[i]);
}

static void run_hdel(struct call *call)
{
    remove_items(call, VALUE_HASH);
}

static void run_hexists(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_HASH, &value))
        reply_integer(call, value != NULL && value_find(value, call->argv[2]) >= 0);
}

static void run_hlen(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_HASH, &value))
        reply_integer(call, value != NULL ? (int64_t)value->count : 0);
}

static void reply_all(struct call *call, const struct value *value)
{
    size_t count = value != NULL ? value->count : 0;

    reply_count(call, 2 * count);
    for (size_t i = 0; i < count; i++) {
        reply_bytes(call, value->items[i].text);
        reply_bytes(call, value->items[i].value);
    }
}

static void run_hgetall(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_HASH, &value))
        reply_all(call, value);
}

/* All of it at once, as Redis may. */
static void run_hscan(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_HASH, &value))
        return;
    reply_count(call, 2);
    reply_bytes(call, bytes_of("0"));
    reply_all(call, value);
}

static void run_hincrby(struct call *call)
{
    struct value *value;
    struct buffer text = {0};
    int64_t number, old = 0;

    if (!read_integer(call, 3, &number) || !find_value(call, call->argv[1], VALUE_HASH, &value))
        return;
    long at = value != NULL ? value_find(value, call->argv[2]) : -1;
    if (at >= 0 && !bytes_to_integer(value->items[at].value, &old)) {
        reply_error(call, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(old, number, &old)) {
        reply_error(call, "ERR increment or decrement would overflow");
        return;
    }
    if (value == NULL)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_HASH);
    struct item *item = at < 0 ? value_insert(value, value->count, call->argv[2])
                               : value->items + at;
    buffer_format(&text, "%lld", (long long)old);
    item_set_value(item, (struct bytes){text.text, text.len});
    buffer_release(&text);
    reply_integer(call, old);
}

/* Of a positive count: so many different fields, chosen by chance, in their order. */
static void reply_some(struct call *call, const struct value *value, size_t wanted,
                       bool with_values)
{
    size_t left = value->count;

    reply_count(call, with_values ? 2 * wanted : wanted);
    for (size_t i = 0; i < value->count; i++, left--) {
        if (wanted < left && chance_below(&call->redis->chance, left) >= wanted)
            continue;
        reply_bytes(call, value->items[i].text);
        if (with_values)
            reply_bytes(call, value->items[i].value);
        wanted--;
    }
}

static void run_hrandfield(struct call *call)
{
    struct value *value;
    int64_t count;
    bool with_values = call->argc == 4 && bytes_is_word(call->argv[3], "withvalues");

    if (!read_integer(call, 2, &count))
        return;
    if (call->argc > 4 || (call->argc == 4 && !with_values)) {
        reply_error(call, "ERR syntax error");
        return;
    }
    if (!find_value(call, call->argv[1], VALUE_HASH, &value))
        return;
    if (count < 0) {
        reply_error(call, "ERR the simulation knows no negative count");
        return;
    }
    if (value == NULL)
        reply_count(call, 0);
    else
        reply_some(call, value, (size_t)count < value->count ? (size_t)count : value->count,
                   with_values);
}

const struct command hash_commands[] = {
    {"hset", -4, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_hset},
    {"hget", 3, 0, run_hget},
    {"hmget", -3, 0, run_hmget},
    {"hdel", -3, COMMAND_WRITES, run_hdel},
    {"hexists", 3, 0, run_hexists},
    {"hlen", 2, 0, run_hlen},
    {"hgetall", 2, 0, run_hgetall},
    {"hscan", -3, 0, run_hscan},
    {"hincrby", 4, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_hincrby},
    {"hrandfield", -3, 0, run_hrandfield},
    {0}};
