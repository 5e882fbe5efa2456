/* A Redis Cluster of several real processes. */
#ifndef E2E_CLUSTER_H
#define E2E_CLUSTER_H

#include "harness.h"

enum { CLUSTER_NODES_MAX = 8, CLUSTER_NODE_TIMEOUT_MS = 1500, CLUSTER_SLOTS = 16384 };

struct cluster {
    struct world *world;
    struct redis *nodes[CLUSTER_NODES_MAX]; /* masters first, then a replica of each */
    char ids[CLUSTER_NODES_MAX][48];        /* by which the nodes know each other */
    int len, masters;
    const char *url; /* names two of them */
};

/* Masters with equal shares of the slots, each with a replica or none. Returns when every node
 * says that the cluster is well. A slot that is lost takes no other one with it. */
struct cluster *cluster_start(struct world *w, int masters, bool with_replicas);
/* A cluster of three masters as one Redis, such as that of E2E_REDIS=cluster3, and a command to
 * it. */
struct redis *cluster_as_redis(struct world *w, bool with_replicas);
redisReply *cluster_ask(struct cluster *cluster, const char *format, va_list args);

/* redis-cli --cluster with these words, host:port of a node among them; fails the test when the
 * command does. */
void cluster_manage(struct cluster *cluster, const char *const *words);
const char *cluster_address(struct redis *node);
/* One more node, which has no slots. */
struct redis *cluster_add(struct cluster *cluster);
/* What rlockd and a replica say to this node goes through a proxy from now on; what the other
 * nodes say does not. */
struct proxy *cluster_behind_proxy(struct cluster *cluster, struct redis *node);
/* Each node hears of the others through a proxy before the port of its bus from now on, so that
 * `node` can be parted from them. */
struct bus *cluster_bus(struct cluster *cluster, struct redis *node);
/* No message of the bus reaches the node or comes from it, and its replica gets nothing more;
 * clients reach the node. The end of the same. */
void bus_part(struct bus *bus);
void bus_rejoin(struct bus *bus);
/* Waits until every living node says that the cluster is well, and all of them name the same
 * masters; fails the test with what each node says. */
void cluster_await(struct cluster *cluster);
/* kill -9, and back again with what it has in its directory. */
void cluster_kill(struct redis *node);
void cluster_return(struct redis *node);
/* Returns when the replica is a master, by CLUSTER FAILOVER. */
void cluster_promote(struct redis *replica);

struct redis *cluster_living(struct cluster *cluster);
bool cluster_is_master(struct redis *node);

int cluster_slot(struct cluster *cluster, const char *key);
/* The master of this slot as the first living node says; NULL: none. */
struct redis *cluster_owner(struct cluster *cluster, int slot);
/* Whether all living nodes name the same master of each slot. */
bool cluster_agrees(struct cluster *cluster);
/* Prints what each node says of the cluster. */
void cluster_describe(struct cluster *cluster);
/* A name that begins with `prefix` and has its keys at this node. */
const char *cluster_name_at(struct cluster *cluster, struct redis *node, const char *prefix);
/* Keys of all masters. */
int cluster_keys(struct cluster *cluster);

/* The three steps by which a slot moves. The last step tells every living master. */
void slot_open(struct cluster *cluster, int slot, struct redis *from, struct redis *to);
void slot_migrate(struct cluster *cluster, int slot, struct redis *from, struct redis *to);
void slot_close(struct cluster *cluster, int slot, struct redis *from, struct redis *to);

#endif
