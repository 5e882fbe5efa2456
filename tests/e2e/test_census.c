/* The census: the longest holds and waits of all front ends, and their alarms. */
#include "harness.h"
#include "harness_session.h"

enum { LONG_MS = 1000, SOON_MS = 20000 };

/* The listing by held or waited time; `rest` of the query may be "". */
static struct reply *longest(struct front *fe, const char *order, const char *rest)
{
    struct reply *r = http(fe, "GET", text(fe->world, "/v1/locks?order=%s%s", order, rest),
                           NULL);

    expect_status(r, 200);
    return r;
}

/* The entry of the listing about this lock; NULL: there is none. */
static json_t *entry_of(const struct reply *r, const char *lock)
{
    json_t *entry;
    size_t i;

    json_array_foreach(reply_get(r, "locks"), i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "lock")), lock) == 0)
            return entry;
    }
    return NULL;
}

static json_t *held(struct front *fe, const char *lock)
{
    return entry_of(longest(fe, "held", ""), lock);
}

/* The next line from `*at` on with this event about this lock; NULL: there is none. */
static json_t *next_line(const char **at, const char *event, const char *lock)
{
    while (**at != '\0') {
        size_t len = strcspn(*at, "\n");
        json_t *line = json_loadb(*at, len, 0, NULL);
        *at += len + ((*at)[len] == '\n');
        if (is_text(json_string_value(json_object_get(line, "msg")), event) &&
            is_text(json_string_value(json_object_get(line, "lock")), lock))
            return line;
        json_decref(line);
    }
    return NULL;
}

/* How many lines of a log have this event about this lock. */
static int lines_of(struct front *fe, const char *event, const char *lock)
{
    const char *at = front_log(fe);
    json_t *line;
    int count = 0;

    while ((line = next_line(&at, event, lock)) != NULL) {
        count++;
        json_decref(line);
    }
    return count;
}

/* Of both front ends of the plan. */
static int told(struct world *w, const char *event, const char *lock)
{
    return lines_of(w->a, event, lock) + lines_of(w->b, event, lock);
}

static void test_the_longest_holds(struct world *w)
{
    struct reply *r, *put = lock_put(w->a, "census/old", token_new(w), "ttl_ms=60000");

    expect_status(put, 201);
    nap_ms(50);
    expect_status(lock_put(w->a, "census/new", token_new(w), "ttl_ms=60000&kind=write"), 201);
    assert_true(redisson_lock(w->redis, "census/java", JAVA_HOLDER, 60000));
    wait_until(held(w->b, "census/old") && held(w->b, "census/new") &&
                   held(w->b, "census/java"),
               SOON_MS);
    r = longest(w->b, "held", "&prefix=census/");
    expect_str(r, "locks.0.lock", "census/old");
    expect_str(r, "locks.0.holders.0.lease_id", reply_str(put, "lease_id"));
    expect_str(r, "locks.1.lock", "census/new");
    expect_str(r, "locks.1.kind", "write");
    assert_true(reply_int(r, "locks.0.held_ms") >= reply_int(r, "locks.1.held_ms"));
    expect_absent(r, "locks.0.held_at_least");
    expect_str(r, "locks.2.lock", "census/java");
    expect_bool(r, "locks.2.held_at_least", true);
    expect_bool(r, "locks.2.holders.0.held_at_least", true);
    expect_int(r, "locks.2.holders.0.held_ms", reply_int(r, "locks.2.held_ms"));
    expect_true(r, json_is_null(reply_get(r, "next_cursor")));
    expect_between(r, "as_of", 0, 60000);
    expect_absent(longest(w->a, "held", "&prefix=census/&limit=1"), "locks.1");
    expect_absent(longest(w->a, "held", "&prefix=census/&held_longer_than_ms=3600000"),
                  "locks.0");
    expect_absent(longest(w->a, "held", "&prefix=other/"), "locks.0");
}

static void test_a_hold_that_has_ended_is_left_out_at_once(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "census/gone", token, NULL), 201);
    wait_until(held(w->a, "census/gone"), SOON_MS);
    expect_status(lock_release(w->a, "census/gone", token), 200);
    assert_null(held(w->a, "census/gone"));
    expect_status(lock_put(w->a, "census/gone", token_new(w), NULL), 201);
    json_t *next = held(w->a, "census/gone"); /* if at all, with its own time */
    assert_true(next == NULL || json_object_get(next, "held_ms") != NULL);
}

/* 0: it is not listed. */
static int64_t held_ms(struct front *fe, const char *lock)
{
    return json_integer_value(json_object_get(held(fe, lock), "held_ms"));
}

static void test_a_read_that_has_ended_is_left_out_at_once(struct world *w)
{
    enum { OLD_MS = 3000 };
    static const char *const nexts[] = {"kind=write", "kind=read"};

    for (size_t i = 0; i < COUNT_OF(nexts); i++) {
        const char *lock = text(w, "census/read-%zu", i), *token = token_new(w);
        expect_status(lock_put(w->a, lock, token, "kind=read"), 201);
        wait_until(held_ms(w->a, lock) >= OLD_MS, SOON_MS);
        expect_status(lock_release(w->a, lock, token), 200);
        int64_t from_ms = now_ms();
        expect_status(lock_put(w->a, lock, token_new(w), nexts[i]), 201);
        int64_t listed_ms = held_ms(w->a, lock); /* if at all, with its own time */
        assert_in_range(listed_ms, 0, now_ms() - from_ms + OLD_MS / 2);
    }
}

/* One of many readers, of which an answer names a few. */
static void test_one_of_many_reads_is_listed(struct world *w)
{
    enum { READERS = 12 };

    for (int i = 0; i < READERS; i++)
        expect_status(lock_put(w->a, "census/many", token_new(w), "kind=read"), 201);
    wait_until(held(w->a, "census/many"), SOON_MS);
    for (int i = 0; i < READERS; i++)
        assert_non_null(held(w->a, "census/many"));
}

static void test_counts(struct world *w)
{
    expect_status(lock_put(w->a, "census/r", token_new(w), "kind=read&ttl_ms=600000"), 201);
    expect_status(lock_put(w->a, "census/f", token_new(w), "kind=fair&ttl_ms=600000"), 201);
    expect_status(http(w->a, "POST", "/v1/sessions?ttl_ms=600000", NULL), 201);
    wait_until(front_metric(w->b, "rlockd_locks", "kind=\"read\"") == 1 &&
                   front_metric(w->b, "rlockd_locks", "kind=\"fair\"") == 1 &&
                   front_metric(w->b, "rlockd_sessions", NULL) >= 1,
               SOON_MS);
    assert_true(front_metric(w->a, "rlockd_locks", "kind=\"write\"") >= 0);
    /* The first reader's hold is the longest one, not the last. */
    wait_until(held(w->b, "census/r"), SOON_MS);
    expect_status(lock_put(w->a, "census/r", token_new(w), "kind=read&ttl_ms=600000"), 201);
    assert_non_null(held(w->b, "census/r"));
}

/* The names are in slots of every master. */
static void test_every_lock_is_walked(struct world *w)
{
    enum { LOCKS = 30 };

    for (int i = 0; i < LOCKS; i++)
        expect_status(lock_put(w->a, text(w, "every/%d", i), token_new(w), "ttl_ms=600000"),
                      201);
    wait_until(json_array_size(reply_get(longest(w->b, "held", "&prefix=every/"), "locks")) ==
                   LOCKS,
               SOON_MS);
    wait_until(front_metric(w->b, "rlockd_locks", "kind=\"lock\"") >= LOCKS, SOON_MS);
    for (int i = 0; i < LOCKS; i++)
        expect_status(
            http(w->a, "POST", lock_path(w, text(w, "every/%d", i), "/force-unlock"), NULL),
            200);
}

static const char *const held_events[] = {"a lock is held for long", "a long hold has ended"};

static void test_a_long_hold_is_told_once(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "census/long", token, "ttl_ms=600000&note=who"), 201);
    assert_true(redisson_lock(w->redis, "census/java-long", JAVA_HOLDER, 600000));
    wait_until(told(w, held_events[0], "census/long") > 0 &&
                   told(w, held_events[0], "census/java-long") > 0,
               SOON_MS + LONG_MS);
    assert_true(front_metric(w->b, "rlockd_oldest_hold_seconds", NULL) >= LONG_MS / 1000);
    wait_until(front_metric(w->b, "rlockd_long_held_locks", NULL) >= 2, SOON_MS);
    expect_status(lock_release(w->a, "census/long", token), 200);
    assert_true(redisson_unlock(w->redis, "census/java-long", JAVA_HOLDER));
    wait_until(told(w, held_events[1], "census/long") > 0 &&
                   told(w, held_events[1], "census/java-long") > 0,
               SOON_MS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told(w, held_events[i], "census/long"), 1);
        assert_int_equal(told(w, held_events[i], "census/java-long"), 1);
    }
}

/* As the holder field of a lease of one lock without an owner has it behind the id. */
static void test_an_owner_called_0_is_no_lease(struct world *w)
{
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "census/zero", "kind=fair&owner=0&ttl_ms=60000");
    wait_until(told(w, held_events[0], "census/zero") == 1, SOON_MS + LONG_MS);
    struct front *teller = lines_of(w->a, held_events[0], "census/zero") == 1 ? w->a : w->b;
    const char *at = front_log(teller);
    json_t *line = next_line(&at, held_events[0], "census/zero");
    assert_string_equal(json_string_value(json_object_get(line, "kind")), "fair");
    assert_string_equal(json_string_value(json_object_get(line, "session_id")), s.id);
    assert_string_equal(json_string_value(json_object_get(line, "owner")), "0");
    assert_null(json_object_get(line, "lease_id"));
    json_decref(line);
}

/* Of a thousand Java readers, whose grants have no time. */
static void test_a_long_hold_of_very_many_readers_is_told_once(struct world *w)
{
    enum { WALKS_MS = 7000 };
    static const char *const add =
        "redis.call('hset', KEYS[1], 'mode', 'read') "
        "for i = 1, 1000 do local one = string.format('0b7dd2f4-6d7b-4d2f-9b39-%012d:17', i) "
        "redis.call('hset', KEYS[1], one, 1) "
        "redis.call('set', '{' .. KEYS[1] .. '}:' .. one .. ':rwlock_timeout:1', 1, "
        "'px', 600000) end redis.call('pexpire', KEYS[1], 600000)";

    redis_ok(w->redis, "EVAL %s 1 census/crowd", add);
    wait_until(told(w, held_events[0], "census/crowd") == 1, SOON_MS + LONG_MS);
    nap_ms(WALKS_MS);
    assert_int_equal(told(w, held_events[0], "census/crowd"), 1);
    assert_int_equal(told(w, held_events[1], "census/crowd"), 0);
    assert_true(held_ms(w->a, "census/crowd") >= WALKS_MS);
    redis_ok(w->redis, "DEL census/crowd");
    wait_until(told(w, held_events[1], "census/crowd") == 1, SOON_MS);
}

static void test_the_longest_waits(struct world *w)
{
    static const char *const events[] = {"a lock is waited for long", "a long wait has ended"};
    const char *holder = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "census/busy", holder, "ttl_ms=600000"), 201);
    expect_status(lock_put(w->a, "census/short", token_new(w), "ttl_ms=600000"), 201);
    struct call *first = call_put(w->a, "census/busy", token_new(w), "wait_ms=53000");
    wait_until(waiter_count(w->a, "census/busy") == 1, 5000);
    struct call *second = call_put(w->b, "census/busy", token_new(w),
                                   "wait_ms=55000&note=second");
    wait_until(entry_of(longest(w->b, "waited", ""), "census/busy") &&
                   waiter_count(w->a, "census/busy") == 2,
               SOON_MS);
    r = longest(w->b, "waited", "&prefix=census/&waited_longer_than_ms=1000");
    expect_str(r, "locks.0.lock", "census/busy");
    expect_bool(r, "locks.0.locked", true);
    expect_int(r, "locks.0.waiter_count", 2);
    expect_str(r, "locks.0.waiters.1.note", "second");
    assert_true(reply_int(r, "locks.0.waited_ms") >= 1000);
    assert_null(entry_of(r, "census/short"));
    expect_absent(longest(w->a, "waited", "&prefix=other/"), "locks.0");
    wait_until(told(w, events[0], "census/busy") == 1 &&
                   front_metric(w->a, "rlockd_long_waited_locks", NULL) == 1,
               SOON_MS);
    assert_true(front_metric(w->a, "rlockd_oldest_wait_seconds", NULL) >= LONG_MS / 1000);
    call_hang_up(first);
    call_hang_up(second);
    wait_until(told(w, events[1], "census/busy") == 1, SOON_MS);
    assert_int_equal(told(w, events[0], "census/busy"), 1);
    assert_null(entry_of(longest(w->b, "waited", ""), "census/busy"));
}

/* Of each request of a client that waits on and on; the first answer is that of a time-out. */
static int64_t waited_ms(struct front *fe, const char *lock)
{
    struct reply *r = lock_look(fe, lock);

    return reply_get(r, "waiters.0.waited_ms") ? reply_int(r, "waiters.0.waited_ms") : 0;
}

/* Request after request with one token, at both front ends, is one wait: it is told once. Also
 * its end, though the last request is granted before its own wait is long. */
static void test_a_wait_of_several_requests(struct world *w)
{
    enum { REQUEST_MS = 1500, REQUESTS = 6 };
    static const char *const events[] = {"a lock is waited for long", "a long wait has ended"};
    const char *holder = token_new(w), *token = token_new(w);
    struct patience patience = patience_of(SOON_MS);
    int64_t longest_ms = 0, longest_listed_ms = 0;

    expect_status(lock_put(w->a, "census/patient", holder, "ttl_ms=600000"), 201);
    for (int i = 0; i < REQUESTS || told(w, events[0], "census/patient") == 0 ||
                    longest_listed_ms < (REQUESTS - 1) * REQUEST_MS;
         i++) {
        struct front *fe = i % 2 == 0 ? w->a : w->b;
        struct call *call = call_put(fe, "census/patient", token,
                                     text(w, "wait_ms=%d", REQUEST_MS));
        assert_false(patience_ends(&patience));
        while (!call_done(call)) {
            int64_t ms = waited_ms(w->b, "census/patient");
            longest_ms = ms > longest_ms ? ms : longest_ms;
            ms = reply_int(longest(w->b, "waited", "&prefix=census/patient"),
                           "locks.0.waited_ms");
            longest_listed_ms = ms > longest_listed_ms ? ms : longest_listed_ms;
            nap_ms(50);
        }
        expect_problem(call_await(call, 5000), 423, "locked");
    }
    if (longest_ms < (REQUESTS - 1) * REQUEST_MS)
        FAIL("waited for %lld ms at most", (long long)longest_ms);
    assert_int_equal(told(w, events[1], "census/patient"), 0);
    expect_status(lock_release(w->b, "census/patient", holder), 200);
    expect_status(lock_put(w->a, "census/patient", token, NULL), 201);
    wait_until(told(w, events[1], "census/patient") == 1, SOON_MS);
    assert_int_equal(told(w, events[0], "census/patient"), 1);
    assert_false(redis_has(w->redis, "rlockd:long-waits:{census/patient}"));
}

static void test_another_front_end_takes_over(struct world *w)
{
    struct front *c = front_start(w, "--redis", w->redis->url, "--key-prefix",
                                  "over:", "--long-hold-ms", "1000", NULL);
    struct front *d = front_start(w, "--redis", w->redis->url, "--key-prefix",
                                  "over:", "--long-hold-ms", "1000", NULL);

    expect_status(lock_put(c, "kept", token_new(w), "ttl_ms=600000"), 201);
    assert_true(redisson_lock(w->redis, "over:java", JAVA_HOLDER, 600000));
    wait_until(lines_of(c, held_events[0], "kept") + lines_of(d, held_events[0], "kept") == 1 &&
                   lines_of(c, held_events[0], "java") + lines_of(d, held_events[0], "java") ==
                       1,
               SOON_MS);
    bool is_c = lines_of(c, held_events[0], "kept") == 1;
    struct front *dead = is_c ? c : d, *alive = is_c ? d : c;
    long long before_ms = reply_int(longest(alive, "held", ""), "locks.1.held_ms");
    front_kill(dead);
    const char *claim = redis_str(w->redis, "HGET rlockd:census:{over:} claim");
    wait_until(!is_text(redis_str(w->redis, "HGET rlockd:census:{over:} claim"), claim),
               SOON_MS);
    wait_until(reply_int(longest(alive, "held", ""), "as_of") < 2000, SOON_MS);
    struct reply *r = longest(alive, "held", "");
    expect_bool(r, "locks.1.held_at_least", true);
    assert_true(reply_int(r, "locks.1.held_ms") >= before_ms); /* Java's time goes on */
    assert_int_equal(lines_of(alive, held_events[0], "kept"), 0);
    assert_int_equal(lines_of(alive, held_events[0], "java"), 0);
    assert_true(redisson_unlock(w->redis, "over:java", JAVA_HOLDER));
    wait_until(lines_of(alive, held_events[1], "java") == 1, SOON_MS);
}

static void test_wrong_queries(struct world *w)
{
    static const char *const wrong[] = {
        "order=age",
        "order=",
        "held_longer_than_ms=1",
        "waited_longer_than_ms=1",
        "order=waited&held_longer_than_ms=1",
        "order=held&waited_longer_than_ms=1",
        "order=held&held_longer_than_ms=-1",
        "order=held&cursor=0.0.0",
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        expect_problem(http(w->a, "GET", text(w, "/v1/locks?%s", wrong[i]), NULL), 400,
                       "malformed-request");
}

static void test_only_names_that_the_caller_may_read(struct world *w)
{
    const char *file = tokens_write(w, "tokens",
                                    "ci {read-secret-aaaaaaaa} read=census/mine\n");
    struct front *guarded = front_start(w, "--redis", w->redis->url, "--api-tokens", file,
                                        NULL);
    const char *header = bearer(w, "read-secret-aaaaaaaa");

    expect_problem(
        HTTP(guarded, .method = "GET", .path = "/v1/locks?order=held", .headers = {header}),
        403, "forbidden");
    expect_status(HTTP(guarded, .method = "GET",
                       .path = "/v1/locks?order=held&prefix=census/mine", .headers = {header}),
                  200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_longest_holds),
        E2E_TEST(test_a_hold_that_has_ended_is_left_out_at_once),
        E2E_TEST(test_counts),
        E2E_TEST(test_a_read_that_has_ended_is_left_out_at_once),
        E2E_TEST(test_one_of_many_reads_is_listed),
        E2E_TEST(test_every_lock_is_walked),
        E2E_TEST(test_a_long_hold_is_told_once),
        E2E_TEST(test_an_owner_called_0_is_no_lease),
        E2E_TEST(test_a_long_hold_of_very_many_readers_is_told_once),
        E2E_TEST(test_the_longest_waits),
        E2E_TEST(test_a_wait_of_several_requests),
        E2E_TEST(test_another_front_end_takes_over),
        E2E_TEST(test_wrong_queries),
        E2E_TEST(test_only_names_that_the_caller_may_read),
    };
    static const char *const flags[] = {"--long-hold-ms", "1000", "--long-wait-ms", "1000",
                                        NULL};
    struct e2e_plan plan = {
        .name = "census", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
