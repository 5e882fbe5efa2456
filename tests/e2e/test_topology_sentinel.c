/* A master with two replicas and three Sentinels: rlockd follows the master, whatever happens.
 */
#include <signal.h>

#include "harness_session.h"
#include "sentinel.h"

enum {
    FAILOVER_MS = 20000 /* of Sentinels that notice after a second, on a busy machine */
};

static int failovers(struct front *fe)
{
    return (int)reply_int(http(fe, "GET", "/readyz", NULL), "redis.failovers");
}

static void expect_it_serves(struct world *w, struct front *fe, const char *lock)
{
    const char *token = token_new(w);

    expect_status(lock_put(fe, lock, token, "ttl_ms=60000"), 201);
    expect_problem(lock_put(fe, lock, token_new(w), NULL), 423, "locked");
    expect_status(lock_renew(fe, lock, token, NULL), 200);
    expect_status(lock_release(fe, lock, token), 200);
}

static void test_start(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    expect_str(r, "redis.topology", "sentinel");
    expect_int(r, "redis.sentinels", TRIO);
    expect_int(r, "redis.failovers", 0);
    assert_true(front_metric(fe, "rlockd_sentinels", NULL) == TRIO);
    expect_it_serves(w, fe, "start");
    assert_true(redis_int(trio.server[0], "EXISTS redisson_lock_token:{start}") == 1);
    /* The subscription is where the messages are. */
    const char *holder = token_new(w);
    expect_status(lock_put(fe, "start", holder, "ttl_ms=60000"), 201);
    struct call *call = call_put(fe, "start", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(fe, "start") == 1, 5000);
    expect_status(lock_release(fe, "start", holder), 200);
    expect_status(call_await(call, 3000), 201);
}

/* What was replicated is held after the failover: lease, waiter, session, fencing counter. */
static void test_master_killed(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);
    const char *holder = token_new(w);
    struct reply *first = lock_put(fe, "killed", holder, "ttl_ms=120000");
    struct call *call = call_put(fe, "killed", token_new(w), "wait_ms=50000&ttl_ms=60000");

    expect_status(first, 201);
    wait_until(waiter_count(fe, "killed") == 1, 5000);
    trio_sync(&trio);
    child_signal(trio.server[0]->child, SIGKILL);
    wait_until(!front_ready(fe), 5000);
    expect_str(lock_put(fe, "other", token_new(w), NULL), "outcome", "not-executed");
    wait_until(front_ready(fe), FAILOVER_MS);
    assert_int_equal(failovers(fe), 1);
    assert_true(front_metric(fe, "rlockd_redis_failovers_total", NULL) == 1);
    expect_status(lock_renew(fe, "killed", holder, NULL), 200);
    assert_false(call_done(call));
    expect_status(lock_release(fe, "killed", holder), 200);
    struct reply *second = call_await(call, 8000);
    expect_status(second, 201);
    expect_between(second, "fencing_token", reply_int(first, "fencing_token") + 1, INT64_MAX);
}

/* The Sentinels are told to: the old master lives on, and becomes a replica some time later. */
static void test_failover_by_hand(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);
    const char *holder = token_new(w);

    expect_status(lock_put(fe, "hand", holder, "ttl_ms=120000"), 201);
    trio_sync(&trio);
    sentinel_ok(trio.sentinel[0], "SENTINEL FAILOVER mymaster");
    wait_until(failovers(fe) == 1, FAILOVER_MS);
    assert_ptr_not_equal(trio_master(&trio), trio.server[0]);
    expect_status(lock_renew(fe, "hand", holder, NULL), 200);
    expect_it_serves(w, fe, "hand/2");
    assert_true(redis_int(trio_master(&trio), "EXISTS redisson_lock_token:{hand/2}") == 1);
}

/* Sentinels cut off every client of a server that changes its role. */
static bool is_replica(struct redis *redis)
{
    redis_connect(redis);
    redisReply *reply = redisCommand(redis->db, "INFO replication");
    bool is_so = reply != NULL && reply->type == REDIS_REPLY_STRING &&
                 strstr(reply->str, "role:slave") != NULL;
    freeReplyObject(reply);
    return is_so;
}

/* A master that slept through its replacement takes writes for a moment when it wakes: nothing
 * that rlockd sends goes there. */
static void test_master_paused(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);

    expect_it_serves(w, fe, "paused");
    trio_sync(&trio);
    redis_freeze(trio.server[0]);
    wait_until(failovers(fe) == 1, FAILOVER_MS);
    expect_it_serves(w, fe, "paused/2");
    redis_thaw(trio.server[0]);
    for (int i = 0; i < 20; i++) {
        expect_it_serves(w, fe, "paused/3");
        nap_ms(50);
    }
    wait_until(is_replica(trio.server[0]), FAILOVER_MS);
    expect_it_serves(w, fe, "paused/4");
    assert_int_equal(failovers(fe), 1);
}

static bool has(struct redis *redis, const char *name)
{
    return redis_int(redis, "EXISTS redisson_lock_token:{%s}", name) == 1;
}

/* Asks for new locks until one is granted: none is granted by this server. */
static void expect_no_grant_by(struct world *w, struct front *fe, struct redis *server)
{
    int64_t give_up_ms = now_ms() + patience_ms(FAILOVER_MS);
    bool is_granted = false;

    for (int i = 0; !is_granted; i++) {
        const char *name = text(w, "again/%d", i);
        is_granted = lock_put(fe, name, token_new(w), "ttl_ms=60000")->status == 201;
        if (has(server, name))
            FAIL("%s was granted by a former master", name);
        if (now_ms() > give_up_ms)
            FAIL("nothing is granted");
        nap_ms(5);
    }
}

/* A former master wakes as soon as the Sentinels have replaced it, while the front end connects
 * to it, and the Sentinel that the front end listens to stands still. */
static void test_master_wakes_while_it_is_connected_to(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);

    expect_it_serves(w, fe, "wakes");
    trio_sync(&trio);
    child_signal(trio.sentinel[1]->child, SIGSTOP);
    redis_freeze(trio.server[0]);
    struct call *call = call_put(fe, "wakes", token_new(w), "ttl_ms=60000");
    wait_until(!front_ready(fe) || failovers(fe) == 1, 5000);
    expect_str(call_await(call, 5000), "outcome", "unknown");
    wait_until(!sentinel_names(trio.sentinel[0], trio.server[0]) &&
                   !sentinel_names(trio.sentinel[2], trio.server[0]),
               FAILOVER_MS);
    redis_thaw(trio.server[0]);
    expect_no_grant_by(w, fe, trio.server[0]);
    assert_int_equal(failovers(fe), 1);
}

/* A Sentinel that knows of no failover names another master than the Sentinels that have made
 * one. */
static void test_sentinel_that_missed_a_failover(struct world *w)
{
    struct trio trio = trio_start(w);
    struct redis *former = redis_start_tcp(w, NULL);
    struct sentinel *sentinels[] = {trio.sentinel[0], sentinel_start(former, 1, 600000)};

    sentinel_ok(trio.sentinel[0], "SENTINEL FAILOVER mymaster");
    for (int i = 0; i < TRIO; i++)
        wait_until(!sentinel_names(trio.sentinel[i], trio.server[0]), FAILOVER_MS);
    struct redis *master = trio_master(&trio);
    struct front *fe = front_start(w, "--redis", sentinel_url(sentinels, 2), NULL);
    wait_until(reply_int(http(fe, "GET", "/readyz", NULL), "redis.sentinels") == TRIO + 1,
               15000);
    expect_it_serves(w, fe, "missed");
    /* The next Sentinel to be asked is that of the former master. */
    child_signal(trio.sentinel[0]->child, SIGSTOP);
    redis_ok(master, "CLIENT KILL TYPE normal SKIPME yes");
    expect_no_grant_by(w, fe, former);
    assert_int_equal(failovers(fe), 0);
    expect_it_serves(w, fe, "missed/2");
    assert_true(has(master, "missed/2"));
    /* It was passed over, and not lost by what it was asked. */
    const char *lost = text(w, "%s:%d\",\"reason\":\"the connection was lost",
                            sentinels[1]->host, sentinels[1]->port);
    if (strstr(front_log(fe), lost) != NULL)
        FAIL("the Sentinel ended the connection");
}

/* The first Sentinel makes another server the master, and the third one knows of it. */
static void fail_over(const struct trio *trio, struct front *fe)
{
    int before = failovers(fe);
    const struct redis *former = trio_master(trio);

    wait_until(trio_fail_over(trio), FAILOVER_MS);
    wait_until(failovers(fe) == before + 1, FAILOVER_MS);
    wait_until(!sentinel_names(trio->sentinel[0], former) &&
                   !sentinel_names(trio->sentinel[2], former),
               FAILOVER_MS);
    nap_ms(3000); /* they tell all who listen */
}

/* A Sentinel that slept through two failovers tells of the first one when it wakes. */
static void test_sentinel_that_tells_of_a_former_failover(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);

    expect_it_serves(w, fe, "tells");
    child_signal(trio.sentinel[1]->child, SIGSTOP);
    fail_over(&trio, fe);
    fail_over(&trio, fe);
    const struct redis *master = trio_master(&trio);
    wait_until(front_ready(fe), FAILOVER_MS);
    child_signal(trio.sentinel[1]->child, SIGCONT);
    stays_true(front_ready(fe), 3000);
    assert_true(sentinel_names(trio.sentinel[1], master));
    assert_int_equal(failovers(fe), 2);
    expect_it_serves(w, fe, "tells/2");
}

/* A master that is made a replica behind the Sentinels' backs answers READONLY: it is left at
 * once, and the Sentinels put things right. */
static void test_master_becomes_replica(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);

    expect_it_serves(w, fe, "demoted");
    redis_ok(trio.server[0], "REPLICAOF %s %d", trio.server[1]->host, trio.server[1]->port);
    struct reply *r = lock_put(fe, "demoted", token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    wait_until(!front_ready(fe), 5000);
    sentinel_ok(trio.sentinel[0], "PING");
    redis_ok(trio.server[0], "REPLICAOF NO ONE");
    wait_until(front_ready(fe), FAILOVER_MS);
    expect_it_serves(w, fe, "demoted");
}

/* The URL names one Sentinel; the other two are learnt from it, and serve without it. */
static void test_only_a_learnt_sentinel_lives(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", sentinel_url(trio.sentinel, 1), NULL);

    wait_until(reply_int(http(fe, "GET", "/readyz", NULL), "redis.sentinels") == TRIO, 15000);
    sentinel_ok(trio.sentinel[1], "SENTINEL FAILOVER mymaster");
    wait_until(failovers(fe) == 1, FAILOVER_MS);
    for (int i = 0; i < TRIO; i++) /* or the last one would undo the failover */
        wait_until(!sentinel_names(trio.sentinel[i], trio.server[0]), FAILOVER_MS);
    /* The first Sentinel to name it does so before the failover is over. */
    wait_until(lock_put(fe, "learnt/2", token_new(w), NULL)->status == 201, FAILOVER_MS);
    sentinel_kill(trio.sentinel[0]);
    sentinel_kill(trio.sentinel[1]);
    expect_it_serves(w, fe, "learnt");
    /* A new connection to the master needs a Sentinel that names it. */
    redis_ok(trio_master(&trio), "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(front_ready(fe), FAILOVER_MS);
    expect_it_serves(w, fe, "learnt");
}

static void test_no_sentinel_lives(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, NULL);

    for (int i = 0; i < TRIO; i++)
        sentinel_kill(trio.sentinel[i]);
    expect_it_serves(w, fe, "blind");
    redis_ok(trio.server[0], "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(!front_ready(fe), 5000);
    wait_until(strcmp(reply_str(http(fe, "GET", "/readyz", NULL), "detail"),
                      "no Sentinel names the master") == 0,
               15000);
}

/* Sentinels that name a replica, or a port where nobody listens; the third tells the truth. */
static void test_lying_sentinels(struct world *w)
{
    struct trio trio = trio_start(w);
    struct redis nobody = *trio.server[0];
    struct sentinel *sentinels[TRIO];

    nobody.port = 1;
    sentinels[0] = sentinel_start(trio.server[1], 1, 600000);
    sentinels[1] = sentinel_start(&nobody, 1, 600000);
    sentinels[2] = trio.sentinel[0];
    struct front *fe = front_start(w, "--redis", sentinel_url(sentinels, TRIO), NULL);
    expect_it_serves(w, fe, "lies");
    assert_true(redis_int(trio.server[0], "EXISTS redisson_lock_token:{lies}") == 1);
    /* The polls of those that lie move nothing. */
    redis_ok(trio.server[0], "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(front_ready(fe), FAILOVER_MS);
    expect_it_serves(w, fe, "lies");
}

/* Two of three Sentinels do not know the master: they are asked now and then, and not all the
 * time. */
static void test_sentinels_that_do_not_know_the_master(struct world *w)
{
    struct trio trio = trio_start(w);

    for (int i = 0; i < 2; i++)
        sentinel_ok(trio.sentinel[i], "SENTINEL REMOVE mymaster");
    struct front *fe = front_start(w, "--redis", trio.url, NULL);
    nap_ms(2000);
    int before = sentinel_accepted(trio.sentinel[0]) + sentinel_accepted(trio.sentinel[1]);
    nap_ms(3000);
    int after = sentinel_accepted(trio.sentinel[0]) + sentinel_accepted(trio.sentinel[1]);
    assert_in_range(after - before, 0, 15);
    expect_it_serves(w, fe, "unknown");
}

/* The replicas do not get what was written last: it is lost by the failover, noticed, and told
 * to its holder; the session itself, and its other lease, are as old as what was replicated. */
static void test_replicas_that_lag(struct world *w)
{
    struct trio trio = trio_start(w);
    struct front *fe = front_start(w, "--redis", trio.url, "--quarantine-ms", "4000", NULL);

    wait_until(reply_int(http(fe, "GET", "/readyz", NULL), "redis.quarantine_ms") < 0, 8000);
    struct session s = session_new(fe, NULL);
    const char *kept = token_new(w), *lost = token_new(w);
    expect_status(session_put(fe, &s, "lag/kept", kept, "ttl_ms=600000"), 201);
    trio_sync(&trio);
    redis_ok(trio.server[0], "ACL SETUSER default -psync -sync -replconf");
    redis_ok(trio.server[0], "CLIENT KILL TYPE replica");
    struct reply *r = session_put(fe, &s, "lag/lost", lost, "ttl_ms=600000");
    expect_status(r, 201);
    const char *lease_id = reply_str(r, "lease_id");
    nap_ms(2500); /* more than one refresh of the marker */
    child_signal(trio.server[0]->child, SIGKILL);
    wait_until(failovers(fe) == 1, FAILOVER_MS);
    wait_until(front_metric(fe, "rlockd_redis_data_losses_total", NULL) == 1, 3000);
    r = lock_put(fe, "lag/lost", token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "reason", "quarantine");
    expect_status(lock_renew(fe, "lag/kept", kept, "ttl_ms=600000"), 200);
    expect_problem(lock_renew(fe, "lag/lost", lost, NULL), 410, "lease-ended");
    r = keep_alive(fe, &s, text(w, "held=%s", lease_id));
    expect_status(r, 200);
    expect_str(r, "lost.0.lease_id", lease_id);
    expect_str(r, "lost.0.reason", "unknown");
    wait_until(lock_put(fe, "lag/lost", token_new(w), NULL)->status == 201, 8000);
}

static bool is_quarantined(struct front *fe)
{
    return reply_int(http(fe, "GET", "/readyz", NULL), "redis.quarantine_ms") > 0;
}

/* The server follows the other one, and has its data. */
static void follow(struct redis *server, const struct redis *other)
{
    redis_ok(server, "REPLICAOF %s %d", other->host, other->port);
    wait_until(strstr(redis_str(server, "INFO replication"), "master_link_status:up") != NULL,
               FAILOVER_MS);
}

/* The master takes over the data of a server that was the master for a moment and lost a lock,
 * so soon that the front end, the Sentinel and the run id tell nothing of it. */
static void test_master_that_was_a_replica(struct world *w)
{
    struct redis *master = redis_start_tcp(w, NULL), *interim = redis_start_tcp(w, NULL);
    struct sentinel *sentinel = sentinel_start(master, 1, 600000);
    struct front *fe = front_start(w, "--redis", sentinel_url(&sentinel, 1), "--quarantine-ms",
                                   "4000", NULL);

    for (int i = 0; i < 2; i++) {
        const char *name = text(w, "again-%d", i);
        follow(interim, master);
        wait_until(lock_put(fe, name, token_new(w), "ttl_ms=600000")->status == 201, 8000);
        struct call *waiter = call_put(fe, name, token_new(w), "wait_ms=50000");
        wait_until(waiter_count(fe, name) == 1, 5000);
        nap_ms(1500); /* more than one refresh of the marker */
        child_signal(fe->child, SIGSTOP);
        redis_ok(interim, "REPLICAOF NO ONE");
        redis_ok(interim, "DEL %s", name);
        follow(master, interim);
        redis_ok(master, "REPLICAOF NO ONE");
        if (i == 1) /* or the front end connects anew, and the waiter tries at once */
            redis_ok(master, "CLIENT KILL TYPE normal SKIPME yes");
        child_signal(fe->child, SIGCONT);
        wait_until(is_quarantined(fe), 8000);
        assert_false(call_done(waiter));
        struct reply *r = lock_put(fe, name, token_new(w), NULL);
        expect_problem(r, 503, "redis-unavailable");
        expect_str(r, "reason", "quarantine");
        expect_status(call_await(waiter, 8000), 201);
    }
}

/* Sentinels that want a login, with the least that rlockd needs. */
static void test_sentinel_login(struct world *w)
{
    struct redis *master = redis_start_tcp(w, NULL);
    struct sentinel *sentinel = sentinel_start(master, 1, 600000);
    const char *url = sentinel_url(&sentinel, 1), *path = text(w, "%s/password", w->dir);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs("s3cret", file);
    fclose(file);
    sentinel_ok(sentinel, "ACL SETUSER app on >s3cret &+switch-master +client|setname "
                          "+client|id +info +subscribe +sentinel|get-master-addr-by-name "
                          "+sentinel|master +sentinel|sentinels");
    sentinel_ok(sentinel, "ACL SETUSER default resetkeys nocommands +acl +ping");
    struct front *fe = front_launch(w, "--redis", url, NULL);
    wait_until(strcmp(reply_str(http(fe, "GET", "/readyz", NULL), "detail"),
                      "no Sentinel names the master") == 0,
               8000);
    fe = front_start(w, "--redis", url, "--redis-sentinel-user", "app",
                     "--redis-sentinel-password-file", path, NULL);
    expect_it_serves(w, fe, "login");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_start),
        E2E_TEST(test_master_killed),
        E2E_TEST(test_failover_by_hand),
        E2E_TEST(test_master_paused),
        E2E_TEST(test_master_wakes_while_it_is_connected_to),
        E2E_TEST(test_sentinel_that_missed_a_failover),
        E2E_TEST(test_sentinel_that_tells_of_a_former_failover),
        E2E_TEST(test_master_becomes_replica),
        E2E_TEST(test_only_a_learnt_sentinel_lives),
        E2E_TEST(test_no_sentinel_lives),
        E2E_TEST(test_lying_sentinels),
        E2E_TEST(test_sentinels_that_do_not_know_the_master),
        E2E_TEST(test_replicas_that_lag),
        E2E_TEST(test_master_that_was_a_replica),
        E2E_TEST(test_sentinel_login),
    };
    struct e2e_plan plan = {
        .name = "topology_sentinel", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
