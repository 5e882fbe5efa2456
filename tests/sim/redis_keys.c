/* Keys of any type, their time, and the clock. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/redis.h"

static struct value *find(struct call *call, size_t at)
{
    return keyspace_find(&call->redis->keys, call->argv[at], call->now_ms);
}

static void run_del(struct call *call)
{
    int64_t count = 0;

    for (size_t i = 1; i < call->argc; i++) {
        struct value *value = find(call, i);
        if (value == NULL)
            continue;
        keyspace_drop(&call->redis->keys, value);
        count++;
    }
    reply_integer(call, count);
}

static void run_exists(struct call *call)
{
    int64_t count = 0;

    for (size_t i = 1; i < call->argc; i++)
        count += find(call, i) != NULL;
    reply_integer(call, count);
}

static void run_pexpire(struct call *call)
{
    struct value *value = find(call, 1);
    int64_t ms;

    if (!read_integer(call, 2, &ms))
        return;
    if (value != NULL && ms <= 0)
        keyspace_drop(&call->redis->keys, value);
    else if (value != NULL)
        value->end_ms = call->now_ms + ms;
    reply_integer(call, value != NULL);
}

static void run_persist(struct call *call)
{
    struct value *value = find(call, 1);
    bool had_end = value != NULL && value->end_ms != NO_END;

    if (had_end)
        value->end_ms = NO_END;
    reply_integer(call, had_end);
}

static void run_pttl(struct call *call)
{
    struct value *value = find(call, 1);

    if (value == NULL)
        reply_integer(call, -2);
    else if (value->end_ms == NO_END)
        reply_integer(call, -1);
    else
        reply_integer(call, value->end_ms - call->now_ms);
}

static void run_rename(struct call *call)
{
    struct value *value = find(call, 1), *other = find(call, 2);

    if (value == NULL) {
        reply_error(call, "ERR no such key");
        return;
    }
    if (value != other) {
        if (other != NULL)
            keyspace_drop(&call->redis->keys, other);
        other = keyspace_make(&call->redis->keys, call->argv[2], value->type);
        other->end_ms = value->end_ms;
        other->items = value->items;
        other->count = value->count;
        other->size = value->size;
        value->items = NULL;
        value->count = 0;
        keyspace_drop(&call->redis->keys, value);
    }
    reply_status(call, "OK");
}

static const char *const type_names[VALUE_TYPES] = {"string", "hash", "list", "zset"};

static void run_type(struct call *call)
{
    const struct value *value = find(call, 1);

    reply_status(call, value != NULL ? type_names[value->type] : "none");
}

/* All keys at once, as Redis may. */
static void run_scan(struct call *call)
{
    struct bytes pattern = bytes_of("*"), type = {0};
    struct buffer keys = {0};
    struct call page = *call;
    size_t count = 0;

    for (size_t i = 2; i + 1 < call->argc; i += 2) {
        if (bytes_is_word(call->argv[i], "match"))
            pattern = call->argv[i + 1];
        else if (bytes_is_word(call->argv[i], "type"))
            type = call->argv[i + 1];
    }
    keyspace_expire(&call->redis->keys, call->now_ms);
    page.reply = &keys;
    for (struct value *value = call->redis->keys.values; value; value = value->hh.next) {
        if (fnmatch(pattern.text, value->key, 0) != 0 ||
            (type.text != NULL && !bytes_is_word(type, type_names[value->type])))
            continue;
        reply_bytes(&page, (struct bytes){value->key, value->key_len});
        count++;
    }
    reply_count(call, 2);
    reply_bytes(call, bytes_of("0"));
    reply_count(call, count);
    buffer_add(call->reply, keys.text, keys.len);
    buffer_release(&keys);
}

static void run_time(struct call *call)
{
    int64_t now_us = call->redis->clock_us(call->redis->clock_arg);
    char text[24];

    reply_count(call, 2);
    snprintf(text, sizeof(text), "%lld", (long long)(now_us / 1000000));
    reply_bytes(call, bytes_of(text));
    snprintf(text, sizeof(text), "%lld", (long long)(now_us % 1000000));
    reply_bytes(call, bytes_of(text));
}

static void run_flushall(struct call *call)
{
    keyspace_clear(&call->redis->keys);
    reply_status(call, "OK");
}

const struct command key_commands[] = {{"del", -2, COMMAND_WRITES, run_del},
                                       {"unlink", -2, COMMAND_WRITES, run_del},
                                       {"exists", -2, 0, run_exists},
                                       {"pexpire", 3, COMMAND_WRITES, run_pexpire},
                                       {"persist", 2, COMMAND_WRITES, run_persist},
                                       {"pttl", 2, 0, run_pttl},
                                       {"rename", 3, COMMAND_WRITES, run_rename},
                                       {"type", 2, 0, run_type},
                                       {"scan", -2, 0, run_scan},
                                       {"time", 1, 0, run_time},
                                       {"flushall", 1, COMMAND_WRITES, run_flushall},
                                       {0}};
