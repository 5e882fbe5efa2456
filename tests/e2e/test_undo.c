/* A grant whose client has gone is undone, unless the client was told of it elsewhere. */
#include "harness.h"

enum { SOON_MS = 1500 };

/* A front end whose Redis answers late: time enough to go while the grant is under way. */
struct slow {
    struct proxy *proxy;
    struct front *fe;
};

static struct slow slow_start(struct world *w)
{
    struct slow slow;

    slow.proxy = proxy_start(w->redis);
    slow.fe = front_start(w, "--redis", proxy_url(slow.proxy, "", ""), NULL);
    proxy_settle(slow.proxy); /* what it asks at its start */
    return slow;
}

/* And only then the front end hears from Redis. */
static void hang_up(struct slow *slow, struct call *call)
{
    call_hang_up(call);
    proxy_set(slow->proxy, PROXY_PASS);
}

/* A waiter on the slow front end that has been granted the lock and does not know it yet. */
static struct call *grant_under_way(struct world *w, struct slow *slow, const char *lock,
                                    const char *token)
{
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, lock, holder, "ttl_ms=60000"), 201);
    call = call_put(slow->fe, lock, token, "wait_ms=30000&ttl_ms=60000");
    wait_until(waiter_count(w->a, lock) == 1, 5000);
    /* The subscription and the second try have been answered when nothing moves any more. */
    proxy_settle(slow->proxy);
    proxy_set(slow->proxy, PROXY_HOLD);
    expect_status(lock_release(w->a, lock, holder), 200);
    wait_until(redis_has(w->redis, lock), 3000);
    assert_false(call_done(call));
    return call;
}

static void test_a_grant_to_nobody_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *token = token_new(w);
    struct call *call = grant_under_way(w, &slow, "undo", token);

    hang_up(&slow, call);
    wait_until(!redis_has(w->redis, "undo"), SOON_MS);
    assert_int_equal(waiter_count(w->a, "undo"), 0);
    expect_status(lock_put(w->a, "undo", token_new(w), NULL), 201);
}

/* The same for one who did not mean to wait: Redis is what takes its time. */
static void test_a_grant_without_waiting_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *call;

    proxy_set(slow.proxy, PROXY_HOLD);
    call = call_put(slow.fe, "undo-try", token_new(w), "ttl_ms=60000");
    wait_until(redis_has(w->redis, "undo-try"), 3000);
    assert_false(call_done(call));
    hang_up(&slow, call);
    wait_until(!redis_has(w->redis, "undo-try"), SOON_MS);
}

/* A server-made token that nobody has seen: nobody could ever release that lease. */
static void test_a_grant_with_an_unseen_token_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *call;

    proxy_set(slow.proxy, PROXY_HOLD);
    call = CALL(slow.fe, .method = "POST", .path = "/v1/locks/undo-post?ttl_ms=60000");
    wait_until(redis_has(w->redis, "undo-post"), 3000);
    assert_false(call_done(call));
    hang_up(&slow, call);
    wait_until(!redis_has(w->redis, "undo-post"), SOON_MS);
}

static void test_the_undo_wakes_the_next(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *next, *call = grant_under_way(w, &slow, "undo-next", token_new(w));

    next = call_put(w->a, "undo-next", token_new(w), "wait_ms=30000");
    hang_up(&slow, call);
    expect_status(call_await(next, SOON_MS), 201);
}

static void test_the_undone_token_may_come_back(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *token = token_new(w);
    struct call *call = grant_under_way(w, &slow, "undo-back", token);
    struct reply *r;

    hang_up(&slow, call);
    wait_until(!redis_has(w->redis, "undo-back"), SOON_MS);
    /* Its client never saw the grant: to it, this is the same request once more. */
    r = lock_put(w->a, "undo-back", token, "wait_ms=2000");
    expect_true(r, r->status == 201 || r->status == 410);
}

static void test_a_confirmed_grant_stays(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *token = token_new(w);
    struct call *call = grant_under_way(w, &slow, "claimed", token);

    expect_status(lock_put(w->a, "claimed", token, NULL), 200);
    hang_up(&slow, call);
    stays_true(redis_has(w->redis, "claimed"), 1200);
    expect_status(lock_put(w->a, "claimed", token, NULL), 200);
    expect_status(lock_release(w->b, "claimed", token), 200);
}

/* Several go at once; nothing is left of them and the one that stays gets the lock. */
static void test_a_crowd_that_leaves(struct world *w)
{
    enum { CROWD = 10 };
    struct slow slow = slow_start(w);
    const char *holder = token_new(w);
    struct call *calls[CROWD], *stays;

    expect_status(lock_put(w->a, "crowd", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < CROWD; i++)
        calls[i] = call_put(slow.fe, "crowd", token_new(w), "wait_ms=30000&ttl_ms=60000");
    wait_until(waiter_count(w->a, "crowd") == CROWD, 5000);
    stays = call_put(slow.fe, "crowd", token_new(w), "wait_ms=30000");
    wait_until(waiter_count(w->a, "crowd") == CROWD + 1, 5000);
    proxy_set(slow.proxy, PROXY_HOLD);
    expect_status(lock_release(w->a, "crowd", holder), 200);
    for (int i = 0; i < CROWD; i++)
        call_hang_up(calls[i]);
    proxy_set(slow.proxy, PROXY_PASS);
    expect_status(call_await(stays, 4000), 201);
    wait_until(waiter_count(w->a, "crowd") == 0, 3000);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_grant_to_nobody_is_undone),
        E2E_TEST(test_a_grant_without_waiting_is_undone),
        E2E_TEST(test_a_grant_with_an_unseen_token_is_undone),
        E2E_TEST(test_the_undo_wakes_the_next),
        E2E_TEST(test_the_undone_token_may_come_back),
        E2E_TEST(test_a_confirmed_grant_stays),
        E2E_TEST(test_a_crowd_that_leaves),
    };
    struct e2e_plan plan = {.name = "undo", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
