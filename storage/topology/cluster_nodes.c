/* The masters of a cluster. Each has a connection for commands and one for messages, which are
 * made when a map or a redirection names the master, and closed some time after its last slot
 * has moved away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_internal.h"

/* A node without slots may be about to get some. */
#define IDLE_NS (10 * CLOCK_NS_PER_S)
/* Longer than a listing needs for a page: only listings keep pointers to a node. */
#define FORGET_NS (60 * CLOCK_NS_PER_S)

/* The cluster may be up again by then. Longer than the pause between two refreshes of a marker:
 * a node without other calls is asked in time whether the cluster is still down. */
#define DOWN_FOR_NS (1500 * CLOCK_NS_PER_MS)

enum { NODES_MAX = 2 * CLUSTER_MASTERS_MAX };

void cluster_node_says_down(struct cluster_node *node)
{
    struct cluster *cluster = node->cluster;
    bool is_news = node->down_ns == 0;

    node->down_ns = loop_now_ns(cluster->topology.options.loop);
    if (!is_news)
        return;
    cluster_note_state(cluster);
    cluster->topology.options.down(cluster->topology.options.arg);
}

/* No event of a connection ends the time for which a CLUSTERDOWN counts: the worker that was
 * told that the cluster is not ready is told of the end. */
static void end_down(struct cluster_node *node, int64_t now_ns)
{
    if (node->down_ns == 0 || now_ns - node->down_ns < DOWN_FOR_NS)
        return;
    node->down_ns = 0;
    cluster_note_state(node->cluster);
    cluster_report_up(node->cluster);
}

static void on_up(void *arg)
{
    struct cluster_node *node = arg;

    node->down_ns = 0; /* a script ran there */
    subscriber_check(node->node.subscriber);
    cluster_note_state(node->cluster);
    cluster_report_up(node->cluster);
}

static void on_down(void *arg)
{
    struct cluster_node *node = arg;
    struct cluster *cluster = node->cluster;

    if (node->is_stopped || cluster->is_stopped)
        return;
    cluster_probe_make(node);
    cluster_scout_ask(cluster);
    cluster_note_state(cluster);
    cluster->topology.options.down(cluster->topology.options.arg);
}

static void on_moved(void *arg)
{
    const struct cluster_node *node = arg;

    cluster_scout_ask(node->cluster);
}

static bool write_shard_channel(void *arg, char channel[SUBSCRIBER_CHANNEL_SIZE])
{
    const struct cluster_node *node = arg;
    char tag[REDIS_SLOT_TAG_SIZE];

    if (node->slot_count == 0)
        return false;
    redis_slot_tag(&node->cluster->slot_tags, node->last_slot, tag);
    snprintf(channel, SUBSCRIBER_CHANNEL_SIZE, "rlockd:probe:{%s}", tag);
    return true;
}

static bool connect_node(struct cluster_node *node)
{
    const struct topology_options *options = &node->cluster->topology.options;
    const struct redis_link_options link_options = {
        .url = &node->url,
        .loop = options->loop,
        .metrics = options->metrics,
        .probe = &node->probe.probe,
        .sync = node->cluster->topology.options.sync,
        .is_cluster_node = true,
        .broadcasts = options->broadcasts,
        .up = on_up,
        .down = on_down,
        .arg = node};
    const struct subscriber_options messages = {.heartbeat_channel = options->heartbeat_channel,
                                                .shard_channel = write_shard_channel,
                                                .moved = on_moved,
                                                .arg = node};

    return topology_node_start(&node->node, &link_options, &messages) == 0;
}

static void node_free(struct cluster_node *node)
{
    topology_node_release(&node->node);
    free(node);
}

/* The order of topology_next_node(). */
static int by_address(const struct cluster_node *left, const struct cluster_node *right)
{
    int order = strcmp(left->at.host, right->at.host);

    return order != 0 ? order : left->at.port - right->at.port;
}

static struct cluster_node *node_new(struct cluster *cluster, const struct redis_host *at)
{
    struct cluster_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->cluster = cluster;
    node->at = *at;
    node->idle_ns = loop_now_ns(cluster->topology.options.loop);
    node->has_new_slots = true;
    cluster_probe_make(node);
    if (redis_url_of_server(&node->url, cluster->topology.options.url, at->host, at->port) !=
            0 ||
        !connect_node(node)) {
        node_free(node);
        return NULL;
    }
    DL_INSERT_INORDER(cluster->nodes, node, by_address);
    return node;
}

struct cluster_node *cluster_node_at(struct cluster *cluster, const struct redis_host *at)
{
    struct cluster_node *node;
    size_t count = 0;

    DL_FOREACH(cluster->nodes, node) {
        count++;
        if (!node->is_stopped && node->at.port == at->port &&
            strcmp(node->at.host, at->host) == 0)
            return node;
    }
    return count < NODES_MAX && !cluster->is_stopped ? node_new(cluster, at) : NULL;
}

/* --- the map ------------------------------------------------------------------------------ */

/* One of its slots has another owner by now. */
static void lose_slot(struct cluster *cluster, struct cluster_node *node)
{
    node->has_new_slots = true;
    if (--node->slot_count == 0)
        node->idle_ns = loop_now_ns(cluster->topology.options.loop);
    while (node->slot_count > 0 && cluster->owners[node->last_slot] != node)
        node->last_slot--;
}

static bool set_owner(struct cluster *cluster, uint16_t slot, struct cluster_node *owner)
{
    struct cluster_node *before = cluster->owners[slot];

    if (before == owner)
        return false;
    cluster_calls_hold(cluster, slot);
    cluster->owners[slot] = owner;
    if (before != NULL)
        lose_slot(cluster, before);
    if (owner == NULL)
        return true;
    owner->has_new_slots = true;
    if (owner->slot_count++ == 0 || owner->last_slot < slot)
        owner->last_slot = slot;
    return true;
}

void cluster_slot_moved(struct cluster *cluster, uint16_t slot, struct cluster_node *owner)
{
    if (set_owner(cluster, slot, owner))
        cluster_note_state(cluster);
}

/* A new node, or a node whose connection failed, is probed with keys of its present slots. */
static void make_probes(struct cluster *cluster)
{
    struct cluster_node *node;

    DL_FOREACH(cluster->nodes, node) {
        if (!node->is_stopped && cluster_node_is_up(node))
            cluster_probe_follow(node);
        else if (!node->is_stopped)
            cluster_probe_make(node);
    }
}

/* A master of the new map, and a node that had one of its slots before; both may be NULL. */
struct succession {
    struct cluster_node *master, *before;
};

/* Counts a failover for each node that has become a master and has taken over the slots of a
 * master that has no slot left. */
static void note_successions(struct cluster *cluster, const struct succession *masters)
{
    for (size_t i = 0; i < cluster->slots->master_count; i++) {
        const struct cluster_node *master = masters[i].master, *before = masters[i].before;

        if (master == NULL || master->was_master || before == NULL || before->slot_count > 0)
            continue;
        cluster->failovers++;
        metrics_add(cluster->topology.options.metrics, METRIC_REDIS_FAILOVERS, 1);
    }
    struct cluster_node *node;
    DL_FOREACH(cluster->nodes, node) {
        node->was_master = node->slot_count > 0;
    }
}

void cluster_map_apply(struct cluster *cluster)
{
    const struct cluster_slots *slots = cluster->slots;
    struct succession *masters = calloc(slots->master_count, sizeof(*masters));
    bool is_changed = !cluster->has_map;

    if (masters == NULL)
        return; /* memory is short: the map that there is has to do */
    for (size_t i = 0; i < slots->master_count; i++)
        masters[i].master = cluster_node_at(cluster, &slots->masters[i]);
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++) {
        uint16_t i = slots->master_of[slot];
        struct cluster_node *owner = i != CLUSTER_NO_MASTER ? masters[i].master : NULL;
        struct cluster_node *before = cluster->owners[slot];
        if (owner != NULL && before != NULL && before != owner)
            masters[i].before = before;
        is_changed |= set_owner(cluster, (uint16_t)slot, owner);
    }
    note_successions(cluster, masters);
    free(masters);
    cluster->has_map = true;
    if (is_changed) {
        make_probes(cluster);
        cluster_report_up(cluster);
    }
    cluster_subscriptions_follow(cluster);
    cluster_note_state(cluster);
}

/* --- the end of nodes --------------------------------------------------------------------- */

static void stop_node(struct cluster_node *node)
{
    node->is_stopped = true;
    redis_link_stop(node->node.commands);
    cluster_subscriptions_follow(node->cluster);
    subscriber_stop(node->node.subscriber);
}

void cluster_nodes_round(struct cluster *cluster)
{
    int64_t now_ns = loop_now_ns(cluster->topology.options.loop);
    struct cluster_node *node, *next;

    DL_FOREACH_SAFE(cluster->nodes, node, next) {
        end_down(node, now_ns);
        if (node->slot_count > 0 || node->in_flight > 0)
            node->idle_ns = now_ns;
        if (!node->is_stopped && now_ns - node->idle_ns > IDLE_NS)
            stop_node(node);
        else if (node->is_stopped && now_ns - node->idle_ns > FORGET_NS) {
            DL_DELETE(cluster->nodes, node);
            node_free(node);
        }
    }
}

void cluster_nodes_stop(struct cluster *cluster)
{
    struct cluster_node *node;

    DL_FOREACH(cluster->nodes, node) {
        redis_link_stop(node->node.commands);
    }
}

void cluster_nodes_free(struct cluster *cluster)
{
    struct cluster_node *node, *next;

    DL_FOREACH_SAFE(cluster->nodes, node, next) {
        DL_DELETE(cluster->nodes, node);
        node_free(node);
    }
}
