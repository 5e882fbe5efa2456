/* Who asks: an API token as the password of Basic, and GET /v1/me. */
#include "harness.h"

#define LOCK_TOKEN "lock-secret-bbbbbbbb"
#define OPERATE_TOKEN "operate-secret-cccccc"
#define OTHER_TOKEN "other-secret-dddddddd"

static struct front *guarded(struct world *w, const char *lines)
{
    return front_start(w, "--redis", w->redis->url, "--api-tokens",
                       tokens_write(w, "tokens", lines), NULL);
}

/* --- the password of Basic ---------------------------------------------------------------- */

#define CHALLENGE_BASIC "Basic realm=\"rlockd\", charset=\"UTF-8\""

static struct reply *with_header(struct front *fe, const char *header, const char *more)
{
    struct world *w = fe->world;

    return HTTP(fe, .method = "PUT", .path = "/v1/locks/basic", .token = token_new(w),
                .headers = {header, more});
}

static void test_the_password_of_basic(struct world *w)
{
    /* printf any:lock-secret-bbbbbbbb | base64 */
    static const char good[] = "Authorization: Basic YW55OmxvY2stc2VjcmV0LWJiYmJiYmJi";
    static const char bad[] = "Authorization: Basic YW55OmxvY2stc2VjcmV0LWJiYmJiYmJ4";
    struct front *fe = guarded(w, "deployer {" LOCK_TOKEN "} lock=*\n");
    struct reply *r = with_header(fe, good, NULL);

    expect_status(r, 201);
    r = with_header(fe, bad, NULL);
    expect_problem(r, 401, "unauthenticated");
    assert_non_null(strstr(r->head, CHALLENGE_BASIC));
    assert_null(strstr(r->head, "invalid_token"));
    r = lock_put(fe, "basic", token_new(w), NULL);
    expect_problem(r, 401, "unauthenticated");
    assert_non_null(strstr(r->head, CHALLENGE_BASIC));
    /* A browser would ask its user for a password. */
    r = with_header(fe, bad, "Sec-Fetch-Site: same-origin");
    expect_problem(r, 401, "unauthenticated");
    assert_null(strstr(r->head, "Basic"));
    wait_until(strstr(front_log(fe), "\"caller\":\"deployer\"") != NULL, 5000);
    assert_null(strstr(front_log(fe), "YW55OmxvY2stc2VjcmV0LWJiYmJiYmJi"));
}

/* --- who asks ----------------------------------------------------------------------------- */

static void expect_me(struct reply *r, const char *json)
{
    json_t *expected = json_loads(json, 0, NULL);

    expect_status(r, 200);
    assert_non_null(expected);
    if (!json_equal(r->json, expected))
        FAIL("%s instead of %s", r->text, json);
    json_decref(expected);
}

static struct reply *me_as(struct front *fe, const char *token, const char *path)
{
    return HTTP(fe, .method = "GET", .path = path, .headers = {bearer(fe->world, token)});
}

/* What the server asks of its clients, by default. */
#define PACE "\"max_wait_ms\": 55000, \"refresh_ms\": 2000"

static void test_me(struct world *w)
{
    struct front *fe = guarded(w,
                               "ci {" LOCK_TOKEN "} lock=deploy/ read=* max-ttl-ms=40000 "
                               "max-waiters=0 expires=2999-01-31T13:00:00+01:00\n"
                               "ops {" OPERATE_TOKEN "} operate=* "
                               "max-requests-per-second=1000\n"
                               "old {" OTHER_TOKEN "} read=* expires=2020-01-01T00:00:00Z\n");

    expect_me(me_as(fe, LOCK_TOKEN, "/v1/me"),
              "{\"api_tokens\": true, \"caller\": \"ci\","
              " \"rights\": [{\"verb\": \"lock\", \"prefix\": \"deploy/\"},"
              " {\"verb\": \"read\", \"prefix\": \"\"}],"
              " \"limits\": {\"max_ttl_ms\": 40000, \"max_waiters\": 0},"
              " \"expires\": \"2999-01-31T12:00:00Z\"," PACE "}");
    expect_me(me_as(fe, OPERATE_TOKEN, "/v1/me"),
              "{\"api_tokens\": true, \"caller\": \"ops\","
              " \"rights\": [{\"verb\": \"operate\", \"prefix\": \"\"}],"
              " \"limits\": {\"max_requests_per_second\": 1000}," PACE "}");
    expect_problem(me_as(fe, OTHER_TOKEN, "/v1/me"), 401, "unauthenticated");
    expect_problem(http(fe, "GET", "/v1/me", NULL), 401, "unauthenticated");
    expect_problem(me_as(fe, LOCK_TOKEN, "/v1/me?x=1"), 400, "malformed-request");
    expect_me(http(w->a, "GET", "/v1/me", NULL),
              "{\"api_tokens\": false,"
              " \"rights\": [{\"verb\": \"read\", \"prefix\": \"\"},"
              " {\"verb\": \"lock\", \"prefix\": \"\"},"
              " {\"verb\": \"operate\", \"prefix\": \"\"}], \"limits\": {}," PACE "}");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_password_of_basic),
        E2E_TEST(test_me),
    };
    struct e2e_plan plan = {.name = "callers", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
