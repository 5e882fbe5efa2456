#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/clock.h"
#include "server/log.h"
#include "storage/redis_internal.h"

/* The key count and, for a script, EVALSHA and its hash or EVAL and its text come before. */
enum { SCRIPT_HEAD_ARGS = 3, ARGS_MAX = 32 };

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

    if (call->argc == 0 || strncmp(error, "NOSCRIPT", 8) != 0)
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
    free(call);
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

/* One block for the call and copies of its arguments. */
static struct redis_call *call_new(struct redis *redis, size_t argc, const char *const *argv,
                                   const size_t *lens, redis_done *done, void *arg)
{
    size_t text_len = 0;

    for (size_t i = 0; i < argc; i++)
        text_len += lens[i] + 1;
    struct redis_call *call = malloc(sizeof(*call) + argc * (sizeof(char *) + sizeof(size_t)) +
                                     text_len);
    assert(call != NULL);
    *call = (struct redis_call){
        .redis = redis, .done = done, .arg = arg, .sent_ns = clock_ns(), .argc = argc};
    call->args = (const char **)(call + 1);
    call->lens = (size_t *)(call->args + argc);
    char *text = (char *)(call->lens + argc);
    for (size_t i = 0; i < argc; i++) {
        memcpy(text, argv[i], lens[i]);
        text[lens[i]] = '\0';
        call->args[i] = text;
        call->lens[i] = lens[i];
        text += lens[i] + 1;
    }
    return call;
}

static int send_script_as(struct redis_call *call, const char *verb, const char *body,
                          size_t body_len)
{
    const char *argv[ARGS_MAX];
    size_t lens[ARGS_MAX];
    char key_count[8];

    assert(call->argc + SCRIPT_HEAD_ARGS <= ARGS_MAX);
    argv[0] = verb;
    lens[0] = strlen(verb);
    argv[1] = body;
    lens[1] = body_len;
    argv[2] = key_count;
    lens[2] = (size_t)snprintf(key_count, sizeof(key_count), "%zu", call->key_count);
    memcpy(argv + SCRIPT_HEAD_ARGS, call->args, call->argc * sizeof(*argv));
    memcpy(lens + SCRIPT_HEAD_ARGS, call->lens, call->argc * sizeof(*lens));
    metrics_add(call->redis->options.metrics, METRIC_REDIS_COMMANDS, 1);
    return redisAsyncCommandArgv(call->redis->context, on_reply, call,
                                 (int)(call->argc + SCRIPT_HEAD_ARGS), argv, lens);
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
    free(call);
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
