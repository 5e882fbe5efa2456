/* The narrow places where a wake-up can be lost, held open by a Redis that answers late. */
#include "harness.h"

enum {
    IN_TIME_MS = 2500 /* some late round-trips, and well before the poll of 4 s */
};

struct slow {
    struct proxy *proxy;
    struct front *fe;
};

static struct slow slow_start(struct world *w)
{
    struct slow slow;

    slow.proxy = proxy_start(w->redis);
    slow.fe = front_start(w, "--redis", proxy_url(slow.proxy, "", ""), NULL);
    return slow;
}

/* Until the front end and Redis have nothing to say to each other any more. */
static void settle(struct slow *slow)
{
    proxy_settle(slow->proxy);
}

static struct call *park(struct world *w, struct slow *slow, const char *lock,
                         const char *query)
{
    int before = waiter_count(w->a, lock);
    struct call *call = call_put(slow->fe, lock, token_new(w), query);

    wait_until(waiter_count(w->a, lock) == before + 1, 5000);
    return call;
}

/* Released after the first try and before the subscription: no message comes. */
static void test_before_the_subscription(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "unsubscribed", holder, "ttl_ms=60000"), 201);
    settle(&slow);
    proxy_set(slow.proxy, PROXY_HOLD);
    scripts_count_from_now(w->redis);
    call = call_put(slow.fe, "unsubscribed", token_new(w), "wait_ms=30000");
    wait_until(scripts_about(w->redis, "unsubscribed") > 0, 3000);
    expect_status(lock_release(w->a, "unsubscribed", holder), 200);
    proxy_set(slow.proxy, PROXY_PASS);
    expect_status(call_await(call, IN_TIME_MS), 201);
}

/* The message of the release overtakes the answer "busy" of a try before it; nobody else waits
 * there, but the subscription of an earlier waiter still stands. */
static void test_message_overtakes_the_first_answer(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "overtaken", holder, "ttl_ms=60000"), 201);
    call = park(w, &slow, "overtaken", "wait_ms=30000");
    settle(&slow);
    call_hang_up(call);
    wait_until(waiter_count(w->a, "overtaken") == 0, 2000);
    proxy_set(slow.proxy, PROXY_DELAY_COMMANDS);
    scripts_count_from_now(w->redis);
    call = call_put(slow.fe, "overtaken", token_new(w), "wait_ms=30000");
    wait_until(scripts_about(w->redis, "overtaken") > 0, 3000);
    expect_status(lock_release(w->a, "overtaken", holder), 200);
    expect_status(call_await(call, IN_TIME_MS), 201);
}

/* The same with a waiter whose turn it is: a message during a try means another try. */
static void test_message_during_a_turn(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "turn", holder, "ttl_ms=60000"), 201);
    call = park(w, &slow, "turn", "wait_ms=30000");
    settle(&slow);
    proxy_set(slow.proxy, PROXY_DELAY_COMMANDS);
    scripts_count_from_now(w->redis);
    redis_ok(w->redis, "PUBLISH redisson_lock__channel:{turn} 0");
    wait_until(scripts_about(w->redis, "turn") > 0, 3000);
    expect_status(lock_release(w->a, "turn", holder), 200);
    expect_status(call_await(call, IN_TIME_MS), 201);
}

/* The alarm rings, the waiter whose turn it is goes, and the lock had been renewed: the waiter
 * behind it has to set the alarm anew. */
static void test_turn_is_handed_on(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *first, *second;
    int lease_ms = (int)patience_ms(1500);

    assert_true(redisson_lock(w->redis, "hand-on", JAVA_HOLDER, lease_ms));
    first = park(w, &slow, "hand-on", "wait_ms=30000");
    second = park(w, &slow, "hand-on", "wait_ms=30000");
    settle(&slow);
    proxy_set(slow.proxy, PROXY_DELAY);
    scripts_count_from_now(w->redis);
    assert_int_equal(redis_int(w->redis, "PEXPIRE hand-on %d", lease_ms + 2500), 1);
    wait_until(scripts_about(w->redis, "hand-on") > 0, 3000);
    assert_true(redis_has(w->redis, "hand-on"));
    call_hang_up(first);
    expect_status(call_await(second, 4000 + IN_TIME_MS), 201);
}

/* A connection that looks alive and brings no messages is found out and replaced. */
static void test_deaf_subscription_is_replaced(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w);
    struct call *call;
    double connects;

    expect_status(lock_put(w->a, "deaf", holder, "ttl_ms=60000"), 201);
    call = park(w, &slow, "deaf", "wait_ms=50000");
    settle(&slow);
    connects = front_metric(slow.fe, "rlockd_redis_connects_total", NULL);
    size_t lost = proxy_dropped_len(slow.proxy);
    proxy_set(slow.proxy, PROXY_DEAF);
    wait_until(proxy_dropped_len(slow.proxy) > lost, 5000); /* a heartbeat's answer */
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(front_metric(slow.fe, "rlockd_redis_connects_total", NULL) > connects, 6000);
    assert_false(call_done(call));
    expect_status(lock_release(w->a, "deaf", holder), 200);
    expect_status(call_await(call, IN_TIME_MS), 201);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_before_the_subscription),
        E2E_TEST(test_message_overtakes_the_first_answer),
        E2E_TEST(test_message_during_a_turn),
        E2E_TEST(test_turn_is_handed_on),
        E2E_TEST(test_deaf_subscription_is_replaced),
    };
    struct e2e_plan plan = {.name = "lost-wakeups", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
