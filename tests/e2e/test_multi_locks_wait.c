/* Several locks at once: waiting for whichever is in the way, and what ends it. */
#include "multi_locks.h"

enum { SOON_MS = 1000 };

static void expect_soon(struct reply *r, int64_t since)
{
    expect_status(r, 201);
    if (r->done_ms - since > allowed_ms(SOON_MS))
        FAIL("granted only after %lld ms", (long long)(r->done_ms - since));
}

static void test_release_hands_over(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};

    for (int i = 0; i < 4; i++) {
        const char *holder = token_new(w), *token = token_new(w);
        struct call *call;
        int64_t freed;

        expect_status(multi_put(fronts[i & 1], NULL, holder, "hand/b hand/c", NULL), 201);
        call = multi_park(fronts[i >> 1], NULL, token, "hand/a hand/b hand/c",
                          ", \"wait_ms\": 30000");
        expect_str(multi_ask(w->b, "GET", token, NULL), "state", "waiting");
        expect_problem(multi_ask(w->b, "PATCH", token, NULL), 423, "locked");
        expect_status(lock_put(w->a, "hand/a", token_new(w), "ttl_ms=100"), 201);
        wait_until(!redis_has(w->redis, "hand/a"), 2000);
        freed = now_ms();
        expect_status(multi_ask(fronts[i & 1], "DELETE", holder, NULL), 200);
        expect_soon(call_await(call, 10000), freed);
        expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
        expect_free(w, "hand/a hand/b hand/c");
    }
}

/* Three locks, released one after the other in every order. */
static void test_moves_to_whichever_is_in_the_way(struct world *w)
{
    static const char orders[][4] = {"abc", "acb", "bac", "bca", "cab", "cba"};

    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        const char *token = token_new(w), *tokens[3];
        struct call *call;
        int64_t freed = 0;

        for (int j = 0; j < 3; j++) {
            tokens[j] = token_new(w);
            expect_status(
                lock_put(w->b, text(w, "move/%c", 'a' + j), tokens[j], "ttl_ms=60000"), 201);
        }
        call = multi_park(i % 2 ? w->a : w->b, NULL, token, "move/a move/b move/c",
                          ", \"wait_ms\": 30000");
        for (int j = 0; j < 3; j++) {
            stays_true(!call_done(call), 60);
            freed = now_ms();
            expect_status(lock_release(w->a, text(w, "move/%c", orders[i][j]),
                                       tokens[orders[i][j] - 'a']),
                          200);
        }
        expect_soon(call_await(call, 10000), freed);
        expect_status(multi_ask(w->b, "DELETE", token, NULL), 200);
        expect_free(w, "move/a move/b move/c");
    }
}

/* One is freed and taken by a stranger while it waits for the other, again and again. */
static void test_the_way_is_blocked_anew(struct world *w)
{
    const char *tokens[2] = {token_new(w), token_new(w)}, *token = token_new(w);
    struct call *call;
    int64_t freed;

    for (int i = 0; i < 2; i++)
        expect_status(lock_put(w->a, text(w, "anew/%c", 'a' + i), tokens[i], "ttl_ms=60000"),
                      201);
    call = multi_park(w->a, NULL, token, "anew/a anew/b", ", \"wait_ms\": 50000");
    for (int i = 0; i < 12; i++) {
        const char *lock = text(w, "anew/%c", 'a' + i % 2);

        expect_status(lock_release(w->b, lock, tokens[i % 2]), 200);
        tokens[i % 2] = token_new(w);
        expect_status(lock_put(w->b, lock, tokens[i % 2], "ttl_ms=60000"), 201);
        stays_true(!call_done(call), 30);
    }
    expect_status(lock_release(w->b, "anew/a", tokens[0]), 200);
    stays_true(!call_done(call), 100);
    freed = now_ms();
    expect_status(lock_release(w->b, "anew/b", tokens[1]), 200);
    expect_soon(call_await(call, 10000), freed);
}

/* It is woken by a release that is of no use to it: the next one in that queue is not left
 * asleep. */
static void test_it_swallows_no_wake_up(struct world *w)
{
    const char *other = token_new(w);

    expect_status(lock_put(w->a, "baton/b", other, "ttl_ms=60000"), 201);
    for (int i = 0; i < 10; i++) {
        const char *holder = token_new(w), *next = token_new(w), *token = token_new(w);
        struct call *several, *plain;
        int64_t freed;

        expect_status(lock_put(w->a, "baton/a", holder, "ttl_ms=60000"), 201);
        several = multi_park(w->a, NULL, token, "baton/a baton/b", ", \"wait_ms\": 30000");
        plain = call_put(w->a, "baton/a", next, "wait_ms=30000");
        wait_until(waiter_count(w->a, "baton/a") == 2, 5000);
        freed = now_ms();
        expect_status(lock_release(w->b, "baton/a", holder), 200);
        expect_soon(call_await(plain, 10000), freed);
        expect_status(lock_release(w->b, "baton/a", next), 200);
        assert_false(call_done(several));
        expect_status(multi_ask(w->b, "DELETE", token, NULL), 200);
        expect_problem(call_await(several, 5000), 410, "lease-ended");
    }
    expect_free(w, "baton/a");
    assert_int_equal(waiter_count(w->a, "baton/b"), 0);
}

static void test_java_in_the_way(struct world *w)
{
    const char *token = token_new(w);
    struct call *call;
    struct reply *r;
    int64_t freed;

    assert_true(redisson_lock(w->redis, "java/b", JAVA_HOLDER, 60000));
    r = multi_put(w->a, NULL, token_new(w), "java/a java/b", NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "lock", "java/b");
    expect_str(r, "holder.redisson_holder", JAVA_HOLDER);
    call = multi_park(w->a, NULL, token, "java/a java/b", ", \"wait_ms\": 30000");
    freed = now_ms();
    assert_true(redisson_unlock(w->redis, "java/b", JAVA_HOLDER));
    expect_soon(call_await(call, 10000), freed);
    assert_false(redisson_lock(w->redis, "java/a", JAVA_HOLDER, 30000));
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    assert_true(redisson_lock(w->redis, "java/a", JAVA_HOLDER, 30000));
    assert_true(redisson_unlock(w->redis, "java/a", JAVA_HOLDER));
    /* Whose lease runs out, and who is deleted without a word. */
    assert_true(redisson_lock(w->redis, "java/a", JAVA_HOLDER, 700));
    freed = now_ms();
    expect_status(multi_put(w->a, NULL, token_new(w), "java/a java/c", ", \"wait_ms\": 9000"),
                  201);
    assert_true(now_ms() - freed < allowed_ms(700 + SOON_MS));
}

static void test_the_wait_ends(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "over/b", token_new(w), "ttl_ms=60000&note=mine"), 201);
    r = multi_put(w->b, NULL, token, "over/a over/b over/c", ", \"wait_ms\": 500");
    expect_problem(r, 423, "locked");
    expect_str(r, "lock", "over/b");
    expect_str(r, "holder.note", "mine");
    assert_true(r->done_ms - r->sent_ms >= 480);
    expect_free(w, "over/a over/c");
    wait_until(waiter_count(w->a, "over/b") == 0, SOON_MS);
    r = HTTP(w->b, .method = "PUT", .path = "/v1/multi-locks?locks=over/a&locks=over/b",
             .token = token_new(w), .headers = {"Prefer: wait=1"});
    expect_problem(r, 423, "locked");
    assert_string_equal(reply_header(w, r, "Preference-Applied"), "wait=1");
    assert_true(r->done_ms - r->sent_ms >= 980);
    /* The token is not spent by a wait in vain. */
    expect_status(force_unlock(w->a, "over/b"), 200);
    expect_status(multi_put(w->a, NULL, token, "over/a over/b over/c", NULL), 201);
}

static void test_hang_up(struct world *w)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *gone, *stays;
    int64_t freed;

    expect_status(lock_put(w->a, "gone/b", holder, "ttl_ms=60000"), 201);
    gone = multi_park(w->a, NULL, token, "gone/a gone/b gone/c", ", \"wait_ms\": 30000");
    stays = multi_park(w->a, NULL, token_new(w), "gone/b gone/c", ", \"wait_ms\": 30000");
    assert_int_equal(waiter_count(w->b, "gone/b"), 2);
    call_hang_up(gone);
    wait_until(waiter_count(w->b, "gone/b") == 1, SOON_MS);
    expect_free(w, "gone/a");
    assert_int_equal(waiter_count(w->b, "gone/c"), 1);
    expect_problem(multi_ask(w->b, "GET", token, NULL), 410, "lease-ended");
    freed = now_ms();
    expect_status(lock_release(w->b, "gone/b", holder), 200);
    expect_soon(call_await(stays, 10000), freed);
}

/* Two requests of one token: one goes, the other waits on; or both are told of one grant. */
static void test_twins(struct world *w)
{
    for (int gone = 0; gone < 3; gone++) {
        const char *holder = token_new(w), *token = token_new(w);
        struct call *calls[2];
        struct reply *r[2];

        expect_status(lock_put(w->a, "twin/b", holder, "ttl_ms=60000"), 201);
        calls[0] = multi_park(w->a, NULL, token, "twin/a twin/b", ", \"wait_ms\": 30000");
        calls[1] = multi_call(w->b, NULL, token, "twin/b twin/a", ", \"wait_ms\": 30000");
        wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 1, 5000);
        if (gone < 2) {
            call_hang_up(calls[gone]);
            stays_true(waiter_count(w->a, "twin/b") == 1 && waiter_count(w->a, "twin/a") == 1,
                       200);
        }
        /* A stranger's hang-up with the same token takes nobody out. */
        expect_problem(multi_put(w->a, NULL, token, "twin/b", ", \"wait_ms\": 100"), 422,
                       "token-reused");
        expect_status(lock_release(w->a, "twin/b", holder), 200);
        for (int i = 0; i < 2; i++)
            if (i != gone)
                r[i] = call_await(calls[i], 5000);
        if (gone == 2)
            expect_true(r[0], r[0]->status + r[1]->status == 401);
        else
            expect_status(r[1 - gone], 201);
        assert_string_equal(redis_do(w->redis, "HVALS twin/a")->element[0]->str, "1");
        expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
        expect_free(w, "twin/a twin/b");
        wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 0, 5000);
    }
}

static void test_delete_of_a_wait(struct world *w)
{
    const char *token = token_new(w);
    struct call *calls[2];

    expect_status(lock_put(w->a, "stop/b", token_new(w), "ttl_ms=60000"), 201);
    calls[0] = multi_park(w->a, NULL, token, "stop/a stop/b", ", \"wait_ms\": 30000");
    calls[1] = multi_call(w->b, NULL, token, "stop/a stop/b", ", \"wait_ms\": 30000");
    wait_until(front_metric(w->b, "rlockd_waiters", NULL) == 1, 5000);
    expect_str(multi_ask(w->b, "DELETE", token, NULL), "state", "released");
    for (int i = 0; i < 2; i++) {
        struct reply *r = call_await(calls[i], SOON_MS);

        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "released");
    }
    expect_free(w, "stop/a");
    assert_int_equal(waiter_count(w->a, "stop/b"), 0);
}

static void test_draining(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    const char *token = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "drain/b", token_new(w), "ttl_ms=60000"), 201);
    call = multi_park(fe, NULL, token, "drain/a drain/b", ", \"wait_ms\": 30000");
    front_stop(fe);
    expect_problem(call_await(call, 5000), 503, "draining");
    expect_free(w, "drain/a");
    assert_int_equal(waiter_count(w->a, "drain/b"), 0);
    expect_status(force_unlock(w->a, "drain/b"), 200);
    expect_status(multi_put(w->b, NULL, token, "drain/a drain/b", NULL), 201);
}

/* Read and write: readers share, a writer waits for all of them. */
static void test_readers_and_writers(struct world *w)
{
    const char *one = token_new(w), *two = token_new(w), *writer = token_new(w);
    struct reply *r;
    struct call *call;

    expect_status(multi_put(w->a, NULL, one, "rw/a rw/b", ", \"kind\": \"read\""), 201);
    r = multi_put(w->b, NULL, two, "rw/b rw/c", ", \"kind\": \"read\"");
    expect_status(r, 201);
    expect_str(r, "kind", "read");
    expect_int(lock_look(w->a, "rw/b"), "holders.1.hold_count", 1);
    expect_status(http(w->a, "GET",
                       text(w, "/v1/locks/rw%%2Fb/fencing-tokens/%lld",
                            (long long)multi_fence(r, "rw/b")),
                       NULL),
                  200);
    expect_status(lock_put(w->b, "rw/c", token_new(w), "kind=read&ttl_ms=300"), 201);
    r = multi_put(w->a, NULL, token_new(w), "rw/b rw/c rw/d", ", \"kind\": \"write\"");
    expect_problem(r, 423, "locked");
    expect_free(w, "rw/d");
    call = multi_park(w->a, NULL, writer, "rw/b rw/c rw/d",
                      ", \"kind\": \"write\", \"wait_ms\": 30000");
    expect_status(multi_ask(w->a, "PATCH", one, "ttl_ms=60000"), 200);
    expect_status(multi_ask(w->b, "DELETE", one, NULL), 200);
    stays_true(!call_done(call), 100);
    expect_status(multi_ask(w->a, "DELETE", two, NULL), 200);
    r = call_await(call, 5000);
    expect_status(r, 201);
    expect_str(r, "kind", "write");
    expect_free(w, "rw/a");
    assert_string_equal(redis_str(w->redis, "HGET rw/b mode"), "write");
    assert_string_equal(redis_str(w->redis, "HGET rw/b %s:m:write", reply_str(r, "lease_id")),
                        "1");
    expect_problem(lock_put(w->b, "rw/c", token_new(w), "kind=read"), 423, "locked");
    expect_status(multi_ask(w->a, "DELETE", writer, NULL), 200);
    expect_free(w, "rw/b rw/c rw/d");
    assert_int_equal(json_array_size(redis_keys(w->redis, "{rw/")), 0);
}

/* Of one grant of several readers, told by its token. */
static void test_a_forced_reader(struct world *w)
{
    const char *one = token_new(w), *two = token_new(w);
    struct reply *first, *second;

    first = multi_put(w->a, NULL, one, "out/a out/b", ", \"kind\": \"read\"");
    second = multi_put(w->a, NULL, two, "out/a out/b", ", \"kind\": \"read\"");
    expect_status(second, 201);
    expect_bool(HTTP(w->a, .method = "POST", .path = "/v1/locks/out%2Fb/force-unlock",
                     .headers = {text(w, "If-Match: \"%lld\"",
                                      (long long)multi_fence(first, "out/b"))}),
                "unlocked", true);
    expect_str(multi_ask(w->b, "PATCH", one, NULL), "reason", "forced");
    expect_status(multi_ask(w->b, "PATCH", two, NULL), 200);
    assert_int_equal(redis_int(w->redis, "HLEN out/a"), 2);
    expect_status(multi_ask(w->b, "DELETE", two, NULL), 200);
    expect_free(w, "out/a out/b");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_release_hands_over),
        E2E_TEST(test_moves_to_whichever_is_in_the_way),
        E2E_TEST(test_the_way_is_blocked_anew),
        E2E_TEST(test_it_swallows_no_wake_up),
        E2E_TEST(test_java_in_the_way),
        E2E_TEST(test_the_wait_ends),
        E2E_TEST(test_hang_up),
        E2E_TEST(test_twins),
        E2E_TEST(test_delete_of_a_wait),
        E2E_TEST(test_draining),
        E2E_TEST(test_readers_and_writers),
        E2E_TEST(test_a_forced_reader),
    };
    struct e2e_plan plan = {.name = "multi-locks-wait",
                            .needs_one_server = true,
                            E2E_TESTS(tests),
                            .front_ends = 2};

    return e2e_run(&plan);
}
