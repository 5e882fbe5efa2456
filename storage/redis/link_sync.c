/* Holds replies of scripts until replicas have confirmed the changes (--sync-replicas). At most
 * one WAIT is under way: the scripts that are sent meanwhile share the next WAIT. So a batch of
 * scripts costs one WAIT, and no script waits for more than two. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/redis/link_internal.h"

#define MARKER_MS "34560000000" /* 400 days */

/* --- replies that outlive hiredis' ----------------------------------------------------------
 */

static void *or_die(void *memory)
{
    assert(memory != NULL);
    return memory;
}

static redisReply *reply_copy(const redisReply *reply)
{
    redisReply *copy = or_die(calloc(1, sizeof(*copy)));

    copy->type = reply->type;
    copy->integer = reply->integer;
    if (reply->str != NULL) {
        copy->len = reply->len;
        copy->str = or_die(malloc((size_t)reply->len + 1));
        memcpy(copy->str, reply->str, (size_t)reply->len);
        copy->str[reply->len] = '\0';
    }
    if (reply->type != REDIS_REPLY_ARRAY)
        return copy;
    copy->elements = reply->elements;
    copy->element = or_die(calloc(reply->elements + 1, sizeof(*copy->element)));
    for (size_t i = 0; i < reply->elements; i++)
        copy->element[i] = reply_copy(reply->element[i]);
    return copy;
}

static void reply_free(redisReply *reply)
{
    for (size_t i = 0; reply->element != NULL && i < reply->elements; i++)
        reply_free(reply->element[i]);
    free(reply->element);
    free(reply->str);
    free(reply);
}

/* --- holding and letting go -----------------------------------------------------------------
 */

/* Whether the replies of a script wait for replicas: the `-- sync` line of the script says so.
 * Where a script prepares what another one answers for, it goes before that one over the same
 * connection, so the WAIT of the second script covers both; in a cluster they may be at two
 * masters. A script that withdraws, ends or tidies up waits for no replica: the watchdog's
 * would keep its renewals waiting. The marker's script finds lacking replicas when no client
 * sends requests. */
void redis_link_prepare_sync(struct redis_call *call, const struct script_row *row)
{
    call->is_sync = call->link->options.sync.replicas > 0 && row->sync;
    redis_link_note_sync(call);
}

void redis_link_note_sync(struct redis_call *call)
{
    call->link->sync.is_wanted |= call->is_sync;
}

void redis_link_hold(struct redis_call *call, const void *reply)
{
    struct redis_link *link = call->link;

    call->held_reply = reply_copy(reply);
    DL_APPEND(link->sync.held, call);
}

static void finish_held(struct redis_link *link, enum redis_outcome outcome,
                        enum redis_refusal refusal)
{
    struct redis_call *held = link->sync.held, *call, *next;

    link->sync.held = NULL; /* a callback may ask again */
    DL_FOREACH_SAFE(held, call, next) {
        redisReply *reply = call->held_reply;
        const struct redis_result result = {.outcome = outcome,
                                            .refusal = refusal,
                                            .reply = (const struct redis_value *)reply,
                                            .sent_ns = call->sent_ns,
                                            .server = &link->server};
        if (refusal == REDIS_NOT_REPLICATED)
            metrics_add(link->options.metrics, METRIC_REDIS_NOT_REPLICATED, 1);
        redis_call_end(call, &result);
        reply_free(reply);
    }
}

void redis_link_lose_held(struct redis_link *link)
{
    link->sync.is_waiting = false;
    link->sync.is_wanted = false;
    finish_held(link, REDIS_UNKNOWN, REDIS_NOT_REFUSED);
}

/* Redis answers commands in their order: every held reply is of a command before this WAIT. */
static void on_waited(void *arg, const struct redis_result *result)
{
    struct redis_link *link = arg;

    link->sync.is_waiting = false;
    if (result->outcome == REDIS_UNKNOWN && result->reply == NULL)
        return; /* the connection is lost: redis_link_lose_held() ends the held calls */
    bool is_replicated = result->outcome == REDIS_DONE &&
                         value_integer(result->reply) >= link->options.sync.replicas;
    link->sync.lacks_replicas = !is_replicated;
    if (is_replicated)
        finish_held(link, REDIS_DONE, REDIS_NOT_REFUSED);
    else
        finish_held(link, REDIS_UNKNOWN, REDIS_NOT_REPLICATED);
}

static void on_marked(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

/* Since Redis 7.2 WAIT waits for the last write of its own connection, and not for all that the
 * server had written before. A script that only confirms a change of another connection, such
 * as a release that is repeated, has written nothing. So there is a write in any case, one that
 * changes nothing, and that Redis allows when memory is short: marker.lua sets this time, too.
 */
static void write_marker(struct redis_link *link)
{
    const struct redis_probe *probe = link->options.probe;

    if (probe == NULL || probe->layout_key == NULL)
        return;
    const char *argv[] = {"PEXPIRE", probe->layout_key, MARKER_MS};
    const size_t lens[] = {7, strlen(probe->layout_key), sizeof(MARKER_MS) - 1};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};
    redis_link_command(link, &command, on_marked, link);
}

void redis_link_turn_sync(struct redis_link *link)
{
    char replicas[TEXT_INT64_SIZE], timeout_ms[TEXT_INT64_SIZE];

    if (!link->sync.is_wanted || link->sync.is_waiting || !redis_link_is_up(link))
        return;
    write_marker(link);
    const char *argv[] = {"WAIT", replicas, timeout_ms};
    const size_t lens[] = {4, text_format_int64(replicas, link->options.sync.replicas),
                           text_format_int64(timeout_ms, link->options.sync.timeout_ms)};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};
    link->sync.is_waiting = true;
    link->sync.is_wanted = false;
    redis_link_command(link, &command, on_waited, link);
}

bool redis_link_lacks_replicas(const struct redis_link *link)
{
    return link->options.sync.replicas > 0 && link->sync.lacks_replicas;
}
