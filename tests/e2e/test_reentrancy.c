/* Leases of one session with one owner share a lock: each has its token, all count. */
#include "harness_session.h"

enum { SOON_MS = 1500 };

static long long holds_in_redis(struct world *w, const char *lock, const struct session *s,
                                const char *owner)
{
    const char *count = redis_str(w->redis, "HGET %s %s:%s", lock, s->id, owner);

    return count != NULL ? atoll(count) : 0;
}

static const char *hold(struct front *fe, const struct session *s, const char *lock,
                        const char *owner)
{
    return session_hold(fe, s, lock, text(fe->world, "owner=%s", owner));
}

static void test_holds_are_counted(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *first = token_new(w), *second = token_new(w);
    struct reply *a = session_put(w->a, &s, "re", first, "owner=w-1");
    struct reply *b = session_put(w->b, &s, "re", second, "owner=w-1");
    struct reply *r;

    expect_status(a, 201);
    expect_int(a, "hold_count", 1);
    expect_str(a, "owner", "w-1");
    expect_str(a, "session_id", s.id);
    expect_status(b, 201);
    expect_int(b, "hold_count", 2);
    expect_int(b, "fencing_token", reply_int(a, "fencing_token"));
    assert_string_not_equal(reply_str(a, "lease_id"), reply_str(b, "lease_id"));
    assert_int_equal(holds_in_redis(w, "re", &s, "w-1"), 2);
    assert_int_equal(redis_int(w->redis, "HLEN re"), 1);
    /* A retry is told the same and counts nothing. */
    for (int i = 0; i < 6; i++) {
        r = session_put(i % 2 ? w->a : w->b, &s, "re", i % 3 ? first : second, "owner=w-1");
        expect_status(r, 200);
        expect_int(r, "hold_count", 2);
        expect_int(r, "fencing_token", reply_int(a, "fencing_token"));
    }
    assert_int_equal(holds_in_redis(w, "re", &s, "w-1"), 2);
    expect_alive(keep_alive(w->a, &s, NULL), 2);
    r = lock_look(w->a, "re");
    expect_int(r, "holders.0.hold_count", 2);
    expect_str(r, "holders.0.session_id", s.id);
    expect_str(r, "holders.0.owner", "w-1");
}

/* In any order: the last one frees and wakes; the same DELETE again says the same. */
static void test_released_in_any_order(struct world *w)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};

    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        const char *lock = text(w, "re-order-%zu", i);
        struct session s = session_new(w->a, NULL), other = session_new(w->b, NULL);
        struct listener *listener = listener_start(
            w->redis, text(w, "redisson_lock__channel:{%s}", lock));
        const char *tokens[3];
        struct call *next;

        for (int n = 0; n < 3; n++)
            tokens[n] = hold(n % 2 ? w->a : w->b, &s, lock, "me");
        json_int_t fence = fence_of(w->a, lock);
        next = session_call_put(w->b, &other, lock, token_new(w), "wait_ms=20000&owner=me");
        wait_until(waiter_count(w->a, lock) == 1, 3000);
        for (int n = 0; n < 3; n++) {
            for (int again = 0; again < 2; again++) {
                struct reply *r = lock_release(again ? w->b : w->a, lock, tokens[orders[i][n]]);

                expect_status(r, 200);
                expect_str(r, "state", "released");
                expect_int(r, "hold_count", 2 - n);
            }
            if (n == 2)
                break;
            assert_int_equal(holds_in_redis(w, lock, &s, "me"), 2 - n);
            assert_null(listener_next(listener, 50));
            assert_false(call_done(next));
        }
        assert_string_equal(listener_next(listener, 2000), "0");
        struct reply *r = call_await(next, SOON_MS);
        expect_status(r, 201);
        expect_int(r, "hold_count", 1);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        /* Told the same once more, and it takes nothing from the next one. */
        r = lock_release(w->a, lock, tokens[orders[i][2]]);
        expect_status(r, 200);
        expect_int(r, "hold_count", 0);
        assert_int_equal(holds_in_redis(w, lock, &other, "me"), 1);
    }
}

static void test_others_wait(struct world *w)
{
    struct session s = session_new(w->a, NULL), foreign = session_new(w->a, NULL);
    const char *token = hold(w->a, &s, "re-others", "one");
    struct call *call;
    struct reply *r;

    expect_problem(session_put(w->b, &s, "re-others", token_new(w), "owner=two"), 423,
                   "locked");
    expect_problem(session_put(w->b, &s, "re-others", token_new(w), NULL), 423, "locked");
    expect_problem(session_put(w->b, &s, "re-others", token_new(w), "owner=One"), 423,
                   "locked");
    expect_problem(session_put(w->a, &foreign, "re-others", token_new(w), "owner=one"), 423,
                   "locked");
    expect_problem(lock_put(w->a, "re-others", token_new(w), NULL), 423, "locked");
    call = session_call_put(w->b, &s, "re-others", token_new(w), "owner=two&wait_ms=20000");
    wait_until(waiter_count(w->a, "re-others") == 1, 3000);
    /* Who waits does not stand in the way of who holds. */
    expect_int(session_put(w->b, &s, "re-others", token_new(w), "owner=one"), "hold_count", 2);
    json_int_t fence = fence_of(w->a, "re-others");
    expect_int(lock_release(w->a, "re-others", token), "hold_count", 1);
    stays_true(!call_done(call), 100);
    expect_status(force_unlock(w->a, "re-others"), 200);
    r = call_await(call, SOON_MS);
    expect_status(r, 201);
    expect_between(r, "fencing_token", fence + 1, INT64_MAX);
}

/* Leases without an owner are not reentrant, also within one session. */
static void test_without_an_owner_nothing_is_reentrant(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "re-not", NULL);
    expect_problem(session_put(w->a, &s, "re-not", token_new(w), NULL), 423, "locked");
    expect_problem(session_put(w->b, &s, "re-not", token_new(w), "owner=me"), 423, "locked");
}

static void test_owners_that_are_refused(struct world *w)
{
    static const char *const wrong[] = {"", "write", "a%20b", "a:b", "a/b", "%C3%A4", "a%2Cb"};
    const char *longest = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789._-def";
    struct session s = session_new(w->a, NULL);
    struct reply *r = lock_put(w->a, "re-wrong", token_new(w), "owner=me");

    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "owner");
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        r = session_put(w->a, &s, "re-wrong", token_new(w), text(w, "owner=%s", wrong[i]));
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "owner");
    }
    r = session_put(w->a, &s, "re-wrong", token_new(w), text(w, "owner=%sx", longest));
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "owner");
    assert_false(redis_has(w->redis, "re-wrong"));
    hold(w->a, &s, "re-wrong", longest);
    assert_int_equal(holds_in_redis(w, "re-wrong", &s, longest), 1);
}

/* "0" is what stands for the thread of a lease without an owner. */
static void test_an_owner_called_0(struct world *w)
{
    struct session s = session_new(w->a, "name=zero");
    const char *token = hold(w->a, &s, "re-zero", "0");
    struct call *call;
    struct reply *r;

    expect_int(session_put(w->b, &s, "re-zero", token_new(w), "owner=0"), "hold_count", 2);
    r = lock_put(w->b, "re-zero", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.session_id", s.id);
    expect_str(r, "holder.owner", "0");
    expect_absent(r, "holder.lease_id");
    expect_int(lock_release(w->a, "re-zero", token), "hold_count", 1);
    call = keep_alive_park(w->b, &s, 14000);
    stays_true(!call_done(call), 100);
    int64_t from_ms = now_ms();
    expect_status(force_unlock(w->a, "re-zero"), 200);
    r = call_await(call, 1000);
    expect_loss(r, "re-zero", "forced");
    assert_in_range(r->done_ms - from_ms, 0, allowed_ms(150));
}

static void test_a_hold_that_ends_by_itself(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *kept = hold(w->a, &s, "re-ttl", "me"), *brief = token_new(w);
    struct reply *r;

    r = session_put(w->b, &s, "re-ttl", brief, "owner=me&ttl_ms=400");
    expect_status(r, 201);
    expect_bool(r, "watchdog", false);
    expect_int(r, "hold_count", 2);
    wait_until(holds_in_redis(w, "re-ttl", &s, "me") == 1, SOON_MS);
    wait_until(losses_len(r = keep_alive(w->a, &s, NULL)) == 1, SOON_MS);
    expect_loss(r, "re-ttl", "expired");
    assert_non_null(lease_of(r, "re-ttl"));
    r = session_put(w->a, &s, "re-ttl", brief, "owner=me&ttl_ms=400");
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    expect_problem(lock_release(w->b, "re-ttl", brief), 410, "lease-ended");
    stays_true(holds_in_redis(w, "re-ttl", &s, "me") == 1, 2 * watchdog_ms());
    expect_int(lock_release(w->b, "re-ttl", kept), "hold_count", 0);
    assert_false(redis_has(w->redis, "re-ttl"));
}

/* The brief one first: the watchdog's lease keeps the lock beyond it. And a short renewal of
 * one hold does not cut the others. */
static void test_holds_do_not_shorten_each_other(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = token_new(w);

    expect_status(session_put(w->a, &s, "re-brief", token_new(w), "owner=me&ttl_ms=300"), 201);
    hold(w->b, &s, "re-brief", "me");
    wait_until(holds_in_redis(w, "re-brief", &s, "me") == 1, SOON_MS);
    stays_true(holds_in_redis(w, "re-brief", &s, "me") == 1, 2 * watchdog_ms());
    expect_status(session_put(w->a, &s, "re-long", token_new(w), "owner=me&ttl_ms=60000"), 201);
    expect_status(
        session_put(w->a, &s, "re-long", token, text(w, "owner=me&%s", ttl_of(w, 500))), 201);
    assert_in_range(redis_int(w->redis, "PTTL re-long"), 50000, 60000);
    expect_status(lock_renew(w->b, "re-long", token, "ttl_ms=300"), 200);
    assert_in_range(redis_int(w->redis, "PTTL re-long"), 50000, 60000);
    wait_until(holds_in_redis(w, "re-long", &s, "me") == 1, SOON_MS);
    stays_true(holds_in_redis(w, "re-long", &s, "me") == 1, 2 * watchdog_ms());
}

/* The lock was lost and got again by the same owner: the old lease holds nothing. */
static void test_a_lost_hold_does_not_come_back(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *old = hold(w->a, &s, "re-stale", "me"), *fresh = token_new(w);
    json_int_t fence = fence_of(w->a, "re-stale");
    struct reply *r;

    redis_ok(w->redis, "DEL re-stale");
    r = session_put(w->a, &s, "re-stale", fresh, "owner=me");
    expect_status(r, 201);
    expect_int(r, "hold_count", 1);
    expect_between(r, "fencing_token", fence + 1, INT64_MAX);
    expect_problem(session_put(w->b, &s, "re-stale", old, "owner=me"), 410, "lease-ended");
    expect_problem(lock_renew(w->a, "re-stale", old, NULL), 410, "lease-ended");
    expect_problem(lock_release(w->b, "re-stale", old), 410, "lease-ended");
    assert_int_equal(holds_in_redis(w, "re-stale", &s, "me"), 1);
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 1, SOON_MS);
    expect_loss(r, "re-stale", "expired");
    assert_int_equal(leases_len(r), 1);
    stays_true(holds_in_redis(w, "re-stale", &s, "me") == 1, 2 * watchdog_ms());
    expect_int(lock_release(w->b, "re-stale", fresh), "hold_count", 0);
}

/* The reason of a later loss is its own. */
static void test_forced_out_with_all_holds(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    hold(w->a, &s, "re-forced", "me");
    hold(w->b, &s, "re-forced", "me");
    expect_status(force_unlock(w->a, "re-forced"), 200);
    wait_until(losses_len(r = keep_alive(w->a, &s, NULL)) == 2, SOON_MS);
    expect_str(r, "lost.0.reason", "forced");
    expect_str(r, "lost.1.reason", "forced");
    wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 0, SOON_MS);
    hold(w->b, &s, "re-forced", "me");
    redis_ok(w->redis, "DEL re-forced");
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 1, SOON_MS);
    expect_str(r, "lost.0.reason", "expired");
}

static void test_a_token_names_one_lease(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = hold(w->a, &s, "re-token", "me");

    expect_problem(session_put(w->b, &s, "re-token", token, "owner=you"), 422, "token-reused");
    expect_problem(session_put(w->b, &s, "re-token", token, NULL), 422, "token-reused");
    assert_int_equal(holds_in_redis(w, "re-token", &s, "me"), 1);
    /* On another lock it is another lease. */
    expect_status(session_put(w->b, &s, "re-token/2", token, "owner=me"), 201);
    expect_status(lock_release(w->b, "re-token/2", token), 200);
    assert_int_equal(holds_in_redis(w, "re-token", &s, "me"), 1);
}

/* Many at once on two front ends, each asked for twice: every hold counts once. */
static void test_a_crowd_of_one_owner(struct world *w)
{
    enum { CROWD = 24 };
    struct session s = session_new(w->a, NULL);
    const char *tokens[CROWD];
    struct call *calls[2 * CROWD];
    unsigned long left = 0;
    json_int_t fence = -1;

    for (int i = 0; i < 2 * CROWD; i++) {
        if (i % 2 == 0)
            tokens[i / 2] = token_new(w);
        calls[i] = session_call_put(i % 2 ? w->a : w->b, &s, "re-crowd", tokens[i / 2],
                                    "owner=me");
    }
    for (int i = 0; i < 2 * CROWD; i++) {
        struct reply *r = call_await(calls[i], 5000);

        expect_true(r, r->status == 200 || r->status == 201);
        fence = fence < 0 ? reply_int(r, "fencing_token") : fence;
        expect_int(r, "fencing_token", fence);
    }
    assert_int_equal(holds_in_redis(w, "re-crowd", &s, "me"), CROWD);
    for (int i = 0; i < 2 * CROWD; i++)
        calls[i] = CALL(i % 2 ? w->a : w->b, .method = "DELETE", .path = "/v1/locks/re-crowd",
                        .token = tokens[i / 2]);
    for (int i = 0; i < 2 * CROWD; i += 2) {
        struct reply *r = call_await(calls[i], 5000);

        expect_between(r, "hold_count", 0, CROWD - 1);
        expect_int(call_await(calls[i + 1], 5000), "hold_count", reply_int(r, "hold_count"));
        left |= 1UL << reply_int(r, "hold_count");
    }
    assert_int_equal(left, (1UL << CROWD) - 1);
    assert_false(redis_has(w->redis, "re-crowd"));
}

/* Two requests of one owner wait; when the first gets in, the second may, too. */
static void get_in_together(struct world *w, struct front *const fronts[2], const char *prefix)
{
    for (int i = 0; i < 4; i++) {
        const char *lock = text(w, "re-both-%d", i), *holder = token_new(w);
        const char *query = "owner=me&ttl_ms=60000&wait_ms=20000";
        struct session s = session_new(fronts[0], NULL);
        struct call *one, *two;

        expect_status(lock_put(fronts[0], lock, holder, "ttl_ms=60000"), 201);
        one = session_call_put(fronts[0], &s, lock, token_new(w), query);
        two = session_call_put(fronts[i % 2], &s, lock, token_new(w), query);
        wait_until(waiter_count(fronts[0], lock) == 2, 3000);
        expect_status(lock_release(fronts[0], lock, holder), 200);
        struct reply *a = call_await(one, SOON_MS), *b = call_await(two, SOON_MS);
        expect_status(a, 201);
        expect_status(b, 201);
        expect_int(a, "fencing_token", reply_int(b, "fencing_token"));
        assert_int_equal(reply_int(a, "hold_count") + reply_int(b, "hold_count"), 3);
        assert_int_equal(holds_in_redis(w, text(w, "%s%s", prefix, lock), &s, "me"), 2);
    }
}

static void test_waiters_of_one_owner_get_in_together(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};

    get_in_together(w, fronts, "");
}

static void test_waiters_of_one_owner_and_a_key_prefix(struct world *w)
{
    struct front *fronts[2];

    for (int i = 0; i < 2; i++)
        fronts[i] = front_start(w, "--redis", w->redis->url, "--key-prefix", "shop:", NULL);
    get_in_together(w, fronts, "shop:");
}

/* What a look with the token says of a lease that shares its holder with others. */
static void test_look_tells_leases_apart(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *old = hold(w->a, &s, "re-look", "me"), *fresh;

    expect_str(http(w->b, "GET", "/v1/locks/re-look", old), "lease.state", "held");
    redis_ok(w->redis, "DEL re-look");
    fresh = hold(w->a, &s, "re-look", "me");
    expect_str(http(w->b, "GET", "/v1/locks/re-look", fresh), "lease.state", "held");
    struct reply *r = http(w->b, "GET", "/v1/locks/re-look", old);
    expect_str(r, "lease.state", "ended");
    expect_int(lock_release(w->b, "re-look", fresh), "hold_count", 0);
    expect_str(http(w->b, "GET", "/v1/locks/re-look", fresh), "lease.reason", "released");
}

static void test_the_sessions_end_takes_all_holds(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    for (int i = 0; i < 3; i++)
        hold(i % 2 ? w->a : w->b, &s, "re-end", "me");
    r = session_end(w->b, &s);
    expect_status(r, 200);
    expect_int(r, "released", 3);
    assert_false(redis_has(w->redis, "re-end"));
}

/* `0` and `m` are also how the holders of leases without an owner end. */
static void test_owners_named_like_leases(struct world *w)
{
    static const char *const owners[] = {"0", "m"};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        struct session s = session_new(w->a, NULL);
        const char *lock = text(w, "like/%s", owners[i]);
        const char *query = text(w, "kind=fair&owner=%s", owners[i]);
        struct reply *r;

        session_hold(w->a, &s, lock, query);
        r = session_put(w->a, &s, lock, token_new(w), query);
        expect_status(r, 201);
        expect_int(r, "hold_count", 2);
        r = lock_put(w->b, lock, token_new(w), "kind=fair");
        expect_problem(r, 423, "locked");
        expect_str(r, "holder.owner", owners[i]);
    }
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_holds_are_counted),
        E2E_TEST(test_released_in_any_order),
        E2E_TEST(test_others_wait),
        E2E_TEST(test_without_an_owner_nothing_is_reentrant),
        E2E_TEST(test_owners_that_are_refused),
        E2E_TEST(test_an_owner_called_0),
        E2E_TEST(test_a_hold_that_ends_by_itself),
        E2E_TEST(test_holds_do_not_shorten_each_other),
        E2E_TEST(test_a_lost_hold_does_not_come_back),
        E2E_TEST(test_forced_out_with_all_holds),
        E2E_TEST(test_a_token_names_one_lease),
        E2E_TEST(test_a_crowd_of_one_owner),
        E2E_TEST(test_waiters_of_one_owner_get_in_together),
        E2E_TEST(test_waiters_of_one_owner_and_a_key_prefix),
        E2E_TEST(test_look_tells_leases_apart),
        E2E_TEST(test_the_sessions_end_takes_all_holds),
        E2E_TEST(test_owners_named_like_leases),
    };
    struct e2e_plan plan = {
        .name = "reentrancy", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
