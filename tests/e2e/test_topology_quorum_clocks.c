/* redis-quorum:// with servers whose clocks differ by some seconds, or one of them by an hour,
 * so that it refuses the first tokens. Two leases never hold at one time, fencing tokens grow,
 * and leases and sessions end by their time. */
#include "harness_session.h"
#include "quorum.h"

enum { SOON_MS = 10000, HOUR_S = 3600, ROUNDS = 12, SERVERS = 3, NEAR_MS = 12000 };

struct scene {
    struct world *w;
    struct quorum *q;
    struct quorum_front a, b;
    const int *ahead_s; /* of each server */
    json_int_t last;    /* fencing token */
};

static bool is_stray(const struct scene *s, int server)
{
    return abs(s->ahead_s[server]) == HOUR_S;
}

static bool has_stray(const struct scene *s)
{
    return is_stray(s, 0) || is_stray(s, 1) || is_stray(s, 2);
}

/* A grant with a higher token than all before, near the clocks of most servers. */
static void expect_next(struct scene *s, struct reply *r)
{
    struct timespec now;

    expect_status(r, 201);
    json_int_t token = reply_int(r, "fencing_token");
    expect_true(r, token > s->last);
    s->last = token;
    clock_gettime(CLOCK_REALTIME, &now);
    expect_true(r, token / 1000 < (json_int_t)now.tv_sec * 1000 + NEAR_MS);
}

/* A release reaches the last server a moment after its answer. */
static struct reply *put_soon(struct front *fe, const char *lock, const char *token,
                              const char *query)
{
    return lock_put(fe, lock, token, text(fe->world, "wait_ms=%d&%s", SOON_MS, query));
}

/* --- tokens and exclusion ----------------------------------------------------------------- */

static void take_turns(struct scene *s)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct front *fe = i % 2 == 0 ? s->a.fe : s->b.fe;
        struct front *other = i % 2 == 0 ? s->b.fe : s->a.fe;
        const char *token = token_new(s->w);

        expect_next(s, put_soon(fe, "turns", token, "ttl_ms=60000"));
        expect_problem(lock_put(other, "turns", token_new(s->w), "ttl_ms=60000"), 423,
                       "locked");
        expect_int(lock_renew(other, "turns", token, "ttl_ms=60000"), "fencing_token", s->last);
        expect_status(lock_release(i % 3 == 0 ? fe : other, "turns", token), 200);
    }
}

/* Both ask at one time: one is granted at most, also by votes of a second round. */
static void contend(struct scene *s)
{
    int granted = 0;

    for (int i = 0; i < ROUNDS; i++) {
        const char *lock = text(s->w, "contended-%d", i);
        struct call *calls[] = {call_put(s->a.fe, lock, token_new(s->w), "ttl_ms=60000"),
                                call_put(s->b.fe, lock, token_new(s->w), "ttl_ms=60000")};
        struct reply *first = call_await(calls[0], SOON_MS);
        struct reply *second = call_await(calls[1], SOON_MS);

        expect_true(first, first->status == 201 || first->status == 423);
        expect_true(second, second->status == 201 || second->status == 423);
        expect_true(first, first->status != 201 || second->status != 201);
        granted += first->status == 201 || second->status == 201;
    }
    assert_true(granted > 0);
}

/* --- times -------------------------------------------------------------------------------- */

/* A lease that nobody renews, and a session that nobody keeps alive, with a lease. */
struct leftovers {
    const char *token, *of_session;
    struct session session;
    json_int_t fence, fence_of_session;
    int64_t until_ms, session_until_ms; /* as the client was told */
    struct call *waits, *waits_for_session;
};

static struct leftovers leave(struct scene *s, int64_t ttl_ms)
{
    const char *query = text(s->w, "ttl_ms=%lld", (long long)ttl_ms);
    const char *waits = "wait_ms=50000&ttl_ms=60000";
    struct leftovers left = {.token = token_new(s->w), .session = session_new(s->a.fe, query)};

    left.of_session = session_hold(s->a.fe, &left.session, "left", NULL);
    struct reply *r = keep_alive(s->b.fe, &left.session, NULL);
    expect_alive(r, 1);
    left.session_until_ms = r->sent_ms + reply_int(r, "remaining_ms");
    left.fence_of_session = fence_of(s->b.fe, "left");
    r = lock_put(s->a.fe, "short", left.token, query);
    expect_next(s, r);
    left.fence = s->last;
    left.until_ms = r->sent_ms + reply_int(r, "remaining_ms");
    left.waits = call_put(s->b.fe, "short", token_new(s->w), waits);
    left.waits_for_session = call_put(s->b.fe, "left", token_new(s->w), waits);
    return left;
}

/* Both ended by their time, not before, and the requests that waited got the locks. */
static void expect_ended(struct scene *s, const struct leftovers *left)
{
    struct reply *r = call_await(left->waits, SOON_MS);

    s->last = left->fence;
    expect_next(s, r);
    expect_true(r, r->done_ms >= left->until_ms);
    expect_problem(lock_renew(s->a.fe, "short", left->token, NULL), 410, "lease-ended");
    expect_problem(lock_put(s->b.fe, "short", left->token, NULL), 410, "lease-ended");
    expect_problem(http(s->a.fe, "GET",
                        lock_path(s->w, "short",
                                  text(s->w, "/fencing-tokens/%lld", (long long)left->fence)),
                        NULL),
                   409, "fencing-token-stale");
    r = call_await(left->waits_for_session, SOON_MS);
    s->last = left->fence_of_session;
    expect_next(s, r);
    expect_true(r, r->done_ms >= left->session_until_ms);
    expect_problem(keep_alive(s->a.fe, &left->session, NULL), 410, "session-ended");
    expect_problem(lock_put(s->b.fe, "left", left->of_session, NULL), 410, "lease-ended");
}

/* Beside them a lease that its client renews and one that the watchdog renews last for longer
 * than their times. */
static void pass_time(struct scene *s)
{
    struct session session = session_new(s->a.fe, "ttl_ms=60000");
    const char *token = token_new(s->w);
    int64_t ttl_ms = patience_ms(1000);
    const char *query = text(s->w, "ttl_ms=%lld", (long long)ttl_ms);
    struct leftovers left = leave(s, ttl_ms);

    session_hold(s->b.fe, &session, "watched", NULL);
    json_int_t watched = fence_of(s->a.fe, "watched");
    struct reply *r = lock_put(s->a.fe, "renewed", token, query);
    expect_status(r, 201);
    json_int_t fence = reply_int(r, "fencing_token");
    for (int64_t end_ms = now_ms() + 2 * ttl_ms; now_ms() < end_ms; nap_ms((int)ttl_ms / 8)) {
        r = lock_renew(s->b.fe, "renewed", token, query);
        expect_status(r, 200);
        expect_int(r, "fencing_token", fence);
        expect_between(r, "remaining_ms", 1, ttl_ms - 2);
        expect_problem(lock_put(s->a.fe, "renewed", token_new(s->w), NULL), 423, "locked");
        expect_problem(lock_put(s->b.fe, "watched", token_new(s->w), NULL), 423, "locked");
    }
    assert_int_equal(fence_of(s->b.fe, "watched"), watched);
    expect_alive(keep_alive(s->b.fe, &session, NULL), 1);
    expect_int(session_end(s->b.fe, &session), "released", 1);
    expect_status(put_soon(s->a.fe, "watched", token_new(s->w), "ttl_ms=60000"), 201);
    expect_ended(s, &left);
}

/* --- losses ------------------------------------------------------------------------------- */

static bool is_told(struct front *fe, const struct session *session, const char *lock)
{
    return loss_of(keep_alive(fe, session, NULL), lock) != NULL;
}

/* Two servers that vote have lost the lease: its holder is told, and its token is spent. */
static void lose(struct scene *s)
{
    struct session session = session_new(s->a.fe, "ttl_ms=60000");
    const char *token = session_hold(s->a.fe, &session, "lost", NULL);

    s->last = fence_of(s->b.fe, "lost");
    for (int i = 0, lost = 0; i < SERVERS && lost < 2; i++) {
        if (!is_stray(s, i)) {
            redis_ok(s->q->server[i], "DEL lost");
            lost++;
        }
    }
    wait_until(is_told(s->b.fe, &session, "lost"), SOON_MS);
    expect_problem(session_put(s->b.fe, &session, "lost", token, NULL), 410, "lease-ended");
    expect_next(s, put_soon(s->a.fe, "lost", token_new(s->w), "ttl_ms=60000"));
}

/* A server is killed that is no stray. A lease that was renewed is at the stray, too, and is
 * renewed and released: a clock has no part in that. Then the vote of the stray is needed, and
 * it refuses the first tokens: of two rivals one is granted at most. */
static void one_away(struct scene *s)
{
    const char *token = token_new(s->w), *path = lock_path(s->w, "kept", "");
    const char *renewal = text(s->w, "%s?ttl_ms=60000", path);
    int victim = is_stray(s, 0) ? 1 : 0;

    expect_next(s, lock_put(s->a.fe, "kept", token, "ttl_ms=60000"));
    expect_status(lock_renew(s->a.fe, "kept", token, "ttl_ms=60000"), 200);
    wait_until(quorum_holds(s->q, "kept") == SERVERS, SOON_MS);
    redis_kill(s->q->server[victim]);
    wait_until(strcmp(quorum_state(s->a.fe, victim), "down") == 0 &&
                   strcmp(quorum_state(s->b.fe, victim), "down") == 0,
               SOON_MS);
    expect_int(quorum_ask(s->b.fe, "PATCH", renewal, token), "fencing_token", s->last);
    expect_problem(quorum_ask(s->a.fe, "PUT", path, token_new(s->w)), 423, "locked");
    expect_status(quorum_ask(s->b.fe, "DELETE", path, token), 200);
    if (!has_stray(s)) {
        expect_next(s, put_soon(s->a.fe, "kept", token_new(s->w), "ttl_ms=60000"));
        return;
    }
    struct reply *r = lock_put(s->a.fe, "kept", token_new(s->w), "ttl_ms=60000");
    expect_true(r, r->status == 201 || r->status == 503 || r->status == 423);
    if (r->status == 201)
        expect_next(s, r);
    for (int i = 0; i < 3 && r->status == 201; i++)
        expect_problem(lock_put(s->b.fe, "kept", token_new(s->w), NULL), 423, "locked");
}

/* --- what is shown ------------------------------------------------------------------------ */

/* Off by half of the time that a server stood still, until it is asked again. */
static long long offset_ms(struct scene *s, int server)
{
    struct reply *r = http(s->a.fe, "GET", "/readyz", NULL);
    const char *path = text(s->w, "redis.members.%d.clock_offset_ms", server);

    expect_true(r, reply_get(r, path) != NULL);
    return reply_int(r, path);
}

static void show(struct scene *s)
{
    for (int i = 0; i < SERVERS; i++)
        wait_until(llabs(offset_ms(s, i) - (long long)s->ahead_s[i] * 1000) <= 1000, SOON_MS);
}

/* --- sessions ----------------------------------------------------------------------------- */

/* A keep-alive whose client has not got the answer yet leaves the new lease alone, of which the
 * first server knows nothing. */
static void keep_what_is_new(struct scene *s)
{
    struct session session = session_new(s->a.fe, "ttl_ms=30000");

    proxy_set(s->a.proxy[0], PROXY_RESET);
    struct reply *r = session_put(s->a.fe, &session, "kept/new", token_new(s->w),
                                  text(s->w, "wait_ms=%d", SOON_MS));
    expect_status(r, 201);
    for (int i = 0; i < 10; i++)
        expect_alive(keep_alive_body(s->b.fe, &session, "{\"held\":[]}"), 1);
    proxy_set(s->a.proxy[0], PROXY_PASS);
    expect_int(session_end(s->b.fe, &session), "released", 1);
    wait_until(quorum_all_up(s->a.fe), SOON_MS);
}

/* --- all of it ---------------------------------------------------------------------------- */

static void with_clocks(struct world *w, const int *ahead_s)
{
    static void (*const acts[])(struct scene *) = {
        show, take_turns, contend, keep_what_is_new, pass_time, lose, one_away};
    struct scene s = {.w = w, .ahead_s = ahead_s};

    s.q = quorum_start_skewed(w, SERVERS, ahead_s);
    s.a = quorum_front(s.q, WATCHDOG_FLAGS, NULL);
    s.b = quorum_front(s.q, WATCHDOG_FLAGS, NULL);
    for (size_t i = 0; i < COUNT_OF(acts); i++) {
        s.last = 0; /* each has locks of its own */
        acts[i](&s);
    }
}

#define CLOCKS(name, ...)                                                                      \
    static void test_##name(struct world *w)                                                   \
    {                                                                                          \
        with_clocks(w, (const int[SERVERS]){__VA_ARGS__});                                     \
    }

/* While a server stands still, no two servers agree on a token. A request that waits gets the
 * lock when the server goes on. */
static void test_standing_still_beside_a_stray(struct world *w)
{
    static const int ahead_s[SERVERS] = {-HOUR_S, 0, 0};
    struct scene s = {.w = w, .ahead_s = ahead_s};

    s.q = quorum_start_skewed(w, SERVERS, ahead_s);
    s.a = quorum_front(s.q, NULL);
    const char *token = token_new(w);
    expect_next(&s, lock_put(s.a.fe, "jobs", token, NULL)); /* its token is not at the stray */
    expect_status(lock_release(s.a.fe, "jobs", token), 200);
    redis_freeze(s.q->server[2]);
    struct call *waits = call_put(s.a.fe, "jobs", token_new(w), "wait_ms=20000&ttl_ms=60000");
    nap_ms(5000); /* longer than the rounds of one try last */
    redis_thaw(s.q->server[2]);
    expect_next(&s, call_await(waits, SOON_MS));
    expect_problem(lock_put(s.a.fe, "jobs", token_new(w), NULL), 423, "locked");
}

CLOCKS(the_first_an_hour_ahead, HOUR_S, 0, 0)
CLOCKS(the_last_an_hour_behind, 0, 0, -HOUR_S)
CLOCKS(the_second_3_s_ahead, 0, 3, 0)
CLOCKS(the_first_3_s_behind, -3, 0, 0)

static const struct e2e_test tests[] = {
    E2E_TEST(test_the_first_an_hour_ahead),       E2E_TEST(test_the_last_an_hour_behind),
    E2E_TEST(test_standing_still_beside_a_stray), E2E_TEST(test_the_second_3_s_ahead),
    E2E_TEST(test_the_first_3_s_behind),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_clocks", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
