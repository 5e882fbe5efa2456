/* Who holds and waits, and since when: `caller` and `held_ms` in looks, listings, refusals,
 * sessions and permits. */
#include "counters.h"
#include "harness_session.h"

#define CI_TOKEN "ci-secret-aaaaaaaaaa"
#define OPS_TOKEN "ops-secret-bbbbbbbbbb"
#define JAVA "44444444-4444-4444-8444-444444444444:1"

enum { PAUSE_MS = 60, LONG_MS = 600000, SOON_MS = 5000 };

static struct front *guarded(struct world *w)
{
    return front_start(w, "--redis", w->redis->url, "--api-tokens",
                       tokens_write(w, "tokens",
                                    "ci {" CI_TOKEN "} lock=* read=*\n"
                                    "ops {" OPS_TOKEN "} lock=* read=* operate=*\n"),
                       NULL);
}

static struct reply *as(struct front *fe, const char *api_token, const char *method,
                        const char *path, const char *token, const char *session)
{
    return HTTP(fe, .method = method, .path = path, .token = token,
                .headers = {bearer(fe->world, api_token), session});
}

/* NULL stands for a member that must be missing. */
static void expect_member(const json_t *json, const char *name, const char *value)
{
    const char *found = json_string_value(json_object_get(json, name));

    if (value == NULL ? json_object_get(json, name) != NULL
                      : found == NULL || strcmp(found, value) != 0) {
        char *text = json_dumps(json, JSON_COMPACT);
        FAIL("%s is not %s in %s", name, value != NULL ? value : "missing", text);
    }
}

/* Held for PAUSE_MS at least, and not for as long as the test may last. Redis' clock, as the
 * front end reckons it, may be a millisecond behind. */
static void expect_held(const json_t *json)
{
    int64_t held_ms = json_integer_value(json_object_get(json, "held_ms"));

    if (held_ms < PAUSE_MS - 1 || held_ms > LONG_MS)
        FAIL("held_ms is %lld", (long long)held_ms);
}

static void expect_holder(const json_t *json, const char *caller, const char *note)
{
    expect_member(json, "caller", caller);
    expect_member(json, "note", note);
    expect_held(json);
}

static const json_t *first_of(const struct reply *r, const char *name)
{
    expect_status(r, 200);
    return json_array_get(reply_get(r, name), 0);
}

/* Of each kind, by each way to a lease, with a note and without it. */
static void test_each_kind(struct world *w)
{
    static const struct {
        const char *name, *query, *note;
        bool is_post;
    } rows[] = {
        {"who-post", "?", NULL, true},
        {"who-note", "?note=build+17", "build 17", false},
        {"who-fair", "?kind=fair", NULL, false},
        {"who-read", "?kind=read&note=r", "r", false},
        {"who-write", "?kind=write", NULL, false},
    };
    struct front *fe = guarded(w);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *path = text(w, "/v1/locks/%s", rows[i].name);
        const char *ask = text(w, "%s%s&ttl_ms=60000", path, rows[i].query);
        const char *token = rows[i].is_post ? NULL : token_new(w);
        struct reply *r = as(fe, CI_TOKEN, token ? "PUT" : "POST", ask, token, NULL);
        expect_status(r, 201);
        token = token != NULL ? token : reply_str(r, "lease_token");
        nap_ms(PAUSE_MS);
        r = as(fe, OPS_TOKEN, "GET", path, NULL, NULL);
        expect_holder(first_of(r, "holders"), "ci", rows[i].note);
        r = as(fe, OPS_TOKEN, "PUT",
               text(w, "%s?kind=%s", path,
                    i == 2  ? "fair"
                    : i < 2 ? "lock"
                            : "write"),
               token_new(w), NULL);
        expect_problem(r, 423, "locked");
        expect_holder(reply_get(r, "holder"), "ci", rows[i].note);
        /* A renewal by another caller does not change who acquired the lease. */
        r = as(fe, OPS_TOKEN, "PATCH", text(w, "%s?ttl_ms=50000", path), token, NULL);
        expect_status(r, 200);
        expect_member(r->json, "note", rows[i].note);
        r = as(fe, OPS_TOKEN, "GET", path, NULL, NULL);
        expect_holder(first_of(r, "holders"), "ci", rows[i].note);
        r = as(fe, OPS_TOKEN, "GET", text(w, "/v1/locks?prefix=%s", rows[i].name), NULL, NULL);
        expect_holder(json_array_get(json_object_get(first_of(r, "locks"), "holders"), 0), "ci",
                      rows[i].note);
        expect_status(as(fe, CI_TOKEN, "DELETE", path, token, NULL), 200);
    }
}

/* A lease with a session, one of an owner, one of several locks, and a permit. */
static void test_sessions(struct world *w)
{
    static const char *const asked[] = {"/v1/locks/own-plain?note=n",
                                        "/v1/locks/own-owner?owner=me",
                                        "/v1/multi-locks?locks=%7Bown%7D1&locks=%7Bown%7D2",
                                        "/v1/permit-semaphores/own-permit/permit"};
    const char *session = text(w, "Session-Token: %s", token_new(w));
    struct front *fe = guarded(w);
    struct reply *r = as(fe, CI_TOKEN, "POST", "/v1/sessions?ttl_ms=60000&name=host/7", NULL,
                         session);
    const char *path = text(w, "/v1/sessions/%s", reply_str(r, "session_id"));

    expect_status(
        as(fe, CI_TOKEN, "PUT", "/v1/permit-semaphores/own-permit?permits=1", NULL, NULL), 201);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        expect_status(as(fe, CI_TOKEN, "PUT", asked[i], token_new(w), session), 201);
    nap_ms(PAUSE_MS);
    r = as(fe, OPS_TOKEN, "GET", path, NULL, NULL);
    expect_status(r, 200);
    assert_int_equal(json_array_size(reply_get(r, "leases")), COUNT_OF(asked));
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        const json_t *lease = json_array_get(reply_get(r, "leases"), i);
        expect_member(lease, "caller", "ci");
        expect_held(lease);
    }
    r = as(fe, CI_TOKEN, "POST", text(w, "%s/keep-alive", path), NULL, session);
    expect_held(first_of(r, "leases"));
    r = as(fe, OPS_TOKEN, "GET", "/v1/locks/own-owner", NULL, NULL);
    expect_holder(first_of(r, "holders"), "ci", NULL);
    expect_member(first_of(r, "holders"), "session_name", "host/7");
    r = as(fe, OPS_TOKEN, "PUT", "/v1/locks/own-owner", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_holder(reply_get(r, "holder"), "ci", NULL);
    expect_member(reply_get(r, "holder"), "session_name", "host/7");
    r = as(fe, OPS_TOKEN, "PUT", "/v1/locks/%7Bown%7D2", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_holder(reply_get(r, "holder"), "ci", NULL);
    r = as(fe, OPS_TOKEN, "GET", "/v1/permit-semaphores/own-permit", NULL, NULL);
    expect_holder(first_of(r, "holders"), "ci", NULL);
}

static void test_waiters(struct world *w)
{
    static const char *const kinds[] = {"lock", "fair"};
    struct front *fe = guarded(w);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *path = text(w, "/v1/locks/wait-%s", kinds[i]), *token = token_new(w);
        const char *ask = text(w, "%s?ttl_ms=60000&kind=%s", path, kinds[i]);
        expect_status(as(fe, CI_TOKEN, "PUT", ask, token, NULL), 201);
        struct call *waiting = CALL(fe, .method = "PUT",
                                    .path = text(w, "%s&wait_ms=30000&note=w", ask),
                                    .token = token_new(w), .headers = {bearer(w, OPS_TOKEN)});
        struct reply *r;
        wait_until(json_array_size(reply_get(r = as(fe, CI_TOKEN, "GET", path, NULL, NULL),
                                             "waiters")) == 1,
                   SOON_MS);
        expect_member(first_of(r, "waiters"), "caller", "ops");
        expect_member(first_of(r, "waiters"), "note", "w");
        /* Handed over, and granted to the waiter as a waiter that tries again is. */
        expect_status(as(fe, CI_TOKEN, "DELETE", path, token, NULL), 200);
        expect_status(call_await(waiting, 20000), 201);
        nap_ms(PAUSE_MS);
        r = as(fe, CI_TOKEN, "GET", path, NULL, NULL);
        expect_holder(first_of(r, "holders"), "ops", "w");
    }
}

/* Nothing says when a Java client got the lock; without API tokens there are no callers. */
static void test_what_is_not_known(struct world *w)
{
    struct reply *r;

    assert_true(redisson_lock(w->redis, "java", JAVA, 60000));
    redis_ok(w->redis, "SET redisson_lock_token:{java} 5");
    r = http(w->a, "GET", "/v1/locks/java", NULL);
    expect_member(first_of(r, "holders"), "redisson_holder", JAVA);
    assert_null(json_object_get(first_of(r, "holders"), "held_ms"));
    r = lock_put(w->a, "java", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    assert_null(json_object_get(reply_get(r, "holder"), "held_ms"));
    expect_status(lock_put(w->a, "anyone", token_new(w), "ttl_ms=60000"), 201);
    nap_ms(PAUSE_MS);
    r = http(w->a, "GET", "/v1/locks/anyone", NULL);
    expect_holder(first_of(r, "holders"), NULL, NULL);
    /* A token that lies ahead of Redis' clock tells no time. */
    redis_ok(w->redis, "SET redisson_lock_token:{anyone} 9000000000000000");
    r = http(w->a, "GET", "/v1/locks/anyone", NULL);
    assert_null(json_object_get(first_of(r, "holders"), "held_ms"));
}

/* The front end's idea of Redis' clock is late by some ms: a grant is not later than that. */
static void test_the_first_moments(struct world *w)
{
    for (int i = 0; i < 100; i++) {
        const char *name = text(w, "first-%d", i);
        expect_status(lock_put(w->a, name, token_new(w), "ttl_ms=60000"), 201);
        struct reply *r = http(w->a, "GET", text(w, "/v1/locks/%s", name), NULL);
        const json_t *held_ms = json_object_get(first_of(r, "holders"), "held_ms");
        if (held_ms == NULL || json_integer_value(held_ms) < 0)
            FAIL("no time held in %s", r->text);
    }
}

/* The lines that front ends wrote that knew no callers. */
static void test_old_records(struct world *w)
{
    struct front *fe = guarded(w);
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "old", token, "ttl_ms=60000&note=before");

    expect_status(r, 201);
    r = as(fe, OPS_TOKEN, "GET", "/v1/locks/old", NULL, NULL);
    expect_member(first_of(r, "holders"), "caller", NULL);
    expect_member(first_of(r, "holders"), "note", "before");
    expect_status(as(fe, OPS_TOKEN, "PATCH", "/v1/locks/old", token, NULL), 200);
    expect_status(as(fe, OPS_TOKEN, "DELETE", "/v1/locks/old", token, NULL), 200);
}

/* More permits, and waiters, than the first script of a look names. */
static void test_many_are_named(struct world *w)
{
    enum { MANY = 20 };
    struct call *calls[MANY];

    expect_status(counter_send(w->a, "PUT", "permit-semaphores/many-permits?permits=40", NULL),
                  201);
    expect_status(lock_put(w->a, "many", token_new(w), "ttl_ms=60000"), 201);
    for (size_t i = 0; i < MANY; i++) {
        expect_status(permit_send(w->a, "PUT",
                                  "permit-semaphores/many-permits/permit?ttl_ms=60000",
                                  token_new(w), NULL),
                      201);
        calls[i] = call_put(w->a, "many", token_new(w), "wait_ms=30000");
    }
    wait_until(waiter_count(w->a, "many") == MANY, 5000);
    struct reply *r = lock_look(w->a, "many");
    assert_int_equal(json_array_size(json_object_get(r->json, "waiters")), MANY);
    r = http(w->a, "GET", "/v1/permit-semaphores/many-permits", NULL);
    assert_int_equal(json_array_size(json_object_get(r->json, "holders")), MANY);
    for (size_t i = 0; i < MANY; i++)
        call_hang_up(calls[i]);
}

/* Places that are over may stand before others in the queue of a fair lock. */
static void test_places_that_are_over_hide_none(struct world *w)
{
    enum { MANY = 12, OVER = 4 };
    struct call *calls[MANY];

    expect_status(lock_put(w->a, "over", token_new(w), "kind=fair&ttl_ms=60000"), 201);
    for (int i = 0; i < MANY; i++) {
        calls[i] = call_put(w->a, "over", token_new(w), "kind=fair&wait_ms=30000");
        wait_until(waiter_count(w->a, "over") == i + 1, 5000);
    }
    struct reply *r = lock_look(w->a, "over");
    assert_int_equal(json_array_size(json_object_get(r->json, "waiters")), MANY);
    for (int i = 0; i < OVER; i++)
        redis_int(w->redis, "ZADD %s 1 %s", "rlockd:places:{over}",
                  reply_str(r, text(w, "waiters.%d.lease_id", i)));
    r = lock_look(w->a, "over");
    expect_int(r, "waiter_count", MANY - OVER);
    assert_int_equal(json_array_size(json_object_get(r->json, "waiters")), MANY - OVER);
    for (int i = 0; i < MANY; i++)
        call_hang_up(calls[i]);
}

/* Where the network to Redis takes its time, one look at a time would be a few hundred a
 * second. */
static void test_looks_do_not_wait_for_each_other(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), NULL);
    struct session s = session_new(fe, NULL);
    const char *paths[] = {"/v1/locks/beside", "/v1/permit-semaphores/beside-permits",
                           text(w, "/v1/sessions/%s", s.id), "/v1/locks/beside"};
    struct call *calls[COUNT_OF(paths)];

    expect_status(lock_put(fe, "beside", token_new(w), "ttl_ms=60000"), 201);
    expect_status(counter_send(fe, "PUT", "permit-semaphores/beside-permits?permits=1", NULL),
                  201);
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        expect_status(http(fe, "GET", paths[i], NULL), 200); /* Redis has the scripts */
    proxy_set(proxy, PROXY_HOLD);
    long long before = redis_calls(redis, "evalsha");
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        calls[i] = CALL(fe, .method = "GET", .path = paths[i]);
    /* The watchdog's scripts may be among them. */
    wait_until(redis_calls(redis, "evalsha") - before >= (long long)COUNT_OF(paths), SOON_MS);
    proxy_set(proxy, PROXY_PASS);
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        call_await(calls[i], SOON_MS); /* 503 where the machine stood still for 2 s */
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_each_kind),
        E2E_TEST(test_sessions),
        E2E_TEST(test_waiters),
        E2E_TEST(test_old_records),
        E2E_TEST(test_what_is_not_known),
        E2E_TEST(test_the_first_moments),
        E2E_TEST(test_many_are_named),
        E2E_TEST(test_looks_do_not_wait_for_each_other),
        E2E_TEST(test_places_that_are_over_hide_none),
    };
    struct e2e_plan plan = {.name = "holders", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
