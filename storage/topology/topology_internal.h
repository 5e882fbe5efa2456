/* What a topology is made of. Each kind is one file and one table of functions. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_INTERNAL_H
#define RLOCKD_STORAGE_TOPOLOGY_TOPOLOGY_INTERNAL_H

#include "storage/redis/link.h"
#include "storage/redis/subscriber.h"
#include "storage/topology/topology.h"

struct topology_node {
    struct redis_link *commands;
    struct subscriber *subscriber;
};

struct topology_ops {
    bool is_cluster; /* always; else it depends on the node */
    struct topology *(*start)(const struct topology_options *options);
    void (*stop)(struct topology *topology);
    void (*free)(struct topology *topology);
    bool (*is_ready)(const struct topology *topology, const char **why_not);
    const char *(*trouble)(const struct topology *topology); /* NULL: it knows of none */
    struct topology_node *(*node_of)(struct topology *topology, const struct redis_tag *tag);
    struct topology_node *(*next_node)(struct topology *topology, struct topology_node *node);
    void (*script)(struct topology *topology, const struct script_call *call, redis_done *done,
                   void *arg);
    void (*command)(struct topology *topology, const struct redis_tag *tag,
                    const struct redis_command *command, redis_done *done, void *arg);
    void (*node_command)(struct topology *topology, struct topology_node *node,
                         const struct redis_command *command, redis_done *done, void *arg);
    void (*subscribe)(struct topology *topology, struct subscription *subscription,
                      const char *channel, size_t len);
    void (*unsubscribe)(struct topology *topology, struct subscription *subscription);
};

/* The first member of each kind's own struct. */
struct topology {
    const struct topology_ops *ops;
    struct topology_options options;
};

extern const struct topology_ops topology_single;  /* single.c */
extern const struct topology_ops topology_cluster; /* cluster.c */

#endif
