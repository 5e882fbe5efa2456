/* --metrics-prefixes: wait and hold times by the prefix of the lock's name. */
#include "harness.h"
#include "harness_session.h"

/* How many times were counted, of both front ends of the plan. */
static double counted(struct world *w, const char *time, const char *prefix)
{
    const char *family = text(w, "rlockd_prefix_%s_duration_seconds_count", time);
    const char *label = text(w, "prefix=\"%s\"", prefix);

    return front_metric(w->a, family, label) + front_metric(w->b, family, label);
}

static double holds(struct world *w)
{
    return counted(w, "hold", "deploy/");
}

/* The page of metrics is up to a second old. */
static void expect_holds(struct world *w, double count)
{
    wait_until(holds(w) == count, 5000);
}

static void test_a_release_counts_once(struct world *w)
{
    static const char *const kinds[] = {"lock", "fair", "read", "write"};
    double before = holds(w), others = counted(w, "hold", "other");

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *name = text(w, "deploy/%s", kinds[i]), *token = token_new(w);
        expect_status(lock_put(w->a, name, token, text(w, "kind=%s", kinds[i])), 201);
        expect_status(lock_release(w->b, name, token), 200);
        expect_status(lock_release(w->b, name, token), 200);
    }
    const char *token = token_new(w);
    expect_status(lock_put(w->a, "elsewhere", token, NULL), 201);
    expect_status(lock_release(w->a, "elsewhere", token), 200);
    wait_until(counted(w, "hold", "other") == others + 1, 5000);
    expect_holds(w, before + 4);
}

static void test_the_time_is_that_of_the_hold(struct world *w)
{
    const char *token = token_new(w);
    static const char sum[] = "rlockd_prefix_hold_duration_seconds_sum";
    double before = front_metric(w->a, sum, "prefix=\"slow/\"");

    expect_status(lock_put(w->a, "slow/1", token, NULL), 201);
    nap_ms(1200);
    expect_status(lock_release(w->a, "slow/1", token), 200);
    wait_until(front_metric(w->a, sum, "prefix=\"slow/\"") >= before + 1.1, 5000);
    assert_true(front_metric(w->a, sum, "prefix=\"slow/\"") < before + 60);
}

static void test_a_hand_over_counts_the_hold_and_the_wait(struct world *w)
{
    double before = holds(w), waits = counted(w, "wait", "deploy/");
    const char *holder = token_new(w), *next = token_new(w);

    expect_status(lock_put(w->a, "deploy/passed", holder, NULL), 201);
    struct call *call = call_put(w->a, "deploy/passed", next, "wait_ms=20000");
    wait_until(waiter_count(w->a, "deploy/passed") == 1, 5000);
    expect_status(lock_release(w->a, "deploy/passed", holder), 200);
    expect_status(call_await(call, 10000), 201);
    expect_holds(w, before + 1);
    expect_status(lock_release(w->a, "deploy/passed", next), 200);
    expect_holds(w, before + 2);
    wait_until(counted(w, "wait", "deploy/") == waits + 1, 5000);
}

static void test_the_end_of_a_session_counts(struct world *w)
{
    double before = holds(w);
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "deploy/session", NULL);
    session_hold(w->a, &s, "deploy/read", "kind=read");
    expect_status(session_end(w->b, &s), 200);
    expect_holds(w, before + 2);
    s = session_new(w->a, ttl_of(w, 1000));
    session_hold(w->a, &s, "deploy/session", NULL);
    wait_until(holds(w) == before + 3, 15000);
}

static void test_a_force_unlock_counts_but_not_of_a_java_holder(struct world *w)
{
    double before = holds(w);

    expect_status(lock_put(w->a, "deploy/forced", token_new(w), NULL), 201);
    for (int i = 0; i < 2; i++) {
        expect_status(http(w->a, "POST", lock_path(w, "deploy/forced", "/force-unlock"), NULL),
                      200);
        if (i == 0)
            assert_true(redisson_lock(w->redis, "deploy/forced", JAVA_HOLDER, 60000));
    }
    expect_holds(w, before + 1);
    const char *token = token_new(w);
    expect_status(lock_put(w->a, "deploy/forced", token, NULL), 201);
    expect_status(lock_release(w->a, "deploy/forced", token), 200);
    expect_holds(w, before + 2);
}

static void test_without_the_setting_there_are_no_series(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    const struct reply *page = http(fe, "GET", "/metrics", NULL);

    expect_status(page, 200);
    assert_null(strstr(page->text, "rlockd_prefix_"));
}

static void test_wrong_prefixes(struct world *w)
{
    const char *const args[] = {"--listen", "127.0.0.1:0", "--metrics-prefixes", "a,,b", NULL};
    struct child *child = rlockd_start(w, args, NULL);

    assert_int_equal(child_wait(child, 5000), 2);
    assert_non_null(strstr(child_stderr(child), "rlockd: --metrics-prefixes: must be"));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_release_counts_once),
        E2E_TEST(test_the_time_is_that_of_the_hold),
        E2E_TEST(test_a_hand_over_counts_the_hold_and_the_wait),
        E2E_TEST(test_the_end_of_a_session_counts),
        E2E_TEST(test_a_force_unlock_counts_but_not_of_a_java_holder),
        E2E_TEST(test_without_the_setting_there_are_no_series),
        E2E_TEST(test_wrong_prefixes),
    };
    static const char *const flags[] = {"--metrics-prefixes", "deploy/,slow/", NULL};
    struct e2e_plan plan = {
        .name = "metrics_prefixes", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
