/* What a held lock leaves in Redis, to the byte, and how Java clients get along with it. */
#include "harness.h"

struct layout {
    const char *name, *key, *channel, *token_key;
};

/* With and without braces in the name: the derived keys differ. */
static const struct layout LAYOUTS[] = {
    {"layout", "layout", "redisson_lock__channel:{layout}", "redisson_lock_token:{layout}"},
    {"app:{42}:x", "app:{42}:x", "redisson_lock__channel:app:{42}:x",
     "redisson_lock_token:app:{42}:x"},
    {"a/b c", "a/b c", "redisson_lock__channel:{a/b c}", "redisson_lock_token:{a/b c}"},
};

static void check_hash(struct world *w, const struct layout *layout, const char *lease_id,
                       int ttl_ms)
{
    redisReply *hash = redis_do(w->redis, "HGETALL %s", layout->key);

    assert_string_equal(redis_str(w->redis, "TYPE %s", layout->key), "hash");
    assert_int_equal(hash->elements, 2);
    assert_string_equal(hash->element[0]->str, text(w, "%s:0", lease_id));
    assert_string_equal(hash->element[1]->str, "1");
    assert_in_range(redis_int(w->redis, "PTTL %s", layout->key), ttl_ms - allowed_ms(2000),
                    ttl_ms);
}

static void check_token_key(struct world *w, const struct layout *layout, json_int_t token)
{
    assert_string_equal(redis_str(w->redis, "TYPE %s", layout->token_key), "string");
    assert_string_equal(redis_str(w->redis, "GET %s", layout->token_key),
                        text(w, "%lld", (long long)token));
    /* --fencing-ttl-ms */
    assert_in_range(redis_int(w->redis, "PTTL %s", layout->token_key), 86000000, 86400000);
}

/* Own keys come with a TTL; and there are no others than these. */
static void check_all_keys(struct world *w, const struct layout *layout)
{
    json_t *keys = redis_keys(w->redis, ""), *key;
    size_t i;

    json_array_foreach(keys, i, key) {
        const char *name = json_string_value(key);

        if (strcmp(name, layout->key) == 0 || strcmp(name, layout->token_key) == 0)
            continue;
        if (strncmp(name, "rlockd:", 7) != 0)
            FAIL("an unexpected key: %s", name);
        if (redis_int(w->redis, "PTTL %s", name) <= 0)
            FAIL("a key of our own without TTL: %s", name);
    }
}

static void check_life(struct world *w, struct front *fe, const struct layout *layout)
{
    struct listener *listener;
    const char *token = token_new(w);
    struct reply *r;

    redis_ok(w->redis, "FLUSHALL");
    listener = listener_start(w->redis, layout->channel);
    r = lock_put(fe, layout->name, token, "ttl_ms=45000");
    expect_status(r, 201);
    check_hash(w, layout, reply_str(r, "lease_id"), 45000);
    check_token_key(w, layout, reply_int(r, "fencing_token"));
    check_all_keys(w, layout);
    expect_status(lock_renew(fe, layout->name, token, "ttl_ms=80000"), 200);
    check_hash(w, layout, reply_str(r, "lease_id"), 80000);
    expect_status(lock_put(fe, layout->name, token, NULL), 200);
    check_hash(w, layout, reply_str(r, "lease_id"), 80000);
    assert_null(listener_next(listener, 50));
    expect_status(lock_release(fe, layout->name, token), 200);
    assert_string_equal(listener_next(listener, 5000), "0");
    assert_false(redis_has(w->redis, layout->key));
    check_token_key(w, layout, reply_int(r, "fencing_token"));
    check_all_keys(w, layout);
    /* The replay says nothing more, and neither does a lost lease. */
    expect_status(lock_release(fe, layout->name, token), 200);
    assert_null(listener_next(listener, 100));
}

static void test_state_of_a_lock(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(LAYOUTS); i++)
        check_life(w, w->a, &LAYOUTS[i]);
}

static void test_state_with_a_key_prefix(struct world *w)
{
    static const struct layout mapped[] = {
        {"basket", "shop:basket", "redisson_lock__channel:{shop:basket}",
         "redisson_lock_token:{shop:basket}"},
        {"b:{7}", "shop:b:{7}", "redisson_lock__channel:shop:b:{7}",
         "redisson_lock_token:shop:b:{7}"},
    };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--key-prefix", "shop:", NULL);

    for (size_t i = 0; i < COUNT_OF(mapped); i++)
        check_life(w, fe, &mapped[i]);
}

static void test_state_with_a_braced_key_prefix(struct world *w)
{
    static const struct layout mapped = {"x", "{t1}:x", "redisson_lock__channel:{t1}:x",
                                         "redisson_lock_token:{t1}:x"};
    struct front *fe = front_start(w, "--redis", w->redis->url, "--key-prefix", "{t1}:", NULL);

    check_life(w, fe, &mapped);
}

static void test_java_is_refused_while_rest_holds(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "mutual", token, NULL), 201);
    assert_false(redisson_lock(w->redis, "mutual", JAVA_HOLDER, 30000));
    assert_false(redisson_fenced_lock(w->redis, "mutual", JAVA_HOLDER, 30000));
    assert_false(redisson_unlock(w->redis, "mutual", JAVA_HOLDER));
    expect_status(lock_put(w->a, "mutual", token, NULL), 200);
    expect_status(lock_release(w->a, "mutual", token), 200);
    assert_true(redisson_lock(w->redis, "mutual", JAVA_HOLDER, 30000));
    expect_problem(lock_put(w->a, "mutual", token_new(w), NULL), 423, "locked");
    assert_true(redisson_lock(w->redis, "mutual", JAVA_HOLDER, 30000)); /* re-entered */
    expect_int(lock_look(w->a, "mutual"), "holders.0.hold_count", 2);
    assert_true(redisson_unlock(w->redis, "mutual", JAVA_HOLDER));
    expect_status(lock_put(w->a, "mutual", token_new(w), NULL), 201);
}

/* A lock taken within a Java transaction: a third part in the holder. */
static void test_java_transactions_are_holders(struct world *w)
{
    const char *holder = JAVA_HOLDER ":9e1c7a52-40b7-4f0e-8d53-6f2b1a90c3d4";

    assert_true(redisson_lock(w->redis, "transaction", holder, 30000));
    expect_str(lock_look(w->a, "transaction"), "holders.0.redisson_holder", holder);
    expect_problem(lock_put(w->a, "transaction", token_new(w), NULL), 423, "locked");
    assert_true(redisson_unlock(w->redis, "transaction", holder));
    expect_status(lock_put(w->a, "transaction", token_new(w), NULL), 201);
}

static void test_fencing_counter_is_shared(struct world *w)
{
    const char *key = "redisson_lock_token:{counter}";
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "counter", token, NULL);
    json_int_t first = reply_int(r, "fencing_token");
    long long java;

    expect_status(lock_release(w->a, "counter", token), 200);
    assert_true(redisson_fenced_lock(w->redis, "counter", JAVA_HOLDER, 30000));
    java = atoll(redis_str(w->redis, "GET %s", key));
    assert_true(java == first + 1);
    assert_true(redisson_unlock(w->redis, "counter", JAVA_HOLDER));
    r = lock_put(w->a, "counter", token_new(w), NULL);
    expect_between(r, "fencing_token", java + 1, INT64_MAX);
    /* A counter that is ahead of the clock is still counted on from. */
    redis_ok(w->redis, "SET redisson_lock_token:{ahead} 8000000000000000");
    r = lock_put(w->a, "ahead", token_new(w), NULL);
    expect_int(r, "fencing_token", 8000000000000001);
    /* A counter that Java began at 1 jumps to the clock. */
    redis_ok(w->redis, "SET redisson_lock_token:{young} 3");
    r = lock_put(w->a, "young", token_new(w), NULL);
    expect_between(r, "fencing_token", 1500000000000000, INT64_MAX);
    assert_string_equal(redis_str(w->redis, "GET redisson_lock_token:{young}"),
                        text(w, "%lld", (long long)reply_int(r, "fencing_token")));
}

static void test_unlock_latches_are_left_alone(struct world *w)
{
    const char *latch = "redisson_unlock_latch:{latched}:0123456789abcdef0123456789abcdef";

    assert_true(redisson_lock(w->redis, "latched", JAVA_HOLDER, 30000));
    assert_true(redisson_unlock(w->redis, "latched", JAVA_HOLDER));
    assert_true(redis_has(w->redis, latch));
    expect_bool(lock_look(w->a, "latched"), "locked", false);
    expect_status(lock_put(w->a, "latched", token_new(w), NULL), 201);
    assert_string_equal(redis_str(w->redis, "GET %s", latch), "1");
    assert_true(redis_int(w->redis, "PTTL %s", latch) > 0);
}

/* A hash without TTL would make Java waiters sleep for ever: we never leave one. */
static void test_a_lock_without_ttl_is_not_taken_over(struct world *w)
{
    struct reply *r;

    redis_ok(w->redis, "HSET no-ttl %s 1", JAVA_HOLDER);
    r = lock_put(w->a, "no-ttl", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_absent(r, "remaining_ms");
    assert_int_equal(redis_int(w->redis, "HLEN no-ttl"), 1);
    expect_status(http(w->a, "POST", "/v1/locks/no-ttl/force-unlock", NULL), 200);
    assert_false(redis_has(w->redis, "no-ttl"));
}

static void test_waiters_leave_nothing_without_ttl(struct world *w)
{
    static const struct layout layout = {"wait", "wait", "redisson_lock__channel:{wait}",
                                         "redisson_lock_token:{wait}"};
    const char *holder = token_new(w);
    struct call *call;

    redis_ok(w->redis, "FLUSHALL");
    expect_status(lock_put(w->a, "wait", holder, "ttl_ms=60000"), 201);
    call = call_put(w->a, "wait", token_new(w), "wait_ms=20000");
    wait_until(waiter_count(w->a, "wait") == 1, 5000);
    wait_until(redis_do(w->redis, "PUBSUB NUMSUB %s", layout.channel)->element[1]->integer == 1,
               5000);
    check_all_keys(w, &layout);
    expect_status(lock_release(w->a, "wait", holder), 200);
    expect_status(call_await(call, 5000), 201);
    check_all_keys(w, &layout);
    /* Nobody waits any more: the subscription ends too, if after a while. */
    wait_until(redis_do(w->redis, "PUBSUB NUMSUB %s", layout.channel)->element[1]->integer == 0,
               20000);
}

static void test_lease_ids_do_not_depend_on_the_server(struct world *w)
{
    struct front *other = front_start(w, "--redis", w->redis->url, NULL);
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "id", token, NULL);

    expect_str(lock_put(other, "id", token, NULL), "lease_id", reply_str(r, "lease_id"));
    expect_str(http(other, "GET", "/v1/locks/id", token), "lease.lease_id",
               reply_str(r, "lease_id"));
}

/* Any client of Redis may write a record: its bytes do not spoil an answer. */
static void test_an_answer_is_utf8(struct world *w)
{
    static const char record[] = "held\n\nw.1\n\n30000\n\xff\n\n\n\n\nlock\n";
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "odd", token, "note=n");

    expect_status(r, 201);
    redis_ok(w->redis, "SET rlockd:lease:{odd}:%s %s PX 60000", reply_str(r, "lease_id"),
             record);
    r = lock_put(w->a, "odd", token, "note=n");
    expect_status(r, 200);
    expect_str(r, "state", "held");
    expect_absent(r, "note");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_state_of_a_lock),
        E2E_TEST(test_state_with_a_key_prefix),
        E2E_TEST(test_state_with_a_braced_key_prefix),
        E2E_TEST(test_java_is_refused_while_rest_holds),
        E2E_TEST(test_java_transactions_are_holders),
        E2E_TEST(test_fencing_counter_is_shared),
        E2E_TEST(test_unlock_latches_are_left_alone),
        E2E_TEST(test_a_lock_without_ttl_is_not_taken_over),
        E2E_TEST(test_waiters_leave_nothing_without_ttl),
        E2E_TEST(test_lease_ids_do_not_depend_on_the_server),
        E2E_TEST(test_an_answer_is_utf8),
    };
    struct e2e_plan plan = {.name = "redis-layout", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
