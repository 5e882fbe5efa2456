/* Pub/sub: subscribing to channels, and their messages. */
#include <string.h>

#include "storage/redis/link_internal.h"

enum { SHARD_COMMAND_SIZE = 1024 /* SUNSUBSCRIBE and a channel */ };

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
        redis_link_enter(link, LINK_CLOSING);
        return;
    }
    if (link->push.pushed == NULL || value_count(raw) < 3)
        return;
    const char *kind = value_text(value_at(raw, 0), &kind_len);
    const char *channel = value_text(value_at(raw, 1), &channel_len);
    const char *payload = value_text(value_at(raw, 2), &payload_len);
    enum link_push push = push_of(kind);
    if (push <= LINK_PUSH_SHARD_MESSAGE)
        link->push.pushed(link->push.arg, push, channel, channel_len, payload, payload_len);
}

void redis_link_on_push(struct redis_link *link, redis_link_pushed *pushed,
                        redis_link_awaits *awaits, void *arg)
{
    link->push = (struct link_push_to){pushed, arg};
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
