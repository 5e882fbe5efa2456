/* Readers and writers that wait in one queue: who gets in, when, and at what cost. */
#include "read_write.h"

enum { CROWD = 100 };

/* Half of them on each front end, all of them parked. */
static void park_crowd(struct world *w, const char *lock, const char *query,
                       struct call *calls[], int count)
{
    int before = waiter_count(w->a, lock);

    for (int i = 0; i < count; i++)
        calls[i] = call_put(i % 2 ? w->a : w->b, lock, token_new(w),
                            text(w, "wait_ms=30000&ttl_ms=60000&kind=%s", query));
    wait_until(waiter_count(w->a, lock) == before + count, 10000);
}

/* A writer whose owner goes on to read lets readers in, and no other writer for certain. */
static const char *hold_to_downgrade(struct world *w, const struct session *s, const char *lock)
{
    const char *writes = rw_own(w->a, s, lock, "write&ttl_ms=60000");

    rw_own(w->a, s, lock, "read&ttl_ms=60000");
    return writes;
}

/* All readers are in well within a second, also past a writer that waits. */
static void test_all_readers_get_in(struct world *w)
{
    for (int k = 0; k < 2; k++) {
        struct session s = session_new(w->a, "ttl_ms=100000");
        const char *lock = text(w, "rww-all-%d", k), *holder = hold_to_downgrade(w, &s, lock);
        struct call *writer = NULL, *calls[CROWD];
        int64_t last = 0;

        if (k == 1)
            writer = rw_park(w->a, lock, token_new(w), "write");
        park_crowd(w, lock, "read", calls, CROWD);
        scripts_count_from_now(w->redis);
        int64_t since = now_ms();
        expect_status(lock_release(w->b, lock, holder), 200);
        for (int i = 0; i < CROWD; i++) {
            struct reply *r = call_await(calls[i], SOON_MS);
            expect_status(r, 201);
            last = r->done_ms > last ? r->done_ms : last;
        }
        int scripts = scripts_about(w->redis, lock);
        print_message("%d readers in after %d ms, %d scripts\n", CROWD, (int)(last - since),
                      scripts);
        assert_true(last - since <= allowed_ms(800));
        /* One attempt each, and less than one more: the head is not asked again after each of
         * them. */
        assert_true(scripts <= CROWD + CROWD / 2);
        assert_int_equal(redis_int(w->redis, "HLEN %s", lock), CROWD + 2);
        if (writer != NULL) {
            stays_true(!call_done(writer), 100);
            call_hang_up(writer);
        }
        expect_status(force_unlock(w->a, lock), 200);
    }
}

/* Each of them is the longest read while it lasts, and its release is no news for the writer.
 */
static void test_readers_that_come_and_go_wake_no_writer(struct world *w)
{
    enum { READS = 20, STRAY = 4 /* polls, a subscription that had to be new */ };
    const char *lock = "rww-passing";

    skip_on_masters(w); /* counts what one server is sent */
    rw_hold(w->a, lock, "read&ttl_ms=40000");
    struct call *writer = rw_park(w->b, lock, token_new(w), "write");
    nap_ms((int)patience_ms(30)); /* its subscription is there, too */
    scripts_count_from_now(w->redis);
    for (int i = 0; i < READS; i++)
        expect_status(lock_release(w->a, lock, rw_hold(w->a, lock, "read&ttl_ms=60000")), 200);
    nap_ms(100);
    int scripts = scripts_about(w->redis, lock);
    print_message("%d scripts for %d reads and releases\n", scripts, READS);
    assert_in_range(scripts, 2 * READS, 2 * READS + STRAY);
    call_hang_up(writer);
    expect_status(force_unlock(w->a, lock), 200);
}

/* And a writer after the last reader, whichever front end it is on. */
static void test_a_writer_gets_in_after_the_last_reader(struct world *w)
{
    for (int k = 0; k < 2; k++) {
        enum { READERS = 8 };
        const char *lock = text(w, "rww-last-%d", k), *tokens[READERS];

        for (int i = 0; i < READERS; i++)
            tokens[i] = rw_hold(i % 2 ? w->a : w->b, lock, "read&ttl_ms=60000");
        struct call *call = rw_park(k ? w->a : w->b, lock, token_new(w), "write");
        for (int i = 0; i + 1 < READERS; i++)
            expect_status(lock_release(w->a, lock, tokens[i]), 200);
        stays_true(!call_done(call), 100);
        int64_t since = now_ms();
        expect_status(lock_release(w->a, lock, tokens[READERS - 1]), 200);
        struct reply *r = call_await(call, SOON_MS);
        expect_status(r, 201);
        assert_true(r->done_ms - since <= allowed_ms(500));
    }
}

/* Writers are one at a time, and readers between them. */
static void test_writers_hand_over(struct world *w)
{
    enum { WRITERS = 10 };
    const char *holder = rw_hold(w->a, "rww-turns", "write"), *tokens[WRITERS];
    struct call *calls[WRITERS];
    json_int_t fence = fence_of(w->a, "rww-turns");
    bool done[WRITERS] = {false};

    for (int i = 0; i < WRITERS; i++) {
        tokens[i] = token_new(w);
        calls[i] = rw_park(i % 2 ? w->a : w->b, "rww-turns", tokens[i], "write&ttl_ms=60000");
    }
    expect_status(lock_release(w->a, "rww-turns", holder), 200);
    for (int n = 0; n < WRITERS; n++) {
        int in = -1;

        struct patience patience = patience_of(SOON_MS);
        while (in < 0 && !patience_ends(&patience)) {
            for (int i = 0; i < WRITERS && in < 0; i++)
                in = !done[i] && call_done(calls[i]) ? i : -1;
            nap_ms(2);
        }
        if (in < 0)
            FAIL("nobody got in after %d", n);
        done[in] = true;
        struct reply *r = call_await(calls[in], SOON_MS);
        expect_status(r, 201);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        fence = reply_int(r, "fencing_token");
        for (int i = 0; i < WRITERS; i++)
            assert_true(done[i] || !call_done(calls[i]));
        expect_status(lock_release(n % 2 ? w->a : w->b, "rww-turns", tokens[in]), 200);
    }
    assert_false(redis_has(w->redis, "rww-turns"));
}

static int grants_kept(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};
    double kept = 0;

    for (int i = 0; i < 2; i++)
        kept += front_metric(fronts[i], "rlockd_grants_total", NULL) -
                front_metric(fronts[i], "rlockd_withdrawn_grants_total", NULL);
    return (int)kept;
}

/* Those who go while it is their turn take no wake-up with them, and keep no grant. */
static void test_hang_ups_in_the_midst(struct world *w)
{
    for (int round = 0; round < 6; round++) {
        struct session s = session_new(w->a, "ttl_ms=100000");
        const char *lock = text(w, "rww-gone-%d", round);
        const char *holder = hold_to_downgrade(w, &s, lock);
        struct call *calls[CROWD], *writer = rw_park(w->a, lock, token_new(w), "write");

        park_crowd(w, lock, "read", calls, CROWD);
        int before = grants_kept(w);
        struct call *release = CALL(w->b, .method = "DELETE", .path = lock_path(w, lock, ""),
                                    .token = holder);
        for (int i = 0; i < CROWD; i += 2)
            call_hang_up(calls[i]);
        expect_status(call_await(release, 5000), 200);
        for (int i = 1; i < CROWD; i += 2)
            expect_status(call_await(calls[i], SOON_MS), 201);
        wait_until(waiter_count(w->a, lock) == 1, 5000);
        /* Who is in the hash was told so, as far as the kernel knows. */
        wait_until(redis_int(w->redis, "HLEN %s", lock) == grants_kept(w) - before + 2, 5000);
        assert_false(call_done(writer));
        expect_status(force_unlock(w->a, lock), 200);
        expect_status(call_await(writer, SOON_MS), 201);
        expect_status(force_unlock(w->a, lock), 200);
    }
}

/* The same where Redis answers late, so that it is their turn for certain. */
static void test_a_grant_under_way_to_nobody(struct world *w)
{
    static const char *const kinds[] = {"read", "write"};

    for (int k = 0; k < 2; k++) {
        const char *lock = text(w, "rww-late-%d", k);
        const char *holder = rw_hold(w->a, lock, "write&ttl_ms=60000");
        struct proxy *proxy = proxy_start(w->redis);
        struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), NULL);
        struct call *gone = rw_park(fe, lock, token_new(w), kinds[k]), *next;

        next = rw_park(fe, lock, token_new(w), k ? "write&ttl_ms=60000" : "read&ttl_ms=60000");
        proxy_settle(proxy);
        proxy_set(proxy, PROXY_HOLD);
        expect_status(lock_release(w->a, lock, holder), 200);
        wait_until(redis_has(w->redis, lock), 3000);
        assert_false(call_done(gone));
        call_hang_up(gone);
        proxy_set(proxy, PROXY_PASS);
        expect_status(call_await(next, 5000), 201);
        wait_until(redis_int(w->redis, "HLEN %s", lock) == 2, SOON_MS);
        stays_true(redis_int(w->redis, "HLEN %s", lock) == 2, 700);
    }
}

/* Giving up by DELETE, and by the clock. */
static void test_the_wait_ends(struct world *w)
{
    const char *holder = rw_hold(w->a, "rww-end", "write&ttl_ms=60000"), *token = token_new(w);
    struct call *call = rw_park(w->b, "rww-end", token, "read");
    struct reply *r;

    expect_status(lock_release(w->a, "rww-end", token), 200);
    r = call_await(call, SOON_MS);
    expect_problem(r, 410, "lease-ended");
    r = rw_put(w->b, "rww-end", token_new(w), "read&wait_ms=300");
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.kind", "write");
    assert_true(r->done_ms - r->sent_ms >= 295);
    wait_until(waiter_count(w->a, "rww-end") == 0, SOON_MS);
    /* Readers who hold do not keep readers waiting behind a writer that waits: no queue. */
    expect_status(lock_release(w->a, "rww-end", holder), 200);
    rw_hold(w->a, "rww-end", "read");
    struct call *writer = rw_park(w->a, "rww-end", token_new(w), "write");
    rw_hold(w->b, "rww-end", "read");
    stays_true(!call_done(writer), 100);
}

/* Reads of one owner who waits get in together, and beside its write. */
static void test_waiters_of_one_owner(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *holder = rw_hold(w->a, "rww-own", "write&ttl_ms=60000");
    struct call *write = rw_park_owner(w->a, &s, "rww-own", token_new(w), "write");
    struct call *read = rw_park_owner(w->b, &s, "rww-own", token_new(w), "read");
    struct call *again = rw_park_owner(w->b, &s, "rww-own", token_new(w), "write");

    expect_status(lock_release(w->b, "rww-own", holder), 200);
    struct reply *r = call_await(read, SOON_MS);
    expect_status(r, 201);
    json_int_t fence = reply_int(r, "fencing_token");
    struct call *const writes[] = {write, again};
    /* Whoever came first: a read makes the writes a conflict, a write lets the rest in. */
    bool is_write = strcmp(rw_mode(w->redis, "rww-own"), "write") == 0;
    for (int i = 0; i < 2; i++) {
        r = call_await(writes[i], SOON_MS);
        if (is_write)
            expect_int(r, "fencing_token", fence);
        else
            expect_problem(r, 409, "wrong-kind");
    }
}

/* ---- how much it costs ---- */

static double seconds_of(struct reply *r)
{
    return (double)(r->done_ms - r->sent_ms) / 1000;
}

/* A thousand readers: every operation stays one of a few ms in Redis. Each comes 20 times or
 * more, so that a busy machine is told from a slow operation. */
static void test_a_thousand_readers(struct world *w)
{
    enum { READERS = 1000 };
    const char **tokens = calloc(READERS, sizeof(*tokens));
    double slowest = 0;
    struct reply *r = NULL;

    world_defer(w, free, (void *)tokens);
    redis_ok(w->redis, "CONFIG SET slowlog-log-slower-than %d", (int)patience_ms(50000));
    redis_ok(w->redis, "SLOWLOG RESET");
    for (int i = 0; i < READERS; i++) {
        tokens[i] = token_new(w);
        r = rw_put(i % 2 ? w->a : w->b, "rww-many", tokens[i], "read&ttl_ms=600000");
        expect_status(r, 201);
        slowest = seconds_of(r) > slowest ? seconds_of(r) : slowest;
    }
    json_int_t fence = reply_int(r, "fencing_token");
    for (int i = 0; i < 20; i++) {
        expect_status(rw_put(w->a, "rww-many", token_new(w), "write"), 423);
        expect_status(lock_renew(w->a, "rww-many", tokens[i], "ttl_ms=900000"), 200);
        expect_status(lock_renew(w->a, "rww-many", tokens[i], "ttl_ms=300000"), 200);
        expect_status(rw_put(w->a, "rww-many", tokens[i], "read"), 200);
        expect_int(lock_look(w->b, "rww-many"), "holder_count", READERS);
        expect_status(http(w->a, "GET",
                           text(w, "/v1/locks/rww-many/fencing-tokens/%lld", (long long)fence),
                           NULL),
                      200);
    }
    for (int i = 0; i < READERS; i++) {
        r = lock_release(i % 2 ? w->a : w->b, "rww-many", tokens[i]);
        expect_status(r, 200);
        slowest = seconds_of(r) > slowest ? seconds_of(r) : slowest;
    }
    assert_false(redis_has(w->redis, "rww-many"));
    print_message("the slowest of %d: %.0f ms\n", READERS, slowest * 1000);
    if (redis_int(w->redis, "SLOWLOG LEN") > 10) {
        redisReply *slow = redis_do(w->redis, "SLOWLOG GET 1")->element[0];
        FAIL("%lld us: %s %s", slow->element[2]->integer, slow->element[3]->element[0]->str,
             slow->element[3]->element[1]->str);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_all_readers_get_in),
        E2E_TEST(test_readers_that_come_and_go_wake_no_writer),
        E2E_TEST(test_a_writer_gets_in_after_the_last_reader),
        E2E_TEST(test_writers_hand_over),
        E2E_TEST(test_hang_ups_in_the_midst),
        E2E_TEST(test_a_grant_under_way_to_nobody),
        E2E_TEST(test_the_wait_ends),
        E2E_TEST(test_waiters_of_one_owner),
        E2E_TEST(test_a_thousand_readers),
    };
    struct e2e_plan plan = {.name = "read-write-waiting", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
