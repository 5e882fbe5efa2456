/* A Redis Cluster of several real processes. */
#include "cluster.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness_world.h"

enum { NODE_START_MS = 15000, SLOTS = 16384, PORT = 7500, MIGRATE_MS = 5000 };

static int port_of(const struct redis *node)
{
    return PORT + node->number;
}

static const char *address_of(struct world *w)
{
    unsigned pid = (unsigned)getpid() & 0x3fffff;

    return text(w, "127.%u.%u.%u", 64 + (pid >> 16), pid >> 8 & 0xff, pid & 0xff);
}

static void node_launch(struct redis *node)
{
    struct world *w = node->world;
    const char *const argv[] = {
        "redis-server", "--bind", address_of(w), "--port", text(w, "%d", port_of(node)),
        /* The other nodes see connections that come from 127.0.0.1. */
        "--cluster-announce-ip", address_of(w), "--cluster-enabled", "yes",
        "--cluster-config-file", "nodes.conf", "--cluster-node-timeout",
        text(w, "%d", CLUSTER_NODE_TIMEOUT_MS), "--cluster-require-full-coverage", "no",
        "--repl-diskless-sync-delay", "0", "--unixsocket", node->socket, "--dir", node->dir,
        "--logfile", text(w, "%s/redis.log", node->dir), "--save", "", "--appendonly", "yes",
        "--appendfsync", "no", NULL};

    node->child = child_start(w, "redis", argv, NULL);
}

static bool node_try(struct redis *node)
{
    if (node->db != NULL)
        redisFree(node->db);
    node->db = redisConnectUnix(node->socket);
    return node->db != NULL && node->db->err == 0;
}

static void node_undo(void *thing)
{
    struct redis *node = thing;

    if (node->db != NULL)
        redisFree(node->db);
    free(node);
}

static struct redis *node_start(struct world *w)
{
    struct redis *node = calloc(1, sizeof(*node));

    if (node == NULL)
        abort();
    node->world = w;
    node->number = w->inside->children_len;
    snprintf(node->dir, sizeof(node->dir), "%s/r%d", w->dir, node->number);
    snprintf(node->socket, sizeof(node->socket), "%s/s", node->dir);
    if (mkdir(node->dir, 0700) != 0)
        FAIL("cannot make %s", node->dir);
    node_launch(node);
    world_defer(w, node_undo, node);
    wait_until(node_try(node), NODE_START_MS);
    return node;
}

void cluster_kill(struct redis *node)
{
    child_signal(node->child, SIGKILL);
    if (child_wait(node->child, NODE_START_MS) < 0)
        FAIL("redis-server survives SIGKILL");
    redisFree(node->db);
    node->db = NULL;
}

void cluster_return(struct redis *node)
{
    node_launch(node);
    wait_until(node_try(node), NODE_START_MS);
}

static void take_slots(struct redis *node, int first, int end)
{
    redis_ok(node, "CLUSTER ADDSLOTSRANGE %d %d", first, end - 1);
}

static void meet(struct cluster *cluster, struct redis *node)
{
    redis_ok(cluster->nodes[0], "CLUSTER MEET %s %d", address_of(cluster->world),
             port_of(node));
}

static bool knows(struct redis *node, int count)
{
    const char *info = redis_str(node, "CLUSTER INFO");

    return strstr(info, text(node->world, "cluster_known_nodes:%d\r", count)) != NULL &&
           strstr(info, "cluster_state:ok") != NULL &&
           strstr(info, "cluster_slots_ok:16384") != NULL;
}

static bool all_know(struct cluster *cluster)
{
    for (int i = 0; i < cluster->len; i++)
        if (cluster->nodes[i]->db != NULL && !knows(cluster->nodes[i], cluster->len))
            return false;
    return true;
}

static void become_replica(struct redis *node, struct redis *master)
{
    redis_ok(node, "CLUSTER REPLICATE %s", redis_str(master, "CLUSTER MYID"));
    wait_until(strstr(redis_str(node, "INFO replication"), "master_link_status:up") != NULL,
               NODE_START_MS);
}

struct cluster *cluster_start(struct world *w, int masters, bool with_replicas)
{
    struct cluster *cluster = world_alloc(w, sizeof(*cluster));

    cluster->world = w;
    cluster->masters = masters;
    cluster->len = with_replicas ? 2 * masters : masters;
    for (int i = 0; i < cluster->len; i++) {
        cluster->nodes[i] = node_start(w);
        redis_ok(cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        if (i < masters)
            take_slots(cluster->nodes[i], SLOTS * i / masters, SLOTS * (i + 1) / masters);
    }
    for (int i = 1; i < cluster->len; i++)
        meet(cluster, cluster->nodes[i]);
    wait_until(all_know(cluster), NODE_START_MS);
    for (int i = masters; i < cluster->len; i++)
        become_replica(cluster->nodes[i], cluster->nodes[i - masters]);
    cluster->url = text(w, "redis-cluster://%s:%d,%s:%d", address_of(w),
                        port_of(cluster->nodes[0]), address_of(w),
                        port_of(cluster->nodes[cluster->len - 1]));
    return cluster;
}

struct redis *cluster_add(struct cluster *cluster)
{
    struct redis *node = node_start(cluster->world);

    if (cluster->len == CLUSTER_NODES_MAX)
        FAIL("too many nodes");
    redis_ok(node, "CLUSTER SET-CONFIG-EPOCH %d", 100 + cluster->len);
    cluster->nodes[cluster->len++] = node;
    meet(cluster, node);
    wait_until(all_know(cluster), NODE_START_MS);
    return node;
}

/* --- slots -------------------------------------------------------------------------------- */

static struct redis *living_node(struct cluster *cluster)
{
    for (int i = 0; i < cluster->len; i++)
        if (cluster->nodes[i]->db != NULL)
            return cluster->nodes[i];
    FAIL("no node lives");
}

int cluster_slot(struct cluster *cluster, const char *key)
{
    return (int)redis_int(living_node(cluster), "CLUSTER KEYSLOT %s", key);
}

struct redis *cluster_owner(struct cluster *cluster, int slot)
{
    redisReply *ranges = redis_do(living_node(cluster), "CLUSTER SLOTS");

    for (size_t i = 0; i < ranges->elements; i++) {
        redisReply **range = ranges->element[i]->element;
        if (slot < range[0]->integer || slot > range[1]->integer)
            continue;
        for (int n = 0; n < cluster->len; n++)
            if (port_of(cluster->nodes[n]) == range[2]->element[1]->integer)
                return cluster->nodes[n];
    }
    return NULL;
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
    for (;;) {
        redisReply *keys = redis_do(from, "CLUSTER GETKEYSINSLOT %d 10", slot);
        if (keys->elements == 0)
            return;
        for (size_t i = 0; i < keys->elements; i++)
            redis_ok(from, "MIGRATE %s %d %s 0 %d", address_of(cluster->world), port_of(to),
                     keys->element[i]->str, MIGRATE_MS);
    }
}

void slot_close(struct cluster *cluster, int slot, struct redis *from, struct redis *to)
{
    const char *id = redis_str(to, "CLUSTER MYID");

    redis_ok(to, "CLUSTER SETSLOT %d NODE %s", slot, id);
    redis_ok(from, "CLUSTER SETSLOT %d NODE %s", slot, id);
    for (int i = 0; i < cluster->masters; i++)
        if (cluster->nodes[i] != to && cluster->nodes[i] != from &&
            cluster->nodes[i]->db != NULL)
            redis_do(cluster->nodes[i], "CLUSTER SETSLOT %d NODE %s", slot, id);
}
