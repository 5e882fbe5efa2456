/* A reason for each force-unlock, told to the former holder; and the audit trail. */
#include "harness.h"

#include <signal.h>

#define CI_TOKEN "ci-secret-aaaaaaaaaa"
#define OPS_TOKEN "ops-secret-bbbbbbbbbb"
#define REASON "the deploy hangs, ticket 4711"
#define REASON_QUERY "reason=the+deploy+hangs,+ticket+4711"

enum { SOON_MS = 5000 };

static struct front *guarded(struct world *w)
{
    return front_start(w, "--redis", w->redis->url, "--api-tokens",
                       tokens_write(w, "tokens",
                                    "ci {" CI_TOKEN "} lock=* read=*\n"
                                    "anna {" OPS_TOKEN "} lock=* read=* operate=*\n"),
                       NULL);
}

static struct reply *as(struct front *fe, const char *api_token, const char *method,
                        const char *path, const char *token, const char *session)
{
    return HTTP(fe, .method = method, .path = path, .token = token,
                .headers = {bearer(fe->world, api_token), session});
}

static struct reply *force(struct front *fe, const char *lock)
{
    return as(fe, OPS_TOKEN, "POST",
              text(fe->world, "/v1/locks/%s/force-unlock?" REASON_QUERY, lock), NULL, NULL);
}

static void expect_told(struct reply *r)
{
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
    expect_str(r, "forced_by", "anna");
    expect_str(r, "forced_reason", REASON);
}

static void test_the_former_holder_is_told(struct world *w)
{
    static const char *const kinds[] = {"lock", "fair", "read", "write"};
    struct front *fe = guarded(w);

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *token = token_new(w), *path = text(w, "/v1/locks/told-%s", kinds[i]);
        const char *ask = text(w, "%s?ttl_ms=60000&kind=%s", path, kinds[i]);
        expect_status(as(fe, CI_TOKEN, "PUT", ask, token, NULL), 201);
        expect_bool(force(fe, text(w, "told-%s", kinds[i])), "unlocked", true);
        expect_told(as(fe, CI_TOKEN, "PATCH", path, token, NULL));
        /* Another lease that is forced out for no reason takes nothing from this one. */
        expect_status(as(fe, CI_TOKEN, "PUT", ask, token_new(w), NULL), 201);
        expect_status(as(fe, OPS_TOKEN, "POST", text(w, "%s/force-unlock", path), NULL, NULL),
                      200);
        expect_told(as(fe, CI_TOKEN, "PUT", ask, token, NULL));
        expect_told(as(fe, CI_TOKEN, "DELETE", path, token, NULL));
    }
}

/* Only the grant with that fencing token, of two readers. */
static void test_one_reader_is_told(struct world *w)
{
    static const char path[] = "/v1/locks/one", ask[] = "/v1/locks/one?kind=read&ttl_ms=60000";
    const char *first = token_new(w), *second = token_new(w);
    struct front *fe = guarded(w);
    struct reply *r = as(fe, CI_TOKEN, "PUT", ask, first, NULL);

    expect_status(as(fe, CI_TOKEN, "PUT", ask, second, NULL), 201);
    const char *grant = text(w, "If-Match: \"%lld\"", (long long)reply_int(r, "fencing_token"));
    expect_bool(
        as(fe, OPS_TOKEN, "POST", "/v1/locks/one/force-unlock?" REASON_QUERY, NULL, grant),
        "unlocked", true);
    expect_told(as(fe, CI_TOKEN, "PATCH", path, first, NULL));
    expect_status(as(fe, CI_TOKEN, "PATCH", path, second, NULL), 200);
}

static void test_the_session_is_told(struct world *w)
{
    static const char *const paths[] = {"/v1/locks/s-one", "/v1/locks/s-own?owner=me"};
    struct front *fe = guarded(w);

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *session = text(w, "Session-Token: %s", token_new(w));
        struct reply *r = as(fe, CI_TOKEN, "POST", "/v1/sessions?ttl_ms=60000", NULL, session);
        const char *path = text(w, "/v1/sessions/%s/keep-alive", reply_str(r, "session_id"));
        expect_status(as(fe, CI_TOKEN, "PUT", paths[i], token_new(w), session), 201);
        expect_status(as(fe, CI_TOKEN, "POST", path, NULL, session), 200);
        expect_status(force(fe, i == 0 ? "s-one" : "s-own"), 200);
        r = as(fe, CI_TOKEN, "POST", path, NULL, session);
        expect_status(r, 200);
        const json_t *lost = json_array_get(reply_get(r, "lost"), 0);
        assert_string_equal(json_string_value(json_object_get(lost, "reason")), "forced");
        assert_string_equal(json_string_value(json_object_get(lost, "forced_by")), "anna");
        assert_string_equal(json_string_value(json_object_get(lost, "forced_reason")), REASON);
    }
}

/* Without API tokens, by the body, and what is no reason. */
static void test_reasons(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "plain", token, "ttl_ms=60000"), 201);
    r = HTTP(w->a, .method = "POST", .path = "/v1/locks/plain/force-unlock",
             .body = "{\"reason\": \"" REASON "\"}");
    expect_bool(r, "unlocked", true);
    r = lock_renew(w->a, "plain", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "forced_reason", REASON);
    assert_null(reply_get(r, "forced_by"));
    r = http(w->a, "POST", text(w, "/v1/locks/plain/force-unlock?reason=%0257d", 7), NULL);
    expect_problem(r, 400, "malformed-request");
    expect_status(lock_put(w->a, "plain", token = token_new(w), "ttl_ms=60000"), 201);
    expect_status(http(w->a, "POST", "/v1/locks/plain/force-unlock", NULL), 200);
    r = lock_renew(w->a, "plain", token, NULL);
    expect_str(r, "reason", "forced");
    assert_null(reply_get(r, "forced_reason"));
}

/* --- the audit trail ---------------------------------------------------------------------- */

/* The number of lines of the log with all these texts and "audit":true. */
static int count_audits(struct front *fe, const char *one, const char *other)
{
    const char *line = front_log(fe);
    int count = 0;

    while (*line != '\0') {
        size_t len = strcspn(line, "\n");
        const char *copy = text(fe->world, "%.*s", (int)len, line);
        count += strstr(copy, "\"audit\":true") != NULL && strstr(copy, one) != NULL &&
                 strstr(copy, other) != NULL;
        line += len + (line[len] == '\n');
    }
    return count;
}

static void test_the_trail(struct world *w)
{
    struct front *fe = guarded(w);
    const char *token = token_new(w);
    struct reply *r = as(fe, CI_TOKEN, "PUT", "/v1/locks/trail?ttl_ms=3600001", token, NULL);

    expect_status(r, 201);
    const char *lease_id = reply_str(r, "lease_id");
    expect_status(as(fe, CI_TOKEN, "PUT", "/v1/locks/short?ttl_ms=3600000", token_new(w), NULL),
                  201);
    expect_status(HTTP(fe, .method = "POST", .path = "/lfs/trail/locks",
                       .body = "{\"path\":\"a.psd\"}", .headers = {bearer(w, CI_TOKEN)}),
                  201); /* a lock of Git LFS lasts for days */
    expect_status(force(fe, "trail"), 200);
    expect_problem(as(fe, CI_TOKEN, "POST", "/v1/locks/trail/force-unlock", NULL, NULL), 403,
                   "forbidden");
    expect_status(as(fe, CI_TOKEN, "PUT", "/v1/latches/trail-l?count=1", NULL, NULL), 201);
    expect_status(as(fe, OPS_TOKEN, "DELETE", "/v1/latches/trail-l", NULL, NULL), 200);
    child_signal(fe->child, SIGHUP);
    wait_until(count_audits(fe, "API tokens reloaded", "") == 1, SOON_MS);
    wait_until(count_audits(fe, "\"DELETE\"", "\"caller\":\"anna\"") == 1, SOON_MS);
    assert_int_equal(count_audits(fe, "\"ttl_ms\":3600001", "\"caller\":\"ci\""), 1);
    assert_int_equal(count_audits(fe, "\"lock\":\"lfs/trail/a.psd\"", "\"fencing_token\":"), 1);
    assert_int_equal(count_audits(fe, "\"verb\":\"operate\"", "\"caller\":\"ci\""), 1);
    assert_int_equal(
        count_audits(fe, "lock forced open", text(w, "\"former_holder\":\"%s:0\"", lease_id)),
        1);
    assert_int_equal(count_audits(fe, "\"caller\":\"anna\"", REASON), 1);
    assert_int_equal(count_audits(fe, "", ""), 6);
}

/* Whatever a client of another kind writes, the lock and the operator stand in the line. */
static void test_a_holder_that_is_no_text(struct world *w)
{
    struct front *fe = guarded(w);

    redis_ok(w->redis, "HSET odd %b 1", "0b7dd2f4-6d7b-4d2f-9b39-4a0f9a6a2f4e:\xff",
             (size_t)38);
    redis_ok(w->redis, "PEXPIRE odd 60000");
    expect_bool(force(fe, "odd"), "unlocked", true);
    wait_until(count_audits(fe, "lock forced open", "\"lock\":\"odd\"") == 1, SOON_MS);
    assert_int_equal(count_audits(fe, "\"caller\":\"anna\"", REASON), 1);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_former_holder_is_told),
        E2E_TEST(test_one_reader_is_told),
        E2E_TEST(test_the_session_is_told),
        E2E_TEST(test_reasons),
        E2E_TEST(test_the_trail),
        E2E_TEST(test_a_holder_that_is_no_text),
    };
    struct e2e_plan plan = {.name = "audit", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
