/* The watchdog: what lives is renewed, what was lost is told and never made anew. */
#include <signal.h>
#include <time.h>

#include "harness_session.h"

enum {
    SOON_MS = 1500, /* a third of the timeout, a round, and time to spare */
    AT_ONCE_MS = 1000
};

static void test_keeps_a_lease_while_keep_alives_come(struct world *w)
{
    int ttl_ms = (int)patience_ms(1000);
    struct session s = session_new(w->a, ttl_of(w, 1000));
    const char *token = token_new(w);
    struct reply *r = session_put(w->a, &s, "kept", token, NULL);
    json_int_t fence = reply_int(r, "fencing_token");
    struct front *fe = w->a;

    expect_status(r, 201);
    expect_bool(r, "watchdog", true);
    expect_int(r, "ttl_ms", watchdog_ms());
    expect_between(r, "remaining_ms", 1, watchdog_ms());
    for (int64_t end = now_ms() + 5 * watchdog_ms(); now_ms() < end;) {
        fe = fe == w->a ? w->b : w->a;
        int64_t from_ms = now_ms();
        r = keep_alive(fe, &s, NULL);
        expect_alive(r, 1);
        expect_between(r, "remaining_ms", ttl_ms - 10 - (now_ms() - from_ms), ttl_ms);
        stays_true(redis_has(w->redis, "kept"), 150);
    }
    expect_between(lock_look(w->b, "kept"), "remaining_ms", 1, watchdog_ms());
    assert_int_equal(fence_of(w->b, "kept"), fence);
    r = lock_put(w->b, "kept", token, NULL);
    expect_status(r, 200);
    expect_int(r, "fencing_token", fence);
    expect_status(lock_release(w->b, "kept", token), 200);
    assert_false(redis_has(w->redis, "kept"));
}

/* As after Redis' clock was set back, or where a master took over whose clock is behind: the
 * next visit is far away, and the session gets leases that are due before. */
static void test_keeps_a_lease_whose_visit_is_far_away(struct world *w)
{
    int64_t before = late_ms();
    struct session s = session_new(w->a, "ttl_ms=60000");
    const char *index = text(w, "rlockd:sessions:{%c}", s.id[0]);

    wait_until(redis_int(w->redis, "ZCOUNT %s -inf +inf", index) > 0, SOON_MS);
    redis_ok(w->redis, "ZADD %s XX %lld %s", index, 1000LL * (time(NULL) + 3600), s.id);
    expect_status(session_put(w->a, &s, "far-away", token_new(w), NULL), 201);
    for (int64_t end = now_ms() + 4 * watchdog_ms(); now_ms() < end;) {
        struct reply *r = keep_alive(w->a, &s, NULL);
        bool is_held = redis_has(w->redis, "far-away");
        if (may_have_lapsed(before))
            return; /* the machine stood still, and rlockd with it */
        expect_alive(r, 1);
        assert_true(is_held);
        nap_ms(watchdog_ms() / 12);
    }
}

static void test_a_lease_with_a_ttl_ends_by_itself(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = token_new(w);
    struct reply *r = session_put(w->a, &s, "own-ttl", token, "ttl_ms=400");

    expect_status(r, 201);
    expect_bool(r, "watchdog", false);
    expect_int(r, "ttl_ms", 400);
    wait_until(!redis_has(w->redis, "own-ttl"), 800);
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 1, SOON_MS);
    expect_loss(r, "own-ttl", "expired");
    assert_int_equal(leases_len(r), 0);
    r = lock_put(w->b, "own-ttl", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 0, SOON_MS);
    stays_true(!redis_has(w->redis, "own-ttl"), watchdog_ms());
}

static void test_patch_chooses_who_renews(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = session_hold(w->a, &s, "patched", ttl_of(w, 1000));
    struct reply *r = lock_renew(w->b, "patched", token, NULL);

    expect_status(r, 200);
    expect_bool(r, "watchdog", true);
    expect_int(r, "ttl_ms", watchdog_ms());
    stays_true(redis_has(w->redis, "patched"), 2000);
    r = lock_renew(w->a, "patched", token, "ttl_ms=300");
    expect_status(r, 200);
    expect_bool(r, "watchdog", false);
    wait_until(!redis_has(w->redis, "patched"), 1000);
    wait_until(losses_len(r = keep_alive(w->b, &s, NULL)) == 1, SOON_MS);
    expect_loss(r, "patched", "expired");
}

/* Told by the next keep-alive, and by that one only. */
static void told_once(struct world *w, struct session *s, const char *lock, const char *reason)
{
    struct reply *r;

    wait_until(loss_of(r = keep_alive(w->b, s, NULL), lock) != NULL, SOON_MS);
    expect_loss(r, lock, reason);
    assert_null(lease_of(r, lock));
    wait_until(loss_of(keep_alive(w->a, s, NULL), lock) == NULL, AT_ONCE_MS);
    assert_null(loss_of(keep_alive(w->b, s, NULL), lock));
    assert_null(loss_of(keep_alive(w->a, s, NULL), lock));
}

static void test_forced_out(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = session_hold(w->a, &s, "lost/forced", NULL);
    struct reply *r;

    session_hold(w->a, &s, "lost/not", NULL);
    expect_bool(force_unlock(w->b, "lost/forced"), "unlocked", true);
    told_once(w, &s, "lost/forced", "forced");
    stays_true(!redis_has(w->redis, "lost/forced"), 2 * watchdog_ms());
    r = lock_release(w->a, "lost/forced", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
    expect_alive(keep_alive(w->a, &s, NULL), 1);
}

static void test_deleted_by_an_operator(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "lost/deleted", NULL);
    redis_ok(w->redis, "DEL lost/deleted");
    stays_true(!redis_has(w->redis, "lost/deleted"), 2 * watchdog_ms());
    told_once(w, &s, "lost/deleted", "expired");
}

static void test_taken_by_a_java_client(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    long long left_ms;

    session_hold(w->a, &s, "lost/taken", NULL);
    redis_ok(w->redis, "DEL lost/taken");
    assert_true(redisson_lock(w->redis, "lost/taken", JAVA_HOLDER, 30000));
    told_once(w, &s, "lost/taken", "expired");
    left_ms = redis_int(w->redis, "PTTL lost/taken");
    stays_true(redis_int(w->redis, "HLEN lost/taken") == 1 &&
                   redis_int(w->redis, "HEXISTS lost/taken %s", JAVA_HOLDER) == 1,
               watchdog_ms());
    assert_in_range(redis_int(w->redis, "PTTL lost/taken"), 1, left_ms - watchdog_ms() / 2);
    assert_true(redisson_unlock(w->redis, "lost/taken", JAVA_HOLDER));
}

/* Every front end stands still for longer than the lock's TTL. */
static void test_expired_while_nobody_renewed(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "lost/expired", NULL);
    child_signal(w->a->child, SIGSTOP);
    child_signal(w->b->child, SIGSTOP);
    struct patience patience = patience_of(5000);
    while (redis_has(w->redis, "lost/expired") && !patience_ends(&patience))
        nap_ms(5);
    child_signal(w->a->child, SIGCONT);
    child_signal(w->b->child, SIGCONT);
    stays_true(!redis_has(w->redis, "lost/expired"), 2 * watchdog_ms());
    told_once(w, &s, "lost/expired", "expired");
}

static void test_a_hanging_keep_alive_is_told_at_once(struct world *w)
{
    static const struct {
        const char *lock, *query, *reason;
    } losses[] = {
        {"alarm/forced", NULL, "forced"},   {"alarm/forced-owner", "owner=me", "forced"},
        {"alarm/deleted", NULL, "expired"}, {"alarm/ttl", NULL, "expired"},
        {"alarm/taken", NULL, "expired"},
    };

    for (size_t i = 0; i < COUNT_OF(losses); i++) {
        struct session s = session_new(w->a, NULL);
        const char *lock = losses[i].lock;
        struct call *call;
        struct reply *r;
        int64_t from_ms;

        session_hold(w->a, &s, "alarm/other", NULL);
        bool has_ttl = strstr(lock, "ttl") != NULL;
        session_hold(w->a, &s, lock, has_ttl ? ttl_of(w, 500) : losses[i].query);
        call = keep_alive_park(i % 2 == 0 ? w->a : w->b, &s, 14000);
        stays_true(!call_done(call), 150);
        from_ms = now_ms();
        if (strstr(lock, "forced") != NULL) {
            expect_status(force_unlock(w->b, lock), 200);
        } else if (!has_ttl) {
            redis_ok(w->redis, "DEL %s", lock);
            if (strstr(lock, "taken") != NULL)
                assert_true(redisson_lock(w->redis, lock, JAVA_HOLDER, 5000));
        }
        r = call_await(call, AT_ONCE_MS);
        expect_loss(r, lock, losses[i].reason);
        assert_int_equal(leases_len(r), 1);
        /* A forced unlock is known in that moment; others when they are due. */
        if (strcmp(losses[i].reason, "forced") == 0)
            assert_in_range(r->done_ms - from_ms, 0, allowed_ms(150));
        wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 0, AT_ONCE_MS);
        expect_status(session_end(w->b, &s), 200);
    }
}

static void test_told_again_to_who_hung_up(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct proxy *proxy = proxy_start(w->redis);
    struct front *slow = front_start(w, "--redis", proxy_url(proxy, "", ""), WATCHDOG_FLAGS,
                                     NULL);
    struct call *call;

    session_hold(w->a, &s, "again/1", NULL);
    session_hold(w->a, &s, "again/2", NULL);
    /* It hung up before there was anything to tell. */
    call = keep_alive_park(w->a, &s, 14000);
    stays_true(!call_done(call), 100);
    call_hang_up(call);
    expect_status(force_unlock(w->b, "again/1"), 200);
    nap_ms(100);
    /* And while its answer was on its way from Redis. */
    proxy_settle(proxy);
    proxy_set(proxy, PROXY_HOLD);
    call = keep_alive_park(slow, &s, 0);
    call_hang_up(call);
    proxy_set(proxy, PROXY_PASS);
    nap_ms(400);
    told_once(w, &s, "again/1", "forced");
    assert_non_null(lease_of(keep_alive(w->a, &s, NULL), "again/2"));
}

/* A lock's name is soon a semaphore's: that is a loss, and no reason to leave all others. */
static void test_a_lock_that_became_something_else(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=30000");
    struct reply *r;

    session_hold(w->a, &s, "became/lock", NULL);
    session_hold(w->a, &s, "became/read", "kind=read");
    session_hold(w->a, &s, "became/kept", NULL);
    expect_status(force_unlock(w->a, "became/lock"), 200);
    expect_status(force_unlock(w->a, "became/read"), 200);
    expect_status(http(w->a, "PUT", "/v1/semaphores/became%2Flock?permits=3", NULL), 201);
    expect_status(http(w->a, "PUT", "/v1/latches/became%2Fread?count=3", NULL), 201);
    stays_true(redis_has(w->redis, "became/kept"), 3 * watchdog_ms());
    r = keep_alive(w->b, &s, NULL);
    expect_true(r, leases_len(r) == 1 && losses_len(r) == 2);
    expect_loss(r, "became/lock", "forced");
    expect_loss(r, "became/read", "forced");
    expect_int(session_end(w->b, &s), "released", 1);
}

/* Whatever an operator puts in place of one's keys. */
static void test_one_that_cannot_be_tended(struct world *w)
{
    struct session odd = session_new(w->a, ttl_of(w, 1000));
    struct session s = session_new(w->a, "ttl_ms=30000");

    session_hold(w->a, &odd, "odd/lost", NULL);
    session_hold(w->a, &s, "odd/kept", NULL);
    redis_ok(w->redis, "SET rlockd:session:{%s} x PX 60000", odd.id);
    redis_ok(w->redis, "ZADD rlockd:session-due:{%s} 1 nonsense", s.id);
    redis_ok(w->redis, "HSET rlockd:session-leases:{%s} nonsense nonsense", s.id);
    /* Beyond the end of the other one. */
    stays_true(redis_has(w->redis, "odd/kept"), patience_ms(1000) + 1000);
    expect_alive(keep_alive(w->b, &s, NULL), 1);
    wait_until(redis_int(w->redis, "ZCARD rlockd:session-due:{%s}", s.id) == 2, 2000);
}

/* When a lease of a session is due, 0: never; and the time by Redis' clock. */
static const char DUE[] = "return tonumber(redis.call('zscore', KEYS[1], ARGV[1]) or 0)";
static const char NOW[] =
    "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)";

/* A lease that cannot be renewed is tried again after a period, or a second if that is longer.
 */
static void test_a_renewal_that_fails(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, "ttl_ms=30000");
    const char *key = text(w, "rlockd:session-due:{%s}", s.id);
    struct reply *r = session_put(fe, &s, "fails", token_new(w), NULL);
    const char *ref = text(w, "%s fails", reply_str(r, "lease_id"));
    long long due;

    redis_ok(redis, "ACL SETUSER default -pexpire");
    long long first = redis_int(redis, "EVAL %s 1 %s %s", DUE, key, ref);
    expect_true(r, first > 0);
    wait_until((due = redis_int(redis, "EVAL %s 1 %s %s", DUE, key, ref)) != first, SOON_MS);
    assert_true(due <= redis_int(redis, "EVAL %s 0", NOW) + watchdog_ms() / 3);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_keeps_a_lease_while_keep_alives_come),
        E2E_TEST(test_keeps_a_lease_whose_visit_is_far_away),
        E2E_TEST(test_a_lease_with_a_ttl_ends_by_itself),
        E2E_TEST(test_patch_chooses_who_renews),
        E2E_TEST(test_forced_out),
        E2E_TEST(test_deleted_by_an_operator),
        E2E_TEST(test_taken_by_a_java_client),
        E2E_TEST(test_expired_while_nobody_renewed),
        E2E_TEST(test_a_hanging_keep_alive_is_told_at_once),
        E2E_TEST(test_told_again_to_who_hung_up),
        E2E_TEST(test_a_lock_that_became_something_else),
        E2E_TEST(test_one_that_cannot_be_tended),
        E2E_TEST(test_a_renewal_that_fails),
    };
    struct e2e_plan plan = {
        .name = "watchdog", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
