/* The one subscriber connection of a worker: channels come and go with the locks that are
 * waited for, survive a lost connection, and are known to be live or not. */
#ifndef RLOCKD_STORAGE_SUBSCRIBER_H
#define RLOCKD_STORAGE_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "server/loop.h"
#include "server/metrics.h"
#include "storage/redis.h"

struct subscriber;
struct subscriber_channel;

/* Interest in one channel, embedded in its owner. At most one for a channel. */
struct subscription {
    /* Redis has acknowledged it, now or again after the connection was lost: what was published
     * before may have been missed. */
    void (*ready)(void *arg);
    void (*message)(void *arg, const char *payload, size_t len);
    void *arg;
    struct subscriber_channel *channel;
};

struct subscriber_options {
    const struct redis_url *url;
    struct loop *loop;
    struct metrics *metrics;
    struct redis *commands;    /* for the heartbeat: a message to ourselves */
    const char *heart_channel; /* of this worker alone */
};

/* Starts connecting. NULL: out of memory. */
struct subscriber *subscriber_new(const struct subscriber_options *options);
/* Every subscription must have been removed. */
void subscriber_free(struct subscriber *subscriber);

void subscriber_add(struct subscriber *subscriber, struct subscription *subscription,
                    const char *channel, size_t len);
void subscriber_remove(struct subscriber *subscriber, struct subscription *subscription);
/* Acknowledged, and the connection stands as far as we know. */
bool subscription_is_live(const struct subscription *subscription);

#endif
