/* A session's end, by its client's word or by its silence: all it held is free, all it waited
 * for is refused. */
#include "counters.h"
#include "multi_locks.h"

enum { AT_ONCE_MS = 1000, MANY = 250 };

static const char *hashes(struct world *w, const char *prefix, int count)
{
    return redis_do(w->redis, "EVAL %s 0 %s %d",
                    "local n = 0 for i = 0, ARGV[2] - 1 do "
                    "n = n + redis.call('exists', ARGV[1] .. i) end return tostring(n)",
                    prefix, count)
        ->str;
}

static void test_delete_frees_and_wakes(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->a, NULL);
    struct listener *listener = listener_start(w->redis, "redisson_lock__channel:{end/1}");
    const char *token = session_hold(w->a, &s, "end/1", NULL);
    struct call *first, *second;
    struct reply *r;

    session_hold(w->b, &s, "end/2", "ttl_ms=60000");
    first = session_call_put(w->b, &other, "end/1", token_new(w), "wait_ms=20000");
    second = call_put(w->a, "end/2", token_new(w), "wait_ms=20000");
    wait_until(waiter_count(w->a, "end/1") == 1 && waiter_count(w->a, "end/2") == 1, 3000);
    r = session_end(w->b, &s);
    expect_status(r, 200);
    expect_int(r, "released", 2);
    assert_string_equal(listener_next(listener, 1000), "0");
    expect_status(call_await(first, AT_ONCE_MS), 201);
    expect_status(call_await(second, AT_ONCE_MS), 201);
    r = lock_release(w->a, "end/1", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "session-ended");
    r = lock_renew(w->b, "end/1", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "session-ended");
    /* The same request again, by a client that does not know yet. */
    expect_problem(session_put(w->a, &s, "end/1", token, NULL), 410, "session-ended");
    expect_alive(keep_alive(w->a, &other, NULL), 1);
}

static void test_silence_frees_and_wakes(struct world *w)
{
    int ttl_ms = (int)patience_ms(1000);
    int64_t from_ms = now_ms();
    struct session s = session_new(w->a, ttl_of(w, 1000));
    struct listener *listener = listener_start(w->redis, "redisson_lock__channel:{silent/1}");
    struct call *first, *second;
    struct reply *r;
    const char *token;

    session_hold(w->a, &s, "silent/1", NULL);
    token = session_hold(w->b, &s, "silent/2", "ttl_ms=60000&owner=me");
    first = call_put(w->b, "silent/1", token_new(w), "wait_ms=20000");
    second = call_put(w->a, "silent/2", token_new(w), "wait_ms=20000");
    while (now_ms() < from_ms + ttl_ms * 7 / 10) {
        assert_true(!call_done(first) && !call_done(second));
        nap_ms(10);
    }
    r = call_await(first, 1500);
    expect_status(r, 201);
    assert_in_range(r->done_ms - from_ms, ttl_ms - 50, ttl_ms + allowed_ms(1000));
    assert_string_equal(listener_next(listener, 1000), "0");
    expect_status(call_await(second, AT_ONCE_MS), 201);
    expect_problem(session_look(w->a, s.id), 404, "not-found");
    r = keep_alive(w->b, &s, NULL);
    expect_problem(r, 410, "session-ended");
    expect_str(r, "reason", "expired");
    expect_problem(session_open(w->a, s.token, ttl_of(w, 1000)), 410, "session-ended");
    expect_problem(session_end(w->a, &s), 410, "session-ended");
    expect_problem(session_put(w->a, &s, "silent/3", token_new(w), NULL), 410, "session-ended");
    r = lock_release(w->a, "silent/2", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "session-ended");
}

/* The visit at the first end of the session finds it alive, and knows of the new end. */
static void test_silence_after_a_visit(struct world *w)
{
    enum { TTL_MS = 4000 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, "--watchdog-timeout-ms", "30000",
                                   NULL);
    struct session s = session_new(fe, text(w, "ttl_ms=%d", TTL_MS));

    session_hold(fe, &s, "silent/visited", "ttl_ms=60000");
    struct call *next = call_put(fe, "silent/visited", token_new(w), "wait_ms=30000");
    nap_ms(TTL_MS / 2);
    int64_t asked_ms = now_ms();
    expect_alive(keep_alive(fe, &s, NULL), 1);
    struct reply *r = call_await(next, 15000);
    expect_status(r, 201);
    assert_in_range(r->done_ms - asked_ms, TTL_MS - 50, TTL_MS + allowed_ms(1500));
}

static void test_its_waiting_requests_are_answered(struct world *w)
{
    struct session ended = session_new(w->a, NULL), silent = session_new(w->a, ttl_of(w, 1000));
    const char *holder = token_new(w);
    struct call *calls[4], *other;

    expect_status(lock_put(w->a, "end-wait", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < 4; i++)
        calls[i] = session_call_put(i % 2 ? w->a : w->b, i < 2 ? &ended : &silent, "end-wait",
                                    token_new(w),
                                    i % 2 ? "wait_ms=20000" : "wait_ms=20000&owner=x");
    other = call_put(w->b, "end-wait", token_new(w), "wait_ms=20000");
    wait_until(waiter_count(w->a, "end-wait") == 5, 800);
    expect_status(session_end(w->b, &ended), 200);
    for (int i = 0; i < 2; i++) {
        struct reply *r = call_await(calls[i], AT_ONCE_MS);

        expect_problem(r, 410, "session-ended");
        expect_str(r, "reason", "released");
    }
    for (int i = 2; i < 4; i++) {
        struct reply *r = call_await(calls[i], 2000);

        expect_problem(r, 410, "session-ended");
        expect_str(r, "reason", "expired");
    }
    assert_false(call_done(other));
    wait_until(waiter_count(w->a, "end-wait") == 1, AT_ONCE_MS);
    expect_status(lock_release(w->a, "end-wait", holder), 200);
    expect_status(call_await(other, AT_ONCE_MS), 201);
}

static void hold_many(struct world *w, const struct session *s, const char *prefix)
{
    for (int i = 0; i < MANY; i++)
        session_hold(i % 2 ? w->a : w->b, s, text(w, "%s%d", prefix, i),
                     i % 3 ? "ttl_ms=60000" : NULL);
}

static void test_many_leases_are_all_released(struct world *w)
{
    skip_on_masters(w); /* looks at all keys in one script */
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    int64_t late_before = late_ms();
    hold_many(w, &s, "many/");
    r = session_end(w->b, &s);
    expect_status(r, 200);
    /* Two thirds of the leases need no watchdog. */
    expect_between(r, "released", may_have_lapsed(late_before) ? MANY * 2 / 3 : MANY, MANY);
    assert_in_range(r->done_ms - r->sent_ms, 0, allowed_ms(AT_ONCE_MS));
    assert_string_equal(hashes(w, "many/", MANY), "0");
    expect_int(session_end(w->a, &s), "released", reply_int(r, "released"));
    s = session_new(w->a, text(w, "ttl_ms=%d", (int)patience_ms(4000) - 1000));
    hold_many(w, &s, "quiet/");
    r = keep_alive(w->a, &s, NULL);
    int64_t left_ms = reply_int(r, "remaining_ms");
    assert_string_equal(hashes(w, "quiet/", MANY), "250");
    wait_until(strcmp(hashes(w, "quiet/", MANY), "0") == 0, left_ms + AT_ONCE_MS);
    assert_in_range(now_ms(), r->sent_ms + left_ms - 50,
                    r->done_ms + left_ms + allowed_ms(AT_ONCE_MS));
}

/* Nobody was there when it ended; whoever comes next cleans up. */
static void test_ended_while_no_front_end_ran(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, ttl_of(w, 1000)),
                   alive = session_new(fe, "ttl_ms=60000");

    session_hold(fe, &s, "alone/1", "ttl_ms=60000");
    session_hold(fe, &alive, "alone/2", "ttl_ms=60000");
    session_hold(fe, &alive, "alone/3", NULL);
    front_kill(fe);
    nap_ms(watchdog_ms() + (int)patience_ms(700));
    assert_true(redis_has(redis, "alone/1"));
    fe = front_start(w, "--redis", redis->url, WATCHDOG_FLAGS, NULL);
    wait_until(!redis_has(redis, "alone/1"), AT_ONCE_MS);
    assert_true(redis_has(redis, "alone/2"));
    struct reply *r;
    wait_until(losses_len(r = keep_alive(fe, &alive, NULL)) == 1, 1500);
    expect_loss(r, "alone/3", "expired");
    expect_problem(keep_alive(fe, &s, NULL), 410, "session-ended");
}

/* S4: the session is over, then the lock is free: its waiter is not granted it. */
static void test_nobody_is_granted_for_a_dead_session(struct world *w)
{
    enum { ROUNDS = 40 };

    for (int i = 0; i < ROUNDS; i++) {
        const char *lock = text(w, "dead-%d", i), *holder = token_new(w);
        struct session s = session_new(w->a, NULL);
        struct call *waiter, *end, *release;

        expect_status(lock_put(w->a, lock, holder, "ttl_ms=60000"), 201);
        waiter = session_call_put(i % 2 ? w->a : w->b, &s, lock, token_new(w), "wait_ms=9000");
        if (i % 4 < 2)
            wait_until(waiter_count(w->a, lock) == 1, 3000);
        end = CALL(i % 3 ? w->a : w->b, .method = "DELETE",
                   .path = text(w, "/v1/sessions/%s", s.id), .headers = {s.header});
        if (i % 8 < 4)
            expect_status(call_await(end, AT_ONCE_MS), 200);
        release = CALL(w->b, .method = "DELETE", .path = lock_path(w, lock, ""),
                       .token = holder);
        struct reply *r = call_await(waiter, AT_ONCE_MS);
        /* At once: the grant may have come first; then the end has released it. */
        if (r->status != 201 || i % 8 < 4)
            expect_problem(r, 410, "session-ended");
        expect_status(call_await(end, AT_ONCE_MS), 200);
        expect_status(call_await(release, AT_ONCE_MS), 200);
        assert_false(redis_has(w->redis, lock));
        stays_true(!redis_has(w->redis, lock), 20);
        wait_until(waiter_count(w->a, lock) == 0, AT_ONCE_MS);
    }
}

/* The end and the request meet: whichever comes first, nobody waits for what cannot come. */
static void test_the_end_meets_the_request(struct world *w)
{
    enum { ROUNDS = 150 };

    expect_status(lock_put(w->a, "meet", token_new(w), "ttl_ms=60000"), 201);
    for (int i = 0; i < ROUNDS; i++) {
        struct session s = session_new(w->a, NULL);
        struct call *waiter = session_call_put(i % 2 ? w->a : w->b, &s, "meet", token_new(w),
                                               "wait_ms=9000");
        struct call *end = CALL(i % 3 ? w->a : w->b, .method = "DELETE",
                                .path = text(w, "/v1/sessions/%s", s.id),
                                .headers = {s.header});

        expect_problem(call_await(waiter, AT_ONCE_MS), 410, "session-ended");
        expect_status(call_await(end, AT_ONCE_MS), 200);
    }
    wait_until(waiter_count(w->a, "meet") == 0, AT_ONCE_MS);
}

/* The message of its end is lost with the connection that would have brought it. */
static void test_the_end_that_nobody_hears_of(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct call *waiter, *alive;

    expect_status(lock_put(w->a, "unheard", token_new(w), "ttl_ms=60000"), 201);
    waiter = session_call_put(w->b, &s, "unheard", token_new(w), "wait_ms=20000");
    alive = keep_alive_hang(w->b, &s, 14000);
    wait_until(waiter_count(w->a, "unheard") == 1, 3000);
    redis_ok(w->redis, "CLIENT KILL TYPE pubsub");
    expect_status(session_end(w->a, &s), 200);
    expect_problem(call_await(waiter, 4000), 410, "session-ended");
    expect_problem(call_await(alive, 4000), 410, "session-ended");
}

/* A waiter whose turn comes after the retry window, when the lock's home has forgotten that the
 * session's end has spent its token. */
static void test_the_end_that_is_long_forgotten(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--retry-window-ms", "1000",
                                   NULL);
    struct session s = session_new(fe, NULL);
    const char *holder = token_new(w), *next = token_new(w);

    expect_status(lock_put(fe, "forgotten", holder, "ttl_ms=60000"), 201);
    struct call *first = call_put(fe, "forgotten", next, "wait_ms=40000&ttl_ms=60000");
    wait_until(waiter_count(fe, "forgotten") == 1, 3000);
    struct call *second = session_call_put(fe, &s, "forgotten", token_new(w), "wait_ms=40000");
    wait_until(waiter_count(fe, "forgotten") == 2, 3000);
    redis_ok(w->redis, "CLIENT KILL TYPE pubsub");
    expect_status(session_end(fe, &s), 200);
    nap_ms(1500);
    expect_status(lock_release(fe, "forgotten", holder), 200);
    expect_status(call_await(first, 9000), 201);
    expect_status(lock_release(fe, "forgotten", next), 200);
    expect_problem(call_await(second, 9000), 410, "session-ended");
}

/* The same with silence: locks that get free around the very millisecond of the end. */
static void test_nobody_is_granted_after_the_deadline(struct world *w)
{
    enum { CROWD = 16, ROUNDS = 3 };
    int granted = 0, refused = 0;

    /* A machine that was late in all rounds has more of them. */
    for (int round = 0;
         round < ROUNDS || (round < 4 * ROUNDS && (granted == 0 || refused == 0)); round++) {
        struct session s = session_new(w->a, text(w, "ttl_ms=%d", 500 + (int)patience_ms(500)));
        struct reply *look = session_look(w->a, s.id);
        int64_t left_ms = reply_int(look, "remaining_ms"), end_ms = look->sent_ms + left_ms;
        struct call *waiters[CROWD], *releases[CROWD];
        const char *holders[CROWD];

        for (int i = 0; i < CROWD; i++) {
            const char *lock = text(w, "deadline-%d-%d", round, i);

            holders[i] = token_new(w);
            expect_status(lock_put(w->a, lock, holders[i], "ttl_ms=60000"), 201);
            waiters[i] = session_call_put(i % 2 ? w->a : w->b, &s, lock, token_new(w),
                                          "wait_ms=9000&ttl_ms=60000");
        }
        for (int i = 0; i < CROWD; i++) {
            while (now_ms() < end_ms + patience_ms(6 * i - 24))
                nap_ms(1);
            releases[i] = CALL(i % 3 ? w->a : w->b, .method = "DELETE",
                               .path = text(w, "/v1/locks/deadline-%d-%d", round, i),
                               .token = holders[i]);
        }
        for (int i = 0; i < CROWD; i++) {
            struct reply *r = call_await(waiters[i], 2000);

            granted += r->status == 201;
            refused += r->status == 410;
            if (r->status != 201)
                expect_problem(r, 410, "session-ended");
            else
                expect_true(r, r->done_ms <= look->done_ms + left_ms + allowed_ms(60));
            expect_status(call_await(releases[i], AT_ONCE_MS), 200);
            wait_until(!redis_has(w->redis, text(w, "deadline-%d-%d", round, i)), 1200);
        }
    }
    print_message("%d granted, %d refused\n", granted, refused);
    assert_true(granted > 0 && refused > 0);
}

static long long names_ttl(struct world *w, const char *lease_id)
{
    return redis_int(w->redis, "PTTL rlockd:set:{%s}", lease_id);
}

/* What is kept of the names lasts as long as what is kept of the lease. */
static void test_names_of_an_ended_lease(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=600000");
    const char *released = token_new(w), *ended = token_new(w);
    struct reply *r = multi_put(w->a, NULL, released, "{n}a {n}b", ", \"ttl_ms\": 600000");
    const char *released_id = reply_str(r, "lease_id");

    expect_status(r, 201);
    r = multi_put(w->a, &s, ended, "{n}c {n}d", ", \"ttl_ms\": 600000");
    const char *ended_id = reply_str(r, "lease_id");
    expect_status(r, 201);
    assert_in_range(names_ttl(w, released_id), 600000, 660000);
    assert_in_range(names_ttl(w, ended_id), 600000, 660000);
    expect_status(multi_ask(w->a, "DELETE", released, NULL), 200);
    wait_until(names_ttl(w, released_id) <= 60000, 3000);
    expect_status(multi_ask(w->a, "DELETE", released, NULL), 200);
    expect_status(session_end(w->a, &s), 200);
    wait_until(names_ttl(w, ended_id) <= 60000, 3000);
    expect_problem(multi_ask(w->a, "PATCH", ended, NULL), 410, "lease-ended");
}

/* A session has a note of it, as after a request that was answered 422. */
static void test_names_of_a_lease_that_goes_on(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = token_new(w);
    struct reply *r = multi_put(w->a, NULL, token, "{n}i {n}j", ", \"ttl_ms\": 600000");
    const char *lease_id = reply_str(r, "lease_id");
    const char *ref = text(w, "%s \n{n}i\n{n}j", lease_id);

    expect_status(r, 201);
    redis_do(w->redis, "HSET rlockd:session-leases:{%s} %b %s", s.id, ref, strlen(ref),
             text(w, "%lld000 e2e.1", (long long)time(NULL)));
    expect_status(session_end(w->a, &s), 200);
    stays_true(names_ttl(w, lease_id) > 500000, 500);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
}

/* The names that a refused request leaves behind do not last as long as its lease would have;
 * the names of a lease that waited for its locks do. */
static void test_names_of_a_refused_set(struct world *w)
{
    enum { DAY_MS = 86400000, SPARED_MS = 600000, WINDOW_MS = 60000 };
    const char *body = text(w, ", \"ttl_ms\": %d", DAY_MS), *token = token_new(w);
    const char *holder = token_new(w);

    expect_status(lock_put(w->a, "{n}refused", holder, NULL), 201);
    const char *names = "{n}refused {n}free";
    struct reply *r = multi_put(w->a, NULL, token, names, body);
    expect_status(r, 423);
    json_t *keys = redis_keys(w->redis, "rlockd:set:");
    long long longest_ms = 0;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        long long ms = redis_int(w->redis, "PTTL %s",
                                 json_string_value(json_array_get(keys, i)));
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    assert_in_range(longest_ms, 1, SPARED_MS + WINDOW_MS);
    expect_status(lock_release(w->a, "{n}refused", holder), 200);
    r = multi_put(w->a, NULL, token, names, ", \"ttl_ms\": 1000000");
    expect_status(r, 201);
    const char *lease_id = reply_str(r, "lease_id");
    assert_in_range(names_ttl(w, lease_id), 1000000, 1000000 + WINDOW_MS);
    expect_status(multi_ask(w->a, "PATCH", token, text(w, "ttl_ms=%d", DAY_MS)), 200);
    assert_in_range(names_ttl(w, lease_id), DAY_MS, DAY_MS + WINDOW_MS);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    wait_until(names_ttl(w, lease_id) <= WINDOW_MS, 3000);
    expect_status(multi_ask(w->a, "PATCH", token, text(w, "ttl_ms=%d", DAY_MS)), 410);
    assert_in_range(names_ttl(w, lease_id), 1, SPARED_MS + WINDOW_MS);
}

/* A session that is opened with the token of one that has ended is told of its own losses. */
static void test_losses_of_an_ended_session(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=600000");
    const char *key = text(w, "rlockd:session-lost:{%s}", s.id);

    session_hold(w->a, &s, "losses", NULL);
    redis_ok(w->redis, "HSET %s %s expired\nlock", key, text(w, "%s x", s.id));
    redis_ok(w->redis, "PEXPIRE %s 660000", key);
    expect_status(session_end(w->a, &s), 200);
    assert_in_range(redis_int(w->redis, "PTTL %s", key), 1, 60000);
}

/* Redis has lost the session alone, as the master of a cluster does: nobody but the request
 * that finds that out will ever end the lease. */
static void test_a_lease_whose_session_is_lost(struct world *w)
{
    for (int is_renewal = 0; is_renewal < 2; is_renewal++) {
        const char *lock = text(w, "session-lost/%d", is_renewal);
        struct session s = session_new(w->a, "ttl_ms=60000");
        const char *token = session_hold(w->a, &s, lock, "ttl_ms=600000");

        redis_ok(w->redis, "DEL rlockd:session:{%s} rlockd:session-leases:{%s}", s.id, s.id);
        redis_ok(w->redis, "DEL rlockd:session-due:{%s}", s.id);
        for (int i = 0; i < 2; i++) {
            struct reply *r = is_renewal ? lock_renew(w->a, lock, token, "ttl_ms=600000")
                                         : lock_put(w->a, lock, token, "ttl_ms=600000");
            expect_problem(r, 410, i == 0 ? "session-ended" : "lease-ended");
            assert_false(redis_has(w->redis, lock));
        }
    }
}

/* Redis refuses the rest of a request that has changed something. */
static void expect_refusal_half_way(struct world *w, struct slow *slow, struct call *call)
{
    redis_ok(w->redis, "CONFIG SET min-replicas-to-write 1");
    proxy_set(slow->proxy, PROXY_PASS);
    struct reply *r = call_await(call, 6000);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    redis_ok(w->redis, "CONFIG SET min-replicas-to-write 0");
}

/* The session is marked as ended, and what follows is refused: the answer is not that nothing
 * was done. */
static void test_an_end_that_gets_half_way(struct world *w)
{
    struct slow slow = slow_start(w);
    struct session s = session_new(w->a, "ttl_ms=60000");

    session_hold(w->a, &s, "half-way", NULL);
    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_HOLD);
    struct call *call = CALL(slow.fe, .method = "DELETE",
                             .path = text(w, "/v1/sessions/%s", s.id), .headers = {s.header});
    wait_until(session_look(w->b, s.id)->status != 200, 3000);
    expect_refusal_half_way(w, &slow, call);
    expect_status(session_end(w->b, &s), 200);
    wait_until(!redis_has(w->redis, "half-way"), 3000);
}

/* The lock's home has renewed the lease, and the session's home refuses its part. */
static void test_a_renewal_that_gets_half_way(struct world *w)
{
    struct slow slow = slow_start(w);
    struct session s = session_new(w->a, "ttl_ms=60000");
    const char *token = session_hold(w->a, &s, "half-renewed", "ttl_ms=20000");

    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_HOLD);
    struct call *call = CALL(slow.fe, .method = "PATCH", .token = token,
                             .path = "/v1/locks/half-renewed?ttl_ms=60000");
    wait_until(redis_do(w->redis, "PTTL half-renewed")->integer > 30000, 3000);
    expect_refusal_half_way(w, &slow, call);
    expect_status(lock_renew(w->b, "half-renewed", token, "ttl_ms=60000"), 200);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_delete_frees_and_wakes),
        E2E_TEST(test_silence_frees_and_wakes),
        E2E_TEST(test_silence_after_a_visit),
        E2E_TEST(test_its_waiting_requests_are_answered),
        E2E_TEST(test_many_leases_are_all_released),
        E2E_TEST(test_ended_while_no_front_end_ran),
        E2E_TEST(test_nobody_is_granted_for_a_dead_session),
        E2E_TEST(test_the_end_meets_the_request),
        E2E_TEST(test_the_end_that_nobody_hears_of),
        E2E_TEST(test_the_end_that_is_long_forgotten),
        E2E_TEST(test_nobody_is_granted_after_the_deadline),
        E2E_TEST(test_names_of_an_ended_lease),
        E2E_TEST(test_names_of_a_lease_that_goes_on),
        E2E_TEST(test_names_of_a_refused_set),
        E2E_TEST(test_losses_of_an_ended_session),
        E2E_TEST(test_a_lease_whose_session_is_lost),
        E2E_TEST(test_an_end_that_gets_half_way),
        E2E_TEST(test_a_renewal_that_gets_half_way),
    };
    struct e2e_plan plan = {
        .name = "sessions-end", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
