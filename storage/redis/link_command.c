/* Sends commands, and sorts their replies. */
#include <string.h>
#include <utlist.h>

#include "server/base/log.h"
#include "storage/redis/link_internal.h"

enum { LOGGED_ERROR_SIZE = 257 };

/* --- replies ------------------------------------------------------------------------------ */

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

bool redis_call_take_reply(struct redis_call *call, const redisReply *reply)
{
    struct redis_link *link = call->link;

    DL_DELETE(link->calls.pending, call);
    if (reply == NULL) { /* the connection is lost: hiredis tells every pending call so */
        const struct redis_result unknown = {
            .outcome = REDIS_UNKNOWN, .sent_ns = call->sent_ns, .server = &link->server};
        redis_link_enter(link, LINK_CLOSING);
        redis_call_end(call, &unknown);
        return false;
    }
    redis_link_watch_deadline(link);
    metrics_observe(link->options.metrics, HISTOGRAM_REDIS_ROUND_TRIP,
                    loop_now_ns(link->options.loop) - call->sent_ns);
    return true;
}

struct redis_result redis_call_sort(const struct redis_call *call, const redisReply *reply)
{
    struct redis_link *link = call->link;
    struct redis_result result = {.sent_ns = call->sent_ns,
                                  .reply = (const struct redis_value *)reply,
                                  .server = &link->server};

    if (reply->type != REDIS_REPLY_ERROR)
        return result;
    result.outcome = redis_sort_error(reply->str, &result.refusal);
    if (link->options.is_cluster_node && redis_is_moving(reply->str))
        result.outcome = REDIS_REFUSED;
    if (result.outcome == REDIS_UNKNOWN)
        log_unexpected(reply->str);
    if (strncmp(redis_error_cause(reply->str), "MISCONF", 7) == 0)
        link->writes.are_refused = true;
    if (is_wrong_server(reply->str))
        redis_link_leave(link, "Redis takes no writes");
    return result;
}

void redis_link_close_if_left(struct redis_link *link)
{
    if (link->state == LINK_LEAVING && link->calls.pending == NULL)
        link->give_up = true;
}

/* --- commands ----------------------------------------------------------------------------- */

static void on_reply(redisAsyncContext *context, void *raw, void *arg)
{
    struct redis_call *call = arg;
    struct redis_link *link = call->link;

    (void)context;
    if (!redis_call_take_reply(call, raw))
        return;
    const struct redis_result result = redis_call_sort(call, raw);
    redis_call_end(call, &result);
    redis_link_close_if_left(link);
}

void redis_link_command(struct redis_link *link, const struct redis_command *command,
                        redis_done *done, void *arg)
{
    struct redis_call *call = redis_call_new(link, NULL, done, arg); /* sent once, not kept */

    if (!redis_link_is_up(link)) {
        redis_call_refuse_later(call);
        return;
    }
    metrics_add(link->options.metrics, METRIC_REDIS_COMMANDS, 1);
    if (redisAsyncCommandArgv(link->context, on_reply, call, (int)command->argc,
                              (const char **)command->argv, command->lens) == REDIS_OK)
        redis_call_await(call);
    else
        redis_call_refuse_later(call);
}

/* --- whether Redis takes writes ----------------------------------------------------------- */

void redis_link_reset_writes(struct redis_link *link)
{
    link->writes = (struct link_writes){.may_ping = true};
}

static void on_pinged(void *arg, const struct redis_result *result)
{
    struct redis_link *link = arg;

    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_PERMISSION)
        link->writes.are_refused = false;
    if (result->refusal == REDIS_REFUSED_PERMISSION)
        link->writes.may_ping = false; /* until it connects anew: each would be in Redis' ACL
                                          LOG */
}

void redis_link_check_writes(struct redis_link *link)
{
    static const char *const argv[] = {"PING"};
    static const size_t lens[] = {4};
    static const struct redis_command ping = {.argc = 1, .argv = argv, .lens = lens};

    if (redis_link_is_up(link) && link->writes.may_ping)
        redis_link_command(link, &ping, on_pinged, link);
}

bool redis_link_refuses_writes(const struct redis_link *link)
{
    return link->writes.are_refused;
}
