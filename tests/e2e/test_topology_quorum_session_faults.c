/* Sessions of redis-quorum:// with leases that the watchdog renews while servers are killed,
 * stand still, lose their data or are cut off, and come back. */
#include "quorum_sessions.h"

enum { SOON_MS = 10000 };

/* --- what befalls a server ---------------------------------------------------------------- */

enum fault { DOWN, KILLED, FROZEN, EMPTIED, CUT_OFF };

static const char *const fault_names[] = {"down from the start", "killed", "frozen", "emptied",
                                          "cut off"};

static void befall(struct quorum *q, struct quorum_front *a, int server, enum fault fault)
{
    switch (fault) {
    case DOWN:
    case KILLED:
        redis_kill(q->server[server]);
        return;
    case FROZEN:
        redis_freeze(q->server[server]);
        return;
    case EMPTIED:
        quorum_empty(q->server[server]);
        return;
    case CUT_OFF:
        proxy_set(a->proxy[server], PROXY_RESET);
        return;
    }
    FAIL("no such fault");
}

/* --- one server fails --------------------------------------------------------------------- */

static void with_servers_away(struct world *w, int count, enum fault fault)
{
    struct quorum *q = quorum_start(w, count);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct quorum_front b = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session s = {0};
    int away = (count - 1) / 2;

    printf("%d servers, %d %s\n", count, away, fault_names[fault]);
    for (int i = 0; fault == DOWN && i < away; i++)
        befall(q, &a, i, DOWN);
    s.token = token_new(w);
    s.header = text(w, "Session-Token: %s", s.token);
    struct reply *r = session_open(a.fe, s.token, "ttl_ms=60000");
    for (int i = 0; r->status == 503 && i < 10; i++)
        r = session_open(a.fe, s.token, "ttl_ms=60000");
    expect_true(r, r->status == 201 || r->status == 200);
    s.id = reply_str(r, "session_id");
    json_int_t fence = reply_int(granted(a.fe, &s, "watched", token_new(w), NULL),
                                 "fencing_token");
    for (int i = 0; fault != DOWN && i < away; i++)
        befall(q, &a, i, fault);
    kept(a.fe, &s);
    granted(a.fe, &s, "later", token_new(w), NULL);
    granted(b.fe, &s, "timed", token_new(w), "ttl_ms=60000");
    expect_problem(lock_put(b.fe, "watched", token_new(w), NULL), 423, "locked");
    nap_ms(3 * watchdog_ms());
    assert_int_equal(fence_of(b.fe, "watched"), fence);
    wait_until(holds_lease(a.fe, &s, "watched") && holds_lease(b.fe, &s, "later") &&
                   holds_lease(b.fe, &s, "timed"),
               SOON_MS);
    expect_int(ended(a.fe, &s), "released", 3);
    r = keep_alive(b.fe, &s, NULL);
    for (int i = 0; r->status == 503 && i < 10; i++)
        r = keep_alive(b.fe, &s, NULL);
    expect_problem(r, 410, "session-ended");
    struct session next = session_new(b.fe, NULL);
    granted(b.fe, &next, "watched", token_new(w), NULL);
    for (int i = 0; fault == FROZEN && i < away; i++)
        redis_thaw(q->server[i]);
}

static void test_down_from_the_start(struct world *w)
{
    with_servers_away(w, 3, DOWN);
}

static void test_killed(struct world *w)
{
    with_servers_away(w, 3, KILLED);
}

static void test_frozen(struct world *w)
{
    with_servers_away(w, 3, FROZEN);
}

static void test_emptied(struct world *w)
{
    with_servers_away(w, 3, EMPTIED);
}

static void test_cut_off(struct world *w)
{
    with_servers_away(w, 3, CUT_OFF);
}

static void test_two_of_five_killed(struct world *w)
{
    with_servers_away(w, 5, KILLED);
}

static void test_two_of_five_emptied(struct world *w)
{
    with_servers_away(w, 5, EMPTIED);
}

/* --- servers that come back --------------------------------------------------------------- */

/* Every server has the session, and the lease as its process knows it. */
static bool is_whole(const struct quorum *q, const struct session *s, const char *lock)
{
    return quorum_holds(q, session_key(q->world, s)) == q->count &&
           quorum_holds(q, lock) == q->count;
}

/* Without keep-alives the watchdog mends the session, too. */
static void test_an_emptied_server_is_mended(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(a.fe, "ttl_ms=100000");

    session_hold(a.fe, &s, "watched", NULL);
    expect_status(multi_put(a.fe, &s, token_new(w), "set/one set/two", NULL), 201);
    json_int_t fence = fence_of(a.fe, "watched"), set = fence_of(a.fe, "set/two");
    for (int i = 0; i < 3; i++) {
        quorum_empty(q->server[i]);
        wait_until(is_whole(q, &s, "watched") && is_whole(q, &s, "set/two"), SOON_MS);
        wait_until(quorum_holds(q, text(w, "rlockd:session-leases:{%s}", s.id)) == 3, SOON_MS);
        nap_ms(watchdog_ms());
    }
    assert_int_equal(fence_of(a.fe, "watched"), fence);
    assert_int_equal(fence_of(a.fe, "set/two"), set);
    expect_alive(keep_alive(a.fe, &s, NULL), 2);
    expect_int(session_end(a.fe, &s), "released", 2);
}

/* The servers are restarted with their data, one after the other, under a session with many
 * leases, while its client keeps it alive. */
static void test_rolling_restarts(struct world *w)
{
    enum { LEASES = 40 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct quorum_front b = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");
    json_int_t fences[LEASES];

    for (int i = 0; i < LEASES; i++) {
        session_hold(i % 2 == 0 ? a.fe : b.fe, &s, text(w, "roll/%d", i), NULL);
        fences[i] = fence_of(a.fe, text(w, "roll/%d", i));
    }
    for (int i = 0; i < 3; i++) {
        double before = front_metric(a.fe, "rlockd_quorum_repairs_total", NULL) +
                        front_metric(b.fe, "rlockd_quorum_repairs_total", NULL);
        redis_kill(q->server[i]);
        nap_ms(watchdog_ms());
        expect_alive(kept(b.fe, &s), LEASES);
        redis_return(q->server[i]);
        wait_until(front_metric(a.fe, "rlockd_quorum_repairs_total", NULL) +
                           front_metric(b.fe, "rlockd_quorum_repairs_total", NULL) >=
                       before + LEASES,
                   SOON_MS);
        expect_alive(kept(a.fe, &s), LEASES);
    }
    for (int i = 0; i < LEASES; i++)
        assert_int_equal(fence_of(b.fe, text(w, "roll/%d", i)), fences[i]);
    expect_int(session_end(a.fe, &s), "released", LEASES);
}

/* A server was away while the session ended: it has the tombstone soon. */
static void test_an_end_reaches_every_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    struct session s = session_new(a.fe, NULL);

    session_hold(a.fe, &s, "jobs", NULL);
    redis_kill(q->server[0]);
    expect_int(ended(a.fe, &s), "released", 1);
    redis_return(q->server[0]);
    wait_until(quorum_holds(q, "jobs") == 0, SOON_MS);
    wait_until(is_text(redis_str(q->server[0], "HGET %s state", session_key(w, &s)), "ended"),
               SOON_MS);
    redis_kill(q->server[1]);
    struct reply *r;
    wait_until((r = keep_alive(b.fe, &s, NULL))->status != 503, SOON_MS);
    expect_problem(r, 410, "session-ended");
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_down_from_the_start),
    E2E_TEST(test_killed),
    E2E_TEST(test_frozen),
    E2E_TEST(test_emptied),
    E2E_TEST(test_cut_off),
    E2E_TEST(test_two_of_five_killed),
    E2E_TEST(test_two_of_five_emptied),
    E2E_TEST(test_an_emptied_server_is_mended),
    E2E_TEST(test_rolling_restarts),
    E2E_TEST(test_an_end_reaches_every_server),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_session_faults", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
