/* Count-down latches over HTTP and as RCountDownLatch has them. */
#include "counters.h"

enum { SOON_MS = 2000, POLL_MS = 9000 };

#define CHANNEL "redisson_countdownlatch__channel__"

static void make(struct world *w, const char *name, int count)
{
    struct reply *r = counter_send(w->a, "PUT", text(w, "latches/%s?count=%d", name, count),
                                   NULL);

    expect_status(r, 201);
    expect_int(r, "count", count);
}

static struct call *park(struct world *w, struct front *fe, const char *name)
{
    const char *path = text(w, "latches/%s", name);
    int before = counter_waiters(w->a, path);
    struct call *call = counter_call(fe, "GET", text(w, "%s?wait_ms=50000", path), NULL);

    wait_until(counter_waiters(w->a, path) == before + 1, 5000);
    return call;
}

static void count_down(struct front *fe, const char *name, int left)
{
    struct reply *r = counter_send(fe, "POST", text(fe->world, "latches/%s/count-down", name),
                                   NULL);

    expect_status(r, 200);
    expect_str(r, "latch", name);
    expect_int(r, "count", left);
}

static void test_operations(struct world *w)
{
    struct reply *r;

    make(w, "ops", 2);
    r = counter_send(w->b, "PUT", "latches/ops?count=9", NULL);
    expect_status(r, 200);
    expect_int(r, "count", 2);
    expect_bool(r, "created", false);
    expect_int(counter_send(w->b, "GET", "latches/ops", NULL), "count", 2);
    r = counter_send(w->b, "GET", "latches/ops?wait_ms=200", NULL);
    expect_status(r, 200);
    expect_int(r, "count", 2);
    assert_true(r->done_ms - r->sent_ms >= 190);
    wait_until(counter_waiters(w->a, "latches/ops") == 0, SOON_MS);
    count_down(w->a, "ops", 1);
    count_down(w->b, "ops", 0);
    count_down(w->b, "ops", 0); /* nothing to count any more */
    assert_false(redis_has(w->redis, "ops"));
    expect_int(counter_send(w->b, "GET", "latches/ops?wait_ms=5000", NULL), "count", 0);
    make(w, "ops", 1);
    expect_bool(counter_send(w->a, "GET", "latches/ops", NULL), "exists", true);
    expect_bool(counter_send(w->a, "DELETE", "latches/ops", NULL), "deleted", true);
    expect_bool(counter_send(w->a, "DELETE", "latches/ops", NULL), "deleted", false);
    r = counter_send(w->a, "GET", "latches/ops", NULL);
    expect_int(r, "count", 0);
    expect_bool(r, "exists", false);
}

static void test_layout(struct world *w)
{
    struct listener *plain = listener_start(w->redis, CHANNEL "{layout}");
    struct listener *tagged = listener_start(w->redis, CHANNEL "{a{1}}");

    make(w, "layout", 3);
    assert_string_equal(listener_next(plain, SOON_MS), "1");
    assert_string_equal(redis_str(w->redis, "GET layout"), "3");
    assert_int_equal(redis_int(w->redis, "TTL layout"), -1);
    count_down(w->a, "layout", 2);
    assert_string_equal(redis_str(w->redis, "GET layout"), "2");
    count_down(w->a, "layout", 1);
    count_down(w->a, "layout", 0);
    assert_string_equal(listener_next(plain, SOON_MS), "0");
    make(w, "layout", 3);
    assert_string_equal(listener_next(plain, SOON_MS), "1");
    expect_status(counter_send(w->a, "DELETE", "latches/layout", NULL), 200);
    assert_string_equal(listener_next(plain, SOON_MS), "1");
    count_down(w->a, "layout", 0);
    assert_null(listener_next(plain, 200));
    expect_status(counter_send(w->a, "PUT", "latches/a%7B1%7D?count=1", NULL), 201);
    assert_string_equal(listener_next(tagged, SOON_MS), "1");
    expect_status(counter_send(w->a, "PUT", "latches/big?count=9007199254740991", NULL), 201);
    assert_string_equal(redis_str(w->redis, "GET big"), "9007199254740991");
    expect_int(counter_send(w->a, "POST", "latches/big/count-down", NULL), "count",
               9007199254740990);
}

static void test_zero_wakes_everyone(struct world *w)
{
    struct call *calls[10];

    make(w, "all", 2);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = park(w, i % 2 ? w->a : w->b, "all");
    count_down(w->a, "all", 1);
    stays_true(!call_done(calls[0]) && !call_done(calls[1]), 200);
    count_down(w->b, "all", 0);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        expect_int(call_await(calls[i], SOON_MS), "count", 0);
    assert_int_equal(counter_waiters(w->a, "latches/all"), 0);
}

static void test_java_counts_down(struct world *w)
{
    struct call *call;

    redis_ok(w->redis, "SET j2r 2");
    call = park(w, w->b, "j2r");
    redisson_count_down(w->redis, "j2r");
    count_down(w->a, "j2r", 0);
    expect_int(call_await(call, SOON_MS), "count", 0);
    make(w, "j2r", 1);
    call = park(w, w->a, "j2r");
    redisson_count_down(w->redis, "j2r");
    expect_int(call_await(call, SOON_MS), "count", 0);
}

static void test_java_waits(struct world *w)
{
    struct listener *java = listener_start(w->redis, CHANNEL "{r2j}");

    redis_ok(w->redis, "SET r2j 2");
    count_down(w->a, "r2j", 1);
    assert_null(listener_next(java, 100));
    redisson_count_down(w->redis, "r2j");
    assert_string_equal(listener_next(java, SOON_MS), "0");
}

static void test_a_deleted_latch_is_at_zero(struct world *w)
{
    struct call *call, *other;

    make(w, "deleted", 2);
    call = park(w, w->a, "deleted");
    other = park(w, w->a, "deleted");
    expect_status(counter_send(w->b, "DELETE", "latches/deleted", NULL), 200);
    expect_int(call_await(call, SOON_MS), "count", 0);
    expect_int(call_await(other, SOON_MS), "count", 0);
}

static void test_hang_up(struct world *w)
{
    struct call *gone, *stays;

    make(w, "gone", 1);
    gone = park(w, w->a, "gone");
    stays = park(w, w->a, "gone");
    call_hang_up(gone);
    wait_until(counter_waiters(w->b, "latches/gone") == 1, SOON_MS);
    count_down(w->b, "gone", 0);
    expect_int(call_await(stays, SOON_MS), "count", 0);
    wait_until(counter_waiters(w->b, "latches/gone") == 0, SOON_MS);
}

static void test_a_lost_message_hangs_nobody(struct world *w)
{
    struct call *call;

    make(w, "deaf", 1);
    call = park(w, w->a, "deaf");
    redis_do(w->redis, "DEL deaf"); /* says nothing to anybody */
    expect_int(call_await(call, POLL_MS), "count", 0);
    make(w, "deaf", 1);
    call = park(w, w->a, "deaf");
    redis_do(w->redis, "CLIENT KILL TYPE pubsub");
    redis_do(w->redis, "DEL deaf");
    expect_int(call_await(call, SOON_MS), "count", 0);
}

static void test_killed_redis_and_drain(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct call *call, *late;

    expect_status(counter_send(fe, "PUT", "latches/killed?count=1", NULL), 201);
    expect_status(counter_send(fe, "PUT", "latches/late?count=1", NULL), 201);
    call = counter_call(fe, "GET", "latches/killed?wait_ms=50000", NULL);
    late = counter_call(fe, "GET", "latches/late?wait_ms=50000", NULL);
    wait_until(counter_waiters(fe, "latches/killed") == 1, 5000);
    wait_until(counter_waiters(fe, "latches/late") == 1, 5000);
    redis_kill(redis);
    wait_until(!front_ready(fe), 3000);
    redis_return(redis);
    wait_until(front_ready(fe), 5000);
    assert_false(call_done(call));
    expect_status(counter_send(fe, "POST", "latches/killed/count-down", NULL), 200);
    expect_int(call_await(call, SOON_MS), "count", 0);
    front_stop(fe);
    expect_problem(call_await(late, SOON_MS), 503, "draining");
}

/* A look of a wait that was lost took nothing, so nobody has to ask what came of it. */
static void test_a_lost_look_leaves_no_doubt(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct call *call;

    expect_status(counter_send(fe, "PUT", "latches/lost?count=1", NULL), 201);
    call = counter_call(fe, "GET", "latches/lost?wait_ms=50000", NULL);
    wait_until(counter_waiters(fe, "latches/lost") == 1, 5000);
    redis_ok(redis, "CLIENT PAUSE 60000 WRITE");
    redis_do(redis, "CLIENT KILL TYPE pubsub");
    wait_until(strstr(redis_do(redis, "INFO clients")->str, "blocked_clients:1") != NULL, 5000);
    redis_kill(redis);
    wait_until(!front_ready(fe), 3000);
    assert_false(call_done(call));
    front_stop(fe);
    expect_problem(call_await(call, SOON_MS), 503, "draining");
}

static void test_refusals(struct world *w)
{
    static const struct {
        const char *method, *path, *word;
    } rows[] = {
        {"PUT", "latches/r", "count"},
        {"PUT", "latches/r?count=0", "count"},
        {"PUT", "latches/r?count=9007199254740992", "count"},
        {"PUT", "latches/r?permits=1", "permits"},
        {"GET", "latches/r?wait_ms=-1", "wait_ms"},
        {"GET", "latches/r?wait_ms=55001", "wait_ms"},
        {"POST", "latches/r/count-down?count=1", "count"},
        {"DELETE", "latches/rlockd%3Asessions", "name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reply *r = counter_send(w->a, rows[i].method, rows[i].path, NULL);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, rows[i].word);
    }
    redis_do(w->redis, "HSET kind-hash a b");
    redis_ok(w->redis, "SET kind-text 1.5");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "kind-hash" : "kind-text";
        const char *path = text(w, "latches/%s", name);
        expect_problem(counter_send(w->a, "GET", path, NULL), 409, "wrong-kind");
        expect_problem(counter_send(w->a, "DELETE", path, NULL), 409, "wrong-kind");
        expect_problem(counter_send(w->a, "GET", text(w, "%s?wait_ms=900", path), NULL), 409,
                       "wrong-kind");
        expect_problem(counter_send(w->a, "PUT", text(w, "%s?count=1", path), NULL), 409,
                       "wrong-kind");
        expect_problem(counter_send(w->a, "POST", text(w, "%s/count-down", path), NULL), 409,
                       "wrong-kind");
        assert_true(redis_has(w->redis, name));
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_operations),
        E2E_TEST(test_layout),
        E2E_TEST(test_zero_wakes_everyone),
        E2E_TEST(test_java_counts_down),
        E2E_TEST(test_java_waits),
        E2E_TEST(test_a_deleted_latch_is_at_zero),
        E2E_TEST(test_hang_up),
        E2E_TEST(test_a_lost_message_hangs_nobody),
        E2E_TEST(test_killed_redis_and_drain),
        E2E_TEST(test_a_lost_look_leaves_no_doubt),
        E2E_TEST(test_refusals),
    };
    struct e2e_plan plan = {.name = "latches", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
