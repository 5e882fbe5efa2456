/* Sessions of redis-quorum://: opened, kept alive and ended by a majority, and what they lose.
 */
#include "quorum_sessions.h"

enum { SOON_MS = 10000 };

/* --- open, keep alive, look, end ---------------------------------------------------------- */

static void test_life_of_a_session(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    struct session s = session_new(a.fe, "ttl_ms=30000&name=host/1");

    wait_until(quorum_holds(q, session_key(w, &s)) == 3, SOON_MS);
    struct reply *r = session_open(b.fe, s.token, "ttl_ms=30000&name=host/1");
    expect_status(r, 200);
    assert_in_range(reply_int(r, "remaining_ms"), 1, 30000 - 302); /* less the drift */
    expect_problem(session_open(b.fe, s.token, "ttl_ms=20000"), 422, "token-reused");
    expect_alive(keep_alive(b.fe, &s, NULL), 0);
    const char *token = session_hold(a.fe, &s, "jobs", NULL);
    r = keep_alive(b.fe, &s, NULL);
    expect_alive(r, 1);
    assert_true(json_is_true(json_object_get(lease_of(r, "jobs"), "watchdog")));
    scripts_count_from_now(q->server[0]);
    expect_alive(keep_alive(b.fe, &s, NULL), 1);
    /* Where no server lacks the session none is asked about it again. */
    stays_true(scripts_about(q->server[0], session_key(w, &s)) <= 1, 100);
    /* The notes of a majority are in one page, so no server is asked for pages. */
    const char *notes = text(w, "rlockd:session-leases:{%s}", s.id);
    assert_int_equal(scripts_about(q->server[0], notes), 0);
    r = session_look(b.fe, s.id);
    expect_status(r, 200);
    expect_str(r, "name", "host/1");
    assert_non_null(lease_of(r, "jobs"));
    r = lock_look(a.fe, "jobs");
    expect_str(r, "holders.0.session_id", s.id);
    expect_str(r, "holders.0.session_name", "host/1");
    expect_int(session_put(b.fe, &s, "jobs", token, NULL), "fencing_token",
               reply_int(r, "fencing_token"));
    expect_int(session_end(b.fe, &s), "released", 1);
    expect_int(session_end(a.fe, &s), "released", 1); /* a repetition */
    expect_problem(keep_alive(a.fe, &s, NULL), 410, "session-ended");
    expect_status(session_look(a.fe, s.id), 404);
    expect_problem(session_put(a.fe, &s, "jobs", token_new(w), NULL), 410, "session-ended");
    expect_problem(session_open(a.fe, s.token, "ttl_ms=30000&name=host/1"), 410,
                   "session-ended");
    expect_status(lock_put(b.fe, "jobs", token_new(w), "ttl_ms=60000"), 201);
}

/* A note of a request that was answered 422 stays where its front end dies. */
static void test_a_lease_token_of_another_session(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_new(a.fe, NULL), other = session_new(a.fe, NULL);
    const char *token = session_hold(a.fe, &s, "whose", NULL);

    expect_problem(session_put(a.fe, &other, "whose", token, NULL), 422, "token-reused");
    wait_until(quorum_holds(q, "whose") == 3, SOON_MS);
    const char *lease_id = reply_str(session_put(a.fe, &s, "whose", token, NULL), "lease_id");
    for (int i = 0; i < q->count; i++) {
        redis_do(q->server[i], "HSET rlockd:session-leases:{%s} %s %s", other.id,
                 text(w, "%s whose", lease_id),
                 text(w, "%lld000 e2e.1", (long long)time(NULL)));
        redis_do(q->server[i], "ZADD rlockd:session-due:{%s} 0 %s", other.id,
                 text(w, "%s whose", lease_id));
    }
    expect_alive(kept(a.fe, &other), 0);
    stays_true(quorum_holds(q, "whose") == 3, 1000); /* the watchdog visits it */
    expect_alive(kept(a.fe, &other), 0);
    expect_int(ended(a.fe, &other), "released", 0);
    expect_alive(kept(a.fe, &s), 1);
    expect_status(session_put(a.fe, &s, "whose", token, NULL), 200);
    assert_int_equal(quorum_holds(q, "whose"), 3);
}

/* Nothing is left to be done after a release that is answered, so the end takes no 3 s. */
static void test_a_release_is_over_soon(struct world *w)
{
    enum { END_MS = 2500 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_new(a.fe, NULL);
    const char *token = session_hold(a.fe, &s, "jobs", NULL);

    expect_status(lock_release(a.fe, "jobs", token), 200);
    expect_alive(keep_alive(a.fe, &s, NULL), 0);
    int64_t began_ms = now_ms();
    front_stop(a.fe);
    assert_true(now_ms() - began_ms < END_MS + late_ms());
}

static void test_unknown_sessions(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_new(a.fe, NULL), other;

    ended(a.fe, &s);
    for (int i = 0; i < 3; i++)
        redis_ok(q->server[i], "FLUSHALL");
    for (int i = 0; i < 3; i++)
        quorum_trust(q->server[i]);
    expect_problem(keep_alive(a.fe, &s, NULL), 410, "session-ended");
    for (int i = 0; i < 2; i++) { /* the first one leaves tombstones */
        struct reply *r = session_end(a.fe, &s);
        expect_problem(r, 410, "session-ended");
        expect_str(r, "reason", "unknown");
    }
    expect_problem(session_open(a.fe, s.token, NULL), 410, "session-ended");
    other = session_new(a.fe, NULL);
    expect_alive(keep_alive(a.fe, &other, NULL), 0);
}

/* What is not offered says so. */
static void test_not_offered(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--quarantine-ms", "60000", "--retry-window-ms",
                                         "60000", NULL);
    struct session s = session_new(a.fe, NULL);

    expect_problem(session_put(a.fe, &s, "jobs", token_new(w), "owner=me"), 501,
                   "not-supported");
    expect_problem(session_open(a.fe, token_new(w), "on_deadlock=refuse"), 501,
                   "not-supported");
    expect_problem(session_open(a.fe, token_new(w), "ttl_ms=60001"), 400, "malformed-request");
}

/* --- front ends --------------------------------------------------------------------------- */

static void test_a_killed_front_end(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct quorum_front b = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session dies = session_new(a.fe, text(w, "ttl_ms=%d", 3 * watchdog_ms()));
    struct session lives = session_new(a.fe, "ttl_ms=60000");
    const char *token;

    session_hold(a.fe, &dies, "dies", NULL);
    token = session_hold(a.fe, &lives, "lives", NULL);
    json_int_t fence = fence_of(a.fe, "lives");
    int64_t before = late_ms();
    front_kill(a.fe);
    nap_ms(watchdog_ms());
    if (may_have_lapsed(before))
        return;
    expect_problem(lock_put(b.fe, "dies", token_new(w), NULL), 423, "locked");
    wait_until(lock_put(b.fe, "dies", token_new(w), "ttl_ms=60000")->status == 201,
               4 * watchdog_ms() + SOON_MS);
    expect_problem(keep_alive(b.fe, &dies, NULL), 410, "session-ended");
    wait_until(front_metric(b.fe, "rlockd_sessions_expired_total", NULL) == 1, SOON_MS);
    assert_int_equal(fence_of(b.fe, "lives"), fence);
    expect_int(session_put(b.fe, &lives, "lives", token, NULL), "fencing_token", fence);
    expect_alive(keep_alive(b.fe, &lives, NULL), 1);
}

static void test_one_token_at_two_front_ends(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);

    for (int i = 0; i < 10; i++) {
        const char *token = token_new(w), *header = text(w, "Session-Token: %s", token);
        struct call *calls[4];
        int opened = 0;

        for (int k = 0; k < 4; k++)
            calls[k] = CALL(k % 2 == 0 ? a.fe : b.fe, .method = "POST",
                            .path = "/v1/sessions?ttl_ms=5000", .headers = {header});
        for (int k = 0; k < 4; k++) {
            struct reply *r = call_await(calls[k], SOON_MS);
            expect_true(r, r->status == 201 || r->status == 200);
            opened += r->status == 201;
        }
        assert_in_range(opened, 0, 4);
        struct reply *r = session_open(b.fe, token, "ttl_ms=5000");
        expect_status(r, 200);
        assert_in_range(reply_int(r, "remaining_ms"), 1, 5000);
    }
}

/* A session of which the first server has lost all, and the third one is away. */
static struct session session_at_the_second(struct quorum *q, struct front *fe)
{
    struct session s = session_new(fe, "ttl_ms=30000");

    wait_until(quorum_holds(q, session_key(q->world, &s)) == 3, SOON_MS);
    redis_kill(q->server[2]);
    redis_ok(q->server[0], "DEL %s", session_key(q->world, &s));
    return s;
}

/* The first server that replies may have lost the session, which was open before all the same.
 */
static void test_one_of_two_servers_has_the_session(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_at_the_second(q, a.fe);

    expect_status(session_open(a.fe, s.token, "ttl_ms=30000"), 200);
}

/* One server has lost the session, and the other one gives no votes: no reason to call the
 * session over. */
static void test_a_session_in_quarantine(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_at_the_second(q, a.fe);

    redis_ok(q->server[1], "DEL rlockd:marker");
    struct reply *r = session_put(a.fe, &s, "jobs", token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "reason", "quarantine");
}

/* --- losses ------------------------------------------------------------------------------- */

/* A server is away while losses are noted and told: back again it tells them no more, also
 * where another front end reaches it before the one that has told them. */
static void test_a_loss_is_told_once(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct quorum_front b = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");

    session_hold(a.fe, &s, "watched", NULL);
    session_hold(a.fe, &s, "forced", NULL);
    session_hold(b.fe, &s, "timed", ttl_of(w, 1000));
    redis_kill(q->server[2]);
    proxy_set(b.proxy[2], PROXY_RESET);
    expect_bool(force_unlock(b.fe, "forced"), "unlocked", true);
    struct reply *r = kept(b.fe, &s);
    expect_loss(r, "forced", "forced");
    nap_ms((int)patience_ms(1000) + 500);
    r = kept(b.fe, &s);
    expect_loss(r, "timed", "expired");
    assert_int_equal(losses_len(r), 1);
    expect_alive(kept(b.fe, &s), 1);
    redis_return(q->server[2]);
    wait_until(strcmp(quorum_state(a.fe, 2), "quarantine") == 0, SOON_MS);
    proxy_set(a.proxy[0], PROXY_RESET); /* its majority is with the server that is back */
    expect_alive(kept(a.fe, &s), 1);
    nap_ms(watchdog_ms() / 3);
    expect_alive(kept(a.fe, &s), 1);
    proxy_set(a.proxy[0], PROXY_PASS);
    proxy_set(b.proxy[2], PROXY_PASS);
    wait_until(strcmp(quorum_state(b.fe, 2), "quarantine") == 0, SOON_MS);
    for (int i = 0; i < 3; i++) {
        nap_ms(watchdog_ms() / 3);
        for (int k = 0; k < 2; k++) {
            r = kept(k == 0 ? a.fe : b.fe, &s);
            expect_alive(r, 1);
        }
    }
}

static bool has_loss(struct redis *server, const struct session *s, const char *ref)
{
    return redis_int(server, "HEXISTS rlockd:session-lost:{%s} %s", s->id, ref) == 1;
}

/* That it was told lies in the socket of a server while the token is used for another lease:
 * what comes late leaves the note of that lease. */
static void test_a_loss_that_was_told_late(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--retry-window-ms", "1000", NULL);
    struct quorum_front b = quorum_front(q, "--retry-window-ms", "1000", NULL);
    struct session s = session_new(b.fe, "ttl_ms=60000");
    const char *token = token_new(w);
    const char *id = reply_str(session_put(b.fe, &s, "jobs", token, NULL), "lease_id");
    const char *ref = text(w, "%s jobs", id);

    wait_until(quorum_holds(q, "jobs") == 3, SOON_MS);
    expect_bool(force_unlock(b.fe, "jobs"), "unlocked", true);
    session_look(b.fe, s.id);
    for (int i = 0; i < 3; i++)
        wait_until(has_loss(q->server[i], &s, ref), SOON_MS);
    proxy_set(a.proxy[2], PROXY_BLACKHOLE);
    expect_loss(kept(a.fe, &s), "jobs", "forced");
    nap_ms(1200);
    expect_status(session_put(b.fe, &s, "jobs", token, NULL), 201);
    wait_until(quorum_holds(q, "jobs") == 3, SOON_MS);
    proxy_set(a.proxy[2], PROXY_PASS);
    wait_until(!has_loss(q->server[2], &s, ref), SOON_MS);
    for (int i = 0; i < 3; i++) /* with the sentinel */
        assert_int_equal(redis_int(q->server[i], "HLEN rlockd:session-leases:{%s}", s.id), 2);
    expect_alive(kept(a.fe, &s), 1);
}

/* After the retry window the token of a loss that was told may be used for another lease. */
static void test_a_token_of_a_loss_is_used_again(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--retry-window-ms", "1000", NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");
    const char *token = session_hold(a.fe, &s, "jobs", NULL);

    for (int i = 0; i < 2; i++) {
        expect_bool(force_unlock(a.fe, "jobs"), "unlocked", true);
        expect_loss(kept(a.fe, &s), "jobs", "forced");
        expect_alive(kept(a.fe, &s), 0);
        nap_ms(1200);
        expect_status(session_put(a.fe, &s, "jobs", token, NULL), 201);
        expect_alive(kept(a.fe, &s), 1);
    }
}

/* A majority has lost a lease that the watchdog renews: it is told, and the lease stays lost.
 */
static void test_a_lost_majority(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");
    const char *token = session_hold(a.fe, &s, "lost", NULL);

    session_hold(a.fe, &s, "kept", NULL);
    struct call *hanging = keep_alive_hang(a.fe, &s, 20000);
    nap_ms(200);
    for (int i = 0; i < 2; i++)
        redis_ok(q->server[i], "DEL lost");
    expect_loss(call_await(hanging, SOON_MS), "lost", "expired");
    struct reply *r = keep_alive(a.fe, &s, NULL);
    expect_alive(r, 1);
    assert_non_null(lease_of(r, "kept"));
    expect_problem(session_put(a.fe, &s, "lost", token, NULL), 410, "lease-ended");
}

/* At a server that has not noted the loss, a request with the token in another session got a
 * vote that was never withdrawn. */
static void test_a_loss_beside_another_session(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000"), other = session_new(a.fe, NULL);
    const char *token = session_hold(a.fe, &s, "lost", NULL);
    const char *id = reply_str(session_put(a.fe, &s, "lost", token, NULL), "lease_id");

    wait_until(quorum_holds(q, "lost") == 3, SOON_MS);
    for (int i = 0; i < 2; i++)
        redis_ok(q->server[i], "DEL lost");
    redis_ok(q->server[2], "EVAL %s 1 rlockd:lease:{lost}:%s %s %s",
             "local record = string.gsub(redis.call('GET', KEYS[1]), ARGV[1]:gsub('-', '%%-'), "
             "ARGV[2])\n"
             "return redis.call('SET', KEYS[1], record, 'KEEPTTL')",
             id, s.id, other.id);
    expect_loss(kept(a.fe, &s), "lost", "expired");
}

/* --- more than a page --------------------------------------------------------------------- */

static void test_many_leases(struct world *w)
{
    enum { LEASES = 300 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--watchdog-timeout-ms", "20000", NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");

    /* Redis shows a small hash as one page. */
    for (int i = 0; i < q->count; i++)
        redis_ok(q->server[i], "CONFIG SET hash-max-ziplist-entries 8");
    for (int i = 0; i < LEASES; i++)
        session_hold(a.fe, &s, text(w, "many/%d", i), NULL);
    expect_alive(kept(a.fe, &s), LEASES);
    redis_kill(q->server[0]);
    expect_alive(kept(a.fe, &s), LEASES);
    expect_int(ended(a.fe, &s), "released", LEASES);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_life_of_a_session),
    E2E_TEST(test_a_lease_token_of_another_session),
    E2E_TEST(test_a_release_is_over_soon),
    E2E_TEST(test_unknown_sessions),
    E2E_TEST(test_not_offered),
    E2E_TEST(test_a_killed_front_end),
    E2E_TEST(test_one_token_at_two_front_ends),
    E2E_TEST(test_one_of_two_servers_has_the_session),
    E2E_TEST(test_a_session_in_quarantine),
    E2E_TEST(test_a_loss_is_told_once),
    E2E_TEST(test_a_loss_that_was_told_late),
    E2E_TEST(test_a_token_of_a_loss_is_used_again),
    E2E_TEST(test_a_lost_majority),
    E2E_TEST(test_a_loss_beside_another_session),
    E2E_TEST(test_many_leases),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_sessions", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
