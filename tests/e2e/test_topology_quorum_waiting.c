/* redis-quorum:// with requests that wait: a majority of the servers tells them that the lock
 * is free. */
#include "multi_locks.h"
#include "quorum.h"

enum { SOON_MS = 8000, WAKE_MS = 3000 };

static void test_a_waiter_is_woken(struct world *w)
{
    static const char *const kinds[] = {"lock", "read", "write"};
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *token = token_new(w), *next = token_new(w);
        const char *kind = strcmp(kinds[i], "lock") == 0 ? "lock" : "write";
        expect_status(lock_put(a.fe, kinds[i], token, text(w, "ttl_ms=60000&kind=%s", kind)),
                      201);
        struct call *call = call_put(b.fe, kinds[i], next,
                                     text(w, "wait_ms=30000&ttl_ms=60000&kind=%s", kinds[i]));
        wait_until(waiter_count(a.fe, kinds[i]) == 1, SOON_MS);
        redis_ok(q->server[0], "DEL rlockd:waiters:{%s}", kinds[i]);
        expect_int(lock_look(a.fe, kinds[i]), "waiter_count", 1); /* as the others say */
        stays_true(!call_done(call), 200);
        int64_t released_ms = now_ms();
        expect_status(lock_release(a.fe, kinds[i], token), 200);
        struct reply *r = call_await(call, SOON_MS);
        expect_status(r, 201);
        /* A poll comes 4 s after the last attempt at the earliest. */
        assert_true(r->done_ms - released_ms < allowed_ms(WAKE_MS));
        expect_status(lock_release(b.fe, kinds[i], next), 200);
    }
}

static void test_waiting_for_several_locks(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, "--workers", "2", NULL);
    const char *token = token_new(w), *next = token_new(w);

    expect_status(lock_put(a.fe, "of two", token, "ttl_ms=60000"), 201);
    struct call *call = multi_call(b.fe, NULL, next, "of_one two", NULL);
    expect_status(call_await(call, SOON_MS), 201);
    expect_status(lock_release(a.fe, "of two", token), 200);
    expect_status(lock_put(a.fe, "three", token_new(w), "ttl_ms=60000"), 201);
    call = multi_call(b.fe, NULL, token_new(w), "three four",
                      ", \"wait_ms\": 30000, \"ttl_ms\": 60000");
    wait_until(waiter_count(a.fe, "three") == 1, SOON_MS);
    expect_status(http(a.fe, "POST", lock_path(w, "three", "/force-unlock"), NULL), 200);
    expect_status(call_await(call, SOON_MS), 201);
}

/* A Java client of all servers, as RedissonRedLock is. */
static void test_a_java_client(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    for (int i = 0; i < 3; i++)
        assert_true(redisson_lock(q->server[i], "java", JAVA_HOLDER, 60000));
    expect_problem(lock_put(front.fe, "java", token_new(w), NULL), 423, "locked");
    struct reply *r = lock_look(front.fe, "java");
    expect_bool(r, "locked", true);
    expect_str(r, "holders.0.redisson_holder", JAVA_HOLDER);
    struct call *call = call_put(front.fe, "java", token_new(w), "wait_ms=30000&ttl_ms=60000");
    wait_until(waiter_count(front.fe, "java") == 1, SOON_MS);
    for (int i = 0; i < 3; i++)
        assert_true(redisson_unlock(q->server[i], "java", JAVA_HOLDER));
    expect_status(call_await(call, SOON_MS), 201);
    int refused = 0;
    for (int i = 0; i < 3; i++) /* the third may have its vote later */
        refused += !redisson_lock(q->server[i], "java", JAVA_HOLDER, 60000);
    assert_true(refused >= 2);
}

/* RedissonRedLock has a Java client for each server, with an id of its own, and holds the lock
 * at a majority of them at least: no holder has a majority. */
static void with_a_red_lock(struct world *w, int held)
{
    static const char *const holders[] = {"6f9d6ee1-0f5a-4f0e-9a3a-000000000000:1",
                                          "6f9d6ee1-0f5a-4f0e-9a3a-000000000001:1",
                                          "6f9d6ee1-0f5a-4f0e-9a3a-000000000002:1"};
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    for (int i = 0; i < held; i++)
        assert_true(redisson_lock(q->server[i], "red", holders[i], 60000));
    expect_problem(lock_put(front.fe, "red", token_new(w), NULL), 423, "locked");
    struct call *call = call_put(front.fe, "red", token_new(w), "wait_ms=30000&ttl_ms=60000");
    stays_true(!call_done(call), 500);
    struct reply *r = lock_look(front.fe, "red");
    expect_bool(r, "locked", false);
    expect_bool(r, "quorum.undecided", true);
    expect_int(r, "quorum.held", 1);
    int64_t released_ms = now_ms();
    for (int i = 0; i < held; i++)
        assert_true(redisson_unlock(q->server[i], "red", holders[i]));
    r = call_await(call, SOON_MS);
    expect_status(r, 201);
    assert_true(r->done_ms - released_ms < allowed_ms(WAKE_MS));
    expect_bool(lock_look(front.fe, "red"), "locked", true);
}

static void test_a_red_lock(struct world *w)
{
    with_a_red_lock(w, 3);
    with_a_red_lock(w, 2);
}

/* Many at two front ends: each gets the lock once, and one after the other. */
static void test_many_waiters(struct world *w)
{
    enum { MANY = 12 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front fronts[] = {quorum_front(q, NULL), quorum_front(q, NULL)};
    const char *tokens[MANY];
    struct call *calls[MANY];
    json_int_t last = 0;

    for (int i = 0; i < MANY; i++) {
        tokens[i] = token_new(w);
        calls[i] = call_put(fronts[i % 2].fe, "many", tokens[i], "wait_ms=40000&ttl_ms=60000");
    }
    for (int left = MANY; left > 0; left--) {
        int found = -1;
        wait_until(({
                       for (int i = 0; i < MANY && found < 0; i++)
                           if (calls[i] != NULL && call_done(calls[i]))
                               found = i;
                       found >= 0;
                   }),
                   SOON_MS);
        struct reply *r = call_await(calls[found], SOON_MS);
        expect_status(r, 201);
        expect_true(r, reply_int(r, "fencing_token") > last);
        last = reply_int(r, "fencing_token");
        calls[found] = NULL;
        for (int i = 0; i < MANY; i++)
            assert_false(calls[i] != NULL && call_done(calls[i]));
        expect_status(lock_release(fronts[left % 2].fe, "many", tokens[found]), 200);
    }
}

static void test_a_deleted_token_waits_no_more(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "given-up", token_new(w), "ttl_ms=60000"), 201);
    struct call *call = call_put(b.fe, "given-up", token, "wait_ms=30000");
    wait_until(waiter_count(a.fe, "given-up") == 1, SOON_MS);
    expect_status(lock_release(a.fe, "given-up", token), 200);
    expect_problem(call_await(call, SOON_MS), 410, "lease-ended");
    wait_until(waiter_count(a.fe, "given-up") == 0, SOON_MS);
}

static void test_a_wait_that_is_over(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    expect_status(lock_put(front.fe, "busy", token_new(w), "ttl_ms=60000"), 201);
    struct reply *r = lock_put(front.fe, "busy", token_new(w), "wait_ms=300");
    expect_problem(r, 423, "locked");
    expect_true(r, reply_str(r, "holder.lease_id") != NULL);
    wait_until(waiter_count(front.fe, "busy") == 0, SOON_MS);
}

/* A lease may still be among the waiters at a server that refused it when the others granted
 * it. It is not shown as a waiter, and a renewal gives it to this server, too. */
static void test_a_holder_that_waits_at_one_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);
    const char *token = token_new(w);

    assert_true(redisson_lock(q->server[2], "odd", JAVA_HOLDER, 60000));
    expect_status(lock_put(front.fe, "odd", token, "wait_ms=30000&ttl_ms=60000"), 201);
    wait_until(redis_has(q->server[2], "rlockd:waiters:{odd}"), SOON_MS);
    struct reply *r = lock_look(front.fe, "odd");
    expect_bool(r, "locked", true);
    expect_int(r, "waiter_count", 0);
    assert_true(redisson_unlock(q->server[2], "odd", JAVA_HOLDER));
    expect_status(lock_renew(front.fe, "odd", token, "ttl_ms=60000"), 200);
    wait_until(quorum_holds(q, "odd") == 3, SOON_MS);
    assert_false(redis_has(q->server[2], "rlockd:waiters:{odd}"));
}

/* A lease that ends by itself: the waiter sleeps until then, and does not begin to ask earlier
 * by the drift of its own TTL. */
static void test_a_waiter_sleeps_until_the_end(struct world *w)
{
    enum { VOTES_MAX = 40 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    expect_status(lock_put(front.fe, "short", token_new(w), "ttl_ms=3000"), 201);
    struct call *call = call_put(front.fe, "short", token_new(w),
                                 "wait_ms=30000&ttl_ms=110000");
    expect_status(call_await(call, SOON_MS), 201);
    assert_true(front_metric(front.fe, "rlockd_quorum_rounds_total", "operation=\"vote\"") <=
                VOTES_MAX);
}

/* A server of the holder's majority is away, so no majority says that the lock is held. The
 * waiter asks now and then. */
static void test_a_waiter_beside_half_a_majority(struct world *w)
{
    enum { VOTES_MAX = 100 };
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    assert_true(redisson_lock(q->server[0], "half", JAVA_HOLDER, 60000));
    redis_kill(q->server[2]);
    struct call *call = call_put(front.fe, "half", token_new(w), "wait_ms=30000");
    stays_true(!call_done(call), 3000);
    assert_in_range(front_metric(front.fe, "rlockd_quorum_rounds_total", "operation=\"vote\""),
                    3, VOTES_MAX);
    assert_true(redisson_unlock(q->server[0], "half", JAVA_HOLDER));
    expect_status(call_await(call, SOON_MS), 201);
}

/* A lock gets free while the front end has no subscription at any server, so it hears no
 * message: each subscription that is made again is a reason to try. */
static void test_a_release_that_no_server_tells(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);

    for (int i = 0; i < 3; i++)
        assert_true(redisson_lock(q->server[i], "untold", JAVA_HOLDER, 60000));
    struct call *call = call_put(front.fe, "untold", token_new(w),
                                 "wait_ms=30000&ttl_ms=60000");
    wait_until(waiter_count(front.fe, "untold") == 1, SOON_MS);
    stays_true(!call_done(call), 200);
    int64_t released_ms = now_ms();
    for (int i = 0; i < 3; i++) {
        redis_do(q->server[i], "DEL untold");
        redis_do(q->server[i], "CLIENT KILL TYPE pubsub");
    }
    struct reply *r = call_await(call, SOON_MS);
    expect_status(r, 201);
    assert_true(r->done_ms - released_ms < allowed_ms(WAKE_MS));
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_a_waiter_is_woken),
    E2E_TEST(test_waiting_for_several_locks),
    E2E_TEST(test_a_java_client),
    E2E_TEST(test_a_red_lock),
    E2E_TEST(test_many_waiters),
    E2E_TEST(test_a_deleted_token_waits_no_more),
    E2E_TEST(test_a_wait_that_is_over),
    E2E_TEST(test_a_holder_that_waits_at_one_server),
    E2E_TEST(test_a_waiter_sleeps_until_the_end),
    E2E_TEST(test_a_waiter_beside_half_a_majority),
    E2E_TEST(test_a_release_that_no_server_tells),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_waiting", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
