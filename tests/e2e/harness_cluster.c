/* A Redis Cluster of several real processes. */
#include "cluster.h"

#include <signal.h>
#include <sys/stat.h>

#include "harness_world.h"

enum {
    NODE_START_MS = 15000,
    NODE_FLAGS_MAX = 64,
    MANAGE_MS = 60000,
    ANSWER_MS = 5000, /* through a failover */
    ASK_AGAIN_MS = 5,
    PROMOTE_MS = 20000,
    PROMOTE_AGAIN_MS = 6000,
    BUS_PORT = 10000 /* above the other one */
};

static void node_launch(struct redis *node)
{
    struct world *w = node->world;
    const char *argv[NODE_FLAGS_MAX] = {"redis-server"};
    size_t len = redis_data_flags(node, argv, 1);
    const char *const flags[] = {
        /* The other nodes see connections that come from 127.0.0.1. */
        "--cluster-announce-ip",           node->host,
        "--cluster-node-timeout",          text(w, "%d", CLUSTER_NODE_TIMEOUT_MS),
        "--cluster-require-full-coverage", "no",
        "--repl-diskless-sync-delay",      "0"};

    len = redis_cluster_flags(argv, redis_tcp_flags(node, argv, len));
    for (size_t i = 0; i < COUNT_OF(flags); i++)
        argv[len++] = flags[i];
    node->child = child_start(w, "redis", argv, NULL);
}

/* Whether it answers, and has read its data. */
static bool node_try(struct redis *node)
{
    if (node->db != NULL)
        redisFree(node->db);
    node->db = redisConnectUnix(node->socket);
    redisReply *reply = node->db != NULL ? redisCommand(node->db, "PING") : NULL;
    bool ok = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return ok;
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

/* Masters refuse their votes within twice the node timeout of the last failover, and while the
 * replica's slots are out of date; Redis gives up after 5 s. */
void cluster_promote(struct redis *replica)
{
    int64_t give_up_ms = now_ms() + patience_ms(PROMOTE_MS), again_ms = 0;

    for (; !cluster_is_master(replica); nap_ms(5)) {
        if (now_ms() >= give_up_ms)
            FAIL("a replica is not promoted");
        if (now_ms() >= again_ms) {
            redis_do(replica, "CLUSTER FAILOVER");
            again_ms = now_ms() + PROMOTE_AGAIN_MS;
        }
    }
}

static void meet(struct cluster *cluster, struct redis *node)
{
    redis_ok(cluster->nodes[0], "CLUSTER MEET %s %d", node->host, node->port);
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
    return cluster_agrees(cluster);
}

void cluster_await(struct cluster *cluster)
{
    int64_t give_up_ms = now_ms() + patience_ms(NODE_START_MS);

    while (!all_know(cluster)) {
        if (now_ms() > give_up_ms) {
            cluster_describe(cluster);
            FAIL("the nodes do not agree that the cluster is well");
        }
        nap_ms(5);
    }
}

static void become_replica(struct redis *node, struct redis *master)
{
    redis_ok(node, "CLUSTER REPLICATE %s", redis_str(master, "CLUSTER MYID"));
    wait_until(strstr(redis_str(node, "INFO replication"), "master_link_status:up") != NULL,
               NODE_START_MS);
}

static void note_id(struct cluster *cluster, int i)
{
    snprintf(cluster->ids[i], sizeof(cluster->ids[i]), "%s",
             redis_str(cluster->nodes[i], "CLUSTER MYID"));
}

struct cluster *cluster_start(struct world *w, int masters, bool with_replicas)
{
    struct cluster *cluster = world_alloc(w, sizeof(*cluster));

    cluster->world = w;
    cluster->masters = masters;
    cluster->len = with_replicas ? 2 * masters : masters;
    for (int i = 0; i < cluster->len; i++) {
        cluster->nodes[i] = node_start(w);
        note_id(cluster, i);
        redis_ok(cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        if (i < masters)
            redis_take_slots(cluster->nodes[i], CLUSTER_SLOTS * i / masters,
                             CLUSTER_SLOTS * (i + 1) / masters);
    }
    for (int i = 1; i < cluster->len; i++)
        meet(cluster, cluster->nodes[i]);
    wait_until(all_know(cluster), NODE_START_MS);
    for (int i = masters; i < cluster->len; i++)
        become_replica(cluster->nodes[i], cluster->nodes[i - masters]);
    cluster->url = text(w, "redis%s-cluster://%s:%d,%s:%d", redis_is_tls() ? "s" : "",
                        cluster->nodes[0]->host, cluster->nodes[0]->port,
                        cluster->nodes[cluster->len - 1]->host,
                        cluster->nodes[cluster->len - 1]->port);
    return cluster;
}

const char *cluster_address(struct redis *node)
{
    return text(node->world, "%s:%d", node->host, node->port);
}

void cluster_manage(struct cluster *cluster, const char *const *words)
{
    const char *argv[24] = {"redis-cli", "--cluster"};
    size_t len = 2;

    while (*words != NULL && len + 4 < COUNT_OF(argv))
        argv[len++] = *words++;
    if (redis_is_tls()) {
        argv[len++] = "--tls";
        argv[len++] = "--cacert";
        argv[len++] = text(cluster->world, "%s/redis-ca.pem", cluster->world->dir);
    }
    struct child *child = child_start(cluster->world, "redis-cli", argv, NULL);
    int status = child_wait(child, MANAGE_MS);
    if (status != 0)
        FAIL("redis-cli --cluster %s ends with %d: %s", argv[2], status, child_stdout(child));
}

static struct redis *cluster_replica_at(struct cluster *cluster, int master_port)
{
    const char *port = text(cluster->world, "master_port:%d\r", master_port);

    for (int i = 0; i < cluster->len; i++) {
        struct redis *node = cluster->nodes[i];
        if (node->db != NULL && strstr(redis_str(node, "INFO replication"), port) != NULL)
            return node;
    }
    return NULL;
}

struct redis *cluster_add(struct cluster *cluster)
{
    struct redis *node = node_start(cluster->world);

    if (cluster->len == CLUSTER_NODES_MAX)
        FAIL("too many nodes");
    redis_ok(node, "CLUSTER SET-CONFIG-EPOCH %d", 100 + cluster->len);
    cluster->nodes[cluster->len] = node;
    note_id(cluster, cluster->len++);
    meet(cluster, node);
    wait_until(all_know(cluster), NODE_START_MS);
    return node;
}

static bool all_name(struct cluster *cluster, const char *port)
{
    for (int i = 0; i < cluster->len; i++)
        if (strstr(redis_str(cluster->nodes[i], "CLUSTER NODES"), port) == NULL)
            return false;
    return true;
}

struct proxy *cluster_behind_proxy(struct cluster *cluster, struct redis *node)
{
    struct proxy *proxy = proxy_start_at(node, node->host);
    int port = proxy_port(proxy);

    redis_ok(node, "CONFIG SET cluster-announce-%sport %d cluster-announce-bus-port %d",
             redis_is_tls() ? "tls-" : "", port, node->port + BUS_PORT);
    wait_until(all_name(cluster, text(cluster->world, ":%d@", port)), NODE_START_MS);
    struct redis *replica = cluster_replica_at(cluster, port);
    wait_until(replica == NULL || strstr(redis_str(replica, "INFO replication"),
                                         "master_link_status:up") != NULL,
               NODE_START_MS);
    return proxy;
}

/* --- a bus that can be cut ---------------------------------------------------------------- */

struct bus {
    struct redis *node;
    struct proxy *before_node, *others[CLUSTER_NODES_MAX];
    int others_len;
};

static bool all_name_each(struct cluster *cluster, const int *ports)
{
    for (int i = 0; i < cluster->len; i++)
        if (!all_name(cluster, text(cluster->world, "@%d", ports[i])))
            return false;
    return true;
}

/* The node connects to the other nodes from PARTED_ADDRESS, by which their proxies know it. */
struct bus *cluster_bus(struct cluster *cluster, struct redis *node)
{
    struct bus *bus = world_alloc(cluster->world, sizeof(*bus));
    int ports[CLUSTER_NODES_MAX];

    bus->node = node;
    redis_ok(node, "CONFIG SET bind-source-addr " PARTED_ADDRESS);
    for (int i = 0; i < cluster->len; i++) {
        struct redis *other = cluster->nodes[i];
        struct proxy *proxy = proxy_start_before(other, other->host, other->port + BUS_PORT);

        ports[i] = proxy_port(proxy);
        if (other == node)
            bus->before_node = proxy;
        else
            bus->others[bus->others_len++] = proxy;
        redis_ok(other, "CONFIG SET cluster-announce-bus-port %d", ports[i]);
    }
    wait_until(all_name_each(cluster, ports), NODE_START_MS);
    cluster_await(cluster);
    return bus;
}

void bus_part(struct bus *bus)
{
    redis_ok(bus->node, "ACL SETUSER default -psync -sync -replconf");
    redis_ok(bus->node, "CLIENT KILL TYPE replica");
    for (int i = 0; i < bus->others_len; i++)
        proxy_set(bus->others[i], PROXY_PART);
    proxy_set(bus->before_node, PROXY_RESET);
}

void bus_rejoin(struct bus *bus)
{
    proxy_set(bus->before_node, PROXY_PASS);
    for (int i = 0; i < bus->others_len; i++)
        proxy_set(bus->others[i], PROXY_PASS);
    redis_ok(bus->node, "ACL SETUSER default +@all");
    redis_ok(bus->node, "CONFIG SET bind-source-addr %s", "");
}

/* --- as one Redis ------------------------------------------------------------------------- */

static void redis_undo(void *thing)
{
    struct redis *redis = thing;

    if (redis->db != NULL)
        redisFree(redis->db);
    free(redis);
}

struct redis *cluster_as_redis(struct world *w, bool with_replicas)
{
    struct redis *redis = calloc(1, sizeof(*redis));

    if (redis == NULL)
        abort();
    redis->world = w;
    world_defer(w, redis_undo, redis);
    redis->cluster = cluster_start(w, 3, with_replicas);
    redis->number = redis->cluster->nodes[0]->number;
    redis->child = redis->cluster->nodes[0]->child;
    snprintf(redis->dir, sizeof(redis->dir), "%s", redis->cluster->nodes[0]->dir);
    snprintf(redis->socket, sizeof(redis->socket), "%s", redis->cluster->nodes[0]->socket);
    snprintf(redis->url, sizeof(redis->url), "%s", redis->cluster->url);
    redis->db = redisConnectUnix(redis->socket);
    return redis;
}

/* What has no key is asked of every node; numbers are added up. */
static bool has_no_key(const char *format)
{
    static const char *const words[] = {"CONFIG", "SCRIPT", "CLIENT", "FLUSH", "ACL",
                                        "DEBUG",  "DBSIZE", "PUBSUB", "INFO"};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strncmp(format, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static redisReply *send_formatted(struct redis *node, const char *command, int len)
{
    redisReply *reply = NULL;

    if (redisAppendFormattedCommand(node->db, command, (size_t)len) != REDIS_OK ||
        redisGetReply(node->db, (void **)&reply) != REDIS_OK)
        FAIL("lost a node: %s", node->db->errstr);
    return reply;
}

/* The numbers of an answer, such as the subscribers of channels. */
static void add_up(redisReply *sum, const redisReply *reply)
{
    if (sum->type != reply->type)
        return;
    if (sum->type == REDIS_REPLY_INTEGER)
        sum->integer += reply->integer;
    for (size_t i = 0; i < sum->elements && i < reply->elements; i++)
        add_up(sum->element[i], reply->element[i]);
}

static redisReply *ask_all(struct cluster *cluster, const char *command, int len)
{
    redisReply *sum = NULL;

    for (int i = 0; i < cluster->len; i++) {
        if (cluster->nodes[i]->db == NULL)
            continue;
        redisReply *reply = send_formatted(cluster->nodes[i], command, len);
        if (sum == NULL) {
            sum = reply;
            continue;
        }
        add_up(sum, reply);
        freeReplyObject(reply);
    }
    return sum;
}

/* The node to ask next; NULL: the reply is an answer, or an error that is not about the slot.
 * In the midst of a failover a node may name no master of the slot any more: then any node is
 * asked again. */
static struct redis *node_to_ask(struct cluster *cluster, const redisReply *reply)
{
    static const char *const words[] = {"MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "LOADING"};
    struct redis *owner = NULL;

    if (reply->type != REDIS_REPLY_ERROR)
        return NULL;
    if (strncmp(reply->str, "MOVED ", 6) == 0)
        owner = cluster_owner(cluster, atoi(reply->str + 6));
    if (owner != NULL && owner->db != NULL)
        return owner;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strncmp(reply->str, words[i], strlen(words[i])) == 0)
            return cluster_living(cluster);
    return NULL;
}

/* Follows the slot of the command's key, also through a failover. */
static redisReply *ask_owner(struct cluster *cluster, const char *command, int len)
{
    redisReply *reply = send_formatted(cluster_living(cluster), command, len);
    int64_t give_up_ms = now_ms() + patience_ms(ANSWER_MS);
    struct redis *node;

    while ((node = node_to_ask(cluster, reply)) != NULL && now_ms() < give_up_ms) {
        nap_ms(ASK_AGAIN_MS);
        freeReplyObject(reply);
        reply = send_formatted(node, command, len);
    }
    if (node != NULL) {
        cluster_describe(cluster);
        FAIL("no node takes the command: %s", reply->str);
    }
    return reply;
}

redisReply *cluster_ask(struct cluster *cluster, const char *format, va_list args)
{
    char *command;
    int len = redisvFormatCommand(&command, format, args);
    redisReply *reply;

    if (len < 0)
        FAIL("not a command: %s", format);
    reply = has_no_key(format) ? ask_all(cluster, command, len)
                               : ask_owner(cluster, command, len);
    redisFreeCommand(command);
    return reply;
}
