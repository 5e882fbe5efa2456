/* Which commands there are, when Redis refuses one, and how replies are written. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/redis.h"

/* --- replies ------------------------------------------------------------------------------ */

void reply_status(struct call *call, const char *status)
{
    buffer_format(call->reply, "+%s\r\n", status);
}

void reply_error(struct call *call, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    call->redis->counts->errors++;
    buffer_format(call->reply, "-%s\r\n", text);
}

static void reply_line(struct call *call, char mark, int64_t number)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%c%" PRId64 "\r\n", mark, number);

    buffer_add(call->reply, text, (size_t)len);
}

void reply_integer(struct call *call, int64_t number)
{
    reply_line(call, ':', number);
}

void reply_bytes(struct call *call, struct bytes bytes)
{
    reply_line(call, '$', (int64_t)bytes.len);
    buffer_add(call->reply, bytes.text, bytes.len);
    buffer_add(call->reply, "\r\n", 2);
}

void reply_nil(struct call *call)
{
    buffer_add(call->reply, "$-1\r\n", 5);
}

void reply_count(struct call *call, size_t count)
{
    reply_line(call, '*', (int64_t)count);
}

void reply_number(struct call *call, double number)
{
    char text[40];

    if (isinf(number))
        snprintf(text, sizeof(text), number > 0 ? "inf" : "-inf");
    else
        snprintf(text, sizeof(text), "%.17g", number);
    reply_bytes(call, bytes_of(text));
}

/* --- what commands share ------------------------------------------------------------------ */

bool find_value(struct call *call, struct bytes key, enum value_type type, struct value **value)
{
    *value = keyspace_find(&call->redis->keys, key, call->now_ms);
    if (*value == NULL || (*value)->type == type)
        return true;
    reply_error(call, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
}

void drop_if_empty(struct call *call, struct value *value)
{
    if (value != NULL && value->count == 0)
        keyspace_drop(&call->redis->keys, value);
}

void remove_items(struct call *call, enum value_type type)
{
    struct value *value;
    int64_t removed = 0;

    if (!find_value(call, call->argv[1], type, &value))
        return;
    for (size_t i = 2; value != NULL && i < call->argc; i++) {
        long at = value_find(value, call->argv[i]);
        if (at < 0)
            continue;
        value_remove(value, (size_t)at);
        removed++;
    }
    drop_if_empty(call, value);
    reply_integer(call, removed);
}

bool read_integer(struct call *call, size_t at, int64_t *number)
{
    if (bytes_to_integer(call->argv[at], number))
        return true;
    reply_error(call, "ERR value is not an integer or out of range");
    return false;
}

bool read_score(struct call *call, struct bytes text, double *score)
{
    char *end;

    *score = strtod(text.text, &end);
    if (text.len > 0 && end == text.text + text.len && !isnan(*score))
        return true;
    reply_error(call, "ERR value is not a valid float");
    return false;
}

/* --- the table ---------------------------------------------------------------------------- */

enum { COMMANDS_MAX = 96 };

static const struct command *sorted[COMMANDS_MAX];
static size_t sorted_count;

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct command *const *)a)->name,
                  (*(const struct command *const *)b)->name);
}

static void sort_commands(void)
{
    static const struct command *const tables[] = {
        string_commands, hash_commands,   list_commands,  zset_commands,
        key_commands,    server_commands, script_commands};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct command *command = tables[i]; command->name != NULL; command++) {
            if (sorted_count == COMMANDS_MAX)
                abort();
            sorted[sorted_count++] = command;
        }
    qsort(sorted, sorted_count, sizeof(sorted[0]), compare_names);
}

static const struct command *find_in(const struct command *commands, struct bytes word)
{
    while (commands != NULL && commands->name != NULL) {
        if (bytes_is_word(word, commands->name))
            return commands;
        commands++;
    }
    return NULL;
}

static const struct command *find_command(struct bytes word)
{
    char name[24];

    if (sorted_count == 0)
        sort_commands();
    if (word.len >= sizeof(name))
        return NULL;
    for (size_t i = 0; i <= word.len; i++)
        name[i] = (char)(word.text[i] >= 'A' && word.text[i] <= 'Z' ? word.text[i] + 32
                                                                    : word.text[i]);
    const struct command key = {.name = name}, *at = &key;
    const struct command **found = bsearch(&at, sorted, sorted_count, sizeof(sorted[0]),
                                           compare_names);
    return found != NULL ? *found : NULL;
}

/* Why Redis does not run it, in the order in which Redis asks; NULL: it does. */
static const char *refusal_of(const struct call *call, const struct command *command)
{
    struct redis *redis = call->redis;
    bool in_script = call->client == NULL;
    bool wrote = in_script && redis->script_wrote;

    if (in_script && (command->flags & COMMAND_NOT_IN_SCRIPT) != 0)
        return "ERR This Redis command is not allowed from script";
    if ((command->flags & COMMAND_WRITES) != 0 && redis->is_replica) {
        redis->counts->refused_writes++;
        return "READONLY You can't write against a read only replica.";
    }
    if ((command->flags & COMMAND_WRITES) != 0 && redis->lacks_replicas && !wrote) {
        redis->counts->refused_writes++;
        return "NOREPLICAS Not enough good replicas to write.";
    }
    bool is_short = in_script ? redis->script_short_of_memory : redis->is_out_of_memory;
    if ((command->flags & COMMAND_NEEDS_MEMORY) != 0 && is_short && !wrote) {
        redis->counts->out_of_memory++;
        return "OOM command not allowed when used memory > 'maxmemory'.";
    }
    if (in_script && (command->flags & COMMAND_WRITES) != 0)
        redis->script_wrote = true; /* not by a write that was refused */
    return NULL;
}

static void reply_unknown(struct call *call)
{
    struct buffer args = {0};

    if (call->client == NULL) {
        reply_error(call, "ERR Unknown Redis command called from script");
        return;
    }
    for (size_t i = 1; i < call->argc && args.len < 128; i++)
        buffer_format(&args, "'%.*s' ", (int)(128 - args.len), call->argv[i].text);
    reply_error(call, "ERR unknown command '%.128s', with args beginning with: %.*s",
                call->argv[0].text, (int)args.len, args.text);
    buffer_release(&args);
}

void redis_run(struct call *call)
{
    struct redis *redis = call->redis;
    const struct command *command = find_command(call->argv[0]);
    int64_t argc = (int64_t)call->argc;

    redis->counts->commands++;
    call->now_ms = redis->script_ms != 0 ? redis->script_ms
                                         : redis->clock_us(redis->clock_arg) / 1000;
    if (command == NULL)
        command = find_in(redis->peers.commands, call->argv[0]);
    if (command == NULL) {
        reply_unknown(call);
        return;
    }
    if (command->arity > 0 ? argc != command->arity : argc < -command->arity) {
        if (call->client == NULL)
            reply_error(call, "ERR Wrong number of args calling Redis command from script");
        else
            reply_error(call, "ERR wrong number of arguments for '%s' command", command->name);
        return;
    }
    const char *refusal = redis->peers.refusal != NULL ? redis->peers.refusal(call) : NULL;
    if (refusal == NULL)
        refusal = refusal_of(call, command);
    if (refusal != NULL) {
        reply_error(call, "%s", refusal);
        return;
    }
    command->run(call);
    if (redis->peers.wrote != NULL && (command->flags & COMMAND_WRITES) != 0)
        redis->peers.wrote(call);
}

void redis_apply(struct redis *redis, const struct bytes *argv, size_t argc, int64_t now_ms)
{
    static struct buffer reply;
    struct call call = {
        .redis = redis, .argc = argc, .argv = argv, .reply = &reply, .now_ms = now_ms};

    reply.len = 0;
    find_command(argv[0])->run(&call);
}
