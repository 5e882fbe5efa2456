/* Requests that come twice, late, or on another front end: one token, one lease. */
#include "harness.h"

static void test_repeats_on_the_other_front_end(struct world *w)
{
    const char *token = token_new(w);
    struct reply *first = lock_put(w->a, "two", token, "ttl_ms=20000");
    struct reply *r;

    expect_status(first, 201);
    for (int i = 0; i < 3; i++) {
        r = lock_put(i % 2 == 0 ? w->b : w->a, "two", token, "ttl_ms=20000");
        expect_status(r, 200);
        expect_str(r, "lease_id", reply_str(first, "lease_id"));
        expect_int(r, "fencing_token", reply_int(first, "fencing_token"));
        expect_int(r, "hold_count", 1);
    }
    assert_string_equal(redis_do(w->redis, "HVALS two")->element[0]->str, "1");
    expect_status(lock_renew(w->b, "two", token, NULL), 200);
    expect_status(lock_release(w->b, "two", token), 200);
    r = lock_release(w->a, "two", token);
    expect_status(r, 200);
    expect_str(r, "state", "released");
    expect_int(r, "hold_count", 0);
}

static void test_delete_before_put_wins(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_release(w->a, "overtaken", token);

    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_problem(lock_put(w->b, "overtaken", token, NULL), 410, "lease-ended");
    expect_problem(lock_put(w->a, "overtaken", token, "wait_ms=10000"), 410, "lease-ended");
    assert_false(redis_has(w->redis, "overtaken"));
    /* Also while somebody else holds it: no waiting for nothing. */
    expect_status(lock_put(w->a, "overtaken", token_new(w), NULL), 201);
    expect_problem(lock_put(w->b, "overtaken", token, "wait_ms=10000"), 410, "lease-ended");
}

static void test_late_duplicate_takes_nothing(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "late", token, NULL), 201);
    expect_status(lock_release(w->a, "late", token), 200);
    r = lock_put(w->b, "late", token, "wait_ms=5000");
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "released");
    assert_false(redis_has(w->redis, "late"));
}

static void check_one_grant(struct world *w, const char *lock, struct reply *one,
                            struct reply *two)
{
    expect_true(one, one->status == 201 || one->status == 200);
    expect_true(two, two->status == 201 || two->status == 200);
    expect_true(one, one->status == 201 || two->status == 201);
    expect_str(one, "state", "held");
    expect_str(two, "state", "held");
    expect_str(one, "lease_id", reply_str(two, "lease_id"));
    expect_int(one, "fencing_token", reply_int(two, "fencing_token"));
    assert_int_equal(redis_int(w->redis, "HLEN %s", lock), 1);
    assert_string_equal(redis_do(w->redis, "HVALS %s", lock)->element[0]->str, "1");
}

static void two_puts_while_busy(struct world *w, const char *lock, struct front *second)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *one, *two;

    expect_status(lock_put(w->a, lock, holder, "ttl_ms=60000"), 201);
    one = call_put(w->a, lock, token, "wait_ms=20000&ttl_ms=30000");
    wait_until(waiter_count(w->a, lock) == 1, 5000);
    two = call_put(second, lock, token, "wait_ms=20000&ttl_ms=30000");
    /* There is one waiter, as there is one token; wait until the second one has arrived. */
    stays_true(waiter_count(w->a, lock) == 1 && !call_done(one) && !call_done(two), 300);
    expect_status(lock_release(w->b, lock, holder), 200);
    check_one_grant(w, lock, call_await(one, 10000), call_await(two, 10000));
    wait_until(waiter_count(w->b, lock) == 0, 2000);
    expect_status(lock_release(w->a, lock, token), 200);
    assert_false(redis_has(w->redis, lock));
}

static void test_two_puts_of_one_token_on_two_front_ends(struct world *w)
{
    two_puts_while_busy(w, "twins-apart", w->b);
}

static void test_two_puts_of_one_token_on_one_front_end(struct world *w)
{
    two_puts_while_busy(w, "twins-together", w->a);
}

static bool is_waiting(struct world *w, const char *lock, const char *token)
{
    const char *state = reply_str(http(w->a, "GET", lock_path(w, lock, ""), token),
                                  "lease.state");

    return state != NULL && strcmp(state, "waiting") == 0;
}

/* One of two requests of a token goes: the other waits on, and is the last to leave. */
static void test_twins_that_hang_up(struct world *w)
{
    for (int order = 0; order < 2; order++) {
        const char *lock = text(w, "twins-gone/%d", order);
        const char *token = token_new(w);
        struct call *twins[2];

        expect_status(lock_put(w->a, lock, token_new(w), "ttl_ms=60000"), 201);
        twins[0] = call_put(w->a, lock, token, "wait_ms=20000");
        wait_until(waiter_count(w->a, lock) == 1, 5000);
        twins[1] = call_put(w->b, lock, token, "wait_ms=20000");
        wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 1, 5000);
        call_hang_up(twins[order]);
        stays_true(is_waiting(w, lock, token) && !call_done(twins[1 - order]), 300);
        assert_int_equal(waiter_count(w->a, lock), 1);
        call_hang_up(twins[1 - order]);
        wait_until(waiter_count(w->a, lock) == 0, 1500);
        assert_false(is_waiting(w, lock, token));
    }
}

static void test_twins_that_wait_in_vain(struct world *w)
{
    const char *token = token_new(w);
    struct call *one, *two;

    expect_status(lock_put(w->a, "twins-late", token_new(w), "ttl_ms=60000"), 201);
    one = call_put(w->a, "twins-late", token, "wait_ms=700");
    two = call_put(w->b, "twins-late", token, "wait_ms=1000");
    expect_problem(call_await(one, 3000), 423, "locked");
    expect_problem(call_await(two, 3000), 423, "locked");
    wait_until(waiter_count(w->a, "twins-late") == 0, 500);
    assert_false(is_waiting(w, "twins-late", token));
}

static void test_twins_of_different_patience(struct world *w)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *hasty, *patient;

    expect_status(lock_put(w->a, "twins-one", holder, "ttl_ms=60000"), 201);
    patient = call_put(w->a, "twins-one", token, "wait_ms=20000");
    wait_until(waiter_count(w->a, "twins-one") == 1, 5000);
    hasty = call_put(w->b, "twins-one", token, "wait_ms=300");
    expect_problem(call_await(hasty, 3000), 423, "locked");
    /* The patient one is still there, to be seen and to be served. */
    assert_int_equal(waiter_count(w->b, "twins-one"), 1);
    expect_status(lock_release(w->a, "twins-one", holder), 200);
    expect_status(call_await(patient, 3000), 201);
}

static void test_two_puts_race_for_a_free_lock(struct world *w)
{
    for (int i = 0; i < 30; i++) {
        const char *lock = text(w, "race/%d", i);
        const char *token = token_new(w);
        struct call *one = call_put(w->a, lock, token, "wait_ms=5000");
        struct call *two = call_put(w->b, lock, token, "wait_ms=5000");

        check_one_grant(w, lock, call_await(one, 8000), call_await(two, 8000));
    }
}

static void test_delete_of_a_waiting_token(struct world *w)
{
    struct front *const from[] = {w->a, w->b};
    const char *holder = token_new(w);

    expect_status(lock_put(w->a, "give-up", holder, "ttl_ms=60000"), 201);
    for (size_t i = 0; i < COUNT_OF(from); i++) {
        const char *token = token_new(w);
        struct call *call = call_put(w->a, "give-up", token, "wait_ms=30000");
        struct reply *r;

        wait_until(waiter_count(w->b, "give-up") == 1, 5000);
        r = lock_release(from[i], "give-up", token);
        expect_status(r, 200);
        expect_str(r, "state", "released");
        expect_int(r, "hold_count", 0);
        r = call_await(call, 2000);
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "released");
        wait_until(waiter_count(w->a, "give-up") == 0, 2000);
        /* The token is spent, the replay is the same. */
        expect_status(lock_release(w->b, "give-up", token), 200);
        expect_problem(lock_put(w->b, "give-up", token, NULL), 410, "lease-ended");
    }
    expect_status(lock_put(w->a, "give-up", holder, NULL), 200);
}

static void test_patch_of_a_waiting_token(struct world *w)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "early", holder, "ttl_ms=60000"), 201);
    call = call_put(w->a, "early", token, "wait_ms=30000");
    wait_until(waiter_count(w->a, "early") == 1, 5000);
    expect_problem(lock_renew(w->a, "early", token, NULL), 423, "locked");
    expect_problem(lock_renew(w->b, "early", token, NULL), 423, "locked");
    assert_false(call_done(call));
    expect_status(lock_release(w->b, "early", holder), 200);
    expect_status(call_await(call, 5000), 201);
    expect_status(lock_renew(w->b, "early", token, NULL), 200);
}

/* The same token on another lock is another lease, and disturbs nobody. */
static void test_token_of_another_lock(struct world *w)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "one-lock", holder, "ttl_ms=60000"), 201);
    expect_status(lock_put(w->b, "another", holder, NULL), 201);
    expect_status(lock_release(w->b, "another", holder), 200);
    call = call_put(w->a, "one-lock", token, "wait_ms=30000");
    wait_until(waiter_count(w->a, "one-lock") == 1, 5000);
    expect_problem(lock_renew(w->b, "another", token, NULL), 410, "lease-ended");
    expect_status(lock_put(w->b, "another", token, NULL), 201);
    expect_status(lock_release(w->b, "another", token), 200);
    expect_status(lock_release(w->a, "one-lock", holder), 200);
    expect_status(call_await(call, 5000), 201);
    expect_status(lock_release(w->a, "one-lock", token), 200);
    assert_false(redis_has(w->redis, "another"));
}

static void test_spent_tokens_say_why(struct world *w)
{
    const char *expired = token_new(w), *forced = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "why", expired, "ttl_ms=120"), 201);
    wait_until(!redis_has(w->redis, "why"), 2000);
    r = lock_put(w->b, "why", expired, "wait_ms=3000");
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    assert_false(redis_has(w->redis, "why"));
    expect_status(lock_put(w->a, "why", forced, NULL), 201);
    expect_status(http(w->b, "POST", "/v1/locks/why/force-unlock", NULL), 200);
    r = lock_put(w->b, "why", forced, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
}

static void test_spent_tokens_are_remembered_for_the_window(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "window", token, "ttl_ms=5000");
    const char *key = text(w, "rlockd:lease:{window}:%s", reply_str(r, "lease_id"));

    /* While it is held: for its time and the window. */
    assert_in_range(redis_int(w->redis, "PTTL %s", key), 60000, 65000);
    expect_status(lock_release(w->a, "window", token), 200);
    assert_in_range(redis_int(w->redis, "PTTL %s", key), 50000, 60000);
}

static void test_a_dead_front_end_loses_no_lease(struct world *w)
{
    struct front *doomed = front_start(w, "--redis", w->redis->url, NULL);
    const char *token = token_new(w), *waiting = token_new(w);
    struct reply *r = lock_put(doomed, "survive", token, "ttl_ms=60000");
    struct call *call = call_put(doomed, "survive", waiting, "wait_ms=30000");

    expect_status(r, 201);
    wait_until(waiter_count(w->a, "survive") == 1, 5000);
    front_kill(doomed);
    assert_int_equal(call_await(call, 5000)->status, 0);
    expect_status(lock_put(w->a, "survive", token, NULL), 200);
    expect_status(lock_renew(w->b, "survive", token, "ttl_ms=50000"), 200);
    /* The waiter comes back with its token on another front end. */
    call = call_put(w->b, "survive", waiting, "wait_ms=30000");
    stays_true(!call_done(call), 300);
    expect_status(lock_release(w->a, "survive", token), 200);
    r = call_await(call, 5000);
    expect_true(r, r->status == 201 || r->status == 200);
}

static void test_a_client_that_hung_up_may_ask_again(struct world *w)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "return", holder, "ttl_ms=60000"), 201);
    call = call_put(w->a, "return", token, "wait_ms=30000");
    wait_until(waiter_count(w->a, "return") == 1, 5000);
    call_hang_up(call);
    wait_until(waiter_count(w->a, "return") == 0, 2000);
    call = call_put(w->b, "return", token, "wait_ms=30000");
    wait_until(waiter_count(w->b, "return") == 1, 5000);
    expect_status(lock_release(w->a, "return", holder), 200);
    expect_status(call_await(call, 5000), 201);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_repeats_on_the_other_front_end),
        E2E_TEST(test_delete_before_put_wins),
        E2E_TEST(test_late_duplicate_takes_nothing),
        E2E_TEST(test_two_puts_of_one_token_on_two_front_ends),
        E2E_TEST(test_two_puts_of_one_token_on_one_front_end),
        E2E_TEST(test_twins_that_hang_up),
        E2E_TEST(test_twins_that_wait_in_vain),
        E2E_TEST(test_twins_of_different_patience),
        E2E_TEST(test_two_puts_race_for_a_free_lock),
        E2E_TEST(test_delete_of_a_waiting_token),
        E2E_TEST(test_patch_of_a_waiting_token),
        E2E_TEST(test_token_of_another_lock),
        E2E_TEST(test_spent_tokens_say_why),
        E2E_TEST(test_spent_tokens_are_remembered_for_the_window),
        E2E_TEST(test_a_dead_front_end_loses_no_lease),
        E2E_TEST(test_a_client_that_hung_up_may_ask_again),
    };
    struct e2e_plan plan = {.name = "retries", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
