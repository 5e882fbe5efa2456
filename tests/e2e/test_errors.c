/* Every error of this version: status, code, media type, and a detail that names the field. */
#include "harness.h"

#include <sys/stat.h>

static void test_wrong_fields(struct world *w)
{
    static const struct {
        const char *query, *body, *names;
    } wrong[] = {
        {"?ttl_ms=99", NULL, "ttl_ms"},
        {"?ttl_ms=31622400001", NULL, "ttl_ms"},
        {"?ttl_ms=-1", NULL, "ttl_ms"},
        {"?ttl_ms=1e3", NULL, "ttl_ms"},
        {"?ttl_ms=", NULL, "ttl_ms"},
        {"?ttl_ms=18446744073709552616", NULL, "ttl_ms"},
        {"?ttl_ms=1000&ttl_ms=1000", NULL, "ttl_ms"},
        {"?wait_ms=-1", NULL, "wait_ms"},
        {"?wait_ms=55001", NULL, "wait_ms"},
        {"?wait_ms=x", NULL, "wait_ms"},
        {"?note=a%0Ab", NULL, "note"},
        {"?note=%ff", NULL, "note"},
        {"?ttl=1000", NULL, "ttl"},
        {"?TTL_MS=1000", NULL, "TTL_MS"},
        {"?kind=mutex", NULL, "kind"},
        {"", "{\"ttl_ms\":99}", "ttl_ms"},
        {"", "{\"ttl_ms\":\"1000\"}", "ttl_ms"},
        {"", "{\"ttl_ms\":1000.5}", "ttl_ms"},
        {"", "{\"ttl_ms\":true}", "ttl_ms"},
        {"", "{\"wait_ms\":55001}", "wait_ms"},
        {"", "{\"note\":5}", "note"},
        {"", "{\"note\":\"a\\u0007b\"}", "note"},
        {"", "{\"kind\":[]}", "kind"},
        {"", "{\"tttl_ms\":1000}", "tttl_ms"},
        {"?ttl_ms=1000", "{\"ttl_ms\":1001}", "ttl_ms"},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = HTTP(w->a, .method = "PUT",
                               .path = text(w, "/v1/locks/fields%s", wrong[i].query),
                               .token = token_new(w), .body = wrong[i].body);

        expect_problem(r, 400, "malformed-request");
        expect_detail(r, wrong[i].names);
    }
    assert_false(redis_has(w->redis, "fields"));
}

/* A value that is cut at a NUL is refused: of the leases that `held` of a keep-alive does not
 * list, some are released. */
static void test_nul_in_a_value(struct world *w)
{
    const char *session = text(w, "Session-Token: %s", token_new(w));
    struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/sessions",
                           .headers = {session});
    const char *id = reply_str(r, "session_id");
    const char *path = text(w, "/v1/sessions/%s/keep-alive?held=%%00,%s", id, id);

    expect_status(r, 201);
    r = HTTP(w->a, .method = "POST", .path = path, .headers = {session});
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "held");
    r = http(w->a, "POST", "/v1/semaphores/nul/release?permits=1&create=true%00x", NULL);
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "create");
    assert_false(redis_has(w->redis, "nul"));
}

static struct reply *terraform_lock(struct world *w, const char *name, const char *id)
{
    return HTTP(w->a, .method = "LOCK", .path = text(w, "/terraform/%s", name),
                .body = text(w, "{\"ID\": \"%s\"}", id));
}

static void test_limits_are_inclusive(struct world *w)
{
    char note[257];

    memset(note, 'n', 256);
    note[256] = '\0';
    expect_status(lock_put(w->a, "limit-1", token_new(w), "ttl_ms=100"), 201);
    expect_status(lock_put(w->a, "limit-2", token_new(w), "ttl_ms=31622400000&wait_ms=55000"),
                  201);
    expect_str(lock_put(w->a, "limit-3", token_new(w), text(w, "note=%s", note)), "note", note);
    expect_problem(lock_put(w->a, "limit-4", token_new(w), text(w, "note=%sn", note)), 400,
                   "malformed-request");
    expect_status(terraform_lock(w, "limit-5", text(w, "%.64s", note)), 200);
    expect_problem(terraform_lock(w, "limit-6", text(w, "%.65s", note)), 400,
                   "malformed-request");
}

static void test_wrong_bodies(struct world *w)
{
    static const char *const wrong[] = {
        "{",
        "[]",
        "\"ttl_ms\"",
        "{\"ttl_ms\":1000} x",
        "{\"ttl_ms\":1000,\"ttl_ms\":1000}",
        "{\"ttl_ms\":1000,}",
        "{'ttl_ms':1000}",
        "{\"note\":\"\xff\"}",
        "{\"note\":\"\\u0000\"}",
        "{\"note\":\"\\ud800\"}",
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/bodies",
                               .token = token_new(w), .body = wrong[i]);

        expect_problem(r, 400, "malformed-request");
    }
    assert_false(redis_has(w->redis, "bodies"));
}

/* As generated clients send them. */
static void test_bodies_of_generators(struct world *w)
{
    static const char *const bodies[] = {
        "", "null", "{}", "{\"ttl_ms\":null,\"note\":null}", "{\"ttl_ms\":30000.0}",
    };

    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        expect_int(HTTP(w->a, .method = "PUT", .path = text(w, "/v1/locks/generated-%zu", i),
                        .token = token_new(w), .body = bodies[i]),
                   "ttl_ms", 30000);
    expect_status(HTTP(w->a, .method = "PUT",
                       .path = "/v1/locks/generated?ttl_ms=1000&kind=lock",
                       .token = token_new(w), .body = "{\"ttl_ms\":1000,\"kind\":\"lock\"}"),
                  201);
}

static void test_wrong_tokens(struct world *w)
{
    static const char *const methods[] = {"PUT", "PATCH", "DELETE"};
    static const char *const wrong[] = {
        "x",
        "00000000-0000-0000-0000-000000000000",
        "6f1d2b54e2f84d2c8d5f2f0c5b0f7a11",
        "{6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a11}",
        "6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a1",
        "6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a111",
        "6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a1g",
        "6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a11, 6f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a11",
    };
    struct reply *r;

    for (size_t m = 0; m < COUNT_OF(methods); m++) {
        r = http(w->a, methods[m], "/v1/locks/tokens", NULL);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "Lease-Token");
        for (size_t i = 0; i < COUNT_OF(wrong); i++) {
            r = http(w->a, methods[m], "/v1/locks/tokens", wrong[i]);
            expect_problem(r, 400, "malformed-request");
            expect_detail(r, "Lease-Token");
        }
    }
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/tokens", .token = token_new(w),
             .headers = {text(w, "Lease-Token: %s", token_new(w))});
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "Lease-Token");
    expect_problem(http(w->a, "POST", "/v1/locks/tokens", "x"), 400, "malformed-request");
    expect_problem(http(w->a, "GET", "/v1/locks/tokens", "x"), 400, "malformed-request");
    assert_false(redis_has(w->redis, "tokens"));
}

static void test_fields_where_there_are_none(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "none", token, NULL), 201);
    expect_problem(http(w->a, "DELETE", "/v1/locks/none?ttl_ms=1000", token), 400,
                   "malformed-request");
    expect_problem(http(w->a, "GET", "/v1/locks/none?ttl_ms=1000", NULL), 400,
                   "malformed-request");
    expect_problem(http(w->a, "PATCH", "/v1/locks/none?wait_ms=1000", token), 400,
                   "malformed-request");
    expect_problem(http(w->a, "PATCH", "/v1/locks/none?note=x", token), 400,
                   "malformed-request");
    expect_problem(http(w->a, "POST", "/v1/locks/none/force-unlock?force=1", NULL), 400,
                   "malformed-request");
    expect_status(lock_put(w->a, "none", token, NULL), 200);
}

static void test_no_such_route(struct world *w)
{
    static const char *const paths[] = {"/v1",
                                        "/v1/",
                                        "/v1/lock/a",
                                        "/v1/locks/a/b",
                                        "/v2/locks/a",
                                        "/v1/locks/a/force-unlock/x",
                                        "/v1/locks/a/fencing-tokens",
                                        "/V1/locks/a",
                                        "/v1/session",
                                        "//v1/locks/a"};

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        expect_problem(http(w->a, "GET", paths[i], NULL), 404, "not-found");
}

/* An answer that says how to go on. */
static void test_details_that_help(struct world *w)
{
    static const struct {
        const char *method, *path, *detail;
    } rows[] = {
        {"GET", "/v1/locks/orders/42", "a slash in a name is written %2F"},
        {"PUT", "/v1/locks/orders/42", "a slash in a name is written %2F"},
        {"GET", "/v1/locks/orders/", "remove the slash at the end of the path"},
        {"GET", "/version/", "remove the slash at the end of the path"},
        {"GET", "/v1/lock/x", "/openapi.yaml lists all resources"},
        {"GET", "/health", "/openapi.yaml lists all resources"},
        {"PUT", "/v1/locks/x",
         "Lease-Token: this request needs the header: a UUID that you make"},
        {"DELETE", "/v1/sessions/5f1d2b54-e2f8-4d2c-8d5f-2f0c5b0f7a11",
         "the token that the session was opened with"},
        {"POST", "/v1/locks/x?ttl=1",
         "ttl: there is no such field here: there are wait_ms, ttl_ms"},
        {"POST", "/v1/locks/x?ttl_ms=30", "from 100 to 31622400000 milliseconds"},
        {"POST", "/v1/locks/x?wait_ms=120000", "repeat the request with the same token"},
        {"GET", "/livez?x=1", "there is no such field here: none is taken"},
    };
    const char *token = token_new(w), *first = token_new(w);
    struct reply *r;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_detail(http(w->a, rows[i].method, rows[i].path, NULL), rows[i].detail);
    r = http(w->a, "GET", "/", NULL);
    expect_status(r, 200);
    expect_str(r, "name", "rlockd");
    expect_str(r, "documentation", "/openapi.yaml");
    /* PATCH spends no token. */
    r = lock_renew(w->a, "helps", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_detail(r, "rlockd knows no lease of this token");
    r = lock_put(w->a, "helps", token, NULL);
    expect_status(r, 201);
    r = lock_release(w->a, "helps", reply_str(r, "lease_id"));
    expect_problem(r, 410, "lease-ended");
    expect_detail(r, "it looks like a lease_id");
    expect_status(lock_release(w->a, "helps", token), 200);
    expect_detail(lock_put(w->a, "helps", token, NULL), "its token is spent");
    token = token_new(w); /* spent before its PUT */
    expect_detail(lock_release(w->a, "helps", token), "rlockd knows no lease of this token");
    r = lock_put(w->a, "helps", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_detail(r, "use a new token");
    /* Kept for whoever waited first. */
    expect_status(lock_put(w->a, "queue", first, "kind=fair"), 201);
    expect_detail(lock_put(w->a, "queue", token_new(w), "kind=fair&wait_ms=50"),
                  "another holder");
    expect_status(lock_release(w->a, "queue", first), 200);
    expect_detail(lock_put(w->a, "queue", token_new(w), "kind=fair"),
                  "free, and kept for the first place of its queue");
}

static void check_allow(struct world *w, const struct reply *r, const char *const *methods)
{
    const char *allow = reply_header(w, r, "Allow");

    expect_problem(r, 405, "method-not-allowed");
    expect_true(r, allow != NULL);
    for (; *methods != NULL; methods++)
        expect_true(r, strstr(allow, *methods) != NULL);
}

static void test_wrong_method(struct world *w)
{
    static const char *const lock[] = {"PUT", "POST", "PATCH", "DELETE", "GET", NULL};
    static const char *const post[] = {"POST", NULL};
    static const char *const get[] = {"GET", NULL};

    check_allow(w, http(w->a, "OPTIONS", "/v1/locks/a", NULL), lock);
    check_allow(w, http(w->a, "TRACE", "/v1/locks/a", NULL), lock);
    check_allow(w, http(w->a, "GET", "/v1/locks/a/force-unlock", NULL), post);
    check_allow(w, http(w->a, "DELETE", "/v1/locks", NULL), get);
    check_allow(w, http(w->a, "POST", "/livez", NULL), get);
    check_allow(w, http(w->a, "PUT", "/metrics", NULL), get);
    check_allow(w, http(w->a, "PUT", "/v1/locks/a/fencing-tokens/1", NULL), get);
}

static void test_wrong_kind(struct world *w)
{
    struct reply *r;

    redis_ok(w->redis, "HSET kind:rw mode write c:1:write 1");
    redis_ok(w->redis, "PEXPIRE kind:rw 60000");
    redis_ok(w->redis, "SET kind:string 3 EX 60");
    redis_ok(w->redis, "HSET kind:map a b");
    for (const char *const *key = (const char *[]){"kind:rw", "kind:string", "kind:map", NULL};
         *key != NULL; key++) {
        r = lock_put(w->a, *key, token_new(w), NULL);
        expect_problem(r, 409, "wrong-kind");
        expect_problem(http(w->a, "POST", lock_path(w, *key, ""), NULL), 409, "wrong-kind");
        expect_problem(lock_look(w->a, *key), 409, "wrong-kind");
    }
    expect_problem(lock_release(w->a, "kind:string", token_new(w)), 409, "wrong-kind");
    expect_problem(lock_renew(w->a, "kind:string", token_new(w), NULL), 409, "wrong-kind");
    assert_string_equal(redis_str(w->redis, "GET kind:string"), "3");
    redis_ok(w->redis, "HSET terraform/kind a b");
    expect_problem(terraform_lock(w, "kind", "1"), 422, "wrong-kind");
    redis_ok(w->redis, "DEL terraform/kind");
    redis_ok(w->redis, "DEL kind:rw");
    redis_ok(w->redis, "DEL kind:string");
    redis_ok(w->redis, "DEL kind:map");
}

/* The same token on another lock is another lease. */
static void test_token_of_another_lock(struct world *w)
{
    const char *token = token_new(w);

    expect_status(lock_put(w->a, "mine", token, NULL), 201);
    expect_problem(lock_renew(w->a, "another", token, NULL), 410, "lease-ended");
    expect_status(lock_put(w->a, "another", token, NULL), 201);
    expect_status(lock_release(w->a, "another", token), 200);
    assert_false(redis_has(w->redis, "another"));
    expect_problem(lock_put(w->a, "mine", token, "kind=read"), 422, "token-reused");
    expect_status(lock_put(w->a, "mine", token, NULL), 200);
}

/* A lock and a permit semaphore of one name have one home, and so one record for a token. */
static void test_token_of_a_permit(struct world *w)
{
    const char *token = token_new(w);

    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/permit-semaphores/both?permits=1"),
                  201);
    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/permit-semaphores/both/permit",
                       .token = token),
                  201);
    expect_problem(lock_renew(w->a, "both", token, NULL), 422, "token-reused");
    expect_problem(lock_release(w->a, "both", token), 409, "wrong-kind");
    expect_status(HTTP(w->a, .method = "PATCH", .path = "/v1/permit-semaphores/both/permit",
                       .token = token),
                  200);
    expect_status(HTTP(w->a, .method = "DELETE", .path = "/v1/permit-semaphores/both"), 200);
    expect_problem(lock_renew(w->a, "both", token, NULL), 422, "token-reused");
    expect_problem(lock_release(w->a, "both", token), 422, "token-reused");
    expect_status(HTTP(w->a, .method = "GET", .path = "/v1/locks/both", .token = token), 200);
    expect_problem(lock_put(w->a, "both", token, NULL), 422, "token-reused");
}

/* Any client of Redis may have written what stands in the place of a record. */
static void test_record_of_no_kind(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "odd", token, NULL);

    expect_status(r, 201);
    redis_ok(w->redis, "SET rlockd:lease:{odd}:%s %s EX 60", reply_str(r, "lease_id"),
             "held\n\n\n\n1000\n\n\n\n\n\nrecord\n");
    expect_problem(lock_renew(w->a, "odd", token, NULL), 410, "lease-ended");
    expect_status(HTTP(w->a, .method = "GET", .path = "/v1/locks/odd", .token = token), 200);
    expect_problem(lock_put(w->a, "odd", token, NULL), 422, "token-reused");
    expect_status(lock_release(w->a, "odd", token), 200);
    assert_false(redis_has(w->redis, "odd"));
}

/* --- other protocols ---------------------------------------------------------------------- */

static int reboot_of(struct world *w, const char *group, const char *header)
{
    const char *machine = text(w, "{\"client_params\":{\"id\":\"m\",\"group\":\"%s\"}}", group);

    return HTTP(w->a, .method = "POST", .path = "/fleetlock/v1/pre-reboot", .body = machine,
                .headers = {header})
        ->status;
}

static void test_fleetlock(struct world *w)
{
    static const char good[] = "fleet-lock-protocol: true", bad[] = "fleet-lock-protocol: no";

    assert_int_equal(reboot_of(w, text(w, "%0128d", 0), good), 200);
    assert_int_equal(reboot_of(w, text(w, "%0129d", 0), good), 400);
    assert_int_equal(reboot_of(w, "a/b", good), 400);
    assert_int_equal(reboot_of(w, "a", bad), 400);
    assert_int_equal(reboot_of(w, "a", NULL), 400);
    assert_false(redis_has(w->redis, "fleetlock/a/b"));
    assert_false(redis_has(w->redis, "fleetlock/a"));
}

/* `user`: of Basic, with a colon, in base64. */
static struct reply *lfs(struct world *w, const char *path, const char *user, const char *body)
{
    return HTTP(w->a, .method = "POST", .path = text(w, "/lfs/errors/locks%s", path),
                .body = body,
                .headers = {user != NULL ? text(w, "Authorization: Basic %s", user) : NULL});
}

/* A lock of Git LFS has an owner. */
static void test_git_lfs(struct world *w)
{
    static const char anna[] = "YW5uYTp4", bert[] = "YmVydDp4", a[] = "{\"path\":\"a\"}";

    expect_status(lfs(w, "", NULL, a), 401);
    assert_false(redis_has(w->redis, "lfs/errors/a"));
    expect_status(lfs(w, "", anna, a), 201);
    expect_status(lfs(w, "", bert, a), 409);
    struct reply *r = lfs(w, "/verify", bert, "{}");
    expect_status(r, 200);
    expect_str(r, "theirs.0.path", "a");
    expect_absent(r, "ours.0");
    const char *unlock = text(w, "/%s/unlock", reply_str(r, "theirs.0.id"));
    expect_status(lfs(w, unlock, bert, "{}"), 403);
    assert_true(redis_has(w->redis, "lfs/errors/a"));
    expect_status(lfs(w, unlock, bert, "{\"force\":true}"), 200);
    assert_false(redis_has(w->redis, "lfs/errors/a"));
    expect_status(lfs(w, unlock, anna, "{}"), 404);
}

static struct reply *terraform(struct world *w, const char *method, const char *body)
{
    return HTTP(w->a, .method = method, .path = "/terraform/errors", .body = body);
}

static void test_terraform(struct world *w)
{
    static const char one[] = "{\"ID\":\"1\"}", two[] = "{\"ID\":\"2\"}",
                      three[] = "{\"ID\":\"3\"}";

    expect_status(terraform(w, "LOCK", one), 200);
    expect_status(terraform(w, "LOCK", one), 200);
    expect_status(terraform(w, "LOCK", two), 423);
    assert_true(terraform(w, "UNLOCK", two)->status != 200);
    assert_true(redis_has(w->redis, "terraform/errors"));
    expect_status(terraform(w, "UNLOCK", one), 200);
    assert_false(redis_has(w->redis, "terraform/errors"));
    expect_status(terraform(w, "LOCK", three), 200);
    expect_status(terraform(w, "UNLOCK", NULL), 200); /* by force */
    assert_false(redis_has(w->redis, "terraform/errors"));
}

static void test_media_types(struct world *w)
{
    static const char *const wrong[] = {"text/plain", "application/x-www-form-urlencoded",
                                        "application/jsonx", "application/merge-patch+json",
                                        "application/json <b>"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/media",
                               .token = token_new(w), .body = "{}", .type = wrong[i]);

        expect_problem(r, 415, "unsupported-media-type");
    }
    assert_false(redis_has(w->redis, "media"));
    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/locks/media", .token = token_new(w),
                       .body = "", .type = "application/x-www-form-urlencoded"),
                  201);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_wrong_fields),
        E2E_TEST(test_nul_in_a_value),
        E2E_TEST(test_limits_are_inclusive),
        E2E_TEST(test_wrong_bodies),
        E2E_TEST(test_bodies_of_generators),
        E2E_TEST(test_wrong_tokens),
        E2E_TEST(test_fields_where_there_are_none),
        E2E_TEST(test_no_such_route),
        E2E_TEST(test_details_that_help),
        E2E_TEST(test_wrong_method),
        E2E_TEST(test_wrong_kind),
        E2E_TEST(test_token_of_another_lock),
        E2E_TEST(test_token_of_a_permit),
        E2E_TEST(test_record_of_no_kind),
        E2E_TEST(test_fleetlock),
        E2E_TEST(test_git_lfs),
        E2E_TEST(test_terraform),
        E2E_TEST(test_media_types),
    };
    struct e2e_plan plan = {.name = "errors", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
