/* The topology: every call of the stores goes through this header to the connections to Redis.
 * The URL decides the kind of topology; the code above this header does not depend on it. The
 * files of the room:
 *
 *   topology.c        hands each call to the topology of the URL
 *   single.c          one Redis
 *   sentinel.c        a master that Sentinels watch over
 *   sentinels.c       the connections to the Sentinels
 *   sentinel_reply.c  reads their replies and messages
 *   cluster*.c        a Redis Cluster: see cluster_internal.h
 *   quorum*.c         servers that know nothing of each other: see quorum_internal.h
 *   node.c            the two connections of each server
 *
 * storage/store/ sends the calls of all rooms, storage/wait/ subscribes, and server/worker.c
 * starts and stops the topology. The room calls storage/redis/ only. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_H
#define RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/redis/call.h"
#include "storage/redis/script_call.h"
#include "storage/redis/subscription.h"
#include "storage/redis/url.h"

struct topology;
/* A Redis that keeps a part of the keys, or all of them. Valid as long as the topology. */
struct topology_node;

struct topology_options {
    const struct redis_url *url;
    struct loop *loop;
    struct metrics *metrics;
    struct redis_sync sync; /* of each connection for commands */
    bool broadcasts;        /* in a cluster messages go to all nodes, not to the shard only */
    /* The keys and channels that each connection for commands is probed with. */
    const struct redis_probe *probe;
    const char *heartbeat_channel; /* of this worker alone */
    /* Commands that were refused or lost may be asked again: some Redis came back, or a part of
     * the keys has moved. */
    void (*up)(void *arg);
    /* The topology refuses some commands from now on. Where it lost a connection, it first
     * calls back for every command that was pending there, and then calls down(). */
    void (*down)(void *arg);
    /* Whether a lease may be granted at this node of a cluster, which a call was moved to. */
    bool (*may_grant)(void *arg, const struct topology_node *node);
    void *arg;
};

/* Starts connecting. The options' pointers must outlive the topology. NULL: out of memory. */
struct topology *topology_new(const struct topology_options *options);
/* Sends no further command. Not from within its callbacks. Before it returns, every pending
 * command ends, and every command that these callbacks send. May be called again. */
void topology_stop(struct topology *topology);
/* Every subscription must have been removed. */
void topology_free(struct topology *topology);

/* Whether every key is served. If not, `*why_not` (unless NULL) is one phrase for
 * operators; never a raw error of Redis. */
bool topology_is_ready(const struct topology *topology, const char **why_not);

/* Whether some keys are served: requests are worth taking, if not all of them. */
bool topology_reaches_some(const struct topology *topology);

/* A problem although keys are served, as one phrase for operators; empty: there is none.
 * `*is_everywhere`: the problem concerns all keys that are served. */
const char *topology_trouble(const struct topology *topology, bool *is_everywhere);

/* The state of a topology, for operators. */
struct topology_state {
    const char *name;
    size_t sentinels;  /* known; 0: there are none */
    int64_t failovers; /* seen since the start */
    size_t masters;    /* of a Redis Cluster, those that have slots; 0: there is none */
    size_t slots;      /* of a Redis Cluster, those whose master serves */
    size_t nodes;      /* of a quorum; 0: there is none */
};

void topology_describe(const struct topology *topology, struct topology_state *state);

/* Runs a script where its tag is. `done` comes exactly once, and later; REDIS_REFUSED when that
 * Redis cannot be reached. The arguments are copied. */
void topology_script(struct topology *topology, const struct script_call *call,
                     redis_done *done, void *arg);
/* The same for a command about keys of one tag. */
void topology_command(struct topology *topology, const struct redis_tag *tag,
                      const struct redis_command *command, redis_done *done, void *arg);

/* Every node that keeps keys: NULL begins, and NULL is the end. The order is the same for all
 * workers that know the same nodes. In a cluster a node may come in between. */
struct topology_node *topology_next_node(struct topology *topology, struct topology_node *node);
enum { TOPOLOGY_ALL_SLOTS = 16384, TOPOLOGY_TAG_SIZE = 8 };

/* A slot of this node of topology_next_node(), the same slot for all workers that know the same
 * map; TOPOLOGY_ALL_SLOTS or more: the node has all slots, each node with a number of its own.
 */
uint16_t topology_slot_at(const struct topology *topology, const struct topology_node *node);
/* Writes a tag of a slot that topology_slot_at() gave, always the same tag. */
void topology_slot_tag(const struct topology *topology, uint16_t slot,
                       char tag[TOPOLOGY_TAG_SIZE]);
/* The node that has this tag now; NULL: none is known. */
struct topology_node *topology_node_of(struct topology *topology, const struct redis_tag *tag);
/* A command about all keys of this node, such as SCAN. With `node` NULL (no node is known) the
 * command is refused. */
void topology_node_command(struct topology *topology, struct topology_node *node,
                           const struct redis_command *command, redis_done *done, void *arg);
/* A script about this very node: it runs there or nowhere. REDIS_REFUSED when its slot is no
 * longer there. `done` and the arguments: see topology_script(). */
void topology_node_script(struct topology *topology, struct topology_node *node,
                          const struct script_call *call, redis_done *done, void *arg);
/* Of a script that goes to several nodes: writes its KEYS and ARGV into `room`, as Redis reads
 * them, so that each topology_node_script() copies them only. `room` stays until the last. No
 * effect where there is too little room. */
void topology_share_script(struct script_call *call, char *room, size_t size);
/* The node must not be used as it is: its connection is made, and checked, again. `reason`: as
 * topology_is_ready(). */
void topology_node_check(struct topology_node *node, const char *reason);
/* Which Redis process serves as this node, and since when. */
const struct redis_server *topology_node_server(const struct topology_node *node);

/* --- quorum: every node has all keys, and a majority of the nodes decides --- */

enum { TOPOLOGY_QUORUM_MAX = 5 };

/* How many nodes the quorum has, whether or not they can be reached; 0: this is no quorum. */
size_t topology_quorum_nodes(const struct topology *topology);
/* Which of them this is, from 0 on. */
size_t topology_node_number(const struct topology_node *node);
/* Whether the node of a quorum may be asked; else `*why_not`, unless NULL, is one phrase. */
bool topology_node_is_up(const struct topology_node *node, const char **why_not);
/* Whether the node of a quorum may be asked, and takes writes: else it cannot vote. */
bool topology_node_takes_writes(const struct topology_node *node);
/* Whether a majority of the nodes may be asked. Always, if this is no quorum. */
bool topology_has_majority(struct topology *topology);
/* Writes HOST:PORT of a node of a quorum. */
void topology_node_address(const struct topology_node *node, char *text, size_t size);

/* Runs the scripts and commands that are for no single node: for topology_script() and
 * topology_command(). Has to end each call, and to copy what it needs later. */
struct topology_runner {
    void (*script)(void *arg, const struct script_call *call, redis_done *done, void *done_arg);
    void (*command)(void *arg, const struct redis_command *command, redis_done *done,
                    void *done_arg);
    /* The nodes have been stopped: ends every call that is under way, and every call that the
     * callbacks make. */
    void (*stop)(void *arg);
    void *arg;
};

/* Of a quorum: before the first script; `runner` must outlive the topology's last one. */
void topology_set_runner(struct topology *topology, const struct topology_runner *runner);

/* Whether the keys are in a cluster, as far as is known: then all keys of one script share a
 * slot. */
bool topology_is_cluster(struct topology *topology);

/* Listens to a channel, whose tag is that of the keys that it tells of. */
void topology_subscribe(struct topology *topology, struct subscription *subscription,
                        const char *channel, size_t len);
void topology_unsubscribe(struct topology *topology, struct subscription *subscription);

#endif
