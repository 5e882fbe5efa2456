/* A release that hands the lock over to a waiter of the same front end: who gets it, who does
 * not, and what is left when one of them goes in that very moment. */
#include "counters.h"
#include "fair.h"

enum { SOON_MS = 1500, RECOVER_MS = 6000, TRIES = 3 };

static const char *const kinds[] = {"lock", "fair", "write"};

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

static const char *holder_field(struct line *line, const char *token)
{
    return text(line->w, "%s%s", fair_place(line->w->a, line->lock, token),
                strcmp(line->kind, "write") == 0 ? ":write" : "");
}

static void expect_holder(struct line *line, const char *token)
{
    assert_int_equal(
        redis_int(line->w->redis, "HEXISTS %s %s", line->lock, holder_field(line, token)), 1);
}

/* A waiter whose poll is under way is woken as ever: so the release of a test may hand nothing
 * over, and the test begins anew with another lock. False: not once in all TRIES. */
static bool hands_over(struct world *w, const char *kind,
                       bool (*try)(struct world *w, const char *lock, const char *kind),
                       const char *lock)
{
    for (int i = 0; i < TRIES; i++) {
        if (try(w, text(w, "%s-%d", lock, i), kind))
            return true;
    }
    return false;
}

static bool the_next_waiter_gets_it(struct world *w, const char *lock, const char *kind)
{
    struct line line;

    line_up(&line, w->a, lock, kind);
    json_int_t fence = fence_of(w->a, line.lock);
    double before = hand_overs(w->a);
    nap_ms((int)allowed_ms(100)); /* each may be just now in its first attempt */
    int64_t since_ms = now_ms();
    struct reply *r = lock_release(w->a, line.lock, line.holder);
    expect_status(r, 200);
    expect_int(r, "hold_count", 0);
    r = call_await(line.first_call, SOON_MS);
    expect_status(r, 201);
    expect_int(r, "hold_count", 1);
    expect_between(r, "remaining_ms", 50000, 60000);
    expect_between(r, "fencing_token", fence + 1, INT64_MAX);
    expect_int(r, "fencing_token", fence_of(w->b, line.lock));
    bool is_handed_over = hand_overs(w->a) == before + 1;
    assert_false(call_done(line.second_call));
    /* Each request again. */
    expect_status(lock_release(w->b, line.lock, line.holder), 200);
    expect_status(lock_put(w->b, line.lock, line.first, text(w, "kind=%s", kind)), 200);
    expect_status(lock_release(w->a, line.lock, line.first), 200);
    expect_status(call_await(line.second_call, SOON_MS), 201);
    /* After 50 ms of hand-overs a release is open to all. */
    if (now_ms() - since_ms < 50)
        is_handed_over &= hand_overs(w->a) == before + 2;
    expect_status(lock_release(w->a, line.lock, line.second), 200);
    assert_false(redis_has(w->redis, line.lock));
    assert_int_equal(waiter_count(w->a, line.lock), 0);
    return is_handed_over;
}

static void test_the_next_waiter_gets_it(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        assert_true(hands_over(w, kinds[i], the_next_waiter_gets_it, "next"));
}

/* The queue in Redis is that of both workers, and each release goes to its head. */
static void test_workers_keep_the_order_of_a_fair_lock(struct world *w)
{
    enum { CROWD = 16 };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--workers", "2", NULL);
    const char *holder = fair_hold(fe, "order", NULL), *tokens[CROWD];
    struct call *calls[CROWD];

    for (int i = 0; i < CROWD; i++) {
        tokens[i] = token_new(w);
        calls[i] = fair_park(fe, "order", tokens[i], "ttl_ms=60000&wait_ms=30000");
    }
    nap_ms((int)allowed_ms(100));
    for (int i = 0; i < CROWD; i++) {
        expect_status(lock_release(fe, "order", holder), 200);
        expect_status(call_await(calls[i], SOON_MS), 201);
        if (i + 1 < CROWD)
            assert_false(call_done(calls[i + 1]));
        holder = tokens[i];
    }
    expect_status(lock_release(fe, "order", holder), 200);
    assert_true(front_metric(fe, "rlockd_passed_releases_total", NULL) > 0);
    assert_true(hand_overs(fe) > CROWD / 2); /* a waiter may be in an attempt of its own */
    expect_no_queue(w->redis, "order");
}

/* The session of the lease that is released forgets it, and that of the waiter has it. */
static bool sessions_know_their_leases(struct world *w, const char *lock, const char *kind)
{
    struct session gives = session_new(w->a, NULL), takes = session_new(w->a, NULL);
    const char *token = session_hold(w->a, &gives, lock, text(w, "kind=%s", kind));
    struct call *call = session_call_put(w->a, &takes, lock, token_new(w),
                                         text(w, "kind=%s&wait_ms=30000", kind));

    wait_until(waiter_count(w->a, lock) == 1, 5000);
    nap_ms((int)allowed_ms(100));
    double before = hand_overs(w->a);
    expect_status(lock_release(w->a, lock, token), 200);
    expect_status(call_await(call, SOON_MS), 201);
    bool is_handed_over = hand_overs(w->a) == before + 1;
    struct reply *r = keep_alive(w->b, &takes, NULL);
    expect_str(r, "leases.0.lock", lock);
    wait_until(json_array_size(reply_get(keep_alive(w->b, &gives, NULL), "leases")) == 0,
               SOON_MS);
    expect_int(session_end(w->b, &takes), "released", 1);
    assert_false(redis_has(w->redis, lock));
    return is_handed_over;
}

static void test_sessions_know_their_leases(struct world *w)
{
    assert_true(hands_over(w, "lock", sessions_know_their_leases, "of-sessions"));
}

/* Whoever listens beside the front end has waited, too, and is told of every release. */
static void test_others_that_listen_are_told(struct world *w)
{
    static const struct {
        const char *kind, *channel, *message;
    } each[] = {{"lock", "redisson_lock__channel:{told-lock}", "0"},
                {"write", "redisson_rwlock:{told-write}", "1"}};

    for (size_t i = 0; i < COUNT_OF(each); i++) {
        struct listener *java = listener_start(w->redis, each[i].channel);
        bool is_write = strcmp(each[i].kind, "write") == 0; /* then a second message follows */
        struct line line;

        line_up(&line, w->a, "told", each[i].kind);
        double before = hand_overs(w->a);
        expect_status(lock_release(w->a, line.lock, line.holder), 200);
        assert_string_equal(listener_next(java, SOON_MS), each[i].message);
        assert_true(!is_write || strcmp(listener_next(java, SOON_MS), "0") == 0);
        expect_status(call_await(line.first_call, SOON_MS), 201);
        nap_ms(60); /* after 50 ms a release is for others first */
        expect_status(lock_release(w->a, line.lock, line.first), 200);
        assert_string_equal(listener_next(java, SOON_MS), each[i].message);
        expect_status(call_await(line.second_call, SOON_MS), 201);
        assert_true(hand_overs(w->a) == before);
    }
}

static struct call *park_kind(struct world *w, const char *lock, const char *token,
                              const char *kind, int position)
{
    struct call *call = call_put(w->a, lock, token,
                                 text(w, "kind=%s&wait_ms=30000&ttl_ms=60000", kind));

    wait_until(waiter_count(w->a, lock) == position, 5000);
    return call;
}

/* All that wait to read come in with the first of them, and the last of them lets the writer
 * in. */
static bool readers_between_writers(struct world *w, const char *lock, const char *kind)
{
    enum { READERS = 3 };
    const char *holder = token_new(w), *writer = token_new(w), *readers[READERS];
    struct call *calls[READERS], *writing;

    expect_status(lock_put(w->a, lock, holder, text(w, "kind=%s&ttl_ms=60000", kind)), 201);
    readers[0] = token_new(w);
    calls[0] = park_kind(w, lock, readers[0], "read", 1);
    writing = park_kind(w, lock, writer, kind, 2);
    for (int i = 1; i < READERS; i++) {
        readers[i] = token_new(w);
        calls[i] = park_kind(w, lock, readers[i], "read", 2 + i);
    }
    double before = hand_overs(w->a);
    nap_ms((int)allowed_ms(100));
    expect_status(lock_release(w->a, lock, holder), 200);
    for (int i = 0; i < READERS; i++)
        expect_status(call_await(calls[i], SOON_MS), 201);
    bool is_handed_over = hand_overs(w->a) == before + 1;
    assert_int_equal(redis_int(w->redis, "HLEN %s", lock), READERS + 1);
    for (int i = 0; i < READERS; i++) {
        stays_true(!call_done(writing), 100);
        expect_status(lock_release(w->a, lock, readers[i]), 200);
    }
    expect_status(call_await(writing, SOON_MS), 201);
    is_handed_over &= hand_overs(w->a) == before + 2;
    expect_status(lock_release(w->a, lock, writer), 200);
    assert_false(redis_has(w->redis, lock));
    return is_handed_over;
}

static void test_readers_between_writers(struct world *w)
{
    assert_true(hands_over(w, "write", readers_between_writers, "between"));
}

/* ---- in that very moment ---- */

/* The release has been carried out, the first waiter has the lock, and the front end does not
 * know yet. */
static struct call *release_under_way(struct line *line, struct slow *slow, const char *lock,
                                      const char *kind)
{
    line_up(line, slow->fe, lock, kind);
    const char *place = holder_field(line, line->first);
    proxy_settle(slow->proxy);
    proxy_set(slow->proxy, PROXY_HOLD);
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
        proxy_set(slow.proxy, PROXY_PASS);
        expect_status(call_await(call, RECOVER_MS), 200);
        expect_status(call_await(line.second_call, RECOVER_MS), 201);
        expect_holder(&line, line.second);
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
        E2E_TEST(test_workers_keep_the_order_of_a_fair_lock),
        E2E_TEST(test_sessions_know_their_leases),
        E2E_TEST(test_others_that_listen_are_told),
        E2E_TEST(test_readers_between_writers),
        E2E_TEST(test_the_chosen_client_hangs_up),
        E2E_TEST(test_a_client_that_has_hung_up_is_not_chosen),
        E2E_TEST(test_the_reply_is_lost),
        E2E_TEST(test_the_front_end_is_killed),
    };
    struct e2e_plan plan = {.name = "hand-over", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
