/* The two connections of a node: for commands, and for messages. */
#include "storage/topology/topology_internal.h"

int topology_node_start(struct topology_node *node, const struct redis_link_options *commands,
                        const struct subscriber_options *messages)
{
    struct subscriber_options options = *messages;

    node->commands = redis_link_new(commands);
    if (node->commands == NULL)
        return -1;
    options.url = commands->url;
    options.loop = commands->loop;
    options.metrics = commands->metrics;
    options.commands = node->commands;
    node->subscriber = subscriber_new(&options);
    return node->subscriber != NULL ? 0 : -1;
}

void topology_node_release(struct topology_node *node)
{
    if (node->commands != NULL)
        redis_link_stop(node->commands);
    if (node->subscriber != NULL)
        subscriber_free(node->subscriber);
    if (node->commands != NULL)
        redis_link_free(node->commands);
}

const char *topology_node_trouble(const struct topology_node *node)
{
    if (redis_link_refuses_writes(node->commands))
        return REDIS_REFUSES_WRITES;
    if (redis_link_lacks_replicas(node->commands))
        return REDIS_LACKS_REPLICAS;
    return subscriber_trouble(node->subscriber);
}
