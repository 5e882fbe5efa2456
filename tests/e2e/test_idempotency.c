/* A repeated Idempotency-Key is answered as before and changes nothing. */
#include "counters.h"

enum { SOON_MS = 2000, WINDOW_MS = 60000 };

static void make(struct world *w, const char *name, int permits)
{
    expect_status(
        counter_send(w->a, "PUT", text(w, "semaphores/%s?permits=%d", name, permits), NULL),
        201);
}

static void expect_same(struct world *w, struct reply *first, struct reply *again)
{
    (void)w;
    expect_status(first, 200);
    expect_status(again, 200);
    expect_true(again, json_equal(first->json, again->json));
}

static void test_replays(struct world *w)
{
    const char *acquire = token_new(w), *release = token_new(w), *drain = token_new(w);
    struct reply *r;

    make(w, "replay", 5);
    r = counter_send(w->a, "POST", "semaphores/replay/acquire?permits=2", acquire);
    expect_int(r, "available", 3);
    expect_same(w, r,
                counter_send(w->b, "POST", "semaphores/replay/acquire?permits=2", acquire));
    expect_same(w, r,
                counter_send(w->a, "POST", "semaphores/replay/acquire?permits=2", acquire));
    assert_int_equal(counter_value(w->redis, "replay"), 3);
    r = counter_send(w->a, "POST", "semaphores/replay/release?permits=4", release);
    expect_int(r, "available", 7);
    expect_same(w, r,
                counter_send(w->b, "POST", "semaphores/replay/release?permits=4", release));
    assert_int_equal(counter_value(w->redis, "replay"), 7);
    r = counter_send(w->a, "POST", "semaphores/replay/drain", drain);
    expect_int(r, "permits", 7);
    expect_status(counter_send(w->a, "POST", "semaphores/replay/release", NULL), 200);
    expect_same(w, r, counter_send(w->b, "POST", "semaphores/replay/drain", drain));
    assert_int_equal(counter_value(w->redis, "replay"), 1);
    /* The first answer, also where the semaphore is gone. */
    expect_status(counter_send(w->a, "DELETE", "semaphores/replay", NULL), 200);
    expect_int(counter_send(w->b, "POST", "semaphores/replay/release?permits=4", release),
               "available", 7);
    assert_false(redis_has(w->redis, "replay"));
}

static void test_latch_replays(struct world *w)
{
    const char *key = token_new(w), *early = token_new(w);
    struct reply *r;

    expect_int(counter_send(w->a, "POST", "latches/counted/count-down", early), "count", 0);
    expect_status(counter_send(w->a, "PUT", "latches/counted?count=3", NULL), 201);
    expect_int(counter_send(w->b, "POST", "latches/counted/count-down", early), "count", 0);
    r = counter_send(w->a, "POST", "latches/counted/count-down", key);
    expect_int(r, "count", 2);
    expect_same(w, r, counter_send(w->b, "POST", "latches/counted/count-down", key));
    assert_int_equal(counter_value(w->redis, "counted"), 2);
}

/* In upper case it is the same key; without one nothing is a repetition. */
static void test_what_a_key_is(struct world *w)
{
    const char *key = "C0FFEE00-1111-4222-8333-444455556666";
    const char *lower = "c0ffee00-1111-4222-8333-444455556666";
    const char *record = "rlockd:idempotency:{case}:c0ffee00-1111-4222-8333-444455556666";

    make(w, "case", 5);
    expect_status(counter_send(w->a, "POST", "semaphores/case/release", key), 200);
    expect_status(counter_send(w->a, "POST", "semaphores/case/release", lower), 200);
    assert_int_equal(counter_value(w->redis, "case"), 6);
    assert_string_equal(redis_str(w->redis, "GET %s", record), "release\n1\ncase\n\n1\n6");
    assert_in_range(redis_int(w->redis, "PTTL %s", record), 1, WINDOW_MS);
    expect_status(counter_send(w->a, "POST", "semaphores/case/release", NULL), 200);
    expect_status(counter_send(w->a, "POST", "semaphores/case/release", NULL), 200);
    assert_int_equal(counter_value(w->redis, "case"), 8);
    expect_problem(counter_send(w->a, "POST", "semaphores/case/release",
                                "00000000-0000-0000-0000-000000000000"),
                   400, "malformed-request");
}

static void test_reuse(struct world *w)
{
    static const char *const others[] = {"semaphores/reuse/acquire",
                                         "semaphores/reuse/acquire?permits=3",
                                         "semaphores/reuse/release?permits=2",
                                         "semaphores/reuse/drain", "latches/reuse/count-down"};
    const char *key = token_new(w);

    make(w, "reuse", 9);
    make(w, "other", 9);
    expect_status(counter_send(w->a, "POST", "semaphores/reuse/acquire?permits=2", key), 200);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        expect_problem(counter_send(w->b, "POST", others[i], key), 422, "token-reused");
    assert_int_equal(counter_value(w->redis, "reuse"), 7);
    /* The same key on another semaphore is another request. */
    expect_status(counter_send(w->a, "POST", "semaphores/other/acquire?permits=2", key), 200);
    assert_int_equal(counter_value(w->redis, "other"), 7);
    /* How long to wait is not what was asked for. */
    expect_status(
        counter_send(w->b, "POST", "semaphores/reuse/acquire?permits=2&wait_ms=100", key), 200);
}

/* What changed nothing does not use the key up. */
static void test_a_refusal_keeps_the_key(struct world *w)
{
    const char *key = token_new(w);

    make(w, "refused", 1);
    expect_problem(counter_send(w->a, "POST", "semaphores/refused/acquire?permits=2", key), 423,
                   "locked");
    expect_problem(
        counter_send(w->a, "POST", "semaphores/refused/acquire?permits=2&wait_ms=100", key),
        423, "locked");
    expect_status(counter_send(w->a, "POST", "semaphores/refused/release", NULL), 200);
    expect_status(counter_send(w->b, "POST", "semaphores/refused/acquire?permits=2", key), 200);
    assert_int_equal(counter_value(w->redis, "refused"), 0);
}

/* A key that waits: another body is refused, the same again is served together with it. */
static void test_while_it_waits(struct world *w)
{
    const char *key = token_new(w);
    struct call *first, *second;

    make(w, "waits", 1);
    first = counter_call(w->a, "POST", "semaphores/waits/acquire?permits=3&wait_ms=30000", key);
    wait_until(counter_waiters(w->a, "semaphores/waits") == 1, 5000);
    expect_problem(counter_send(w->b, "POST", "semaphores/waits/acquire?permits=2", key), 422,
                   "token-reused");
    second = counter_call(w->b, "POST", "semaphores/waits/acquire?permits=3&wait_ms=30000",
                          key);
    wait_until(counter_waiters(w->a, "semaphores/waits") == 2, 5000);
    expect_status(counter_send(w->a, "POST", "semaphores/waits/release?permits=2", NULL), 200);
    expect_same(w, call_await(first, SOON_MS), call_await(second, SOON_MS));
    assert_int_equal(counter_value(w->redis, "waits"), 0);
    assert_int_equal(counter_waiters(w->a, "semaphores/waits"), 0);
}

/* Both wait at one worker, and the first of them tries in vain once more before it is granted.
 */
static void test_both_that_wait_with_a_key_are_served(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--workers", "1", NULL);
    const char *key = token_new(w);
    const char *record = text(w, "rlockd:idempotency:{both}:%s", key);
    struct call *first, *second;

    make(w, "both", 1);
    first = counter_call(fe, "POST", "semaphores/both/acquire?permits=3&wait_ms=30000", key);
    wait_until(counter_waiters(w->a, "semaphores/both") == 1, 5000);
    second = counter_call(fe, "POST", "semaphores/both/acquire?permits=3&wait_ms=30000", key);
    wait_until(counter_waiters(w->a, "semaphores/both") == 2, 5000);
    const char *before = redis_str(w->redis, "GET %s", record);
    expect_status(counter_send(w->b, "POST", "semaphores/both/release", NULL), 200);
    wait_until(strcmp(redis_str(w->redis, "GET %s", record), before) != 0, SOON_MS);
    int64_t late_before = late_ms();
    expect_status(counter_send(w->b, "POST", "semaphores/both/release", NULL), 200);
    struct reply *one = call_await(first, SOON_MS), *other = call_await(second, SOON_MS);
    expect_same(w, one, other);
    /* By a message: the poll takes 4 s. */
    assert_true(other->done_ms - one->done_ms < 2500 + late_ms() - late_before);
    assert_int_equal(counter_value(w->redis, "both"), 0);
}

static void test_a_waiter_that_left_leaves_no_key(struct world *w)
{
    const char *key = token_new(w);
    const char *record = text(w, "rlockd:idempotency:{left}:%s", key);
    struct call *call;

    make(w, "left", 1);
    call = counter_call(w->a, "POST", "semaphores/left/acquire?permits=3&wait_ms=30000", key);
    wait_until(counter_waiters(w->a, "semaphores/left") == 1, 5000);
    wait_until(redis_has(w->redis, record), SOON_MS);
    call_hang_up(call);
    wait_until(!redis_has(w->redis, record), SOON_MS);
    expect_status(counter_send(w->b, "POST", "semaphores/left/acquire", key), 200);
}

/* Its client has gone before it was answered: the grant is taken back, and the key with it. */
static void test_an_unanswered_grant_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *key = token_new(w);
    struct call *call;

    make(w, "unanswered", 3);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = counter_call(slow.fe, "POST", "semaphores/unanswered/acquire?permits=2", key);
    wait_until(counter_value(w->redis, "unanswered") == 1, 3000);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(counter_value(w->redis, "unanswered") == 3, SOON_MS);
    stays_true(counter_value(w->redis, "unanswered") == 3, 700);
    expect_status(counter_send(w->a, "POST", "semaphores/unanswered/acquire?permits=2", key),
                  200);
    assert_int_equal(counter_value(w->redis, "unanswered"), 1);
}

/* … but not for a semaphore that was deleted and made anew meanwhile. */
static void test_a_new_semaphore_gets_no_permits_of_the_old_one(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *key = token_new(w);
    const char *record = text(w, "rlockd:idempotency:{anew}:%s", key);
    struct call *call;

    make(w, "anew", 3);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = counter_call(slow.fe, "POST", "semaphores/anew/acquire?permits=2", key);
    wait_until(counter_value(w->redis, "anew") == 1, 3000);
    expect_status(counter_send(w->a, "DELETE", "semaphores/anew", NULL), 200);
    make(w, "anew", 3);
    assert_true(redis_has(w->redis, record));
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(!redis_has(w->redis, record), SOON_MS);
    assert_int_equal(counter_value(w->redis, "anew"), 3);
}

/* … and not where another request was told of it. */
static void test_a_told_grant_stays(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *key = token_new(w);
    struct call *call;

    make(w, "told", 3);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = counter_call(slow.fe, "POST", "semaphores/told/acquire?permits=2", key);
    wait_until(counter_value(w->redis, "told") == 1, 3000);
    expect_status(counter_send(w->a, "POST", "semaphores/told/acquire?permits=2", key), 200);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    stays_true(counter_value(w->redis, "told") == 1, 1200);
}

/* The answer to a drain was lost, whether or not anybody still waits for it. */
static void check_lost_drain(struct world *w, const char *key, bool hang_up)
{
    struct slow slow = slow_start(w);
    const char *name = text(w, "drained-%d%d", key != NULL, hang_up);
    struct call *call;

    make(w, name, 3);
    /* Redis has the script: no answer that it does not know it is lost. */
    expect_status(counter_send(w->a, "POST", "semaphores/drained/drain", NULL), 200);
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    call = counter_call(slow.fe, "POST", text(w, "semaphores/%s/drain", name), key);
    wait_until(counter_value(w->redis, name) == 0, 3000);
    if (hang_up)
        call_hang_up(call);
    else
        expect_problem(call_await(call, 9000), 503, "redis-unavailable");
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(counter_value(w->redis, name) == 3, 9000);
}

static void test_a_lost_drain_is_undone(struct world *w)
{
    check_lost_drain(w, NULL, false);
    check_lost_drain(w, token_new(w), false);
    check_lost_drain(w, token_new(w), true);
}

/* Redis did it and its answer was lost: the same request again tells what came of it. */
static void test_a_lost_answer(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *key = token_new(w), *count = token_new(w), *lost = token_new(w);
    struct reply *r;

    make(w, "lost", 3);
    expect_status(counter_send(w->a, "PUT", "latches/lost-latch?count=3", NULL), 201);
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    r = counter_send(slow.fe, "POST", "semaphores/lost/release?permits=2", key);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    proxy_set(slow.proxy, PROXY_PASS);
    expect_int(counter_send(w->a, "POST", "semaphores/lost/release?permits=2", key),
               "available", 5);
    assert_int_equal(counter_value(w->redis, "lost"), 5);
    wait_until(front_ready(slow.fe), 5000);
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    expect_problem(counter_send(slow.fe, "POST", "latches/lost-latch/count-down", count), 503,
                   "redis-unavailable");
    proxy_set(slow.proxy, PROXY_PASS);
    expect_int(counter_send(w->a, "POST", "latches/lost-latch/count-down", count), "count", 2);
    /* An acquire whose answer was lost, and that nobody asks for again, holds nothing. */
    wait_until(front_ready(slow.fe), 5000);
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    expect_problem(counter_send(slow.fe, "POST", "semaphores/lost/acquire?permits=5", lost),
                   503, "redis-unavailable");
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(counter_value(w->redis, "lost") == 5, 5000);
    wait_until(front_ready(slow.fe), 5000);
    proxy_set(slow.proxy, PROXY_DROP_REPLIES);
    expect_problem(counter_send(slow.fe, "POST", "semaphores/lost/acquire?permits=5", NULL),
                   503, "redis-unavailable");
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(counter_value(w->redis, "lost") == 5, 5000);
}

static void test_the_window_ends(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--retry-window-ms",
                                   text(w, "%d", (int)patience_ms(1000)), NULL);
    const char *key = token_new(w);

    make(w, "window", 3);
    expect_int(counter_send(fe, "POST", "semaphores/window/release", key), "available", 4);
    expect_int(counter_send(fe, "POST", "semaphores/window/release", key), "available", 4);
    wait_until(!redis_has(w->redis, text(w, "rlockd:idempotency:{window}:%s", key)), 3000);
    expect_int(counter_send(fe, "POST", "semaphores/window/release", key), "available", 5);
    assert_true(front_metric(fe, "rlockd_replays_total", NULL) >= 1);
    assert_true(front_metric(fe, "rlockd_semaphore_releases_total", NULL) >= 2);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_replays),
        E2E_TEST(test_latch_replays),
        E2E_TEST(test_what_a_key_is),
        E2E_TEST(test_reuse),
        E2E_TEST(test_a_refusal_keeps_the_key),
        E2E_TEST(test_while_it_waits),
        E2E_TEST(test_both_that_wait_with_a_key_are_served),
        E2E_TEST(test_a_waiter_that_left_leaves_no_key),
        E2E_TEST(test_an_unanswered_grant_is_undone),
        E2E_TEST(test_a_new_semaphore_gets_no_permits_of_the_old_one),
        E2E_TEST(test_a_told_grant_stays),
        E2E_TEST(test_a_lost_drain_is_undone),
        E2E_TEST(test_a_lost_answer),
        E2E_TEST(test_the_window_ends),
    };
    struct e2e_plan plan = {.name = "idempotency", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
