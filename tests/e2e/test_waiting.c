/* Parked requests on two front ends: what wakes them, what ends them, and in what order. */
#include "harness.h"

#include <unistd.h>

enum {
    SOON_MS = 1000,     /* far below every TTL and poll here */
    POLL_CAP_MS = 7000, /* a lock that went without a message is noticed by then */
    WAITERS_MAX = 12    /* three quarters of --max-connections 16 */
};

/* A waiter that is parked for certain: it is in the listing of the other front end. */
static struct call *park(struct front *fe, const char *lock, const char *token,
                         const char *query)
{
    int before = waiter_count(fe, lock);
    struct call *call = call_put(fe, lock, token, query);

    wait_until(waiter_count(fe->world->b, lock) == before + 1, 5000);
    return call;
}

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
        const char *lock = text(w, "hand/%d", i);
        const char *holder = token_new(w);
        struct call *call;
        struct reply *r;
        int64_t freed;

        expect_status(lock_put(fronts[i & 1], lock, holder, "ttl_ms=60000"), 201);
        call = park(fronts[i >> 1], lock, token_new(w), "wait_ms=30000&ttl_ms=9000");
        freed = now_ms();
        expect_status(lock_release(fronts[i & 1], lock, holder), 200);
        r = call_await(call, 10000);
        expect_soon(r, freed);
        /* The lease begins with the grant, not with the request. */
        expect_int(r, "ttl_ms", 9000);
        expect_true(r, redis_int(w->redis, "PTTL %s", lock) > 9000 - allowed_ms(SOON_MS));
    }
}

static void test_java_unlock_wakes(struct world *w)
{
    struct call *call;
    int64_t freed;

    assert_true(redisson_lock(w->redis, "wake-java", JAVA_HOLDER, 60000));
    call = park(w->a, "wake-java", token_new(w), "wait_ms=30000");
    freed = now_ms();
    assert_true(redisson_unlock(w->redis, "wake-java", JAVA_HOLDER));
    expect_soon(call_await(call, 10000), freed);
}

static void test_raw_message_wakes(struct world *w)
{
    const char *lock = "wake:{raw}:x";
    struct call *call;
    int64_t freed;

    assert_true(redisson_lock(w->redis, lock, JAVA_HOLDER, 60000));
    call = park(w->b, lock, token_new(w), "wait_ms=30000");
    /* A message while it is still held wakes nobody for good. */
    redis_ok(w->redis, "PUBLISH redisson_lock__channel:%s 0", lock);
    stays_true(!call_done(call), 200);
    freed = now_ms();
    redis_ok(w->redis, "DEL %s", lock);
    redis_ok(w->redis, "PUBLISH redisson_lock__channel:%s 0", lock);
    expect_soon(call_await(call, 10000), freed);
}

static void test_force_unlock_wakes(struct world *w)
{
    struct call *call;
    int64_t freed;

    expect_status(lock_put(w->a, "wake-force", token_new(w), "ttl_ms=60000"), 201);
    call = park(w->b, "wake-force", token_new(w), "wait_ms=30000");
    freed = now_ms();
    expect_status(http(w->a, "POST", "/v1/locks/wake-force/force-unlock", NULL), 200);
    expect_soon(call_await(call, 10000), freed);
}

static void test_expiry_wakes(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};

    for (size_t i = 0; i < COUNT_OF(fronts); i++) {
        const char *lock = text(w, "wake-expiry/%zu", i);
        struct call *call;
        struct reply *r;
        int64_t began = now_ms();

        if (i == 0)
            expect_status(lock_put(w->a, lock, token_new(w), "ttl_ms=1200"), 201);
        else
            assert_true(redisson_lock(w->redis, lock, JAVA_HOLDER, 1200));
        call = call_put(fronts[i], lock, token_new(w), "wait_ms=30000");
        r = call_await(call, 10000);
        expect_status(r, 201);
        assert_true(r->done_ms - began >= 1100);
        /* L2: the TTL and a second. */
        assert_true(r->done_ms - began <= 1200 + allowed_ms(SOON_MS));
    }
}

static void test_silent_deletion_is_noticed(struct world *w)
{
    struct call *call;
    int64_t freed;

    expect_status(lock_put(w->a, "wake-poll", token_new(w), "ttl_ms=60000"), 201);
    call = park(w->a, "wake-poll", token_new(w), "wait_ms=30000");
    freed = now_ms();
    redis_ok(w->redis, "DEL wake-poll");
    expect_status(call_await(call, POLL_CAP_MS), 201);
    assert_true(now_ms() - freed <= allowed_ms(POLL_CAP_MS));
}

static void test_shorter_renewal_wakes(struct world *w)
{
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "shorten", holder, "ttl_ms=60000"), 201);
    call = park(w->b, "shorten", token_new(w), "wait_ms=30000");
    expect_status(lock_renew(w->a, "shorten", holder, "ttl_ms=300"), 200);
    expect_status(call_await(call, POLL_CAP_MS), 201);
}

static void test_longer_renewal_keeps_waiting(struct world *w)
{
    const char *holder = token_new(w);
    struct call *call;

    expect_status(lock_put(w->a, "prolong", holder, ttl_of(w, 700)), 201);
    call = park(w->b, "prolong", token_new(w), "wait_ms=30000");
    expect_status(lock_renew(w->a, "prolong", holder, "ttl_ms=60000"), 200);
    stays_true(!call_done(call), patience_ms(700) + 300);
    expect_status(lock_release(w->a, "prolong", holder), 200);
    expect_status(call_await(call, 5000), 201);
}

static void test_wait_ends(struct world *w)
{
    struct reply *held = lock_put(w->a, "timeout", token_new(w), "ttl_ms=60000&note=mine");
    const char *token = token_new(w);
    struct reply *r = lock_put(w->b, "timeout", token, "wait_ms=800");

    expect_problem(r, 423, "locked");
    expect_str(r, "holder.lease_id", reply_str(held, "lease_id"));
    expect_str(r, "holder.note", "mine");
    expect_between(r, "remaining_ms", 1, 60000);
    assert_true(r->done_ms - r->sent_ms >= 780);
    assert_true(r->done_ms - r->sent_ms <= 800 + allowed_ms(SOON_MS));
    wait_until(waiter_count(w->a, "timeout") == 0, SOON_MS);
    /* The token is not spent by a wait in vain. */
    expect_problem(lock_put(w->a, "timeout", token, "wait_ms=100"), 423, "locked");
    /* And nothing is granted afterwards to those who have gone. */
    expect_status(http(w->a, "POST", "/v1/locks/timeout/force-unlock", NULL), 200);
    stays_true(!redis_has(w->redis, "timeout"), 200);
}

static void test_waiters_are_seen_on_both_front_ends(struct world *w)
{
    struct reply *r;

    expect_status(lock_put(w->a, "crowd", token_new(w), "ttl_ms=60000"), 201);
    park(w->a, "crowd", token_new(w), "wait_ms=30000&note=first");
    park(w->b, "crowd", token_new(w), "wait_ms=40000&note=second");
    for (int i = 0; i < 2; i++) {
        r = lock_look(i == 0 ? w->a : w->b, "crowd");
        expect_int(r, "waiter_count", 2);
        expect_true(r, json_array_size(reply_get(r, "waiters")) == 2);
        expect_true(r, strstr(r->text, "first") != NULL && strstr(r->text, "second") != NULL);
        expect_between(r, "waiters.0.remaining_ms", 1, 40000);
        expect_between(r, "waiters.1.waited_ms", 0, 30000);
    }
}

static void test_hang_up_leaves_at_once(struct world *w)
{
    const char *holder = token_new(w);
    struct call *first, *second;
    int64_t freed;

    expect_status(lock_put(w->a, "leave", holder, "ttl_ms=60000"), 201);
    first = park(w->a, "leave", token_new(w), "wait_ms=30000");
    second = park(w->a, "leave", token_new(w), "wait_ms=30000");
    call_hang_up(first);
    wait_until(waiter_count(w->b, "leave") == 1, SOON_MS);
    freed = now_ms();
    expect_status(lock_release(w->b, "leave", holder), 200);
    expect_soon(call_await(second, 10000), freed);
}

static void raw_park(struct world *w, struct raw *raw, const char *lock)
{
    raw_text(raw,
             "PUT /v1/locks/%s?wait_ms=30000 HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n\r\n",
             lock, token_new(w));
    wait_until(waiter_count(w->b, lock) == 1, 5000);
}

static void test_every_kind_of_hang_up(struct world *w)
{
    const char *holder = token_new(w);
    struct raw *raw;

    expect_status(lock_put(w->a, "leave-raw", holder, "ttl_ms=60000"), 201);
    raw = raw_open(w->a);
    raw_park(w, raw, "leave-raw");
    raw_reset(raw);
    wait_until(waiter_count(w->b, "leave-raw") == 0, SOON_MS);
    raw = raw_open(w->a);
    raw_park(w, raw, "leave-raw");
    raw_shut_write(raw);
    wait_until(waiter_count(w->b, "leave-raw") == 0, SOON_MS);
    expect_status(lock_release(w->a, "leave-raw", holder), 200);
    stays_true(!redis_has(w->redis, "leave-raw"), 200);
}

/* While Redis is asked for something else: the request is no waiter yet, and becomes none. */
static void test_hang_up_before_the_wait(struct world *w)
{
    static const char body[] = "{\"client_params\":{\"id\":\"%s\",\"group\":\"gone\"}}";
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *first = text(w, body, "a"), *second = text(w, body, "b");
    struct raw *raw = raw_open(fe);

    expect_status(HTTP(fe, .method = "POST", .path = "/fleetlock/v1/pre-reboot", .body = first,
                       .headers = {"fleet-lock-protocol: true"}),
                  200);
    redis_freeze(redis);
    raw_text(raw,
             "POST /fleetlock/v1/pre-reboot HTTP/1.1\r\nHost: x\r\nPrefer: wait=50\r\n"
             "fleet-lock-protocol: true\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(second), second);
    nap_ms(300);
    raw_reset(raw);
    nap_ms(300);
    redis_thaw(redis);
    wait_until(strstr(front_log(fe), "\"status\":499") != NULL, 5000);
    assert_true(front_metric(fe, "rlockd_waiters", NULL) == 0);
}

/* Whether the answer had reached the client before it went, nobody can tell. Either way the
 * lock is not in limbo: the next waiter has it, or the client that went. */
static void hang_up_in_the_grant(struct world *w, const char *lock, int delay_us)
{
    const char *holder = token_new(w), *token = token_new(w);
    struct call *gone, *next, *release;
    struct patience patience;

    expect_status(lock_put(w->a, lock, holder, "ttl_ms=60000"), 201);
    gone = park(w->a, lock, token, "wait_ms=30000&ttl_ms=60000");
    next = park(w->b, lock, token_new(w), "wait_ms=30000");
    release = CALL(w->b, .method = "DELETE", .path = lock_path(w, lock, ""), .token = holder);
    usleep((useconds_t)delay_us);
    call_hang_up(gone);
    expect_status(call_await(release, 5000), 200);
    patience = patience_of(call_await(gone, 0)->status != 201 ? SOON_MS : 0);
    while (!call_done(next) && !patience_ends(&patience))
        nap_ms(2);
    if (!call_done(next)) {
        expect_str(http(w->a, "GET", lock_path(w, lock, ""), token), "lease.state", "held");
        expect_status(lock_release(w->a, lock, token), 200);
    }
    expect_status(call_await(next, SOON_MS), 201);
}

static void test_hang_up_races_with_the_grant(struct world *w)
{
    enum { ROUNDS = 24, STEP_US = 50 };

    for (int i = 0; i < ROUNDS; i++)
        hang_up_in_the_grant(w, text(w, "race/%d", i), i * STEP_US);
}

static void test_many_are_served_one_by_one(struct world *w)
{
    enum { WAITERS = 50 };
    struct call *calls[WAITERS];
    const char *tokens[WAITERS], *holder = token_new(w);
    json_int_t last_fence = 0;
    bool served[WAITERS] = {false};
    int64_t began;

    expect_status(lock_put(w->a, "queue", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < WAITERS; i++) {
        tokens[i] = token_new(w);
        calls[i] = call_put(i % 2 == 0 ? w->a : w->b, "queue", tokens[i],
                            "wait_ms=50000&ttl_ms=60000");
    }
    wait_until(waiter_count(w->a, "queue") == WAITERS, 10000);
    began = now_ms();
    expect_status(lock_release(w->a, "queue", holder), 200);
    for (int left = WAITERS; left > 0; left--) {
        struct reply *r;
        int granted = -1;

        for (struct patience patience = patience_of(SOON_MS); granted < 0; nap_ms(1)) {
            for (int i = 0; i < WAITERS; i++)
                granted = !served[i] && call_done(calls[i]) ? i : granted;
            if (granted < 0 && patience_fails(&patience))
                FAIL("nobody was granted the lock, %d are left", left);
        }
        r = call_await(calls[granted], SOON_MS);
        expect_status(r, 201);
        expect_between(r, "fencing_token", last_fence + 1, INT64_MAX);
        last_fence = reply_int(r, "fencing_token");
        served[granted] = true;
        for (int i = 0; i < WAITERS; i++)
            assert_true(served[i] || !call_done(calls[i]));
        expect_status(lock_release(granted % 3 == 0 ? w->a : w->b, "queue", tokens[granted]),
                      200);
    }
    assert_true(now_ms() - began < allowed_ms(15000));
    assert_int_equal(waiter_count(w->a, "queue"), 0);
}

static void test_waiters_of_a_killed_front_end_go(struct world *w)
{
    struct front *doomed = front_start(w, "--redis", w->redis->url, NULL);
    const char *holder = token_new(w);
    struct call *lost, *alive;
    int64_t freed;

    expect_status(lock_put(w->a, "orphan", holder, "ttl_ms=60000"), 201);
    lost = call_put(doomed, "orphan", token_new(w), "wait_ms=4000");
    wait_until(waiter_count(w->a, "orphan") == 1, 5000);
    alive = park(w->a, "orphan", token_new(w), "wait_ms=30000");
    front_kill(doomed);
    call_await(lost, 5000);
    freed = now_ms();
    expect_status(lock_release(w->a, "orphan", holder), 200);
    expect_soon(call_await(alive, 10000), freed);
    wait_until(waiter_count(w->b, "orphan") == 0, 8000);
}

static void test_waiter_limit_leaves_room_for_work(struct world *w)
{
    struct front *small = front_start(w, "--redis", w->redis->url, "--max-connections", "16",
                                      NULL);
    const char *holder = token_new(w);

    expect_status(lock_put(small, "full", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < WAITERS_MAX; i++)
        call_put(small, "full", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(w->a, "full") == WAITERS_MAX, 5000);
    expect_problem(lock_put(small, "full", token_new(w), "wait_ms=50000"), 429,
                   "too-many-waiters");
    expect_problem(lock_put(small, "full", token_new(w), NULL), 423, "locked");
    expect_status(lock_put(small, "full-other", token_new(w), "wait_ms=50000"), 201);
    expect_status(lock_renew(small, "full", holder, "ttl_ms=50000"), 200);
    expect_status(lock_look(small, "full"), 200);
    expect_status(http(small, "GET", "/livez", NULL), 200);
    expect_status(lock_release(small, "full", holder), 200);
    wait_until(waiter_count(w->a, "full") == WAITERS_MAX - 1, 2000);
    assert_true(redis_has(w->redis, "full"));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_release_hands_over),
        E2E_TEST(test_java_unlock_wakes),
        E2E_TEST(test_raw_message_wakes),
        E2E_TEST(test_force_unlock_wakes),
        E2E_TEST(test_expiry_wakes),
        E2E_TEST(test_silent_deletion_is_noticed),
        E2E_TEST(test_shorter_renewal_wakes),
        E2E_TEST(test_longer_renewal_keeps_waiting),
        E2E_TEST(test_wait_ends),
        E2E_TEST(test_waiters_are_seen_on_both_front_ends),
        E2E_TEST(test_hang_up_leaves_at_once),
        E2E_TEST(test_every_kind_of_hang_up),
        E2E_TEST(test_hang_up_before_the_wait),
        E2E_TEST(test_hang_up_races_with_the_grant),
        E2E_TEST(test_many_are_served_one_by_one),
        E2E_TEST(test_waiters_of_a_killed_front_end_go),
        E2E_TEST(test_waiter_limit_leaves_room_for_work),
    };
    struct e2e_plan plan = {.name = "waiting", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
