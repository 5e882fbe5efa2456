/* A user with the least that docs/redis.md and docs/rlockd.acl give, its password in a file,
 * and TLS on every connection: all that rlockd does works on each topology, and no node has
 * refused it anything. */
#include <stdio.h>

#include "cluster.h"
#include "counters.h"
#include "harness_session.h"
#include "multi_locks.h"
#include "sentinel.h"

enum { SOON_MS = 10000, NODES = 3 };

static const char CLUSTER_RIGHTS[] = "+cluster|slots +asking";
static const char SHARD_RIGHTS[] = "+ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub";
#define SENTINEL_RIGHTS                                                                        \
    "+auth +client|setname +client|id +info +subscribe +sentinel|get-master-addr-by-name "     \
    "+sentinel|master +sentinel|sentinels &+switch-master"

/* The command of docs/rlockd.acl, on one line. */
static const char *documented_user(struct world *w)
{
    char line[2048] = "";
    FILE *file = fopen("docs/rlockd.acl", "r");

    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        FAIL("docs/rlockd.acl cannot be read");
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return text(w, "%s", line);
}

/* The command is split at its blanks. */
static void give_user(struct redis *node, const char *rights)
{
    redis_ok(node, text(node->world, "%s %s", documented_user(node->world), rights));
    redis_ok(node, "ACL LOG RESET");
}

static const char *password_file(struct world *w)
{
    shell_run(w, NULL, "echo s3cret > password");
    return text(w, "%s/password", w->dir);
}

static void expect_nothing_refused(struct redis *node)
{
    redisReply *log = redis_do(node, "ACL LOG");

    for (size_t i = 0; i < log->elements; i++)
        FAIL("refused: %s %s", log->element[i]->element[3]->str,
             log->element[i]->element[7]->str);
}

/* ---- all that rlockd does ---- */

/* Acquired, waited for at the other front end, renewed, looked at, released, force-unlocked. */
static void use_locks(struct front *fe, struct front *other)
{
    static const char *const kinds[] = {"lock", "fair", "write"};
    struct world *w = fe->world;

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *name = text(w, "login-%s", kinds[i]), *token = token_new(w);
        const char *query = text(w, "kind=%s&ttl_ms=60000", kinds[i]);
        expect_status(lock_put(fe, name, token, query), 201);
        struct call *waiter = call_put(other, name, token_new(w),
                                       text(w, "wait_ms=20000&%s", query));
        wait_until(waiter_count(fe, name) == 1, SOON_MS);
        expect_status(lock_renew(fe, name, token, "ttl_ms=50000"), 200);
        expect_status(lock_look(fe, name), 200);
        expect_status(lock_release(fe, name, token), 200);
        expect_status(call_await(waiter, SOON_MS), 201);
        expect_status(force_unlock(fe, name), 200);
    }
    for (int i = 0; i < 2; i++)
        expect_status(lock_put(fe, "login-read", token_new(w), "kind=read&ttl_ms=60000"), 201);
    expect_status(multi_put(fe, NULL, token_new(w), "{login}a {login}b", ", \"ttl_ms\": 60000"),
                  201);
    expect_status(http(fe, "GET", "/v1/locks?limit=100", NULL), 200);
    expect_status(http(fe, "GET", "/v1/semaphores?limit=100", NULL), 200);
}

static void use_counters(struct front *fe)
{
    struct world *w = fe->world;
    const char *token = token_new(w);

    expect_status(counter_send(fe, "PUT", "semaphores/login?permits=2", NULL), 201);
    expect_status(counter_send(fe, "POST", "semaphores/login/acquire", token_new(w)), 200);
    expect_status(counter_send(fe, "POST", "semaphores/login/release", token_new(w)), 200);
    expect_status(counter_send(fe, "PUT", "latches/login-latch?count=1", NULL), 201);
    expect_status(counter_send(fe, "POST", "latches/login-latch/count-down", token_new(w)),
                  200);
    expect_status(counter_send(fe, "PUT", "permit-semaphores/login-permits?permits=2", NULL),
                  201);
    expect_status(permit_send(fe, "PUT", "permit-semaphores/login-permits/permit?ttl_ms=60000",
                              token, NULL),
                  201);
    expect_status(
        permit_send(fe, "DELETE", "permit-semaphores/login-permits/permit", token, NULL), 200);
}

static double renewals(struct front *fe, struct front *other)
{
    return front_metric(fe, "rlockd_watchdog_renewals_total", NULL) +
           front_metric(other, "rlockd_watchdog_renewals_total", NULL);
}

static void use_sessions(struct front *fe, struct front *other)
{
    struct world *w = fe->world;
    struct session s = session_new(fe, "ttl_ms=60000");
    double renewed = renewals(fe, other);

    session_hold(fe, &s, "login-session", NULL);
    wait_until(renewals(fe, other) > renewed, SOON_MS);
    expect_alive(keep_alive(fe, &s, NULL), 1);
    expect_status(http(fe, "GET", "/v1/sessions?limit=100", NULL), 200);
    expect_status(session_end(fe, &s), 200);
    wait_until(lock_put(fe, "login-session", token_new(w), NULL)->status == 201, SOON_MS);
}

static void use_it_all(struct front *fe, struct front *other)
{
    use_locks(fe, other);
    use_counters(fe);
    use_sessions(fe, other);
    expect_status(http(fe, "GET", "/readyz", NULL), 200);
}

#define LOGIN                                                                                  \
    "--redis-user", "rlockd", "--redis-password-file", path, "--watchdog-timeout-ms", "3000"

/* ---- the topologies ---- */

static void test_single(struct world *w)
{
    struct redis *redis = redis_start_tcp(w, NULL);
    const char *path = password_file(w);

    give_user(redis, "");
    redis_ok(redis, "ACL SETUSER default off");
    struct front *fe = front_start(w, "--redis", redis->url, LOGIN, NULL);
    use_it_all(fe, front_start(w, "--redis", redis->url, LOGIN, NULL));
    redis_ok(redis, "ACL SETUSER default on");
    expect_nothing_refused(redis);
}

/* With replicas that have to confirm, and through a failover. */
static void test_sentinel(struct world *w)
{
    struct trio trio = trio_start(w);
    const char *path = password_file(w);

    for (int i = 0; i < TRIO; i++) {
        give_user(trio.server[i], "+wait");
        sentinel_ok(trio.sentinel[i], "ACL SETUSER watcher on >s3cret " SENTINEL_RIGHTS);
    }
    struct front *fe = front_start(w, "--redis", trio.url, LOGIN, "--redis-sentinel-user",
                                   "watcher", "--redis-sentinel-password-file", path,
                                   "--sync-replicas", "1", NULL);
    struct front *other = front_start(w, "--redis", trio.url, LOGIN, "--redis-sentinel-user",
                                      "watcher", "--redis-sentinel-password-file", path,
                                      "--sync-replicas", "1", NULL);
    use_it_all(fe, other);
    trio_sync(&trio);
    sentinel_ok(trio.sentinel[0], "SENTINEL FAILOVER mymaster");
    wait_until(front_metric(fe, "rlockd_redis_failovers_total", NULL) > 0, 3 * SOON_MS);
    wait_until(lock_put(fe, "login-later", token_new(w), NULL)->status == 201, SOON_MS);
    for (int i = 0; i < TRIO; i++) {
        redis_connect(trio.server[i]);
        expect_nothing_refused(trio.server[i]);
    }
}

/* Through a slot that moves: MOVED and ASK need rights of their own. */
static void test_cluster(struct world *w)
{
    struct cluster *cluster = cluster_start(w, NODES, false);
    const char *path = password_file(w);
    bool has_shards = redis_do(cluster->nodes[0], "PUBSUB SHARDCHANNELS")->type !=
                      REDIS_REPLY_ERROR;

    for (int i = 0; i < NODES; i++)
        give_user(cluster->nodes[i],
                  text(w, "%s %s", CLUSTER_RIGHTS, has_shards ? SHARD_RIGHTS : ""));
    struct front *fe = front_start(w, "--redis", cluster->url, LOGIN, NULL);
    use_it_all(fe, front_start(w, "--redis", cluster->url, LOGIN, NULL));

    const char *name = cluster_name_at(cluster, cluster->nodes[0], "login-moves");
    int slot = cluster_slot(cluster, name);
    const char *token = token_new(w);
    expect_status(lock_put(fe, name, token, "ttl_ms=60000"), 201);
    slot_open(cluster, slot, cluster->nodes[0], cluster->nodes[1]);
    slot_migrate(cluster, slot, cluster->nodes[0], cluster->nodes[1]);
    struct call *renewal = CALL(fe, .method = "PATCH", .token = token,
                                .path = lock_path(w, name, "?ttl_ms=60000"));
    wait_until(front_metric(fe, "rlockd_redis_redirections_total", NULL) > 0, SOON_MS);
    slot_close(cluster, slot, cluster->nodes[0], cluster->nodes[1]);
    expect_status(call_await(renewal, SOON_MS), 200);
    expect_status(lock_release(fe, name, token), 200);
    for (int i = 0; i < NODES; i++)
        expect_nothing_refused(cluster->nodes[i]);
}

/* Nodes that announce addresses, and certificates that have a name: one name for all. */
static void test_a_name_for_all_nodes(struct world *w)
{
    struct cluster *cluster = cluster_start(w, NODES, false);

    certificate_make(w, "named", "redis-ca", "DNS:*.locks.example");
    for (int i = 0; i < NODES; i++)
        redis_ok(cluster->nodes[i],
                 "CONFIG SET tls-cert-file %s/named.pem tls-key-file %s/named.key", w->dir,
                 w->dir);
    struct front *fe = front_launch(w, "--redis", cluster->url, NULL);
    wait_until(strstr(front_log(fe), "certificate is for another name") != NULL, SOON_MS);
    assert_false(front_ready(fe));
    fe = front_start(w, "--redis", cluster->url, "--redis-tls-server-name", "any.locks.example",
                     NULL);
    for (int i = 0; i < NODES; i++)
        expect_status(lock_put(fe, cluster_name_at(cluster, cluster->nodes[i], "named"),
                               token_new(w), NULL),
                      201);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_single),
        E2E_TEST(test_sentinel),
        E2E_TEST(test_cluster),
        E2E_TEST(test_a_name_for_all_nodes),
    };
    struct e2e_plan plan = {.name = "topology_login", E2E_TESTS(tests), .without_redis = true};

    setenv("E2E_REDIS", "tls", 1);
    return e2e_run(&plan);
}
