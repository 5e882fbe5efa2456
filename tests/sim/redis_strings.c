/* GET, SET, MGET, INCR, INCRBY, DECRBY. */
#include <string.h>

#include "tests/sim/redis.h"

static void run_get(struct call *call)
{
    struct value *value;

    if (!find_value(call, call->argv[1], VALUE_STRING, &value))
        return;
    if (value == NULL)
        reply_nil(call);
    else
        reply_bytes(call, value->items[0].text);
}

static void run_mget(struct call *call)
{
    reply_count(call, call->argc - 1);
    for (size_t i = 1; i < call->argc; i++) {
        struct value *value = keyspace_find(&call->redis->keys, call->argv[i], call->now_ms);
        if (value == NULL || value->type != VALUE_STRING)
            reply_nil(call);
        else
            reply_bytes(call, value->items[0].text);
    }
}

struct set_options {
    bool if_absent, if_present, gets, keeps_ttl;
    int64_t end_ms;
};

/* False after an error. */
static bool read_set_options(struct call *call, struct set_options *options)
{
    options->end_ms = NO_END;
    for (size_t i = 3; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        bool is_px = bytes_is_word(word, "px"), is_ex = bytes_is_word(word, "ex");
        if (bytes_is_word(word, "nx")) {
            options->if_absent = true;
        } else if (bytes_is_word(word, "xx")) {
            options->if_present = true;
        } else if (bytes_is_word(word, "get")) {
            options->gets = true;
        } else if (bytes_is_word(word, "keepttl")) {
            options->keeps_ttl = true;
        } else if ((is_px || is_ex) && i + 1 < call->argc) {
            int64_t time;
            if (!read_integer(call, ++i, &time))
                return false;
            if (time <= 0) {
                reply_error(call, "ERR invalid expire time in 'set' command");
                return false;
            }
            options->end_ms = call->now_ms + (is_ex ? 1000 * time : time);
        } else {
            reply_error(call, "ERR syntax error");
            return false;
        }
    }
    return true;
}

static void run_set(struct call *call)
{
    struct set_options options = {0};
    struct value *value = keyspace_find(&call->redis->keys, call->argv[1], call->now_ms);
    int64_t end_ms = value ? value->end_ms : NO_END;

    if (!read_set_options(call, &options))
        return;
    if (options.gets) {
        if (value != NULL && value->type != VALUE_STRING) {
            find_value(call, call->argv[1], VALUE_STRING, &value);
            return;
        }
        if (value != NULL)
            reply_bytes(call, value->items[0].text);
        else
            reply_nil(call);
    }
    if ((options.if_absent && value != NULL) || (options.if_present && value == NULL)) {
        if (!options.gets)
            reply_nil(call);
        return;
    }
    if (value != NULL)
        keyspace_drop(&call->redis->keys, value);
    value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_STRING);
    value_insert(value, 0, call->argv[2]);
    value->end_ms = options.keeps_ttl ? end_ms : options.end_ms;
    if (!options.gets)
        reply_status(call, "OK");
}

static void add(struct call *call, int64_t number)
{
    struct value *value;
    struct buffer text = {0};
    int64_t old = 0;

    if (!find_value(call, call->argv[1], VALUE_STRING, &value))
        return;
    if (value != NULL && !bytes_to_integer(value->items[0].text, &old)) {
        reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    if (__builtin_add_overflow(old, number, &old)) {
        reply_error(call, "ERR increment or decrement would overflow");
        return;
    }
    if (value == NULL)
        value = keyspace_make(&call->redis->keys, call->argv[1], VALUE_STRING);
    else
        value_remove(value, 0);
    buffer_format(&text, "%lld", (long long)old);
    value_insert(value, 0, (struct bytes){text.text, text.len});
    buffer_release(&text);
    reply_integer(call, old);
}

static void run_incr(struct call *call)
{
    add(call, 1);
}

static void run_incrby(struct call *call)
{
    int64_t number;

    if (read_integer(call, 2, &number))
        add(call, number);
}

static void run_decrby(struct call *call)
{
    int64_t number;

    if (read_integer(call, 2, &number))
        add(call, -number);
}

const struct command string_commands[] = {
    {"get", 2, 0, run_get},
    {"mget", -2, 0, run_mget},
    {"set", -3, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_set},
    {"incr", 2, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_incr},
    {"incrby", 3, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_incrby},
    {"decrby", 3, COMMAND_WRITES | COMMAND_NEEDS_MEMORY, run_decrby},
    {0}};
