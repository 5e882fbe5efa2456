/* One Redis that has all keys: redis://, unix:// and the embedded Redis. */
#include <stdlib.h>

#include "storage/topology/topology_internal.h"

static struct single *single_of(struct topology *topology)
{
    return (struct single *)topology;
}

static void on_up(void *arg)
{
    const struct single *single = arg;

    subscriber_check(single->node.subscriber);
    single->topology.options.up(single->topology.options.arg);
}

static void on_down(void *arg)
{
    const struct single *single = arg;

    single->topology.options.down(single->topology.options.arg);
}

int single_start_node(struct single *single, const struct redis_link_options *commands)
{
    const struct topology_options *options = &single->topology.options;
    struct topology_node *node = &single->node;

    node->commands = redis_link_new(commands);
    if (node->commands == NULL)
        return -1;
    const struct subscriber_options subscriber_options = {
        .url = commands->url,
        .loop = options->loop,
        .metrics = options->metrics,
        .commands = node->commands,
        .heartbeat_channel = options->heartbeat_channel};
    node->subscriber = subscriber_new(&subscriber_options);
    return node->subscriber != NULL ? 0 : -1;
}

void single_release_node(struct single *single)
{
    if (single->node.commands != NULL)
        redis_link_stop(single->node.commands);
    if (single->node.subscriber != NULL)
        subscriber_free(single->node.subscriber);
    if (single->node.commands != NULL)
        redis_link_free(single->node.commands);
}

static void single_free(struct topology *topology)
{
    struct single *single = single_of(topology);

    single_release_node(single);
    free(single);
}

static struct topology *single_start(const struct topology_options *options)
{
    struct single *single = calloc(1, sizeof(*single));

    if (single == NULL)
        return NULL;
    single->topology = (struct topology){.ops = &topology_single, .options = *options};
    const struct redis_link_options commands = {.url = options->url,
                                                .loop = options->loop,
                                                .metrics = options->metrics,
                                                .probe = options->probe,
                                                .sync = options->sync,
                                                .up = on_up,
                                                .down = on_down,
                                                .arg = single};
    if (single_start_node(single, &commands) == 0)
        return &single->topology;
    single_free(&single->topology);
    return NULL;
}

void single_stop(struct topology *topology)
{
    redis_link_stop(single_of(topology)->node.commands);
}

bool single_is_ready(const struct topology *topology, const char **why_not)
{
    const struct redis_link *commands = ((const struct single *)topology)->node.commands;

    if (why_not != NULL)
        *why_not = redis_link_down_reason(commands);
    return redis_link_is_up(commands);
}

const char *single_trouble(const struct topology *topology, bool *is_everywhere)
{
    const struct topology_node *node = &((const struct single *)topology)->node;

    (void)is_everywhere;
    if (redis_link_refuses_writes(node->commands))
        return REDIS_REFUSES_WRITES;
    if (redis_link_lacks_replicas(node->commands))
        return REDIS_LACKS_REPLICAS;
    return subscriber_trouble(node->subscriber);
}

static void single_describe(const struct topology *topology, struct topology_state *state)
{
    (void)topology;
    *state = (struct topology_state){.name = "single"};
}

const struct topology_ops topology_single = {.start = single_start,
                                             .stop = single_stop,
                                             .free = single_free,
                                             .is_ready = single_is_ready,
                                             .trouble = single_trouble,
                                             .describe = single_describe};
