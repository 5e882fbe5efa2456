/* The race of topology_race.h over a Redis Cluster, while slots move, and while masters fail,
 * are replaced, added or restarted. */
#include <signal.h>

#include "cluster.h"
#include "topology_race.h"

enum { LOCKS = 9, MASTERS = 3, RESTART_MS = 15000, SLOTS_OF_A_RESHARD = 300 };

/* When a master was cut off, when the master refused changes, when its replica was a master,
 * when a front end used the new master, and when the old master was back as a replica. */
struct parting {
    int64_t cut_ms, refused_ms, promoted_ms, followed_ms, rejoined_ms;
};

/* What the faults are about. */
struct ground {
    struct cluster *cluster;
    struct redis *added;
    struct proxy *proxy;
    struct bus *bus;
    int slots[LOCKS], moved;
    struct parting parting;
    bool is_synced; /* replicas are waited for */
};

/* --- slots that move ---------------------------------------------------------------------- */

static int index_of(const struct cluster *cluster, const struct redis *node)
{
    int n = 0;

    while (cluster->nodes[n] != node)
        n++;
    return n;
}

/* The slot of a lock goes to the next master, key by key. */
static void move_a_slot(void *topology)
{
    struct ground *ground = topology;
    struct cluster *cluster = ground->cluster;
    int slot = ground->slots[ground->moved++ % LOCKS];
    struct redis *from = cluster_owner(cluster, slot);
    struct redis *to = cluster->nodes[(index_of(cluster, from) + 1) % cluster->masters];

    slot_open(cluster, slot, from, to);
    nap_ms(ground->moved * 7 % 50);
    slot_migrate(cluster, slot, from, to);
    slot_close(cluster, slot, from, to);
}

static void reshard_to(struct ground *ground, struct redis *to)
{
    struct cluster *cluster = ground->cluster;

    cluster_await(
        cluster); /* redis-cli begins only where all nodes have heard of the last move */
    cluster_manage(cluster,
                   (const char *const[]){
                       "reshard", cluster_address(cluster->nodes[0]), "--cluster-from", "all",
                       "--cluster-to", redis_str(to, "CLUSTER MYID"), "--cluster-slots",
                       text(cluster->world, "%d", SLOTS_OF_A_RESHARD), "--cluster-yes", NULL});
    ground->moved += SLOTS_OF_A_RESHARD;
}

static void reshard(void *topology)
{
    struct ground *ground = topology;

    reshard_to(ground, ground->cluster->nodes[ground->moved / SLOTS_OF_A_RESHARD % MASTERS]);
}

/* A node that is added gets slots of all masters, those of the locks among them. */
static void add_a_node(void *topology)
{
    struct ground *ground = topology;
    struct cluster *cluster = ground->cluster;
    struct redis *added = ground->added = cluster_add(cluster);

    reshard_to(ground, added);
    for (int i = 0; i < LOCKS; i++) {
        struct redis *from = cluster_owner(cluster, ground->slots[i]);
        if (from == added)
            continue;
        slot_open(cluster, ground->slots[i], from, added);
        slot_migrate(cluster, ground->slots[i], from, added);
        slot_close(cluster, ground->slots[i], from, added);
    }
}

/* --- masters that fail -------------------------------------------------------------------- */

static void promote(void *topology)
{
    struct ground *ground = topology;

    cluster_promote(ground->cluster->nodes[MASTERS]);
}

static void kill_master(void *topology)
{
    struct ground *ground = topology;

    child_signal(ground->cluster->nodes[0]->child, SIGKILL);
}

static void pause_master(void *topology)
{
    struct ground *ground = topology;

    redis_freeze(ground->cluster->nodes[0]);
    nap_ms(5000);
    redis_thaw(ground->cluster->nodes[0]);
}

/* Its replica gets nothing more, and follows it; the master comes back as a replica. */
static void isolate_and_kill(void *topology)
{
    struct ground *ground = topology;
    struct redis *master = ground->cluster->nodes[0];

    redis_ok(master, "ACL SETUSER default -psync -sync -replconf");
    redis_ok(master, "CLIENT KILL TYPE replica");
    nap_ms(2000);
    cluster_kill(master);
    wait_until(cluster_is_master(ground->cluster->nodes[MASTERS]), RESTART_MS);
    cluster_return(master);
}

/* A partition: neither rlockd nor its replica reaches the master, and the other nodes do, so
 * that nobody takes over. */
static void cut_off(void *topology)
{
    struct ground *ground = topology;

    proxy_set(ground->proxy, PROXY_RESET);
    nap_ms(4000);
    proxy_set(ground->proxy, PROXY_PASS);
}

static bool takes_changes(struct redis *master, const char *key)
{
    return redis_do(master, "SET %s 1 PX 60000", key)->type == REDIS_REPLY_STATUS;
}

/* A front end runs its scripts at this node; what a replica gets are no scripts. */
static bool runs_scripts(struct redis *node)
{
    return redis_calls(node, "evalsha") > 0;
}

/* A lock that was free at the cut: the old master grants it, and its successor once more. */
static void expect_second_grant(struct front *fe, const char *lock, const char *token,
                                json_int_t fence)
{
    struct world *w = fe->world;

    wait_until(lock_put(fe, lock, token_new(w), "ttl_ms=60000")->status == 201, RESTART_MS);
    assert_true(fence_of(fe, lock) > fence);
    expect_problem(lock_renew(fe, lock, token, "ttl_ms=60000"), 410, "lease-ended");
}

/* The bus and its replica lose the master; rlockd reaches it. */
static void part(void *topology)
{
    struct ground *ground = topology;
    struct cluster *cluster = ground->cluster;
    struct redis *master = cluster->nodes[0], *replica = cluster->nodes[MASTERS];
    struct parting *parting = &ground->parting;
    const char *key = cluster_name_at(cluster, master, "probe");
    const char *lock = cluster_name_at(cluster, master, "free");
    const char *token = token_new(cluster->world);
    struct front *fe = cluster->world->a;

    bus_part(ground->bus);
    parting->cut_ms = now_ms();
    struct reply *r = lock_put(fe, lock, token, "ttl_ms=60000");
    expect_status(r, ground->is_synced ? 503 : 201);
    wait_until(!takes_changes(master, key), RESTART_MS);
    parting->refused_ms = now_ms();
    wait_until(cluster_is_master(replica), RESTART_MS);
    parting->promoted_ms = now_ms();
    wait_until(runs_scripts(replica), RESTART_MS);
    parting->followed_ms = now_ms();
    if (!ground->is_synced)
        expect_second_grant(fe, lock, token, reply_int(r, "fencing_token"));
    bus_rejoin(ground->bus);
    wait_until(!cluster_is_master(master), RESTART_MS);
    parting->rejoined_ms = now_ms();
}

static void restart(struct cluster *cluster, struct redis *node)
{
    cluster_kill(node);
    cluster_return(node);
    cluster_await(cluster);
}

/* Each replica goes and comes back, then each master after its replica has taken over. */
static void restart_all(void *topology)
{
    struct ground *ground = topology;
    struct cluster *cluster = ground->cluster;

    for (int i = MASTERS; i < 2 * MASTERS; i++) {
        struct redis *master = cluster->nodes[i - MASTERS], *replica = cluster->nodes[i];
        restart(cluster, replica);
        wait_until(strstr(redis_str(replica, "INFO replication"), "master_link_status:up") !=
                       NULL,
                   RESTART_MS);
        cluster_promote(replica);
        wait_until(!cluster_is_master(master), RESTART_MS);
        restart(cluster, master);
    }
}

/* --- races -------------------------------------------------------------------------------- */

static struct ground *ground_start(struct world *w, bool with_replicas)
{
    struct ground *ground = calloc(1, sizeof(*ground));

    assert_non_null(ground);
    world_defer(w, free, ground);
    ground->cluster = cluster_start(w, MASTERS, with_replicas);
    for (int i = 0; i < LOCKS; i++)
        ground->slots[i] = cluster_slot(ground->cluster, text(w, "race-%d", i));
    return ground;
}

static struct topology_race *race(struct world *w, struct ground *ground,
                                  const struct topology_fault *fault)
{
    return topology_race(w, ground->cluster->url, LOCKS, fault, ground);
}

static void test_slots_move(struct world *w)
{
    struct ground *ground = ground_start(w, false);

    race(w, ground, &(struct topology_fault){.strike = move_a_slot, .again = true});
    print_message("%d slots moved\n", ground->moved);
    assert_true(ground->moved > LOCKS);
}

static void test_slots_are_resharded(struct world *w)
{
    struct ground *ground = ground_start(w, false);

    race(w, ground, &(struct topology_fault){.strike = reshard, .again = true, .seconds = 20});
    print_message("%d slots moved\n", ground->moved);
    assert_true(ground->moved >= 2 * SLOTS_OF_A_RESHARD);
}

static void test_node_is_added(struct world *w)
{
    struct ground *ground = ground_start(w, false);

    race(w, ground, &(struct topology_fault){.strike = add_a_node, .seconds = 20});
    for (int i = 0; i < LOCKS; i++)
        assert_ptr_equal(cluster_owner(ground->cluster, ground->slots[i]), ground->added);
}

/* A promotion by hand waits until the replica has heard of everything. */
static void test_replica_promoted_by_hand(struct world *w)
{
    struct ground *ground = ground_start(w, true);

    race(w, ground, &(struct topology_fault){.strike = promote});
    assert_true(cluster_is_master(ground->cluster->nodes[MASTERS]));
}

static void test_master_killed(struct world *w)
{
    struct ground *ground = ground_start(w, true);

    race(w, ground, &(struct topology_fault){.strike = kill_master, .loses = true});
    assert_true(cluster_is_master(ground->cluster->nodes[MASTERS]));
}

static void test_master_paused(struct world *w)
{
    struct ground *ground = ground_start(w, true);

    race(w, ground,
         &(struct topology_fault){.strike = pause_master, .loses = true, .is_late = true});
    assert_true(cluster_is_master(ground->cluster->nodes[MASTERS]));
}

static void isolate(struct world *w, const char *sync)
{
    struct ground *ground = ground_start(w, true);

    race(w, ground,
         &(struct topology_fault){.strike = isolate_and_kill,
                                  .loses = true,
                                  .is_long = true,
                                  .sync = sync,
                                  .seconds = 14});
    assert_true(cluster_is_master(ground->cluster->nodes[MASTERS]));
}

static void test_master_isolated(struct world *w)
{
    isolate(w, NULL);
}

static void test_master_isolated_with_sync(struct world *w)
{
    isolate(w, "1");
}

static void test_master_cut_off(struct world *w)
{
    struct ground *ground = ground_start(w, true);
    struct redis *master = ground->cluster->nodes[0];

    ground->proxy = cluster_behind_proxy(ground->cluster, master);
    race(w, ground,
         &(struct topology_fault){.strike = cut_off, .is_late = true, .seconds = 14});
    assert_true(cluster_is_master(master));
}

/* The last lease of the old master outlasts the refusal of changes by its length: until then
 * clients may overlap. Where replicas are waited for, no client was told of a grant that the
 * replica did not get. */
static void part_and_race(struct world *w, const char *sync)
{
    struct ground *ground = ground_start(w, true);
    const struct parting *parting = &ground->parting;

    skip_without_source_address(ground->cluster->nodes[0]);
    ground->is_synced = sync != NULL;
    ground->bus = cluster_bus(ground->cluster, ground->cluster->nodes[0]);
    const struct topology_race *over = race(
        w, ground,
        &(struct topology_fault){
            .strike = part, .loses = true, .is_long = true, .sync = sync, .seconds = 18});
    print_message(
        "ms after the cut: %lld the master refuses, %lld its replica is a master, %lld "
        "rlockd uses the new master, %lld the old one is a replica; overlaps from %lld "
        "to %lld\n",
        (long long)(parting->refused_ms - parting->cut_ms),
        (long long)(parting->promoted_ms - parting->cut_ms),
        (long long)(parting->followed_ms - parting->cut_ms),
        (long long)(parting->rejoined_ms - parting->cut_ms),
        (long long)(over->overlaps > 0 ? over->first_overlap_ms - parting->cut_ms : 0),
        (long long)(over->overlaps > 0 ? over->last_overlap_ms - parting->cut_ms : 0));
    assert_true(over->last_overlap_ms <= parting->refused_ms + over->ttl_ms);
    assert_true(cluster_is_master(ground->cluster->nodes[MASTERS]));
}

static void test_master_parted(struct world *w)
{
    part_and_race(w, NULL);
}

static void test_master_parted_with_sync(struct world *w)
{
    part_and_race(w, "1");
}

static void test_all_restarted(struct world *w)
{
    struct ground *ground = ground_start(w, true);

    race(w, ground, &(struct topology_fault){.strike = restart_all, .seconds = 40});
    for (int i = 0; i < MASTERS; i++)
        assert_true(cluster_is_master(ground->cluster->nodes[MASTERS + i]));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_slots_move),
        E2E_TEST(test_slots_are_resharded),
        E2E_TEST(test_node_is_added),
        E2E_TEST(test_replica_promoted_by_hand),
        E2E_TEST(test_master_killed),
        E2E_TEST(test_master_paused),
        E2E_TEST(test_master_isolated),
        E2E_TEST(test_master_isolated_with_sync),
        E2E_TEST(test_master_cut_off),
        E2E_TEST(test_master_parted),
        E2E_TEST(test_master_parted_with_sync),
        E2E_TEST(test_all_restarted),
    };
    struct e2e_plan plan = {
        .name = "topology_cluster_racer", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
