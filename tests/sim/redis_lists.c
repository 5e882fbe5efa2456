/* Lists, as far as the queues of fair locks need them. */
#include "tests/sim/redis.h"

static void run_rpush(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    if (value == NULL)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_LIST);
    for (size_t i = 2; i < call->argc; i++)
        value_insert(value, value->count, call->argv[i]);
    reply_integer(call, (int64_t)value->count);
}

static void run_llen(struct call *call)
{
    struct value *value;

    if (find_value(call, call->argv[1], VALUE_LIST, &value))
        reply_integer(call, value != NULL ? (int64_t)value->count : 0);
}

static void run_lindex(struct call *call)
{
    struct value *value;
    int64_t at;

    if (!find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    if (value == NULL) {
        reply_nil(call);
        return;
    }
    if (!read_integer(call, 2, &at))
        return;
    if (at < 0)
        at += (int64_t)value->count;
    if (at < 0 || at >= (int64_t)value->count)
        reply_nil(call);
    else
        reply_bytes(call, value->items[at].text);
}

static void run_lrange(struct call *call)
{
    struct value *value;
    int64_t from, to;

    if (!read_integer(call, 2, &from) || !read_integer(call, 3, &to) ||
        !find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    int64_t count = value != NULL ? (int64_t)value->count : 0;
    from += from < 0 ? count : 0;
    to += to < 0 ? count : 0;
    from = from < 0 ? 0 : from;
    to = to >= count ? count - 1 : to;
    reply_count(call, from > to ? 0 : (size_t)(to - from + 1));
    for (int64_t i = from; i <= to; i++)
        reply_bytes(call, value->items[i].text);
}

static void run_lpop(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    if (value == NULL) {
        reply_nil(call);
        return;
    }
    reply_bytes(call, value->items[0].text);
    value_remove(value, 0);
    drop_if_empty(call, value);
}

static void run_lpos(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    long at = value != NULL ? value_find(value, call->argv[2]) : -1;
    if (at < 0)
        reply_nil(call);
    else
        reply_integer(call, at);
}

/* Of a positive count: from the head on. */
static void run_lrem(struct call *call)
{
    struct value *value;
    int64_t most, removed = 0;

    if (!read_integer(call, 2, &most) || !find_value(call, call->argv[1], VALUE_LIST, &value))
        return;
    if (most < 0) {
        reply_error(call, "ERR the simulation knows no negative count");
        return;
    }
    while (value != NULL && (most == 0 || removed < most)) {
        long at = value_find(value, call->argv[3]);
        if (at < 0)
            break;
        value_remove(value, (size_t)at);
        removed++;
    }
    drop_if_empty(call, value);
    reply_integer(call, removed);
}

const struct command list_commands[] = {
    {"rpush", -3, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_rpush},
    {"llen", 2, 0, run_llen},
    {"lindex", 3, 0, run_lindex},
    {"lrange", 4, 0, run_lrange},
    {"lpop", 2, COMMAND_WRITES, run_lpop},
    {"lpos", 3, 0, run_lpos},
    {"lrem", 4, COMMAND_WRITES, run_lrem},
    {0}};
