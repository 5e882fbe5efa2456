/* Data in Redis that another version of rlockd wrote in another layout: a front end leaves them
 * alone, says so, and goes on when they are gone. */
#include "harness_session.h"

enum { SOON_MS = 8000 };

#define MARKER "rlockd:marker"

static bool is_unready_for(struct front *fe, const char *words)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *detail = reply_str(r, "detail");

    return r->status == 503 && detail != NULL && strstr(detail, words) != NULL;
}

static void expect_refused(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
}

/* As a front end of another version does with each refresh. */
static void refresh_as(struct redis *redis, const char *layout)
{
    redis_do(redis, "HSET " MARKER " run_id another since 1000 kept 900 at 77 layout %s",
             layout);
}

static double losses(struct front *fe)
{
    return front_metric(fe, "rlockd_redis_data_losses_total", NULL);
}

static void test_version_names_the_layouts(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);

    assert_int_equal(reply_int(http(fe, "GET", "/version", NULL), "layouts.0"), 1);
}

static void test_another_layout_at_the_start(struct world *w)
{
    skip_on_masters(w); /* each master has its own marker */
    struct redis *redis = redis_start(w, NULL);

    refresh_as(redis, "2");
    struct front *fe = front_launch(w, "--redis", redis->url, NULL);
    wait_until(is_unready_for(fe, "layout 2"), SOON_MS);
    expect_refused(lock_put(fe, "first", token_new(w), NULL));
    stays_true(!front_ready(fe), 1500);
    assert_int_equal(json_array_size(redis_keys(redis, "")), 0);
    assert_string_equal(redis_str(redis, "HGET " MARKER " at"), "77");
    assert_non_null(strstr(front_log(fe), "\"the data in Redis have layout 2"));
    redis_do(redis, "DEL " MARKER);
    wait_until(front_ready(fe), SOON_MS);
    expect_status(lock_put(fe, "first", token_new(w), NULL), 201);
    wait_until(redis_int(redis, "HEXISTS " MARKER " layout") == 1, SOON_MS);
}

static void test_another_layout_that_appears(struct world *w)
{
    skip_on_masters(w); /* each master has its own marker */
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(fe, "kept", token, "ttl_ms=600000"), 201);
    struct call *waiter = call_put(fe, "kept", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(fe, "kept") == 1, SOON_MS);
    wait_until(redis_has(redis, MARKER), SOON_MS);
    redis_do(redis, "HSET " MARKER " layout next");
    wait_until(is_unready_for(fe, "layout"), SOON_MS);
    const char *at = redis_str(redis, "HGET " MARKER " at");
    expect_refused(lock_put(fe, "new", token_new(w), NULL));
    expect_refused(lock_renew(fe, "kept", token, NULL));
    stays_true(!front_ready(fe), 1500);
    assert_string_equal(redis_str(redis, "HGET " MARKER " at"), at);
    assert_false(redis_has(redis, "new"));
    redis_do(redis, "HSET " MARKER " layout 1");
    wait_until(front_ready(fe), SOON_MS);
    expect_status(lock_renew(fe, "kept", token, NULL), 200);
    expect_status(lock_release(fe, "kept", token), 200);
    expect_status(call_await(waiter, SOON_MS), 201);
    assert_true(losses(fe) == 0);
}

/* A front end that knows no number refreshes the other fields and leaves the number alone. A
 * marker of such front ends alone has no number. */
static void test_front_ends_without_a_number(struct world *w)
{
    skip_on_masters(w); /* each master has its own marker */
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(fe, "both", token, "ttl_ms=600000"), 201);
    for (int i = 0; i < 2; i++) {
        wait_until(redis_int(redis, "HEXISTS " MARKER " layout") == 1, SOON_MS);
        redis_do(redis, "HDEL " MARKER " layout");
    }
    wait_until(redis_int(redis, "HEXISTS " MARKER " layout") == 1, SOON_MS);
    struct front *late = front_start(w, "--redis", redis->url, NULL);
    expect_status(lock_renew(late, "both", token, NULL), 200);
    assert_true(losses(fe) == 0 && losses(late) == 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_version_names_the_layouts),
        E2E_TEST(test_another_layout_at_the_start),
        E2E_TEST(test_another_layout_that_appears),
        E2E_TEST(test_front_ends_without_a_number),
    };
    struct e2e_plan plan = {.name = "layout", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
