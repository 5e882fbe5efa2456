/* Names that are in use as something else: refused, and nothing is changed or half written. */
#include "fair.h"

enum { SOON_MS = 1500 };

/* Every key and its value, but for those of the marker and the census, which every front end
 * refreshes, and the index of queues.
 */
static const char *everything(struct world *w)
{
    return redis_str(w->redis, "EVAL %s 0",
                     "local keys, found = redis.call('keys', '*'), {} table.sort(keys) "
                     "for _, key in ipairs(keys) do "
                     "  local is_kept = key == 'rlockd:marker' or key == 'rlockd:census:{}' "
                     "  if not string.find(key, '^rlockd:queues:') then "
                     "    found[#found + 1] = key .. '=' .. (is_kept and '' or "
                     "      redis.sha1hex(redis.call('dump', key))) "
                     "  end "
                     "end return table.concat(found, ' ')");
}

/* Entries of the index of queues: the watchdog takes those of queues that are gone. */
static long long indexed(struct world *w)
{
    return redis_int(w->redis, "EVAL %s 0",
                     "local sum = 0 "
                     "for _, key in ipairs(redis.call('keys', 'rlockd:queues:*')) do "
                     "  sum = sum + redis.call('zcard', key) "
                     "end return sum");
}

#define refused(request)                                                                       \
    do {                                                                                       \
        const char *before_ = everything(w);                                                   \
        long long indexed_ = indexed(w);                                                       \
        expect_problem(request, 409, "wrong-kind");                                            \
        assert_string_equal(everything(w), before_);                                           \
        assert_true(indexed(w) <= indexed_);                                                   \
    } while (0)

static void test_locks_of_other_kinds(struct world *w)
{
    static const char *const kinds[] = {"lock", "read", "write"};
    const char *fair = fair_hold(w->a, "held-fair", NULL);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *lock = text(w, "held-%s", kinds[i]), *token = token_new(w);
        const char *query = text(w, "kind=%s&ttl_ms=60000", kinds[i]);

        expect_status(lock_put(w->a, lock, token, query), 201);
        refused(fair_put(w->b, lock, token_new(w), NULL));
        refused(fair_put(w->b, lock, token_new(w), "wait_ms=1000"));
        refused(lock_put(w->b, "held-fair", token_new(w), query));
        refused(lock_put(w->b, "held-fair", token_new(w), text(w, "%s&wait_ms=1000", query)));
        expect_problem(lock_put(w->b, "held-fair", fair, query), 422, "token-reused");
        expect_problem(fair_put(w->b, lock, token, NULL), 422, "token-reused");
        expect_status(lock_release(w->a, lock, token), 200);
        expect_status(fair_put(w->a, lock, token_new(w), NULL), 201);
    }
    /* Whoever waits for it makes it a fair lock, also while it is free. */
    fair_put(w->a, "held-fair", token_new(w), "wait_ms=50");
    /* The waiter leaves after its answer, and its place stays. */
    wait_until(!redis_has(w->redis, "rlockd:waiters:{held-fair}"), SOON_MS);
    expect_status(lock_release(w->a, "held-fair", fair), 200);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        refused(lock_put(w->b, "held-fair", token_new(w),
                         text(w, "wait_ms=1000&kind=%s", kinds[i])));
}

/* A plain lock that Java holds may be a fair one as well; with a queue it is one. */
static void test_java_holders(struct world *w)
{
    assert_true(redisson_lock(w->redis, "java", JAVA_HOLDER, 60000));
    expect_problem(lock_put(w->a, "java", token_new(w), NULL), 423, "locked");
    expect_problem(fair_put(w->a, "java", token_new(w), NULL), 423, "locked");
    struct call *call = fair_park(w->b, "java", token_new(w), "wait_ms=30000");
    refused(lock_put(w->a, "java", token_new(w), NULL));
    assert_int_equal(java_fair_unlock(w->redis, "java", JAVA_HOLDER), 1);
    expect_status(call_await(call, SOON_MS), 201);
}

static void test_other_objects(struct world *w)
{
    static const char *const commands[] = {
        "SET other 1",
        "RPUSH other x",
        "ZADD other 1 x",
        "HSET other field value",
        "HSET other 11111111-1111-4111-8111-111111111111:1 1 more 1",
        "SADD other x"};

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        redis_ok(w->redis, commands[i]);
        refused(fair_put(w->a, "other", token_new(w), NULL));
        refused(fair_put(w->b, "other", token_new(w), "wait_ms=1000"));
        redis_ok(w->redis, "DEL other");
    }
    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/semaphores/other?permits=2"), 201);
    refused(fair_put(w->a, "other", token_new(w), "wait_ms=1000"));
    redis_ok(w->redis, "SET redisson_lock_token:{counter} x");
    redis_ok(w->redis, "DEL redisson_lock_token:{counter}");
    redis_ok(w->redis, "RPUSH redisson_lock_token:{counter} x");
    refused(fair_put(w->a, "counter", token_new(w), NULL));
    assert_false(redis_has(w->redis, "counter"));
}

/* The queue's own keys are something else: whether the lock is free or held. */
static void test_keys_of_the_queue(struct world *w)
{
    for (int held = 0; held < 2; held++) {
        for (int which = 0; which < 2; which++) {
            const char *lock = text(w, "queue-%d-%d", held, which);
            const char *key = which ? fair_times(w, lock) : fair_queue(w, lock);
            const char *token = held ? fair_hold(w->a, lock, NULL) : NULL;

            redis_ok(w->redis, "SET %s x", key);
            refused(fair_put(w->a, lock, token_new(w), NULL));
            refused(fair_put(w->b, lock, token_new(w), "wait_ms=1000"));
            if (!held)
                continue;
            expect_status(lock_renew(w->b, lock, token, "ttl_ms=50000"), 200);
            expect_status(lock_release(w->b, lock, token), 200);
            assert_false(redis_has(w->redis, lock));
            assert_string_equal(redis_str(w->redis, "GET %s", key), "x");
        }
    }
}

/* Somebody puts something else in the place of a held lock: its session hears that it is lost,
 * and the watchdog goes on with all others. */
static void test_a_held_lock_becomes_something_else(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL);
    struct reply *r;

    session_hold(fe, &s, "becomes", "kind=fair");
    session_hold(fe, &s, "stays", "kind=fair");
    redis_ok(w->redis, "SET becomes x");
    wait_until(losses_len(r = keep_alive(fe, &s, NULL)) == 1, 3000);
    expect_loss(r, "becomes", "expired");
    stays_true(redis_has(w->redis, "stays"), 2 * watchdog_ms());
    assert_string_equal(redis_str(w->redis, "GET becomes"), "x");
    expect_status(session_end(fe, &s), 200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_locks_of_other_kinds),
        E2E_TEST(test_java_holders),
        E2E_TEST(test_other_objects),
        E2E_TEST(test_keys_of_the_queue),
        E2E_TEST(test_a_held_lock_becomes_something_else),
    };
    struct e2e_plan plan = {.name = "fair-kinds", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
