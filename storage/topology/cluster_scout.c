/* Asks any node of the cluster, also a replica, for the map of slots, over a connection of its
 * own. The hosts of the URL and those of the last map are tried in turn: when a host does not
 * answer, the next host is asked. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/topology/cluster_internal.h"

/* A map is asked for when it may be old, and at times without a reason; never more often than
 * this. */
#define PERIOD_NS (5 * CLOCK_NS_PER_S)
#define SPACING_NS (100 * CLOCK_NS_PER_MS)
/* While some keys cannot be reached. */
#define TROUBLE_PERIOD_NS (500 * CLOCK_NS_PER_MS)
/* And how long until another node is asked: twice as long each time. */
#define LOOK_FIRST_NS (2 * CLOCK_NS_PER_S)
#define LOOK_LONGEST_NS (64 * CLOCK_NS_PER_S)

enum {
    CONTRADICTIONS_MAX = 3 /* then the node that is asked has an old map */
};

static struct timers *timers_of(const struct cluster *cluster)
{
    return loop_timers(cluster->topology.options.loop);
}

static int64_t now(const struct cluster *cluster)
{
    return loop_now_ns(cluster->topology.options.loop);
}

/* --- which node is asked ------------------------------------------------------------------ */

/* The n-th host that may be asked; NULL: there are no more. */
static const struct redis_host *find_candidate(const struct cluster *cluster, size_t n)
{
    const struct redis_url *url = cluster->topology.options.url;
    const struct cluster_slots *slots = cluster->slots;

    if (n < slots->master_count)
        return &slots->masters[n];
    n -= slots->master_count;
    if (n < slots->replica_count)
        return &slots->replicas[n];
    n -= slots->replica_count;
    return n < url->host_count ? &url->hosts[n] : NULL;
}

/* Whether the node at this address is a known one that serves its slots. */
static bool serves(const struct cluster *cluster, const struct redis_host *at)
{
    const struct cluster_node *node;

    DL_FOREACH(cluster->nodes, node) {
        if (!node->is_stopped && node->at.port == at->port &&
            strcmp(node->at.host, at->host) == 0)
            return cluster_node_is_up(node) && node->down_ns == 0;
    }
    return false;
}

/* Takes effect at the next connect. No time is spent on a master that is known not to serve
 * when another node is looked for. */
static void choose_next(struct cluster *cluster)
{
    struct cluster_scout *scout = &cluster->scout;
    const struct redis_host *host;

    do {
        host = find_candidate(cluster, ++scout->candidate);
    } while (scout->looks > 0 && scout->candidate < cluster->slots->master_count &&
             !serves(cluster, host));
    if (host == NULL) {
        scout->candidate = 0;
        host = find_candidate(cluster, 0);
    }
    if (redis_url_of_server(&scout->url, cluster->topology.options.url, host->host,
                            host->port) != 0)
        return; /* not a usable host: the host before is tried again */
}

static void give_up(struct cluster *cluster, const char *reason)
{
    struct cluster_scout *scout = &cluster->scout;

    snprintf(scout->why_not, sizeof(scout->why_not), "%s", reason);
    redis_link_reconnect(scout->link, reason); /* on_down() tries the next host */
}

/* --- asking ------------------------------------------------------------------------------- */

/* Whether the map gives the slot to the node at this address. */
static bool map_names(const struct cluster *cluster, uint16_t slot, const struct redis_host *at)
{
    const struct cluster_node *owner = cluster->owners[slot];

    return owner != NULL && owner->at.port == at->port && strcmp(owner->at.host, at->host) == 0;
}

/* Nodes that have an old map would have each call go to the wrong node first. A master that is
 * cut off from the cluster answers CLUSTERDOWN, and names itself for as long as the cut lasts,
 * as do replicas on its side: the other nodes may know its successor. */
static void check_for_contradiction(struct cluster *cluster)
{
    struct cluster_scout *scout = &cluster->scout;
    bool is_old = (scout->has_moved &&
                   !map_names(cluster, scout->moved_slot, &scout->moved_to)) ||
                  (scout->has_down && map_names(cluster, scout->down_slot, &scout->down_at));

    if (!scout->has_moved && !scout->has_down)
        return;
    scout->has_moved = false;
    scout->has_down = false;
    if (!is_old) {
        scout->contradictions = 0;
    } else if (++scout->contradictions == CONTRADICTIONS_MAX) {
        scout->contradictions = 0;
        give_up(cluster, "this node of the cluster has an old map of slots");
    }
}

/* A node that is cut off from the cluster, but not from this process, names dead masters for
 * ever: other nodes may know their successors. In a failover all nodes name the dead master for
 * a while: then the next node that is asked is as good as this one. */
static void look_elsewhere(struct cluster *cluster)
{
    struct cluster_scout *scout = &cluster->scout;
    const char *why_not;

    if (topology_is_ready(&cluster->topology, &why_not)) {
        scout->look_wait_ns = 0;
        return;
    }
    if (scout->look_wait_ns == 0) {
        scout->look_wait_ns = LOOK_FIRST_NS;
    } else if (now(cluster) < scout->look_ns) {
        return;
    } else {
        if (scout->look_wait_ns < LOOK_LONGEST_NS)
            scout->look_wait_ns *= 2;
        scout->looks = cluster->slots->master_count + cluster->slots->replica_count +
                       cluster->topology.options.url->host_count;
        give_up(cluster, "this node of the cluster names masters that do not serve");
    }
    scout->look_ns = now(cluster) + scout->look_wait_ns;
}

/* Whether the map takes slots from a master that serves, and gives them to none that does. */
static bool is_worse(const struct cluster *cluster, const struct cluster_slots *slots)
{
    bool is_served[CLUSTER_MASTERS_MAX];

    for (size_t i = 0; i < slots->master_count; i++)
        is_served[i] = serves(cluster, &slots->masters[i]);
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++) {
        const struct cluster_node *owner = cluster->owners[slot];
        uint16_t i = slots->master_of[slot];
        if (owner != NULL && cluster_node_is_up(owner) && owner->down_ns == 0 &&
            (i == CLUSTER_NO_MASTER || !is_served[i]))
            return true;
    }
    return false;
}

static void use(struct cluster *cluster, struct cluster_slots *slots)
{
    struct cluster_scout *scout = &cluster->scout;

    free(cluster->slots);
    cluster->slots = slots;
    scout->why_not[0] = '\0';
    scout->looks = 0;
    redis_link_proven(scout->link);
    metrics_add(cluster->topology.options.metrics, METRIC_CLUSTER_MAPS, 1);
    scout->mapped(cluster);
    check_for_contradiction(cluster);
    look_elsewhere(cluster);
}

static const char *explain(const char *error)
{
    if (strncmp(error, "NOPERM", 6) == 0)
        return "the Redis user lacks a permission (CLUSTER SLOTS)";
    return "a node of the cluster gives no map of slots";
}

static void on_map(void *arg, const struct redis_result *result)
{
    struct cluster *cluster = arg;
    struct cluster_scout *scout = &cluster->scout;

    scout->is_asked = false;
    if (cluster->is_stopped)
        return;
    if (result->outcome == REDIS_DONE) {
        struct cluster_slots *slots = malloc(sizeof(*slots));
        if (slots != NULL &&
            cluster_slots_read(slots, result->reply, scout->url.hosts[0].host)) {
            if (scout->looks > 0 && is_worse(cluster, slots)) {
                scout->looks--;
                free(slots);
                give_up(cluster, "this node of the cluster has an old map of slots");
            } else {
                use(cluster, slots);
            }
        } else {
            free(slots);
            give_up(cluster, "a node of the cluster gives no map of slots");
        }
    } else if (value_error(result->reply)[0] != '\0') {
        give_up(cluster, explain(value_error(result->reply)));
    }
    cluster_note_state(cluster);
    if (scout->is_wanted)
        cluster_scout_ask(cluster);
}

static void ask_now(void *arg)
{
    static const char *const argv[] = {"CLUSTER", "SLOTS"};
    static const size_t lens[] = {7, 5};
    static const struct redis_command command = {.argc = 2, .argv = argv, .lens = lens};
    struct cluster *cluster = arg;
    struct cluster_scout *scout = &cluster->scout;

    if (scout->is_asked || !redis_link_is_up(scout->link))
        return; /* on_map() or on_up() will ask */
    scout->is_wanted = false;
    scout->is_asked = true;
    scout->has_moved = false;
    scout->asked_ns = now(cluster);
    redis_link_command(scout->link, &command, on_map, cluster);
}

void cluster_scout_ask(struct cluster *cluster)
{
    struct cluster_scout *scout = &cluster->scout;

    scout->is_wanted = true;
    if (!cluster->is_stopped && !timer_is_armed(&scout->ask))
        timer_arm(timers_of(cluster), &scout->ask, scout->asked_ns + SPACING_NS);
}

void cluster_scout_moved(struct cluster *cluster, uint16_t slot, const struct redis_host *to)
{
    struct cluster_scout *scout = &cluster->scout;

    scout->moved_slot = slot;
    scout->moved_to = *to;
    scout->has_moved = true;
    cluster_scout_ask(cluster);
}

void cluster_scout_down(struct cluster *cluster, uint16_t slot, const struct redis_host *at)
{
    struct cluster_scout *scout = &cluster->scout;

    scout->down_slot = slot;
    scout->down_at = *at;
    scout->has_down = true;
    cluster_scout_ask(cluster);
}

void cluster_scout_round(struct cluster *cluster)
{
    const char *why_not;
    int64_t passed_ns = now(cluster) - cluster->scout.asked_ns;
    bool is_trouble = !topology_is_ready(&cluster->topology, &why_not);

    if (passed_ns >= (is_trouble ? TROUBLE_PERIOD_NS : PERIOD_NS))
        cluster_scout_ask(cluster);
}

static void on_up(void *arg)
{
    ask_now(arg);
}

static void on_down(void *arg)
{
    struct cluster *cluster = arg;
    struct cluster_scout *scout = &cluster->scout;

    scout->is_wanted = true;
    if (scout->why_not[0] == '\0')
        snprintf(scout->why_not, sizeof(scout->why_not), "%s",
                 redis_link_last_reason(scout->link));
    choose_next(cluster);
    cluster_note_state(cluster);
}

/* --- life --------------------------------------------------------------------------------- */

bool cluster_scout_start(struct cluster *cluster, void (*mapped)(struct cluster *cluster))
{
    const struct topology_options *options = &cluster->topology.options;
    struct cluster_scout *scout = &cluster->scout;
    const struct redis_link_options link_options = {.url = &scout->url,
                                                    .loop = options->loop,
                                                    .metrics = options->metrics,
                                                    .is_cluster_node = true,
                                                    .up = on_up,
                                                    .down = on_down,
                                                    .arg = cluster};

    scout->mapped = mapped;
    scout->ask = (struct timer){.fire = ask_now, .arg = cluster};
    if (redis_url_of_server(&scout->url, options->url, options->url->hosts[0].host,
                            options->url->hosts[0].port) != 0)
        assert(false); /* it is a host of a URL */
    scout->link = redis_link_new(&link_options);
    return scout->link != NULL;
}

void cluster_scout_stop(struct cluster *cluster)
{
    timer_cancel(timers_of(cluster), &cluster->scout.ask);
    if (cluster->scout.link != NULL)
        redis_link_stop(cluster->scout.link);
}

void cluster_scout_free(struct cluster *cluster)
{
    if (cluster->scout.link != NULL)
        redis_link_free(cluster->scout.link);
}
