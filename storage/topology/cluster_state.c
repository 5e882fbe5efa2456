/* The state of a cluster: the slots that are served, why it is not ready, and when those above
 * are told that something came back. */
#include <stdio.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_internal.h"

/* Waiters try again when slots have moved: at most this often, also while many slots move. */
#define REPORT_SPACING_NS (100 * CLOCK_NS_PER_MS)

bool cluster_node_is_up(const struct cluster_node *node)
{
    return redis_link_is_up(node->node.commands);
}

size_t cluster_count_slots(const struct cluster *cluster, size_t *nodes,
                           const struct cluster_node **lost)
{
    const struct cluster_node *node;
    size_t count = 0;

    *nodes = 0;
    *lost = NULL;
    DL_FOREACH(cluster->nodes, node) {
        if (node->slot_count == 0)
            continue;
        ++*nodes;
        if (cluster_node_is_up(node) && node->down_ns == 0)
            count += node->slot_count;
        else
            *lost = node;
    }
    return count;
}

static const char *why_lost(const struct cluster_node *node)
{
    return cluster_node_is_up(node) ? REDIS_CLUSTER_IS_DOWN
                                    : redis_link_down_reason(node->node.commands);
}

static void explain(struct cluster *cluster, size_t covered, const struct cluster_node *lost)
{
    size_t size = sizeof(cluster->why_not);
    const char *why_not = cluster->scout.why_not;

    cluster->why_not[0] = '\0';
    if (!cluster->has_map)
        snprintf(cluster->why_not, size, "%s",
                 why_not[0] != '\0' ? why_not : "the map of the cluster is not known yet");
    else if (covered < REDIS_SLOTS)
        snprintf(cluster->why_not, size, "%zu of the cluster's %d slots have no master%s%s",
                 REDIS_SLOTS - covered, REDIS_SLOTS, lost != NULL ? " that serves: " : "",
                 lost != NULL ? why_lost(lost) : "");
}

void cluster_note_state(struct cluster *cluster)
{
    struct metrics *metrics = cluster->topology.options.metrics;
    const struct cluster_node *lost;
    size_t nodes;
    size_t covered = cluster_count_slots(cluster, &nodes, &lost);

    explain(cluster, covered, lost);
    metrics_set(metrics, METRIC_CLUSTER_NODES, (int64_t)nodes);
    metrics_set(metrics, METRIC_CLUSTER_SLOTS, (int64_t)covered);
}

static void report_up_now(void *arg)
{
    struct cluster *cluster = arg;

    cluster->reported_up_ns = loop_now_ns(cluster->topology.options.loop);
    cluster->topology.options.up(cluster->topology.options.arg);
}

void cluster_report_up(struct cluster *cluster)
{
    if (!cluster->is_stopped && !timer_is_armed(&cluster->report_up))
        timer_arm(loop_timers(cluster->topology.options.loop), &cluster->report_up,
                  cluster->reported_up_ns + REPORT_SPACING_NS);
}

void cluster_state_init(struct cluster *cluster)
{
    cluster->report_up = (struct timer){.fire = report_up_now, .arg = cluster};
}
