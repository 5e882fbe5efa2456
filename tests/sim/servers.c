/* The table of servers, and their addresses. */
#include "tests/sim/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

#define EPOCH_US 1763800000000000LL

/* Of a server with number 0. */
enum { PORT_FIRST = 7000 };

static struct server servers[SERVERS_MAX];
static int server_count;
static char url[128];

bool topology_read(const char *word, enum topology *topology)
{
    static const char *const words[TOPOLOGIES] = {"single", "sentinel", "cluster", "quorum"};

    for (int i = 0; i < TOPOLOGIES; i++) {
        if (strcmp(word, words[i]) != 0)
            continue;
        *topology = (enum topology)i;
        return true;
    }
    return false;
}

int64_t servers_clock_us(void)
{
    return EPOCH_US + now_ns() / 1000 + world.redis_jump_us;
}

int64_t server_clock_us(const struct server *server)
{
    return servers_clock_us() + server->skew_us +
           now_ns() / CLOCK_NS_PER_US * server->clock_ppm / 1000000;
}

static int64_t redis_clock_us(void *arg)
{
    return server_clock_us(arg);
}

int server_port(const struct server *server)
{
    return PORT_FIRST + server->number;
}

static struct server *add_server(uint64_t seed)
{
    struct server *server = &servers[server_count];
    char name[24] = "redis";

    if (server_count > 0)
        snprintf(name, sizeof(name), "redis %d", server_count);
    *server = (struct server){.number = server_count++};
    redis_init(&server->redis, &world.counts, chance_make(seed, name), redis_clock_us, server);
    server->redis.owner = server;
    return server;
}

static void add_sentinels(uint64_t seed)
{
    int len = snprintf(url, sizeof(url), "redis-sentinel://");

    for (int i = 0; i < SENTINELS; i++) {
        struct server *server = add_server(seed);
        server->is_sentinel = true;
        server->named = world.master;
        server->redis.peers = sentinel_peers;
        len += snprintf(url + len, sizeof(url) - (size_t)len, "%s127.0.0.1:%d",
                        i > 0 ? "," : "", PORT_FIRST + server->number);
    }
    snprintf(url + len, sizeof(url) - (size_t)len, "/mymaster");
    sentinels_init(seed);
}

/* `scheme`: of a URL that names them all. */
static void add_masters(const char *scheme, int count, uint64_t seed)
{
    int len = snprintf(url, sizeof(url), "%s127.0.0.1:%d", scheme, PORT_FIRST);

    while (server_count < count) {
        struct server *server = add_server(seed);
        len += snprintf(url + len, sizeof(url) - (size_t)len, ",127.0.0.1:%d",
                        server_port(server));
    }
}

static void add_cluster(int count, uint64_t seed)
{
    add_masters("redis-cluster://", count, seed);
    for (int i = 0; i < count; i++) {
        servers[i].redis.is_cluster = true;
        servers[i].redis.peers = cluster_peers;
    }
    cluster_init(count, seed);
}

static void add_replicas(int count, uint64_t seed)
{
    replication_init(seed);
    world.master->redis.peers = replication_peers;
    for (int i = 0; i < count; i++) {
        struct server *replica = add_server(seed);
        replica->redis.peers = replication_peers;
        replication_follow(replica, world.master);
    }
}

void servers_init(enum topology topology, int count, uint64_t seed)
{
    world.master = add_server(seed);
    snprintf(url, sizeof(url), "unix:///simulated");
    switch (topology) {
    case TOPOLOGY_SENTINEL:
        add_replicas(count, seed);
        add_sentinels(seed);
        break;
    case TOPOLOGY_CLUSTER:
        add_cluster(count, seed);
        break;
    case TOPOLOGY_QUORUM:
        add_masters("redis-quorum://", count, seed);
        quorum_init(count, seed);
        break;
    case TOPOLOGY_SINGLE:
    case TOPOLOGIES:
        break;
    }
}

/* --- which of them -------------------------------------------------------------------------
 */

const char *servers_url(void)
{
    return url;
}

struct server *server_at(int port)
{
    int number = port == 0 ? 0 : port - PORT_FIRST;

    if (number < 0 || number >= server_count)
        abort();
    return &servers[number];
}

struct server *server_next(struct server *server)
{
    struct server *next = server == NULL ? servers : server + 1;

    return next < servers + server_count ? next : NULL;
}

struct server *server_at_index(int index)
{
    return &servers[index];
}

struct server *server_next_master(struct server *server)
{
    if (world.topology == TOPOLOGY_CLUSTER || world.topology == TOPOLOGY_QUORUM)
        return server_next(server);
    return server == NULL ? world.master : NULL;
}

struct server *servers_owner(struct bytes key)
{
    return world.topology == TOPOLOGY_CLUSTER ? cluster_owner(key) : world.master;
}

struct server *servers_pick_master(struct chance *chance)
{
    if (world.topology == TOPOLOGY_QUORUM)
        return quorum_pick(chance);
    if (world.topology != TOPOLOGY_CLUSTER)
        return world.master;
    return &servers[chance_below(chance, (uint64_t)server_count)];
}
