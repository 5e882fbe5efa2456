/* Permits that are leases, over HTTP and as RPermitExpirableSemaphore has them. */
#include "counters.h"

enum { SOON_MS = 2000, HAND_OVERS_MS = 50 };

#define JAVA_PERMIT "0123456789abcdef"
#define FOR_EVER 922337203685477

static int watchdog_ms(void)
{
    return (int)patience_ms(1500);
}

static void make(struct world *w, const char *name, int permits)
{
    struct reply *r = counter_send(
        w->a, "PUT", text(w, "permit-semaphores/%s?permits=%d", name, permits), NULL);

    expect_status(r, 201);
    expect_int(r, "permits", permits);
    expect_int(r, "available", permits);
}

static struct reply *take(struct front *fe, const char *name, const char *token,
                          const char *query)
{
    return permit_send(
        fe, "PUT", text(fe->world, "permit-semaphores/%s/permit?%s", name, query), token, NULL);
}

static struct reply *give(struct front *fe, const char *name, const char *token)
{
    return permit_send(fe, "DELETE", text(fe->world, "permit-semaphores/%s/permit", name),
                       token, NULL);
}

static struct call *park(struct world *w, struct front *fe, const char *name, const char *token)
{
    const char *path = text(w, "permit-semaphores/%s", name);
    int before = counter_waiters(w->a, path);
    struct call *call = permit_call(fe, text(w, "%s/permit?wait_ms=30000&ttl_ms=60000", path),
                                    token);

    wait_until(counter_waiters(w->a, path) == before + 1, 5000);
    return call;
}

static long long free_in(struct world *w, const char *name)
{
    return counter_value(w->redis, name);
}

static long long held_in(struct world *w, const char *name)
{
    return redis_int(w->redis, "ZCARD {%s}:timeout", name);
}

static const char *session_open(struct front *fe, const char *session, const char *query)
{
    struct reply *r = permit_send(fe, "POST", text(fe->world, "sessions?%s", query), NULL,
                                  session);

    expect_status(r, 201);
    return reply_str(r, "session_id");
}

static struct reply *keep_alive(struct front *fe, const char *session, const char *session_id)
{
    return permit_send(fe, "POST", text(fe->world, "sessions/%s/keep-alive", session_id), NULL,
                       session);
}

static void test_operations(struct world *w)
{
    const char *one = token_new(w), *two = token_new(w), *three = token_new(w);
    struct reply *r;

    make(w, "ops", 2);
    expect_status(counter_send(w->b, "PUT", "permit-semaphores/ops?permits=9", NULL), 200);
    r = take(w->a, "ops", one, "ttl_ms=60000");
    expect_status(r, 201);
    expect_str(r, "permit_semaphore", "ops");
    expect_str(r, "state", "held");
    expect_int(r, "ttl_ms", 60000);
    expect_between(r, "remaining_ms", 50000, 60000);
    expect_bool(r, "watchdog", false);
    expect_int(r, "available", 1);
    expect_status(take(w->b, "ops", one, "ttl_ms=60000"), 200);
    r = take(w->b, "ops", two, "");
    expect_status(r, 201);
    expect_int(r, "ttl_ms", watchdog_ms());
    expect_status(
        permit_send(w->b, "PATCH", "permit-semaphores/ops/permit?ttl_ms=90000", two, NULL),
        200);
    r = take(w->b, "ops", three, "ttl_ms=60000");
    expect_problem(r, 423, "locked");
    expect_between(r, "remaining_ms", 1, 60000);
    r = counter_send(w->a, "GET", "permit-semaphores/ops", NULL);
    expect_int(r, "permits", 2);
    expect_int(r, "available", 0);
    expect_int(r, "holder_count", 2);
    expect_between(r, "holders.1.remaining_ms", 60001, 90000);
    r = give(w->a, "ops", one);
    expect_status(r, 200);
    expect_str(r, "state", "released");
    expect_status(give(w->b, "ops", one), 200);
    expect_problem(take(w->a, "ops", one, ""), 410, "lease-ended");
    expect_problem(permit_send(w->a, "PATCH", "permit-semaphores/ops/permit", one, NULL), 410,
                   "lease-ended");
    assert_int_equal(free_in(w, "ops"), 1);
    expect_problem(give(w->a, "ops", three), 410, "lease-ended");
    expect_problem(take(w->a, "ops", three, ""), 410, "lease-ended"); /* the DELETE won */
    expect_bool(counter_send(w->a, "DELETE", "permit-semaphores/ops", NULL), "deleted", true);
    assert_false(redis_has(w->redis, "{ops}:timeout"));
    expect_problem(counter_send(w->a, "GET", "permit-semaphores/ops", NULL), 404, "not-found");
    expect_problem(give(w->a, "ops", two), 410, "lease-ended");
    assert_false(redis_has(w->redis, "ops"));
}

/* Redisson's keys, byte for byte: the id of a permit is the 16 bytes of its lease_id. */
static void test_layout(struct world *w)
{
    struct listener *listener = listener_start(w->redis, "redisson_sc:{layout}");
    const char *token = token_new(w);
    char id[33] = "";
    struct reply *r;
    redisReply *members;

    make(w, "layout", 3);
    assert_string_equal(listener_next(listener, SOON_MS), "3");
    r = take(w->a, "layout", token, "ttl_ms=60000");
    for (const char *c = reply_str(r, "lease_id"); *c != '\0'; c++)
        if (*c != '-')
            strncat(id, c, 1);
    assert_string_equal(redis_str(w->redis, "GET layout"), "2");
    members = redis_do(w->redis, "ZRANGE {layout}:timeout 0 -1 WITHSCORES");
    assert_int_equal(members->elements, 2);
    assert_int_equal(members->element[0]->len, 16);
    for (size_t i = 0; i < 16; i++) {
        char byte[3];
        snprintf(byte, sizeof(byte), "%02x", (unsigned char)members->element[0]->str[i]);
        assert_memory_equal(byte, id + 2 * i, 2);
    }
    long long left_ms = strtoll(members->element[1]->str, NULL, 10) - redis_epoch_ms(w->redis);
    assert_true(left_ms > 50000 && left_ms <= 60000);
    expect_status(give(w->b, "layout", token), 200);
    assert_string_equal(listener_next(listener, SOON_MS), "3");
    assert_string_equal(redis_str(w->redis, "GET layout"), "3");
    assert_false(redis_has(w->redis, "{layout}:timeout"));
    /* The semaphore's own time is that of its permits, too; a name with a brace has no more. */
    redis_ok(w->redis, "SET t{a}g 1 PX 50000");
    expect_status(take(w->a, "t%7Ba%7Dg", token_new(w), "ttl_ms=60000"), 201);
    assert_true(redis_int(w->redis, "PTTL t{a}g:timeout") > 40000);
}

static void test_java_beside(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;
    struct call *call;

    redis_ok(w->redis, "SET beside 2");
    assert_true(redisson_take_permit(w->redis, "beside", JAVA_PERMIT, FOR_EVER));
    expect_status(take(w->a, "beside", token, "ttl_ms=60000"), 201);
    assert_false(redisson_take_permit(w->redis, "beside", "fedcba9876543210", FOR_EVER));
    r = counter_send(w->b, "GET", "permit-semaphores/beside", NULL);
    expect_int(r, "holder_count", 2);
    expect_str(r, "holders.1.redisson_permit", "30313233343536373839616263646566");
    expect_absent(r, "holders.1.remaining_ms");
    call = park(w, w->b, "beside", token_new(w));
    /* Java gives its permit back. */
    assert_int_equal(redis_int(w->redis, "ZREM {beside}:timeout " JAVA_PERMIT), 1);
    redisson_release(w->redis, "beside", "redisson_sc:{beside}", 1);
    expect_status(call_await(call, SOON_MS), 201);
    /* Only its own token gives a permit back: a Java permit has none. */
    expect_problem(give(w->b, "beside", token_new(w)), 410, "lease-ended");
    assert_int_equal(free_in(w, "beside"), 0);
    assert_int_equal(held_in(w, "beside"), 2);
}

static void test_expired_permits_come_back(struct world *w)
{
    struct listener *listener = listener_start(w->redis, "redisson_sc:{expired}");
    const char *token = token_new(w);
    struct call *call;

    make(w, "expired", 2);
    assert_string_equal(listener_next(listener, SOON_MS), "2");
    /* One of Java's and one of ours; the waiter knows when the first one is over. */
    assert_true(redisson_take_permit(w->redis, "expired", JAVA_PERMIT,
                                     redis_epoch_ms(w->redis) + patience_ms(700)));
    expect_status(take(w->a, "expired", token, "ttl_ms=60000"), 201);
    call = park(w, w->b, "expired", token_new(w));
    expect_status(call_await(call, 700 + SOON_MS), 201);
    assert_string_equal(listener_next(listener, SOON_MS), "1");
    assert_int_equal(held_in(w, "expired"), 2);
    expect_status(
        permit_send(w->a, "PATCH", "permit-semaphores/expired/permit?ttl_ms=100", token, NULL),
        200);
    wait_until(reply_int(counter_send(w->a, "GET", "permit-semaphores/expired", NULL),
                         "available") == 1,
               SOON_MS);
    expect_problem(give(w->a, "expired", token), 410, "lease-ended");
    assert_int_equal(free_in(w, "expired"), 1);
}

/* Waiters, Java's too, sleep as long as they were told that the permit lasts. */
static void test_shorter_renewal_wakes(struct world *w)
{
    struct listener *listener = listener_start(w->redis, "redisson_sc:{shorten}");
    const char *token = token_new(w);
    struct call *call;

    make(w, "shorten", 1);
    assert_string_equal(listener_next(listener, SOON_MS), "1");
    expect_status(take(w->a, "shorten", token, "ttl_ms=60000"), 201);
    call = park(w, w->b, "shorten", token_new(w));
    expect_status(
        permit_send(w->a, "PATCH", "permit-semaphores/shorten/permit?ttl_ms=300", token, NULL),
        200);
    /* Java wakes so many of its threads. */
    assert_string_equal(listener_next(listener, SOON_MS), "1000");
    expect_status(call_await(call, SOON_MS), 201);
}

static void test_waiting(struct world *w)
{
    const char *one = token_new(w), *two = token_new(w), *dropped = token_new(w);
    struct call *calls[4], *call;

    make(w, "waiting", 2);
    expect_status(take(w->a, "waiting", one, "ttl_ms=60000"), 201);
    expect_status(take(w->a, "waiting", two, "ttl_ms=60000"), 201);
    call = park(w, w->a, "waiting", dropped);
    for (int i = 0; i < 4; i++)
        calls[i] = park(w, i % 2 ? w->a : w->b, "waiting", token_new(w));
    /* A DELETE gives up waiting, wherever it comes in. */
    expect_status(give(w->b, "waiting", dropped), 200);
    expect_problem(call_await(call, SOON_MS), 410, "lease-ended");
    call_hang_up(calls[0]);
    call_hang_up(calls[1]);
    wait_until(counter_waiters(w->a, "permit-semaphores/waiting") == 2, SOON_MS);
    expect_status(give(w->a, "waiting", one), 200);
    expect_status(give(w->b, "waiting", two), 200);
    expect_status(call_await(calls[2], SOON_MS), 201);
    expect_status(call_await(calls[3], SOON_MS), 201);
    assert_int_equal(counter_waiters(w->a, "permit-semaphores/waiting"), 0);
    assert_int_equal(free_in(w, "waiting"), 0);
}

/* False: less was handed over than may be. A waiter whose poll is under way is woken as ever.
 */
static bool the_next_waiter_gets_the_permit(struct world *w, const char *name)
{
    const char *holder = token_new(w), *first = token_new(w), *second = token_new(w);
    double before = front_metric(w->a, "rlockd_hand_overs_total", NULL);

    make(w, name, 1);
    expect_status(take(w->a, name, holder, "ttl_ms=60000"), 201);
    struct call *first_call = park(w, w->a, name, first);
    struct call *second_call = park(w, w->a, name, second);
    nap_ms((int)allowed_ms(100)); /* each may be just now in an attempt of its own */
    int64_t began_ms = now_ms();
    expect_status(give(w->a, name, holder), 200);
    struct reply *r = call_await(first_call, SOON_MS);
    expect_status(r, 201);
    expect_int(r, "available", 0);
    expect_between(r, "remaining_ms", 50000, 60000);
    assert_false(call_done(second_call));
    assert_int_equal(held_in(w, name), 1);
    /* Each request again. */
    expect_status(give(w->b, name, holder), 200);
    expect_status(take(w->b, name, first, ""), 200);
    expect_status(give(w->a, name, first), 200);
    expect_status(call_await(second_call, SOON_MS), 201);
    /* After HAND_OVERS_MS a release is open to all clients. */
    bool is_late = now_ms() - began_ms >= HAND_OVERS_MS;
    double handed_over = front_metric(w->a, "rlockd_hand_overs_total", NULL) - before;
    expect_status(give(w->a, name, second), 200);
    assert_int_equal(free_in(w, name), 1);
    assert_int_equal(held_in(w, name), 0);
    return handed_over == 2 || (is_late && handed_over == 1);
}

static void test_the_next_waiter_gets_the_permit(struct world *w)
{
    assert_true(the_next_waiter_gets_the_permit(w, "next") ||
                the_next_waiter_gets_the_permit(w, "next-again") ||
                the_next_waiter_gets_the_permit(w, "next-at-last"));
}

/* The client hangs up when its permit has been granted and the front end does not know yet. */
static void test_the_next_holder_hangs_up(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *holder = token_new(w), *second = token_new(w);

    make(w, "gone", 1);
    expect_status(take(slow.fe, "gone", holder, "ttl_ms=60000"), 201);
    struct call *first_call = park(w, slow.fe, "gone", token_new(w));
    struct call *second_call = park(w, slow.fe, "gone", second);
    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_HOLD);
    struct call *call = CALL(slow.fe, .method = "DELETE",
                             .path = "/v1/permit-semaphores/gone/permit", .token = holder);
    wait_until(counter_waiters(w->a, "permit-semaphores/gone") == 1, SOON_MS);
    assert_int_equal(free_in(w, "gone"), 0);
    call_hang_up(first_call);
    proxy_set(slow.proxy, PROXY_PASS);
    expect_status(call_await(call, 6000), 200);
    expect_status(call_await(second_call, 6000), 201);
    wait_until(front_metric(slow.fe, "rlockd_pending_withdrawals", NULL) == 0, SOON_MS);
    assert_int_equal(held_in(w, "gone"), 1);
    expect_status(give(slow.fe, "gone", second), 200);
    assert_int_equal(free_in(w, "gone"), 1);
    assert_int_equal(held_in(w, "gone"), 0);
}

static void test_a_grant_to_nobody_is_undone(struct world *w)
{
    struct slow slow = slow_start(w);
    const char *told = token_new(w);
    struct call *call;

    make(w, "nobody", 1);
    proxy_set(slow.proxy, PROXY_HOLD);
    call = permit_call(slow.fe, "permit-semaphores/nobody/permit?ttl_ms=60000", token_new(w));
    wait_until(free_in(w, "nobody") == 0, 3000);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    wait_until(free_in(w, "nobody") == 1, SOON_MS);
    assert_int_equal(held_in(w, "nobody"), 0);
    /* Unless another request was told of it. */
    proxy_set(slow.proxy, PROXY_HOLD);
    call = permit_call(slow.fe, "permit-semaphores/nobody/permit?ttl_ms=60000", told);
    wait_until(free_in(w, "nobody") == 0, 3000);
    expect_status(take(w->a, "nobody", told, "ttl_ms=60000"), 200);
    call_hang_up(call);
    proxy_set(slow.proxy, PROXY_PASS);
    stays_true(free_in(w, "nobody") == 0, 1200);
}

static void test_sessions(struct world *w)
{
    const char *session = token_new(w), *watched = token_new(w), *timed = token_new(w);
    const char *id = session_open(w->a, session, "ttl_ms=600000");
    struct reply *r;
    struct call *call;

    make(w, "session", 2);
    r = permit_send(w->a, "PUT", "permit-semaphores/session/permit", watched, session);
    expect_status(r, 201);
    expect_bool(r, "watchdog", true);
    expect_str(r, "session_id", id);
    r = permit_send(w->b, "PUT",
                    text(w, "permit-semaphores/session/permit?%s", ttl_of(w, 2500)), timed,
                    session);
    expect_status(r, 201);
    expect_bool(r, "watchdog", false);
    r = keep_alive(w->b, session, id);
    expect_status(r, 200);
    assert_int_equal(json_array_size(reply_get(r, "leases")), 2);
    expect_str(r, "leases.0.permit_semaphore", "session");
    expect_str(r, "leases.0.kind", "permit");
    expect_status(permit_send(w->b, "PUT", "permit-semaphores/session/permit", watched, NULL),
                  200);
    /* The watchdog keeps the one; the other one ends, and the session is told. */
    wait_until(free_in(w, "session") == 1, 5000);
    stays_true(held_in(w, "session") == 1 && free_in(w, "session") == 1, watchdog_ms() + 500);
    expect_status(
        permit_send(w->b, "PUT", "permit-semaphores/session/permit", watched, session), 200);
    r = keep_alive(w->a, session, id);
    expect_str(r, "lost.0.permit_semaphore", "session");
    expect_str(r, "lost.0.reason", "expired");
    assert_int_equal(json_array_size(reply_get(r, "leases")), 1);
    /* Its end wakes who waits. */
    expect_status(take(w->a, "session", token_new(w), "ttl_ms=60000"), 201);
    call = park(w, w->b, "session", token_new(w));
    r = permit_send(w->a, "DELETE", text(w, "sessions/%s", id), NULL, session);
    expect_int(r, "released", 1);
    expect_status(call_await(call, SOON_MS), 201);
    r = permit_send(w->a, "PUT", "permit-semaphores/session/permit", watched, session);
    expect_problem(r, 410, "session-ended");
    expect_problem(give(w->a, "session", watched), 410, "lease-ended");
}

static void test_a_dead_session(struct world *w)
{
    const char *session = token_new(w);
    struct call *call;
    int64_t dead_ms;

    session_open(w->a, session, ttl_of(w, 1000));
    dead_ms = now_ms() + patience_ms(1000);
    make(w, "dead", 1);
    expect_status(
        permit_send(w->a, "PUT", "permit-semaphores/dead/permit", token_new(w), session), 201);
    call = park(w, w->b, "dead", token_new(w));
    expect_status(call_await(call, 1000 + SOON_MS), 201);
    assert_true(now_ms() - dead_ms < allowed_ms(1000));
}

static void test_a_session_that_waits(struct world *w)
{
    const char *session = token_new(w);
    const char *id = session_open(w->a, session, "ttl_ms=30000");
    struct call *call;

    make(w, "waiter", 1);
    expect_status(take(w->a, "waiter", token_new(w), "ttl_ms=60000"), 201);
    call = CALL(w->b, .method = "PUT",
                .path = "/v1/permit-semaphores/waiter/permit?wait_ms=30000",
                .token = token_new(w), .headers = {text(w, "Session-Token: %s", session)});
    wait_until(counter_waiters(w->a, "permit-semaphores/waiter") == 1, 5000);
    expect_status(permit_send(w->a, "DELETE", text(w, "sessions/%s", id), NULL, session), 200);
    expect_problem(call_await(call, SOON_MS), 410, "session-ended");
    wait_until(counter_waiters(w->a, "permit-semaphores/waiter") == 0, SOON_MS);
}

static void test_lost_messages_and_killed_redis(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *token = token_new(w);
    struct call *call;

    expect_status(counter_send(fe, "PUT", "permit-semaphores/k?permits=1", NULL), 201);
    expect_status(take(fe, "k", token, "ttl_ms=60000"), 201);
    call = permit_call(fe, "permit-semaphores/k/permit?wait_ms=50000", token_new(w));
    wait_until(counter_waiters(fe, "permit-semaphores/k") == 1, 5000);
    redis_kill(redis);
    wait_until(!front_ready(fe), 3000);
    redis_return(redis);
    wait_until(front_ready(fe), 5000);
    assert_false(call_done(call));
    expect_status(take(fe, "k", token, "ttl_ms=60000"), 200);
    redis_do(redis, "CLIENT KILL TYPE pubsub");
    expect_status(give(fe, "k", token), 200);
    expect_status(call_await(call, SOON_MS), 201);
}

static void test_out_of_memory(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *token = token_new(w);

    skip_with_slots(w);
    expect_status(counter_send(fe, "PUT", "permit-semaphores/oom?permits=2", NULL), 201);
    expect_status(take(fe, "oom", token, "ttl_ms=60000"), 201);
    redis_ok(redis, "CONFIG SET maxmemory 1");
    expect_problem(take(fe, "oom", token_new(w), "ttl_ms=60000"), 503, "redis-unavailable");
    expect_problem(take(fe, "no-such", token_new(w), ""), 423, "locked");
    expect_status(take(fe, "oom", token, "ttl_ms=60000"), 200);
    expect_status(
        permit_send(fe, "PATCH", "permit-semaphores/oom/permit?ttl_ms=70000", token, NULL),
        200);
    expect_status(give(fe, "oom", token), 200);
    assert_int_equal(counter_value(redis, "oom"), 2);
    redis_ok(redis, "CONFIG SET maxmemory 0");
}

static struct reply *pre_reboot(struct front *fe, const char *machine)
{
    const char *body = text(fe->world, "{\"client_params\":{\"id\":\"%s\",\"group\":\"g\"}}",
                            machine);

    return HTTP(fe, .method = "POST", .path = "/fleetlock/v1/pre-reboot", .body = body,
                .headers = {"fleet-lock-protocol: true"});
}

/* A machine has one id for ever: what became of its slot spends nothing. */
static void test_a_machine_whose_slot_is_gone(struct world *w)
{
    expect_status(pre_reboot(w->a, "one"), 200);
    expect_status(counter_send(w->a, "DELETE", "permit-semaphores/fleetlock%2Fg", NULL), 200);
    expect_status(pre_reboot(w->b, "one"), 200);
    expect_status(pre_reboot(w->a, "one"), 200);
    expect_problem(pre_reboot(w->a, "two"), 423, "locked");
    redis_ok(w->redis, "DEL {fleetlock/g}:timeout"); /* as a slot whose time is over */
    redis_int(w->redis, "INCR fleetlock/g");
    expect_status(pre_reboot(w->a, "two"), 200);
    expect_problem(pre_reboot(w->a, "one"), 423, "locked");
}

static void test_refusals(struct world *w)
{
    const char *token = token_new(w), *lock = token_new(w);
    struct reply *r;

    make(w, "refused", 2);
    make(w, "other", 2);
    expect_status(take(w->a, "refused", token, "ttl_ms=60000"), 201);
    expect_problem(give(w->a, "other", token), 410, "lease-ended");
    expect_problem(take(w->a, "other", token, ""), 410, "lease-ended");
    expect_problem(lock_release(w->a, "refused", token), 409, "wrong-kind");
    expect_status(lock_put(w->a, "a-lock", lock, "ttl_ms=60000"), 201);
    expect_problem(take(w->a, "a-lock", token_new(w), ""), 409, "wrong-kind");
    expect_problem(counter_send(w->a, "GET", "permit-semaphores/a-lock", NULL), 409,
                   "wrong-kind");
    expect_problem(counter_send(w->a, "PUT", "permit-semaphores/a-lock?permits=1", NULL), 409,
                   "wrong-kind");
    expect_problem(take(w->a, "other", NULL, ""), 400, "malformed-request");
    r = take(w->a, "missing", token_new(w), "");
    expect_problem(r, 423, "locked");
    expect_str(r, "permit_semaphore", "missing");
    expect_detail(r, "no such semaphore");
    make(w, "full", 1);
    expect_status(take(w->a, "full", token_new(w), "ttl_ms=60000"), 201);
    expect_detail(take(w->a, "full", token_new(w), ""), "not enough free permits");
    expect_problem(take(w->a, "other", token_new(w), "ttl_ms=99"), 400, "malformed-request");
    expect_problem(take(w->a, "other", token_new(w), "permits=2"), 400, "malformed-request");
    expect_problem(
        permit_send(w->a, "PATCH", "permit-semaphores/refused/permit?wait_ms=1", token, NULL),
        400, "malformed-request");
    expect_status(lock_release(w->a, "a-lock", lock), 200);
    assert_int_equal(free_in(w, "refused"), 1);
    assert_int_equal(free_in(w, "other"), 2);
}

/* Redis frees a million permits beside other requests. */
static void test_deleted_permits_are_unlinked(struct world *w)
{
    long long before = redis_calls(w->redis, "unlink");

    expect_status(counter_send(w->a, "PUT", "permit-semaphores/many?permits=3", NULL), 201);
    expect_status(take(w->a, "many", token_new(w), ""), 201);
    assert_true(redis_has(w->redis, "{many}:timeout"));
    expect_bool(counter_send(w->a, "DELETE", "permit-semaphores/many", NULL), "deleted", true);
    assert_false(redis_has(w->redis, "{many}:timeout"));
    assert_true(redis_calls(w->redis, "unlink") > before);
}

int main(void)
{
    char timeout[16];
    const char *const flags[] = {"--watchdog-timeout-ms", timeout, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_operations),
        E2E_TEST(test_layout),
        E2E_TEST(test_java_beside),
        E2E_TEST(test_expired_permits_come_back),
        E2E_TEST(test_shorter_renewal_wakes),
        E2E_TEST(test_waiting),
        E2E_TEST(test_the_next_waiter_gets_the_permit),
        E2E_TEST(test_the_next_holder_hangs_up),
        E2E_TEST(test_a_grant_to_nobody_is_undone),
        E2E_TEST(test_sessions),
        E2E_TEST(test_a_dead_session),
        E2E_TEST(test_a_session_that_waits),
        E2E_TEST(test_lost_messages_and_killed_redis),
        E2E_TEST(test_out_of_memory),
        E2E_TEST(test_a_machine_whose_slot_is_gone),
        E2E_TEST(test_refusals),
        E2E_TEST(test_deleted_permits_are_unlinked),
    };
    struct e2e_plan plan = {
        .name = "permit-semaphores", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    snprintf(timeout, sizeof(timeout), "%d", watchdog_ms());
    return e2e_run(&plan);
}
