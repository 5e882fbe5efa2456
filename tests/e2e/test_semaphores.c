/* Semaphores over HTTP and as RSemaphore has them: permits move, waiters get in, none is lost.
 */
#include "counters.h"

enum {
    SOON_MS = 2000,
    POLL_MS = 9000 /* the slow poll, and patience for it */
};

static long long permits_in(struct world *w, const char *key)
{
    return counter_value(w->redis, key);
}

static void make(struct world *w, const char *name, int permits)
{
    expect_status(
        counter_send(w->a, "PUT", text(w, "semaphores/%s?permits=%d", name, permits), NULL),
        201);
}

static void empty(struct world *w, const char *name)
{
    make(w, name, 1);
    expect_status(counter_send(w->a, "POST", text(w, "semaphores/%s/drain", name), NULL), 200);
}

static struct call *park(struct world *w, struct front *fe, const char *name, const char *query)
{
    const char *path = text(w, "semaphores/%s", name);
    int before = counter_waiters(w->a, path);
    struct call *call = counter_call(fe, "POST",
                                     text(w, "semaphores/%s/acquire?%s", name, query), NULL);

    wait_until(counter_waiters(w->a, path) == before + 1, 5000);
    return call;
}

static void test_operations(struct world *w)
{
    struct reply *r = counter_send(w->a, "PUT", "semaphores/ops?permits=5", NULL);

    expect_status(r, 201);
    expect_str(r, "semaphore", "ops");
    expect_int(r, "available", 5);
    r = counter_send(w->b, "PUT", "semaphores/ops?permits=7", NULL);
    expect_status(r, 200);
    expect_int(r, "available", 5);
    r = HTTP(w->a, .method = "POST", .path = "/v1/semaphores/ops/acquire",
             .body = "{\"permits\":2}");
    expect_status(r, 200);
    expect_str(r, "state", "acquired");
    expect_int(r, "permits", 2);
    expect_int(r, "available", 3);
    r = counter_send(w->b, "POST", "semaphores/ops/acquire", NULL);
    expect_status(r, 200);
    expect_int(r, "available", 2);
    r = counter_send(w->b, "POST", "semaphores/ops/acquire?permits=3", NULL);
    expect_problem(r, 423, "locked");
    expect_int(r, "available", 2);
    r = counter_send(w->b, "POST", "semaphores/ops/release", NULL);
    expect_status(r, 200);
    expect_str(r, "state", "released");
    expect_int(r, "available", 3);
    r = counter_send(w->b, "POST", "semaphores/ops/drain", NULL);
    expect_status(r, 200);
    expect_int(r, "permits", 3);
    expect_int(r, "available", 0);
    r = counter_send(w->a, "GET", "semaphores/ops", NULL);
    expect_int(r, "available", 0);
    expect_int(r, "waiter_count", 0);
    expect_bool(counter_send(w->a, "DELETE", "semaphores/ops", NULL), "deleted", true);
    expect_bool(counter_send(w->a, "DELETE", "semaphores/ops", NULL), "deleted", false);
    expect_problem(counter_send(w->a, "GET", "semaphores/ops", NULL), 404, "not-found");
}

/* What Redisson does with one that was never made. */
static void test_missing(struct world *w)
{
    struct reply *r = counter_send(w->a, "POST", "semaphores/missing/drain", NULL);

    expect_status(r, 200);
    expect_int(r, "permits", 0);
    expect_problem(counter_send(w->a, "POST", "semaphores/missing/acquire", NULL), 423,
                   "locked");
    assert_false(redis_has(w->redis, "missing"));
    r = counter_send(w->a, "POST", "semaphores/missing/acquire", NULL);
    expect_detail(r, "no such semaphore");
    expect_int(r, "available", 0);
    /* A name with a mistake in it makes nothing, unless that is what is wanted. */
    expect_problem(counter_send(w->a, "POST", "semaphores/missing/release?permits=3", NULL),
                   404, "not-found");
    expect_problem(counter_send(w->a, "POST", "semaphores/missing/release?create=false", NULL),
                   404, "not-found");
    assert_false(redis_has(w->redis, "missing"));
    expect_status(
        counter_send(w->a, "POST", "semaphores/missing/release?permits=3&create=true", NULL),
        200);
    assert_int_equal(permits_in(w, "missing"), 3);
    r = counter_send(w->a, "POST", "semaphores/missing/acquire?permits=4", NULL);
    expect_problem(r, 423, "locked");
    expect_detail(r, "not enough");
    r = counter_send(w->a, "PUT", "semaphores/missing?permits=9", NULL);
    expect_status(r, 200);
    expect_bool(r, "created", false);
    expect_int(r, "available", 3);
    expect_bool(counter_send(w->a, "PUT", "semaphores/made?permits=9", NULL), "created", true);
}

static void test_layout(struct world *w)
{
    struct listener *plain = listener_start(w->redis, "redisson_sc:{layout}");
    struct listener *tagged = listener_start(w->redis, "redisson_sc:app:{42}:x");

    make(w, "layout", 5);
    assert_string_equal(listener_next(plain, SOON_MS), "5");
    assert_string_equal(redis_str(w->redis, "GET layout"), "5");
    assert_int_equal(redis_int(w->redis, "TTL layout"), -1);
    expect_status(counter_send(w->a, "POST", "semaphores/layout/acquire?permits=4", NULL), 200);
    assert_string_equal(redis_str(w->redis, "GET layout"), "1");
    expect_status(counter_send(w->a, "POST", "semaphores/layout/release?permits=2", NULL), 200);
    assert_string_equal(listener_next(plain, SOON_MS), "3");
    expect_status(counter_send(w->a, "POST", "semaphores/layout/drain", NULL), 200);
    assert_string_equal(redis_str(w->redis, "GET layout"), "0");
    expect_status(counter_send(w->a, "PUT", "semaphores/app%3A%7B42%7D%3Ax?permits=2", NULL),
                  201);
    assert_string_equal(listener_next(tagged, SOON_MS), "2");
    assert_string_equal(redis_str(w->redis, "GET app:{42}:x"), "2");
    /* A time that a Java client gave to it stays. */
    redis_ok(w->redis, "SET timed 3 PX 60000");
    expect_status(counter_send(w->a, "POST", "semaphores/timed/acquire", NULL), 200);
    expect_status(counter_send(w->a, "POST", "semaphores/timed/release", NULL), 200);
    assert_true(redis_int(w->redis, "PTTL timed") > 50000);
}

/* Java's listeners read the message as an int, and fail for a negative number. */
static void test_more_permits_than_java_counts(struct world *w)
{
    struct listener *java = listener_start(w->redis, "redisson_sc:{huge}");
    struct reply *r = counter_send(w->a, "PUT", "semaphores/huge?permits=2147483647", NULL);

    expect_status(r, 201);
    assert_string_equal(listener_next(java, SOON_MS), "2147483647");
    r = counter_send(w->a, "POST", "semaphores/huge/release?permits=5", NULL);
    expect_int(r, "available", INT64_C(2147483652));
    assert_string_equal(listener_next(java, SOON_MS), "2147483647");
    assert_true(permits_in(w, "huge") == INT64_C(2147483652));
}

static void test_java_releases_to_a_waiter(struct world *w)
{
    struct call *call;

    redis_ok(w->redis, "SET j2r 2");
    assert_true(redisson_acquire(w->redis, "j2r", 2));
    call = park(w, w->b, "j2r", "permits=2&wait_ms=30000");
    redisson_release(w->redis, "j2r", "redisson_sc:{j2r}", 2);
    expect_status(call_await(call, SOON_MS), 200);
    assert_int_equal(permits_in(w, "j2r"), 0);
    assert_false(redisson_acquire(w->redis, "j2r", 1));
}

static void test_java_waits_for_a_release(struct world *w)
{
    struct listener *java = listener_start(w->redis, "redisson_sc:{r2j}");

    make(w, "r2j", 2);
    assert_string_equal(listener_next(java, SOON_MS), "2");
    expect_status(counter_send(w->a, "POST", "semaphores/r2j/acquire?permits=2", NULL), 200);
    assert_false(redisson_acquire(w->redis, "r2j", 1));
    expect_status(counter_send(w->b, "POST", "semaphores/r2j/release?permits=2", NULL), 200);
    assert_string_equal(listener_next(java, SOON_MS), "2");
    assert_true(redisson_acquire(w->redis, "r2j", 2));
}

static void test_one_release_serves_many(struct world *w)
{
    struct call *calls[6];

    empty(w, "many");
    for (int i = 0; i < 6; i++)
        calls[i] = park(w, i % 2 ? w->a : w->b, "many", "wait_ms=30000");
    redisson_release(w->redis, "many", "redisson_sc:{many}", 6);
    for (int i = 0; i < 6; i++)
        expect_status(call_await(calls[i], SOON_MS), 200);
    assert_int_equal(permits_in(w, "many"), 0);
    assert_int_equal(counter_waiters(w->a, "semaphores/many"), 0);
}

/* One that wants more than there is does not stand in the way of those that want less. */
static void test_the_modest_pass(struct world *w)
{
    struct call *greedy, *big, *small;

    empty(w, "modest");
    greedy = park(w, w->a, "modest", "permits=9&wait_ms=30000");
    big = park(w, w->a, "modest", "permits=9&wait_ms=30000");
    small = park(w, w->a, "modest", "permits=2&wait_ms=30000");
    expect_status(counter_send(w->b, "POST", "semaphores/modest/release?permits=3", NULL), 200);
    expect_status(call_await(small, SOON_MS), 200);
    assert_false(call_done(greedy));
    expect_status(counter_send(w->b, "POST", "semaphores/modest/release?permits=17", NULL),
                  200);
    expect_status(call_await(greedy, SOON_MS), 200);
    expect_status(call_await(big, SOON_MS), 200);
    assert_int_equal(permits_in(w, "modest"), 0);
}

static void test_a_wait_ends(struct world *w)
{
    struct reply *r;

    empty(w, "ends");
    r = counter_send(w->a, "POST", "semaphores/ends/acquire?wait_ms=300", NULL);
    expect_problem(r, 423, "locked");
    assert_true(r->done_ms - r->sent_ms >= 290);
    r = HTTP(w->a, .method = "POST", .path = "/v1/semaphores/ends/acquire",
             .headers = {"Prefer: wait=1"});
    expect_problem(r, 423, "locked");
    assert_true(r->done_ms - r->sent_ms >= 990);
    wait_until(counter_waiters(w->a, "semaphores/ends") == 0, SOON_MS);
}

static void test_hang_up(struct world *w)
{
    struct call *first, *second;

    empty(w, "gone");
    first = park(w, w->a, "gone", "wait_ms=30000");
    second = park(w, w->a, "gone", "wait_ms=30000");
    call_hang_up(first);
    wait_until(counter_waiters(w->b, "semaphores/gone") == 1, SOON_MS);
    expect_status(counter_send(w->b, "POST", "semaphores/gone/release", NULL), 200);
    expect_status(call_await(second, SOON_MS), 200);
    call_hang_up(park(w, w->a, "gone", "wait_ms=30000"));
    wait_until(counter_waiters(w->b, "semaphores/gone") == 0, SOON_MS);
    expect_status(counter_send(w->b, "POST", "semaphores/gone/release", NULL), 200);
    stays_true(permits_in(w, "gone") == 1, 300);
}

/* Gone while Redis takes its time: the permits come back. */
static void test_permits_of_nobody_come_back(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *call;

    make(w, "nobody", 5);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = counter_call(slow.fe, "POST", "semaphores/nobody/acquire?permits=3", NULL);
    wait_until(permits_in(w, "nobody") == 2, 3000);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(permits_in(w, "nobody") == 5, SOON_MS);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = counter_call(slow.fe, "POST", "semaphores/nobody/drain", NULL);
    wait_until(permits_in(w, "nobody") == 0, 3000);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(permits_in(w, "nobody") == 5, SOON_MS);
    stays_true(permits_in(w, "nobody") == 5, 700);
}

/* The same with one that had to wait, and the next one gets what comes back. */
static void test_a_grant_to_nobody_goes_on(struct world *w)
{
    struct slow slow = slow_start(w);
    struct call *lost, *next;

    empty(w, "on");
    lost = park(w, slow.fe, "on", "wait_ms=30000");
    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_HOLD);
    expect_status(counter_send(w->a, "POST", "semaphores/on/release", NULL), 200);
    wait_until(permits_in(w, "on") == 0, 3000);
    assert_false(call_done(lost));
    next = counter_call(w->b, "POST", "semaphores/on/acquire?wait_ms=30000", NULL);
    call_hang_up(lost);
    proxy_set(slow.proxy, PROXY_PASS);
    expect_status(call_await(next, SOON_MS + 1000), 200);
    stays_true(permits_in(w, "on") == 0, 500);
}

static void test_a_lost_message_hangs_nobody(struct world *w)
{
    struct call *call;

    empty(w, "deaf");
    call = park(w, w->a, "deaf", "wait_ms=50000");
    redis_ok(w->redis, "SET deaf 1"); /* says nothing to anybody */
    expect_status(call_await(call, POLL_MS), 200);
    call = park(w, w->a, "deaf", "wait_ms=50000");
    redis_do(w->redis, "CLIENT KILL TYPE pubsub");
    redis_ok(w->redis, "SET deaf 1");
    expect_status(call_await(call, SOON_MS), 200);
}

static void test_killed_redis(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct call *call;

    expect_status(counter_send(fe, "PUT", "semaphores/killed?permits=1", NULL), 201);
    expect_status(counter_send(fe, "POST", "semaphores/killed/drain", NULL), 200);
    call = counter_call(fe, "POST", "semaphores/killed/acquire?wait_ms=50000", NULL);
    wait_until(counter_waiters(fe, "semaphores/killed") == 1, 5000);
    redis_kill(redis);
    wait_until(!front_ready(fe), 3000);
    expect_problem(counter_send(fe, "POST", "semaphores/killed/release", NULL), 503,
                   "redis-unavailable");
    assert_false(call_done(call));
    redis_return(redis);
    wait_until(front_ready(fe), 5000);
    assert_false(call_done(call));
    expect_status(counter_send(fe, "POST", "semaphores/killed/release", NULL), 200);
    expect_status(call_await(call, SOON_MS), 200);
}

/* A request that changes a number is safe to repeat with a key only. */
static void test_frozen_redis(struct world *w)
{
    static const char only_keyed[] = "only requests with an Idempotency-Key";
    static const char same[] = "the same request may be repeated";
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const struct {
        const char *method, *path, *key, *detail;
    } requests[] = {{"POST", "semaphores/frozen/release", NULL, only_keyed},
                    {"POST", "latches/frozen-latch/count-down", NULL, only_keyed},
                    {"POST", "semaphores/frozen/release", token_new(w), "with the same token"},
                    {"GET", "semaphores/frozen", NULL, same},
                    {"PUT", "semaphores/frozen?permits=1", NULL, same},
                    {"DELETE", "semaphores/frozen", NULL, same},
                    {"GET", "latches/frozen-latch", NULL, same},
                    {"PUT", "permit-semaphores/frozen-permits?permits=1", NULL, same}};
    struct call *calls[COUNT_OF(requests)];

    expect_status(counter_send(fe, "PUT", "semaphores/frozen?permits=1", NULL), 201);
    redis_freeze(redis);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        calls[i] = counter_call(fe, requests[i].method, requests[i].path, requests[i].key);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        struct reply *r = call_await(calls[i], 10000);
        expect_problem(r, 503, "redis-unavailable");
        expect_str(r, "outcome", "unknown");
        expect_true(r, strstr(reply_str(r, "detail"), requests[i].detail) != NULL);
    }
    redis_thaw(redis);
}

static void test_out_of_memory(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);

    skip_with_slots(w);
    expect_status(counter_send(fe, "PUT", "semaphores/oom?permits=3", NULL), 201);
    expect_status(counter_send(fe, "PUT", "latches/oom-latch?count=3", NULL), 201);
    redis_ok(redis, "CONFIG SET maxmemory 1");
    expect_problem(counter_send(fe, "POST", "semaphores/oom/acquire", NULL), 503,
                   "redis-unavailable");
    expect_status(counter_send(fe, "POST", "semaphores/oom/release", NULL), 200);
    expect_status(counter_send(fe, "POST", "semaphores/oom/release", token_new(w)), 200);
    expect_status(counter_send(fe, "POST", "latches/oom-latch/count-down", NULL), 200);
    expect_status(counter_send(fe, "POST", "latches/oom-latch/count-down", token_new(w)), 200);
    expect_status(counter_send(fe, "POST", "latches/oom-latch/count-down", NULL), 200);
    assert_int_equal(counter_value(redis, "oom"), 5);
    assert_false(redis_has(redis, "oom-latch"));
    redis_ok(redis, "CONFIG SET maxmemory 0");
}

static void expect_wrong_kind(struct world *w, const char *name)
{
    static const char *const requests[][2] = {{"PUT", "?permits=1"}, {"GET", ""},
                                              {"POST", "/acquire"},  {"POST", "/release"},
                                              {"POST", "/drain"},    {"DELETE", ""}};

    for (size_t i = 0; i < COUNT_OF(requests); i++)
        expect_problem(counter_send(w->a, requests[i][0],
                                    text(w, "semaphores/%s%s", name, requests[i][1]), NULL),
                       409, "wrong-kind");
}

static void test_wrong_kind(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "kind-lock", token, "ttl_ms=60000"), 201);
    expect_wrong_kind(w, "kind-lock");
    expect_status(lock_release(w->a, "kind-lock", token), 200);
    redis_do(w->redis, "RPUSH kind-list 1");
    expect_wrong_kind(w, "kind-list");
    redis_ok(w->redis, "SET kind-text hello");
    expect_wrong_kind(w, "kind-text");
    assert_string_equal(redis_str(w->redis, "GET kind-text"), "hello");
    redis_ok(w->redis, "SET kind-low -1000000000000000000"); /* as long as a number can be */
    expect_int(counter_send(w->a, "GET", "semaphores/kind-low", NULL), "available",
               -1000000000000000000);
    redis_ok(w->redis, "SET kind-permit 1");
    assert_true(redisson_take_permit(w->redis, "kind-permit", "0123456789abcdef",
                                     redis_epoch_ms(w->redis) + 60000));
    expect_wrong_kind(w, "kind-permit");
    make(w, "kind-semaphore", 1);
    expect_problem(lock_put(w->a, "kind-semaphore", token_new(w), NULL), 409, "wrong-kind");
    assert_int_equal(permits_in(w, "kind-semaphore"), 1);
}

static void test_refusals(struct world *w)
{
    static const struct {
        const char *method, *path, *word;
    } rows[] = {
        {"PUT", "semaphores/r", "permits"},
        {"PUT", "semaphores/r?permits=0", "permits"},
        {"PUT", "semaphores/r?permits=2147483648", "permits"},
        {"PUT", "semaphores/r?permits=x", "permits"},
        {"PUT", "semaphores/r?permits=1&count=1", "count"},
        {"POST", "semaphores/r/acquire?permits=0", "permits"},
        {"POST", "semaphores/r/acquire?wait_ms=55001", "wait_ms"},
        {"POST", "semaphores/r/release?wait_ms=1", "wait_ms"},
        {"POST", "semaphores/r/release?create=1", "create"},
        {"POST", "semaphores/r/drain?permits=1", "permits"},
        {"PUT", "semaphores/redisson_x?permits=1", "name"},
        {"PUT", "semaphores/rlockd%3Ax?permits=1", "name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reply *r = counter_send(w->a, rows[i].method, rows[i].path, NULL);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, rows[i].word);
    }
    expect_problem(counter_send(w->a, "POST", "semaphores/r/release", "no-uuid"), 400,
                   "malformed-request");
    expect_status(counter_send(w->a, "PATCH", "semaphores/r", NULL), 405);
    redis_ok(w->redis, "SET full 9007199254740990");
    expect_status(counter_send(w->a, "POST", "semaphores/full/release", NULL), 200);
    expect_problem(counter_send(w->a, "POST", "semaphores/full/release", NULL), 400,
                   "malformed-request");
    assert_string_equal(redis_str(w->redis, "GET full"), "9007199254740991");
}

static void test_drain_and_limit(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--max-connections", "16",
                                   NULL);
    struct call *calls[12];

    empty(w, "crowd");
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = counter_call(fe, "POST",
                                i % 2 ? "semaphores/crowd/acquire?wait_ms=50000"
                                      : "semaphores/crowd/acquire?wait_ms=50000&permits=2",
                                NULL);
    wait_until(counter_waiters(w->a, "semaphores/crowd") == (int)COUNT_OF(calls), 5000);
    expect_problem(counter_send(fe, "POST", "semaphores/crowd/acquire?wait_ms=50000", NULL),
                   429, "too-many-waiters");
    expect_problem(counter_send(fe, "POST", "semaphores/crowd/acquire", NULL), 423, "locked");
    front_stop(fe);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        expect_problem(call_await(calls[i], SOON_MS), 503, "draining");
    wait_until(counter_waiters(w->a, "semaphores/crowd") == 0, SOON_MS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_operations),
        E2E_TEST(test_missing),
        E2E_TEST(test_layout),
        E2E_TEST(test_more_permits_than_java_counts),
        E2E_TEST(test_java_releases_to_a_waiter),
        E2E_TEST(test_java_waits_for_a_release),
        E2E_TEST(test_one_release_serves_many),
        E2E_TEST(test_the_modest_pass),
        E2E_TEST(test_a_wait_ends),
        E2E_TEST(test_hang_up),
        E2E_TEST(test_permits_of_nobody_come_back),
        E2E_TEST(test_a_grant_to_nobody_goes_on),
        E2E_TEST(test_a_lost_message_hangs_nobody),
        E2E_TEST(test_killed_redis),
        E2E_TEST(test_frozen_redis),
        E2E_TEST(test_out_of_memory),
        E2E_TEST(test_wrong_kind),
        E2E_TEST(test_refusals),
        E2E_TEST(test_drain_and_limit),
    };
    struct e2e_plan plan = {.name = "semaphores", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
