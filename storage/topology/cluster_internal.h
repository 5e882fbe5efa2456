/* Shared by the files of a cluster. Each file needs only those above it:
 *
 *   cluster_slots.c          reads what a node says about slots
 *   cluster_state.c          whether the cluster is ready
 *   cluster_scout.c          asks some node for the map, and again when the map may be old
 *   cluster_probe.c          what each connection is tried with
 *   cluster_subscriptions.c  which master a channel is listened to at
 *   cluster_holds.c          the calls that wait until a slot has moved
 *   cluster_nodes.c          the connections to the masters, as the map has them
 *   cluster_call.c           one call, and how it is sent
 *   cluster_calls.c          which master a call goes to, and where it goes from there
 *   cluster.c                its life */
#ifndef RLOCKD_STORAGE_TOPOLOGY_CLUSTER_INTERNAL_H
#define RLOCKD_STORAGE_TOPOLOGY_CLUSTER_INTERNAL_H

#include <uthash.h>
#include <utlist.h>

#include "storage/topology/cluster_slots.h"
#include "storage/topology/topology_internal.h"

enum {
    CLUSTER_PROBE_HOMES = 8,
    CLUSTER_PROBE_KEYS = 32,
    CLUSTER_PROBE_KEY_SIZE = 1024,
    CLUSTER_REASON_SIZE = 256
};

struct cluster;
struct cluster_call;

/* The keys of topology_options.probe with tags whose slots a node has. */
struct cluster_probe {
    char keys[CLUSTER_PROBE_KEYS][CLUSTER_PROBE_KEY_SIZE];
    const char *names[CLUSTER_PROBE_KEYS];
    struct redis_probe_keys homes[CLUSTER_PROBE_HOMES];
    char layout_key[CLUSTER_PROBE_KEY_SIZE];
    struct redis_probe probe;
};

struct cluster_node {
    struct topology_node node;
    struct cluster_node *prev, *next;
    struct cluster *cluster;
    struct redis_host at;
    struct redis_url url;
    struct cluster_probe probe;
    size_t slot_count;  /* of the map; 0: keys are perhaps on their way to this node */
    uint16_t last_slot; /* the highest of them */
    bool has_new_slots; /* its slots have changed since `probe` was made */
    size_t in_flight;   /* calls that were sent and not answered */
    int64_t idle_ns;    /* since when it has no slots and no calls */
    int64_t down_ns;    /* when it said last that the cluster is down; 0: not of late */
    bool was_master;    /* in the last map */
    bool is_stopped; /* for good; the struct stays valid for listings that still point to it */
};

/* The waiting calls of one slot, while other calls of the slot are on their way to another
 * node: see cluster_calls.c. */
struct slot_hold {
    UT_hash_handle hh;
    uint16_t slot;
    bool is_probing; /* the first call has been sent to see whether the slot is there now */
    struct cluster_call *redirected; /* these come first */
    struct cluster_call *later;
    int64_t retry_ns, until_ns, wait_ns;
};

struct cluster_scout {
    struct redis_link *link;
    struct redis_url url;
    size_t candidate; /* the host in `url`, among those that are known */
    bool is_asked, is_wanted;
    int64_t asked_ns; /* when the last question was sent */
    struct timer ask;
    char why_not[CLUSTER_REASON_SIZE];
    void (*mapped)(struct cluster *cluster);
    /* The last MOVED that came after that question, and how often answers said otherwise. */
    uint16_t moved_slot;
    struct redis_host moved_to;
    bool has_moved;
    /* The last master that answered CLUSTERDOWN since the last map, and one of its slots. */
    uint16_t down_slot;
    struct redis_host down_at;
    bool has_down;
    size_t contradictions;
    /* While some keys cannot be reached: when another node is asked, after which wait (0: all
     * can be reached), and how many further nodes may be left for an older map. */
    int64_t look_ns, look_wait_ns;
    size_t looks;
};

struct cluster_subscription {
    UT_hash_handle hh;
    struct subscription *subscription;
    struct cluster_node *node; /* NULL: no node is known */
    uint16_t slot;
    size_t len;
    char channel[];
};

struct cluster {
    struct topology topology;
    bool is_stopped, has_map;
    int64_t failovers;           /* seen since the start */
    struct cluster_slots *slots; /* the last map */
    struct cluster_node *nodes;
    struct cluster_node *owners[REDIS_SLOTS];
    struct redis_slot_tags slot_tags;
    uint32_t in_flight[REDIS_SLOTS];
    struct slot_hold *holds;
    size_t held; /* calls in them */
    struct cluster_call *refused;
    struct timer refuse, hold_tick;
    struct cluster_scout scout;
    struct cluster_subscription *subscriptions;
    struct timer round, report_up;
    int64_t reported_up_ns;
    char why_not[CLUSTER_REASON_SIZE];
};

/* cluster_state.c */
void cluster_state_init(struct cluster *cluster);
bool cluster_node_is_up(const struct cluster_node *node);
/* Slots whose master serves, of `nodes` masters; `lost` is one of the other masters, or NULL.
 */
size_t cluster_count_slots(const struct cluster *cluster, size_t *nodes,
                           const struct cluster_node **lost);
/* Something came back or has moved: topology_options.up is called soon, and not often. */
void cluster_report_up(struct cluster *cluster);
/* The gauges, and why it is not ready. */
void cluster_note_state(struct cluster *cluster);

/* cluster_scout.c */
/* `mapped` comes when cluster.slots has been read anew. */
bool cluster_scout_start(struct cluster *cluster, void (*mapped)(struct cluster *cluster));
void cluster_scout_stop(struct cluster *cluster);
void cluster_scout_free(struct cluster *cluster);
/* The map may be old: asks for a new map soon, but limits how often. */
void cluster_scout_ask(struct cluster *cluster);
void cluster_scout_moved(struct cluster *cluster, uint16_t slot, const struct redis_host *to);
/* The master of this slot answered CLUSTERDOWN: asks whether the slot has another master. */
void cluster_scout_down(struct cluster *cluster, uint16_t slot, const struct redis_host *at);
/* To be called now and then. */
void cluster_scout_round(struct cluster *cluster);

/* cluster_nodes.c */
/* The node at this address, made if need be. NULL: out of memory, or too many. */
struct cluster_node *cluster_node_at(struct cluster *cluster, const struct redis_host *at);
/* The node answered CLUSTERDOWN: for a while its slots count as slots without a master. */
void cluster_node_says_down(struct cluster_node *node);
void cluster_map_apply(struct cluster *cluster);
/* One slot has another owner now. */
void cluster_slot_moved(struct cluster *cluster, uint16_t slot, struct cluster_node *owner);
void cluster_nodes_round(struct cluster *cluster);
void cluster_nodes_stop(struct cluster *cluster);
void cluster_nodes_free(struct cluster *cluster);

/* cluster_probe.c */
/* Makes the keys anew if the node's slots have changed: not for each of many nodes that cannot
 * be reached, at each attempt. */
void cluster_probe_make(struct cluster_node *node);
/* The same for the key of the layout alone, of a node that is up. */
void cluster_probe_follow(struct cluster_node *node);

/* cluster_holds.c */
#define CLUSTER_HOLD_TICK_NS (10 * CLOCK_NS_PER_MS)
#define CLUSTER_HOLD_RETRY_FIRST_NS (10 * CLOCK_NS_PER_MS)
#define CLUSTER_HOLD_PATIENCE_NS (REDIS_DEADLINE_MS * CLOCK_NS_PER_MS)
/* NULL: calls of this slot need not wait. */
struct slot_hold *cluster_find_hold(const struct cluster *cluster, uint16_t slot);
/* The hold of this slot, made if need be. */
struct slot_hold *cluster_make_hold(struct cluster *cluster, uint16_t slot);
/* Takes out the call that is next; NULL: none waits. */
struct cluster_call *cluster_take_held(struct cluster *cluster, struct slot_hold *hold);
/* Calls of this slot that were sent must be answered before further ones go to a new owner. */
void cluster_calls_hold(struct cluster *cluster, uint16_t slot);

/* cluster_calls.c */
void cluster_calls_init(struct cluster *cluster);
void cluster_script(struct topology *topology, const struct script_call *call, redis_done *done,
                    void *arg);
void cluster_command(struct topology *topology, const struct redis_tag *tag,
                     const struct redis_command *command, redis_done *done, void *arg);
void cluster_node_command(struct topology *topology, struct topology_node *node,
                          const struct redis_command *command, redis_done *done, void *arg);
void cluster_node_script(struct topology *topology, struct topology_node *node,
                         const struct script_call *script, redis_done *done, void *arg);
/* Ends all waiting calls; after cluster.is_stopped. */
void cluster_calls_stop(struct cluster *cluster);

/* cluster_subscriptions.c */
void cluster_subscribe(struct topology *topology, struct subscription *subscription,
                       const char *channel, size_t len);
void cluster_unsubscribe(struct topology *topology, struct subscription *subscription);
/* Each subscription goes where its slot is. */
void cluster_subscriptions_follow(struct cluster *cluster);

#endif
