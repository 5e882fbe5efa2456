/* Hands the calls of the stores to the topology that the URL names. */
#include "storage/redis/slot.h"
#include "storage/topology/topology_internal.h"

static const struct topology_ops *ops_for(const struct redis_url *url)
{
    switch (url->topology) {
    case REDIS_SINGLE:
        break;
    case REDIS_SENTINEL:
        return &topology_sentinel;
    case REDIS_CLUSTER:
        return &topology_cluster;
    case REDIS_QUORUM:
        return &topology_quorum;
    }
    return &topology_single;
}

struct topology *topology_new(const struct topology_options *options)
{
    return ops_for(options->url)->start(options);
}

void topology_stop(struct topology *topology)
{
    topology->ops->stop(topology);
}

void topology_free(struct topology *topology)
{
    topology->ops->free(topology);
}

const char *topology_trouble(const struct topology *topology, bool *is_everywhere)
{
    *is_everywhere = true;
    return topology->ops->trouble != NULL ? topology->ops->trouble(topology, is_everywhere)
                                          : "";
}

void topology_describe(const struct topology *topology, struct topology_state *state)
{
    topology->ops->describe(topology, state);
}

bool topology_is_ready(const struct topology *topology, const char **why_not)
{
    return topology->ops->is_ready(topology, why_not);
}

bool topology_reaches_some(const struct topology *topology)
{
    return topology->ops->reaches_some != NULL ? topology->ops->reaches_some(topology)
                                               : topology_is_ready(topology, NULL);
}

/* --- the keys ----------------------------------------------------------------------------- */

/* The node that has all keys, unless the kind of topology has functions for its nodes. */
static struct topology_node *only_node(struct topology *topology)
{
    return topology->ops->node_of == NULL ? &((struct single *)topology)->node : NULL;
}

void topology_script(struct topology *topology, const struct script_call *call,
                     redis_done *done, void *arg)
{
    const struct topology_node *only = only_node(topology);

    if (only != NULL)
        redis_link_script(only->commands, call, done, arg);
    else
        topology->ops->script(topology, call, done, arg);
}

void topology_command(struct topology *topology, const struct redis_tag *tag,
                      const struct redis_command *command, redis_done *done, void *arg)
{
    const struct topology_node *only = only_node(topology);

    if (only != NULL)
        redis_link_command(only->commands, command, done, arg);
    else
        topology->ops->command(topology, tag, command, done, arg);
}

/* --- nodes -------------------------------------------------------------------------------- */

struct topology_node *topology_next_node(struct topology *topology, struct topology_node *node)
{
    struct topology_node *only = only_node(topology);

    if (only != NULL)
        return node == NULL ? only : NULL;
    return topology->ops->next_node(topology, node);
}

_Static_assert((int)TOPOLOGY_ALL_SLOTS == (int)REDIS_SLOTS &&
                   (int)TOPOLOGY_TAG_SIZE == (int)REDIS_SLOT_TAG_SIZE,
               "the numbers of storage/redis/slot.h");

void topology_slot_tag(const struct topology *topology, uint16_t slot,
                       char tag[TOPOLOGY_TAG_SIZE])
{
    topology->ops->slot_tag(topology, slot, tag);
}

uint16_t topology_slot_at(const struct topology *topology, const struct topology_node *node)
{
    return topology->ops->slot_at != NULL ? topology->ops->slot_at(node) : TOPOLOGY_ALL_SLOTS;
}

struct topology_node *topology_node_of(struct topology *topology, const struct redis_tag *tag)
{
    struct topology_node *only = only_node(topology);

    return only != NULL ? only : topology->ops->node_of(topology, tag);
}

void topology_node_command(struct topology *topology, struct topology_node *node,
                           const struct redis_command *command, redis_done *done, void *arg)
{
    if (only_node(topology) != NULL)
        redis_link_command(node->commands, command, done, arg);
    else
        topology->ops->node_command(topology, node, command, done, arg);
}

void topology_share_script(struct script_call *call, char *room, size_t size)
{
    redis_link_share(call, room, size);
}

void topology_node_script(struct topology *topology, struct topology_node *node,
                          const struct script_call *call, redis_done *done, void *arg)
{
    if (only_node(topology) != NULL)
        redis_link_script(node->commands, call, done, arg);
    else
        topology->ops->node_script(topology, node, call, done, arg);
}

void topology_node_check(struct topology_node *node, const char *reason)
{
    redis_link_reconnect(node->commands, reason);
}

const struct redis_server *topology_node_server(const struct topology_node *node)
{
    return redis_link_server(node->commands);
}

bool topology_is_cluster(struct topology *topology)
{
    struct topology_node *node = topology_next_node(topology, NULL);

    if (topology->ops->is_cluster || topology->ops->is_quorum)
        return topology->ops->is_cluster;
    return node != NULL && topology_node_server(node)->is_cluster;
}

void topology_subscribe(struct topology *topology, struct subscription *subscription,
                        const char *channel, size_t len)
{
    const struct topology_node *only = only_node(topology);

    if (only != NULL)
        subscriber_add(only->subscriber, subscription, channel, len);
    else
        topology->ops->subscribe(topology, subscription, channel, len);
}

void topology_unsubscribe(struct topology *topology, struct subscription *subscription)
{
    const struct topology_node *only = only_node(topology);

    if (only != NULL)
        subscriber_remove(only->subscriber, subscription);
    else
        topology->ops->unsubscribe(topology, subscription);
}
