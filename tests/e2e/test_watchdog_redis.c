/* The watchdog and a Redis that stalls, dies, comes back, or has no memory left. */
#include "harness_session.h"

enum { RECOVER_MS = 6000 };

/* Longer than a fault of two seconds, also on a busy machine: a third may be over before it. */
static int timeout_ms(void)
{
    return 2000 + (int)patience_ms(1000);
}

/* A Redis and two front ends for one test to ruin. */
struct trio {
    struct redis *redis;
    struct front *a, *b;
};

static struct trio trio_start(struct world *w)
{
    struct trio t = {.redis = redis_start(w, NULL)};
    const char *timeout = text(w, "%d", timeout_ms());

    t.a = front_start(w, "--redis", t.redis->url, "--watchdog-timeout-ms", timeout, NULL);
    t.b = front_start(w, "--redis", t.redis->url, "--watchdog-timeout-ms", timeout, NULL);
    return t;
}

static void test_a_stall_loses_nothing(struct world *w)
{
    struct trio t = trio_start(w);
    struct session s = session_new(t.a, NULL);
    json_int_t fence;

    session_hold(t.a, &s, "stall", NULL);
    fence = fence_of(t.a, "stall");
    for (int i = 0; i < 2; i++) {
        redis_freeze(t.redis);
        nap_ms(1500);
        redis_thaw(t.redis);
        stays_true(redis_has(t.redis, "stall"), 1500);
    }
    stays_true(redis_has(t.redis, "stall"), timeout_ms());
    expect_alive(keep_alive(t.b, &s, NULL), 1);
    assert_int_equal(fence_of(t.b, "stall"), fence);
}

static void test_a_restart_loses_nothing(struct world *w)
{
    skip_on_masters(
        w); /* a cluster that starts serves nobody for longer than the leases last */
    struct trio t = trio_start(w);
    struct session s = session_new(t.a, NULL);
    json_int_t fence;

    session_hold(t.a, &s, "restart", NULL);
    session_hold(t.b, &s, "restart-owner", "owner=me");
    fence = fence_of(t.a, "restart");
    redis_kill(t.redis);
    nap_ms(400);
    redis_return(t.redis);
    stays_true(redis_has(t.redis, "restart") && redis_has(t.redis, "restart-owner"),
               2 * timeout_ms());
    wait_until(front_ready(t.a) && front_ready(t.b), RECOVER_MS);
    expect_alive(keep_alive(t.a, &s, NULL), 2);
    expect_alive(keep_alive(t.b, &s, NULL), 2);
    assert_int_equal(fence_of(t.b, "restart"), fence);
}

/* A grant that its client never heard of is taken back, however long Redis was away from the
 * front end that asked for it: another one's watchdog renews the lease meanwhile. */
static void test_a_late_withdrawal_of_a_kept_lease(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *far = front_start(w, "--redis", proxy_url(proxy, "", ""), "--retry-window-ms",
                                    "1000", WATCHDOG_FLAGS, NULL);
    struct front *near = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(near, "ttl_ms=300000"), other = session_new(near, NULL);
    const char *first = session_hold(near, &other, "late", NULL);
    struct call *call = session_call_put(far, &s, "late", token_new(w), "wait_ms=30000");

    wait_until(waiter_count(near, "late") == 1, RECOVER_MS);
    proxy_settle(proxy);
    proxy_set(proxy, PROXY_HOLD);
    expect_status(lock_release(near, "late", first), 200);
    wait_until(redis_has(redis, "late"), RECOVER_MS);
    proxy_set(proxy, PROXY_RESET);
    call_hang_up(call);
    stays_true(redis_has(redis, "late"), watchdog_ms() + 2500);
    proxy_set(proxy, PROXY_PASS);
    wait_until(!redis_has(redis, "late"), RECOVER_MS);
    expect_alive(keep_alive(near, &s, NULL), 0);
}

/* Longer than the lease: it is over, and nobody makes it anew. */
static void test_a_long_stall_is_a_loss(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL);
    struct reply *r;

    session_hold(fe, &s, "long-stall", NULL);
    redis_freeze(redis);
    nap_ms(3 * watchdog_ms());
    redis_thaw(redis);
    stays_true(!redis_has(redis, "long-stall"), 2 * watchdog_ms());
    wait_until((r = keep_alive(fe, &s, NULL))->status == 200, RECOVER_MS);
    expect_loss(r, "long-stall", "expired");
    session_hold(fe, &s, "long-stall", NULL);
    stays_true(redis_has(redis, "long-stall"), 2 * watchdog_ms());
}

/* Everything is gone: no session, no lease, and nobody is told otherwise. */
static void test_lost_data_ends_the_session(struct world *w)
{
    struct trio t = trio_start(w);
    struct session s = session_new(t.a, NULL);
    struct call *call;
    struct reply *r;

    session_hold(t.a, &s, "amnesia", NULL);
    call = keep_alive_hang(t.b, &s, 14000);
    stays_true(!call_done(call), 100);
    redis_kill(t.redis);
    redis_lose_data(t.redis);
    redis_return(t.redis);
    r = call_await(call, RECOVER_MS);
    expect_true(r, r->status == 410 || r->status == 503);
    wait_until(front_ready(t.a), RECOVER_MS);
    r = keep_alive(t.a, &s, NULL);
    expect_problem(r, 410, "session-ended");
    stays_true(!redis_has(t.redis, "amnesia"), timeout_ms() / 2);
}

static void test_a_hanging_keep_alive_outlives_a_restart(struct world *w)
{
    struct trio t = trio_start(w);
    struct session s = session_new(t.a, NULL);
    struct call *call;
    struct reply *r;

    session_hold(t.a, &s, "hang-restart", "ttl_ms=60000");
    call = keep_alive_hang(t.b, &s, 14000);
    stays_true(!call_done(call), 100);
    redis_kill(t.redis);
    nap_ms(200);
    redis_return(t.redis);
    wait_until(front_ready(t.a) && front_ready(t.b), RECOVER_MS);
    nap_ms(500);
    if (call_done(call)) /* a definite word is fine, too: the client asks again */
        expect_problem(call_await(call, 0), 503, "redis-unavailable");
    else
        expect_status(force_unlock(t.a, "hang-restart"), 200);
    r = call_await(call, RECOVER_MS);
    if (r->status == 200)
        expect_loss(r, "hang-restart", "forced");
}

/* A lease that was renewed, and then is not there at all, is told as lost. */
static void test_a_lease_that_vanished_is_told(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL);
    struct reply *r = session_put(fe, &s, "vanished", token_new(w), NULL);
    const char *lease_id = reply_str(r, "lease_id");
    const char *field = text(w, "%s vanished", lease_id);

    wait_until(strstr(redis_str(redis, "HGET rlockd:session-leases:{%s} %s", s.id, field),
                      " +lock") != NULL,
               RECOVER_MS);
    redis_ok(redis, "DEL vanished rlockd:lease:{vanished}:%s", lease_id);
    wait_until(losses_len(r = keep_alive(fe, &s, NULL)) == 1, RECOVER_MS);
    expect_loss(r, "vanished", "unknown");
    assert_int_equal(leases_len(r), 0);
}

/* What renews, tells and frees has to work when there is no memory left. */
static void test_no_memory_left(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL), silent = session_new(fe, ttl_of(w, 1000));
    const char *token = session_hold(fe, &s, "oom/1", NULL);
    const char *shared = session_hold(fe, &s, "oom/2", "owner=me");
    struct reply *r;

    skip_with_slots(w);
    session_hold(fe, &s, "oom/2", "owner=me");
    session_hold(fe, &s, "oom/3", NULL);
    session_hold(fe, &s, "oom/4", "ttl_ms=60000");
    session_hold(fe, &silent, "oom/5", "ttl_ms=60000");
    redis_ok(redis, "CONFIG SET maxmemory 1");
    stays_true(redis_has(redis, "oom/1") && redis_has(redis, "oom/2"), 3 * watchdog_ms());
    wait_until(!redis_has(redis, "oom/5"), 2000); /* its session fell silent */
    expect_alive(keep_alive(fe, &s, NULL), 5);
    redis_ok(redis, "DEL oom/3");
    wait_until(losses_len(r = keep_alive(fe, &s, NULL)) == 1, 1500);
    expect_loss(r, "oom/3", "expired");
    expect_int(lock_release(fe, "oom/2", shared), "hold_count", 1);
    expect_status(lock_renew(fe, "oom/1", token, NULL), 200);
    expect_status(lock_release(fe, "oom/1", token), 200);
    expect_problem(session_put(fe, &s, "oom/6", token_new(w), NULL), 503, "redis-unavailable");
    r = session_end(fe, &s);
    expect_status(r, 200);
    expect_int(r, "released", 2);
    assert_int_equal(json_array_size(redis_keys(redis, "oom/")), 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_stall_loses_nothing),
        E2E_TEST(test_a_restart_loses_nothing),
        E2E_TEST(test_a_late_withdrawal_of_a_kept_lease),
        E2E_TEST(test_a_long_stall_is_a_loss),
        E2E_TEST(test_lost_data_ends_the_session),
        E2E_TEST(test_a_hanging_keep_alive_outlives_a_restart),
        E2E_TEST(test_a_lease_that_vanished_is_told),
        E2E_TEST(test_no_memory_left),
    };
    struct e2e_plan plan = {.name = "watchdog-redis", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
