/* Reads and writes of sessions: the watchdog, the session's end, what is told as lost. The
 * watchdog timeout is short. */
#include "read_write.h"

/* Each read has a key of its own, and the watchdog sees to it and to the hash. */
static void test_the_watchdog_renews_each_read(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->b, NULL);
    const char *field = text(w, "%s:me", s.id), *brief;

    rw_own(w->a, &s, "rws-dog", "read");
    rw_own(w->b, &s, "rws-dog", "read");
    brief = rw_own(w->b, &s, "rws-dog", "read&ttl_ms=300");
    rw_own(w->b, &other, "rws-dog", "read");
    rw_own(w->a, &s, "rws-dog-w", "write");
    /* A reader without a session is not renewed by that of others. */
    rw_hold(w->a, "rws-dog", "read&ttl_ms=300");
    stays_true(rw_read_left(w->redis, "rws-dog", field, 1) > 0 &&
                   rw_read_left(w->redis, "rws-dog", field, 2) > 0 &&
                   redis_int(w->redis, "PTTL rws-dog") > 0 &&
                   redis_int(w->redis, "PTTL rws-dog-w") > 0,
               4 * watchdog_ms());
    assert_in_range(redis_int(w->redis, "PTTL rws-dog"), 1, watchdog_ms());
    /* The brief ones are over, and counted by nobody. */
    assert_int_equal(rw_count(w->redis, "rws-dog", field), 2);
    assert_int_equal(json_array_size(redis_keys(w->redis, "{rws-dog}:")), 3);
    struct reply *r = lock_look(w->a, "rws-dog");
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 2);
    expect_loss(keep_alive(w->a, &s, NULL), "rws-dog", "expired");
    expect_problem(lock_release(w->a, "rws-dog", brief), 410, "lease-ended");
    expect_alive(keep_alive(w->b, &s, NULL), 3);
}

/* Nothing is renewed that no live session owns. */
static void test_a_dead_session(struct world *w)
{
    struct session s = session_new(w->a, ttl_of(w, 1000)), live = session_new(w->b, NULL);
    struct call *writer;

    rw_own(w->a, &s, "rws-dead", "read");
    rw_own(w->a, &s, "rws-dead-w", "write");
    rw_own(w->a, &s, "rws-dead-w", "read");
    writer = rw_park(w->b, "rws-dead", token_new(w), "write");
    struct call *reader = rw_park(w->a, "rws-dead-w", token_new(w), "read");
    int64_t since = now_ms();
    rw_own(w->b, &live, "rws-dead", "read");
    /* The session dies after 1 s, and within another one all of it is gone. */
    struct reply *r = call_await(reader, 5000);
    expect_status(r, 201);
    assert_true(r->done_ms - since <= allowed_ms(2500));
    wait_until(rw_count(w->redis, "rws-dead", text(w, "%s:me", s.id)) == -1, 2000);
    stays_true(!call_done(writer), 300);
    expect_int(session_end(w->a, &live), "released", 1);
    expect_status(call_await(writer, SOON_MS), 201);
}

static void test_the_sessions_end(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        struct session s = session_new(w->a, NULL);
        const char *lock = text(w, "rws-end-%d", i);
        struct listener *listener = listener_start(w->redis,
                                                   text(w, "redisson_rwlock:{%s}", lock));
        struct call *call;

        rw_own(w->a, &s, lock, i ? "write" : "read");
        rw_own(w->b, &s, lock, "read");
        rw_own(w->b, &s, lock, "read&ttl_ms=20000");
        call = rw_park(w->b, lock, token_new(w), "write&ttl_ms=60000");
        expect_int(session_end(w->b, &s), "released", 3);
        expect_status(call_await(call, SOON_MS), 201);
        assert_string_equal(rw_mode(w->redis, lock), "write");
        assert_non_null(listener_next(listener, 1000));
        expect_problem(session_put(w->a, &s, lock, token_new(w), "kind=read"), 410,
                       "session-ended");
        assert_int_equal(json_array_size(redis_keys(w->redis, text(w, "{%s}:", lock))), 0);
    }
}

/* Nobody gets in for a session that ended while it waited. */
static void test_the_session_of_a_waiter_ends(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = rw_hold(w->a, "rws-wait", "write&ttl_ms=60000");
    struct call *read = rw_park_owner(w->a, &s, "rws-wait", token_new(w), "read");
    struct call *write = rw_park_owner(w->b, &s, "rws-wait", token_new(w), "write");

    expect_status(session_end(w->b, &s), 200);
    expect_problem(call_await(read, SOON_MS), 410, "session-ended");
    expect_problem(call_await(write, SOON_MS), 410, "session-ended");
    wait_until(waiter_count(w->a, "rws-wait") == 0, SOON_MS);
    expect_status(lock_release(w->a, "rws-wait", token), 200);
    assert_false(redis_has(w->redis, "rws-wait"));
}

/* What is lost behind its back is told, with the reason, and is not made anew. */
static void test_losses_are_told(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct call *alarm;
    const char *tokens[2];
    struct reply *r;

    tokens[0] = rw_own(w->a, &s, "rws-loss", "write");
    tokens[1] = rw_own(w->b, &s, "rws-loss", "read");
    alarm = keep_alive_park(w->b, &s, 14000);
    redis_ok(w->redis, "DEL rws-loss");
    r = call_await(alarm, 5000);
    expect_loss(r, "rws-loss", "expired");
    size_t told = losses_len(r);
    if (told == 1)
        wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 1, SOON_MS);
    stays_true(!redis_has(w->redis, "rws-loss"), 2 * watchdog_ms());
    for (int i = 0; i < 2; i++) {
        r = lock_release(w->a, "rws-loss", tokens[i]);
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "expired");
    }
    /* Its owner gets it again: the old lease holds nothing of it. */
    const char *fresh = rw_own(w->a, &s, "rws-loss", "write");
    expect_problem(lock_renew(w->a, "rws-loss", tokens[0], NULL), 410, "lease-ended");
    expect_int(lock_release(w->a, "rws-loss", fresh), "hold_count", 0);
}

/* A write with a time of its own ends beside the reads of its owner, who goes on reading. */
static void test_a_write_ends_beside_its_reads(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    rw_own(w->a, &s, "rws-over", text(w, "write&%s", ttl_of(w, 600)));
    rw_own(w->b, &s, "rws-over", "read");
    struct call *call = rw_park(w->b, "rws-over", token_new(w), "read&ttl_ms=60000");
    r = call_await(call, 5000);
    expect_status(r, 201);
    assert_string_equal(rw_mode(w->redis, "rws-over"), "read");
    expect_loss(keep_alive(w->a, &s, NULL), "rws-over", "expired");
    expect_alive(keep_alive(w->a, &s, NULL), 1);
}

/* In and out of the watchdog's care. */
static void test_patch_and_the_watchdog(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *token = rw_own(w->a, &s, "rws-care", "read");
    const char *field = text(w, "%s:me", s.id);

    expect_bool(lock_renew(w->b, "rws-care", token, "ttl_ms=60000"), "watchdog", false);
    stays_true(rw_read_left(w->redis, "rws-care", field, 1) > 40000, 2 * watchdog_ms());
    expect_bool(lock_renew(w->b, "rws-care", token, NULL), "watchdog", true);
    assert_in_range(rw_read_left(w->redis, "rws-care", field, 1), 1, watchdog_ms());
    stays_true(rw_read_left(w->redis, "rws-care", field, 1) > 0 &&
                   redis_int(w->redis, "PTTL rws-care") <= watchdog_ms(),
               2 * watchdog_ms());
    expect_status(lock_renew(w->b, "rws-care", token, "ttl_ms=300"), 200);
    wait_until(!redis_has(w->redis, "rws-care"), SOON_MS);
    expect_loss(keep_alive(w->a, &s, NULL), "rws-care", "expired");
}

/* A Java client before 4.4 renews its read, reads no more, and leaves every read with its time.
 */
static void test_javas_watchdog_shortens_no_read(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *field = text(w, "%s:me", s.id);

    const char *token = rw_own(w->a, &s, "rws-java", "read&ttl_ms=60000");
    rw_own(w->b, &s, "rws-java", "read&ttl_ms=90000");
    expect_status(lock_renew(w->a, "rws-java", token, "ttl_ms=60000"), 200);
    assert_int_equal(redisson_read(w->redis, "rws-java", JAVA_HOLDER, 30000), JAVA_NIL);
    redisson_renew_reads(w->redis, "rws-java", JAVA_HOLDER, 30000);
    assert_int_equal(redisson_end_read(w->redis, "rws-java", JAVA_HOLDER), 0);
    wait_until(rw_read_left(w->redis, "rws-java", field, 1) > 40000 &&
                   rw_read_left(w->redis, "rws-java", field, 2) > 70000 &&
                   redis_int(w->redis, "PTTL rws-java") > 70000,
               2 * watchdog_ms());
    assert_true(rw_read_left(w->redis, "rws-java", field, 1) <= 60000);
    assert_true(redis_int(w->redis, "PTTL rws-java") <= 90000);
}

/* Front ends come and go. */
static void test_a_front_end_is_killed(struct world *w)
{
    struct session s = session_new(w->b, NULL);
    struct front *fe = front_start(w, "--redis", w->redis->url, WATCHDOG_FLAGS, NULL);

    rw_own(fe, &s, "rws-kill", "read");
    rw_own(fe, &s, "rws-kill-w", "write");
    struct call *gone = rw_park(fe, "rws-kill-w", token_new(w), "read");
    front_kill(fe);
    expect_status(call_await(gone, 5000), 0);
    stays_true(redis_has(w->redis, "rws-kill") && redis_has(w->redis, "rws-kill-w"),
               3 * watchdog_ms());
    expect_alive(keep_alive(w->a, &s, NULL), 2);
    expect_int(session_end(w->a, &s), "released", 2);
    assert_false(redis_has(w->redis, "rws-kill") || redis_has(w->redis, "rws-kill-w"));
}

/* What a client does not say that it holds is released. */
static void test_what_is_not_claimed(struct world *w)
{
    struct session s = session_new(w->a, ttl_of(w, 1000));
    const char *token = rw_own(w->a, &s, "rws-claim", "read");
    struct reply *r = session_put(w->a, &s, "rws-claim", token, "owner=me&kind=read");
    const char *body = text(w, "{\"held\":[\"%s\"]}", reply_str(r, "lease_id"));

    rw_own(w->a, &s, "rws-claim", "read");
    rw_own(w->a, &s, "rws-claim", "read");
    wait_until(rw_count(w->redis, "rws-claim", text(w, "%s:me", s.id)) == 1 ||
                   keep_alive_body(w->b, &s, body)->status != 200,
               5000);
    expect_alive(keep_alive_body(w->b, &s, body), 1);
    expect_status(session_put(w->a, &s, "rws-claim", token, "owner=me&kind=read"), 200);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_watchdog_renews_each_read),
        E2E_TEST(test_a_dead_session),
        E2E_TEST(test_the_sessions_end),
        E2E_TEST(test_the_session_of_a_waiter_ends),
        E2E_TEST(test_losses_are_told),
        E2E_TEST(test_a_write_ends_beside_its_reads),
        E2E_TEST(test_patch_and_the_watchdog),
        E2E_TEST(test_javas_watchdog_shortens_no_read),
        E2E_TEST(test_a_front_end_is_killed),
        E2E_TEST(test_what_is_not_claimed),
    };
    struct e2e_plan plan = {
        .name = "read-write-sessions", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
