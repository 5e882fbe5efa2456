/* The interface of a topology. Each kind is one file with one table of functions. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_INTERNAL_H
#define RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_INTERNAL_H

#include "storage/redis/link.h"
#include "storage/redis/subscriber.h"
#include "storage/topology/topology.h"

struct topology_node {
    struct redis_link *commands;
    struct subscriber *subscriber;
};

/* node.c */
/* Starts both connections. Of `messages` only what `commands` does not have is set. Non-zero:
 * out of memory; topology_node_release() is due all the same. */
int topology_node_start(struct topology_node *node, const struct redis_link_options *commands,
                        const struct subscriber_options *messages)
    __attribute__((warn_unused_result));
void topology_node_release(struct topology_node *node);
/* A problem although the node serves, as topology_trouble(). */
const char *topology_node_trouble(const struct topology_node *node);

struct topology_ops {
    bool is_cluster; /* always; else it depends on the node */
    bool is_quorum;
    struct topology *(*start)(const struct topology_options *options);
    void (*stop)(struct topology *topology);
    void (*free)(struct topology *topology);
    bool (*is_ready)(const struct topology *topology, const char **why_not);
    bool (*reaches_some)(const struct topology *topology); /* NULL: all keys or none */
    /* NULL: it knows of none. `*is_everywhere` is true before. */
    const char *(*trouble)(const struct topology *topology, bool *is_everywhere);
    void (*describe)(const struct topology *topology, struct topology_state *state);
    /* NULL, as all that follow: the topology is a struct single, whose node has all keys. */
    struct topology_node *(*node_of)(struct topology *topology, const struct redis_tag *tag);
    struct topology_node *(*next_node)(struct topology *topology, struct topology_node *node);
    uint16_t (*slot_at)(const struct topology_node *node);
    void (*slot_tag)(const struct topology *topology, uint16_t slot,
                     char tag[TOPOLOGY_TAG_SIZE]);
    void (*script)(struct topology *topology, const struct script_call *call, redis_done *done,
                   void *arg);
    void (*command)(struct topology *topology, const struct redis_tag *tag,
                    const struct redis_command *command, redis_done *done, void *arg);
    void (*node_command)(struct topology *topology, struct topology_node *node,
                         const struct redis_command *command, redis_done *done, void *arg);
    void (*node_script)(struct topology *topology, struct topology_node *node,
                        const struct script_call *call, redis_done *done, void *arg);
    void (*subscribe)(struct topology *topology, struct subscription *subscription,
                      const char *channel, size_t len);
    void (*unsubscribe)(struct topology *topology, struct subscription *subscription);
};

/* The first member of each kind's own struct. */
struct topology {
    const struct topology_ops *ops;
    struct topology_options options;
};

extern const struct topology_ops topology_single;   /* single.c */
extern const struct topology_ops topology_sentinel; /* sentinel.c */
extern const struct topology_ops topology_cluster;  /* cluster.c */
extern const struct topology_ops topology_quorum;   /* quorum.c */

/* A topology of one node. single.c has the functions that all kinds with one node share. */
struct single {
    struct topology topology;
    struct topology_node node;
};

/* Non-zero: out of memory. */
int single_start_node(struct single *single, const struct redis_link_options *commands)
    __attribute__((warn_unused_result));
void single_stop(struct topology *topology);
bool single_is_ready(const struct topology *topology, const char **why_not);
const char *single_trouble(const struct topology *topology, bool *is_everywhere);

#endif
