#include "storage/subscriber.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/clock.h"

/* A message to ourselves goes round this often; one that takes longer than
 * the limit means that other messages are lost, too. Redis cannot be asked: in subscribed mode
 * hiredis 0.14 does not see the answer to PING. */
#define BEAT_EVERY_NS (1 * CLOCK_NS_PER_S)
#define BEAT_LIMIT_NS (2 * CLOCK_NS_PER_S)

enum channel_state {
    CHANNEL_WANTED,  /* to be subscribed when the connection is up */
    CHANNEL_PENDING, /* SUBSCRIBE is under way */
    CHANNEL_LIVE,
    CHANNEL_LEAVING /* UNSUBSCRIBE is under way; a new SUBSCRIBE must not overtake its answer */
};

struct subscriber_channel {
    UT_hash_handle hh;
    enum channel_state state;
    struct subscription *owner; /* NULL: nobody's any more */
    size_t len;
    char name[];
};

struct subscriber {
    struct subscriber_options options;
    struct redis *redis;
    struct subscriber_channel *channels;
    struct subscription heart;
    struct timer beat;
    int64_t beat_sent_ns; /* 0: none is under way */
};

static void subscribe(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    bool sent = redis_subscribe(subscriber->redis, channel->name, channel->len) == 0;

    channel->state = sent ? CHANNEL_PENDING : CHANNEL_WANTED;
}

static void forget(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    HASH_DEL(subscriber->channels, channel);
    free(channel);
}

/* --- what the connection says ------------------------------------------------------------- */

static void on_up(void *arg)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel, *next;

    /* As if one were under way: the first thing to come back is the heart's own subscription.
     */
    subscriber->beat_sent_ns = loop_now_ns(subscriber->options.loop);
    HASH_ITER(hh, subscriber->channels, channel, next) {
        subscribe(subscriber, channel);
    }
}

static void on_down(void *arg)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel, *next;

    HASH_ITER(hh, subscriber->channels, channel, next) {
        channel->state = CHANNEL_WANTED;
        if (channel->owner == NULL)
            forget(subscriber, channel);
    }
}

static void on_subscribed(struct subscriber_channel *channel)
{
    if (channel->state != CHANNEL_PENDING)
        return;
    channel->state = CHANNEL_LIVE;
    if (channel->owner != NULL && channel->owner->ready != NULL)
        channel->owner->ready(channel->owner->arg);
}

static void on_unsubscribed(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    if (channel->owner != NULL)
        subscribe(subscriber, channel); /* wanted again meanwhile */
    else
        forget(subscriber, channel);
}

static void on_push(void *arg, enum redis_push push, const char *name, size_t len,
                    const char *payload, size_t payload_len)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel;

    HASH_FIND(hh, subscriber->channels, name, len, channel);
    if (channel == NULL)
        return;
    switch (push) {
    case REDIS_PUSH_SUBSCRIBED:
        on_subscribed(channel);
        break;
    case REDIS_PUSH_UNSUBSCRIBED:
        on_unsubscribed(subscriber, channel);
        break;
    case REDIS_PUSH_MESSAGE:
        if (channel->owner != NULL && channel->state == CHANNEL_LIVE)
            channel->owner->message(channel->owner->arg, payload, payload_len);
        break;
    }
}

/* --- heartbeat ---------------------------------------------------------------------------- */

static void on_heart_ready(void *arg)
{
    struct subscriber *subscriber = arg;

    subscriber->beat_sent_ns = 0;
    redis_proven(subscriber->redis);
}

static void on_heart_message(void *arg, const char *payload, size_t len)
{
    struct subscriber *subscriber = arg;

    (void)payload;
    (void)len;
    subscriber->beat_sent_ns = 0;
}

static void on_beat_published(void *arg, const struct redis_result *result)
{
    struct subscriber *subscriber = arg;

    if (result->outcome != REDIS_DONE)
        subscriber->beat_sent_ns = 0; /* the command connection's trouble */
}

static void on_beat(void *arg)
{
    struct subscriber *subscriber = arg;
    int64_t now_ns = loop_now_ns(subscriber->options.loop);
    const char *argv[] = {"PUBLISH", subscriber->options.heart_channel, "0"};
    const size_t lens[] = {7, strlen(subscriber->options.heart_channel), 1};

    timer_arm(loop_timers(subscriber->options.loop), &subscriber->beat, now_ns + BEAT_EVERY_NS);
    if (!redis_is_up(subscriber->redis))
        return;
    if (subscriber->beat_sent_ns != 0) {
        if (now_ns - subscriber->beat_sent_ns > BEAT_LIMIT_NS)
            redis_reconnect(subscriber->redis, "messages do not arrive");
        return;
    }
    subscriber->beat_sent_ns = now_ns;
    redis_command(subscriber->options.commands, 3, argv, lens, on_beat_published, subscriber);
}

/* --- subscriptions ------------------------------------------------------------------------ */

void subscriber_add(struct subscriber *subscriber, struct subscription *subscription,
                    const char *name, size_t len)
{
    struct subscriber_channel *channel;

    HASH_FIND(hh, subscriber->channels, name, len, channel);
    if (channel == NULL) {
        channel = calloc(1, sizeof(*channel) + len + 1);
        assert(channel != NULL);
        memcpy(channel->name, name, len);
        channel->len = len;
        HASH_ADD(hh, subscriber->channels, name, len, channel);
        subscribe(subscriber, channel);
    }
    assert(channel->owner == NULL);
    channel->owner = subscription;
    subscription->channel = channel;
}

void subscriber_remove(struct subscriber *subscriber, struct subscription *subscription)
{
    struct subscriber_channel *channel = subscription->channel;

    subscription->channel = NULL;
    channel->owner = NULL;
    if (channel->state == CHANNEL_LEAVING)
        return;
    if (channel->state != CHANNEL_WANTED &&
        redis_unsubscribe(subscriber->redis, channel->name, channel->len) == 0)
        channel->state = CHANNEL_LEAVING;
    else
        forget(subscriber, channel);
}

bool subscription_is_live(const struct subscription *subscription)
{
    return subscription->channel != NULL && subscription->channel->state == CHANNEL_LIVE;
}

/* --- life --------------------------------------------------------------------------------- */

struct subscriber *subscriber_new(const struct subscriber_options *options)
{
    struct subscriber *subscriber = calloc(1, sizeof(*subscriber));

    if (subscriber == NULL)
        return NULL;
    subscriber->options = *options;
    struct redis_options redis_options = {.url = options->url,
                                          .loop = options->loop,
                                          .metrics = options->metrics,
                                          .up = on_up,
                                          .down = on_down,
                                          .arg = subscriber};
    subscriber->redis = redis_new(&redis_options);
    if (subscriber->redis == NULL) {
        free(subscriber);
        return NULL;
    }
    redis_on_push(subscriber->redis, on_push, subscriber);
    subscriber->heart = (struct subscription){
        .ready = on_heart_ready, .message = on_heart_message, .arg = subscriber};
    subscriber_add(subscriber, &subscriber->heart, subscriber->options.heart_channel,
                   strlen(subscriber->options.heart_channel));
    subscriber->beat = (struct timer){.fire = on_beat, .arg = subscriber};
    on_beat(subscriber);
    return subscriber;
}

void subscriber_free(struct subscriber *subscriber)
{
    struct subscriber_channel *channel, *next;

    timer_cancel(loop_timers(subscriber->options.loop), &subscriber->beat);
    redis_free(subscriber->redis);
    HASH_ITER(hh, subscriber->channels, channel, next) {
        forget(subscriber, channel);
    }
    free(subscriber);
}
