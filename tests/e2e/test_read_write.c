/* Read/write locks: readers share, a writer is alone, and an owner may do both. */
#include "read_write.h"

static struct reply *check(struct front *fe, const char *lock, json_int_t number)
{
    const char *rest = text(fe->world, "/fencing-tokens/%lld", (long long)number);

    return http(fe, "GET", lock_path(fe->world, lock, rest), NULL);
}

static void test_readers_share(struct world *w)
{
    const char *tokens[3];
    json_int_t fences[3];

    for (int i = 0; i < 3; i++) {
        tokens[i] = token_new(w);
        struct reply *r = rw_put(i % 2 ? w->b : w->a, "rw/share", tokens[i], "read&note=n");
        expect_status(r, 201);
        expect_str(r, "kind", "read");
        expect_str(r, "state", "held");
        expect_int(r, "hold_count", 1);
        fences[i] = reply_int(r, "fencing_token");
        assert_true(i == 0 || fences[i] > fences[i - 1]);
    }
    struct reply *r = lock_look(w->b, "rw/share");
    expect_bool(r, "locked", true);
    expect_str(r, "kind", "read");
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 3);
    for (int i = 0; i < 3; i++) {
        struct reply *again = rw_put(w->a, "rw/share", tokens[i], "read");
        expect_status(again, 200);
        expect_int(again, "fencing_token", fences[i]);
        json_t *holder = rw_holder(r, "lease_id", reply_str(again, "lease_id"));
        assert_string_equal(json_string_value(json_object_get(holder, "kind")), "read");
        assert_string_equal(json_string_value(json_object_get(holder, "note")), "n");
        assert_int_equal(json_integer_value(json_object_get(holder, "fencing_token")),
                         fences[i]);
        assert_in_range(json_integer_value(json_object_get(holder, "remaining_ms")), 20000,
                        30000);
        /* Of readers each is current while it holds. */
        expect_bool(check(w->b, "rw/share", fences[i]), "current", true);
    }
    expect_int(lock_release(w->b, "rw/share", tokens[1]), "hold_count", 0);
    expect_problem(check(w->a, "rw/share", fences[1]), 409, "fencing-token-stale");
    expect_bool(check(w->a, "rw/share", fences[0]), "current", true);
    expect_problem(check(w->a, "rw/share", fences[2] + 1), 409, "fencing-token-stale");
    assert_int_equal(
        json_array_size(json_object_get(lock_look(w->a, "rw/share")->json, "holders")), 2);
    expect_status(lock_release(w->a, "rw/share", tokens[0]), 200);
    assert_true(redis_has(w->redis, "rw/share"));
    expect_status(lock_release(w->a, "rw/share", tokens[2]), 200);
    assert_int_equal(json_array_size(redis_keys(w->redis, "{rw/share}")), 0);
    assert_false(redis_has(w->redis, "rw/share"));
}

static void test_a_writer_is_alone(struct world *w)
{
    const char *token = token_new(w), *third = token_new(w);
    struct reply *r = rw_put(w->a, "rw-alone", token, "write&note=me");
    json_int_t fence = reply_int(r, "fencing_token");
    const char *lease_id = reply_str(r, "lease_id");

    expect_status(r, 201);
    expect_str(r, "kind", "write");
    for (int i = 0; i < 2; i++) {
        r = rw_put(w->b, "rw-alone", token_new(w), i ? "read" : "write");
        expect_problem(r, 423, "locked");
        expect_str(r, "holder.lease_id", lease_id);
        expect_str(r, "holder.kind", "write");
        expect_str(r, "holder.note", "me");
        expect_between(r, "remaining_ms", 20000, 30000);
    }
    r = lock_look(w->b, "rw-alone");
    expect_str(r, "kind", "write");
    expect_str(r, "holders.0.lease_id", lease_id);
    expect_str(r, "holders.0.kind", "write");
    expect_int(r, "holders.0.fencing_token", fence);
    expect_between(r, "holders.0.remaining_ms", 20000, 30000);
    expect_bool(check(w->b, "rw-alone", fence), "current", true);
    expect_status(lock_release(w->b, "rw-alone", token), 200);
    assert_false(redis_has(w->redis, "rw-alone"));
    /* And readers keep a writer out. */
    r = rw_put(w->a, "rw-alone", third, "read&note=reads");
    expect_status(r, 201);
    expect_between(r, "fencing_token", fence + 1, INT64_MAX);
    lease_id = reply_str(r, "lease_id");
    r = rw_put(w->b, "rw-alone", token_new(w), "write");
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.lease_id", lease_id);
    expect_str(r, "holder.kind", "read");
    expect_str(r, "holder.note", "reads");
    expect_status(lock_release(w->b, "rw-alone", third), 200);
}

/* Each of an owner's reads and writes counts, and has a token of its own. */
static void test_reentrancy(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    static const char *const kinds[] = {"read", "write"};

    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rw-re-%s", kinds[k]), *tokens[3];
        const char *query = text(w, "owner=me&kind=%s", kinds[k]);
        json_int_t fence = 0;

        for (int n = 0; n < 3; n++) {
            tokens[n] = token_new(w);
            struct reply *r = session_put(n % 2 ? w->b : w->a, &s, lock, tokens[n], query);
            expect_status(r, 201);
            expect_int(r, "hold_count", n + 1);
            fence = n == 0 ? reply_int(r, "fencing_token") : fence;
            expect_int(r, "fencing_token", fence);
        }
        struct reply *r = session_put(w->a, &s, lock, tokens[0], query);
        expect_status(r, 200);
        expect_int(r, "hold_count", 3);
        expect_int(r, "fencing_token", fence);
        r = lock_look(w->a, lock);
        expect_str(r, "holders.0.session_id", s.id);
        expect_str(r, "holders.0.owner", "me");
        expect_str(r, "holders.0.kind", kinds[k]);
        expect_int(r, "holders.0.hold_count", 3);
        expect_int(r, "holders.0.fencing_token", fence);
        expect_bool(check(w->b, lock, fence), "current", true);
        expect_int(lock_release(w->a, lock, tokens[1]), "hold_count", 2);
        expect_int(lock_release(w->b, lock, tokens[1]), "hold_count", 2);
        expect_int(lock_release(w->a, lock, tokens[0]), "hold_count", 1);
        expect_bool(check(w->b, lock, fence), "current", true);
        expect_int(lock_release(w->b, lock, tokens[2]), "hold_count", 0);
        assert_false(redis_has(w->redis, lock));
    }
    expect_alive(keep_alive(w->a, &s, NULL), 0);
}

/* Its own reads beside its write, and what is left of them. */
static void test_downgrade(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->b, NULL);
    struct listener *listener = listener_start(w->redis, "redisson_rwlock:{rw-down}");
    const char *writes = rw_own(w->a, &s, "rw-down", "write"), *reads = token_new(w);
    json_int_t fence = fence_of(w->a, "rw-down");
    struct reply *r = session_put(w->b, &s, "rw-down", reads, "owner=me&kind=read");

    expect_status(r, 201);
    expect_int(r, "hold_count", 1);
    expect_int(r, "fencing_token", fence);
    r = lock_look(w->b, "rw-down");
    expect_str(r, "kind", "write");
    assert_non_null(rw_holder(r, "kind", "write"));
    assert_non_null(rw_holder(r, "kind", "read"));
    expect_problem(session_put(w->b, &other, "rw-down", token_new(w), "owner=me&kind=read"),
                   423, "locked");
    struct call *writer = rw_park(w->b, "rw-down", token_new(w), "write");
    struct call *near = rw_park(w->a, "rw-down", token_new(w), "read");
    struct call *far = rw_park(w->b, "rw-down", token_new(w), "read");
    int64_t since = now_ms();
    expect_int(lock_release(w->b, "rw-down", writes), "hold_count", 0);
    assert_string_equal(rw_mode(w->redis, "rw-down"), "read");
    assert_string_equal(listener_next(listener, 1000), "1");
    struct call *const in[] = {near, far};
    for (int i = 0; i < 2; i++) {
        r = call_await(in[i], SOON_MS);
        expect_status(r, 201);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        assert_true(r->done_ms - since <= allowed_ms(500));
    }
    stays_true(!call_done(writer), 100);
    expect_str(lock_look(w->a, "rw-down"), "kind", "read");
    expect_status(session_put(w->a, &s, "rw-down", reads, "owner=me&kind=read"), 200);
    expect_bool(check(w->a, "rw-down", fence), "current", true);
    assert_null(listener_next(listener, 50));
    call_hang_up(writer);
}

/* Released in the other order, the write goes on alone. */
static void test_the_write_outlives_the_read(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *writes = rw_own(w->a, &s, "rw-beside", "write&ttl_ms=60000");
    const char *reads = rw_own(w->b, &s, "rw-beside", "read&ttl_ms=5000");

    expect_int(lock_release(w->a, "rw-beside", reads), "hold_count", 0);
    assert_string_equal(rw_mode(w->redis, "rw-beside"), "write");
    /* Redisson would have cut it down to 5 s. */
    assert_in_range(redis_int(w->redis, "PTTL rw-beside"), 50000, 60000);
    expect_problem(rw_put(w->b, "rw-beside", token_new(w), "read"), 423, "locked");
    expect_status(lock_release(w->b, "rw-beside", writes), 200);
    assert_int_equal(json_array_size(redis_keys(w->redis, "{rw-beside}")), 0);
    assert_false(redis_has(w->redis, "rw-beside"));
}

/* A reader that wants to write would wait for itself. */
static void test_an_upgrade_is_a_conflict(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *reads = rw_own(w->a, &s, "rw-up", "read"), *token = token_new(w);
    int64_t since = now_ms();
    struct reply *r = session_put(w->b, &s, "rw-up", token,
                                  "owner=me&kind=write&wait_ms=30000");

    expect_problem(r, 409, "wrong-kind");
    expect_detail(r, "kind");
    assert_true(r->done_ms - since <= allowed_ms(1000));
    assert_int_equal(waiter_count(w->a, "rw-up"), 0);
    expect_int(lock_look(w->a, "rw-up"), "holders.0.hold_count", 1);
    /* It changed nothing: the same request is good once the read is released. */
    expect_status(lock_release(w->a, "rw-up", reads), 200);
    expect_status(session_put(w->a, &s, "rw-up", token, "owner=me&kind=write"), 201);
    /* Who writes and reads may write once more; after the downgrade it may not. */
    rw_own(w->a, &s, "rw-up", "read");
    const char *second = token_new(w);
    expect_int(session_put(w->b, &s, "rw-up", second, "owner=me&kind=write"), "hold_count", 2);
    expect_int(lock_release(w->b, "rw-up", token), "hold_count", 1);
    expect_int(lock_release(w->b, "rw-up", second), "hold_count", 0);
    expect_problem(session_put(w->b, &s, "rw-up", token_new(w), "owner=me&kind=write"), 409,
                   "wrong-kind");
    /* Another owner of the session, or none, waits like a stranger. */
    expect_problem(session_put(w->b, &s, "rw-up", token_new(w), "owner=you&kind=write"), 423,
                   "locked");
    expect_problem(session_put(w->b, &s, "rw-up", token_new(w), "kind=write"), 423, "locked");
}

static void test_an_upgrade_of_one_that_waits(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        const char *lock = text(w, "rw-late-%d", i), *token = token_new(w);
        struct session s = session_new(w->a, NULL);
        struct call *call;
        struct reply *r;

        rw_hold(w->a, lock, "read");
        call = rw_park_owner(i ? w->b : w->a, &s, lock, token, "write");
        stays_true(!call_done(call), 100);
        int64_t since = now_ms();
        rw_own(w->a, &s, lock, "read");
        r = call_await(call, SOON_MS);
        expect_problem(r, 409, "wrong-kind");
        assert_true(r->done_ms - since <= allowed_ms(500));
        wait_until(waiter_count(w->a, lock) == 0, SOON_MS);
        /* It took nothing and its token is not spent. */
        expect_problem(session_put(w->b, &s, lock, token, "owner=me&kind=write"), 409,
                       "wrong-kind");
    }
}

static void test_a_token_names_one_kind(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = rw_hold(w->a, "rw-token", "read");
    const char *owned = rw_own(w->a, &s, "rw-token", "read");

    expect_problem(rw_put(w->b, "rw-token", token, "write"), 422, "token-reused");
    expect_problem(rw_put(w->b, "rw-token", token, "fair"), 422, "token-reused");
    expect_problem(lock_put(w->b, "rw-token", token, NULL), 422, "token-reused");
    expect_problem(session_put(w->b, &s, "rw-token", owned, "owner=me&kind=write"), 422,
                   "token-reused");
    expect_status(rw_put(w->b, "rw-token", token, "read"), 200);
    expect_status(lock_release(w->b, "rw-token", token), 200);
    expect_status(lock_release(w->b, "rw-token", owned), 200);
    struct reply *r = rw_put(w->a, "rw-token", token_new(w), "shared");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "kind");
    assert_false(redis_has(w->redis, "rw-token"));
}

static void test_the_server_makes_the_token(struct world *w)
{
    struct reply *r = http(w->a, "POST", "/v1/locks/rw-post?kind=read", NULL);
    const char *token = reply_header(w, r, "Lease-Token");

    expect_status(r, 201);
    expect_str(r, "kind", "read");
    token_watch(w, token);
    expect_status(http(w->b, "POST", "/v1/locks/rw-post?kind=read", token), 200);
    r = rw_put(w->b, "rw-post", token, "read");
    expect_status(r, 200);
    expect_str(r, "kind", "read");
    expect_str(lock_renew(w->b, "rw-post", token, "ttl_ms=60000"), "kind", "read");
    expect_int(lock_release(w->a, "rw-post", token), "hold_count", 0);
    assert_false(redis_has(w->redis, "rw-post"));
    expect_problem(rw_put(w->b, "rw-post", token, "read"), 410, "lease-ended");
}

static void test_listing(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    size_t i;
    json_t *lock;

    for (i = 0; i < 6; i++)
        rw_hold(w->a, "rw-list/read", "read");
    rw_own(w->a, &s, "rw-list/write", "write");
    rw_own(w->b, &s, "rw-list/write", "read");
    struct reply *r = http(w->b, "GET", "/v1/locks?prefix=rw-list/", NULL);
    expect_status(r, 200);
    json_t *locks = json_object_get(r->json, "locks");
    assert_int_equal(json_array_size(locks), 2);
    json_array_foreach(locks, i, lock) {
        const char *kind = json_string_value(json_object_get(lock, "kind"));
        json_t *holders = json_object_get(lock, "holders");

        assert_true(json_is_true(json_object_get(lock, "locked")));
        if (strcmp(kind, "read") == 0)
            assert_int_equal(json_integer_value(json_object_get(lock, "holder_count")), 6);
        else
            assert_string_equal(kind, "write");
        assert_int_equal(json_array_size(holders), strcmp(kind, "read") == 0 ? 4 : 2);
        assert_non_null(json_object_get(json_array_get(holders, 0), "fencing_token"));
    }
}

/* A listing names a few readers of each lock: those that live, however many have died. */
static void test_the_dead_are_not_listed(struct world *w)
{
    enum { DEAD = 30 };
    const char *dead = NULL, *lock = "rw-dead/list";

    rw_hold(w->a, lock, "read&ttl_ms=600000");
    for (int i = 0; i < DEAD; i++)
        dead = rw_hold(w->b, lock, "read&ttl_ms=1000");
    const char *field = rw_field(w->a, lock, dead);
    wait_until(rw_read_left(w->redis, lock, field, 1) == -2, SOON_MS);
    struct reply *r = http(w->a, "GET", "/v1/locks?prefix=rw-dead/", NULL);
    expect_status(r, 200);
    expect_str(r, "locks.0.kind", "read");
    expect_true(r, json_array_size(reply_get(r, "locks.0.holders")) == 1);
    expect_absent(r, "locks.0.holder_count");
}

/* Every reader is current, however many there are, and a 423 names one in full. */
static void test_a_crowd_of_readers(struct world *w)
{
    enum { CROWD = 130 };
    struct session s = session_new(w->a, NULL);
    const char *owners[CROWD];
    json_int_t fences[CROWD];

    for (int i = 0; i < CROWD; i++) {
        owners[i] = text(w, "owner=o-%d&kind=read", i);
        struct reply *r = session_put(i % 2 ? w->b : w->a, &s, "rw-crowd", token_new(w),
                                      owners[i]);
        expect_status(r, 201);
        fences[i] = reply_int(r, "fencing_token");
    }
    struct reply *r = lock_look(w->a, "rw-crowd");
    expect_int(r, "holder_count", CROWD);
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 100);
    for (int i = 0; i < CROWD; i++)
        expect_bool(check(i % 2 ? w->a : w->b, "rw-crowd", fences[i]), "current", true);
    expect_problem(check(w->a, "rw-crowd", fences[CROWD - 1] + 1), 409, "fencing-token-stale");
    for (int i = 0; i < 10; i++) {
        r = rw_put(w->b, "rw-crowd", token_new(w), "write");
        expect_problem(r, 423, "locked");
        expect_str(r, "holder.session_id", s.id);
        expect_absent(r, "holder.redisson_holder");
    }
    expect_int(session_end(w->b, &s), "released", CROWD);
    assert_false(redis_has(w->redis, "rw-crowd"));
    assert_int_equal(json_array_size(redis_keys(w->redis, "{rw-crowd}")), 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_readers_share),
        E2E_TEST(test_a_writer_is_alone),
        E2E_TEST(test_reentrancy),
        E2E_TEST(test_downgrade),
        E2E_TEST(test_the_write_outlives_the_read),
        E2E_TEST(test_an_upgrade_is_a_conflict),
        E2E_TEST(test_an_upgrade_of_one_that_waits),
        E2E_TEST(test_a_token_names_one_kind),
        E2E_TEST(test_the_server_makes_the_token),
        E2E_TEST(test_listing),
        E2E_TEST(test_the_dead_are_not_listed),
        E2E_TEST(test_a_crowd_of_readers),
    };
    struct e2e_plan plan = {.name = "read-write", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
