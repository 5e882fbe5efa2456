/* The one subscriber connection of a worker to a server. Channels are subscribed to while
 * requests wait for their locks; subscriptions survive a lost connection, and each is known to
 * be live or not. */
#ifndef RLOCKD_STORAGE_REDIS_SUBSCRIBER_H
#define RLOCKD_STORAGE_REDIS_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/redis/link.h"
#include "storage/redis/subscription.h"

struct subscriber;

enum { SUBSCRIBER_CHANNEL_SIZE = 40 };

struct subscriber_options {
    const struct redis_url *url;
    struct loop *loop;
    struct metrics *metrics;
    struct redis_link *commands;   /* for the heartbeat: a message to ourselves */
    const char *heartbeat_channel; /* of this worker alone */
    /* Of a node of a cluster: each channel is listened to in the shard, too, where Redis has
     * such channels. Writes a channel in a slot that the node has, to be tried with; false: it
     * has none. NULL: this is no node of a cluster. */
    bool (*shard_channel)(void *arg, char channel[SUBSCRIBER_CHANNEL_SIZE]);
    /* Redis has ended the subscription in the shard: its slot is another node's now, or was for
     * a while. A map of the slots is wanted, for subscriber_remove() or subscriber_stay(). */
    void (*moved)(void *arg);
    void *arg;
};

/* Starts connecting. NULL: out of memory. */
struct subscriber *subscriber_new(const struct subscriber_options *options);
/* Gives the connection up for good; subscriptions may still be removed. */
void subscriber_stop(struct subscriber *subscriber);
/* Every subscription must have been removed. */
void subscriber_free(struct subscriber *subscriber);

/* The URL has changed, or names a server for the first time: connects to the server. */
void subscriber_follow(struct subscriber *subscriber);

/* The connection for commands is up again. The cause that ended the former connection may have
 * ended that of the subscriber, too, without a sign: unless messages arrive within half a
 * second, the subscriber connects anew. */
void subscriber_check(struct subscriber *subscriber);

/* Why messages do not arrive, as one phrase for operators; empty while they do, and for the
 * seconds that a lost connection may take to come back. */
const char *subscriber_trouble(const struct subscriber *subscriber);

void subscriber_add(struct subscriber *subscriber, struct subscription *subscription,
                    const char *channel, size_t len);
/* A map has come that has the slot of this channel at this node: listens in the shard again if
 * Redis has ended that. */
void subscriber_stay(struct subscriber *subscriber, const struct subscription *subscription);
void subscriber_remove(struct subscriber *subscriber, struct subscription *subscription);

#endif
