/* Fair locks when something fails: sessions that end, a Redis without memory, without its data
 * or away, servers that stop, and names that are something else. */
#include "counters.h"
#include "fair.h"

#include <signal.h>

enum { SOON_MS = 1500, RECOVER_MS = 6000 };

/* A Redis and a front end for one test to ruin. */
struct pair {
    struct redis *redis;
    struct front *fe;
};

static void pair_start(struct pair *pair, struct world *w)
{
    pair->redis = redis_start(w, NULL);
    pair->fe = front_start(w, "--redis", pair->redis->url, NULL);
}

static struct call *park(struct pair *p, const char *lock, const char *token, const char *query)
{
    long long before = queue_len(p->redis, lock);
    struct call *call = call_put(p->fe, lock, token, text(p->fe->world, "kind=fair&%s", query));

    wait_until(queue_len(p->redis, lock) == before + 1, 5000);
    return call;
}

/* ---- sessions ---- */

static void test_owners_reenter(struct world *w)
{
    static const char *const owners[] = {"me", "0", "m"};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        const char *lock = text(w, "owner-%zu", i), *query = text(w, "owner=%s", owners[i]);
        struct session s = session_new(w->a, NULL);
        const char *fair = text(w, "kind=fair&%s", query), *second = token_new(w);
        const char *first = session_hold(w->a, &s, lock, fair);
        struct call *next = fair_park(w->b, lock, token_new(w), "wait_ms=30000");
        struct reply *r = session_put(w->b, &s, lock, second, text(w, "%s&wait_ms=9000", fair));

        expect_status(r, 201);
        expect_int(r, "hold_count", 2);
        expect_int(r, "fencing_token", fence_of(w->a, lock));
        assert_int_equal(queue_len(w->redis, lock), 1);
        assert_string_equal(redis_str(w->redis, "HGET %s %s:%s", lock, s.id, owners[i]), "2");
        r = lock_look(w->a, lock);
        expect_str(r, "kind", "fair");
        expect_str(r, "holders.0.owner", owners[i]);
        expect_int(lock_release(w->a, lock, first), "hold_count", 1);
        stays_true(!call_done(next), 50);
        expect_int(lock_release(w->b, lock, second), "hold_count", 0);
        expect_status(call_await(next, SOON_MS), 201);
        expect_no_queue(w->redis, lock);
    }
}

/* Without a queue nothing in the lock's hash tells what an owner holds it as. */
static void test_the_kind_of_an_owners_lock(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "kind-fair", "owner=me&kind=fair");
    session_hold(w->a, &s, "kind-plain", "owner=me");
    expect_str(lock_look(w->b, "kind-fair"), "kind", "fair");
    expect_str(lock_look(w->b, "kind-plain"), "kind", "lock");
    expect_problem(lock_put(w->b, "kind-fair", token_new(w), "wait_ms=500"), 409, "wrong-kind");
    expect_problem(fair_put(w->b, "kind-plain", token_new(w), "wait_ms=500"), 409,
                   "wrong-kind");
    expect_no_queue(w->redis, "kind-plain");
}

/* Two of one owner wait: the turn of one is the turn of both. */
static void test_waiters_of_one_owner(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *holder = fair_hold(w->a, "owners", NULL);
    const char *query = "kind=fair&owner=me&wait_ms=30000";
    struct call *one, *stranger, *two;

    one = session_call_put(w->a, &s, "owners", token_new(w), query);
    wait_until(queue_len(w->redis, "owners") == 1, 3000);
    stranger = fair_park(w->b, "owners", token_new(w), "wait_ms=30000");
    two = session_call_put(w->b, &s, "owners", token_new(w), query);
    wait_until(queue_len(w->redis, "owners") == 3, 3000);
    expect_status(lock_release(w->a, "owners", holder), 200);
    struct reply *a = call_await(one, SOON_MS), *b = call_await(two, SOON_MS);
    expect_status(a, 201);
    expect_status(b, 201);
    expect_int(a, "fencing_token", reply_int(b, "fencing_token"));
    assert_int_equal(queue_len(w->redis, "owners"), 1);
    assert_int_equal(redis_int(w->redis, "ZCARD %s", fair_times(w, "owners")), 1);
    expect_status(session_end(w->a, &s), 200);
    expect_status(call_await(stranger, SOON_MS), 201);
}

static void test_sessions_end(struct world *w)
{
    struct session holds = session_new(w->a, NULL), waits = session_new(w->b, NULL);
    struct call *first, *second;

    session_hold(w->a, &holds, "ends", "kind=fair");
    first = session_call_put(w->a, &waits, "ends", token_new(w), "kind=fair&wait_ms=30000");
    wait_until(queue_len(w->redis, "ends") == 1, 3000);
    second = fair_park(w->b, "ends", token_new(w), "wait_ms=30000");
    expect_status(session_end(w->b, &waits), 200);
    expect_problem(call_await(first, SOON_MS), 410, "session-ended");
    wait_until(queue_len(w->redis, "ends") == 1, SOON_MS);
    expect_int(session_end(w->b, &holds), "released", 1);
    expect_status(call_await(second, SOON_MS), 201);
    /* Lost, and told of it. */
    holds = session_new(w->a, NULL);
    session_hold(w->a, &holds, "lost", "kind=fair");
    struct reply *r = keep_alive(w->b, &holds, NULL);
    expect_str(r, "leases.0.kind", "fair");
    redis_ok(w->redis, "DEL lost");
    wait_until(losses_len(r = keep_alive(w->a, &holds, NULL)) == 1, 20000);
    expect_loss(r, "lost", "expired");
}

/* ---- Redis ---- */

/* List and zset are written together or not at all; whoever has a place or a lock keeps it. */
static void test_out_of_memory(struct world *w)
{
    struct pair p = {0};
    const char *holder = token_new(w), *first = token_new(w), *late = token_new(w);
    const char *second = token_new(w);
    struct call *one;
    struct reply *r;

    skip_with_slots(w);
    pair_start(&p, w);
    expect_status(fair_put(p.fe, "oom", holder, "ttl_ms=60000"), 201);
    one = park(&p, "oom", first, "wait_ms=30000&ttl_ms=60000");
    expect_problem(fair_put(p.fe, "oom", second, "wait_ms=50"), 423, "locked");
    const char *one_place = fair_place(p.fe, "oom", first);
    const char *two_place = fair_place(p.fe, "oom", second);
    redis_ok(p.redis, "CONFIG SET maxmemory 1");
    r = fair_put(p.fe, "oom", late, "wait_ms=3000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    expect_queue(p.redis, "oom", one_place, two_place);
    expect_problem(fair_put(p.fe, "oom", second, NULL), 423, "locked");
    expect_problem(fair_put(p.fe, "oom", second, "wait_ms=100"), 423, "locked");
    expect_problem(fair_put(p.fe, "oom-new", token_new(w), "wait_ms=100"), 503,
                   "redis-unavailable");
    assert_false(redis_has(p.redis, "oom-new"));
    stays_true(!call_done(one), 6500); /* and it has asked again meanwhile */
    expect_queue(p.redis, "oom", one_place, two_place);
    expect_status(lock_renew(p.fe, "oom", holder, "ttl_ms=50000"), 200);
    expect_status(lock_release(p.fe, "oom", second), 200);
    expect_queue(p.redis, "oom", one_place);
    expect_status(lock_release(p.fe, "oom", holder), 200);
    assert_false(redis_has(p.redis, "oom"));
    stays_true(!call_done(one), 1000); /* it keeps its place, and waits on */
    expect_queue(p.redis, "oom", one_place);
    redis_ok(p.redis, "CONFIG SET maxmemory 0");
    expect_status(call_await(one, RECOVER_MS), 201);
    wait_until(queue_len(p.redis, "oom") == 0, RECOVER_MS);
    assert_int_equal(redis_int(p.redis, "ZCARD %s", fair_times(w, "oom")), 0);
    expect_status(lock_release(p.fe, "oom", first), 200);
    expect_status(fair_put(p.fe, "oom", token_new(w), NULL), 201);
}

static void test_redis_comes_back(struct world *w)
{
    enum { WAITERS = 4 };
    struct pair p = {0};
    const char *tokens[WAITERS], *holder = token_new(w);
    struct call *calls[WAITERS];
    struct reply *r;

    pair_start(&p, w);
    expect_status(fair_put(p.fe, "back", holder, "ttl_ms=60000"), 201);
    json_int_t fence = fence_of(p.fe, "back");
    for (int i = 0; i < WAITERS; i++)
        calls[i] = park(&p, "back", tokens[i] = token_new(w), "wait_ms=50000&ttl_ms=60000");
    redis_kill(p.redis);
    wait_until(!front_ready(p.fe), 3000);
    redis_return(p.redis);
    wait_until(front_ready(p.fe), RECOVER_MS);
    for (int i = 0; i < 2; i++) {
        wait_until(lock_release(p.fe, "back", holder)->status == 200, RECOVER_MS);
        expect_status(call_await(calls[i], RECOVER_MS), 201);
        holder = tokens[i];
        assert_false(call_done(calls[i + 1]));
    }
    /* All data lost: whoever asks first, gets it; everybody does in the end. */
    redis_kill(p.redis);
    redis_lose_data(p.redis);
    redis_return(p.redis);
    for (int i = 2; i < WAITERS; i++) {
        wait_until(call_done(calls[2]) || call_done(calls[3]), RECOVER_MS);
        int got = call_done(calls[2]) ? 2 : 3;
        r = call_await(calls[got], 0);
        expect_status(r, 201);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        fence = reply_int(r, "fencing_token");
        wait_until(queue_len(p.redis, "back") == WAITERS - 1 - i, RECOVER_MS);
        expect_status(lock_release(p.fe, "back", tokens[got]), 200);
        calls[got] = calls[5 - got];
    }
    assert_int_equal(queue_len(p.redis, "back"), 0);
}

/* Redis was away for longer than a place lasts without a request, which was nobody's fault: the
 * first front end to come back leaves the others theirs. Here it is away for less, and the
 * places are made to be over when it is back. */
static void test_no_place_ends_for_want_of_redis(struct world *w)
{
    enum { WAITERS = 3 };
    struct pair p = {0};
    const char *places[WAITERS], *holder = token_new(w);

    pair_start(&p, w);
    struct front *first_back = front_start(w, "--redis", p.redis->url, NULL);
    expect_status(fair_put(p.fe, "away", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < WAITERS; i++) {
        const char *token = token_new(w);

        park(&p, "away", token, "wait_ms=50000");
        places[i] = fair_place(p.fe, "away", token);
    }
    child_signal(p.fe->child, SIGSTOP);
    int64_t lost_ms = redis_epoch_ms(p.redis);
    redis_kill(p.redis);
    redis_return(p.redis);
    wait_until(front_ready(first_back), RECOVER_MS);
    for (int i = 0; i < WAITERS; i++)
        redis_ok(p.redis, "ZADD rlockd:places:{away} XX %lld %s", (long long)lost_ms,
                 text(w, "%.36s", places[i]));
    expect_problem(fair_put(first_back, "away", token_new(w), NULL), 423, "locked");
    expect_queue(p.redis, "away", places[0], places[1], places[2]);
    child_signal(p.fe->child, SIGCONT);
    wait_until(front_ready(p.fe), RECOVER_MS);
    expect_queue(p.redis, "away", places[0], places[1], places[2]);
}

/* The reply is lost on the way: asked again with the same token, it gets in once, and a place
 * is one place. */
static void test_lost_replies(struct world *w)
{
    struct proxy *proxy = proxy_start(w->redis);
    struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), NULL);
    const char *token = token_new(w), *waiting = token_new(w);
    struct reply *r;

    proxy_set(proxy, PROXY_DROP_REPLIES);
    r = fair_put(fe, "lost-reply", token, "ttl_ms=60000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    proxy_set(proxy, PROXY_PASS);
    wait_until(front_ready(fe), RECOVER_MS);
    wait_until((r = fair_put(fe, "lost-reply", token, "ttl_ms=60000"))->status != 503,
               RECOVER_MS);
    expect_true(r, r->status == 201 || r->status == 200);
    proxy_set(proxy, PROXY_DROP_REPLIES);
    expect_problem(fair_put(fe, "lost-reply", waiting, "wait_ms=30000"), 503,
                   "redis-unavailable");
    struct call *behind = call_put(w->a, "lost-reply", token_new(w), "kind=fair&wait_ms=30000");
    wait_until(queue_len(w->redis, "lost-reply") == 2, 3000);
    const char *place = fair_place(w->a, "lost-reply", waiting);
    proxy_set(proxy, PROXY_PASS);
    wait_until(front_ready(fe), RECOVER_MS);
    /* The place was kept for it. */
    struct call *call = call_put(fe, "lost-reply", waiting, "kind=fair&wait_ms=30000");
    nap_ms(300);
    assert_string_equal(redis_str(w->redis, "LINDEX %s 0", fair_queue(w, "lost-reply")), place);
    expect_status(lock_release(w->a, "lost-reply", token), 200);
    expect_status(call_await(call, SOON_MS), 201);
    assert_false(call_done(behind));
    expect_status(lock_release(w->a, "lost-reply", waiting), 200);
    expect_status(call_await(behind, SOON_MS), 201);
}

/* ---- places and time ---- */

static void test_draining_keeps_the_place(struct world *w)
{
    struct front *going = front_start(w, "--redis", w->redis->url, NULL);
    const char *holder = fair_hold(w->a, "drain", NULL), *first = token_new(w);
    struct call *one = fair_park(going, "drain", first, "wait_ms=30000&ttl_ms=60000");
    struct call *two = fair_park(w->b, "drain", token_new(w), "wait_ms=30000");
    const char *place = fair_place(w->a, "drain", first);

    front_stop(going);
    expect_problem(call_await(one, SOON_MS), 503, "draining");
    assert_string_equal(redis_str(w->redis, "LINDEX %s 0", fair_queue(w, "drain")), place);
    one = call_put(w->a, "drain", first, "kind=fair&wait_ms=30000&ttl_ms=60000");
    wait_until(redis_int(w->redis, "ZCARD rlockd:waiters:{drain}") == 2, 3000);
    assert_int_equal(queue_len(w->redis, "drain"), 2);
    /* And here it is the only one: when it goes, so does the place. */
    call_hang_up(one);
    wait_until(queue_len(w->redis, "drain") == 1, SOON_MS);
    expect_status(lock_release(w->b, "drain", holder), 200);
    expect_status(call_await(two, SOON_MS), 201);
}

/* 15 s after the last request a place is gone, whyever nobody asks; not earlier. */
static void test_places_end(struct world *w)
{
    enum { LATE_MS = 2000 };
    struct front *doomed = front_start(w, "--redis", w->redis->url, NULL);
    const char *idle = fair_hold(w->a, "idle", NULL), *killed = fair_hold(w->a, "killed", NULL);
    const char *kept = token_new(w), *holds = fair_hold(w->a, "kept", NULL);
    struct call *dead, *behind_idle, *behind_dead, *behind_kept;
    int64_t began, asked = now_ms();

    expect_problem(fair_put(w->b, "idle", token_new(w), "wait_ms=50"), 423, "locked");
    expect_problem(fair_put(w->b, "kept", kept, "wait_ms=50"), 423, "locked");
    dead = fair_park(doomed, "killed", token_new(w), "wait_ms=50000");
    began = now_ms();
    behind_idle = fair_park(w->b, "idle", token_new(w), "wait_ms=50000");
    behind_dead = fair_park(w->b, "killed", token_new(w), "wait_ms=50000");
    behind_kept = fair_park(w->b, "kept", token_new(w), "wait_ms=50000");
    front_kill(doomed);
    call_await(dead, 5000);
    expect_status(lock_release(w->a, "idle", idle), 200);
    expect_status(lock_release(w->a, "killed", killed), 200);
    expect_status(lock_release(w->a, "kept", holds), 200);
    for (int i = 1; i <= 4; i++) { /* asks every 4 s, of a lock that is its own now */
        redis_ok(w->redis, "HSET kept %s 1", JAVA_HOLDER);
        redis_ok(w->redis, "PEXPIRE kept 60000");
        expect_problem(fair_put(i % 2 ? w->a : w->b, "kept", kept, NULL), 423, "locked");
        while (now_ms() < began + i * 4000)
            nap_ms(10);
        if (now_ms() < asked + PLACE_MS - 1000)
            assert_true(!call_done(behind_idle) && !call_done(behind_dead));
    }
    struct reply *r = call_await(behind_idle, LATE_MS);
    expect_status(r, 201);
    assert_true(r->done_ms >= asked + PLACE_MS - 200 &&
                r->done_ms <= began + PLACE_MS + allowed_ms(LATE_MS));
    r = call_await(behind_dead, LATE_MS);
    expect_status(r, 201);
    assert_true(r->done_ms >= began + PLACE_MS - 6200 &&
                r->done_ms <= began + PLACE_MS + allowed_ms(LATE_MS));
    assert_false(call_done(behind_kept));
    redis_ok(w->redis, "DEL kept");
    expect_status(fair_put(w->a, "kept", kept, NULL), 201);
    expect_status(lock_release(w->a, "kept", kept), 200);
    expect_status(call_await(behind_kept, SOON_MS), 201);
    expect_no_queue(w->redis, "idle");
    expect_no_queue(w->redis, "killed");
    expect_no_queue(w->redis, "kept");
}

/* A record lasts as long as the place, however short the retry window; should it be lost all
 * the same, nothing of the place stays behind a grant. */
static void test_a_place_outlives_its_record(struct world *w)
{
    const char *lock = "short-memory", *token = token_new(w), *next = token_new(w);
    struct front *doomed = front_start(w, "--redis", w->redis->url, "--retry-window-ms", "1000",
                                       NULL);
    const char *holder = fair_hold(w->a, lock, NULL);
    struct call *dead = fair_park(doomed, lock, token, "wait_ms=1000");
    const char *lease_id = text(w, "%.36s", fair_place(w->a, lock, token));

    front_kill(doomed);
    call_await(dead, 5000);
    assert_true(redis_int(w->redis, "PTTL rlockd:lease:{%s}:%s", lock, lease_id) >
                PLACE_MS / 2);
    expect_status(lock_release(w->a, lock, holder), 200);
    redis_ok(w->redis, "DEL rlockd:lease:{%s}:%s", lock, lease_id);
    expect_status(fair_put(w->b, lock, token, "ttl_ms=60000"), 201);
    expect_no_queue(w->redis, lock);
    assert_null(redis_str(w->redis, "ZSCORE rlockd:places:{%s} %s", lock, lease_id));
    expect_problem(fair_put(w->a, lock, next, NULL), 423, "locked");
    expect_status(lock_release(w->b, lock, token), 200);
    expect_status(fair_put(w->a, lock, next, NULL), 201);
}

/* The queue's keys become something else while one holds and two wait: they end, the watchdog
 * does not. */
static void test_keys_change_in_use(struct world *w)
{
    for (int which = 0; which < 2; which++) {
        const char *lock = text(w, "change-%d", which), *waits = token_new(w);
        struct session s = session_new(w->a, NULL);
        const char *holder = session_hold(w->a, &s, lock, "kind=fair");
        struct call *call = fair_park(w->b, lock, waits, "wait_ms=30000");
        const char *key = which ? fair_times(w, lock) : fair_queue(w, lock);

        expect_problem(fair_put(w->a, lock, token_new(w), "wait_ms=50"), 423, "locked");
        redis_ok(w->redis, "SET %s x", key);
        expect_problem(call_await(call, 7000), 409, "wrong-kind");
        expect_status(lock_release(w->b, lock, holder), 200);
        expect_status(session_end(w->a, &s), 200);
        assert_false(redis_has(w->redis, lock));
        redis_ok(w->redis, "DEL %s", key);
        redis_ok(w->redis, "DEL %s", fair_queue(w, lock));
        expect_status(fair_put(w->a, lock, token_new(w), NULL), 201);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_owners_reenter),
        E2E_TEST(test_the_kind_of_an_owners_lock),
        E2E_TEST(test_waiters_of_one_owner),
        E2E_TEST(test_sessions_end),
        E2E_TEST(test_out_of_memory),
        E2E_TEST(test_redis_comes_back),
        E2E_TEST(test_no_place_ends_for_want_of_redis),
        E2E_TEST(test_lost_replies),
        E2E_TEST(test_draining_keeps_the_place),
        E2E_TEST(test_places_end),
        E2E_TEST(test_a_place_outlives_its_record),
        E2E_TEST(test_keys_change_in_use),
    };
    struct e2e_plan plan = {.name = "fair-faults", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
