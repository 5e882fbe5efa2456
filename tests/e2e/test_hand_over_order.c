/* A release that hands the lock over to a waiter of the same front end: who gets it, who does
 * not, and what is left when one of them goes in that very moment. */
#include "counters.h"
#include "fair.h"

enum { SOON_MS = 1500, RECOVER_MS = 6000 };

static const char *const kinds[] = {"lock", "fair"};

static double hand_overs(struct front *fe)
{
    return front_metric(fe, "rlockd_hand_overs_total", NULL);
}

/* ---- in order ---- */

/* A lock of this kind, held, and its waiters, all on one front end. */
struct line {
    struct world *w;
    struct front *fe;
    const char *lock, *kind, *holder, *first, *second;
    struct call *first_call, *second_call;
};

static struct call *park(struct line *line, const char *token, int position)
{
    struct call *call = call_put(
        line->fe, line->lock, token,
        text(line->w, "kind=%s&wait_ms=30000&ttl_ms=60000", line->kind));

    wait_until(waiter_count(line->fe, line->lock) == position, 5000);
    return call;
}

static void line_up(struct line *line, struct front *fe, const char *lock, const char *kind)
{
    struct world *w = fe->world;

    *line = (struct line){.w = w,
                          .fe = fe,
                          .lock = text(w, "%s-%s", lock, kind),
                          .kind = kind,
                          .holder = token_new(w),
                          .first = token_new(w),
                          .second = token_new(w)};
    expect_status(lock_put(fe, line->lock, line->holder, text(w, "kind=%s&ttl_ms=60000", kind)),
                  201);
    line->first_call = park(line, line->first, 1);
    line->second_call = park(line, line->second, 2);
}

static void expect_holder(struct line *line, const char *token)
{
    const char *place = fair_place(line->w->a, line->lock, token);

    assert_int_equal(redis_int(line->w->redis, "HEXISTS %s %s", line->lock, place), 1);
}

static void test_the_next_waiter_gets_it(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct line line;

        line_up(&line, w->a, "next", kinds[i]);
        json_int_t fence = fence_of(w->a, line.lock);
        double before = hand_overs(w->a);
        /* Each may be just now in an attempt of its own, and is then woken as ever. */
        nap_ms(100);
        struct reply *r = lock_release(w->a, line.lock, line.holder);
        expect_status(r, 200);
        expect_int(r, "hold_count", 0);
        r = call_await(line.first_call, SOON_MS);
        expect_status(r, 201);
        expect_int(r, "hold_count", 1);
        expect_between(r, "remaining_ms", 50000, 60000);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        expect_int(r, "fencing_token", fence_of(w->b, line.lock));
        assert_true(hand_overs(w->a) == before + 1);
        assert_false(call_done(line.second_call));
        /* Each request again. */
        expect_status(lock_release(w->b, line.lock, line.holder), 200);
        expect_status(lock_put(w->b, line.lock, line.first, text(w, "kind=%s", kinds[i])), 200);
        expect_status(lock_release(w->a, line.lock, line.first), 200);
        expect_status(call_await(line.second_call, SOON_MS), 201);
        assert_true(hand_overs(w->a) == before + 2);
        expect_status(lock_release(w->a, line.lock, line.second), 200);
        assert_false(redis_has(w->redis, line.lock));
        assert_int_equal(waiter_count(w->a, line.lock), 0);
    }
}

/* The session of the lease that is released forgets it, and that of the waiter has it. */
static void test_sessions_know_their_leases(struct world *w)
{
    struct session gives = session_new(w->a, NULL), takes = session_new(w->a, NULL);
    const char *token = session_hold(w->a, &gives, "of-sessions", NULL);
    struct call *call = session_call_put(w->a, &takes, "of-sessions", token_new(w),
                                         "wait_ms=30000");

    wait_until(waiter_count(w->a, "of-sessions") == 1, 5000);
    nap_ms(100);
    double before = hand_overs(w->a);
    expect_status(lock_release(w->a, "of-sessions", token), 200);
    expect_status(call_await(call, SOON_MS), 201);
    assert_true(hand_overs(w->a) == before + 1);
    struct reply *r = keep_alive(w->b, &takes, NULL);
    expect_str(r, "leases.0.lock", "of-sessions");
    wait_until(json_array_size(reply_get(keep_alive(w->b, &gives, NULL), "leases")) == 0,
               SOON_MS);
    expect_int(session_end(w->b, &takes), "released", 1);
    assert_false(redis_has(w->redis, "of-sessions"));
}

/* Whoever listens beside the front end has waited, too, and is told of every release. */
static void test_others_that_listen_are_told(struct world *w)
{
    struct listener *java = listener_start(w->redis, "redisson_lock__channel:{told-lock}");
    struct line line;

    line_up(&line, w->a, "told", "lock");
    double before = hand_overs(w->a);
    expect_status(lock_release(w->a, line.lock, line.holder), 200);
    assert_string_equal(listener_next(java, SOON_MS), "0");
    expect_status(call_await(line.first_call, SOON_MS), 201);
    nap_ms(60); /* after 50 ms a release is for others first */
    expect_status(lock_release(w->a, line.lock, line.first), 200);
    assert_string_equal(listener_next(java, SOON_MS), "0");
    expect_status(call_await(line.second_call, SOON_MS), 201);
    assert_true(hand_overs(w->a) == before);
}

/* ---- in that very moment ---- */

/* The release has been carried out, the first waiter has the lock, and the front end does not
 * know yet. */
static struct call *release_under_way(struct line *line, struct slow *slow, const char *lock,
                                      const char *kind)
{
    line_up(line, slow->fe, lock, kind);
    const char *place = fair_place(line->w->a, line->lock, line->first);
    proxy_settle(slow->proxy);
    proxy_set(slow->proxy, PROXY_DELAY);
    struct call *call = CALL(slow->fe, .method = "DELETE",
                             .path = lock_path(line->w, line->lock, ""), .token = line->holder);
    wait_until(redis_int(line->w->redis, "HEXISTS %s %s", line->lock, place) == 1, 3000);
    return call;
}

static void test_the_chosen_client_hangs_up(struct world *w)
{
    struct slow slow = slow_start(w);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct line line;
        struct call *call = release_under_way(&line, &slow, "gone", kinds[i]);

        assert_false(call_done(line.first_call));
        call_hang_up(line.first_call);
        expect_status(call_await(call, RECOVER_MS), 200);
        expect_status(call_await(line.second_call, RECOVER_MS), 201);
        expect_holder(&line, line.second);
        proxy_set(slow.proxy, PROXY_PASS);
        wait_until(waiter_count(w->a, line.lock) == 0, SOON_MS);
        wait_until(front_metric(slow.fe, "rlockd_pending_withdrawals", NULL) == 0, SOON_MS);
        const char *id = text(w, "%.36s", fair_place(w->a, line.lock, line.first));
        assert_false(redis_has(w->redis, text(w, "rlockd:lease:{%s}:%s", line.lock, id)));
        expect_status(lock_release(w->a, line.lock, line.second), 200);
        assert_false(redis_has(w->redis, line.lock));
        expect_no_queue(w->redis, line.lock);
    }
}

/* Hung up before: nobody grants it anything. */
static void test_a_client_that_has_hung_up_is_not_chosen(struct world *w)
{
    struct slow slow = slow_start(w);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct line line;

        line_up(&line, slow.fe, "hung-up", kinds[i]);
        call_hang_up(line.first_call);
        wait_until(waiter_count(w->a, line.lock) == 1, SOON_MS);
        expect_status(lock_release(slow.fe, line.lock, line.holder), 200);
        expect_status(call_await(line.second_call, SOON_MS), 201);
        expect_holder(&line, line.second);
    }
}

static void test_the_reply_is_lost(struct world *w)
{
    struct slow slow = slow_start(w);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct line line;

        line_up(&line, slow.fe, "lost", kinds[i]);
        proxy_settle(slow.proxy);
        proxy_set(slow.proxy, PROXY_DROP_REPLIES);
        struct reply *r = lock_release(slow.fe, line.lock, line.holder);
        expect_problem(r, 503, "redis-unavailable");
        expect_str(r, "outcome", "unknown");
        expect_holder(&line, line.first);
        proxy_set(slow.proxy, PROXY_PASS);
        wait_until(front_ready(slow.fe), RECOVER_MS);
        r = call_await(line.first_call, RECOVER_MS);
        expect_true(r, r->status == 201 || r->status == 200); /* 200: GET has told of it */
        expect_status(lock_release(slow.fe, line.lock, line.holder), 200);
        assert_false(call_done(line.second_call));
        expect_status(lock_release(slow.fe, line.lock, line.first), 200);
        expect_status(call_await(line.second_call, RECOVER_MS), 201);
    }
}

/* Both clients ask again elsewhere. */
static void test_the_front_end_is_killed(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct slow slow = slow_start(w);
        struct line line;
        struct call *call = release_under_way(&line, &slow, "killed", kinds[i]);

        front_kill(slow.fe);
        assert_int_equal(call_await(call, SOON_MS)->status, 0);
        assert_int_equal(call_await(line.first_call, SOON_MS)->status, 0);
        expect_status(lock_release(w->a, line.lock, line.holder), 200);
        const char *query = text(w, "kind=%s&ttl_ms=60000", kinds[i]);
        struct reply *r = lock_put(w->b, line.lock, line.first, query);
        expect_status(r, 200);
        expect_int(r, "hold_count", 1);
        expect_status(lock_release(w->b, line.lock, line.first), 200);
        expect_status(
            lock_put(w->a, line.lock, line.second, text(w, "%s&wait_ms=20000", query)), 201);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_next_waiter_gets_it),
        E2E_TEST(test_sessions_know_their_leases),
        E2E_TEST(test_others_that_listen_are_told),
        E2E_TEST(test_the_chosen_client_hangs_up),
        E2E_TEST(test_a_client_that_has_hung_up_is_not_chosen),
        E2E_TEST(test_the_reply_is_lost),
        E2E_TEST(test_the_front_end_is_killed),
    };
    struct e2e_plan plan = {.name = "hand-over-order", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
