/* Read/write locks as they stand in Redis, and Java clients on the same ones: both sides see
 * what Redisson's scripts would have written. */
#include "read_write.h"

/* The lock has this mode, and so many readers and writers. */
static void expect_fields(struct world *w, const char *lock, const char *mode, int count)
{
    assert_string_equal(rw_mode(w->redis, lock), mode);
    assert_int_equal(redis_int(w->redis, "HLEN %s", lock), count + 1);
}

static void expect_keys(struct world *w, const char *prefix, size_t count)
{
    json_t *keys = redis_keys(w->redis, prefix);

    if (json_array_size(keys) != count)
        FAIL("not %zu keys: %s", count, json_dumps(keys, 0));
}

static void test_what_readers_and_writers_leave_in_redis(struct world *w)
{
    const char *lock = "lay/out";
    const char *first = rw_hold(w->a, lock, "read&ttl_ms=20000");
    const char *second = rw_hold(w->b, lock, "read&ttl_ms=50000");
    const char *one = rw_field(w->a, lock, first), *two = rw_field(w->b, lock, second);

    expect_fields(w, lock, "read", 2);
    assert_int_equal(rw_count(w->redis, lock, one), 1);
    assert_int_equal(rw_count(w->redis, lock, two), 1);
    assert_in_range(rw_read_left(w->redis, lock, one, 1), 15000, 20000);
    assert_in_range(rw_read_left(w->redis, lock, two, 1), 45000, 50000);
    expect_keys(w, "{lay/out}:", 2);
    /* As long as the longest. */
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 45000, 50000);
    expect_status(lock_release(w->a, lock, second), 200);
    expect_fields(w, lock, "read", 1);
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 15000, 20000);
    expect_keys(w, "{lay/out}:", 1);
    expect_status(lock_release(w->b, lock, first), 200);
    assert_false(redis_has(w->redis, lock));
    expect_keys(w, "{lay/out}:", 0);

    const char *writes = rw_hold(w->a, lock, "write&ttl_ms=20000");
    expect_fields(w, lock, "write", 1);
    assert_int_equal(
        rw_count(w->redis, lock, text(w, "%s:write", rw_field(w->a, lock, writes))), 1);
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 15000, 20000);
    expect_status(lock_release(w->a, lock, writes), 200);
    assert_false(redis_has(w->redis, lock));
}

/* Names with a brace of their own go without further ones. */
static void test_names_with_braces(struct world *w)
{
    const char *lock = "lay:{7}:x", *token = rw_hold(w->a, lock, "read");
    struct listener *listener = listener_start(w->redis, "redisson_rwlock:lay:{7}:x");
    struct call *call = rw_park(w->b, lock, token_new(w), "write");

    assert_in_range(rw_read_left(w->redis, lock, rw_field(w->a, lock, token), 1), 1, 30000);
    expect_status(lock_release(w->a, lock, token), 200);
    assert_string_equal(listener_next(listener, 1000), "0");
    expect_status(call_await(call, SOON_MS), 201);
    /* A Java reader asks in the same keys. */
    assert_in_range(redisson_read(w->redis, lock, JAVA_HOLDER, 5000), 1, 30000);
}

/* The keys of one owner's reads are numbered without a gap, whichever ends first. */
static void test_reads_of_an_owner_stay_numbered(struct world *w)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
    static const int ttls[] = {20000, 60000, 40000};

    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        struct session s = session_new(w->a, "ttl_ms=100000");
        const char *lock = text(w, "lay-own-%zu", i), *tokens[3];
        const char *field = text(w, "%s:me", s.id);
        int left[3] = {20000, 60000, 40000};

        for (int n = 0; n < 3; n++)
            tokens[n] = rw_own(n % 2 ? w->b : w->a, &s, lock,
                               text(w, "read&ttl_ms=%d", ttls[n]));
        for (int n = 0; n < 3; n++) {
            int longest = 0;

            for (int k = 1; k <= 3 - n; k++) {
                long long ms = rw_read_left(w->redis, lock, field, k);
                assert_in_range(ms, 15000, 60000);
                longest = ms > longest ? (int)ms : longest;
            }
            assert_int_equal(rw_count(w->redis, lock, field), 3 - n);
            expect_keys(w, text(w, "{%s}:", lock), (size_t)(3 - n));
            assert_in_range(redis_int(w->redis, "PTTL %s", lock), longest - 2000, longest + 20);
            expect_int(lock_release(w->b, lock, tokens[orders[i][n]]), "hold_count", 2 - n);
            left[orders[i][n]] = 0;
            for (int k = 0; k < 3; k++)
                expect_status(session_put(w->a, &s, lock, tokens[k], "owner=me&kind=read"),
                              left[k] > 0 ? 200 : 410);
        }
        assert_false(redis_has(w->redis, lock));
    }
}

/* Also while some of them have ended by themselves, which nobody has noticed. */
static void test_reads_of_an_owner_that_ended(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=100000");
    const char *field = text(w, "%s:me", s.id), *tokens[6];

    for (int n = 0; n < 6; n++)
        tokens[n] = rw_own(w->a, &s, "lay-ended", "read&ttl_ms=60000");
    for (int n = 0; n < 6; n += 2)
        redis_ok(w->redis, "DEL %s", rw_read_key(w, "lay-ended", field, n + 1));
    expect_int(lock_release(w->b, "lay-ended", tokens[3]), "hold_count", 2);
    for (int n = 1; n <= 2; n++)
        assert_in_range(rw_read_left(w->redis, "lay-ended", field, n), 1, 60000);
    expect_keys(w, "{lay-ended}:", 2);
    expect_problem(lock_release(w->b, "lay-ended", tokens[4]), 410, "lease-ended");
    expect_status(lock_renew(w->b, "lay-ended", tokens[5], "ttl_ms=90000"), 200);
    assert_in_range(redis_int(w->redis, "PTTL lay-ended"), 80000, 90000);
    expect_int(session_end(w->b, &s), "released", 2);
    assert_false(redis_has(w->redis, "lay-ended"));
    expect_keys(w, "{lay-ended}:", 0);
}

/* One session's end takes off many reads in one script. */
static void test_an_end_with_many_reads(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=100000");

    for (int n = 0; n < 60; n++)
        rw_own(n % 2 ? w->a : w->b, &s, n % 3 ? "lay-many" : "lay-many-2", "read");
    rw_own(w->a, &s, "lay-many-3", "write");
    rw_own(w->a, &s, "lay-many-3", "read");
    expect_int(session_end(w->b, &s), "released", 62);
    assert_int_equal(json_array_size(redis_keys(w->redis, "lay-many")), 0);
    assert_int_equal(json_array_size(redis_keys(w->redis, "{lay-many")), 0);
}

/* ---- Java holds ---- */

static void test_a_java_writer(struct world *w)
{
    struct reply *r;

    assert_int_equal(redisson_write(w->redis, "java-w", JAVA_HOLDER, 60000), JAVA_NIL);
    for (int i = 0; i < 2; i++) {
        r = rw_put(w->a, "java-w", token_new(w), i ? "read" : "write");
        expect_problem(r, 423, "locked");
        expect_str(r, "holder.redisson_holder", JAVA_HOLDER);
        expect_str(r, "holder.kind", "write");
        expect_between(r, "remaining_ms", 50000, 60000);
    }
    r = lock_look(w->b, "java-w");
    expect_str(r, "kind", "write");
    expect_str(r, "holders.0.redisson_holder", JAVA_HOLDER);
    expect_absent(r, "holders.0.fencing_token");
    struct call *writer = rw_park(w->a, "java-w", token_new(w), "write&ttl_ms=300");
    struct call *reader = rw_park(w->b, "java-w", token_new(w), "read&ttl_ms=300");
    assert_int_equal(redisson_end_write(w->redis, "java-w", JAVA_HOLDER, 30000), 1);
    expect_status(call_await(writer, SOON_MS), 201);
    expect_status(call_await(reader, SOON_MS), 201);
}

/* Its token counter is not Java's: the grant before it is not current. */
static void test_a_java_writer_is_no_grant(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = rw_put(w->a, "java-grant", token, "write");
    long long fence = reply_int(r, "fencing_token");
    const char *path = text(w, "/v1/locks/java-grant/fencing-tokens/%lld", fence);

    expect_bool(http(w->a, "GET", path, NULL), "current", true);
    expect_status(lock_release(w->a, "java-grant", token), 200);
    assert_int_equal(redisson_write(w->redis, "java-grant", JAVA_HOLDER, 60000), JAVA_NIL);
    expect_problem(http(w->b, "GET", path, NULL), 409, "fencing-token-stale");
    r = HTTP(w->a, .method = "POST", .path = "/v1/locks/java-grant/force-unlock",
             .headers = {text(w, "If-Match: \"%lld\"", fence)});
    expect_problem(r, 412, "precondition-failed");
    assert_true(redis_has(w->redis, "java-grant"));
    expect_bool(force_unlock(w->a, "java-grant"), "unlocked", true);
}

static void test_java_readers_and_ours(struct world *w)
{
    const char *lock = "java-r", *token;
    struct reply *r;

    assert_int_equal(redisson_read(w->redis, lock, JAVA_HOLDER, 60000), JAVA_NIL);
    token = rw_hold(w->a, lock, "read&ttl_ms=20000");
    assert_int_equal(redisson_read(w->redis, lock, JAVA_OTHER, 40000), JAVA_NIL);
    expect_problem(rw_put(w->b, lock, token_new(w), "write"), 423, "locked");
    assert_in_range(redisson_write(w->redis, lock, JAVA_OTHER, 1000), 50000, 60000);
    r = lock_look(w->b, lock);
    expect_str(r, "kind", "read");
    json_t *java = rw_holder(r, "redisson_holder", JAVA_HOLDER);
    assert_in_range(json_integer_value(json_object_get(java, "remaining_ms")), 50000, 60000);
    assert_null(json_object_get(java, "fencing_token"));
    java = rw_holder(r, "redisson_holder", JAVA_OTHER);
    assert_in_range(json_integer_value(json_object_get(java, "remaining_ms")), 30000, 40000);
    /* Java's release cuts it to what the other two hold, ours to what Java holds. */
    assert_int_equal(redisson_end_read(w->redis, lock, JAVA_HOLDER), 0);
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 30000, 40000);
    assert_int_equal(redisson_end_read(w->redis, lock, JAVA_OTHER), 0);
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 15000, 20000);
    assert_int_equal(redisson_read(w->redis, lock, JAVA_OTHER, 5000), JAVA_NIL);
    expect_status(lock_release(w->a, lock, token), 200);
    assert_in_range(redis_int(w->redis, "PTTL %s", lock), 1, 5000);
    /* The last one wakes, whoever it is. */
    struct call *call = rw_park(w->b, lock, token_new(w), "write&ttl_ms=60000");
    assert_int_equal(redisson_end_read(w->redis, lock, JAVA_OTHER), 1);
    expect_status(call_await(call, SOON_MS), 201);
    assert_in_range(redisson_read(w->redis, lock, JAVA_HOLDER, 1000), 50000, 60000);
    assert_int_equal(redisson_end_read(w->redis, lock, JAVA_HOLDER), JAVA_NIL);
    assert_int_equal(redisson_end_write(w->redis, lock, JAVA_HOLDER, 1000), JAVA_NIL);
    assert_true(redis_has(w->redis, lock));
}

/* A read without a session gets its time back from whoever asks for the lock. */
static void test_javas_watchdog_and_our_reads(struct world *w)
{
    const char *lock = "java-renews", *kinds[] = {"write", "read&ttl_ms=1000"};
    const char *token = rw_hold(w->a, lock, "read&ttl_ms=60000");
    const char *field = rw_field(w->a, lock, token);

    for (int i = 0; i < 2; i++) {
        assert_int_equal(redisson_read(w->redis, lock, JAVA_HOLDER, 30000), JAVA_NIL);
        redisson_renew_reads(w->redis, lock, JAVA_HOLDER, 30000);
        assert_int_equal(redisson_end_read(w->redis, lock, JAVA_HOLDER), 0);
        assert_in_range(redis_int(w->redis, "PTTL %s", lock), 1, 30000);
        rw_put(w->b, lock, token_new(w), kinds[i]);
        assert_in_range(rw_read_left(w->redis, lock, field, 1), 40000, 60000);
        assert_in_range(redis_int(w->redis, "PTTL %s", lock), 40000, 60000);
    }
    expect_status(lock_release(w->b, lock, token), 200);
}

/* Java waits for the messages of its own layout. */
static void test_java_is_told(struct world *w)
{
    struct listener *listener = listener_start(w->redis, "redisson_rwlock:{java-told}");
    const char *writes = rw_hold(w->a, "java-told", "write"), *first, *second;

    /* 1 for those that are parked, and 0 for one that is about to. */
    expect_status(lock_release(w->b, "java-told", writes), 200);
    assert_string_equal(listener_next(listener, 1000), "1");
    assert_string_equal(listener_next(listener, 1000), "0");
    first = rw_hold(w->a, "java-told", "read");
    second = rw_hold(w->b, "java-told", "read");
    expect_status(lock_release(w->b, "java-told", first), 200);
    assert_null(listener_next(listener, 50));
    expect_status(lock_release(w->a, "java-told", second), 200);
    assert_string_equal(listener_next(listener, 1000), "0");
    assert_int_equal(redisson_write(w->redis, "java-told", JAVA_HOLDER, 5000), JAVA_NIL);
}

/* Java goes on as a reader and tells nobody: its readers are seen by the next poll. */
static void test_a_java_downgrade(struct world *w)
{
    assert_int_equal(redisson_write(w->redis, "java-down", JAVA_HOLDER, 60000), JAVA_NIL);
    assert_int_equal(redisson_read(w->redis, "java-down", JAVA_HOLDER, 60000), JAVA_NIL);
    struct reply *r = lock_look(w->a, "java-down");
    expect_str(r, "kind", "write");
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 2);
    assert_int_equal(redisson_end_write(w->redis, "java-down", JAVA_HOLDER, 30000), 1);
    rw_hold(w->b, "java-down", "read");
    expect_problem(rw_put(w->a, "java-down", token_new(w), "write"), 423, "locked");
    assert_int_equal(redisson_end_read(w->redis, "java-down", JAVA_HOLDER), 0);
}

static void test_java_forces_ours_out(struct world *w)
{
    const char *token = rw_hold(w->a, "java-force", "read");

    assert_int_equal(redisson_force(w->redis, "java-force", "write"), 0);
    assert_int_equal(redisson_force(w->redis, "java-force", "read"), 1);
    /* The key of our read is still there, as Redisson leaves it. */
    expect_keys(w, "{java-force}:", 1);
    struct reply *r = lock_renew(w->b, "java-force", token, NULL);
    expect_problem(r, 410, "lease-ended");
    const char *next = rw_hold(w->b, "java-force", "write");
    expect_problem(lock_release(w->a, "java-force", token), 410, "lease-ended");
    assert_int_equal(redisson_force(w->redis, "java-force", "write"), 1);
    expect_problem(lock_release(w->a, "java-force", next), 410, "lease-ended");
}

/* ---- the dead ---- */

/* A reader whose client died: its key is gone, its field stays as long as others read. */
static void test_a_dead_reader(struct world *w)
{
    const char *lock = "lay-dead", *dead = rw_hold(w->a, lock, "read&ttl_ms=300");
    const char *alive = rw_hold(w->b, lock, "read&ttl_ms=60000");
    const char *field = rw_field(w->a, lock, dead);
    struct reply *r;

    wait_until(rw_read_left(w->redis, lock, field, 1) == -2, SOON_MS);
    r = lock_look(w->a, lock);
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 1);
    expect_problem(rw_put(w->b, lock, dead, "read"), 410, "lease-ended");
    expect_problem(lock_renew(w->b, lock, dead, NULL), 410, "lease-ended");
    r = lock_release(w->b, lock, dead);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    assert_true(redis_has(w->redis, lock));
    struct call *call = rw_park(w->a, lock, token_new(w), "write");
    expect_status(lock_release(w->b, lock, alive), 200);
    expect_status(call_await(call, SOON_MS), 201);
}

static void test_a_dead_reader_learns_it_by_its_release(struct world *w)
{
    const char *lock = "lay-late", *dead = rw_hold(w->a, lock, "read&ttl_ms=300");
    const char *alive = rw_hold(w->b, lock, "read&ttl_ms=60000");
    const char *field = rw_field(w->a, lock, dead);

    wait_until(rw_read_left(w->redis, lock, field, 1) == -2, SOON_MS);
    assert_int_equal(rw_count(w->redis, lock, field), 1);
    for (int i = 0; i < 2; i++) {
        struct reply *r = lock_release(w->b, lock, dead);
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "expired");
    }
    expect_fields(w, lock, "read", 1);
    expect_status(lock_release(w->b, lock, alive), 200);
}

/* Who had read before learns that it is over, and the lock of another kind by that name stays.
 */
static void test_a_dead_reader_leaves_the_next_lock_alone(struct world *w)
{
    static const char *const methods[] = {"PATCH", "DELETE", "PUT"};

    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        const char *lock = text(w, "rwl-next-%zu", i), *reader = token_new(w);

        expect_status(lock_put(w->a, lock, reader, "kind=read&ttl_ms=100"), 201);
        wait_until(!redis_has(w->redis, lock), 2000);
        const char *next = token_new(w);
        expect_status(lock_put(w->b, lock, next, NULL), 201);
        expect_status(HTTP(w->a, .method = methods[i],
                           .path = text(w, "/v1/locks/%s%s", lock, i == 2 ? "?kind=read" : ""),
                           .token = reader),
                      410);
        expect_status(lock_release(w->b, lock, next), 200);
    }
}

static void test_a_dead_java_reader(struct world *w)
{
    const char *lock = "java-dead", *alive;
    struct reply *r;

    assert_int_equal(redisson_read(w->redis, lock, JAVA_HOLDER, 300), JAVA_NIL);
    alive = rw_hold(w->a, lock, "read&ttl_ms=60000");
    wait_until(rw_read_left(w->redis, lock, JAVA_HOLDER, 1) == -2, SOON_MS);
    r = lock_look(w->b, lock);
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), 1);
    struct call *call = rw_park(w->b, lock, token_new(w), "write");
    expect_status(lock_release(w->a, lock, alive), 200);
    expect_status(call_await(call, SOON_MS), 201);
}

/* Where Java's watchdog keeps the lock and not the keys of its reads, the reader is alive: some
 * versions do so. Without it the lock ends soon. */
static void test_a_java_reader_without_its_keys(struct world *w)
{
    const char *lock = "java-keyless";
    struct reply *r;

    redis_ok(w->redis, "HSET %s mode read %s 2", lock, JAVA_HOLDER);
    redis_ok(w->redis, "PEXPIRE %s 60000", lock);
    r = lock_look(w->a, lock);
    expect_bool(r, "locked", true);
    expect_str(r, "holders.0.redisson_holder", JAVA_HOLDER);
    expect_between(r, "holders.0.remaining_ms", 50000, 60000);
    r = rw_put(w->b, lock, token_new(w), "write");
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.redisson_holder", JAVA_HOLDER);
    expect_str(r, "holder.kind", "read");
    expect_between(r, "remaining_ms", 50000, 60000);
    assert_int_equal(rw_count(w->redis, lock, JAVA_HOLDER), 2);
    redis_ok(w->redis, "PEXPIRE %s 300", lock);
    r = rw_put(w->b, lock, token_new(w), "write&wait_ms=20000");
    expect_status(r, 201);
}

/* Where only the dead of ours are left, a writer gets in as if it were free. */
static void test_only_dead_readers(struct world *w)
{
    const char *lock = "lay-none", *dead = rw_hold(w->a, lock, "read&ttl_ms=300");
    const char *field = rw_field(w->a, lock, dead);

    redis_ok(w->redis, "PEXPIRE %s 60000", lock);
    wait_until(rw_read_left(w->redis, lock, field, 1) == -2, SOON_MS);
    expect_bool(lock_look(w->a, lock), "locked", false);
    expect_absent(lock_look(w->a, lock), "kind");
    rw_hold(w->b, lock, "write");
    expect_fields(w, lock, "write", 1);
    expect_problem(lock_release(w->a, lock, dead), 410, "lease-ended");
    expect_fields(w, lock, "write", 1);
}

/* Readers that die while one reads all the time do not pile up. */
static void test_the_dead_do_not_pile_up(struct world *w)
{
    enum { DEAD = 40 };
    const char *lock = "lay-pile";

    rw_hold(w->a, lock, "read&ttl_ms=600000");
    assert_int_equal(redisson_read(w->redis, lock, JAVA_HOLDER, 100), JAVA_NIL);
    for (int i = 0; i < DEAD; i++)
        rw_hold(i % 2 ? w->a : w->b, lock, "read&ttl_ms=100");
    wait_until(json_array_size(redis_keys(w->redis, "{lay-pile}:")) == 1, SOON_MS);
    for (int i = 0; i < 2 * DEAD; i++) {
        const char *token = rw_hold(w->a, lock, "read&ttl_ms=60000");
        expect_status(lock_release(w->b, lock, token), 200);
    }
    /* Java's stays: whether it is dead its own client knows. */
    expect_fields(w, lock, "read", 2);
    assert_int_equal(rw_count(w->redis, lock, JAVA_HOLDER), 1);
}

/* ---- other kinds of objects ---- */

static void test_other_kinds_are_left_alone(struct world *w)
{
    static const char *const keys[] = {"alien:string", "alien:list",  "alien:map", "alien:mode",
                                       "alien:only",   "alien:count", "alien:odd", "alien:sem",
                                       "alien:lock",   "alien:fair",  "alien:java"};
    struct reply *r;

    redis_ok(w->redis, "SET alien:string x");
    redis_ok(w->redis, "RPUSH alien:list 1");
    redis_ok(w->redis, "HSET alien:map name value");
    redis_ok(w->redis, "HSET alien:mode mode read colour red size 7");
    redis_ok(w->redis, "HSET alien:only mode read");
    redis_ok(w->redis, "HSET alien:count mode read %s many", JAVA_HOLDER);
    redis_ok(w->redis, "HSET alien:odd mode dark %s 1", JAVA_HOLDER);
    redis_ok(w->redis, "SET alien:sem 5");
    expect_status(lock_put(w->a, "alien:lock", token_new(w), NULL), 201);
    expect_status(rw_put(w->a, "alien:fair", token_new(w), "fair"), 201);
    assert_true(redisson_lock(w->redis, "alien:java", JAVA_HOLDER, 30000));
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        size_t before = json_array_size(redis_keys(w->redis, ""));
        const char *dump = redis_str(w->redis, "DUMP %s", keys[i]);
        const char *old = text(w, "%s", dump);

        for (int k = 0; k < 2; k++) {
            r = rw_put(w->b, keys[i], token_new(w), k ? "read" : "write&wait_ms=2000");
            expect_problem(r, 409, "wrong-kind");
        }
        assert_string_equal(redis_str(w->redis, "DUMP %s", keys[i]), old);
        /* Keys of other tests may expire meanwhile. */
        assert_true(json_array_size(redis_keys(w->redis, "")) <= before);
        if (i < 7) {
            expect_problem(lock_look(w->a, keys[i]), 409, "wrong-kind");
            expect_problem(force_unlock(w->a, keys[i]), 409, "wrong-kind");
            assert_true(redis_has(w->redis, keys[i]));
        }
        redis_ok(w->redis, "DEL %s", keys[i]);
    }
}

static void test_others_leave_it_alone(struct world *w)
{
    static const char *const kinds[] = {"lock", "fair"};

    rw_hold(w->a, "alien-r", "read");
    rw_hold(w->a, "alien-r", "read");
    rw_hold(w->a, "alien-w", "write");
    for (int i = 0; i < 2; i++) {
        const char *lock = i ? "alien-w" : "alien-r";

        for (int k = 0; k < 2; k++)
            expect_problem(rw_put(w->b, lock, token_new(w), kinds[k]), 409, "wrong-kind");
        expect_fields(w, lock, i ? "write" : "read", i ? 1 : 2);
        struct reply *r = http(w->a, "PUT", text(w, "/v1/semaphores/%s?permits=3", lock), NULL);
        expect_problem(r, 409, "wrong-kind");
        r = http(w->a, "PUT", text(w, "/v1/latches/%s?count=3", lock), NULL);
        expect_problem(r, 409, "wrong-kind");
        expect_fields(w, lock, i ? "write" : "read", i ? 1 : 2);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_what_readers_and_writers_leave_in_redis),
        E2E_TEST(test_names_with_braces),
        E2E_TEST(test_reads_of_an_owner_stay_numbered),
        E2E_TEST(test_reads_of_an_owner_that_ended),
        E2E_TEST(test_an_end_with_many_reads),
        E2E_TEST(test_a_java_writer),
        E2E_TEST(test_a_java_writer_is_no_grant),
        E2E_TEST(test_java_readers_and_ours),
        E2E_TEST(test_javas_watchdog_and_our_reads),
        E2E_TEST(test_java_is_told),
        E2E_TEST(test_a_java_downgrade),
        E2E_TEST(test_java_forces_ours_out),
        E2E_TEST(test_a_dead_reader),
        E2E_TEST(test_a_dead_reader_learns_it_by_its_release),
        E2E_TEST(test_a_dead_reader_leaves_the_next_lock_alone),
        E2E_TEST(test_a_dead_java_reader),
        E2E_TEST(test_a_java_reader_without_its_keys),
        E2E_TEST(test_only_dead_readers),
        E2E_TEST(test_the_dead_do_not_pile_up),
        E2E_TEST(test_other_kinds_are_left_alone),
        E2E_TEST(test_others_leave_it_alone),
    };
    struct e2e_plan plan = {.name = "read-write-layout", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
