/* The channels of a subscriber connection, and its heartbeat. */
#include "storage/redis/subscriber.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/base/clock.h"

/* The subscriber publishes a message to itself, the heartbeat, this often. A heartbeat that
 * takes longer than the limit means that other messages are lost, too. PING is no alternative:
 * in subscribed mode hiredis 0.14 does not see its answer. */
#define BEAT_EVERY_NS (1 * CLOCK_NS_PER_S)
#define BEAT_LIMIT_NS (2 * CLOCK_NS_PER_S)
/* The limit where the connection is in doubt: waiters miss messages until it is replaced. */
#define DOUBT_LIMIT_NS (500 * CLOCK_NS_PER_MS)
/* A lost connection that comes back sooner is no reason to send clients elsewhere: waits go on
 * by polling. */
#define TROUBLE_AFTER_NS (3 * CLOCK_NS_PER_S)

enum {
    /* So many maps must name the same master before a channel whose subscription Redis has
     * ended is subscribed to there again. The first may be of a node that has not heard yet
     * that the slot has moved, and an SSUBSCRIBE at the wrong node ends the connection of all
     * channels. */
    MAPS_TO_STAY = 3
};

enum channel_state {
    CHANNEL_WANTED,  /* to be subscribed when the connection is up */
    CHANNEL_PENDING, /* SUBSCRIBE is under way */
    CHANNEL_LIVE,
    /* UNSUBSCRIBE is under way, perhaps behind a SUBSCRIBE; a new SUBSCRIBE must not overtake
     * the answer to UNSUBSCRIBE. */
    CHANNEL_LEAVING
};

struct subscriber_channel {
    UT_hash_handle hh;
    enum channel_state state;
    struct subscription *owner; /* NULL: its owner has left */
    size_t len;
    bool is_acknowledged, is_shard_acknowledged; /* since the last SUBSCRIBE */
    int maps_to_stay; /* Redis has ended the subscription in the shard; 0: it has not */
    char name[];
};

struct subscriber {
    struct subscriber_options options;
    struct redis_link *link;
    struct subscriber_channel *channels;
    struct subscription heartbeat;
    /* Of a node of a cluster: whether channels of the shard may be listened to shows when one
     * is, at each new connection. */
    struct subscription trial;
    struct timer beat;
    int64_t beat_sent_ns; /* 0: none is under way */
    bool is_doubted;      /* subscriber_check() was called, and its limit is not over */
    int64_t
        deaf_since_ns; /* 0: messages arrive, as far as we know; INT64_MIN: they never did */
    /* The last push, when it was a message in the shard. */
    const struct subscriber_channel *shard_channel;
    int64_t shard_message_ns;
};

static void enter(struct subscriber_channel *channel, enum channel_state state)
{
    channel->state = state;
    if (channel->owner != NULL)
        channel->owner->is_live = state == CHANNEL_LIVE;
}

/* The heartbeat's channel is in no slot of this node. */
static bool is_in_shard(const struct subscriber *subscriber,
                        const struct subscriber_channel *channel)
{
    return subscriber->options.shard_channel != NULL &&
           channel->owner != &subscriber->heartbeat &&
           redis_link_server(subscriber->link)->has_shard_channels;
}

static void subscribe(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    struct redis_link *link = subscriber->link;
    bool sent = redis_link_subscribe(link, channel->name, channel->len) == 0;

    channel->is_acknowledged = false;
    channel->maps_to_stay = 0;
    channel->is_shard_acknowledged = !is_in_shard(subscriber, channel);
    if (sent && !channel->is_shard_acknowledged)
        sent = redis_link_subscribe_in_shard(link, channel->name, channel->len) == 0;
    enter(channel, sent ? CHANNEL_PENDING : CHANNEL_WANTED);
}

static void forget(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    if (subscriber->shard_channel == channel)
        subscriber->shard_channel = NULL;
    HASH_DEL(subscriber->channels, channel);
    free(channel);
}

/* --- the trial ---------------------------------------------------------------------------- */

static void end_trial(struct subscriber *subscriber)
{
    if (subscriber->trial.channel != NULL)
        subscriber_remove(subscriber, &subscriber->trial);
}

static void begin_trial(struct subscriber *subscriber)
{
    char name[SUBSCRIBER_CHANNEL_SIZE];

    end_trial(subscriber);
    if (subscriber->options.shard_channel != NULL &&
        redis_link_server(subscriber->link)->has_shard_channels &&
        subscriber->options.shard_channel(subscriber->options.arg, name))
        subscriber_add(subscriber, &subscriber->trial, name, strlen(name));
}

/* Messages arrive: the heartbeat's channel is listened to, and so was that of the trial. */
static void note_hearing(struct subscriber *subscriber)
{
    if (!subscription_is_live(&subscriber->heartbeat) || subscriber->trial.channel != NULL)
        return;
    subscriber->deaf_since_ns = 0;
    redis_link_proven(subscriber->link);
}

static void on_trial_ready(void *arg)
{
    struct subscriber *subscriber = arg;

    end_trial(subscriber);
    note_hearing(subscriber);
}

/* --- replies and messages ----------------------------------------------------------------- */

static void on_up(void *arg)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel, *next;

    /* As if a heartbeat were under way: the first reply to come is that of the heartbeat's own
     * subscription. */
    subscriber->beat_sent_ns = loop_now_ns(subscriber->options.loop);
    HASH_ITER(hh, subscriber->channels, channel, next) {
        subscribe(subscriber, channel);
    }
    begin_trial(subscriber);
}

static void on_down(void *arg)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel, *next;

    if (subscriber->deaf_since_ns == 0)
        subscriber->deaf_since_ns = loop_now_ns(subscriber->options.loop);
    end_trial(subscriber);
    HASH_ITER(hh, subscriber->channels, channel, next) {
        enter(channel, CHANNEL_WANTED);
        if (channel->owner == NULL)
            forget(subscriber, channel);
    }
}

static void on_subscribed(struct subscriber_channel *channel, bool in_shard)
{
    if (channel->state != CHANNEL_PENDING)
        return;
    channel->is_acknowledged |= !in_shard;
    channel->is_shard_acknowledged |= in_shard;
    if (!channel->is_acknowledged || !channel->is_shard_acknowledged)
        return;
    enter(channel, CHANNEL_LIVE);
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

/* The slot of a channel that is wanted has moved away, and is perhaps back by now. Messages
 * that are published meanwhile are missed: on_subscribed() tells the owner. */
static void on_moved(struct subscriber *subscriber, struct subscriber_channel *channel)
{
    if (!is_in_shard(subscriber, channel) ||
        (channel->state != CHANNEL_LIVE && channel->state != CHANNEL_PENDING))
        return;
    enter(channel, CHANNEL_PENDING);
    channel->is_shard_acknowledged = false;
    channel->maps_to_stay = MAPS_TO_STAY;
    subscriber->options.moved(subscriber->options.arg);
}

/* Scripts of rlockd publish in the shard and then to all nodes, so that each message arrives
 * twice. A second copy that follows the first directly, in one turn of the loop, is dropped:
 * the attempts that the first copy causes run after both, and would run twice. */
static bool is_duplicate(struct subscriber *subscriber,
                         const struct subscriber_channel *channel, enum link_push push)
{
    int64_t now_ns = loop_now_ns(subscriber->options.loop);
    bool follows = subscriber->shard_channel == channel &&
                   subscriber->shard_message_ns == now_ns;

    subscriber->shard_channel = push == LINK_PUSH_SHARD_MESSAGE ? channel : NULL;
    subscriber->shard_message_ns = now_ns;
    return follows && push == LINK_PUSH_MESSAGE;
}

static void on_push(void *arg, enum link_push push, const char *name, size_t len,
                    const char *payload, size_t payload_len)
{
    struct subscriber *subscriber = arg;
    struct subscriber_channel *channel;

    HASH_FIND(hh, subscriber->channels, name, len, channel);
    if (channel == NULL)
        return;
    bool duplicate = is_duplicate(subscriber, channel, push);
    switch (push) {
    case LINK_PUSH_SUBSCRIBED:
    case LINK_PUSH_SHARD_SUBSCRIBED:
        on_subscribed(channel, push == LINK_PUSH_SHARD_SUBSCRIBED);
        break;
    case LINK_PUSH_SHARD_UNSUBSCRIBED:
        on_moved(subscriber, channel);
        break;
    case LINK_PUSH_UNSUBSCRIBED:
        on_unsubscribed(subscriber, channel);
        break;
    case LINK_PUSH_MESSAGE:
    case LINK_PUSH_SHARD_MESSAGE:
        if (channel->owner != NULL && channel->state == CHANNEL_LIVE && !duplicate)
            channel->owner->message(channel->owner->arg, payload, payload_len);
        break;
    }
}

static bool awaits(void *arg, const char *name, size_t len)
{
    const struct subscriber *subscriber = arg;
    struct subscriber_channel *channel;

    HASH_FIND(hh, subscriber->channels, name, len, channel);
    if (channel == NULL)
        return false;
    bool is_acknowledged = channel->is_acknowledged && channel->is_shard_acknowledged;
    return channel->state == CHANNEL_PENDING ||
           (channel->state == CHANNEL_LEAVING && !is_acknowledged);
}

/* --- heartbeat ---------------------------------------------------------------------------- */

static void on_heartbeat_ready(void *arg)
{
    struct subscriber *subscriber = arg;

    subscriber->beat_sent_ns = 0;
    note_hearing(subscriber);
}

static void on_heartbeat_message(void *arg, const char *payload, size_t len)
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

static void send_beat(struct subscriber *subscriber)
{
    const char *argv[] = {"PUBLISH", subscriber->options.heartbeat_channel, "0"};
    const size_t lens[] = {7, strlen(subscriber->options.heartbeat_channel), 1};
    const struct redis_command publish = {.argc = 3, .argv = argv, .lens = lens};

    subscriber->beat_sent_ns = loop_now_ns(subscriber->options.loop);
    redis_link_command(subscriber->options.commands, &publish, on_beat_published, subscriber);
}

/* Whether messages should have arrived by now. */
static bool is_late(const struct subscriber *subscriber)
{
    int64_t now_ns = loop_now_ns(subscriber->options.loop);

    if (subscriber->is_doubted)
        return !redis_link_is_up(subscriber->link) || subscriber->beat_sent_ns != 0;
    return redis_link_is_up(subscriber->link) && subscriber->beat_sent_ns != 0 &&
           now_ns - subscriber->beat_sent_ns > BEAT_LIMIT_NS;
}

static void arm_beat(struct subscriber *subscriber, int64_t delay_ns)
{
    timer_arm(loop_timers(subscriber->options.loop), &subscriber->beat,
              loop_now_ns(subscriber->options.loop) + delay_ns);
}

static void on_beat(void *arg)
{
    struct subscriber *subscriber = arg;
    bool late = is_late(subscriber), is_up = redis_link_is_up(subscriber->link);

    if (late && redis_link_has_unseen_events(subscriber->link)) {
        arm_beat(subscriber, 0); /* after the next turn has read them */
        return;
    }
    subscriber->is_doubted = false;
    arm_beat(subscriber, BEAT_EVERY_NS);
    redis_link_check_writes(subscriber->options.commands);
    if (late)
        redis_link_renew(subscriber->link, is_up ? "messages do not arrive"
                                                 : redis_link_last_reason(subscriber->link));
    else if (is_up && subscriber->beat_sent_ns == 0)
        send_beat(subscriber);
}

void subscriber_check(struct subscriber *subscriber)
{
    subscriber->is_doubted = true;
    arm_beat(subscriber, DOUBT_LIMIT_NS);
    if (redis_link_is_up(subscriber->link))
        send_beat(subscriber);
}

const char *subscriber_trouble(const struct subscriber *subscriber)
{
    int64_t since_ns = subscriber->deaf_since_ns;

    if (since_ns == 0 || (since_ns != INT64_MIN &&
                          loop_now_ns(subscriber->options.loop) - since_ns < TROUBLE_AFTER_NS))
        return "";
    const char *reason = redis_link_last_reason(subscriber->link);
    return reason[0] != '\0' ? reason : "no messages of Redis arrive";
}

void subscriber_follow(struct subscriber *subscriber)
{
    redis_link_renew(subscriber->link, "another server is the master");
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
    }
    assert(channel->owner == NULL);
    channel->owner = subscription;
    subscription->channel = channel;
    if (channel->state == CHANNEL_WANTED)
        subscribe(subscriber, channel);
}

/* Asks for one more map after the last, too: should the slot be another node's after all, the
 * connection ends again and again until a map says so. */
void subscriber_stay(struct subscriber *subscriber, const struct subscription *subscription)
{
    struct subscriber_channel *channel = subscription->channel;

    if (channel->state != CHANNEL_PENDING || channel->maps_to_stay == 0)
        return;
    if (--channel->maps_to_stay == 0)
        subscribe(subscriber, channel);
    subscriber->options.moved(subscriber->options.arg);
}

/* Redis answers MOVED to an SUNSUBSCRIBE where the slot is no longer, and that would end the
 * connection of all channels. */
static bool leave_shard(struct subscriber *subscriber, const struct subscriber_channel *channel)
{
    return !is_in_shard(subscriber, channel) || channel->maps_to_stay > 0 ||
           redis_link_unsubscribe_in_shard(subscriber->link, channel->name, channel->len) == 0;
}

void subscriber_remove(struct subscriber *subscriber, struct subscription *subscription)
{
    struct subscriber_channel *channel = subscription->channel;

    subscription->channel = NULL;
    subscription->is_live = false;
    channel->owner = NULL;
    if (channel->state == CHANNEL_LEAVING)
        return;
    if (channel->state != CHANNEL_WANTED && leave_shard(subscriber, channel) &&
        redis_link_unsubscribe(subscriber->link, channel->name, channel->len) == 0)
        channel->state = CHANNEL_LEAVING;
    else
        forget(subscriber, channel);
}

bool subscription_is_live(const struct subscription *subscription)
{
    return subscription->is_live;
}

/* --- life --------------------------------------------------------------------------------- */

struct subscriber *subscriber_new(const struct subscriber_options *options)
{
    struct subscriber *subscriber = calloc(1, sizeof(*subscriber));

    if (subscriber == NULL)
        return NULL;
    subscriber->options = *options;
    subscriber->deaf_since_ns = INT64_MIN;
    struct redis_link_options redis_options = {.url = options->url,
                                               .loop = options->loop,
                                               .metrics = options->metrics,
                                               .is_cluster_node = options->shard_channel !=
                                                                  NULL,
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = subscriber};
    subscriber->link = redis_link_new(&redis_options);
    if (subscriber->link == NULL) {
        free(subscriber);
        return NULL;
    }
    redis_link_on_push(subscriber->link, on_push, awaits, subscriber);
    subscriber->heartbeat = (struct subscription){
        .ready = on_heartbeat_ready, .message = on_heartbeat_message, .arg = subscriber};
    subscriber->trial = (struct subscription){.ready = on_trial_ready, .arg = subscriber};
    subscriber_add(subscriber, &subscriber->heartbeat, subscriber->options.heartbeat_channel,
                   strlen(subscriber->options.heartbeat_channel));
    subscriber->beat = (struct timer){.fire = on_beat, .arg = subscriber};
    on_beat(subscriber);
    return subscriber;
}

void subscriber_stop(struct subscriber *subscriber)
{
    timer_cancel(loop_timers(subscriber->options.loop), &subscriber->beat);
    redis_link_stop(subscriber->link);
}

void subscriber_free(struct subscriber *subscriber)
{
    struct subscriber_channel *channel, *next;

    timer_cancel(loop_timers(subscriber->options.loop), &subscriber->beat);
    redis_link_free(subscriber->link);
    HASH_ITER(hh, subscriber->channels, channel, next) {
        forget(subscriber, channel);
    }
    free(subscriber);
}
