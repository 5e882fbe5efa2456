/* --sync-replicas: nobody is told of what too few replicas have. */
#include <signal.h>

#include "counters.h"
#include "harness_session.h"
#include "sentinel.h"

enum { SOON_MS = 10000 };

/* A master with two replicas that follow it. */
struct group {
    struct redis *master, *replica[2];
    struct front *fe;
};

static bool follows(struct redis *replica)
{
    return strstr(redis_str(replica, "INFO replication"), "master_link_status:up") != NULL;
}

static struct group group_start_slow(struct world *w, const char *replicas,
                                     const char *timeout_ms)
{
    struct group g = {.master = redis_start_tcp(w, NULL)};
    const char *const flags[] = {"--replicaof", g.master->host, text(w, "%d", g.master->port),
                                 NULL};

    redis_ok(g.master, "CONFIG SET repl-diskless-sync-delay 0");
    for (int i = 0; i < 2; i++) {
        g.replica[i] = redis_start_tcp(w, flags);
        wait_until(follows(g.replica[i]), SOON_MS);
    }
    wait_until(redis_int(g.master, "WAIT 2 100") == 2, SOON_MS);
    g.fe = front_start(w, "--redis", g.master->url, "--sync-replicas", replicas,
                       "--sync-timeout-ms", timeout_ms, NULL);
    return g;
}

static struct group group_start(struct world *w, const char *replicas)
{
    return group_start_slow(w, replicas, "900");
}

static void freeze(struct group *g, int count)
{
    for (int i = 0; i < count; i++)
        redis_freeze(g->replica[i]);
}

static void thaw(struct group *g, int count)
{
    for (int i = 0; i < count; i++)
        redis_thaw(g->replica[i]);
    wait_until(redis_int(g->master, "WAIT 2 100") == 2, SOON_MS);
}

static void expect_not_replicated(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_str(r, "reason", "not-replicated");
}

static void test_told_when_replicas_have_it(struct world *w)
{
    struct group g = group_start_slow(w, "2", "900");
    const char *token = token_new(w);

    for (int i = 0; i < 20; i++) {
        const char *lock = text(w, "told/%d", i);
        expect_status(lock_put(g.fe, lock, token, "ttl_ms=60000"), 201);
        assert_true(redis_has(g.replica[0], lock) && redis_has(g.replica[1], lock));
    }
    expect_status(lock_renew(g.fe, "told/0", token, "ttl_ms=600000"), 200);
    assert_true(redis_int(g.replica[0], "PTTL told/0") > 500000);
    expect_status(lock_release(g.fe, "told/0", token), 200);
    assert_false(redis_has(g.replica[1], "told/0"));
}

/* One of two is enough where one is asked for. */
static void test_as_many_as_asked_for(struct world *w)
{
    struct group g = group_start(w, "1");

    freeze(&g, 1);
    expect_status(lock_put(g.fe, "one", token_new(w), "ttl_ms=60000"), 201);
    assert_true(redis_has(g.replica[1], "one"));
    freeze(&g, 2);
    expect_not_replicated(lock_put(g.fe, "two", token_new(w), "ttl_ms=60000"));
    thaw(&g, 2);
}

static void test_fewer_than_asked_for(struct world *w)
{
    struct group g = group_start(w, "2");

    freeze(&g, 1);
    expect_not_replicated(lock_put(g.fe, "both", token_new(w), "ttl_ms=60000"));
    thaw(&g, 1);
    expect_status(lock_put(g.fe, "both/2", token_new(w), "ttl_ms=60000"), 201);
}

/* A master that becomes a replica ends the WAIT that is under way, and refuses further scripts
 * and their WAIT: that is what a failover brings, and no error of rlockd. */
static void test_master_becomes_replica(struct world *w)
{
    struct group g = group_start(w, "2");

    freeze(&g, 1);
    struct call *call = call_put(g.fe, "former", token_new(w), "ttl_ms=60000");
    wait_until(redis_has(g.master, "former"), 3000);
    redis_ok(g.master, "REPLICAOF %s %d", g.replica[1]->host, g.replica[1]->port);
    struct reply *r = call_await(call, 3000);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    r = lock_put(g.fe, "former/2", token_new(w), "ttl_ms=60000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    wait_until(!front_ready(g.fe), 3000);
    if (front_log_find(g.fe, "redis: unexpected error") != NULL)
        FAIL("%s", front_log(g.fe));
    redis_thaw(g.replica[0]);
}

static void test_grant_is_withdrawn(struct world *w)
{
    struct group g = group_start(w, "1");
    const char *token = token_new(w);

    freeze(&g, 2);
    expect_not_replicated(lock_put(g.fe, "undone", token, "ttl_ms=60000"));
    wait_until(!redis_has(g.master, "undone"), 3000);
    expect_bool(lock_look(g.fe, "undone"), "locked", false); /* reading needs no replica */
    wait_until(!front_ready(g.fe), 3000);
    expect_str(http(g.fe, "GET", "/readyz", NULL), "detail",
               "too few replicas confirm what is written");
    assert_true(front_metric(g.fe, "rlockd_redis_not_replicated_total", NULL) >= 1);
    thaw(&g, 2);
    wait_until(front_ready(g.fe), SOON_MS);
    expect_status(lock_put(g.fe, "undone", token, "ttl_ms=60000"), 201);
    wait_until(front_metric(g.fe, "rlockd_pending_withdrawals", NULL) == 0, 3000);
}

/* The answer told nobody of the permits that were drained, and without a key no client can ask
 * for them again. */
static void test_drain_is_withdrawn(struct world *w)
{
    struct group g = group_start(w, "1");
    const char *key = token_new(w);

    expect_status(counter_send(g.fe, "PUT", "semaphores/drained?permits=5", NULL), 201);
    freeze(&g, 2);
    expect_not_replicated(counter_send(g.fe, "POST", "semaphores/drained/drain", NULL));
    wait_until(counter_value(g.master, "drained") == 5, 3000);
    expect_not_replicated(counter_send(g.fe, "POST", "semaphores/drained/drain", key));
    thaw(&g, 2);
    struct reply *r = counter_send(g.fe, "POST", "semaphores/drained/drain", key);
    expect_status(r, 200);
    expect_int(r, "permits", 5);
    wait_until(front_metric(g.fe, "rlockd_pending_withdrawals", NULL) == 0, 3000);
    stays_true(counter_value(g.master, "drained") == 0, 700);
}

/* Without a key a repetition would give the permits once more. */
static void test_who_may_repeat(struct world *w)
{
    struct group g = group_start(w, "1");
    struct reply *r;

    expect_status(counter_send(g.fe, "PUT", "semaphores/again?permits=5", NULL), 201);
    expect_status(counter_send(g.fe, "PUT", "latches/again-latch?count=5", NULL), 201);
    freeze(&g, 2);
    expect_not_replicated(r = counter_send(g.fe, "POST", "semaphores/again/release", NULL));
    assert_non_null(strstr(reply_str(r, "detail"), "only requests with an Idempotency-Key"));
    expect_not_replicated(
        r = counter_send(g.fe, "POST", "latches/again-latch/count-down", NULL));
    assert_non_null(strstr(reply_str(r, "detail"), "only requests with an Idempotency-Key"));
    expect_not_replicated(
        r = counter_send(g.fe, "POST", "semaphores/again/release", token_new(w)));
    assert_non_null(strstr(reply_str(r, "detail"), "repeat the request with the same token"));
    expect_not_replicated(r = counter_send(g.fe, "DELETE", "semaphores/again", NULL));
    assert_non_null(strstr(reply_str(r, "detail"), "the same request may be repeated"));
    thaw(&g, 2);
}

/* What was done is done, and the same request says so when the replicas are back. */
static void test_renewals_and_releases_are_unknown(struct world *w)
{
    struct group g = group_start(w, "1");
    const char *renewed = token_new(w), *released = token_new(w);
    struct session s = session_new(g.fe, NULL);

    expect_status(lock_put(g.fe, "renewed", renewed, "ttl_ms=60000"), 201);
    expect_status(lock_put(g.fe, "released", released, "ttl_ms=60000"), 201);
    freeze(&g, 2);
    expect_not_replicated(lock_renew(g.fe, "renewed", renewed, "ttl_ms=600000"));
    expect_not_replicated(lock_release(g.fe, "released", released));
    expect_not_replicated(keep_alive(g.fe, &s, NULL));
    assert_false(redis_has(g.master, "released"));
    thaw(&g, 2);
    expect_status(lock_renew(g.fe, "renewed", renewed, "ttl_ms=600000"), 200);
    expect_status(lock_release(g.fe, "released", released), 200);
    expect_alive(keep_alive(g.fe, &s, NULL), 0);
}

/* The repeated release writes nothing, and comes over another connection than the release. */
static void test_what_others_wrote_is_awaited(struct world *w)
{
    enum { TRIES = 6 };
    struct group g = group_start_slow(w, "1", "200");
    struct front *other = front_start(w, "--redis", g.master->url, "--sync-replicas", "1",
                                      "--sync-timeout-ms", "200", NULL);

    for (int i = 0; i < TRIES; i++) {
        const char *lock = text(w, "others/%d", i), *token = token_new(w);
        wait_until(lock_put(g.fe, lock, token, "ttl_ms=60000")->status / 100 == 2, SOON_MS);
        freeze(&g, 2);
        expect_not_replicated(lock_release(g.fe, lock, token));
        expect_not_replicated(lock_release(other, lock, token));
        thaw(&g, 2);
        nap_ms(150 * i); /* the marker is written each second */
    }
}

/* Neither answer tells the operator that it was this request that freed the lock: the audit
 * trail does. */
static void test_force_is_in_the_audit_trail(struct world *w)
{
    static const char path[] = "/v1/locks/forced";
    static const char force[] = "/v1/locks/forced/force-unlock?reason=it+hangs";
    struct group g = group_start(w, "1");
    const char *token = bearer(w, "ops-secret-bbbbbbbbbb"), *log, *line;
    const char *tokens = tokens_write(w, "tokens",
                                      "anna {ops-secret-bbbbbbbbbb} lock=* read=* operate=*\n");
    struct front *fe = front_start(w, "--redis", g.master->url, "--sync-replicas", "1",
                                   "--sync-timeout-ms", "900", "--api-tokens", tokens, NULL);

    expect_status(
        HTTP(fe, .method = "PUT", .path = path, .token = token_new(w), .headers = {token}),
        201);
    freeze(&g, 2);
    expect_not_replicated(HTTP(fe, .method = "POST", .path = force, .headers = {token}));
    expect_bool(HTTP(fe, .method = "GET", .path = path, .headers = {token}), "locked", false);
    wait_until(strstr(log = front_log(fe), "\"audit\":true") != NULL, SOON_MS);
    line = strstr(log, "\"audit\":true");
    while (line > log && line[-1] != '\n')
        line--;
    line = text(w, "%.*s", (int)strcspn(line, "\n"), line);
    assert_non_null(strstr(line, "\"lock\":\"forced\""));
    assert_non_null(strstr(line, "\"caller\":\"anna\""));
    assert_non_null(strstr(line, "\"forced_reason\":\"it hangs\""));
    assert_non_null(strstr(line, "\"reason\":\"not-replicated\""));
}

static void test_waiters_wait_on(struct world *w)
{
    struct group g = group_start(w, "1");
    const char *holder = token_new(w);

    expect_status(lock_put(g.fe, "queue", holder, "ttl_ms=60000"), 201);
    struct call *call = call_put(g.fe, "queue", token_new(w), "wait_ms=50000&ttl_ms=60000");
    wait_until(waiter_count(g.fe, "queue") == 1, 5000);
    freeze(&g, 2);
    expect_not_replicated(lock_release(g.fe, "queue", holder));
    nap_ms(1500);
    assert_false(call_done(call));
    thaw(&g, 2);
    struct reply *r = call_await(call, SOON_MS);
    expect_true(r, r->status == 200 || r->status == 201);
    assert_true(redis_has(g.replica[0], "queue") || redis_has(g.replica[1], "queue"));
}

/* One WAIT for all that comes while another is under way. */
static void test_requests_share_a_wait(struct world *w)
{
    enum { CALLS = 200 };
    struct group g = group_start_slow(w, "2", "900");
    struct call *calls[CALLS];
    long long before = redis_calls(g.master, "wait");

    for (int i = 0; i < CALLS; i++)
        calls[i] = call_put(g.fe, text(w, "share/%d", i), token_new(w), "ttl_ms=60000");
    for (int i = 0; i < CALLS; i++)
        expect_status(call_await(calls[i], SOON_MS), 201);
    long long after = redis_calls(g.master, "wait");
    print_message("%lld WAITs for %d grants\n", after - before, CALLS);
    assert_true(after > before && after - before < CALLS);
}

static void test_off(struct world *w)
{
    struct group g = group_start(w, "0");
    long long before = redis_calls(g.master, "wait");

    freeze(&g, 2);
    expect_status(lock_put(g.fe, "off", token_new(w), NULL), 201);
    assert_int_equal(redis_calls(g.master, "wait"), before);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_told_when_replicas_have_it),
        E2E_TEST(test_as_many_as_asked_for),
        E2E_TEST(test_fewer_than_asked_for),
        E2E_TEST(test_master_becomes_replica),
        E2E_TEST(test_grant_is_withdrawn),
        E2E_TEST(test_drain_is_withdrawn),
        E2E_TEST(test_who_may_repeat),
        E2E_TEST(test_renewals_and_releases_are_unknown),
        E2E_TEST(test_what_others_wrote_is_awaited),
        E2E_TEST(test_force_is_in_the_audit_trail),
        E2E_TEST(test_waiters_wait_on),
        E2E_TEST(test_requests_share_a_wait),
        E2E_TEST(test_off),
    };
    struct e2e_plan plan = {
        .name = "topology_replicas", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
