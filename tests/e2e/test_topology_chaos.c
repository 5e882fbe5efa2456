/* The chaos of test_session_chaos.c over a Redis Cluster: masters die and come back as
 * replicas, replicas are promoted by hand, slots move, and front ends are killed.
 * CHAOS_SECONDS=600 is the long form. */
#include <signal.h>

#include "cluster.h"
#include "session_chaos.h"

enum { MASTERS = 3, RECOVER_MS = 20000, CALM_MS = 1000 };

static bool follows(struct redis *node)
{
    return strstr(redis_str(node, "INFO replication"), "master_link_status:up") != NULL;
}

/* Node i and node i + MASTERS are a master and its replica, in either order. */
static struct redis *pick(struct chaos *chaos, bool master)
{
    const struct cluster *cluster = chaos->topology;
    int i = rand_r(&chaos->seed) % MASTERS;
    struct redis *node = cluster->nodes[i], *twin = cluster->nodes[i + MASTERS];

    return cluster_is_master(node) == master ? node : twin;
}

static void await_all(struct cluster *cluster)
{
    cluster_await(cluster);
    for (int i = 0; i < MASTERS; i++)
        wait_until(follows(cluster->nodes[i]) || follows(cluster->nodes[i + MASTERS]),
                   RECOVER_MS);
}

static struct redis *twin_of(const struct cluster *cluster, const struct redis *node)
{
    for (int i = 0; i < MASTERS; i++)
        if (cluster->nodes[i] == node)
            return cluster->nodes[i + MASTERS];
        else if (cluster->nodes[i + MASTERS] == node)
            return cluster->nodes[i];
    FAIL("no node of the cluster");
}

static void kill_a_master(struct chaos *chaos)
{
    struct cluster *cluster = chaos->topology;
    struct redis *master = pick(chaos, true);

    chaos_loss_begins(chaos);
    cluster_kill(master);
    wait_until(cluster_is_master(twin_of(cluster, master)), RECOVER_MS);
    cluster_return(master);
    await_all(cluster);
    for (int i = 0; i < CHAOS_FRONTS; i++)
        wait_until(front_ready(chaos->fronts[i]), RECOVER_MS);
    chaos_loss_ends(chaos);
}

static void promote_a_replica(struct chaos *chaos)
{
    struct redis *replica = pick(chaos, false);

    cluster_promote(replica);
    await_all(chaos->topology);
}

static void kill_a_replica(struct chaos *chaos)
{
    struct redis *replica = pick(chaos, false);

    cluster_kill(replica);
    cluster_return(replica);
    await_all(chaos->topology);
}

/* The slot of a lock that everybody wants. */
static void move_a_slot(struct chaos *chaos)
{
    struct cluster *cluster = chaos->topology;
    int lock = rand_r(&chaos->seed) % CHAOS_SHARED_LOCKS;
    int slot = cluster_slot(cluster, text(chaos->world, "shared-%d", lock));
    struct redis *from = cluster_owner(cluster, slot), *to = pick(chaos, true);

    if (from == to)
        return;
    slot_open(cluster, slot, from, to);
    slot_migrate(cluster, slot, from, to);
    slot_close(cluster, slot, from, to);
    await_all(cluster);
}

static void strike(struct chaos *chaos)
{
    static void (*const strikes[])(struct chaos * chaos) = {
        chaos_kill_fronts, move_a_slot,    chaos_kill_fronts, promote_a_replica,
        move_a_slot,       kill_a_replica, kill_a_master};

    strikes[chaos->strikes % (long)COUNT_OF(strikes)](chaos);
    chaos_nap(chaos, CALM_MS);
}

static void forget_redis(void *thing)
{
    struct world *w = thing;

    w->redis = NULL;
}

static void test_chaos_over_a_cluster(struct world *w)
{
    static const struct chaos_plan plan = {.clients = 30,
                                           .seconds = 40,
                                           .timeout_ms = 9000,
                                           .session_ms = 8000,
                                           .patience_ms = 20000,
                                           .slack_ms = 10000,
                                           .hold_ms = 500,
                                           .death_odds = 100,
                                           .recent_ms = 1000,
                                           .strike = strike};
    struct redis *redis = cluster_as_redis(w, true);

    w->redis = redis; /* front ends that come back go there */
    world_defer(w, forget_redis, w);
    chaos_run(w, &plan, redis, redis->cluster);
}

int main(void)
{
    static const struct e2e_test tests[] = {E2E_TEST(test_chaos_over_a_cluster)};
    struct e2e_plan plan = {.name = "topology_chaos", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
