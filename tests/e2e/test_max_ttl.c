/* max-ttl-ms of an API token: the longest lease or session that its caller may ask for. */
#include "harness.h"

#define TOKEN "brief-secret-aaaaaaaa"
#define OTHER_TOKEN "other-secret-dddddddd"

static struct reply *as_caller(struct front *fe, const char *lease_token, const char *method,
                               const char *path)
{
    return HTTP(fe, .method = method, .path = path, .token = lease_token,
                .headers = {bearer(fe->world, TOKEN)});
}

static void expect_too_long(struct reply *r, int limit)
{
    expect_problem(r, 403, "forbidden");
    expect_detail(r, "max-ttl-ms");
    expect_int(r, "limit", limit);
}

/* Every way to a lease and to its renewal, with the longest time and with a little more. */
static void test_the_longest_lease(struct world *w)
{
    static const struct {
        const char *acquire, *lease;
    } rows[] = {
        {"/v1/locks/brief?", "/v1/locks/brief"},
        {"/v1/locks/brief-fair?kind=fair&", "/v1/locks/brief-fair"},
        {"/v1/locks/brief-read?kind=read&", "/v1/locks/brief-read"},
        {"/v1/multi-locks?locks=%7Bbrief%7D1&locks=%7Bbrief%7D2&", "/v1/multi-locks"},
        {"/v1/permit-semaphores/brief-p/permit?", "/v1/permit-semaphores/brief-p/permit"},
    };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens",
                                   tokens_write(w, "tokens",
                                                "brief {" TOKEN "} lock=* max-ttl-ms=40000\n"
                                                "any {" OTHER_TOKEN "} lock=*\n"),
                                   NULL);

    expect_status(as_caller(fe, NULL, "PUT", "/v1/permit-semaphores/brief-p?permits=1"), 201);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *acquire = rows[i].acquire, *lease = rows[i].lease, *token = token_new(w);
        expect_too_long(as_caller(fe, token, "PUT", text(w, "%sttl_ms=40001", acquire)), 40000);
        expect_status(as_caller(fe, token, "PUT", text(w, "%sttl_ms=40000", acquire)), 201);
        expect_too_long(as_caller(fe, token, "PATCH", text(w, "%s?ttl_ms=40001", lease)),
                        40000);
        expect_status(as_caller(fe, token, "PATCH", text(w, "%s?ttl_ms=40000", lease)), 200);
        expect_status(as_caller(fe, token, "PATCH", lease), 200); /* the default: 30 s */
        expect_status(as_caller(fe, token, "DELETE", lease), 200);
    }
    expect_too_long(as_caller(fe, NULL, "POST", "/v1/locks/brief?ttl_ms=40001"), 40000);
    expect_status(as_caller(fe, NULL, "POST", "/v1/locks/brief?ttl_ms=40000"), 201);
    expect_status(HTTP(fe, .method = "PUT", .path = "/v1/locks/any?ttl_ms=31622400000",
                       .token = token_new(w), .headers = {bearer(w, OTHER_TOKEN)}),
                  201);
    /* What has no lease has no limit. */
    expect_status(as_caller(fe, NULL, "PUT", "/v1/semaphores/brief-s?permits=1"), 201);
    expect_status(as_caller(fe, NULL, "POST", "/v1/semaphores/brief-s/acquire"), 200);
}

/* Without ttl_ms a lease lasts for the watchdog timeout, with a session as long as that. */
static void test_leases_without_ttl_and_sessions(struct world *w)
{
    const char *header = text(w, "Session-Token: %s", token_new(w));
    struct front *fe = front_start(
        w, "--redis", w->redis->url, "--watchdog-timeout-ms", "20000", "--api-tokens",
        tokens_write(w, "tokens", "brief {" TOKEN "} lock=* max-ttl-ms=20000\n"), NULL);
    struct front *slow = front_start(w, "--redis", w->redis->url, "--watchdog-timeout-ms",
                                     "20001", "--api-tokens", text(w, "%s/tokens", w->dir),
                                     NULL);

    expect_too_long(HTTP(fe, .method = "POST", .path = "/v1/sessions?ttl_ms=20001",
                         .headers = {header, bearer(w, TOKEN)}),
                    20000);
    expect_too_long(as_caller(fe, NULL, "POST", "/v1/sessions"), 20000); /* 30 s */
    expect_status(HTTP(fe, .method = "POST", .path = "/v1/sessions?ttl_ms=20000",
                       .headers = {header, bearer(w, TOKEN)}),
                  201);
    for (int i = 0; i < 2; i++) { /* without the session, and with it */
        const char *session = i == 1 ? header : NULL;
        const char *path = text(w, "/v1/locks/watched%d", i);
        expect_status(
            HTTP(fe, .method = "POST", .path = path, .headers = {bearer(w, TOKEN), session}),
            201);
        path = text(w, "/v1/locks/slow%d", i);
        expect_too_long(
            HTTP(slow, .method = "POST", .path = path, .headers = {bearer(w, TOKEN), session}),
            20000);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_longest_lease),
        E2E_TEST(test_leases_without_ttl_and_sessions),
    };
    struct e2e_plan plan = {.name = "max_ttl", E2E_TESTS(tests), .front_ends = 0};

    return e2e_run(&plan);
}
