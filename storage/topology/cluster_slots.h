/* The map of a cluster's slots to nodes, from the reply of a node. A reply without the form
 * that Redis documents is refused. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_CLUSTER_SLOTS_H
#define RLOCKD_STORAGE_TOPOLOGY_CLUSTER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/redis/reply.h"
#include "storage/redis/slot.h"
#include "storage/redis/url.h"

enum {
    CLUSTER_MASTERS_MAX = 1000, /* the largest number that Redis recommends */
    CLUSTER_REPLICAS_MAX = 100, /* that are remembered */
    CLUSTER_NO_MASTER = 0xffff
};

struct cluster_slots {
    struct redis_host masters[CLUSTER_MASTERS_MAX];
    size_t master_count;
    struct redis_host replicas[CLUSTER_REPLICAS_MAX];
    size_t replica_count;
    uint16_t master_of[REDIS_SLOTS]; /* CLUSTER_NO_MASTER: no node serves this slot */
};

/* Reads the reply to CLUSTER SLOTS. `asked`: the host that gave the reply; it stands for a node
 * that does not know its own address. False: the reply has another form. */
bool cluster_slots_read(struct cluster_slots *slots, const struct redis_value *reply,
                        const char *asked);

enum cluster_redirection { CLUSTER_NOT_REDIRECTED, CLUSTER_MOVED, CLUSTER_ASK };

/* Reads "MOVED <slot> <host>:<port>" and "ASK …". `asked`: as above. */
enum cluster_redirection cluster_redirection_read(const char *error, const char *asked,
                                                  uint16_t *slot, struct redis_host *to);

#endif
