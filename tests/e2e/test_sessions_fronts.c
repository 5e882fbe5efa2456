/* Sessions on three front ends: none of them matters, and three do not do the work thrice. */
#include <signal.h>

#include "harness_session.h"

enum { SOON_MS = 1500, AT_ONCE_MS = 1000 };

static struct front *third(struct world *w)
{
    return front_start(w, "--redis", w->redis->url, WATCHDOG_FLAGS, NULL);
}

static double renewals(struct front *const *fronts, size_t len)
{
    double sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += front_metric(fronts[i], "rlockd_watchdog_renewals_total", NULL);
    return sum;
}

/* The client is quiet for longer than the lock's TTL, and the only front end it ever spoke to
 * is dead. */
static void test_the_only_one_that_served_it_dies(struct world *w)
{
    for (int round = 0; round < 3; round++) {
        struct front *fe = third(w);
        struct session s = session_new(fe, text(w, "ttl_ms=%d", (int)patience_ms(10000)));
        const char *lock = text(w, "orphan-%d", round);
        const char *token = session_hold(fe, &s, lock, NULL);
        json_int_t fence = fence_of(fe, lock);

        front_kill(fe);
        stays_true(redis_has(w->redis, lock), 4 * watchdog_ms());
        expect_alive(keep_alive(round % 2 ? w->a : w->b, &s, NULL), 1);
        assert_int_equal(fence_of(w->a, lock), fence);
        expect_status(lock_put(w->b, lock, token, NULL), 200);
        expect_status(lock_release(w->b, lock, token), 200);
    }
}

/* Front ends come and go so that there is always one, but never the same for long. */
static void test_handed_from_one_to_the_next(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, ttl_of(w, 30000));

    session_hold(fe, &s, "relay", NULL);
    json_int_t fence = fence_of(fe, "relay");
    for (int i = 0; i < 6; i++) {
        struct front *next = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);

        stays_true(redis_has(redis, "relay"), watchdog_ms() / 2);
        front_kill(fe);
        fe = next;
    }
    stays_true(redis_has(redis, "relay"), 2 * watchdog_ms());
    expect_alive(keep_alive(fe, &s, NULL), 1);
    assert_int_equal(fence_of(fe, "relay"), fence);
}

static void test_a_paused_one_revives_nothing(struct world *w)
{
    struct front *fe = third(w);
    struct session s = session_new(fe, NULL), over = session_new(fe, NULL);
    const char *token = session_hold(fe, &s, "paused/taken", NULL), *mine = token_new(w);
    const char *late = session_hold(fe, &over, "paused/over", NULL);
    struct call *put, *renew, *fresh;
    struct reply *r;

    session_hold(fe, &s, "paused/forced", NULL);
    child_signal(fe->child, SIGSTOP);
    /* They reach it, and are read when all is over. */
    renew = CALL(fe, .method = "PATCH", .path = "/v1/locks/paused%2Ftaken?ttl_ms=60000",
                 .token = token);
    put = session_call_put(fe, &over, "paused/over", late, NULL);
    fresh = session_call_put(fe, &over, "paused/over", token_new(w), "wait_ms=5000");
    redis_ok(w->redis, "DEL paused/taken");
    expect_status(lock_put(w->a, "paused/taken", mine, "ttl_ms=600000"), 201);
    expect_status(force_unlock(w->b, "paused/forced"), 200);
    expect_status(session_end(w->a, &over), 200);
    nap_ms(2 * watchdog_ms());
    child_signal(fe->child, SIGCONT);
    expect_problem(call_await(renew, SOON_MS), 410, "lease-ended");
    expect_problem(call_await(put, SOON_MS), 410, "session-ended");
    expect_problem(call_await(fresh, SOON_MS), 410, "session-ended");
    stays_true(!redis_has(w->redis, "paused/over") && !redis_has(w->redis, "paused/forced"),
               2 * watchdog_ms());
    expect_status(lock_put(w->b, "paused/taken", mine, NULL), 200);
    wait_until(losses_len(r = keep_alive(fe, &s, NULL)) == 2, SOON_MS);
    expect_loss(r, "paused/forced", "forced");
    expect_loss(r, "paused/taken", "expired");
    assert_true(redis_int(w->redis, "PTTL paused/taken") > 500000);
}

/* A keep-alive that reached it before it was paused, and is read after it came back, does not
 * bring a session back that has ended meanwhile. */
static void test_a_late_keep_alive_revives_nothing(struct world *w)
{
    struct front *fe = third(w);
    struct session s = session_new(fe, ttl_of(w, 1000));
    struct call *call;

    session_hold(fe, &s, "late-alive", NULL);
    child_signal(fe->child, SIGSTOP);
    call = keep_alive_hang(fe, &s, 0);
    wait_until(!redis_has(w->redis, "late-alive"), 2500);
    child_signal(fe->child, SIGCONT);
    expect_problem(call_await(call, SOON_MS), 410, "session-ended");
    stays_true(!redis_has(w->redis, "late-alive"), watchdog_ms());
}

static void test_work_is_not_multiplied(struct world *w)
{
    enum { LOCKS = 40, MEASURE_MS = 4000 };
    struct front *fronts[] = {w->a, w->b, third(w)};
    struct session s[2] = {session_new(w->a, NULL), session_new(w->b, NULL)};
    double before, done, most;
    long long calls, reads;
    int64_t from_ms, passed_ms;

    for (int i = 0; i < LOCKS; i++)
        session_hold(fronts[i % 3], &s[i % 2], text(w, "work/%d", i), NULL);
    nap_ms(watchdog_ms());
    calls = redis_calls(w->redis, "pexpire");
    reads = redis_calls(w->redis, "mget");
    before = renewals(fronts, 3);
    from_ms = now_ms();
    nap_ms(MEASURE_MS);
    done = renewals(fronts, 3) - before;
    calls = redis_calls(w->redis, "pexpire") - calls;
    reads = redis_calls(w->redis, "mget") - reads;
    passed_ms = now_ms() - from_ms;
    most = (double)LOCKS * ((double)passed_ms * 3 / watchdog_ms() + 1);
    print_message("%.0f renewals, %lld PEXPIREs in %d ms; once each third: %.0f\n", done, calls,
                  (int)passed_ms, most);
    assert_true(done <= most);
    /* None later than half of the timeout. */
    assert_true(done >=
                (double)LOCKS * ((double)(passed_ms - late_ms()) * 2 / watchdog_ms() - 1));
    assert_true((double)calls <= 3 * most); /* three times the work would be six */
    assert_true(reads > 0); /* one script renews several leases, and reads them at once */
    for (int i = 0; i < 2; i++)
        expect_alive(keep_alive(w->a, &s[i], NULL), LOCKS / 2);
    for (int i = 0; i < 2; i++)
        expect_int(session_end(w->b, &s[i]), "released", LOCKS / 2);
    before = renewals(fronts, 3);
    nap_ms(watchdog_ms());
    assert_true(renewals(fronts, 3) - before < 1); /* what has ended costs nothing */
}

/* Any request on any of them, round robin, while one after the other is killed and returns. */
static void test_any_request_anywhere(struct world *w)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    struct front *fronts[] = {w->a, w->b, third(w)};
    struct session s = session_new(w->a, ttl_of(w, 5000));

    session_hold(w->a, &s, "anywhere/kept", NULL);
    for (int i = 0; i < 30; i++) {
        struct front *at = fronts[i % 3], *next = fronts[(i + 1) % 3];
        const char *lock = text(w, "anywhere/%d", i), *token;

        token = session_hold(at, &s, lock, "owner=me");
        expect_status(session_put(next, &s, lock, token, "owner=me"), 200);
        expect_alive(keep_alive(next, &s, NULL), 2);
        expect_status(lock_renew(at, lock, token, NULL), 200);
        expect_status(lock_release(next, lock, token), 200);
        if (i % 10 == 9)
            front_return(fronts[2], flags);
    }
    expect_int(session_end(fronts[2], &s), "released", 1);
}

/* --- a keep-alive that does not name a lease, and a request that is answered ---------------
 */

enum confirm { BEFORE_THE_VISIT, BEHIND_THE_VISIT, CONFIRMS };

/* A front end sends a keep-alive, with `held` empty, of a lease that is older than the
 * session's ttl. Its answer from the session's home, or from the lock's home, waits in the
 * proxy while the request is answered. */
static struct reply *confirm_meanwhile(struct world *w, struct front *far, struct proxy *proxy,
                                       const struct session *s, enum confirm when,
                                       struct reply *(*confirm)(struct front *fe,
                                                                const struct session *s,
                                                                const char *lock,
                                                                const char *token),
                                       const char *lock, const char *token)
{
    const char *deadline = text(w, "HGET rlockd:session:{%s} deadline", s->id);
    const char *before = redis_str(w->redis, deadline);

    nap_ms(5);
    proxy_set(proxy, PROXY_HOLD);
    struct call *call = CALL(far, .method = "POST",
                             .path = text(w, "/v1/sessions/%s/keep-alive?held=", s->id),
                             .headers = {s->header});
    wait_until(strcmp(redis_str(w->redis, deadline), before) != 0, 3000);
    if (when == BEHIND_THE_VISIT) {
        size_t len = proxy_commands_len(proxy);
        proxy_pass_held(proxy);
        wait_until(proxy_commands_len(proxy) > len + 200, 3000);
        nap_ms(20);
    }
    expect_status(confirm(w->b, s, lock, token), 200);
    proxy_set(proxy, PROXY_PASS);
    return call_await(call, 6000);
}

static struct reply *by_put(struct front *fe, const struct session *s, const char *lock,
                            const char *token)
{
    return session_put(fe, s, lock, token, NULL);
}

static struct reply *by_patch(struct front *fe, const struct session *s, const char *lock,
                              const char *token)
{
    (void)s;
    return lock_renew(fe, lock, token, NULL);
}

static void test_a_confirmed_lease_is_not_let_go(struct world *w)
{
    struct reply *(*const confirms[])(struct front *, const struct session *, const char *,
                                      const char *) = {by_put, by_patch};
    int ttl_ms = (int)patience_ms(1000);
    struct proxy *proxy = proxy_start(w->redis);
    struct front *far = front_start(w, "--redis", proxy_url(proxy, "", ""), WATCHDOG_FLAGS,
                                    NULL);

    for (int i = 0; i < 2 * CONFIRMS; i++) {
        struct session s = session_new(w->a, ttl_of(w, 1000));
        const char *lock = text(w, "confirmed/%d", i);
        const char *token = session_hold(w->a, &s, lock, NULL); /* its answer is lost */
        stays_true(keep_alive(w->b, &s, NULL)->status == 200, ttl_ms + 100);
        confirm_meanwhile(w, far, proxy, &s, i % CONFIRMS, confirms[i / CONFIRMS], lock, token);
        expect_status(lock_put(w->a, lock, token_new(w), NULL), 423);
        expect_status(lock_renew(w->a, lock, token, NULL), 200);
        /* Nor is it renewed for ever. */
        wait_until(leases_len(keep_alive(w->a, &s, "held=")) == 0, 4 * ttl_ms);
        expect_status(lock_put(w->a, lock, token_new(w), NULL), 201);
    }
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_only_one_that_served_it_dies),
        E2E_TEST(test_handed_from_one_to_the_next),
        E2E_TEST(test_a_paused_one_revives_nothing),
        E2E_TEST(test_a_late_keep_alive_revives_nothing),
        E2E_TEST(test_work_is_not_multiplied),
        E2E_TEST(test_any_request_anywhere),
        E2E_TEST(test_a_confirmed_lease_is_not_let_go),
    };
    struct e2e_plan plan = {
        .name = "sessions-fronts", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
