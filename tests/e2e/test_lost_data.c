/* Redis that comes back without what it had: who is told what, and how long grants are held
 * back. */
#include "counters.h"
#include "harness_session.h"

enum { RECOVER_MS = 8000, LONG_QUARANTINE_MS = 60000 };

/* What a test does in a quarantine takes longer on a busy machine. At most half a minute, which
 * a request of a test can wait. */
static int quarantine_ms(void)
{
    int64_t ms = patience_ms(8000);

    return ms < 30000 ? (int)ms : 30000;
}

static double losses(struct front *fe)
{
    return front_metric(fe, "rlockd_redis_data_losses_total", NULL);
}

static void restart(struct redis *redis, struct front *fe, bool with_data)
{
    redis_kill(redis);
    if (!with_data)
        redis_lose_data(redis);
    redis_return(redis);
    wait_until(front_ready(fe), RECOVER_MS);
}

/* What was refreshed last is in the file. */
static void settle(struct redis *redis)
{
    const char *before = redis_str(redis, "HGET rlockd:marker at");

    wait_until(!is_text(redis_str(redis, "HGET rlockd:marker at"), before), 5000);
    nap_ms(50);
}

static void test_loss_is_told(struct world *w)
{
    skip_on_masters(w); /* each master has its own marker */
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct session s = session_new(fe, NULL);
    const char *token = session_hold(fe, &s, "told", NULL);

    wait_until(redis_has(redis, "rlockd:marker"), 3000);
    restart(redis, fe, false);
    wait_until(losses(fe) == 1, 3000);
    json_t *line = front_log_find(fe, "redis: came back without its data");
    assert_non_null(line);
    json_decref(line);
    struct reply *r = keep_alive(fe, &s, NULL);
    expect_problem(r, 410, "session-ended");
    expect_str(r, "reason", "unknown");
    expect_problem(lock_renew(fe, "told", token, NULL), 410, "lease-ended");
    expect_status(lock_put(fe, "told", token_new(w), NULL), 201);
}

static void test_restart_with_data_is_no_loss(struct world *w)
{
    skip_on_masters(w); /* each master has its own marker */
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(fe, "kept", token, "ttl_ms=60000"), 201);
    wait_until(redis_has(redis, "rlockd:marker"), 3000);
    restart(redis, fe, true);
    settle(redis);
    assert_true(losses(fe) == 0);
    expect_status(lock_renew(fe, "kept", token, NULL), 200);
}

/* As after a failover to a replica that lagged: the session is there, its newest lease is not,
 * nor is the note of the lease. */
static void test_lost_lease_that_the_client_names(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct session s = session_new(fe, NULL);

    session_hold(fe, &s, "named/1", NULL);
    struct reply *second = session_put(fe, &s, "named/2", token_new(w), NULL);
    const char *lease_id = reply_str(second, "lease_id");
    redis_ok(redis, "DEL named/2 rlockd:lease:{named/2}:%s", lease_id);
    const char *field = text(w, "%s named/2", lease_id);
    assert_int_equal(redis_int(redis, "HDEL rlockd:session-leases:{%s} %s", s.id, field), 1);
    redis_ok(redis, "ZREM rlockd:session-due:{%s} %s", s.id, field);
    struct reply *r = keep_alive(fe, &s, text(w, "held=%s&wait_ms=5000", lease_id));
    expect_status(r, 200);
    assert_int_equal(json_array_size(reply_get(r, "lost")), 1);
    expect_str(r, "lost.0.lease_id", lease_id);
    expect_str(r, "lost.0.reason", "unknown");
    assert_int_equal(json_array_size(reply_get(r, "leases")), 1);
}

/* Of the waiters of a lock at one worker only the first makes attempts, which register it. */
static void test_waiters_that_are_lost(struct world *w)
{
    enum { WAITERS = 4 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *tokens[WAITERS];
    struct call *calls[WAITERS];

    expect_status(lock_put(fe, "lost/w", token_new(w), "ttl_ms=600000"), 201);
    for (int i = 0; i < WAITERS; i++) {
        tokens[i] = token_new(w);
        calls[i] = call_put(fe, "lost/w", tokens[i], "wait_ms=55000&ttl_ms=600000");
        wait_until(waiter_count(fe, "lost/w") == i + 1, 5000);
    }
    restart(redis, fe, false);
    expect_status(call_await(calls[0], 20000), 201);
    wait_until(waiter_count(fe, "lost/w") == 1, 9000);
    struct reply *r = lock_release(fe, "lost/w", tokens[2]);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_status(lock_release(fe, "lost/w", tokens[0]), 200);
    expect_status(call_await(calls[1], 4000), 201);
    assert_false(call_done(calls[2]) || call_done(calls[3]));
    expect_status(lock_release(fe, "lost/w", tokens[1]), 200);
    expect_problem(call_await(calls[2], 4000), 410, "lease-ended");
    expect_status(call_await(calls[3], 4000), 201);
}

static void test_fencing_tokens_grow(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    json_int_t last = 0;

    for (int i = 0; i < 3; i++) {
        struct reply *r = lock_put(fe, "fence", token_new(w), "ttl_ms=60000");
        expect_status(r, 201);
        expect_between(r, "fencing_token", last + 1, INT64_MAX);
        last = reply_int(r, "fencing_token");
        restart(redis, fe, false);
    }
    struct reply *r = lock_put(fe, "fence", token_new(w), "ttl_ms=60000");
    expect_between(r, "fencing_token", last + 1, INT64_MAX);
}

/* --- quarantine --------------------------------------------------------------------------- */

static bool is_quarantined(struct front *fe)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    return r->status == 200 && reply_int(r, "redis.quarantine_ms") > 0;
}

static void expect_quarantine(struct world *w, struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    expect_str(r, "reason", "quarantine");
    assert_non_null(reply_header(w, r, "Retry-After"));
}

static struct front *start_quarantined(struct world *w, struct redis *redis, int ms)
{
    return front_start(w, "--redis", redis->url, "--quarantine-ms", text(w, "%d", ms), NULL);
}

/* A Redis that has no marker is new, or has lost it: nobody knows. */
static void test_first_start(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = start_quarantined(w, redis, quarantine_ms());

    expect_quarantine(w, lock_put(fe, "first", token_new(w), NULL));
    wait_until(!is_quarantined(fe), 9000);
    expect_status(lock_put(fe, "first", token_new(w), NULL), 201);
    /* The next front end finds the marker. */
    struct front *other = start_quarantined(w, redis, quarantine_ms());
    wait_until(!is_quarantined(other), 1000);
    expect_status(lock_put(other, "second", token_new(w), NULL), 201);
}

static void test_grants_are_held_back(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = start_quarantined(w, redis, quarantine_ms());
    const char *held = token_new(w), *other = token_new(w);

    wait_until(!is_quarantined(fe), 9000);
    expect_status(lock_put(fe, "q/held", held, "ttl_ms=60000"), 201);
    expect_status(lock_put(fe, "q/other", other, "ttl_ms=60000"), 201);
    struct call *call = call_put(fe, "q/held", token_new(w), "wait_ms=50000&ttl_ms=60000");
    wait_until(waiter_count(fe, "q/held") == 1, 5000);
    restart(redis, fe, true);
    assert_true(is_quarantined(fe));
    wait_until(front_metric(fe, "rlockd_quarantined", NULL) == 1, 3000);
    expect_quarantine(w, lock_put(fe, "q/new", token_new(w), NULL));
    expect_status(lock_renew(fe, "q/held", held, NULL), 200);
    expect_status(lock_release(fe, "q/held", held), 200);
    struct front *late = start_quarantined(w, redis, quarantine_ms());
    assert_true(is_quarantined(late));
    assert_false(call_done(call));
    wait_until(!is_quarantined(fe), 9000);
    expect_status(call_await(call, 4000), 201);
    expect_status(lock_put(fe, "q/new", token_new(w), NULL), 201);
    expect_status(lock_renew(fe, "q/other", other, NULL), 200);
}

static void turn_to(struct proxy *proxy, struct redis *redis, struct front *fe)
{
    proxy_turn_to(proxy, redis);
    wait_until(front_ready(fe), RECOVER_MS);
}

/* Behind an address that moves. The old master was no replica meanwhile. */
static void test_old_master_that_comes_back(struct world *w)
{
    skip_on_masters(w); /* a node of a cluster says where the others are */
    struct redis *old = redis_start(w, NULL), *new = redis_start(w, NULL);
    struct proxy *proxy = proxy_start_before(old, "127.0.0.1", 0);
    struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), "--quarantine-ms",
                                   text(w, "%d", quarantine_ms()), NULL);

    wait_until(!is_quarantined(fe), 9000);
    expect_status(lock_put(fe, "q/old", token_new(w), NULL), 201);
    turn_to(proxy, new, fe);
    wait_until(losses(fe) == 1, 3000);
    turn_to(proxy, old, fe);
    expect_quarantine(w, lock_put(fe, "q/back", token_new(w), NULL));
    wait_until(losses(fe) == 2, 3000);
    expect_quarantine(w, lock_put(fe, "q/back", token_new(w), NULL));
}

static void test_every_kind_is_held_back(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = start_quarantined(w, redis, LONG_QUARANTINE_MS);
    struct session s = session_new(fe, NULL);

    expect_quarantine(w, lock_put(fe, "q/new", token_new(w), "wait_ms=20000"));
    expect_quarantine(w, lock_put(fe, "q/new", token_new(w), "kind=fair"));
    expect_quarantine(w, lock_put(fe, "q/new", token_new(w), "kind=read"));
    expect_quarantine(w, session_put(fe, &s, "q/new", token_new(w), NULL));
    expect_quarantine(
        w, http(fe, "PUT", "/v1/multi-locks?locks=%7Bq%7Da%20%7Bq%7Db", token_new(w)));
    assert_int_equal(json_array_size(redis_keys(redis, "q/")), 0);
    wait_until(redis_int(redis, "HLEN rlockd:session-leases:{%s}", s.id) == 1, 3000);
}

/* To drain is to acquire; permits are given back at any time. */
static void test_permits_are_held_back(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = start_quarantined(w, redis, LONG_QUARANTINE_MS);

    expect_status(counter_send(fe, "PUT", "semaphores/q?permits=5", NULL), 201);
    expect_quarantine(w, counter_send(fe, "POST", "semaphores/q/acquire", NULL));
    expect_quarantine(w, counter_send(fe, "POST", "semaphores/q/drain", NULL));
    expect_quarantine(w, counter_send(fe, "POST", "semaphores/q/drain", token_new(w)));
    expect_status(counter_send(fe, "POST", "semaphores/q/release", NULL), 200);
    assert_int_equal(counter_value(redis, "q"), 6);
    assert_int_equal(json_array_size(redis_keys(redis, "rlockd:idempotency:")), 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_loss_is_told),
        E2E_TEST(test_restart_with_data_is_no_loss),
        E2E_TEST(test_lost_lease_that_the_client_names),
        E2E_TEST(test_waiters_that_are_lost),
        E2E_TEST(test_fencing_tokens_grow),
        E2E_TEST(test_first_start),
        E2E_TEST(test_grants_are_held_back),
        E2E_TEST(test_old_master_that_comes_back),
        E2E_TEST(test_every_kind_is_held_back),
        E2E_TEST(test_permits_are_held_back),
    };
    struct e2e_plan plan = {.name = "lost_data", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
