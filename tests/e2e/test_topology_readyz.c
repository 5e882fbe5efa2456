/* /readyz of a front end whose keys are in a Redis Cluster: 200 while some master serves,
 * because all front ends see the same masters. */
#include <signal.h>

#include "cluster.h"
#include "harness.h"

enum { MASTERS = 3, RECOVER_MS = 20000, SOON_MS = 10000, WATCH_MS = 4000 };

static struct front *start(struct cluster *cluster)
{
    return front_start(cluster->world, "--redis", cluster->url, NULL);
}

static void grant(struct front *fe, const char *name, const char *token)
{
    expect_status(lock_put(fe, name, token, "ttl_ms=60000"), 201);
}

/* The detail of the answer, which is 200. */
static const char *detail_when_ready(struct front *fe)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *detail = reply_str(r, "redis.detail");

    expect_status(r, 200);
    return detail != NULL ? detail : "";
}

/* The node lacks a slot of its own, and serves no slot for that. */
static int take_down(struct cluster *cluster, struct redis *node)
{
    int slot = cluster_slot(cluster, cluster_name_at(cluster, node, "hole"));

    redis_ok(node, "CONFIG SET cluster-require-full-coverage yes");
    redis_ok(node, "CLUSTER DELSLOTS %d", slot);
    wait_until(strstr(redis_str(node, "CLUSTER INFO"), "cluster_state:fail") != NULL, SOON_MS);
    return slot;
}

static void bring_back(struct redis *node, int slot)
{
    redis_ok(node, "CLUSTER ADDSLOTS %d", slot);
    redis_ok(node, "CONFIG SET cluster-require-full-coverage no");
}

static void test_master_that_says_the_cluster_is_down(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    struct redis *node = cluster->nodes[0];
    const char *here = cluster_name_at(cluster, node, "here");
    const char *there = cluster_name_at(cluster, cluster->nodes[1], "there");
    bool is_told = false;
    int slot = take_down(cluster, node);

    for (int64_t end = now_ms() + WATCH_MS; now_ms() < end; nap_ms(20)) {
        const char *token = token_new(w);
        expect_status(lock_put(fe, here, token_new(w), NULL), 503);
        is_told |= strstr(detail_when_ready(fe), "the cluster is down") != NULL;
        grant(fe, there, token);
        expect_status(lock_release(fe, there, token), 200);
    }
    assert_true(is_told);
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    expect_between(r, "redis.slots", CLUSTER_SLOTS / 2, CLUSTER_SLOTS - 1);
    assert_true(front_metric(fe, "rlockd_redis_up", NULL) == 0);
    bring_back(node, slot);
    wait_until(front_ready(fe), RECOVER_MS);
    grant(fe, here, token_new(w));
}

/* Also without requests: the refresh of the markers notices. */
static void test_masters_that_all_say_so(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    int slots[MASTERS];

    for (int i = 0; i < MASTERS; i++)
        slots[i] = take_down(cluster, cluster->nodes[i]);
    wait_until(http(fe, "GET", "/readyz", NULL)->status == 503, SOON_MS);
    for (int64_t end = now_ms() + WATCH_MS; now_ms() < end; nap_ms(20)) {
        struct reply *r = http(fe, "GET", "/readyz", NULL);
        expect_problem(r, 503, "redis-unavailable");
        expect_detail(r, "the cluster is down");
    }
    for (int i = 0; i < MASTERS; i++)
        bring_back(cluster->nodes[i], slots[i]);
    wait_until(front_ready(fe), RECOVER_MS);
}

static void test_master_that_fails_over(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = start(cluster);
    const char *lost = cluster_name_at(cluster, cluster->nodes[0], "lost");
    const char *kept = cluster_name_at(cluster, cluster->nodes[1], "kept");
    int status = 503;

    cluster_kill(cluster->nodes[0]);
    wait_until(!front_ready(fe), SOON_MS);
    for (int64_t end = now_ms() + RECOVER_MS; status != 201 && now_ms() < end; nap_ms(20)) {
        const char *token = token_new(w);
        detail_when_ready(fe);
        grant(fe, kept, token);
        expect_status(lock_release(fe, kept, token), 200);
        status = lock_put(fe, lost, token_new(w), NULL)->status;
    }
    assert_int_equal(status, 201);
    wait_until(detail_when_ready(fe)[0] == '\0', SOON_MS);
}

static void test_slots_that_are_lost(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct front *fe = start(cluster);
    const char *lost = cluster_name_at(cluster, cluster->nodes[2], "lost");
    const char *kept = cluster_name_at(cluster, cluster->nodes[1], "kept");
    const char *token = token_new(w);

    grant(fe, lost, token);
    cluster_kill(cluster->nodes[2]);
    wait_until(!front_ready(fe), SOON_MS);
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    expect_status(r, 200);
    expect_true(r, strstr(reply_str(r, "redis.detail"), "slots") != NULL);
    expect_between(r, "redis.slots", CLUSTER_SLOTS / 2, CLUSTER_SLOTS - 1);
    r = lock_put(fe, lost, token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_detail(r, "slots");
    for (int i = 0; i < 20; i++) {
        const char *own = token_new(w);
        grant(fe, kept, own);
        expect_status(lock_release(fe, kept, own), 200);
    }
    assert_true(front_metric(fe, "rlockd_redis_cluster_slots", NULL) < CLUSTER_SLOTS);
    assert_true(front_metric(fe, "rlockd_redis_up", NULL) == 0);
    /* Without a slot that is served, /readyz takes the front end out of a load balancer. */
    cluster_kill(cluster->nodes[0]);
    cluster_kill(cluster->nodes[1]);
    wait_until(http(fe, "GET", "/readyz", NULL)->status == 503, SOON_MS);
    for (int i = 0; i < MASTERS; i++)
        cluster_return(cluster->nodes[i]);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(lock_release(fe, lost, token), 200);
}

/* Each host of the URL is asked again, the first one, too. */
static void test_hosts_that_come_up_late(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct proxy *proxy = proxy_start(cluster->nodes[0]);

    proxy_set(proxy, PROXY_RESET);
    struct front *fe = front_launch(w, "--redis",
                                    text(w, "redis%s-cluster://127.0.0.1:%d,127.0.0.1:1",
                                         redis_is_tls() ? "s" : "", proxy_port(proxy)),
                                    NULL);
    wait_until(http(fe, "GET", "/readyz", NULL)->status == 503, SOON_MS);
    nap_ms(500); /* both have been asked by then, as a rule */
    proxy_set(proxy, PROXY_PASS);
    wait_until(front_ready(fe), RECOVER_MS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_master_that_says_the_cluster_is_down),
        E2E_TEST(test_masters_that_all_say_so),
        E2E_TEST(test_master_that_fails_over),
        E2E_TEST(test_slots_that_are_lost),
        E2E_TEST(test_hosts_that_come_up_late),
    };
    struct e2e_plan plan = {.name = "topology_readyz", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
