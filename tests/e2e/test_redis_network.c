/* A bad network between rlockd and Redis: cut, silent, losing answers. */
#include "harness.h"

enum { RECOVER_MS = 6000, DEADLINE_MS = 3500, SOON_MS = 1500 };

/* One front end behind a proxy; the front end of the plan, w->a, has a good network. */
struct far {
    struct proxy *proxy;
    struct front *fe;
};

static struct far far_start(struct world *w)
{
    struct far far;

    far.proxy = proxy_start(w->redis);
    far.fe = front_start(w, "--redis", proxy_url(far.proxy, "", ""), NULL);
    return far;
}

static struct call *park(struct front *fe, const char *lock)
{
    struct call *call = call_put(fe, lock, token_new(fe->world), "wait_ms=50000");

    wait_until(waiter_count(fe->world->a, lock) == 1, 5000);
    return call;
}

/* A subscription that was cut just now comes again after 50 ms. */
static void cut_subscriptions(struct world *w)
{
    wait_until(redis_int(w->redis, "CLIENT KILL TYPE pubsub") >= 1, SOON_MS);
}

static void test_subscription_is_cut(struct world *w)
{
    for (int i = 0; i < 5; i++) {
        const char *lock = text(w, "cut/%d", i);
        const char *holder = token_new(w);
        struct call *call;

        expect_status(lock_put(w->a, lock, holder, "ttl_ms=60000"), 201);
        call = park(w->b, lock);
        cut_subscriptions(w);
        if (i % 2 == 0)
            nap_ms(i * 20);
        expect_status(lock_release(w->a, lock, holder), 200);
        /* L2: reconnect time and a second. */
        expect_status(call_await(call, SOON_MS), 201);
    }
}

static void test_all_connections_are_cut(struct world *w)
{
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "cut-all", holder, "ttl_ms=60000"), 201);
    call = park(w->b, "cut-all");
    cut_subscriptions(w);
    assert_true(redis_int(w->redis, "CLIENT KILL TYPE normal SKIPME yes") >= 1);
    wait_until(lock_release(w->a, "cut-all", holder)->status == 200, RECOVER_MS);
    expect_status(call_await(call, RECOVER_MS), 201);
    wait_until(front_ready(w->a) && front_ready(w->b), RECOVER_MS);
}

static void test_blackhole(struct world *w)
{
    struct far far = far_start(w);
    const char *holder = token_new(w), *token = token_new(w);
    struct call *waiting, *call;
    struct reply *r;

    expect_status(lock_put(w->a, "hole", holder, "ttl_ms=60000"), 201);
    waiting = park(far.fe, "hole");
    proxy_settle(far.proxy);
    proxy_set(far.proxy, PROXY_BLACKHOLE);
    call = call_put(far.fe, "hole-other", token, "ttl_ms=600000");
    r = call_await(call, DEADLINE_MS);
    expect_problem(r, 503, "redis-unavailable");
    wait_until(!front_ready(far.fe), RECOVER_MS);
    expect_status(http(far.fe, "GET", "/livez", NULL), 200);
    /* Meanwhile the lock is released elsewhere: that message never arrives. */
    expect_status(lock_release(w->a, "hole", holder), 200);
    proxy_set(far.proxy, PROXY_PASS);
    wait_until(front_ready(far.fe), RECOVER_MS);
    expect_status(call_await(waiting, RECOVER_MS), 201);
    nap_ms(500);
    wait_until(!redis_has(w->redis, "hole-other"), RECOVER_MS);
    stays_true(!redis_has(w->redis, "hole-other"), 500);
}

/* The connection for commands is replaced after its time-out. The subscriber's connection is
 * dead, too, and has to be replaced before an unlock message is missed. */
static void test_silent_connections(struct world *w)
{
    struct far far = far_start(w);
    const char *holder = token_new(w);
    struct call *waiting, *call;

    expect_status(lock_put(w->a, "silent", holder, "ttl_ms=60000"), 201);
    waiting = park(far.fe, "silent");
    proxy_settle(far.proxy);
    proxy_silence(far.proxy);
    call = call_put(far.fe, "silent-other", token_new(w), "ttl_ms=600000");
    expect_problem(call_await(call, DEADLINE_MS), 503, "redis-unavailable");
    wait_until(front_ready(far.fe), RECOVER_MS);
    expect_status(lock_release(w->a, "silent", holder), 200);
    expect_status(call_await(waiting, SOON_MS), 201);
}

/* Redis says that it has forgotten the script, and nothing more. */
static void test_silence_behind_a_forgotten_script(struct world *w)
{
    struct far far = far_start(w);
    struct call *call;
    size_t sent;

    proxy_settle(far.proxy);
    /* With TLS nobody can tell which answer says that. */
    proxy_set(far.proxy, redis_is_tls() ? PROXY_DELAY : PROXY_HOLD);
    redis_ok(w->redis, "SCRIPT FLUSH");
    sent = proxy_commands_len(far.proxy);
    call = call_put(far.fe, "forgotten", token_new(w), "ttl_ms=600000");
    /* EVALSHA is short; EVAL has the text of the script. */
    wait_until(proxy_commands_len(far.proxy) > sent + 3000, 5000);
    proxy_set(far.proxy, PROXY_BLACKHOLE);
    expect_problem(call_await(call, DEADLINE_MS), 503, "redis-unavailable");
    proxy_set(far.proxy, PROXY_PASS);
    wait_until(front_ready(far.fe), RECOVER_MS);
}

static void test_wait_ends_in_a_blackhole(struct world *w)
{
    struct far far = far_start(w);
    struct call *call;
    struct reply *r;

    expect_status(lock_put(w->a, "hole-end", token_new(w), "ttl_ms=60000"), 201);
    call = call_put(far.fe, "hole-end", token_new(w), "wait_ms=2000");
    wait_until(waiter_count(w->a, "hole-end") == 1, 5000);
    proxy_settle(far.proxy);
    proxy_set(far.proxy, PROXY_BLACKHOLE);
    r = call_await(call, 2000 + DEADLINE_MS);
    expect_true(r, r->status == 423 || r->status == 503);
}

static void test_lost_answer_of_an_acquire(struct world *w)
{
    struct far far = far_start(w);
    const char *confirmed = token_new(w), *forgotten = token_new(w);
    struct call *one, *two;
    struct reply *r;

    proxy_set(far.proxy, PROXY_DROP_REPLIES);
    one = call_put(far.fe, "lost/confirmed", confirmed, "ttl_ms=600000");
    two = call_put(far.fe, "lost/forgotten", forgotten, "ttl_ms=600000");
    wait_until(redis_has(w->redis, "lost/confirmed") && redis_has(w->redis, "lost/forgotten"),
               3000);
    r = call_await(one, DEADLINE_MS);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_problem(call_await(two, DEADLINE_MS), 503, "redis-unavailable");
    assert_true(proxy_dropped_len(far.proxy) > 0);
    /* The client does as it was told: the same token again, on a front end that works. */
    r = lock_put(w->a, "lost/confirmed", confirmed, "ttl_ms=600000");
    expect_true(r, r->status == 200 || r->status == 201);
    proxy_set(far.proxy, PROXY_PASS);
    wait_until(front_ready(far.fe), RECOVER_MS);
    /* What nobody asked for again is undone, what was confirmed is not. */
    wait_until(!redis_has(w->redis, "lost/forgotten"), RECOVER_MS);
    stays_true(redis_has(w->redis, "lost/confirmed"), 1000);
    r = lock_put(far.fe, "lost/confirmed", confirmed, NULL);
    expect_status(r, 200);
    expect_int(r, "hold_count", 1);
    expect_status(lock_release(far.fe, "lost/confirmed", confirmed), 200);
}

static void test_lost_answer_of_a_release(struct world *w)
{
    struct far far = far_start(w);
    const char *token = token_new(w);
    struct call *call;
    struct reply *r;

    expect_status(lock_put(far.fe, "lost-release", token, "ttl_ms=600000"), 201);
    proxy_set(far.proxy, PROXY_DROP_REPLIES);
    call = CALL(far.fe, .method = "DELETE", .path = "/v1/locks/lost-release", .token = token);
    wait_until(!redis_has(w->redis, "lost-release"), 3000);
    r = call_await(call, DEADLINE_MS);
    expect_true(r, r->status == 200 || r->status == 503);
    if (r->status == 503)
        expect_str(r, "outcome", "unknown");
    r = lock_release(w->a, "lost-release", token);
    expect_status(r, 200);
    expect_str(r, "state", "released");
    proxy_set(far.proxy, PROXY_PASS);
    wait_until(front_ready(far.fe), RECOVER_MS);
    expect_status(lock_release(far.fe, "lost-release", token), 200);
}

static void test_lost_answer_of_a_waiter(struct world *w)
{
    struct far far = far_start(w);
    const char *holder = token_new(w);
    struct call *waiting;
    struct reply *r;

    expect_status(lock_put(w->a, "lost-wait", holder, "ttl_ms=60000"), 201);
    waiting = park(far.fe, "lost-wait");
    proxy_settle(far.proxy);
    /* Its second try has to be over, else there is no subscription yet. */
    nap_ms(300);
    proxy_set(far.proxy, PROXY_DROP_REPLIES);
    expect_status(lock_release(w->a, "lost-wait", holder), 200);
    nap_ms(500);
    proxy_set(far.proxy, PROXY_PASS);
    /* The wake-up was lost with the rest; the connection is found dead or the poll sees it. */
    r = call_await(waiting, 12000);
    expect_true(r, r->status == 201 || r->status == 200);
}

static void test_resets_under_load(struct world *w)
{
    enum { CALLS = 100 };
    struct far far = far_start(w);
    struct call *calls[CALLS];
    int granted = 0, refused = 0;

    for (int i = 0; i < CALLS; i++) {
        calls[i] = call_put(far.fe, text(w, "reset/%d", i), token_new(w), "ttl_ms=600000");
        if (i != CALLS / 2)
            continue;
        wait_until(call_done(calls[0]), 5000);
        proxy_set(far.proxy, PROXY_RESET);
    }
    for (int i = 0; i < CALLS; i++) {
        struct reply *r = call_await(calls[i], 2 * DEADLINE_MS);

        granted += r->status == 201;
        refused += r->status == 503;
        if (r->status != 201)
            expect_problem(r, 503, "redis-unavailable");
    }
    assert_true(granted > 0 && refused > 0);
    proxy_set(far.proxy, PROXY_PASS);
    wait_until(front_ready(far.fe), RECOVER_MS);
    for (int i = 0; i < CALLS; i++) {
        const char *lock = text(w, "reset/%d", i);

        if (call_await(calls[i], 0)->status == 201)
            assert_true(redis_has(w->redis, lock));
        else
            wait_until(!redis_has(w->redis, lock), 3000);
    }
}

static void test_slow_network_is_only_slow(struct world *w)
{
    struct far far = far_start(w);
    const char *token = token_new(w);
    struct reply *r;

    proxy_set(far.proxy, PROXY_DELAY);
    r = lock_put(far.fe, "slow", token, "ttl_ms=20000");
    expect_status(r, 201);
    assert_true(r->done_ms - r->sent_ms >= 250);
    /* Counted from before Redis was asked. */
    expect_between(r, "remaining_ms", 1, 20000);
    expect_status(lock_release(far.fe, "slow", token), 200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_subscription_is_cut),
        E2E_TEST(test_all_connections_are_cut),
        E2E_TEST(test_blackhole),
        E2E_TEST(test_silent_connections),
        E2E_TEST(test_silence_behind_a_forgotten_script),
        E2E_TEST(test_wait_ends_in_a_blackhole),
        E2E_TEST(test_lost_answer_of_an_acquire),
        E2E_TEST(test_lost_answer_of_a_release),
        E2E_TEST(test_lost_answer_of_a_waiter),
        E2E_TEST(test_resets_under_load),
        E2E_TEST(test_slow_network_is_only_slow),
    };
    struct e2e_plan plan = {.name = "redis-network", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
