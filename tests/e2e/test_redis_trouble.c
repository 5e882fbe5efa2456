/* Redis that is not there, dies, stalls, refuses to write: definite answers, nothing left. */
#include "harness.h"

enum {
    RECOVER_MS = 6000, /* reconnect with back-off, and a little */
    DEADLINE_MS = 3500 /* how long a request may wait for Redis */
};

/* A Redis and a front end for one test to ruin. */
struct pair {
    struct redis *redis;
    struct front *fe;
};

static struct pair pair_start(struct world *w)
{
    struct pair pair;

    pair.redis = redis_start(w, NULL);
    pair.fe = front_start(w, "--redis", pair.redis->url, NULL);
    return pair;
}

static void expect_not_executed(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
}

static void test_not_there_at_start(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe;
    struct reply *r;

    redis_kill(redis);
    fe = front_launch(w, "--redis", redis->url, NULL);
    r = http(fe, "GET", "/readyz", NULL);
    expect_status(r, 503);
    expect_str(r, "type", "urn:rlockd:problem:redis-unavailable");
    expect_status(http(fe, "GET", "/livez", NULL), 200);
    expect_not_executed(lock_put(fe, "early", token_new(w), NULL));
    expect_not_executed(lock_put(fe, "early", token_new(w), "wait_ms=20000"));
    expect_not_executed(lock_release(fe, "early", token_new(w)));
    expect_not_executed(lock_look(fe, "early"));
    expect_not_executed(http(fe, "GET", "/v1/locks", NULL));
    redis_return(redis);
    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(lock_put(fe, "early", token_new(w), NULL), 201);
}

static void test_restart_keeps_the_waiters(struct world *w)
{
    struct pair p = pair_start(w);
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(p.fe, "restart", holder, "ttl_ms=60000"), 201);
    call = call_put(p.fe, "restart", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(p.fe, "restart") == 1, 5000);
    redis_kill(p.redis);
    wait_until(!front_ready(p.fe), 3000);
    expect_not_executed(lock_put(p.fe, "other", token_new(w), NULL));
    assert_false(call_done(call));
    redis_return(p.redis);
    wait_until(front_ready(p.fe), RECOVER_MS);
    expect_status(lock_put(p.fe, "restart", holder, NULL), 200);
    assert_false(call_done(call));
    expect_status(lock_release(p.fe, "restart", holder), 200);
    expect_status(call_await(call, 2000), 201);
}

static void test_lost_data_is_noticed_by_waiters(struct world *w)
{
    struct pair p = pair_start(w);
    const char *holder = token_new(w);
    struct reply *first = lock_put(p.fe, "amnesia", holder, "ttl_ms=60000");
    struct call *call;
    struct reply *r;

    call = call_put(p.fe, "amnesia", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(p.fe, "amnesia") == 1, 5000);
    redis_kill(p.redis);
    redis_lose_data(p.redis);
    redis_return(p.redis);
    r = call_await(call, RECOVER_MS + 1000);
    expect_status(r, 201);
    /* S1 holds even so. */
    expect_between(r, "fencing_token", reply_int(first, "fencing_token") + 1, INT64_MAX);
    expect_problem(lock_renew(p.fe, "amnesia", holder, NULL), 410, "lease-ended");
}

/* Requests in flight when Redis dies: every one is answered, and what was not granted for
 * certain is not held in the end. */
static void test_killed_under_load(struct world *w)
{
    enum { CALLS = 150 };
    struct pair p = pair_start(w);
    struct call *calls[CALLS];
    int granted = 0, refused = 0;

    for (int i = 0; i < CALLS; i++) {
        calls[i] = call_put(p.fe, text(w, "load/%d", i), token_new(w), "ttl_ms=600000");
        if (i == CALLS / 2) {
            wait_until(call_done(calls[0]), 5000);
            redis_kill(p.redis);
        }
    }
    for (int i = 0; i < CALLS; i++) {
        struct reply *r = call_await(calls[i], 2 * DEADLINE_MS);

        granted += r->status == 201;
        refused += r->status == 503;
        if (r->status != 201)
            expect_problem(r, 503, "redis-unavailable");
    }
    assert_true(granted > 0 && refused > 0);
    redis_return(p.redis);
    wait_until(front_ready(p.fe), RECOVER_MS);
    for (int i = 0; i < CALLS; i++) {
        const char *lock = text(w, "load/%d", i);

        if (call_await(calls[i], 0)->status == 201)
            assert_true(redis_has(p.redis, lock));
        else
            wait_until(!redis_has(p.redis, lock), 3000);
    }
}

static void test_script_flush_is_not_seen(struct world *w)
{
    struct pair p = pair_start(w);
    const char *holder = token_new(w), *waiting = token_new(w);
    struct call *call;

    for (int i = 0; i < 20; i++) {
        const char *token = token_new(w);

        redis_ok(p.redis, "SCRIPT FLUSH");
        expect_status(lock_put(p.fe, "flush", token, NULL), 201);
        redis_ok(p.redis, "SCRIPT FLUSH");
        expect_status(lock_renew(p.fe, "flush", token, NULL), 200);
        redis_ok(p.redis, "SCRIPT FLUSH");
        expect_status(lock_look(p.fe, "flush"), 200);
        redis_ok(p.redis, "SCRIPT FLUSH");
        expect_status(lock_release(p.fe, "flush", token), 200);
    }
    expect_status(lock_put(p.fe, "flush", holder, NULL), 201);
    call = call_put(p.fe, "flush", waiting, "wait_ms=30000");
    wait_until(waiter_count(p.fe, "flush") == 1, 5000);
    redis_ok(p.redis, "SCRIPT FLUSH");
    expect_status(http(p.fe, "POST", "/v1/locks/flush/force-unlock", NULL), 200);
    expect_status(call_await(call, 2000), 201);
}

static bool redis_is_loading(struct redis *redis)
{
    redisContext *db = redisConnectUnix(redis->socket);
    redisReply *reply = db != NULL && db->err == 0 ? redisCommand(db, "PING") : NULL;
    bool loading = reply != NULL && reply->type == REDIS_REPLY_ERROR &&
                   strncmp(reply->str, "LOADING", 7) == 0;

    if (reply != NULL)
        freeReplyObject(reply);
    if (db != NULL)
        redisFree(db);
    return loading;
}

static void test_loading(struct world *w)
{
    /* 16 MB, in 2 s; Redis answers after each 2 MB. */
    static const char FILL[] = "for i = 1, 4000 do"
                               " redis.call('set', '{filler}:' .. i, ('x'):rep(4096)) end";
    static const char *const slow[] = {"--key-load-delay", "500", NULL};
    skip_on_masters(w); /* fills one server, and starts it with flags of its own */
    struct pair p = pair_start(w);
    const char *token = token_new(w);

    expect_status(lock_put(p.fe, "loading", token, "ttl_ms=600000"), 201);
    redis_ok(p.redis, "EVAL %s 0", FILL);
    redis_ok(p.redis, "CONFIG SET aof-use-rdb-preamble yes");
    redis_ok(p.redis, "CONFIG SET rdbcompression no");
    redis_ok(p.redis, "BGREWRITEAOF");
    wait_until(strstr(redis_str(p.redis, "INFO persistence"), "aof_rewrite_in_progress:0") &&
                   strstr(redis_str(p.redis, "INFO persistence"), "aof_rewrite_scheduled:0"),
               10000);
    redis_kill(p.redis);
    redis_relaunch(p.redis, slow);
    wait_until(redis_is_loading(p.redis) || front_ready(p.fe), 5000);
    for (int i = 0; i < 5; i++) {
        struct reply *r = lock_put(p.fe, "meanwhile", token_new(w), NULL);
        struct reply *ready = http(p.fe, "GET", "/readyz", NULL);

        if (!redis_is_loading(p.redis))
            break;
        expect_not_executed(r);
        expect_status(ready, 503);
    }
    wait_until(front_ready(p.fe), 10000 + RECOVER_MS);
    redis_connect(p.redis);
    expect_status(lock_put(p.fe, "loading", token, NULL), 200);
}

static void test_readonly(struct world *w)
{
    struct pair p = pair_start(w);
    const char *token = token_new(w);

    skip_on_cluster(w); /* a server of a cluster follows none by REPLICAOF */
    expect_status(lock_put(p.fe, "ro", token, "ttl_ms=60000"), 201);
    redis_ok(p.redis, "REPLICAOF 127.0.0.1 1");
    expect_not_executed(lock_put(p.fe, "ro-new", token_new(w), NULL));
    expect_not_executed(lock_renew(p.fe, "ro", token, NULL));
    expect_not_executed(lock_release(p.fe, "ro", token));
    redis_ok(p.redis, "REPLICAOF NO ONE");
    wait_until(lock_put(p.fe, "ro-new", token_new(w), NULL)->status == 201, RECOVER_MS);
    expect_status(lock_release(p.fe, "ro", token), 200);
}

static void test_out_of_memory(struct world *w)
{
    struct pair p = pair_start(w);
    const char *token = token_new(w), *second = token_new(w);
    struct reply *r;

    skip_with_slots(w);
    expect_status(lock_put(p.fe, "oom", token, "ttl_ms=60000"), 201);
    expect_status(lock_put(p.fe, "oom-2", second, "ttl_ms=60000"), 201);
    redis_ok(p.redis, "CONFIG SET maxmemory 1");
    r = lock_put(p.fe, "oom-new", token_new(w), NULL);
    expect_not_executed(r);
    expect_detail(r, "memory");
    assert_false(redis_has(p.redis, "oom-new"));
    expect_status(lock_renew(p.fe, "oom", token, "ttl_ms=50000"), 200);
    expect_status(lock_put(p.fe, "oom", token, NULL), 200);
    expect_status(lock_look(p.fe, "oom"), 200);
    expect_status(lock_release(p.fe, "oom", token), 200);
    assert_false(redis_has(p.redis, "oom"));
    expect_status(http(p.fe, "POST", "/v1/locks/oom-2/force-unlock", NULL), 200);
    assert_false(redis_has(p.redis, "oom-2"));
    redis_ok(p.redis, "CONFIG SET maxmemory 0");
    expect_status(lock_release(p.fe, "oom", token), 200);
    expect_status(lock_put(p.fe, "oom-new", token_new(w), NULL), 201);
}

static void test_stall_is_answered_and_resolved(struct world *w)
{
    struct pair p = pair_start(w);
    const char *lost = token_new(w), *again = token_new(w);
    struct call *first, *second, *look;
    struct reply *r;

    redis_freeze(p.redis);
    first = call_put(p.fe, "stall", lost, "ttl_ms=600000");
    second = call_put(p.fe, "stall-again", again, "ttl_ms=600000");
    look = CALL(p.fe, .method = "GET", .path = "/v1/locks/stall");
    r = call_await(first, DEADLINE_MS);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_problem(call_await(second, DEADLINE_MS), 503, "redis-unavailable");
    expect_problem(call_await(look, DEADLINE_MS), 503, "redis-unavailable");
    expect_status(http(p.fe, "GET", "/livez", NULL), 200);
    redis_thaw(p.redis);
    wait_until(front_ready(p.fe), RECOVER_MS);
    /* Asked again with the same token, it is granted or confirmed, and stays. */
    r = lock_put(p.fe, "stall-again", again, "wait_ms=3000&ttl_ms=600000");
    expect_true(r, r->status == 200 || r->status == 201);
    nap_ms(500);
    wait_until(!redis_has(p.redis, "stall"), RECOVER_MS);
    stays_true(!redis_has(p.redis, "stall") && redis_has(p.redis, "stall-again"), 1000);
    expect_status(lock_put(p.fe, "stall", token_new(w), NULL), 201);
}

static void test_stall_with_waiters(struct world *w)
{
    struct pair p = pair_start(w);
    const char *holder = token_new(w);
    struct call *patient, *hasty;
    struct reply *r;

    expect_status(lock_put(p.fe, "freeze", holder, "ttl_ms=60000"), 201);
    patient = call_put(p.fe, "freeze", token_new(w), "wait_ms=50000");
    hasty = call_put(p.fe, "freeze", token_new(w), "wait_ms=2000");
    wait_until(waiter_count(p.fe, "freeze") == 2, 5000);
    redis_freeze(p.redis);
    /* Its deadline is kept though nobody can say who holds the lock. */
    r = call_await(hasty, 2000 + DEADLINE_MS);
    expect_true(r, r->status == 423 || r->status == 503);
    redis_thaw(p.redis);
    wait_until(lock_release(p.fe, "freeze", holder)->status == 200, RECOVER_MS);
    expect_status(call_await(patient, RECOVER_MS), 201);
}

static void test_stop_while_redis_stalls(struct world *w)
{
    struct pair p = pair_start(w);
    struct call *call;

    redis_freeze(p.redis);
    call = call_put(p.fe, "stop", token_new(w), "wait_ms=30000");
    nap_ms(100);
    front_stop(p.fe);
    expect_status(call_await(call, 1000), 503);
    redis_thaw(p.redis);
}

/* The waiter tries when the lease ends. Whether Redis runs that attempt nobody knows. Redis
 * stands still from a second before: too short to be noticed, on an idle machine. */
static void test_stop_with_an_attempt_under_way(struct world *w)
{
    struct pair p = pair_start(w);
    int64_t ttl_ms = patience_ms(1000) + 1000, granted_ms;
    struct call *call;
    struct reply *r;

    expect_status(lock_put(p.fe, "drain", token_new(w), text(w, "ttl_ms=%d", (int)ttl_ms)),
                  201);
    granted_ms = now_ms();
    call = call_put(p.fe, "drain", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(p.fe, "drain") == 1, 1000);
    nap_ms((int)(granted_ms + ttl_ms - 1000 - now_ms()));
    redis_freeze(p.redis);
    if (now_ms() > granted_ms + ttl_ms - 500 || call_done(call)) {
        redis_thaw(p.redis);
        print_message("the machine was late\n");
        skip();
    }
    nap_ms((int)(granted_ms + ttl_ms + allowed_ms(300) - now_ms()));
    front_stop(p.fe);
    r = call_await(call, 1000);
    expect_status(r, 503);
    expect_str(r, "outcome", "unknown");
    redis_thaw(p.redis);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_not_there_at_start),
        E2E_TEST(test_restart_keeps_the_waiters),
        E2E_TEST(test_lost_data_is_noticed_by_waiters),
        E2E_TEST(test_killed_under_load),
        E2E_TEST(test_script_flush_is_not_seen),
        E2E_TEST(test_loading),
        E2E_TEST(test_readonly),
        E2E_TEST(test_out_of_memory),
        E2E_TEST(test_stall_is_answered_and_resolved),
        E2E_TEST(test_stall_with_waiters),
        E2E_TEST(test_stop_while_redis_stalls),
        E2E_TEST(test_stop_with_an_attempt_under_way),
    };
    struct e2e_plan plan = {.name = "redis-trouble", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
