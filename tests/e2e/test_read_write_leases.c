/* Reads and writes as leases: repeated, renewed, kept by the watchdog, lost, forced out. */
#include "read_write.h"

static struct reply *force_grant(struct front *fe, const char *lock, json_int_t fence)
{
    struct world *w = fe->world;

    return HTTP(fe, .method = "POST", .path = lock_path(w, lock, "/force-unlock"),
                .headers = {text(w, "If-Match: \"%lld\"", (long long)fence)});
}

static const char *const kinds[] = {"read", "write"};

/* ---- idempotency ---- */

static void test_repeated_requests(struct world *w)
{
    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rwl-again-%d", k), *token = token_new(w);
        const char *early = token_new(w);
        struct reply *first = rw_put(w->a, lock, token, kinds[k]), *r;

        expect_status(first, 201);
        for (int i = 0; i < 4; i++) {
            r = rw_put(i % 2 ? w->a : w->b, lock, token, kinds[k]);
            expect_status(r, 200);
            expect_int(r, "hold_count", 1);
            expect_int(r, "fencing_token", reply_int(first, "fencing_token"));
        }
        for (int i = 0; i < 3; i++)
            expect_int(lock_release(i % 2 ? w->a : w->b, lock, token), "hold_count", 0);
        r = rw_put(w->b, lock, token, kinds[k]);
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "released");
        assert_false(redis_has(w->redis, lock));
        /* A DELETE that overtakes its PUT. */
        expect_problem(lock_release(w->b, lock, early), 410, "lease-ended");
        expect_problem(rw_put(w->a, lock, early, kinds[k]), 410, "lease-ended");
        assert_false(redis_has(w->redis, lock));
    }
}

static void test_a_crowd_with_one_token(struct world *w)
{
    enum { CROWD = 16 };

    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rwl-crowd-%d", k), *token = token_new(w);
        const char *query = text(w, "wait_ms=20000&kind=%s", kinds[k]);
        struct call *calls[CROWD];
        int granted = 0;

        for (int i = 0; i < CROWD; i++)
            calls[i] = call_put(i % 2 ? w->a : w->b, lock, token, query);
        for (int i = 0; i < CROWD; i++) {
            struct reply *r = call_await(calls[i], 5000);
            expect_true(r, r->status == 200 || r->status == 201);
            expect_int(r, "hold_count", 1);
            granted += r->status == 201;
        }
        assert_int_equal(granted, 1);
        assert_int_equal(redis_int(w->redis, "HLEN %s", lock), 2);
        expect_int(lock_release(w->a, lock, token), "hold_count", 0);
        assert_false(redis_has(w->redis, lock));
    }
}

/* Redis runs the command and its answer is lost: the outcome is found out, and nothing stays.
 */
static void test_lost_replies(struct world *w)
{
    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rwl-lost-%d", k), *token = token_new(w);
        struct proxy *proxy = proxy_start(w->redis);
        struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), NULL);

        proxy_set(proxy, PROXY_DROP_REPLIES);
        struct reply *r = rw_put(fe, lock, token, text(w, "%s&ttl_ms=60000", kinds[k]));
        expect_problem(r, 503, "redis-unavailable");
        expect_str(r, "outcome", "unknown");
        proxy_set(proxy, PROXY_PASS);
        /* Elsewhere with the same token: it holds, once. */
        r = rw_put(w->b, lock, token, text(w, "%s&wait_ms=5000", kinds[k]));
        expect_true(r, r->status == 200 || r->status == 201);
        expect_int(r, "hold_count", 1);
        wait_until(front_ready(fe), 10000);
        stays_true(redis_has(w->redis, lock), 700);
        proxy_set(proxy, PROXY_DROP_REPLIES);
        r = lock_release(fe, lock, token);
        expect_problem(r, 503, "redis-unavailable");
        proxy_set(proxy, PROXY_PASS);
        expect_int(lock_release(w->a, lock, token), "hold_count", 0);
        assert_false(redis_has(w->redis, lock));
        assert_int_equal(json_array_size(redis_keys(w->redis, text(w, "{%s}", lock))), 0);
    }
}

/* ---- renewals ---- */

static void test_reads_are_renewed(struct world *w)
{
    const char *first = rw_hold(w->a, "rwl-renew", "read&ttl_ms=20000");
    const char *second = rw_hold(w->b, "rwl-renew", "read&ttl_ms=40000");
    const char *field = rw_field(w->a, "rwl-renew", first);

    struct reply *r = lock_renew(w->b, "rwl-renew", first, "ttl_ms=90000");
    expect_status(r, 200);
    expect_str(r, "kind", "read");
    expect_int(r, "ttl_ms", 90000);
    assert_in_range(rw_read_left(w->redis, "rwl-renew", field, 1), 80000, 90000);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew"), 80000, 90000);
    /* Shorter than the other one: the lock lasts as long as that. */
    expect_status(lock_renew(w->a, "rwl-renew", first, "ttl_ms=10000"), 200);
    assert_in_range(rw_read_left(w->redis, "rwl-renew", field, 1), 5000, 10000);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew"), 30000, 40000);
    expect_status(lock_renew(w->a, "rwl-renew", second, "ttl_ms=5000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew"), 5001, 10000);
    expect_status(lock_release(w->a, "rwl-renew", first), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew"), 1, 5000);
    expect_problem(lock_renew(w->a, "rwl-renew", first, NULL), 410, "lease-ended");
}

static void test_writes_are_renewed(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=100000");
    const char *first = rw_own(w->a, &s, "rwl-renew-w", "write&ttl_ms=20000");
    const char *second;

    expect_status(lock_renew(w->b, "rwl-renew-w", first, "ttl_ms=90000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew-w"), 80000, 90000);
    expect_status(lock_renew(w->b, "rwl-renew-w", first, "ttl_ms=10000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew-w"), 1, 10000);
    /* Neither another write nor a read of the owner is cut by it. */
    second = rw_own(w->a, &s, "rwl-renew-w", "write&ttl_ms=50000");
    expect_status(lock_renew(w->b, "rwl-renew-w", first, "ttl_ms=10000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew-w"), 40000, 50000);
    expect_int(lock_release(w->a, "rwl-renew-w", second), "hold_count", 1);
    rw_own(w->a, &s, "rwl-renew-w", "read&ttl_ms=30000");
    expect_status(lock_renew(w->b, "rwl-renew-w", first, "ttl_ms=10000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew-w"), 20000, 30000);
    /* Released, the lock lasts as long as the read. */
    expect_int(lock_release(w->a, "rwl-renew-w", first), "hold_count", 0);
    assert_in_range(redis_int(w->redis, "PTTL rwl-renew-w"), 20000, 30000);
}

/* Waiters sleep as long as they were told that the lock lasts. */
static void test_shortened_leases_wake(struct world *w)
{
    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rwl-short-%d", k);
        const char *token = rw_hold(w->a, lock, text(w, "%s&ttl_ms=60000", kinds[k]));
        struct call *call = rw_park(w->b, lock, token_new(w), "write");
        int64_t since = now_ms();

        expect_status(lock_renew(w->a, lock, token, "ttl_ms=300"), 200);
        struct reply *r = call_await(call, 10000);
        expect_status(r, 201);
        assert_in_range(r->done_ms - since, 250, allowed_ms(1300));
    }
}

/* A reader of a long time leaves one of a short time that died. */
static void test_a_release_that_shortens_wakes(struct world *w)
{
    const char *lock = "rwl-shrink", *longest;
    int64_t since = now_ms();

    rw_hold(w->a, lock, "read&ttl_ms=1500");
    longest = rw_hold(w->b, lock, "read&ttl_ms=60000");
    struct call *call = rw_park(w->b, lock, token_new(w), "write");
    expect_status(lock_release(w->a, lock, longest), 200);
    struct reply *r = call_await(call, 10000);
    expect_status(r, 201);
    assert_in_range(r->done_ms - since, 1400, allowed_ms(2500));
}

/* A lock that an operator made persistent goes on; no renewal and no release deletes it. */
static void test_a_persistent_lock(struct world *w)
{
    static const char *const all[] = {"read", "write", "lock", "fair"};

    for (int k = 0; k < 4; k++) {
        struct session s = session_new(w->a, "ttl_ms=100000");
        const char *lock = text(w, "rwl-persist-%d", k);
        const char *first = rw_own(w->a, &s, lock, all[k]);
        const char *second = rw_own(w->a, &s, lock, all[k]);

        redis_ok(w->redis, "PERSIST %s", lock);
        expect_status(lock_renew(w->b, lock, first, "ttl_ms=60000"), 200);
        assert_in_range(redis_int(w->redis, "PTTL %s", lock), 1, 60000);
        redis_ok(w->redis, "PERSIST %s", lock);
        expect_int(lock_release(w->b, lock, second), "hold_count", 1);
        assert_true(redis_has(w->redis, lock));
        expect_int(lock_release(w->b, lock, first), "hold_count", 0);
        assert_false(redis_has(w->redis, lock));
    }
}

/* ---- forced out ---- */

static void test_all_readers_are_forced_out(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct listener *listener = listener_start(w->redis, "redisson_rwlock:{rwl-force}");
    const char *token = rw_hold(w->a, "rwl-force", "read");
    struct call *call, *alarm;
    struct reply *r;

    rw_own(w->a, &s, "rwl-force", "read");
    assert_int_equal(redisson_read(w->redis, "rwl-force", JAVA_HOLDER, 60000), JAVA_NIL);
    call = rw_park(w->b, "rwl-force", token_new(w), "write");
    alarm = keep_alive_park(w->b, &s, 14000);
    stays_true(!call_done(alarm) && !call_done(call), 100);
    expect_bool(force_unlock(w->a, "rwl-force"), "unlocked", true);
    r = call_await(alarm, SOON_MS);
    expect_loss(r, "rwl-force", "forced");
    expect_status(call_await(call, SOON_MS), 201);
    assert_string_equal(listener_next(listener, 1000), "1");
    r = lock_release(w->b, "rwl-force", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
}

static void test_one_reader_is_forced_out(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *tokens[3];
    json_int_t fences[3];
    struct reply *r;

    for (int i = 0; i < 3; i++) {
        r = rw_put(w->a, "rwl-grant", tokens[i] = token_new(w), "read");
        fences[i] = reply_int(r, "fencing_token");
    }
    rw_own(w->a, &s, "rwl-grant", "read");
    rw_own(w->a, &s, "rwl-grant", "read");
    r = lock_look(w->b, "rwl-grant");
    json_int_t owned = json_integer_value(
        json_object_get(rw_holder(r, "owner", "me"), "fencing_token"));
    expect_problem(force_grant(w->b, "rwl-grant", fences[0] - 1), 412, "precondition-failed");
    expect_bool(force_grant(w->b, "rwl-grant", fences[1]), "unlocked", true);
    expect_problem(force_grant(w->b, "rwl-grant", fences[1]), 412, "precondition-failed");
    expect_bool(force_grant(w->b, "rwl-grant", fences[0]), "unlocked", true);
    expect_bool(force_grant(w->b, "rwl-grant", owned), "unlocked", true);
    /* Each is told why, also who was not the last. */
    for (int i = 0; i < 2; i++) {
        r = lock_renew(w->b, "rwl-grant", tokens[i], NULL);
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "forced");
    }
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 2, SOON_MS);
    expect_str(r, "lost.0.reason", "forced");
    expect_str(r, "lost.1.reason", "forced");
    expect_status(rw_put(w->b, "rwl-grant", tokens[2], "read"), 200);
    assert_int_equal(redis_int(w->redis, "HLEN rwl-grant"), 2);
    struct call *call = rw_park(w->a, "rwl-grant", token_new(w), "write");
    expect_bool(force_grant(w->b, "rwl-grant", fences[2]), "unlocked", true);
    expect_status(call_await(call, SOON_MS), 201);
}

static void test_a_writer_is_forced_out(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    rw_own(w->a, &s, "rwl-force-w", "write");
    rw_own(w->b, &s, "rwl-force-w", "read");
    json_int_t fence = fence_of(w->a, "rwl-force-w");
    struct call *call = rw_park(w->b, "rwl-force-w", token_new(w), "read");
    expect_problem(force_grant(w->b, "rwl-force-w", fence - 1), 412, "precondition-failed");
    expect_bool(force_grant(w->b, "rwl-force-w", fence), "unlocked", true);
    r = call_await(call, SOON_MS);
    expect_status(r, 201);
    expect_between(r, "fencing_token", fence + 1, INT64_MAX);
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 2, SOON_MS);
    expect_str(r, "lost.0.reason", "forced");
    expect_str(r, "lost.1.reason", "forced");
    expect_bool(force_unlock(w->b, "rwl-force-w"), "unlocked", true);
    expect_bool(force_unlock(w->b, "rwl-force-w"), "unlocked", false);
}

/* ---- out of memory ---- */

static void test_out_of_memory(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct session s = session_new(fe, "ttl_ms=100000");
    const char *reads = rw_hold(fe, "oom-r", "read"), *other = rw_hold(fe, "oom-r", "read");
    const char *writes = rw_own(fe, &s, "oom-w", "write");
    const char *beside = rw_own(fe, &s, "oom-w", "read");
    const char *again = rw_own(fe, &s, "oom-w", "read");

    skip_with_slots(w);
    redis_ok(redis, "CONFIG SET maxmemory 1");
    size_t before = json_array_size(redis_keys(redis, ""));
    const char *names[] = {"oom-r", "oom-new", "oom-new"};
    for (int i = 0; i < 3; i++) {
        struct reply *r = rw_put(fe, names[i], token_new(w), i == 2 ? "write" : "read");
        expect_problem(r, 503, "redis-unavailable");
        expect_str(r, "outcome", "not-executed");
    }
    for (int k = 0; k < 2; k++)
        expect_problem(
            session_put(fe, &s, "oom-w", token_new(w), text(w, "owner=me&kind=%s", kinds[k])),
            503, "redis-unavailable");
    assert_int_equal(json_array_size(redis_keys(redis, "")), before);
    assert_int_equal(redis_int(redis, "HLEN oom-r"), 3);
    assert_int_equal(redis_int(redis, "HLEN oom-w"), 3);
    expect_int(lock_renew(fe, "oom-r", reads, "ttl_ms=50000"), "ttl_ms", 50000);
    expect_int(lock_renew(fe, "oom-w", writes, "ttl_ms=60000"), "hold_count", 1);
    expect_int(lock_renew(fe, "oom-w", beside, "ttl_ms=60000"), "hold_count", 2);
    expect_status(rw_put(fe, "oom-r", reads, "read"), 200);
    expect_int(lock_release(fe, "oom-r", reads), "hold_count", 0);
    expect_int(lock_release(fe, "oom-w", beside), "hold_count", 1);
    expect_int(lock_release(fe, "oom-w", writes), "hold_count", 0);
    assert_string_equal(rw_mode(redis, "oom-w"), "read");
    expect_bool(force_unlock(fe, "oom-r"), "unlocked", true);
    expect_int(session_end(fe, &s), "released", 1);
    assert_false(redis_has(redis, "oom-w"));
    redis_ok(redis, "CONFIG SET maxmemory 0");
    expect_problem(lock_release(fe, "oom-r", other), 410, "lease-ended");
    expect_problem(lock_release(fe, "oom-w", again), 410, "lease-ended");
}

/* Not even a hash that has one field, with the same name, is taken for what a reader left. */
static void test_a_dead_reader_leaves_other_hashes_alone(struct world *w)
{
    const char *lock = "rwl-hash", *reader = token_new(w);

    expect_status(lock_put(w->a, lock, reader, "kind=read&ttl_ms=100"), 201);
    wait_until(!redis_has(w->redis, lock), 2000);
    redis_ok(w->redis, "HSET %s mode dark", lock);
    expect_problem(lock_release(w->b, lock, reader), 410, "lease-ended");
    assert_string_equal(redis_str(w->redis, "HGET %s mode", lock), "dark");
    redis_ok(w->redis, "DEL %s", lock);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_repeated_requests),
        E2E_TEST(test_a_crowd_with_one_token),
        E2E_TEST(test_lost_replies),
        E2E_TEST(test_reads_are_renewed),
        E2E_TEST(test_writes_are_renewed),
        E2E_TEST(test_shortened_leases_wake),
        E2E_TEST(test_a_release_that_shortens_wakes),
        E2E_TEST(test_a_persistent_lock),
        E2E_TEST(test_all_readers_are_forced_out),
        E2E_TEST(test_one_reader_is_forced_out),
        E2E_TEST(test_a_writer_is_forced_out),
        E2E_TEST(test_out_of_memory),
        E2E_TEST(test_a_dead_reader_leaves_other_hashes_alone),
    };
    struct e2e_plan plan = {.name = "read-write-leases", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
