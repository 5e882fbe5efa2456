/* Sends scripts: EVALSHA, and EVAL when Redis has forgotten the script. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/text.h"
#include "storage/redis/link_internal.h"

enum {
    SCRIPT_HEAD_ARGS = 3, /* EVALSHA and its hash, or EVAL and its text, and the key count */
    SCRIPT_HEAD_SIZE = REDIS_COUNT_SIZE + SCRIPT_HEAD_ARGS * REDIS_ARGUMENT_EXTRA + 32,
    COMMAND_SIZE = 4096 /* most commands are shorter, and need no memory of their own */
};

static void on_reply(redisAsyncContext *context, void *raw, void *arg);

static const struct script_row *row_of(const struct redis_link *link, enum script script)
{
    if (link->options.is_quorum_member)
        return script_row_of_quorum(script);
    if (!link->options.is_cluster_node)
        return script_row(script);
    return script_row_of_cluster(script, link->options.broadcasts);
}

/* Sends the first commands of a turn while this thread still reads further requests, so that
 * Redis works meanwhile: with one write at the end of the turn, Redis and the thread would wait
 * for each other. */
static void send_when_enough(struct redis_link *link)
{
    if (!redis_link_has_gathered(link))
        return;
    if (link->tls.session != NULL)
        redis_link_write_records(link);
    else
        redis_link_write(link);
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

/* Redis has forgotten the script (a restart, SCRIPT FLUSH): nothing was executed. */
static bool resend_as_eval(struct redis_call *call, const char *error)
{
    const struct script_row *row = row_of(call->link, call->script);

    if (call->args_len == 0 || strncmp(error, "NOSCRIPT", 8) != 0)
        return false;
    call->written_ns = 0;
    DL_APPEND(call->link->calls.pending, call);
    redis_link_note_sync(call);
    if (send_script_as(call, "EVAL", row->text, row->len) != 0) {
        DL_DELETE(call->link->calls.pending, call);
        return false;
    }
    redis_link_watch_deadline(call->link);
    return true;
}

static void on_reply(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_call *call = arg;
    struct redis_link *link = call->link;
    const redisReply *reply = raw;

    (void)context;
    if (!redis_call_take_reply(call, reply))
        return;
    if (reply->type == REDIS_REPLY_ERROR && resend_as_eval(call, reply->str))
        return;
    const struct redis_result result = redis_call_sort(call, reply);
    if (result.outcome == REDIS_DONE && call->is_sync)
        redis_link_hold(call, reply);
    else
        redis_call_end(call, &result);
    redis_link_close_if_left(link);
}

static int send_script(struct redis_call *call, bool as_text)
{
    const struct script_row *row = row_of(call->link, call->script);
    int failed = as_text ? send_script_as(call, "EVAL", row->text, row->len)
                         : send_script_as(call, "EVALSHA", row->sha1, SCRIPT_SHA1_LEN);

    if (failed != REDIS_OK)
        return -1;
    redis_call_await(call);
    return 0;
}

void redis_link_script(struct redis_link *link, const struct script_call *script_call,
                       redis_done *done, void *arg)
{
    struct redis_call *call = redis_call_new(link, script_call, done, arg);

    call->script = script_call->script;
    redis_link_prepare_sync(call, row_of(call->link, call->script));
    if (call->is_unsendable || !redis_link_is_up(link) ||
        send_script(call, script_call->is_in_order) != 0)
        redis_call_refuse_later(call);
}

int redis_link_send_probe(struct redis_link *link, const struct script_args *args, bool as_text,
                          redis_done *done)
{
    const struct script_call script = {.script = SCRIPT_PROBE, .args = args};
    struct redis_call *call = redis_call_new(link, &script, done, link);

    call->script = SCRIPT_PROBE;
    if (send_script(call, as_text) == 0)
        return 0;
    redis_call_free(call);
    return -1;
}
