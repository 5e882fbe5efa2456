/* A subscription to one channel of Redis. */
#ifndef RLOCKD_STORAGE_REDIS_SUBSCRIPTION_H
#define RLOCKD_STORAGE_REDIS_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>

struct subscriber_channel;

/* Embedded in its owner. At most one for a channel. */
struct subscription {
    /* Redis has acknowledged the subscription, for the first time or after a lost connection:
     * earlier messages may have been missed. */
    void (*ready)(void *arg);
    void (*message)(void *arg, const char *payload, size_t len);
    void *arg;
    struct subscriber_channel *channel;
    bool is_live; /* see subscription_is_live(); written with `channel` */
};

/* Acknowledged, and the connection stands as far as we know. */
bool subscription_is_live(const struct subscription *subscription);

#endif
