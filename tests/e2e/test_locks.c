/* The operations on one lock: acquire, confirm, renew, release, look. */
#include "harness_session.h"

/* Members and headers that every answer about a held lease has. */
static void check_lease(struct world *w, const struct reply *r, const char *lock)
{
    const char *lease_id = reply_str(r, "lease_id");
    const char *type = reply_header(w, r, "Content-Type");

    expect_str(r, "lock", lock);
    expect_str(r, "kind", "lock");
    expect_str(r, "state", "held");
    expect_int(r, "hold_count", 1);
    expect_bool(r, "watchdog", false);
    expect_between(r, "fencing_token", 1, INT64_MAX);
    expect_true(r, type != NULL && strncmp(type, "application/json", 16) == 0);
    /* UUID version 5: derived from the token, which nobody can get back. */
    expect_true(r, lease_id != NULL && strlen(lease_id) == 36 && lease_id[14] == '5');
}

static void test_put_grants(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "put", token, "ttl_ms=5000");

    expect_status(r, 201);
    check_lease(w, r, "put");
    expect_int(r, "ttl_ms", 5000);
    expect_between(r, "remaining_ms", 1, 5000);
    expect_absent(r, "lease_token");
    expect_absent(r, "note");
    expect_true(r, reply_header(w, r, "Lease-Token") == NULL);
    expect_true(r, strstr(r->text, token) == NULL);
}

static void test_put_defaults_to_the_watchdog_timeout(struct world *w)
{
    struct reply *r = lock_put(w->a, "default", token_new(w), NULL);

    expect_status(r, 201);
    expect_int(r, "ttl_ms", 30000);
    expect_between(r, "remaining_ms", 25000, 30000);
}

static void test_put_takes_fields_of_the_body(struct world *w)
{
    struct reply *r = HTTP(
        w->a, .method = "PUT", .path = "/v1/locks/body", .token = token_new(w),
        .body = "{\"kind\":\"lock\",\"ttl_ms\":7000,\"note\":\"b\xc3\xbc\"}");

    expect_status(r, 201);
    check_lease(w, r, "body");
    expect_int(r, "ttl_ms", 7000);
    expect_str(r, "note", "b\xc3\xbc");
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/empty-body", .token = token_new(w),
             .body = "{}", .type = "application/json; charset=utf-8");
    expect_status(r, 201);
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/both?ttl_ms=6000&kind=lock",
             .token = token_new(w), .body = "{\"note\":\"x\"}");
    expect_status(r, 201);
    expect_int(r, "ttl_ms", 6000);
    expect_str(r, "note", "x");
}

static void test_repeated_put_confirms(struct world *w)
{
    const char *token = token_new(w);
    struct reply *first = lock_put(w->a, "again", token, "ttl_ms=20000&note=n");
    struct reply *r;

    expect_status(first, 201);
    wait_until(redis_int(w->redis, "PTTL again") < 19950, 1000);
    r = lock_put(w->a, "again", token, "ttl_ms=20000&note=n");
    expect_status(r, 200);
    check_lease(w, r, "again");
    expect_str(r, "lease_id", reply_str(first, "lease_id"));
    expect_int(r, "fencing_token", reply_int(first, "fencing_token"));
    expect_str(r, "note", "n");
    /* Nothing is extended. */
    expect_between(r, "remaining_ms", 1, 19950);
    expect_true(r, redis_int(w->redis, "PTTL again") <= 19950);
    expect_true(r, redis_int(w->redis, "HLEN again") == 1);
    assert_string_equal(redis_do(w->redis, "HVALS again")->element[0]->str, "1");
}

static void test_token_is_the_same_in_either_case(struct world *w)
{
    const char *token = token_new(w);
    char *upper = strdup(token);
    struct reply *r;

    for (char *c = upper; *c != '\0'; c++)
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 'a' + 'A' : *c);
    expect_status(lock_put(w->a, "case", token, NULL), 201);
    r = lock_put(w->a, "case", upper, NULL);
    free(upper);
    expect_status(r, 200);
}

static void test_post_makes_the_token(struct world *w)
{
    struct reply *r = http(w->a, "POST", "/v1/locks/post?ttl_ms=9000", NULL);
    const char *token = reply_str(r, "lease_token");

    expect_status(r, 201);
    check_lease(w, r, "post");
    expect_int(r, "ttl_ms", 9000);
    expect_true(r, token != NULL && strlen(token) == 36);
    assert_string_equal(reply_header(w, r, "Lease-Token"), token);
    expect_problem(lock_put(w->a, "post", token_new(w), NULL), 423, "locked");
    /* It is good for all that a client's own token is good for. */
    r = lock_put(w->a, "post", token, NULL);
    expect_status(r, 200);
    expect_str(r, "state", "held");
    expect_status(lock_renew(w->a, "post", token, "ttl_ms=5000"), 200);
    expect_status(lock_release(w->a, "post", token), 200);
    expect_status(lock_release(w->a, "post", token), 200);
}

static void test_post_with_a_token_is_put(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = http(w->a, "POST", "/v1/locks/post-own", token);

    expect_status(r, 201);
    expect_absent(r, "lease_token");
    expect_status(http(w->a, "POST", "/v1/locks/post-own", token), 200);
    expect_status(lock_put(w->a, "post-own", token, NULL), 200);
    expect_true(r, redis_int(w->redis, "HLEN post-own") == 1);
}

static void test_busy_is_refused_with_its_holder(struct world *w)
{
    const char *token = token_new(w);
    struct reply *held = lock_put(w->a, "busy", token, "ttl_ms=9000&note=deploy%20of%20x");
    struct reply *r = lock_put(w->a, "busy", token_new(w), NULL);

    expect_status(held, 201);
    expect_problem(r, 423, "locked");
    expect_str(r, "lock", "busy");
    expect_str(r, "holder.lease_id", reply_str(held, "lease_id"));
    expect_str(r, "holder.note", "deploy of x");
    expect_between(r, "remaining_ms", 1, 9000);
    expect_between(r, "retry_after_ms", 1, 60000);
    expect_true(r, strstr(r->text, token) == NULL);
    /* POST is refused alike, and then no token was made. */
    r = http(w->a, "POST", "/v1/locks/busy", NULL);
    expect_problem(r, 423, "locked");
}

static void test_busy_names_a_java_holder(struct world *w)
{
    struct reply *r;

    assert_true(redisson_lock(w->redis, "java", JAVA_HOLDER, 8000));
    r = lock_put(w->a, "java", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.redisson_holder", JAVA_HOLDER);
    expect_between(r, "remaining_ms", 1, 8000);
    r = lock_look(w->a, "java");
    expect_status(r, 200);
    expect_bool(r, "locked", true);
    expect_str(r, "holders.0.redisson_holder", JAVA_HOLDER);
    expect_int(r, "holders.0.hold_count", 1);
    expect_absent(r, "fencing_token");
}

static void test_refused_try_is_forgotten(struct world *w)
{
    const char *holder = token_new(w), *other = token_new(w);

    expect_status(lock_put(w->a, "try", holder, NULL), 201);
    expect_problem(lock_put(w->a, "try", other, NULL), 423, "locked");
    expect_status(lock_release(w->a, "try", holder), 200);
    /* A token that was only refused is not spent. */
    expect_status(lock_put(w->a, "try", other, NULL), 201);
}

static void test_renew_longer_and_shorter(struct world *w)
{
    const char *token = token_new(w);
    struct reply *first = lock_put(w->a, "renew", token, "ttl_ms=9000&note=keep");
    struct reply *r = lock_renew(w->a, "renew", token, "ttl_ms=60000");

    expect_status(r, 200);
    check_lease(w, r, "renew");
    expect_int(r, "ttl_ms", 60000);
    expect_between(r, "remaining_ms", 50000, 60000);
    expect_int(r, "fencing_token", reply_int(first, "fencing_token"));
    expect_str(r, "note", "keep");
    expect_true(r, redis_int(w->redis, "PTTL renew") > 50000);
    r = HTTP(w->a, .method = "PATCH", .path = "/v1/locks/renew", .token = token,
             .body = "{\"ttl_ms\":8000}");
    expect_status(r, 200);
    expect_int(r, "ttl_ms", 8000);
    expect_true(r, redis_int(w->redis, "PTTL renew") <= 8000);
    r = lock_renew(w->a, "renew", token, NULL);
    expect_status(r, 200);
    expect_int(r, "ttl_ms", 30000);
    expect_true(r, redis_int(w->redis, "PTTL renew") > 25000);
}

static void test_renew_of_what_is_not_held(struct world *w)
{
    const char *holder = token_new(w);
    struct reply *r;

    r = lock_renew(w->a, "renew-none", token_new(w), NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_status(lock_put(w->a, "renew-other", holder, "ttl_ms=5000"), 201);
    r = lock_renew(w->a, "renew-other", token_new(w), "ttl_ms=60000");
    expect_problem(r, 410, "lease-ended");
    expect_true(r, redis_int(w->redis, "PTTL renew-other") <= 5000);
}

static void test_release_and_replay(struct world *w)
{
    const char *token = token_new(w);
    struct reply *held = lock_put(w->a, "release", token, NULL);
    struct reply *r;

    for (int i = 0; i < 3; i++) {
        r = lock_release(w->a, "release", token);
        expect_status(r, 200);
        expect_str(r, "lock", "release");
        expect_str(r, "state", "released");
        expect_int(r, "hold_count", 0);
        expect_str(r, "lease_id", reply_str(held, "lease_id"));
        assert_false(redis_has(w->redis, "release"));
    }
    r = lock_put(w->a, "release", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "released");
    r = lock_renew(w->a, "release", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "released");
    expect_status(lock_put(w->a, "release", token_new(w), NULL), 201);
}

static void test_replay_spares_the_next_holder(struct world *w)
{
    const char *first = token_new(w), *second = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "spare", first, NULL), 201);
    expect_status(lock_release(w->a, "spare", first), 200);
    r = lock_put(w->a, "spare", second, NULL);
    expect_status(r, 201);
    expect_status(lock_release(w->a, "spare", first), 200);
    expect_status(lock_put(w->a, "spare", second, NULL), 200);
}

static void test_only_the_token_releases(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "guard", token, NULL), 201);
    r = lock_release(w->a, "guard", token_new(w));
    expect_problem(r, 410, "lease-ended");
    expect_status(lock_put(w->a, "guard", token, NULL), 200);
    assert_true(redis_has(w->redis, "guard"));
}

static void test_expiry_ends_the_lease(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "expire", token, "ttl_ms=150"), 201);
    wait_until(!redis_has(w->redis, "expire"), 2000);
    r = lock_renew(w->a, "expire", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    r = lock_release(w->a, "expire", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    assert_false(redis_has(w->redis, "expire"));
}

static void test_look_at_a_free_lock(struct world *w)
{
    struct reply *r = lock_look(w->a, "free");

    expect_status(r, 200);
    expect_str(r, "lock", "free");
    expect_bool(r, "locked", false);
    expect_true(r, json_is_array(reply_get(r, "holders")));
    expect_absent(r, "holders.0");
    expect_absent(r, "fencing_token");
    expect_absent(r, "kind");
    expect_absent(r, "remaining_ms");
    expect_absent(r, "lease");
    expect_int(r, "waiter_count", 0);
}

static void test_look_at_a_held_lock(struct world *w)
{
    const char *token = token_new(w);
    struct reply *held = lock_put(w->a, "look", token, "ttl_ms=9000&note=me");
    struct reply *r = lock_look(w->a, "look");

    expect_status(r, 200);
    expect_bool(r, "locked", true);
    expect_str(r, "kind", "lock");
    expect_str(r, "holders.0.lease_id", reply_str(held, "lease_id"));
    expect_str(r, "holders.0.note", "me");
    expect_int(r, "holders.0.hold_count", 1);
    expect_absent(r, "holders.1");
    expect_int(r, "fencing_token", reply_int(held, "fencing_token"));
    expect_between(r, "remaining_ms", 1, 9000);
    expect_int(r, "waiter_count", 0);
    expect_true(r, strstr(r->text, token) == NULL);
    expect_status(lock_release(w->a, "look", token), 200);
    r = lock_look(w->a, "look");
    expect_bool(r, "locked", false);
    /* The last token that was issued stays to be seen. */
    expect_int(r, "fencing_token", reply_int(held, "fencing_token"));
}

static void test_look_with_a_token(struct world *w)
{
    const char *token = token_new(w), *waiting = token_new(w);
    const char *path = "/v1/locks/look-token";
    struct reply *held = lock_put(w->a, "look-token", token, NULL);
    struct reply *r = http(w->a, "GET", path, token);
    struct call *call;

    expect_status(r, 200);
    expect_str(r, "lease.state", "held");
    expect_str(r, "lease.lease_id", reply_str(held, "lease_id"));
    r = http(w->a, "GET", path, waiting);
    expect_str(r, "lease.state", "unknown");
    call = call_put(w->a, "look-token", waiting, "wait_ms=20000&note=w");
    wait_until(waiter_count(w->a, "look-token") == 1, 5000);
    r = http(w->a, "GET", path, waiting);
    expect_str(r, "lease.state", "waiting");
    expect_str(r, "waiters.0.lease_id", reply_str(r, "lease.lease_id"));
    expect_str(r, "waiters.0.note", "w");
    expect_between(r, "waiters.0.waited_ms", 0, 20000);
    expect_between(r, "waiters.0.remaining_ms", 1, 20000);
    expect_status(lock_release(w->a, "look-token", token), 200);
    expect_status(call_await(call, 5000), 201);
    r = http(w->a, "GET", path, token);
    expect_str(r, "lease.state", "ended");
    expect_str(r, "lease.reason", "released");
}

static void test_prefer_waits(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;
    int64_t began;

    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/prefer", .token = token,
             .headers = {"Prefer: wait=5"});
    expect_status(r, 201);
    began = now_ms();
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/prefer", .token = token_new(w),
             .headers = {"Prefer: respond-async, wait=1"});
    expect_problem(r, 423, "locked");
    assert_true(now_ms() - began >= 900);
    assert_string_equal(reply_header(w, r, "Preference-Applied"), "wait=1");
    /* An explicit wait_ms wins. */
    began = now_ms();
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/prefer?wait_ms=0", .token = token_new(w),
             .headers = {"Prefer: wait=30"});
    expect_problem(r, 423, "locked");
    assert_true(now_ms() - began < allowed_ms(5000));
}

static void test_names_of_all_kinds(struct world *w)
{
    static const char *const names[] = {
        "a",  "orders/42", "a b", "\xe2\x82\xac", "x:{y}:z",      "100%",        "a?b#c&d=e",
        "..", "{",         "}",   "a.b",          "force-unlock", "\"quoted\\\""};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *token = token_new(w);
        struct reply *r = lock_put(w->a, names[i], token, NULL);

        if (redis_is_cluster() && strlen(names[i]) == 1 && strchr("{}", names[i][0]) != NULL) {
            expect_problem(r, 400, "malformed-request"); /* see test_cluster.c */
            continue;
        }
        expect_status(r, 201);
        expect_str(r, "lock", names[i]);
        assert_int_equal(redis_int(w->redis, "HLEN %b", names[i], strlen(names[i])), 1);
        expect_str(lock_look(w->a, names[i]), "lock", names[i]);
        expect_status(lock_release(w->a, names[i], token), 200);
    }
}

static void test_fencing_tokens_grow(struct world *w)
{
    json_int_t last = 0;

    for (int i = 0; i < 20; i++) {
        const char *token = token_new(w);
        struct reply *r = lock_put(w->a, "fence", token, NULL);

        expect_status(r, 201);
        expect_between(r, "fencing_token", last + 1, INT64_MAX);
        last = reply_int(r, "fencing_token");
        expect_status(lock_release(w->a, "fence", token), 200);
    }
    /* A Redis that lost all its data does not set them back. */
    redis_ok(w->redis, "FLUSHALL");
    expect_between(lock_put(w->a, "fence", token_new(w), NULL), "fencing_token", last + 1,
                   INT64_MAX);
}

/* Before the watchdog visits it. */
static void test_a_release_leaves_no_note_in_a_session(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    const char *notes = text(w, "rlockd:session-leases:{%s}", s.id);
    json_int_t before = redis_int(w->redis, "HLEN %s", notes);
    const char *token = session_hold(w->a, &s, "noted", NULL);

    assert_int_equal(redis_int(w->redis, "HLEN %s", notes), before + 1);
    expect_status(lock_release(w->a, "noted", token), 200);
    wait_until(redis_int(w->redis, "HLEN %s", notes) == before, 3000);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_put_grants),
        E2E_TEST(test_put_defaults_to_the_watchdog_timeout),
        E2E_TEST(test_put_takes_fields_of_the_body),
        E2E_TEST(test_repeated_put_confirms),
        E2E_TEST(test_token_is_the_same_in_either_case),
        E2E_TEST(test_post_makes_the_token),
        E2E_TEST(test_post_with_a_token_is_put),
        E2E_TEST(test_busy_is_refused_with_its_holder),
        E2E_TEST(test_busy_names_a_java_holder),
        E2E_TEST(test_refused_try_is_forgotten),
        E2E_TEST(test_renew_longer_and_shorter),
        E2E_TEST(test_renew_of_what_is_not_held),
        E2E_TEST(test_release_and_replay),
        E2E_TEST(test_replay_spares_the_next_holder),
        E2E_TEST(test_only_the_token_releases),
        E2E_TEST(test_expiry_ends_the_lease),
        E2E_TEST(test_look_at_a_free_lock),
        E2E_TEST(test_look_at_a_held_lock),
        E2E_TEST(test_look_with_a_token),
        E2E_TEST(test_prefer_waits),
        E2E_TEST(test_names_of_all_kinds),
        E2E_TEST(test_fencing_tokens_grow),
        E2E_TEST(test_a_release_leaves_no_note_in_a_session),
    };
    struct e2e_plan plan = {.name = "locks", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
