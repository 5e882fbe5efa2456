/* A Redis Cluster of three masters: what is noticed when one of them lost data, what is held
 * back then, and what its replicas have to confirm. */
#include <signal.h>

#include "cluster.h"
#include "harness_session.h"

enum {
    MASTERS = 3,
    RECOVER_MS = 20000,
    QUARANTINE_MS = 4000,
    SOON_MS = 10000,
    STANDSTILL_MS = 1500, /* longer than until the next refresh, shorter than a call may take */
    MARKED_MS = 4500 /* more than one refresh of the markers, and a period of the watchdog */
};

static double losses(struct front *fe)
{
    return front_metric(fe, "rlockd_redis_data_losses_total", NULL);
}

static json_int_t fence_at(struct front *fe, const char *lock, const char *token)
{
    struct reply *r = lock_put(fe, lock, token, "ttl_ms=600000");

    expect_status(r, 201);
    return reply_int(r, "fencing_token");
}

/* A session whose own keys are at this node. */
static struct session session_at(struct cluster *cluster, struct front *fe, struct redis *node)
{
    for (;;) {
        struct session s = session_new(fe, "ttl_ms=60000");
        if (cluster_owner(cluster, cluster_slot(cluster, s.id)) == node)
            return s;
        expect_status(session_end(fe, &s), 200);
    }
}

static void restart(struct redis *node, struct front *fe, bool with_data)
{
    cluster_kill(node);
    if (!with_data)
        redis_lose_data(node);
    cluster_return(node);
    wait_until(front_ready(fe), RECOVER_MS);
}

/* --- lost data ---------------------------------------------------------------------------- */

/* A keep-alive tells the loss, and no other one. */
static void expect_told(struct front *fe, const struct session *s, const char *lock)
{
    struct reply *r = NULL;

    wait_until((r = keep_alive(fe, s, "wait_ms=1000"), losses_len(r) > 0), SOON_MS);
    assert_int_equal(losses_len(r), 1);
    expect_loss(r, lock, "unknown");
}

static void test_master_that_comes_back_empty(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = front_start(w, "--redis", cluster->url, "--watchdog-timeout-ms", "12000",
                                   NULL);

    for (int i = 0; i < MASTERS; i++) { /* each has its own marker */
        struct redis *node = cluster->nodes[i], *other = cluster->nodes[(i + 1) % MASTERS];
        struct session told = session_at(cluster, fe, other),
                       lost = session_at(cluster, fe, node);
        const char *kept = cluster_name_at(cluster, other, text(w, "kept-%d", i));
        const char *gone = cluster_name_at(cluster, node, text(w, "gone-%d", i));
        const char *plain = cluster_name_at(cluster, node, text(w, "plain-%d", i));
        json_int_t fence = fence_at(fe, plain, token_new(w));

        session_hold(fe, &told, kept, NULL);
        session_hold(fe, &told, gone, NULL);
        nap_ms(MARKED_MS);
        restart(node, fe, false);
        wait_until(losses(fe) == i + 1, SOON_MS);
        expect_told(fe, &told, gone);
        assert_non_null(lease_of(keep_alive(fe, &told, NULL), kept));
        expect_str(keep_alive(fe, &lost, NULL), "reason", "unknown");
        expect_status(lock_put(fe, kept, token_new(w), NULL), 423);
        assert_true(fence_at(fe, plain, token_new(w)) > fence);
    }
    json_t *line = front_log_find(fe, "redis: came back without its data");
    assert_non_null(line);
    json_decref(line);
}

/* The replica does not get what was written last, and takes over. */
static void test_replica_that_lags(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct redis *master = cluster->nodes[0];
    struct front *fe = front_start(w, "--redis", cluster->url, NULL);
    struct session s = session_at(cluster, fe, cluster->nodes[1]);
    const char *kept = cluster_name_at(cluster, master, "kept");
    const char *lost = cluster_name_at(cluster, master, "lost");

    session_hold(fe, &s, kept, "ttl_ms=600000");
    redis_ok(master, "SET {%s}sync 1 PX 60000", kept);
    wait_until(redis_int(master, "WAIT 1 100") == 1, SOON_MS);
    redis_ok(master, "ACL SETUSER default -psync -sync -replconf");
    redis_ok(master, "CLIENT KILL TYPE replica");
    json_int_t fence = fence_of(fe, kept);
    struct reply *r = session_put(fe, &s, lost, token_new(w), "ttl_ms=600000");
    expect_status(r, 201);
    const char *lease_id = reply_str(r, "lease_id");
    nap_ms(MARKED_MS);
    cluster_kill(master);
    wait_until(!front_ready(fe), SOON_MS);
    wait_until(front_ready(fe), RECOVER_MS);
    wait_until(losses(fe) == 1, SOON_MS);
    json_t *line = front_log_find(fe, "redis: came back without its newest data");
    assert_non_null(line);
    json_decref(line);
    assert_int_equal(fence_of(fe, kept), fence);
    assert_true(fence_at(fe, lost, token_new(w)) > fence);
    r = keep_alive(fe, &s, text(w, "held=%s", lease_id));
    expect_str(r, "lost.0.lease_id", lease_id);
    expect_str(r, "lost.0.reason", "unknown");
}

/* --- quarantine --------------------------------------------------------------------------- */

static struct front *start_quarantined(struct cluster *cluster)
{
    return front_start(cluster->world, "--redis", cluster->url, "--quarantine-ms",
                       text(cluster->world, "%d", QUARANTINE_MS), NULL);
}

static bool is_quarantined(struct front *fe)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    return r->status == 200 && reply_int(r, "redis.quarantine_ms") > 0;
}

static void expect_quarantine(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    expect_str(r, "reason", "quarantine");
}

static void test_quarantine_is_of_one_master(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start_quarantined(cluster);
    const char *here = cluster_name_at(cluster, cluster->nodes[1], "here");
    const char *held = cluster_name_at(cluster, cluster->nodes[1], "held");
    const char *there = cluster_name_at(cluster, cluster->nodes[2], "there");
    const char *token = token_new(w);

    expect_quarantine(lock_put(fe, here, token_new(w), NULL)); /* new masters, all of them */
    expect_quarantine(lock_put(fe, there, token_new(w), NULL));
    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    fence_at(fe, held, token);
    struct call *waiter = call_put(fe, held, token_new(w), "wait_ms=50000");
    wait_until(waiter_count(fe, held) == 1, SOON_MS);
    restart(cluster->nodes[1], fe, true);
    struct front *late = start_quarantined(cluster);
    assert_true(is_quarantined(fe) && is_quarantined(late));
    expect_quarantine(lock_put(fe, here, token_new(w), NULL));
    expect_quarantine(lock_put(late, here, token_new(w), NULL));
    expect_status(lock_put(fe, there, token_new(w), NULL), 201);
    expect_status(lock_put(late, there, token_new(w), NULL), 423);
    expect_status(lock_renew(fe, held, token, NULL), 200);
    expect_status(lock_release(fe, held, token), 200);
    assert_false(call_done(waiter));
    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    expect_status(call_await(waiter, SOON_MS), 201);
    assert_true(losses(fe) == 0);
}

/* The key of the marker of this master. */
static const char *marker_at(struct redis *node)
{
    const redisReply *keys = redis_do(node, "KEYS rlockd:marker:*");

    assert_int_equal(keys->elements, 1);
    return keys->element[0]->str;
}

static void move_slot(struct cluster *cluster, int slot, int from, int to)
{
    struct redis *source = cluster->nodes[from], *target = cluster->nodes[to];

    slot_open(cluster, slot, source, target);
    slot_migrate(cluster, slot, source, target);
    slot_close(cluster, slot, source, target);
}

/* The slot of a marker goes to another master, and a master gets a slot whose marker another
 * one wrote: no process is new, and no data are lost. */
static void test_markers_that_move(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start_quarantined(cluster);

    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    move_slot(cluster, 5460, 0, 1); /* the last of the first master */
    move_slot(cluster, 10921, 1, 0);
    for (int64_t end = now_ms() + MARKED_MS; now_ms() < end; nap_ms(50))
        assert_false(is_quarantined(fe));
    struct front *late = start_quarantined(cluster);
    wait_until(!is_quarantined(late), 1000); /* until it has read the markers */
    move_slot(cluster, 10921, 0, 1);
    move_slot(cluster, 5460, 1, 0);
    for (int64_t end = now_ms() + MARKED_MS; now_ms() < end; nap_ms(50))
        assert_false(is_quarantined(fe) || is_quarantined(late));
    assert_null(
        front_log_find(late, "quarantine: Redis may have lost leases; grants are held back"));
    assert_true(losses(fe) == 0);
}

/* A front end that does not know yet that the slot of a marker has moved leaves the marker of
 * the new master alone. */
static void test_marker_and_an_old_map(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start_quarantined(cluster), *late = start_quarantined(cluster);

    wait_until(!is_quarantined(fe) && !is_quarantined(late), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    child_signal(late->child, SIGSTOP);
    move_slot(cluster, 10921, 1, 0);
    nap_ms(STANDSTILL_MS);
    assert_false(is_quarantined(fe));
    child_signal(late->child, SIGCONT);
    for (int64_t end = now_ms() + MARKED_MS; now_ms() < end; nap_ms(50))
        assert_false(is_quarantined(fe) || is_quarantined(late));
    assert_true(losses(fe) == 0 && losses(late) == 0);
}

/* A slot went to another master and came back, so soon that this front end did not notice. Its
 * marker has the refresh by another front end at the other master. */
static void test_marker_that_was_away(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start_quarantined(cluster);
    struct redis *node = cluster->nodes[1], *other = cluster->nodes[0];

    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    const char *there = redis_str(other, "HGET %s run_id", marker_at(other));
    redis_ok(node, "HSET %s run_id %s", marker_at(node), there);
    for (int64_t end = now_ms() + MARKED_MS; now_ms() < end; nap_ms(50))
        assert_false(is_quarantined(fe));
    assert_string_not_equal(redis_str(node, "HGET %s run_id", marker_at(node)), there);
    assert_true(losses(fe) == 0);
}

/* Each master has its own marker, so a part of the data may be of another layout. */
static void test_another_layout_at_one_master(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = front_start(w, "--redis", cluster->url, NULL);
    struct redis *node = cluster->nodes[1];
    const char *away = cluster_name_at(cluster, node, "away");
    const char *near = cluster_name_at(cluster, cluster->nodes[0], "near");

    nap_ms(MARKED_MS);
    redis_do(node, "HSET %s layout 2", marker_at(node));
    struct reply *r = NULL;
    wait_until((r = http(fe, "GET", "/readyz", NULL), reply_str(r, "redis.detail") != NULL),
               SOON_MS);
    expect_status(r, 200);
    expect_problem(lock_put(fe, away, token_new(w), NULL), 503, "redis-unavailable");
    assert_false(redis_has(node, away));
    expect_status(lock_put(fe, near, token_new(w), NULL), 201);
    stays_true(reply_str(http(fe, "GET", "/readyz", NULL), "redis.detail") != NULL, 1500);
    redis_do(node, "HDEL %s layout", marker_at(node));
    wait_until(lock_put(fe, away, token_new(w), NULL)->status == 201, SOON_MS);
    assert_true(losses(fe) == 0);
}

/* A master is replaced, its shard loses the slot of the marker, and the same process becomes
 * the master again, with the data of its replica: a new master. */
static void test_master_that_is_master_again(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start_quarantined(cluster);

    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    cluster_promote(cluster->nodes[MASTERS]);
    wait_until(is_quarantined(fe), SOON_MS);
    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    move_slot(cluster, 5460, MASTERS, 1);
    cluster_await(cluster);
    cluster_promote(cluster->nodes[0]);
    wait_until(is_quarantined(fe), SOON_MS);
}

static void take_over(struct redis *replica)
{
    redis_ok(replica, "CLUSTER FAILOVER TAKEOVER");
    wait_until(cluster_is_master(replica), SOON_MS);
}

/* The same so soon that the front end sees nothing of it: no connection is lost, and the
 * process answered a moment ago. */
static void test_master_that_is_master_again_at_once(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start_quarantined(cluster);
    struct redis *master = cluster->nodes[0], *replica = cluster->nodes[MASTERS];
    const char *here = cluster_name_at(cluster, master, "here");

    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    child_signal(fe->child, SIGSTOP);
    take_over(replica);
    wait_until(!cluster_is_master(master), SOON_MS);
    take_over(master);
    child_signal(fe->child, SIGCONT);
    wait_until(is_quarantined(fe), SOON_MS);
    expect_quarantine(lock_put(fe, here, token_new(w), NULL));
    wait_until(!is_quarantined(fe), QUARANTINE_MS + 2000);
    nap_ms(MARKED_MS);
    assert_false(is_quarantined(fe)); /* it begins once */
    expect_status(lock_put(fe, here, token_new(w), NULL), 201);
}

/* --- replicas ----------------------------------------------------------------------------- */

static void expect_not_replicated(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_str(r, "reason", "not-replicated");
}

static struct front *start_with_replicas(struct cluster *cluster)
{
    return front_start(cluster->world, "--redis", cluster->url, "--sync-replicas", "1",
                       "--sync-timeout-ms", "900", NULL);
}

/* The replica of one master stands still: grants of that master alone are withdrawn. */
static void test_replica_that_stands_still(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start_with_replicas(cluster);
    struct redis *master = cluster->nodes[0], *replica = cluster->nodes[MASTERS];
    const char *undone = cluster_name_at(cluster, master, "undone");
    const char *done = cluster_name_at(cluster, cluster->nodes[1], "done");
    const char *token = token_new(w);

    fence_at(fe, text(w, "{%s}first", undone), token_new(w));
    redis_freeze(replica);
    expect_not_replicated(lock_put(fe, undone, token, "ttl_ms=60000"));
    fence_at(fe, done, token_new(w));
    wait_until(!redis_has(master, undone), SOON_MS);
    assert_false(front_ready(fe));
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    expect_status(r, 200); /* for the locks of the other masters */
    expect_str(r, "redis.detail", "too few replicas confirm what is written");
    assert_true(front_metric(fe, "rlockd_redis_not_replicated_total", NULL) >= 1);
    redis_thaw(replica);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(lock_put(fe, undone, token, "ttl_ms=60000"), 201);
}

/* A lease of a session is at two masters: each has to keep it. */
static void test_replica_of_a_session_that_stands_still(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start_with_replicas(cluster);
    struct redis *replica = cluster->nodes[MASTERS];
    struct session s = session_at(cluster, fe, cluster->nodes[0]);
    const char *of_others = cluster_name_at(cluster, cluster->nodes[1], "of-others");
    const char *token = token_new(w);

    redis_freeze(replica);
    expect_not_replicated(session_put(fe, &s, of_others, token, "ttl_ms=60000"));
    redis_thaw(replica);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(session_put(fe, &s, of_others, token, "ttl_ms=60000"), 201);
}

/* One WAIT at each master for all that comes while another is under way there. */
static void test_requests_share_waits(struct world *w)
{
    enum { CALLS = 300 };
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start_with_replicas(cluster);
    struct call *calls[CALLS];
    long long before[MASTERS], all = 0;

    for (int i = 0; i < MASTERS; i++)
        before[i] = redis_calls(cluster->nodes[i], "wait");
    for (int i = 0; i < CALLS; i++)
        calls[i] = call_put(fe, text(w, "share-%d", i), token_new(w), "ttl_ms=60000");
    for (int i = 0; i < CALLS; i++)
        expect_status(call_await(calls[i], RECOVER_MS), 201);
    for (int i = 0; i < MASTERS; i++) {
        long long more = redis_calls(cluster->nodes[i], "wait") - before[i];
        assert_true(more > 0);
        all += more;
    }
    print_message("%lld WAITs for %d grants\n", all, CALLS);
    assert_true(all < CALLS);
}

/* --- sessions over several masters -------------------------------------------------------- */

/* A master that is away keeps none of the other locks of a session that ends. */
static void test_end_without_one_master(struct world *w)
{
    /* Batches are chosen at random: one of the dead master's alone is the last. */
    enum { LEASES = 240, LEFT_MAX = 10, QUICK_MS = 900 };
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct redis *dead = cluster->nodes[0];
    struct front *fe = front_start(w, "--redis", cluster->url, NULL);
    struct session s = session_at(cluster, fe, cluster->nodes[1]);
    int held = 0;

    for (int i = 0; i < LEASES; i++)
        session_hold(fe, &s, text(w, "end/%d", i), "ttl_ms=600000");
    cluster_kill(dead);
    wait_until(!front_ready(fe), SOON_MS);
    int64_t began_ms = now_ms();
    expect_problem(session_end(fe, &s), 503, "redis-unavailable");
    bool was_quick = now_ms() - began_ms < QUICK_MS;
    for (int i = 0; i < LEASES; i++) {
        const char *lock = text(w, "end/%d", i);
        struct redis *node = cluster_owner(cluster, cluster_slot(cluster, lock));
        held += node != dead && redis_has(node, lock);
    }
    if (was_quick) /* else the machine stood still, and rlockd has given up */
        assert_in_range(held, 0, LEFT_MAX);
    cluster_return(dead);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(session_end(fe, &s), 200);
    expect_int(session_end(fe, &s), "released", LEASES);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_master_that_comes_back_empty),
        E2E_TEST(test_replica_that_lags),
        E2E_TEST(test_quarantine_is_of_one_master),
        E2E_TEST(test_markers_that_move),
        E2E_TEST(test_marker_and_an_old_map),
        E2E_TEST(test_marker_that_was_away),
        E2E_TEST(test_another_layout_at_one_master),
        E2E_TEST(test_master_that_is_master_again),
        E2E_TEST(test_master_that_is_master_again_at_once),
        E2E_TEST(test_replica_that_stands_still),
        E2E_TEST(test_replica_of_a_session_that_stands_still),
        E2E_TEST(test_requests_share_waits),
        E2E_TEST(test_end_without_one_master),
    };
    struct e2e_plan plan = {
        .name = "topology_cluster_data", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
