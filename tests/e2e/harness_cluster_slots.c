/* The slots of a Redis Cluster: which master has a slot, as the nodes say, and how a slot
 * moves.
 */
#include "cluster.h"

#include "harness_world.h"

enum { MIGRATE_MS = 5000 };

struct redis *cluster_living(struct cluster *cluster)
{
    for (int i = 0; i < cluster->len; i++)
        if (cluster->nodes[i]->db != NULL)
            return cluster->nodes[i];
    FAIL("no node lives");
}

int cluster_slot(struct cluster *cluster, const char *key)
{
    return (int)redis_int(cluster_living(cluster), "CLUSTER KEYSLOT %s", key);
}

bool cluster_is_master(struct redis *node)
{
    return strstr(redis_str(node, "INFO replication"), "role:master") != NULL;
}

/* By its id: to a test without TLS, Valkey names no port of a node that has only one for TLS.
 */
static struct redis *node_called(struct cluster *cluster, const char *id)
{
    for (int i = 0; i < cluster->len; i++)
        if (strcmp(cluster->ids[i], id) == 0)
            return cluster->nodes[i];
    return NULL;
}

/* The master of each slot, as `node` says; NULL: none. */
static void note_owners(struct cluster *cluster, struct redis *node,
                        struct redis *owners[CLUSTER_SLOTS])
{
    redisReply *ranges = redis_do(node, "CLUSTER SLOTS");

    memset(owners, 0, CLUSTER_SLOTS * sizeof(*owners));
    for (size_t i = 0; i < ranges->elements; i++) {
        redisReply **range = ranges->element[i]->element;
        struct redis *owner = node_called(cluster, range[2]->element[2]->str);

        for (long long slot = range[0]->integer; slot <= range[1]->integer; slot++)
            owners[slot] = owner;
    }
}

struct redis *cluster_owner(struct cluster *cluster, int slot)
{
    struct redis *owners[CLUSTER_SLOTS];

    note_owners(cluster, cluster_living(cluster), owners);
    return owners[slot];
}

bool cluster_agrees(struct cluster *cluster)
{
    struct redis *owners[CLUSTER_SLOTS], *others[CLUSTER_SLOTS];

    note_owners(cluster, cluster_living(cluster), owners);
    for (int i = 0; i < cluster->len; i++) {
        if (cluster->nodes[i]->db == NULL)
            continue;
        note_owners(cluster, cluster->nodes[i], others);
        if (memcmp(owners, others, sizeof(owners)) != 0)
            return false;
    }
    return true;
}

void cluster_describe(struct cluster *cluster)
{
    for (int i = 0; i < cluster->len; i++) {
        struct redis *node = cluster->nodes[i];
        if (node->db == NULL)
            print_message("node %d, %s: killed\n", i, cluster_address(node));
        else
            print_message("node %d, %s, says:\n%s%s\n", i, cluster_address(node),
                          redis_str(node, "CLUSTER INFO"), redis_str(node, "CLUSTER NODES"));
    }
}

const char *cluster_name_at(struct cluster *cluster, struct redis *node, const char *prefix)
{
    for (int i = 0; i < 10000; i++) {
        const char *name = text(cluster->world, "%s-%d", prefix, i);
        if (cluster_owner(cluster, cluster_slot(cluster, name)) == node)
            return name;
    }
    FAIL("no name is at that node");
}

int cluster_keys(struct cluster *cluster)
{
    int count = 0;

    for (int i = 0; i < cluster->masters; i++)
        if (cluster->nodes[i]->db != NULL)
            count += (int)redis_int(cluster->nodes[i], "DBSIZE");
    return count;
}

void slot_open(struct cluster *cluster, int slot, struct redis *from, struct redis *to)
{
    (void)cluster;
    redis_ok(to, "CLUSTER SETSLOT %d IMPORTING %s", slot, redis_str(from, "CLUSTER MYID"));
    redis_ok(from, "CLUSTER SETSLOT %d MIGRATING %s", slot, redis_str(to, "CLUSTER MYID"));
}

void slot_migrate(struct cluster *cluster, int slot, struct redis *from, struct redis *to)
{
    (void)cluster;
    for (;;) {
        redisReply *keys = redis_do(from, "CLUSTER GETKEYSINSLOT %d 10", slot);
        if (keys->elements == 0)
            return;
        for (size_t i = 0; i < keys->elements; i++)
            redis_ok(from, "MIGRATE %s %d %s 0 %d", to->host, to->port, keys->element[i]->str,
                     MIGRATE_MS);
    }
}

void slot_close(struct cluster *cluster, int slot, struct redis *from, struct redis *to)
{
    const char *id = redis_str(to, "CLUSTER MYID");

    redis_ok(to, "CLUSTER SETSLOT %d NODE %s", slot, id);
    redis_ok(from, "CLUSTER SETSLOT %d NODE %s", slot, id);
    for (int i = 0; i < cluster->len; i++)
        if (cluster->nodes[i] != to && cluster->nodes[i] != from &&
            cluster->nodes[i]->db != NULL && cluster_is_master(cluster->nodes[i]))
            redis_ok(cluster->nodes[i], "CLUSTER SETSLOT %d NODE %s", slot, id);
}
