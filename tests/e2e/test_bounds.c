/* No script works through all that clients pile up, and none holds Redis for long: what may
 * grow is filled to its limit, or far beyond where there is none, and each operation on it is
 * counted.
 *
 * Redis commands of a script are a figure that no busy machine changes. The time that a script
 * took is measured in that of a yardstick, a script of YARDSTICK plain commands, in the same
 * rounds; of each the best of some rounds counts, and of more rounds while the machine is busy.
 */
#include "counters.h"
#include "multi_locks.h"

#include <limits.h>
#include <strings.h>

enum {
    COMMANDS_MAX = 1500, /* of one script */
    YARDSTICK = 1000,    /* commands */
    YARDSTICKS_MAX = 5,  /* of one script: about 2 ms on an idle machine */
    ROUNDS = 6,
    ROUNDS_MAX = 100,  /* while the best one takes too long */
    PAUSE_MS = 50,     /* before each of them */
    LEASES = 1000,     /* locks of one session */
    OWNER_READS = 100, /* of one lock */
    READERS = 5000,    /* of one lock */
    WAITERS = 1000,    /* of one lock, semaphore or latch; places in a queue */
    PERMITS = 5000,    /* of one semaphore */
    LOCKS = 1200,      /* for a listing of 1,000 */
    NAMES = 32         /* of one lease */
};

#define LEASE_ID "%08x-0000-5000-8000-000000000000"

/* ---- what Redis does ---- */

/* Tells each command of Redis, also those of scripts; while there is one, scripts take longer.
 */
static redisContext *monitor_start(struct world *w)
{
    redisContext *monitor = redisConnectUnix(w->redis->socket);
    redisReply *reply;

    assert_true(monitor != NULL && monitor->err == 0);
    reply = redisCommand(monitor, "MONITOR");
    assert_non_null(reply);
    freeReplyObject(reply);
    return monitor;
}

/* The commands of the script that had most of them. */
static long monitor_end(struct world *w, redisContext *monitor)
{
    long most = 0, commands = 0;
    bool is_over = false;
    void *reply;

    redis_ok(w->redis, "PING mark-of-the-test");
    while (!is_over) {
        assert_int_equal(redisGetReply(monitor, &reply), REDIS_OK);
        const char *line = ((redisReply *)reply)->str;
        commands = strstr(line, " lua] \"") != NULL ? commands + 1 : 0;
        most = commands > most ? commands : most;
        is_over = strstr(line, "mark-of-the-test") != NULL;
        freeReplyObject(reply);
    }
    redisFree(monitor);
    return most;
}

static void time_scripts(struct world *w)
{
    redis_ok(w->redis, "CONFIG SET slowlog-log-slower-than 0");
    redis_ok(w->redis, "CONFIG SET slowlog-max-len 5000");
    redis_ok(w->redis, "SLOWLOG RESET");
}

/* Of the script that took longest since the last call. */
static long longest_us(struct world *w)
{
    redisReply *log = redis_do(w->redis, "SLOWLOG GET 5000");
    long longest = 0;

    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        if (strncasecmp(entry->element[3]->element[0]->str, "eval", 4) == 0 &&
            entry->element[2]->integer > longest)
            longest = (long)entry->element[2]->integer;
    }
    redis_ok(w->redis, "SLOWLOG RESET");
    return longest;
}

/* ---- one operation ---- */

/* The least that a script and the yardstick took. */
struct best {
    long us, yardstick_us;
};

static bool is_long(const struct best *best)
{
    return best->us > YARDSTICKS_MAX * best->yardstick_us;
}

static void check(const char *what, long commands, const struct best *best)
{
    print_message("%-60.60s %5ld commands", what, commands);
    if (best != NULL)
        print_message(" %5ld us of %ld", best->us, YARDSTICKS_MAX * best->yardstick_us);
    print_message("\n");
    if (commands > COMMANDS_MAX)
        FAIL("%s: a script of %ld commands", what, commands);
    if (best != NULL && is_long(best))
        FAIL("%s: a script of %ld us, %d commands take %ld", what, best->us, YARDSTICK,
             best->yardstick_us);
}

static void ask(struct world *w, const struct request *request, int status)
{
    struct reply *r = http_send(w->a, request);

    if (r->status != status)
        FAIL("%s %s: %d instead of %d", request->method, request->path, r->status, status);
}

/* One that changes what it works on. */
static void once(struct world *w, struct request request, int status)
{
    redisContext *monitor = monitor_start(w);

    ask(w, &request, status);
    check(text(w, "%s %.60s: %d", request.method, request.path, status),
          monitor_end(w, monitor), NULL);
}

#define ONCE(w, status, ...) once(w, (struct request){__VA_ARGS__}, status)

static long smaller(long a, long b)
{
    return a < b ? a : b;
}

/* One that may be repeated. */
static void repeat(struct world *w, struct request request, int status)
{
    struct best best = {LONG_MAX, LONG_MAX / YARDSTICKS_MAX};

    time_scripts(w);
    for (int i = 0; i < ROUNDS || (i < ROUNDS_MAX && is_long(&best)); i++) {
        nap_ms(i < ROUNDS ? 0 : PAUSE_MS);
        ask(w, &request, status);
        best.us = smaller(best.us, longest_us(w));
        redis_do(w->redis, "EVAL %s 1 %s %d",
                 "for i = 1, ARGV[1] do redis.call('exists', KEYS[1]) end", "yardstick",
                 YARDSTICK);
        best.yardstick_us = smaller(best.yardstick_us, longest_us(w));
    }
    redisContext *monitor = monitor_start(w);
    ask(w, &request, status);
    check(text(w, "%s %.60s: %d", request.method, request.path, status),
          monitor_end(w, monitor), &best);
}

#define REPEAT(w, status, ...) repeat(w, (struct request){__VA_ARGS__}, status)

/* ---- filling ---- */

/* `code` is the body of a loop over `i`; it knows `lock`, `key(prefix, id)`, `id(i)`, the clock
 * as `now` and the record of a lease that is `state` and of `kind`. */
static void fill(struct world *w, const char *lock, int count, const char *code)
{
    static const char head[] =
        "local lock, time = KEYS[1], redis.call('time') "
        "local now = time[1] * 1000 "
        "local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}' "
        "local function key(prefix, id) return prefix .. tag .. (id and ':' .. id or '') end "
        "local function id(i) return string.format('" LEASE_ID "', i) end "
        "local function put_record(i, state, kind) "
        "  redis.call('set', key('rlockd:lease:', id(i)), state .. '\\n\\nm.1\\n' .. now .. "
        "    '\\n600000\\na note\\n\\n\\n' .. i .. '\\n\\n' .. kind .. '\\n', 'px', 600000) "
        "end "
        "for i = 1, ARGV[1] do ";

    redis_do(w->redis, "EVAL %s 1 %s %d", text(w, "%s%s end return 1", head, code), lock,
             count);
    /* On a busy machine that takes so long that the front end takes Redis for silent. */
    wait_until(front_ready(w->a), 5000);
}

static void fill_waiters(struct world *w, const char *name)
{
    fill(w, name, WAITERS,
         "redis.call('zadd', key('rlockd:waiters:'), now + 600000, id(i)) "
         "put_record(i, 'waiting', 'lock')");
}

/* ---- the tests ---- */

static const char *session_path(struct world *w, const struct session *s, const char *rest)
{
    return text(w, "/v1/sessions/%s%s", s->id, rest);
}

/* Half of the leases are of one owner on one lock. */
static void hold_until_full(struct world *w, const struct session *s)
{
    char path[64], token[UUID_SIZE];
    struct rest rest;

    rest_init(&rest);
    for (int i = 0; i < LEASES; i++) {
        uuid_make(token);
        if (i % 2 == 0)
            snprintf(path, sizeof(path), "/v1/locks/own?owner=me");
        else
            snprintf(path, sizeof(path), "/v1/locks/lot-%d", i);
        assert_int_equal(rest_ask(&rest, w->a->port, "PUT", path, token, s->token, NULL), 201);
    }
    rest_free(&rest);
}

static void test_a_session_with_many_leases(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=600000");
    const char *token = token_new(w);
    redisContext *monitor;

    hold_until_full(w, &s);
    expect_problem(session_put(w->a, &s, "one-more", token, NULL), 429, "limit-reached");
    REPEAT(w, 200, .method = "GET", .path = session_path(w, &s, "?limit=1000"));
    REPEAT(w, 200, .method = "GET", .path = "/v1/sessions");
    REPEAT(w, 200, .method = "POST", .path = session_path(w, &s, "/keep-alive"),
           .headers = {s.header});
    REPEAT(w, 423, .method = "PUT", .path = "/v1/locks/own", .token = token);
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/own");
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks?limit=1000");
    monitor = monitor_start(w);
    expect_status(session_end(w->a, &s), 200);
    wait_until(!redis_has(w->redis, "own"), 10000);
    check("the end of the session", monitor_end(w, monitor), NULL);
}

/* Names for one lease, with a comma between: "<prefix>-0" and so on. */
static const char *names_of(struct world *w, const char *prefix, int count)
{
    const char *names = "";

    for (int i = 0; i < count; i++)
        names = text(w, "%s%s%s-%d", names, i > 0 ? " " : "", prefix, i);
    return names;
}

/* The limit counts locks: 31 leases of 32 locks, and 8 of one lock. */
static void test_a_session_with_leases_of_many_locks(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=600000");
    const char *lot = names_of(w, "{over}", NAMES), *token = token_new(w);

    for (int i = 0; i < LEASES / NAMES; i++)
        expect_status(
            multi_put(w->a, &s, token_new(w), names_of(w, text(w, "{lot-%d}", i), NAMES), NULL),
            201);
    for (int i = 1; i < LEASES % NAMES; i++)
        session_hold(w->a, &s, text(w, "single-%d", i), NULL);
    struct reply *r = multi_put(w->a, &s, token_new(w), lot, NULL);
    expect_problem(r, 429, "limit-reached");
    expect_int(r, "limit", LEASES);
    expect_problem(multi_put(w->a, &s, token_new(w), "{over}-0 {over}-1", NULL), 429,
                   "limit-reached");
    expect_status(session_put(w->a, &s, "single", token, NULL), 201);
    expect_problem(session_put(w->a, &s, "one-more", token_new(w), NULL), 429, "limit-reached");
    REPEAT(w, 200, .method = "GET", .path = session_path(w, &s, "?limit=1000"));
    REPEAT(w, 200, .method = "POST", .path = session_path(w, &s, "/keep-alive"),
           .headers = {s.header});
    expect_status(lock_release(w->a, "single", token), 200);
    wait_until(session_put(w->a, &s, "one-more", token_new(w), NULL)->status == 201, 5000);
    expect_status(session_end(w->a, &s), 200);
}

static void fill_readers(struct world *w, const char *lock, int count)
{
    fill(w, lock, count,
         "local holder = id(i) .. ':0' "
         "if i == 1 then redis.call('hset', lock, 'mode', 'read') "
         "  redis.call('set', key('redisson_lock_token:'), ARGV[1]) end "
         "redis.call('hset', lock, holder, 1) "
         "redis.call('set', tag .. ':' .. holder .. ':rwlock_timeout:1', id(i), 'px', 600000) "
         "put_record(i, 'held', 'read') redis.call('pexpire', lock, 600000)");
}

static void test_many_readers(struct world *w)
{
    fill_readers(w, "readers", READERS);
    assert_int_equal(reply_int(lock_look(w->a, "readers"), "holder_count"), READERS);
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/readers");
    REPEAT(w, 409, .method = "GET", .path = "/v1/locks/readers/fencing-tokens/77777");
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/readers/fencing-tokens/1");
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/readers/fencing-tokens/4999");
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks?limit=1000");
    REPEAT(w, 423, .method = "PUT", .path = "/v1/locks/readers?kind=write",
           .token = token_new(w));
    REPEAT(w, 201, .method = "POST", .path = "/v1/locks/readers?kind=read");
    ONCE(w, 412, .method = "POST", .path = "/v1/locks/readers/force-unlock",
         .headers = {"If-Match: \"77777\""});
    ONCE(w, 200, .method = "POST", .path = "/v1/locks/readers/force-unlock",
         .headers = {"If-Match: \"2500\""});
    expect_status(http(w->a, "GET", "/v1/locks/readers/fencing-tokens/2500", NULL), 409);
    ONCE(w, 200, .method = "POST", .path = "/v1/locks/readers/force-unlock");
    assert_false(redis_has(w->redis, "readers"));
}

/* The work of a search for a fencing token, and of a force-unlock, has an end. */
static void test_very_many_readers(struct world *w)
{
    const char *token = "/v1/locks/crowd/fencing-tokens/77777";

    fill_readers(w, "crowd", 2 * READERS);
    wait_until(front_ready(w->a), 5000); /* after a script of some length */
    struct reply *r = http(w->a, "GET", token, NULL);
    expect_problem(r, 429, "limit-reached");
    expect_int(r, "limit", READERS);
    ONCE(w, 429, .method = "POST", .path = "/v1/locks/crowd/force-unlock",
         .headers = {"If-Match: \"77777\""});
    ONCE(w, 200, .method = "POST", .path = "/v1/locks/crowd/force-unlock");
    assert_false(redis_has(w->redis, "crowd"));
}

static void test_reads_of_one_owner(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=600000");
    const char *first = token_new(w), *path = "/v1/locks/reads";
    char token[UUID_SIZE];
    struct rest rest;

    expect_status(session_put(w->a, &s, "reads", first, "owner=me&kind=read"), 201);
    rest_init(&rest);
    for (int i = 1; i < OWNER_READS; i++) {
        uuid_make(token);
        assert_int_equal(rest_ask(&rest, w->a->port, "PUT",
                                  "/v1/locks/reads?owner=me&kind=read", token, s.token, NULL),
                         201);
    }
    rest_free(&rest);
    expect_problem(session_put(w->a, &s, "reads", token_new(w), "owner=me&kind=read"), 429,
                   "limit-reached");
    const char *fence = redis_str(w->redis, "GET redisson_lock_token:{reads}");
    REPEAT(w, 200, .method = "GET", .path = path);
    REPEAT(w, 200, .method = "GET", .path = text(w, "%s/fencing-tokens/%s", path, fence));
    REPEAT(w, 409, .method = "GET", .path = text(w, "%s/fencing-tokens/1", path));
    REPEAT(w, 423, .method = "PUT", .path = "/v1/locks/reads?kind=write",
           .token = token_new(w));
    REPEAT(w, 200, .method = "PATCH", .path = "/v1/locks/reads?ttl_ms=900000", .token = first);
    REPEAT(w, 200, .method = "PATCH", .path = "/v1/locks/reads?ttl_ms=30000", .token = first);
    ONCE(w, 200, .method = "DELETE", .path = path, .token = first);
    ONCE(w, 200, .method = "POST", .path = "/v1/locks/reads/force-unlock",
         .headers = {text(w, "If-Match: \"%s\"", fence)});
    assert_false(redis_has(w->redis, "reads"));
}

static void fill_queue(struct world *w, const char *lock)
{
    fill(w, lock, WAITERS,
         "redis.call('rpush', key('redisson_lock_queue:'), id(i) .. ':0') "
         "redis.call('zadd', key('redisson_lock_timeout:'), now + 300000 + i, id(i) .. ':0') "
         "redis.call('zadd', key('rlockd:places:'), now + tonumber(ARGV[1]) * 600, id(i)) "
         "put_record(i, 'waiting', 'fair')");
}

static void test_a_full_queue(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "fair", token, "kind=fair&ttl_ms=600000"), 201);
    fill_queue(w, "fair");
    assert_int_equal(waiter_count(w->a, "fair"), WAITERS);
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/fair");
    REPEAT(w, 409, .method = "GET", .path = "/v1/locks/fair/fencing-tokens/1");
    REPEAT(w, 423, .method = "PUT", .path = "/v1/locks/fair?kind=fair", .token = token_new(w));
    REPEAT(w, 429, .method = "PUT", .path = "/v1/locks/fair?kind=fair&wait_ms=50",
           .token = token_new(w));
    REPEAT(w, 200, .method = "PATCH", .path = "/v1/locks/fair?ttl_ms=600000", .token = token);
    ONCE(w, 200, .method = "DELETE", .path = "/v1/locks/fair", .token = token);
    /* Java clients that died: the requests that come take them out. */
    fill(w, "dead", WAITERS,
         "local holder = string.gsub(id(i), '-5000', '-4000') .. ':1' "
         "redis.call('rpush', key('redisson_lock_queue:'), holder) "
         "redis.call('zadd', key('redisson_lock_timeout:'), i, holder)");
    redisContext *monitor = monitor_start(w);
    for (int i = 0; i < 20 && !redis_has(w->redis, "dead"); i++)
        lock_put(w->a, "dead", token_new(w), "kind=fair");
    assert_true(redis_has(w->redis, "dead"));
    check("the end of all places", monitor_end(w, monitor), NULL);
}

static void test_many_waiters(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "wanted", token, "ttl_ms=600000"), 201);
    fill_waiters(w, "wanted");
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks/wanted");
    REPEAT(w, 423, .method = "PUT", .path = "/v1/locks/wanted", .token = token_new(w));
    REPEAT(w, 429, .method = "PUT", .path = "/v1/locks/wanted?wait_ms=50",
           .token = token_new(w));
    ONCE(w, 200, .method = "DELETE", .path = "/v1/locks/wanted", .token = token);
}

static const char *key_header(struct world *w)
{
    return text(w, "Idempotency-Key: %s", token_new(w));
}

static void test_a_semaphore(struct world *w)
{
    redis_ok(w->redis, "SET semaphore 0");
    fill_waiters(w, "semaphore");
    REPEAT(w, 200, .method = "GET", .path = "/v1/semaphores/semaphore");
    REPEAT(w, 423, .method = "POST", .path = "/v1/semaphores/semaphore/acquire",
           .headers = {key_header(w)});
    REPEAT(w, 429, .method = "POST", .path = "/v1/semaphores/semaphore/acquire?wait_ms=50",
           .headers = {key_header(w)});
    REPEAT(w, 200, .method = "POST", .path = "/v1/semaphores/semaphore/release");
}

static void test_a_latch(struct world *w)
{
    redis_ok(w->redis, "SET latch 1000");
    fill_waiters(w, "latch");
    REPEAT(w, 200, .method = "GET", .path = "/v1/latches/latch");
    REPEAT(w, 429, .method = "GET", .path = "/v1/latches/latch?wait_ms=50");
    REPEAT(w, 200, .method = "POST", .path = "/v1/latches/latch/count-down");
    redis_ok(w->redis, "SET latch 1");
    ONCE(w, 200, .method = "POST", .path = "/v1/latches/latch/count-down");
}

static void fill_permits(struct world *w, const char *name, int ends_in_ms)
{
    redis_ok(w->redis, "SET %s 0", name);
    fill(w, name, PERMITS,
         text(w,
              "local bytes = string.gsub(string.gsub(id(i), '-', ''), '%%x%%x', "
              "  function(hex) return string.char(tonumber(hex, 16)) end) "
              "redis.call('zadd', tag .. ':timeout', now + %d, bytes) "
              "put_record(i, 'held', 'permit')",
              ends_in_ms));
}

static void test_many_permits(struct world *w)
{
    fill_permits(w, "permits", 600000);
    fill_waiters(w, "permits");
    assert_int_equal(
        reply_int(http(w->a, "GET", "/v1/permit-semaphores/permits", NULL), "holder_count"),
        PERMITS);
    REPEAT(w, 200, .method = "GET", .path = "/v1/permit-semaphores/permits");
    REPEAT(w, 423, .method = "PUT", .path = "/v1/permit-semaphores/permits/permit",
           .token = token_new(w));
    REPEAT(w, 429, .method = "PUT", .path = "/v1/permit-semaphores/permits/permit?wait_ms=50",
           .token = token_new(w));
    fill_permits(w, "over", -1000);
    REPEAT(w, 200, .method = "GET", .path = "/v1/permit-semaphores/over");
    ONCE(w, 201, .method = "PUT", .path = "/v1/permit-semaphores/over/permit",
         .token = token_new(w));
}

static void test_several_locks_at_once(struct world *w)
{
    const char *token = token_new(w), *names = "", *locks = "";

    for (int i = 0; i < NAMES; i++) {
        const char *name = text(w, "{set}/%d", i);
        fill_readers(w, name, READERS / NAMES);
        names = text(w, "%s%s%s", names, i > 0 ? " " : "", name);
        locks = text(w, "%s%s\"%s\"", locks, i > 0 ? "," : "", name);
    }
    expect_status(multi_put(w->a, NULL, token, names, ", \"kind\": \"read\""), 201);
    const char *read = text(w, "{\"locks\": [%s], \"kind\": \"read\"}", locks);
    const char *write = text(w, "{\"locks\": [%s], \"kind\": \"write\"}", locks);
    REPEAT(w, 200, .method = "PUT", .path = "/v1/multi-locks", .token = token, .body = read);
    REPEAT(w, 200, .method = "GET", .path = "/v1/multi-locks", .token = token);
    REPEAT(w, 200, .method = "PATCH", .path = "/v1/multi-locks", .token = token);
    REPEAT(w, 423, .method = "PUT", .path = "/v1/multi-locks", .token = token_new(w),
           .body = write);
    ONCE(w, 200, .method = "DELETE", .path = "/v1/multi-locks", .token = token);
}

static void test_a_listing(struct world *w)
{
    for (int i = 0; i < LOCKS; i++)
        redis_ok(w->redis, "HSET many-%d %s 1", i, JAVA_HOLDER);
    for (int i = 0; i < LOCKS; i++)
        redis_ok(w->redis, "PEXPIRE many-%d 600000", i);
    REPEAT(w, 200, .method = "GET", .path = "/v1/locks?limit=1000");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_session_with_many_leases),
        E2E_TEST(test_a_session_with_leases_of_many_locks),
        E2E_TEST(test_many_readers),
        E2E_TEST(test_very_many_readers),
        E2E_TEST(test_reads_of_one_owner),
        E2E_TEST(test_a_full_queue),
        E2E_TEST(test_many_waiters),
        E2E_TEST(test_a_semaphore),
        E2E_TEST(test_a_latch),
        E2E_TEST(test_many_permits),
        E2E_TEST(test_several_locks_at_once),
        E2E_TEST(test_a_listing),
    };
    struct e2e_plan plan = {.name = "bounds", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
