/* What an operator sees: health, metrics, the end. The log: test_log.c. */
#include "harness.h"

#include <signal.h>

static void test_health(struct world *w)
{
    struct reply *r = http(w->a, "GET", "/livez", NULL);

    expect_status(r, 200);
    expect_str(r, "status", "alive");
    r = http(w->a, "GET", "/readyz", NULL);
    expect_status(r, 200);
    expect_str(r, "status", "ready");
    r = http(w->a, "GET", "/version", NULL);
    expect_status(r, 200);
    expect_str(r, "name", "rlockd");
    expect_true(r, strlen(reply_str(r, "version")) > 0);
}

static void test_openapi_is_served(struct world *w)
{
    struct reply *r = http(w->a, "GET", "/openapi.yaml", NULL);
    const char *type = reply_header(w, r, "Content-Type");

    expect_status(r, 200);
    assert_non_null(type);
    assert_non_null(strstr(type, "yaml"));
    assert_non_null(strstr(r->text, "openapi: 3.1"));
    assert_non_null(strstr(r->text, "/v1/locks/{name}"));
}

static void test_metrics_families(struct world *w)
{
    static const char *const families[] = {
        "rlockd_requests_total",
        "rlockd_grants_total",
        "rlockd_releases_total",
        "rlockd_withdrawn_grants_total",
        "rlockd_waits_granted_total",
        "rlockd_wait_duration_seconds",
        "rlockd_unlock_to_grant_seconds",
        "rlockd_redis_round_trip_seconds",
        "rlockd_connections",
        "rlockd_waiters",
    };
    struct reply *r;

    expect_status(lock_put(w->a, "family", token_new(w), NULL), 201);
    r = http(w->a, "GET", "/metrics", NULL);
    expect_status(r, 200);
    assert_non_null(strstr(reply_header(w, r, "Content-Type"), "text/plain"));
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        if (strstr(r->text, text(w, "# TYPE %s ", families[i])) == NULL ||
            strstr(r->text, text(w, "# HELP %s ", families[i])) == NULL)
            FAIL("no metric %s in\n%s", families[i], r->text);
    }
}

static void test_metrics_move(struct world *w)
{
    const char *puts = "method=\"PUT\",route=\"/v1/locks/{name}\"";
    const char *holder = token_new(w), *waiting = token_new(w);
    double created = front_metric(w->a, "rlockd_requests_total",
                                  text(w, "%s,status=\"201\"", puts));
    double busy = front_metric(w->a, "rlockd_requests_total",
                               text(w, "%s,status=\"423\"", puts));
    double grants = front_metric(w->a, "rlockd_grants_total", NULL);
    double releases = front_metric(w->a, "rlockd_releases_total", NULL);
    double waits = front_metric(w->a, "rlockd_wait_duration_seconds_count", NULL);
    double hand_offs = front_metric(w->a, "rlockd_unlock_to_grant_seconds_count", NULL);
    struct call *call;

    expect_status(lock_put(w->a, "move", holder, NULL), 201);
    expect_status(lock_put(w->a, "move", token_new(w), NULL), 423);
    call = call_put(w->a, "move", waiting, "wait_ms=20000");
    wait_until(front_metric(w->a, "rlockd_waiters", NULL) == 1, 5000);
    /* A release before Redis has acknowledged the subscription wakes nobody by a message. */
    wait_until(redis_do(w->redis, "PUBSUB NUMSUB redisson_lock__channel:{move}")
                       ->element[1]
                       ->integer == 1,
               5000);
    assert_true(front_metric(w->a, "rlockd_connections", NULL) >= 2);
    expect_status(lock_release(w->a, "move", holder), 200);
    expect_status(call_await(call, 5000), 201);
    wait_until(front_metric(w->a, "rlockd_waiters", NULL) == 0, 5000);
    assert_true(front_metric(w->a, "rlockd_requests_total",
                             text(w, "%s,status=\"201\"", puts)) == created + 2);
    assert_true(front_metric(w->a, "rlockd_requests_total",
                             text(w, "%s,status=\"423\"", puts)) == busy + 1);
    assert_true(front_metric(w->a, "rlockd_grants_total", NULL) == grants + 2);
    assert_true(front_metric(w->a, "rlockd_releases_total", NULL) == releases + 1);
    assert_true(front_metric(w->a, "rlockd_wait_duration_seconds_count", NULL) >= waits + 1);
    assert_true(front_metric(w->a, "rlockd_unlock_to_grant_seconds_count", NULL) >=
                hand_offs + 1);
    assert_true(front_metric(w->a, "rlockd_redis_round_trip_seconds_count", NULL) > 0);
}

static double page_made(struct world *w)
{
    const char *sample = strstr(http(w->a, "GET", "/metrics", NULL)->text,
                                "\nrlockd_metrics_timestamp_seconds ");

    assert_non_null(sample);
    return strtod(strchr(sample, ' '), NULL);
}

/* Whoever asks for the metrics again and again gets the same page, and a new one only later. */
static void test_metrics_are_made_once_a_second(struct world *w)
{
    double first = page_made(w), second = first;
    int same = 0;

    for (struct patience patience = patience_of(5000); second == first; same++) {
        if (patience_ends(&patience))
            FAIL("no other page after %d", same);
        second = page_made(w);
    }
    /* Again, if the machine stood still while a page was good. */
    for (int times = 0; times < 5 && (times == 0 || same <= 1); times++) {
        second = page_made(w);
        for (first = second, same = 0; second == first; same++)
            second = page_made(w);
    }
    assert_true(same > 1);
    assert_true(second - first > 0.5);
}

/* The harness takes no page for new that was made just before a request. */
static void test_metrics_count_the_last_request(struct world *w)
{
    for (int i = 0; i < 4; i++) {
        double before = front_metric(w->a, "rlockd_requests_total", "route=\"/version\"");

        expect_status(http(w->a, "GET", "/version", NULL), 200);
        assert_true(front_metric(w->a, "rlockd_requests_total", "route=\"/version\"") ==
                    before + 1);
    }
}

static void test_metrics_hold_no_names(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "secret-name", token, "note=secret-note"), 201);
    expect_status(http(w->a, "GET", "/no/such/secret-path", NULL), 404);
    r = http(w->a, "GET", "/metrics", NULL);
    expect_true(r, strstr(r->text, "secret") == NULL);
    expect_true(r, strcasestr(r->text, token) == NULL);
}

static void check_drain(struct world *w, int signo)
{
    enum { WAITERS = 20 };
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    const char *lock = text(w, "drain/%d", signo);
    const char *holder = token_new(w);
    struct call *calls[WAITERS];

    expect_status(lock_put(fe, lock, holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < WAITERS; i++)
        calls[i] = call_put(fe, lock, token_new(w), "wait_ms=50000");
    wait_until(waiter_count(w->a, lock) == WAITERS, 5000);
    child_signal(fe->child, signo);
    for (int i = 0; i < WAITERS; i++) {
        struct reply *r = call_await(calls[i], 5000);

        expect_problem(r, 503, "draining");
        expect_str(r, "outcome", "not-executed");
    }
    assert_int_equal(child_wait(fe->child, 8000), 0);
    fe->ended = true;
    /* It leaves no waiter behind, and the lease it gave goes on. */
    wait_until(waiter_count(w->a, lock) == 0, 2000);
    expect_status(lock_put(w->a, lock, holder, NULL), 200);
    expect_status(lock_release(w->a, lock, holder), 200);
    stays_true(!redis_has(w->redis, lock), 200);
}

static void test_drain(struct world *w)
{
    check_drain(w, SIGTERM);
    check_drain(w, SIGINT);
}

static void test_drain_with_idle_connections(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    struct raw *idle = raw_open(fe), *kept = raw_open(fe);

    raw_text(kept, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(raw_reply(kept, 5000)->status, 200);
    raw_text(idle, "GET /livez HTT");
    front_stop(fe);
    assert_true(raw_closed(idle, 1000));
    assert_true(raw_closed(kept, 1000));
}

static void test_two_workers(struct world *w)
{
    enum { CALLS = 24 };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--workers", "2", NULL);
    struct call *calls[CALLS];
    const char *holder = token_new(w), *tokens[CALLS];
    int left = CALLS;

    expect_status(lock_put(fe, "workers", holder, "ttl_ms=60000"), 201);
    for (int i = 0; i < CALLS; i++) {
        tokens[i] = token_new(w);
        calls[i] = call_put(fe, "workers", tokens[i], "wait_ms=50000");
    }
    wait_until(waiter_count(fe, "workers") == CALLS, 5000);
    expect_status(lock_release(fe, "workers", holder), 200);
    for (struct patience patience = patience_of(10000);
         left > 0 && !patience_ends(&patience);) {
        for (int i = 0; i < CALLS; i++) {
            if (calls[i] == NULL || !call_done(calls[i]))
                continue;
            expect_status(call_await(calls[i], 0), 201);
            expect_status(lock_release(fe, "workers", tokens[i]), 200);
            calls[i] = NULL;
            left--;
        }
        nap_ms(1);
    }
    assert_int_equal(left, 0);
    assert_true(front_metric(fe, "rlockd_grants_total", NULL) == CALLS + 1);
    assert_true(front_metric(fe, "rlockd_passed_releases_total", NULL) > 0);
}

/* SIGTERM in the middle of hand-overs from worker to worker: every request is answered, and
 * nobody is left in the lock. */
static void test_two_workers_stop(struct world *w)
{
    enum { CALLS = 16, ROUNDS = 4 };

    for (int round = 0; round < ROUNDS; round++) {
        struct front *fe = front_start(w, "--redis", w->redis->url, "--workers", "2", NULL);
        const char *holder = token_new(w), *tokens[CALLS];
        struct call *calls[CALLS], *release;
        const char *lock = text(w, "stopped-%d", round);

        expect_status(lock_put(fe, lock, holder, "ttl_ms=60000"), 201);
        for (int i = 0; i < CALLS; i++) {
            tokens[i] = token_new(w);
            calls[i] = call_put(fe, lock, tokens[i], "wait_ms=50000");
        }
        wait_until(waiter_count(fe, lock) == CALLS, 5000);
        release = CALL(fe, .method = "DELETE", .path = text(w, "/v1/locks/%s", lock),
                       .token = holder);
        nap_ms(round);
        front_stop(fe);
        struct reply *r = call_await(release, 1000);
        assert_true(r->status == 200 || r->status == 503);
        for (int i = 0; i < CALLS; i++) {
            r = call_await(calls[i], 1000);
            assert_true(r->status == 201 || r->status == 503);
            lock_release(w->a, lock, tokens[i]);
        }
        lock_release(w->a, lock, holder);
        assert_false(redis_has(w->redis, lock));
        expect_int(lock_look(w->a, lock), "waiter_count", 0);
    }
}

static void test_port_in_use(struct world *w)
{
    const char *const args[] = {"--listen", text(w, "127.0.0.1:%d", w->a->port), "--redis",
                                w->redis->url, NULL};
    struct child *child = rlockd_start(w, args, NULL);

    assert_int_equal(child_wait(child, 5000), 1);
    assert_non_null(strstr(child_stderr(child), text(w, "127.0.0.1:%d", w->a->port)));
}

/* The id of the newest connection that sends commands. */
static long long newest_client(struct redis *redis)
{
    const char *list = redis_str(redis, "CLIENT LIST TYPE normal");
    long long newest = 0;

    for (const char *at = list; (at = strstr(at, "id=")) != NULL; at += 3) {
        const char *line_end = at + strcspn(at, "\n"), *name = strstr(at, "name=rlockd ");

        if (name != NULL && name < line_end && atoll(at + 3) > newest)
            newest = atoll(at + 3);
    }
    return newest;
}

/* One of two workers finds no Redis: a client may get that one. */
static void test_ready_is_every_worker(struct world *w)
{
    skip_on_masters(w); /* ready while some master serves */
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, "--workers", "2", NULL);

    wait_until(front_metric(fe, "rlockd_redis_up", NULL) == 2, 5000);
    redis_ok(redis, "CONFIG SET maxclients 4"); /* of five */
    redis_do(redis, "CLIENT KILL ID %lld", newest_client(redis));
    wait_until(front_metric(fe, "rlockd_redis_up", NULL) == 1, 5000);
    assert_true(front_metric(fe, "rlockd_workers", NULL) == 2);
    for (int i = 0; i < 20; i++)
        expect_problem(http(fe, "GET", "/readyz", NULL), 503, "redis-unavailable");
    redis_ok(redis, "CONFIG SET maxclients 100");
    wait_until(front_ready(fe), 5000);
    assert_true(front_metric(fe, "rlockd_redis_up", NULL) == 2);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_health),
        E2E_TEST(test_openapi_is_served),
        E2E_TEST(test_metrics_families),
        E2E_TEST(test_metrics_move),
        E2E_TEST(test_metrics_are_made_once_a_second),
        E2E_TEST(test_metrics_count_the_last_request),
        E2E_TEST(test_metrics_hold_no_names),
        E2E_TEST(test_drain),
        E2E_TEST(test_drain_with_idle_connections),
        E2E_TEST(test_two_workers),
        E2E_TEST(test_two_workers_stop),
        E2E_TEST(test_ready_is_every_worker),
        E2E_TEST(test_port_in_use),
    };
    struct e2e_plan plan = {.name = "operations", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
