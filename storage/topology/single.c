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
    const struct subscriber_options messages = {
        .heartbeat_channel = single->topology.options.heartbeat_channel};

    return topology_node_start(&single->node, commands, &messages);
}

static void single_free(struct topology *topology)
{
    struct single *single = single_of(topology);

    topology_node_release(&single->node);
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
    (void)is_everywhere;
    return topology_node_trouble(&((const struct single *)topology)->node);
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
