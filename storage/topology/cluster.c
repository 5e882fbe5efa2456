/* A Redis Cluster: redis-cluster://. Its masters share the slots, and each call goes to the
 * master of its keys' slot. If one slot cannot be reached, calls to the other slots go on. */
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_internal.h"

#define ROUND_NS (250 * CLOCK_NS_PER_MS)

static struct cluster *cluster_of(struct topology *topology)
{
    return (struct cluster *)topology;
}

/* --- state -------------------------------------------------------------------------------- */

static void cluster_describe(const struct topology *topology, struct topology_state *state)
{
    const struct cluster_node *lost;

    *state = (struct topology_state){
        .name = "cluster", .failovers = ((const struct cluster *)topology)->failovers};
    state->slots = cluster_count_slots((const struct cluster *)topology, &state->masters,
                                       &lost);
}

static bool cluster_is_ready(const struct topology *topology, const char **why_not)
{
    const struct cluster *cluster = (const struct cluster *)topology;

    if (why_not != NULL)
        *why_not = cluster->why_not;
    return cluster->why_not[0] == '\0';
}

static bool cluster_reaches_some(const struct topology *topology)
{
    const struct cluster *cluster = (const struct cluster *)topology;
    const struct cluster_node *lost;
    size_t nodes;

    return cluster->has_map && cluster_count_slots(cluster, &nodes, &lost) > 0;
}

/* The trouble of one master is not that of the others' locks. */
static const char *cluster_trouble(const struct topology *topology, bool *is_everywhere)
{
    const struct cluster *cluster = (const struct cluster *)topology;
    const struct cluster_node *node;
    const char *found = "";

    DL_FOREACH(cluster->nodes, node) {
        if (node->slot_count == 0 || !cluster_node_is_up(node) || node->down_ns != 0)
            continue;
        const char *trouble = topology_node_trouble(&node->node);
        if (trouble[0] == '\0')
            *is_everywhere = false;
        else
            found = trouble;
    }
    return found;
}

/* --- nodes -------------------------------------------------------------------------------- */

static struct topology_node *cluster_node_of(struct topology *topology,
                                             const struct redis_tag *tag)
{
    struct cluster_node *owner = cluster_of(topology)->owners[redis_slot_of(tag)];

    return owner != NULL ? &owner->node : NULL;
}

static struct topology_node *cluster_next_node(struct topology *topology,
                                               struct topology_node *node)
{
    struct cluster_node *next = node == NULL ? cluster_of(topology)->nodes
                                             : ((struct cluster_node *)node)->next;

    while (next != NULL && next->slot_count == 0)
        next = next->next;
    return next != NULL ? &next->node : NULL;
}

static uint16_t cluster_slot_at(const struct topology_node *node)
{
    return ((const struct cluster_node *)node)->last_slot;
}

static void cluster_slot_tag(const struct topology *topology, uint16_t slot,
                             char tag[TOPOLOGY_TAG_SIZE])
{
    redis_slot_tag(&((const struct cluster *)topology)->slot_tags, slot, tag);
}

/* --- life --------------------------------------------------------------------------------- */

static void take_round(void *arg)
{
    struct cluster *cluster = arg;
    struct loop *loop = cluster->topology.options.loop;

    timer_arm(loop_timers(loop), &cluster->round, loop_now_ns(loop) + ROUND_NS);
    cluster_nodes_round(cluster);
    cluster_scout_round(cluster);
}

static void cluster_stop(struct topology *topology)
{
    struct cluster *cluster = cluster_of(topology);
    struct timers *timers = loop_timers(topology->options.loop);

    cluster->is_stopped = true;
    timer_cancel(timers, &cluster->round);
    timer_cancel(timers, &cluster->report_up);
    cluster_scout_stop(cluster);
    cluster_nodes_stop(cluster);
    cluster_calls_stop(cluster);
}

static void cluster_free(struct topology *topology)
{
    struct cluster *cluster = cluster_of(topology);

    cluster_stop(topology);
    cluster_scout_free(cluster);
    cluster_nodes_free(cluster);
    free(cluster->slots);
    free(cluster);
}

static struct topology *cluster_start(const struct topology_options *options)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL)
        return NULL;
    cluster->topology = (struct topology){.ops = &topology_cluster, .options = *options};
    cluster->slots = calloc(1, sizeof(*cluster->slots));
    cluster_state_init(cluster);
    cluster->round = (struct timer){.fire = take_round, .arg = cluster};
    redis_slot_tags_make(&cluster->slot_tags);
    cluster_calls_init(cluster);
    if (cluster->slots == NULL || !cluster_scout_start(cluster, cluster_map_apply)) {
        cluster_free(&cluster->topology);
        return NULL;
    }
    cluster_note_state(cluster);
    take_round(cluster);
    return &cluster->topology;
}

const struct topology_ops topology_cluster = {.is_cluster = true,
                                              .start = cluster_start,
                                              .stop = cluster_stop,
                                              .free = cluster_free,
                                              .is_ready = cluster_is_ready,
                                              .reaches_some = cluster_reaches_some,
                                              .trouble = cluster_trouble,
                                              .describe = cluster_describe,
                                              .node_of = cluster_node_of,
                                              .next_node = cluster_next_node,
                                              .slot_at = cluster_slot_at,
                                              .slot_tag = cluster_slot_tag,
                                              .script = cluster_script,
                                              .command = cluster_command,
                                              .node_command = cluster_node_command,
                                              .node_script = cluster_node_script,
                                              .subscribe = cluster_subscribe,
                                              .unsubscribe = cluster_unsubscribe};
