#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/clock.h"
#include "server/log.h"
#include "server/text.h"
#include "storage/redis_format.h"
#include "storage/redis_internal.h"

enum {
    SCRIPT_HEAD_ARGS = 3, /* EVALSHA and its hash, or EVAL and its text, and the key count */
    SCRIPT_HEAD_SIZE = REDIS_COUNT_SIZE + SCRIPT_HEAD_ARGS * REDIS_ARGUMENT_EXTRA + 32,
    GATHER_MAX = 8,      /* commands in one write */
    COMMAND_SIZE = 4096, /* most commands are shorter, and need no memory of their own */
    CALL_BLOCK = 1024    /* most calls are smaller */
};

void redis_calls_init(struct redis *redis)
{
    pool_init(&redis->call_pool, CALL_BLOCK);
    redis->refuse = (struct timer){.fire = redis_refuse_calls, .arg = redis};
}

void redis_calls_release(struct redis *redis)
{
    timer_cancel(loop_timers(redis->options.loop), &redis->refuse);
    pool_release(&redis->call_pool);
}

static void call_free(struct redis_call *call)
{
    if (call->pooled)
        pool_give(&call->redis->call_pool, call);
    else
        free(call);
}

void redis_watch_deadline(struct redis *redis)
{
    struct timers *timers = loop_timers(redis->options.loop);

    if (redis->calls != NULL)
        timer_arm(timers, &redis->deadline,
                  redis->calls->sent_ns + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
    else if (redis->state != REDIS_CONNECTING)
        timer_cancel(timers, &redis->deadline);
}

static int send_script_as(struct redis_call *call, const char *verb, const char *body,
                          size_t body_len);

/* Redis has forgotten the script (a restart, SCRIPT FLUSH): nothing was executed. */
static bool resend_as_eval(struct redis_call *call, const char *error)
{
    const struct script_row *row = script_row(call->script);

    if (call->args_len == 0 || strncmp(error, "NOSCRIPT", 8) != 0)
        return false;
    DL_APPEND(call->redis->calls, call);
    if (send_script_as(call, "EVAL", row->text, row->len) == 0)
        return true;
    DL_DELETE(call->redis->calls, call);
    return false;
}

/* A reply that says that this Redis is no longer the one to ask. */
static bool is_wrong_server(const char *error)
{
    error = redis_error_cause(error);
    return strncmp(error, "READONLY", 8) == 0 || strncmp(error, "MASTERDOWN", 10) == 0 ||
           strncmp(error, "NOAUTH", 6) == 0;
}

static void finish(struct redis_call *call, const struct redis_result *result)
{
    struct redis *redis = call->redis;

    if (result->outcome == REDIS_UNKNOWN)
        metrics_add(redis->options.metrics, METRIC_REDIS_UNKNOWN, 1);
    else if (result->outcome == REDIS_REFUSED)
        metrics_add(redis->options.metrics, METRIC_REDIS_NOT_EXECUTED, 1);
    call->done(call->arg, result);
    call_free(call);
}

static void on_reply(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_call *call = arg;
    struct redis *redis = call->redis;
    const redisReply *reply = raw;
    struct redis_result result = {.sent_ns = call->sent_ns, .reply = reply};

    (void)context;
    DL_DELETE(redis->calls, call);
    if (reply == NULL) { /* the connection is lost: hiredis tells every pending call so */
        redis->state = REDIS_CLOSING;
        result.outcome = REDIS_UNKNOWN;
        finish(call, &result);
        return;
    }
    redis_watch_deadline(redis);
    metrics_observe(redis->options.metrics, HISTOGRAM_REDIS_ROUND_TRIP,
                    loop_now_ns(redis->options.loop) - call->sent_ns);
    if (reply->type == REDIS_REPLY_ERROR) {
        if (resend_as_eval(call, reply->str))
            return;
        result.outcome = redis_sort_error(reply->str, &result.refusal);
        if (result.outcome == REDIS_UNKNOWN)
            log_write(LOG_LEVEL_ERROR, "redis: unexpected error",
                      json_pack("{s:s*}", "error", reply->str));
        if (is_wrong_server(reply->str))
            redis_leave(redis, "Redis takes no writes");
    }
    finish(call, &result);
    if (redis->state == REDIS_LEAVING && redis->calls == NULL)
        redis->give_up = true;
}

/* One block for the call and its formatted arguments. */
static struct redis_call *call_new(struct redis *redis, size_t argc, const char *const *argv,
                                   const size_t *lens, redis_done *done, void *arg)
{
    size_t args_size = 0;

    for (size_t i = 0; i < argc; i++)
        args_size += lens[i] + REDIS_ARGUMENT_EXTRA;
    bool pooled = sizeof(struct redis_call) + args_size <= CALL_BLOCK;
    struct redis_call *call = pooled ? pool_take(&redis->call_pool)
                                     : malloc(sizeof(*call) + args_size);
    assert(call != NULL);
    *call = (struct redis_call){.redis = redis,
                                .done = done,
                                .arg = arg,
                                .sent_ns = clock_ns(),
                                .pooled = pooled,
                                .argc = argc};
    char *end = call->args;
    for (size_t i = 0; i < argc; i++)
        end = redis_format_argument(end, argv[i], lens[i]);
    call->args_len = (size_t)(end - call->args);
    return call;
}

/* Redis is to work on the first requests of a turn while this thread reads the next ones: with
 * all of them in one write at the end, each would wait for the other in turns. */
static void send_when_enough(struct redis *redis)
{
    int all_sent;

    if (++redis->gathered < GATHER_MAX || redis->state != REDIS_UP)
        return;
    redis->gathered = 0;
    /* No callback may come from here. An error is seen again at the end of the turn. */
    (void)redisBufferWrite(&redis->context->c, &all_sent);
}

static int send_script_as(struct redis_call *call, const char *verb, const char *body,
                          size_t body_len)
{
    char on_stack[COMMAND_SIZE], key_count[TEXT_INT64_SIZE];
    size_t size = SCRIPT_HEAD_SIZE + body_len + call->args_len;
    char *command = size <= sizeof(on_stack) ? on_stack : malloc(size);

    assert(command != NULL);
    char *end = redis_format_count(command, SCRIPT_HEAD_ARGS + call->argc);
    end = redis_format_argument(end, verb, strlen(verb));
    end = redis_format_argument(end, body, body_len);
    end = redis_format_argument(end, key_count,
                                text_format_int64(key_count, (int64_t)call->key_count));
    memcpy(end, call->args, call->args_len);
    end += call->args_len;
    metrics_add(call->redis->options.metrics, METRIC_REDIS_COMMANDS, 1);
    int failed = redisAsyncFormattedCommand(call->redis->context, on_reply, call, command,
                                            (size_t)(end - command));
    if (command != on_stack)
        free(command);
    if (failed == REDIS_OK)
        send_when_enough(call->redis);
    return failed;
}

static void await_reply(struct redis_call *call)
{
    struct redis *redis = call->redis;

    DL_APPEND(redis->calls, call);
    if (redis->calls == call)
        redis_watch_deadline(redis);
}

static int send_script(struct redis_call *call)
{
    const struct script_row *row = script_row(call->script);

    if (send_script_as(call, "EVALSHA", row->sha1, strlen(row->sha1)) != REDIS_OK)
        return -1;
    await_reply(call);
    return 0;
}

static void refuse_later(struct redis_call *call)
{
    struct redis *redis = call->redis;

    DL_APPEND(redis->refused, call);
    timer_arm(loop_timers(redis->options.loop), &redis->refuse, 0);
}

void redis_refuse_calls(void *arg)
{
    struct redis *redis = arg;
    struct redis_call *calls = redis->refused, *call, *next;

    redis->refused = NULL; /* a callback may ask, and be refused, again */
    DL_FOREACH_SAFE(calls, call, next) {
        const struct redis_result result = {.outcome = REDIS_REFUSED,
                                            .refusal = REDIS_REFUSED_UNAVAILABLE,
                                            .sent_ns = call->sent_ns};
        finish(call, &result);
    }
}

void redis_script(struct redis *redis, enum script script, size_t key_count, size_t argc,
                  const char *const *args, const size_t *lens, redis_done *done, void *arg)
{
    struct redis_call *call = call_new(redis, argc, args, lens, done, arg);

    call->script = script;
    call->key_count = key_count;
    if (!redis_is_up(redis) || send_script(call) != 0)
        refuse_later(call);
}

int redis_send_probe(struct redis *redis, size_t key_count, size_t argc,
                     const char *const *args, const size_t *lens, redis_done *done)
{
    struct redis_call *call = call_new(redis, argc, args, lens, done, redis);

    call->script = SCRIPT_PROBE;
    call->key_count = key_count;
    if (send_script(call) == 0)
        return 0;
    call_free(call);
    return -1;
}

void redis_command(struct redis *redis, size_t argc, const char *const *argv,
                   const size_t *lens, redis_done *done, void *arg)
{
    struct redis_call *call = call_new(redis, 0, NULL, NULL, done, arg);

    if (!redis_is_up(redis)) {
        refuse_later(call);
        return;
    }
    metrics_add(redis->options.metrics, METRIC_REDIS_COMMANDS, 1);
    if (redisAsyncCommandArgv(redis->context, on_reply, call, (int)argc, (const char **)argv,
                              lens) == REDIS_OK)
        await_reply(call);
    else
        refuse_later(call);
}

/* --- pub/sub ------------------------------------------------------------------------------ */

static void on_push(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis *redis = arg;
    const redisReply *reply = raw;
    size_t channel_len, payload_len, kind_len;

    (void)context;
    if (reply == NULL) {
        redis->state = REDIS_CLOSING;
        return;
    }
    if (redis->pushed == NULL || redis_reply_count(reply) < 3)
        return;
    const char *kind = redis_reply_text(reply->element[0], &kind_len);
    const char *channel = redis_reply_text(reply->element[1], &channel_len);
    const char *payload = redis_reply_text(reply->element[2], &payload_len);
    enum redis_push push = REDIS_PUSH_MESSAGE;
    if (strcmp(kind, "subscribe") == 0)
        push = REDIS_PUSH_SUBSCRIBED;
    else if (strcmp(kind, "unsubscribe") == 0)
        push = REDIS_PUSH_UNSUBSCRIBED;
    else if (strcmp(kind, "message") != 0)
        return;
    redis->pushed(redis->pushed_arg, push, channel, channel_len, payload, payload_len);
}

void redis_on_push(struct redis *redis, redis_pushed *pushed, void *arg)
{
    redis->pushed = pushed;
    redis->pushed_arg = arg;
}

static int send_subscription(struct redis *redis, const char *verb, const char *channel,
                             size_t len)
{
    const char *argv[] = {verb, channel};
    const size_t lens[] = {strlen(verb), len};

    if (!redis_is_up(redis))
        return -1;
    metrics_add(redis->options.metrics, METRIC_REDIS_COMMANDS, 1);
    return redisAsyncCommandArgv(redis->context, on_push, redis, 2, argv, lens);
}

int redis_subscribe(struct redis *redis, const char *channel, size_t len)
{
    return send_subscription(redis, "SUBSCRIBE", channel, len);
}

int redis_unsubscribe(struct redis *redis, const char *channel, size_t len)
{
    return send_subscription(redis, "UNSUBSCRIBE", channel, len);
}
