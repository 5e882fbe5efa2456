/* One call to a cluster, until it is answered: kept as a whole, because a node may redirect the
 * call to another node. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_CLUSTER_CALL_H
#define RLOCKD_STORAGE_TOPOLOGY_CLUSTER_CALL_H

#include "storage/topology/cluster_internal.h"

struct cluster_call {
    struct cluster_call *prev, *next;
    struct cluster *cluster;
    struct cluster_node *node; /* that was asked last */
    redis_done *done;
    void *arg;
    int64_t asked_ns;
    uint16_t slot; /* REDIS_SLOTS: a call for one node, which goes nowhere else */
    uint8_t moves;
    bool is_command;
    enum redis_refusal refusal; /* of a call that is refused here */
    enum script script;         /* a command has none, and no keys apart from its arguments */
    size_t key_count, arg_count;
    struct script_text texts[]; /* and the texts that the arguments point to */
};

/* Copies the texts. */
struct cluster_call *cluster_call_new(struct cluster *cluster, const struct script_text *keys,
                                      size_t key_count, const struct script_text *args,
                                      size_t arg_count, redis_done *done, void *arg);
void cluster_call_end(struct cluster_call *call, const struct redis_result *result);
/* Ends the call soon, as not executed. */
void cluster_call_refuse(struct cluster_call *call);
/* Ends those that were refused; a timer's callback. */
void cluster_calls_refuse(void *cluster);
/* `replied` gets the call. */
void cluster_call_send(struct cluster_call *call, struct cluster_node *node,
                       redis_done *replied);

#endif
