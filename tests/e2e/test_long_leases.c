/* The longest lease, of 366 days, of each kind and by each way to it; and one ms more. */
#include "counters.h"

#define LONGEST "31622400000"
#define TOO_LONG "31622400001"
#define LONGEST_MS INT64_C(31622400000)

static void expect_lasts_longest(struct reply *r)
{
    int64_t left_ms = reply_int(r, "remaining_ms");

    if (left_ms > LONGEST_MS || left_ms < LONGEST_MS - patience_ms(60000))
        FAIL("%lld ms are left", (long long)left_ms);
    assert_int_equal(reply_int(r, "ttl_ms"), LONGEST_MS);
}

/* A fencing counter lasts as long as its lock, whatever --fencing-ttl-ms is. */
static void expect_counter_outlasts(struct world *w, const char *lock)
{
    /* The counter first: time passes between the two. */
    int64_t counter_ms = redis_int(w->redis, "PTTL redisson_lock_token:{%s}", lock);
    int64_t lock_ms = redis_int(w->redis, "PTTL %s", lock);

    assert_true(lock_ms > LONGEST_MS / 2);
    if (counter_ms != -1 && counter_ms < lock_ms)
        FAIL("%s: %lld ms are left, of its counter %lld", lock, (long long)lock_ms,
             (long long)counter_ms);
}

static struct reply *ask(struct front *fe, const char *method, const char *token,
                         const char *path, const char *ttl_ms)
{
    return HTTP(
        fe, .method = method, .token = token,
        .path = text(fe->world, "%s%cttl_ms=%s", path, strchr(path, '?') ? '&' : '?', ttl_ms));
}

static void test_each_kind(struct world *w)
{
    static const struct {
        const char *acquire, *lease, *lock;
    } rows[] = {
        {"/v1/locks/long", "/v1/locks/long", "long"},
        {"/v1/locks/long-fair?kind=fair", "/v1/locks/long-fair", "long-fair"},
        {"/v1/locks/long-read?kind=read", "/v1/locks/long-read", "long-read"},
        {"/v1/locks/long-write?kind=write", "/v1/locks/long-write", "long-write"},
        {"/v1/multi-locks?locks=%7Blong%7D1&locks=%7Blong%7D2", "/v1/multi-locks", NULL},
        {"/v1/permit-semaphores/long-p/permit", "/v1/permit-semaphores/long-p/permit", NULL},
    };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--fencing-ttl-ms", "1000",
                                   NULL);

    expect_status(HTTP(fe, .method = "PUT", .path = "/v1/permit-semaphores/long-p?permits=1"),
                  201);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *token = token_new(w);
        struct reply *r = ask(fe, "PUT", token, rows[i].acquire, TOO_LONG);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "ttl_ms: not a number from 100 to 31622400000");
        r = ask(fe, "PUT", token, rows[i].acquire, LONGEST);
        expect_status(r, 201);
        expect_lasts_longest(r);
        expect_lasts_longest(ask(fe, "PUT", token, rows[i].acquire, LONGEST)); /* confirmed */
        if (rows[i].lock != NULL)
            expect_counter_outlasts(w, rows[i].lock);
        expect_status(ask(fe, "PATCH", token, rows[i].lease, "30000"), 200);
        expect_problem(ask(fe, "PATCH", token, rows[i].lease, TOO_LONG), 400,
                       "malformed-request");
        r = ask(fe, "PATCH", token, rows[i].lease, LONGEST);
        expect_status(r, 200);
        expect_lasts_longest(r);
        if (rows[i].lock != NULL)
            expect_counter_outlasts(w, rows[i].lock);
        expect_status(HTTP(fe, .method = "DELETE", .path = rows[i].lease, .token = token), 200);
    }
}

/* Of two readers the one with the longer lease decides. */
static void test_readers_share_a_counter(struct world *w)
{
    const char *first = token_new(w), *second = token_new(w);
    struct front *fe = front_start(w, "--redis", w->redis->url, "--fencing-ttl-ms", "1000",
                                   NULL);

    expect_status(ask(fe, "PUT", first, "/v1/locks/shared?kind=read", LONGEST), 201);
    expect_status(ask(fe, "PUT", second, "/v1/locks/shared?kind=read", "500"), 201);
    expect_counter_outlasts(w, "shared");
}

/* Looks, listings, a refusal, the fencing token and the session know the time that is left. */
static void test_what_others_see(struct world *w)
{
    const char *token = token_new(w), *session = token_new(w);
    const char *header = text(w, "Session-Token: %s", session);
    struct reply *opened = HTTP(w->a, .method = "POST", .path = "/v1/sessions?ttl_ms=60000",
                                .headers = {header});
    const char *path = text(w, "/v1/sessions/%s", reply_str(opened, "session_id"));
    struct reply *r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/seen?ttl_ms=" LONGEST,
                           .token = token, .headers = {header});

    expect_status(r, 201);
    const char *check = text(w, "/v1/locks/seen/fencing-tokens/%lld",
                             (long long)reply_int(r, "fencing_token"));
    expect_bool(http(w->b, "GET", check, NULL), "current", true);
    r = http(w->b, "GET", "/v1/locks/seen", NULL);
    assert_true(reply_int(r, "remaining_ms") > LONGEST_MS - patience_ms(60000));
    r = lock_put(w->b, "seen", token_new(w), "wait_ms=100");
    expect_problem(r, 423, "locked");
    assert_true(reply_int(r, "remaining_ms") > LONGEST_MS - patience_ms(60000));
    assert_in_range(reply_int(r, "retry_after_ms"), 1, 1000);
    r = HTTP(w->b, .method = "POST", .path = text(w, "%s/keep-alive", path),
             .headers = {header});
    expect_status(r, 200);
    json_t *lease = json_array_get(reply_get(r, "leases"), 0);
    assert_true(json_integer_value(json_object_get(lease, "remaining_ms")) >
                LONGEST_MS - patience_ms(60000));
    /* The end of the session ends the lease at once. */
    expect_status(HTTP(w->a, .method = "DELETE", .path = path, .headers = {header}), 200);
    expect_status(lock_put(w->b, "seen", token_new(w), NULL), 201);
}

/* A request that waits behind the longest lease, in each queue, gets the lock at its release.
 */
static void test_waiters_behind_it(struct world *w)
{
    static const char *const kinds[] = {"lock", "fair", "write"};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *lock = text(w, "behind-%s", kinds[i]), *token = token_new(w);
        const char *query = text(w, "kind=%s&ttl_ms=" LONGEST, kinds[i]);
        expect_status(lock_put(w->a, lock, token, query), 201);
        struct call *waiting = CALL(
            w->b, .method = "PUT", .token = token_new(w),
            .path = text(w, "/v1/locks/%s?%s&wait_ms=30000", lock, query));
        wait_until(waiter_count(w->a, lock) == 1, patience_ms(5000));
        expect_status(lock_release(w->a, lock, token), 200);
        struct reply *r = call_await(waiting, patience_ms(20000));
        expect_status(r, 201);
        expect_lasts_longest(r);
        expect_counter_outlasts(w, lock);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_each_kind),
        E2E_TEST(test_readers_share_a_counter),
        E2E_TEST(test_what_others_see),
        E2E_TEST(test_waiters_behind_it),
    };
    struct e2e_plan plan = {.name = "long_leases", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
