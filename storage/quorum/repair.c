/* Repairs (R2 of docs/quorum.md): a server that lacks a lease which a majority has just renewed
 * or claimed gets it, so that the lease survives further losses. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/quorum/calls_internal.h"

enum { FENCING_TTL_MIN_MS = 60000 };

static int64_t fencing_ttl_ms(const struct quorum_call *call, int64_t keep_ms)
{
    int64_t ttl_ms = call->calls->options.config->fencing_ttl_ms;

    if (ttl_ms == 0)
        return 0; /* for ever */
    if (ttl_ms < FENCING_TTL_MIN_MS)
        ttl_ms = FENCING_TTL_MIN_MS;
    return ttl_ms > keep_ms ? ttl_ms : keep_ms;
}

static void put_keys(const struct quorum_call *call, struct script_args *args, char *queues)
{
    const struct quorum_calls_options *options = &call->calls->options;
    const struct repair_keys *keys = &call->repair.keys;

    for (size_t i = 0; i < call->args->key_count / keys->stride; i++) {
        const struct script_text *own = &call->args->keys[i * keys->stride];
        size_t at = i * QUORUM_REPAIR_KEYS;
        size_t len = options->write_key(queues, QUORUM_KEY_QUEUE, own[0].text, own[0].len);
        args_key(args, at + QUORUM_REPAIR_KEY_LOCK, own[0].text, own[0].len);
        args_key(args, at + QUORUM_REPAIR_KEY_COUNTER, own[keys->counter].text,
                 own[keys->counter].len);
        args_key(args, at + QUORUM_REPAIR_KEY_QUEUE, queues, len);
        args_key(args, at + QUORUM_REPAIR_KEY_RECORD, own[keys->record].text,
                 own[keys->record].len);
        queues += options->key_size;
    }
}

/* The note of a lease with a session goes before. No request takes it back. */
static void send_repair(const struct quorum_call *call, size_t node, int64_t left_ms,
                        const struct script_args *args, const char *record)
{
    const struct repair_keys *keys = &call->repair.keys;
    struct quorum_call *repair = quorum_call_inside(call, SCRIPT_REPAIR, args);

    repair->bind = quorum_bind_args(call, keys->stride, keys->record, record,
                                    (struct script_text){"*", 1}, left_ms);
    quorum_call_mend(repair, node);
}

/* `node_ms`: what the clock of the server has just said. */
static void repair(const struct quorum_call *call, size_t node, int64_t node_ms, char *queues)
{
    int64_t left_ms = call->repair.until_ms - clock_ns() / CLOCK_NS_PER_MS;
    int64_t keep_ms = left_ms + call->repair.keys.window_ms;
    struct script_args args;
    size_t len;

    if (left_ms <= 0)
        return;
    args_init(&args);
    put_keys(call, &args, queues);
    const char *record = value_text(call->kept, &len);
    args_string(&args, QUORUM_REPAIR_ARG_LEASE_ID, quorum_arg(call, 0));
    args_number(&args, QUORUM_REPAIR_ARG_TTL_MS, left_ms);
    args_text(&args, QUORUM_REPAIR_ARG_RECORD_TEXT, record, len);
    args_number(&args, QUORUM_REPAIR_ARG_KEEP_MS, keep_ms);
    args_number(&args, QUORUM_REPAIR_ARG_FENCING_TTL_MS, fencing_ttl_ms(call, keep_ms));
    args_number(&args, QUORUM_REPAIR_ARG_TOKEN, call->repair.token);
    args_number(&args, QUORUM_REPAIR_ARG_DEADLINE_MS, node_ms + left_ms);
    send_repair(call, node, left_ms, &args, record);
}

/* The time of the server, as the last value of its reply, if the reply says that the lease is
 * not there, only waits there, or holds with another token; else 0. */
static int64_t lacks_lease(const struct redis_value *reply, int64_t token)
{
    static const char *const words[] = {"lapsed", "unknown", "restarted", "gone", "busy"};
    size_t len;
    const char *word = value_text(value_at(reply, 0), &len);
    bool lacks = (strcmp(word, "held") == 0 || strcmp(word, "marked") == 0) &&
                 value_integer(value_at(reply, ACQUIRE_REPLY_HELD_TOKEN)) != token;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        lacks = lacks || strcmp(words[i], word) == 0;
    return lacks ? value_integer(value_at(reply, value_count(reply) - 1)) : 0;
}

/* After the answer, with each further reply. */
static void repair_more(struct quorum_call *call)
{
    size_t locks = call->args->key_count / call->repair.keys.stride;
    char *queues = malloc(locks * call->calls->options.key_size);

    assert(queues != NULL);
    for (size_t i = 0; i < call->calls->nodes; i++) {
        int64_t node_ms = lacks_lease(call->round.replies[i].value, call->repair.token);
        if (node_ms <= 0 || node_is_in(call->repair.done, i))
            continue;
        call->repair.done |= 1U << i;
        repair(call, i, node_ms, queues);
    }
    free(queues);
    if (call->round.is_over)
        quorum_call_free(call);
}

void quorum_repair(struct quorum_call *call, const struct repair_keys *keys,
                   const struct conclusion *found, const struct redis_value *record)
{
    call->repair.keys = *keys;
    call->repair.token = found->token;
    call->repair.until_ms = found->until_ms;
    call->kept = value_copy(record);
    call->after = repair_more;
}
