/* Commands of a connection, and their replies. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/text.h"
#include "storage/redis/format.h"
#include "storage/redis/link_internal.h"

enum {
    SCRIPT_HEAD_ARGS = 3, /* EVALSHA and its hash, or EVAL and its text, and the key count */
    SCRIPT_HEAD_SIZE = REDIS_COUNT_SIZE + SCRIPT_HEAD_ARGS * REDIS_ARGUMENT_EXTRA + 32,
    GATHER_MAX = 8,      /* commands in one write */
    COMMAND_SIZE = 4096, /* most commands are shorter, and need no memory of their own */
    CALL_BLOCK = 1024,   /* most calls are smaller */
    LOGGED_ERROR_SIZE = 257,
    SHARD_COMMAND_SIZE = 1024 /* SUNSUBSCRIBE and a channel */
};

void redis_link_calls_init(struct redis_link *link)
{
    pool_init(&link->call_pool, CALL_BLOCK);
    link->refuse = (struct timer){.fire = redis_link_refuse_calls, .arg = link};
}

void redis_link_calls_release(struct redis_link *link)
{
    timer_cancel(loop_timers(link->options.loop), &link->refuse);
    pool_release(&link->call_pool);
}

static void call_free(struct redis_call *call)
{
    if (call->pooled)
        pool_give(&call->link->call_pool, call);
    else
        free(call);
}

/* The timer is armed from the queueing of the first call, since most calls are answered long
 * before; when it fires, it looks when the call was written. */
void redis_link_watch_deadline(struct redis_link *link)
{
    struct timers *timers = loop_timers(link->options.loop);

    if (link->calls != NULL)
        timer_arm(timers, &link->deadline,
                  link->calls->sent_ns + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
    else if (link->state != LINK_CONNECTING)
        timer_cancel(timers, &link->deadline);
}

void redis_link_note_written(struct redis_link *link)
{
    struct redis_call *call = link->calls != NULL ? link->calls->prev : NULL; /* the last */

    if (call == NULL || call->written_ns != 0)
        return;
    int64_t now_ns = clock_ns();
    for (; call->written_ns == 0; call = call->prev) /* the first one's is the last again */
        call->written_ns = now_ns;
}

static int send_script_as(struct redis_call *call, const char *verb, const char *body,
                          size_t body_len);

static const struct script_row *row_of(const struct redis_link *link, enum script script)
{
    if (!link->options.is_cluster_node)
        return script_row(script);
    return script_row_of_cluster(script, link->options.broadcasts);
}

/* Redis has forgotten the script (a restart, SCRIPT FLUSH): nothing was executed. */
static bool resend_as_eval(struct redis_call *call, const char *error)
{
    const struct script_row *row = row_of(call->link, call->script);

    if (call->args_len == 0 || strncmp(error, "NOSCRIPT", 8) != 0)
        return false;
    call->written_ns = 0;
    DL_APPEND(call->link->calls, call);
    call->link->wait_wanted |= call->is_sync;
    if (send_script_as(call, "EVAL", row->text, row->len) != 0) {
        DL_DELETE(call->link->calls, call);
        return false;
    }
    redis_link_watch_deadline(call->link);
    return true;
}

/* Whether the error says that this server cannot serve rlockd any more: it has become a
 * replica, has lost its master, or wants a login. */
static bool is_wrong_server(const char *error)
{
    error = redis_error_cause(error);
    return strncmp(error, "READONLY", 8) == 0 || strncmp(error, "MASTERDOWN", 10) == 0 ||
           strncmp(error, "NOAUTH", 6) == 0 || redis_is_wait_of_replica(error);
}

/* The beginning of an error, as printable ASCII: the error of a script may repeat its
 * arguments. */
static void log_unexpected(const char *error)
{
    char text[LOGGED_ERROR_SIZE];
    size_t len = 0;

    for (; error[len] != '\0' && len + 1 < sizeof(text); len++)
        text[len] = error[len] >= ' ' && error[len] <= '~' ? error[len] : '?';
    text[len] = '\0';
    log_write(LOG_LEVEL_ERROR, "redis: unexpected error", json_pack("{s:s}", "error", text));
}

void redis_link_finish(struct redis_call *call, const struct redis_result *result)
{
    struct redis_link *link = call->link;

    if (result->outcome == REDIS_UNKNOWN)
        metrics_add(link->options.metrics, METRIC_REDIS_UNKNOWN, 1);
    else if (result->outcome == REDIS_REFUSED)
        metrics_add(link->options.metrics, METRIC_REDIS_NOT_EXECUTED, 1);
    call->done(call->arg, result);
    call_free(call);
}

static void on_reply(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_call *call = arg;
    struct redis_link *link = call->link;
    const redisReply *reply = raw;
    struct redis_result result = {
        .sent_ns = call->sent_ns, .reply = raw, .server = &link->server};

    (void)context;
    DL_DELETE(link->calls, call);
    if (reply == NULL) { /* the connection is lost: hiredis tells every pending call so */
        link->state = LINK_CLOSING;
        result.outcome = REDIS_UNKNOWN;
        redis_link_finish(call, &result);
        return;
    }
    redis_link_watch_deadline(link);
    metrics_observe(link->options.metrics, HISTOGRAM_REDIS_ROUND_TRIP,
                    loop_now_ns(link->options.loop) - call->sent_ns);
    if (reply->type == REDIS_REPLY_ERROR) {
        if (resend_as_eval(call, reply->str))
            return;
        result.outcome = redis_sort_error(reply->str, &result.refusal);
        if (link->options.is_cluster_node && redis_is_moving(reply->str))
            result.outcome = REDIS_REFUSED;
        if (result.outcome == REDIS_UNKNOWN)
            log_unexpected(reply->str);
        if (strncmp(redis_error_cause(reply->str), "MISCONF", 7) == 0)
            link->writes_refused = true;
        if (is_wrong_server(reply->str))
            redis_link_leave(link, "Redis takes no writes");
    }
    if (result.outcome == REDIS_DONE && call->is_sync)
        redis_link_hold(call, reply);
    else
        redis_link_finish(call, &result);
    if (link->state == LINK_LEAVING && link->calls == NULL)
        link->give_up = true;
}

static size_t size_of(const struct script_text *texts, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += texts[i].len + REDIS_ARGUMENT_EXTRA;
    return size;
}

static char *format_texts(char *end, const struct script_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        end = redis_format_argument(end, texts[i].text, texts[i].len);
    return end;
}

/* One block for the call and its formatted arguments; NULL: there are none. */
static struct redis_call *call_new(struct redis_link *link, const struct script_args *args,
                                   redis_done *done, void *arg)
{
    size_t key_count = args != NULL ? args->key_count : 0;
    size_t arg_count = args != NULL ? args->count : 0;
    size_t args_size = 0;

    if (args != NULL)
        args_size = size_of(args->keys, key_count) + size_of(args->args, arg_count);
    bool pooled = sizeof(struct redis_call) + args_size <= CALL_BLOCK;
    struct redis_call *call = pooled ? pool_take(&link->call_pool)
                                     : malloc(sizeof(*call) + args_size);
    bool is_unsendable = call == NULL && !pooled;
    if (is_unsendable)
        call = pool_take(&link->call_pool);
    assert(call != NULL);
    *call = (struct redis_call){.link = link,
                                .done = done,
                                .arg = arg,
                                .sent_ns = clock_ns(),
                                .pooled = pooled || is_unsendable,
                                .is_unsendable = is_unsendable,
                                .key_count = key_count,
                                .argc = key_count + arg_count};
    if (args == NULL || is_unsendable)
        return call;
    char *end = format_texts(call->args, args->keys, key_count);
    end = format_texts(end, args->args, arg_count);
    call->args_len = (size_t)(end - call->args);
    return call;
}

/* Sends the first commands of a turn while this thread still reads further requests, so that
 * Redis works meanwhile: with one write at the end of the turn, Redis and the thread would wait
 * for each other. */
static void send_when_enough(struct redis_link *link)
{
    int all_sent;

    if (++link->gathered < GATHER_MAX || link->state != LINK_UP)
        return;
    link->gathered = 0;
    /* No callback may come from here. An error is seen again at the end of the turn. */
    if (link->tls != NULL)
        redis_link_write_records(link);
    else
        (void)redisBufferWrite(&link->context->c, &all_sent);
}

static int send_script_as(struct redis_call *call, const char *verb, const char *body,
                          size_t body_len)
{
    char on_stack[COMMAND_SIZE], key_count[TEXT_INT64_SIZE];
    size_t size = SCRIPT_HEAD_SIZE + body_len + call->args_len;
    char *command = size <= sizeof(on_stack) ? on_stack : malloc(size);

    if (command == NULL)
        return REDIS_ERR;
    char *end = redis_format_count(command, SCRIPT_HEAD_ARGS + call->argc);
    end = redis_format_argument(end, verb, strlen(verb));
    end = redis_format_argument(end, body, body_len);
    end = redis_format_argument(end, key_count,
                                text_format_int64(key_count, (int64_t)call->key_count));
    memcpy(end, call->args, call->args_len);
    end += call->args_len;
    metrics_add(call->link->options.metrics, METRIC_REDIS_COMMANDS, 1);
    int failed = redisAsyncFormattedCommand(call->link->context, on_reply, call, command,
                                            (size_t)(end - command));
    if (command != on_stack)
        free(command);
    if (failed == REDIS_OK)
        send_when_enough(call->link);
    return failed;
}

static void await_reply(struct redis_call *call)
{
    struct redis_link *link = call->link;

    DL_APPEND(link->calls, call);
    if (link->calls == call)
        redis_link_watch_deadline(link);
}

static int send_script(struct redis_call *call)
{
    const struct script_row *row = row_of(call->link, call->script);

    if (send_script_as(call, "EVALSHA", row->sha1, strlen(row->sha1)) != REDIS_OK)
        return -1;
    await_reply(call);
    return 0;
}

static void refuse_later(struct redis_call *call)
{
    struct redis_link *link = call->link;

    DL_APPEND(link->refused, call);
    timer_arm(loop_timers(link->options.loop), &link->refuse, 0);
}

void redis_link_refuse_calls(void *arg)
{
    struct redis_link *link = arg;
    struct redis_call *calls = link->refused, *call, *next;

    link->refused = NULL; /* a callback may ask, and be refused, again */
    DL_FOREACH_SAFE(calls, call, next) {
        const struct redis_result result = {.outcome = REDIS_REFUSED,
                                            .refusal = REDIS_REFUSED_UNAVAILABLE,
                                            .sent_ns = call->sent_ns,
                                            .server = &link->server};
        redis_link_finish(call, &result);
    }
}

void redis_link_script(struct redis_link *link, const struct script_call *script_call,
                       redis_done *done, void *arg)
{
    struct redis_call *call = call_new(link, script_call->args, done, arg);

    call->script = script_call->script;
    call->is_sync = redis_link_is_sync(link, call->script);
    link->wait_wanted |= call->is_sync;
    if (call->is_unsendable || !redis_link_is_up(link) || send_script(call) != 0)
        refuse_later(call);
}

int redis_link_send_probe(struct redis_link *link, const struct script_args *args, bool as_text,
                          redis_done *done)
{
    const struct script_row *row = row_of(link, SCRIPT_PROBE);
    struct redis_call *call = call_new(link, args, done, link);

    call->script = SCRIPT_PROBE;
    int failed = as_text ? send_script_as(call, "EVAL", row->text, row->len)
                         : send_script_as(call, "EVALSHA", row->sha1, strlen(row->sha1));
    if (failed == REDIS_OK) {
        await_reply(call);
        return 0;
    }
    call_free(call);
    return -1;
}

void redis_link_command(struct redis_link *link, const struct redis_command *command,
                        redis_done *done, void *arg)
{
    struct redis_call *call = call_new(link, NULL, done, arg); /* sent once, and not kept */

    if (!redis_link_is_up(link)) {
        refuse_later(call);
        return;
    }
    metrics_add(link->options.metrics, METRIC_REDIS_COMMANDS, 1);
    if (redisAsyncCommandArgv(link->context, on_reply, call, (int)command->argc,
                              (const char **)command->argv, command->lens) == REDIS_OK)
        await_reply(call);
    else
        refuse_later(call);
}

static void on_pinged(void *arg, const struct redis_result *result)
{
    struct redis_link *link = arg;

    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_PERMISSION)
        link->writes_refused = false;
    if (result->refusal == REDIS_REFUSED_PERMISSION)
        link->may_ping = false; /* until it connects anew: each would be in Redis' ACL LOG */
}

void redis_link_check_writes(struct redis_link *link)
{
    static const char *const argv[] = {"PING"};
    static const size_t lens[] = {4};
    static const struct redis_command ping = {.argc = 1, .argv = argv, .lens = lens};

    if (redis_link_is_up(link) && link->may_ping)
        redis_link_command(link, &ping, on_pinged, link);
}

bool redis_link_refuses_writes(const struct redis_link *link)
{
    return link->writes_refused;
}

/* --- pub/sub ------------------------------------------------------------------------------ */

static enum link_push push_of(const char *kind)
{
    static const char *const kinds[] = {
        [LINK_PUSH_SUBSCRIBED] = "subscribe",
        [LINK_PUSH_UNSUBSCRIBED] = "unsubscribe",
        [LINK_PUSH_MESSAGE] = "message",
        [LINK_PUSH_SHARD_SUBSCRIBED] = "ssubscribe",
        [LINK_PUSH_SHARD_UNSUBSCRIBED] = "sunsubscribe",
        [LINK_PUSH_SHARD_MESSAGE] = "smessage",
    };
    enum link_push push = LINK_PUSH_SUBSCRIBED;

    while (push < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[push], kind) != 0)
        push++;
    return push;
}

static void on_push(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_link *link = arg;
    const redisReply *reply = raw;
    size_t channel_len, payload_len, kind_len;

    (void)context;
    if (reply == NULL) {
        link->state = LINK_CLOSING;
        return;
    }
    if (link->pushed == NULL || value_count(raw) < 3)
        return;
    const char *kind = value_text(value_at(raw, 0), &kind_len);
    const char *channel = value_text(value_at(raw, 1), &channel_len);
    const char *payload = value_text(value_at(raw, 2), &payload_len);
    enum link_push push = push_of(kind);
    if (push <= LINK_PUSH_SHARD_MESSAGE)
        link->pushed(link->pushed_arg, push, channel, channel_len, payload, payload_len);
}

void redis_link_on_push(struct redis_link *link, redis_link_pushed *pushed,
                        redis_link_awaits *awaits, void *arg)
{
    link->pushed = pushed;
    link->pushed_arg = arg;
    link->guard.awaits = awaits;
    link->guard.arg = arg;
}

static int send_subscription(struct redis_link *link, const char *verb, const char *channel,
                             size_t len)
{
    const char *argv[] = {verb, channel};
    const size_t lens[] = {strlen(verb), len};

    if (!redis_link_is_up(link))
        return -1;
    metrics_add(link->options.metrics, METRIC_REDIS_COMMANDS, 1);
    return redisAsyncCommandArgv(link->context, on_push, link, 2, argv, lens);
}

int redis_link_subscribe(struct redis_link *link, const char *channel, size_t len)
{
    return send_subscription(link, "SUBSCRIBE", channel, len);
}

int redis_link_unsubscribe(struct redis_link *link, const char *channel, size_t len)
{
    return send_subscription(link, "UNSUBSCRIBE", channel, len);
}

/* hiredis knows no channels of a shard. Their messages have the form of all messages, and it
 * gives them to the callback of the channel of the same name that is no shard's. A callback of
 * the command's own would never be called, and never be freed. */
static int send_in_shard(struct redis_link *link, const char *verb, const char *channel,
                         size_t len)
{
    char command[REDIS_COUNT_SIZE + 2 * REDIS_ARGUMENT_EXTRA + SHARD_COMMAND_SIZE];

    if (!redis_link_is_up(link) || strlen(verb) + len > SHARD_COMMAND_SIZE)
        return -1;
    char *end = redis_format_count(command, 2);
    end = redis_format_argument(end, verb, strlen(verb));
    end = redis_format_argument(end, channel, len);
    metrics_add(link->options.metrics, METRIC_REDIS_COMMANDS, 1);
    if (redisAppendFormattedCommand(&link->context->c, command, (size_t)(end - command)) !=
        REDIS_OK)
        return -1;
    link->write_wanted = true;
    return 0;
}

int redis_link_subscribe_in_shard(struct redis_link *link, const char *channel, size_t len)
{
    return send_in_shard(link, "SSUBSCRIBE", channel, len);
}

int redis_link_unsubscribe_in_shard(struct redis_link *link, const char *channel, size_t len)
{
    return send_in_shard(link, "SUNSUBSCRIBE", channel, len);
}
