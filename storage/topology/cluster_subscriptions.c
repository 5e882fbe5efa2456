/* Subscribes to each channel at the master of its slot: messages to the shard arrive only
 * there, and messages to all nodes arrive there first. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/topology/cluster_internal.h"

/* The node at which to subscribe. While the slot has no master, the subscription stays at its
 * node, for messages that are published to all nodes. */
static struct cluster_node *node_for(const struct cluster *cluster,
                                     const struct cluster_subscription *subscription)
{
    struct cluster_node *owner = cluster->owners[subscription->slot];

    if (owner == NULL && subscription->node != NULL && !subscription->node->is_stopped)
        return subscription->node;
    return owner;
}

static void leave(struct cluster_subscription *subscription)
{
    if (subscription->node != NULL)
        subscriber_remove(subscription->node->node.subscriber, subscription->subscription);
    subscription->node = NULL;
}

static void follow(struct cluster *cluster, struct cluster_subscription *subscription)
{
    struct cluster_node *node = node_for(cluster, subscription);

    if (node == subscription->node) {
        if (node != NULL && node == cluster->owners[subscription->slot])
            subscriber_stay(node->node.subscriber, subscription->subscription);
        return;
    }
    leave(subscription);
    subscription->node = node;
    if (node != NULL)
        subscriber_add(node->node.subscriber, subscription->subscription, subscription->channel,
                       subscription->len);
}

void cluster_subscribe(struct topology *topology, struct subscription *subscription,
                       const char *channel, size_t len)
{
    struct cluster *cluster = (struct cluster *)topology;
    struct cluster_subscription *added = calloc(1, sizeof(*added) + len);
    const struct redis_tag tag = redis_tag_of(channel, len);

    assert(added != NULL);
    added->subscription = subscription;
    added->slot = redis_slot_of(&tag);
    added->len = len;
    memcpy(added->channel, channel, len);
    HASH_ADD_PTR(cluster->subscriptions, subscription, added);
    follow(cluster, added);
}

void cluster_unsubscribe(struct topology *topology, struct subscription *subscription)
{
    struct cluster *cluster = (struct cluster *)topology;
    struct cluster_subscription *found;

    HASH_FIND_PTR(cluster->subscriptions, &subscription, found);
    assert(found != NULL);
    leave(found);
    HASH_DEL(cluster->subscriptions, found);
    free(found);
}

void cluster_subscriptions_follow(struct cluster *cluster)
{
    struct cluster_subscription *subscription, *next;

    HASH_ITER(hh, cluster->subscriptions, subscription, next) {
        follow(cluster, subscription);
    }
}
