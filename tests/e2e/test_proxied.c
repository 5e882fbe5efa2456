/* What lies between clients and rlockd: request ids, proxies' addresses, pages of other
 * origins, load balancers that need time to let go. */
#include "harness.h"

#include <signal.h>

#define TRACEPARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

/* Without those of /readyz, by which the harness waits for a front end: the last of them may
 * come late. */
static int request_lines(struct front *fe)
{
    int count = 0;

    for (const char *at = front_log(fe); (at = strstr(at, "\"msg\":\"request\"")) != NULL;
         at++) {
        const char *readyz = strstr(at, "\"route\":\"/readyz\"");
        count += readyz == NULL || memchr(at, '\n', (size_t)(readyz - at)) != NULL;
    }
    return count;
}

/* A request, until its line is in the log. */
static struct reply *ask(struct front *fe, const struct request *request)
{
    int before = request_lines(fe);
    struct reply *r = http_send(fe, request);

    wait_until(request_lines(fe) > before, 2000);
    return r;
}

#define ASK(fe, ...) ask(fe, &(struct request){__VA_ARGS__})

/* A member of the newest line about a request; NULL: the line lacks it. */
static const char *logged(struct front *fe, const char *member)
{
    json_t *line = front_log_find(fe, "request");
    const char *value = json_string_value(json_object_get(line, member));
    const char *copy = value != NULL ? text(fe->world, "%s", value) : NULL;

    json_decref(line);
    return copy;
}

static void test_request_ids(struct world *w)
{
    static const char *const good[] = {"a", "4f1c-x_1.2~3:/+=@",
                                       "6f1c2a0e-7b1d-4e3f-9a51-0c2d4e6f8a01"};
    static const char *const bad[] = {"", "a b", "a\"b", "<a>", "a,b", "\xc3\xbc", "{}"};
    struct reply *r;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        r = ASK(w->a, .method = "GET", .path = "/v1/locks/id",
                .headers = {text(w, "X-Request-Id: %s", good[i])});
        assert_string_equal(reply_header(w, r, "X-Request-Id"), good[i]);
        assert_string_equal(logged(w->a, "request_id"), good[i]);
        assert_null(logged(w->a, "traceparent"));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        r = ASK(w->a, .method = "GET", .path = "/v1/locks/id",
                .headers = {text(w, "X-Request-Id: %s", bad[i])});
        expect_status(r, 200);
        assert_null(reply_header(w, r, "X-Request-Id"));
        assert_null(logged(w->a, "request_id"));
    }
    r = ASK(w->a, .method = "GET", .path = "/v1/locks/id",
            .headers = {text(w, "X-Request-Id: %0129d", 0)});
    assert_null(reply_header(w, r, "X-Request-Id"));
    r = ASK(w->a, .method = "GET", .path = "/v1/nothing",
            .headers = {text(w, "X-Request-Id: %0128d", 0)});
    expect_problem(r, 404, "not-found");
    assert_non_null(reply_header(w, r, "X-Request-Id"));
}

/* A token that lands in an id by mistake is in no log. */
static void test_request_ids_of_tokens(struct world *w)
{
    static const char api_token[] = "rlockd_of-somebody-0123456789";
    static const char *const authorizations[] = {
        "Authorization: Bearer rlockd_of-somebody-0123456789",
        "Authorization: Basic YTpybG9ja2Rfb2Ytc29tZWJvZHktMDEyMzQ1Njc4OQ==",
        "Authorization: basic  YTpybG9ja2Rfb2Ytc29tZWJvZHktMDEyMzQ1Njc4OQ==",
    };
    const char *token = token_new(w);
    const char *const forms[] = {"X-Request-Id: %s", "X-Request-Id: deploy-%s-7"};

    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        struct reply *r = ASK(w->a, .method = "PUT", .path = "/v1/locks/id", .token = token,
                              .headers = {text(w, forms[i], token)});
        expect_status(r, i == 0 ? 201 : 200);
        assert_null(logged(w->a, "request_id"));
        for (size_t j = 0; j < COUNT_OF(authorizations); j++) {
            r = ASK(w->a, .method = "GET", .path = "/v1/locks/id",
                    .headers = {authorizations[j], text(w, forms[i], api_token)});
            expect_status(r, 200);
            assert_null(logged(w->a, "request_id"));
            assert_null(reply_header(w, r, "X-Request-Id"));
        }
    }
    /* A password of no bytes is a part of no id. */
    ASK(w->a, .method = "GET", .path = "/v1/locks/id",
        .headers = {"Authorization: Basic YTo=", "X-Request-Id: deploy-7"});
    assert_string_equal(logged(w->a, "request_id"), "deploy-7");
    assert_null(strstr(front_log(w->a), token));
    assert_null(strstr(front_log(w->a), api_token));
}

static void test_trace_parents(struct world *w)
{
    static const char *const bad[] = {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                                      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
                                      "x"};

    ASK(w->a, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"traceparent: " TRACEPARENT});
    assert_string_equal(logged(w->a, "traceparent"), TRACEPARENT);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_status(ASK(w->a, .method = "GET", .path = "/v1/locks/quiet",
                          .headers = {text(w, "traceparent: %s", bad[i])}),
                      200);
        assert_null(logged(w->a, "traceparent"));
    }
}

static void test_addresses_behind_proxies(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--trusted-proxies",
                                   "127.0.0.0/8, ::1", NULL);

    ASK(w->a, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"X-Forwarded-For: 192.0.2.1"});
    assert_string_equal(logged(w->a, "remote"), "127.0.0.1");
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"X-Forwarded-For: 6.6.6.6, 192.0.2.1, 127.0.0.9"});
    assert_string_equal(logged(fe, "remote"), "192.0.2.1");
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.2"});
    assert_string_equal(logged(fe, "remote"), "192.0.2.2");
    /* A proxy that adds a line of its own, as HAProxy does. */
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"X-Forwarded-For: 6.6.6.6, 192.0.2.3", "X-Forwarded-For: 127.0.0.9"});
    assert_string_equal(logged(fe, "remote"), "192.0.2.3");
    /* Also where the request is refused. */
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"If-Match: *", "If-Match: *", "X-Forwarded-For: 192.0.2.5",
                    "X-Forwarded-For: 127.0.0.9"});
    assert_string_equal(logged(fe, "remote"), "192.0.2.5");
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"Forwarded: for=192.0.2.4;proto=https", "Forwarded: for=127.0.0.9"});
    assert_string_equal(logged(fe, "remote"), "192.0.2.4");
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"Forwarded: for=\"[2001:db8::1]:80\";proto=https"});
    assert_string_equal(logged(fe, "remote"), "2001:db8::1");
    ASK(fe, .method = "GET", .path = "/v1/locks/quiet",
        .headers = {"X-Forwarded-For: nonsense"});
    assert_string_equal(logged(fe, "remote"), "127.0.0.1");
}

static struct reply *preflight(struct front *fe, const char *path, const char *origin)
{
    return ASK(fe, .method = "OPTIONS", .path = path,
               .headers = {text(fe->world, "Origin: %s", origin),
                           "Access-Control-Request-Method: PUT",
                           "Access-Control-Request-Headers: lease-token"});
}

static void test_no_pages_by_default(struct world *w)
{
    struct reply *r = preflight(w->a, "/v1/locks/page", "https://a.example");

    expect_problem(r, 405, "method-not-allowed");
    assert_null(reply_header(w, r, "Access-Control-Allow-Origin"));
    r = ASK(w->a, .method = "GET", .path = "/v1/locks/page",
            .headers = {"Origin: https://a.example"});
    assert_null(reply_header(w, r, "Access-Control-Allow-Origin"));
}

static void test_pages_of_named_origins(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--cors-origins",
                                   "https://a.example, http://b.example:8080", NULL);
    struct reply *r = preflight(fe, "/v1/locks/page", "http://b.example:8080");

    expect_status(r, 204);
    assert_true(front_metric(fe, "rlockd_requests_total", "status=\"204\"") == 1);
    assert_string_equal(reply_header(w, r, "Access-Control-Allow-Origin"),
                        "http://b.example:8080");
    assert_non_null(strstr(reply_header(w, r, "Access-Control-Allow-Methods"), "PUT"));
    assert_non_null(strstr(reply_header(w, r, "Access-Control-Allow-Headers"), "Lease-Token"));
    assert_null(reply_header(w, r, "Access-Control-Allow-Credentials"));
    assert_string_equal(reply_header(w, r, "Vary"), "Origin");
    r = ASK(fe, .method = "PUT", .path = "/v1/locks/page", .token = "x",
            .headers = {"Origin: https://a.example"});
    expect_problem(r, 400, "malformed-request");
    assert_string_equal(reply_header(w, r, "Access-Control-Allow-Origin"), "https://a.example");
    const char *exposed = reply_header(w, r, "Access-Control-Expose-Headers");
    assert_non_null(strstr(exposed, "Retry-After"));
    assert_non_null(strstr(exposed, "Lease-Token"));
    assert_non_null(strstr(exposed, "Session-Token"));
    r = preflight(fe, "/v1/locks/page", "https://evil.example");
    expect_problem(r, 405, "method-not-allowed");
    assert_null(reply_header(w, r, "Access-Control-Allow-Origin"));
    expect_problem(preflight(fe, "/nothing", "https://a.example"), 404, "not-found");
    fe = front_start(w, "--redis", w->redis->url, "--cors-origins", "*", NULL);
    r = preflight(fe, "/v1/locks/page", "https://any.example");
    expect_status(r, 204);
    assert_string_equal(reply_header(w, r, "Access-Control-Allow-Origin"), "*");
}

static void test_load_balancers_get_time(struct world *w)
{
    int delay_ms = 500 + (int)patience_ms(1000);
    struct front *fe = front_start(w, "--redis", w->redis->url, "--drain-delay-ms",
                                   text(w, "%d", delay_ms), NULL);
    const char *holder = token_new(w);
    struct call *waiter;
    int64_t began;

    expect_status(lock_put(fe, "leave", holder, "ttl_ms=60000"), 201);
    began = now_ms();
    child_signal(fe->child, SIGTERM);
    wait_until(http(fe, "GET", "/readyz", NULL)->status == 503, 1000);
    expect_problem(http(fe, "GET", "/readyz", NULL), 503, "draining");
    /* All else goes on, waits too. */
    waiter = call_put(fe, "leave", token_new(w), "wait_ms=20000");
    wait_until(waiter_count(w->a, "leave") == 1, 1000);
    expect_status(lock_release(fe, "leave", holder), 200);
    expect_status(call_await(waiter, 1000), 201);
    waiter = call_put(fe, "leave", token_new(w), "wait_ms=20000");
    expect_problem(call_await(waiter, 5000 + delay_ms), 503, "draining");
    assert_true(now_ms() - began >= delay_ms - 100);
    fe->ended = true;
    assert_int_equal(child_wait(fe->child, 5000), 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_request_ids),
        E2E_TEST(test_request_ids_of_tokens),
        E2E_TEST(test_trace_parents),
        E2E_TEST(test_addresses_behind_proxies),
        E2E_TEST(test_no_pages_by_default),
        E2E_TEST(test_pages_of_named_origins),
        E2E_TEST(test_load_balancers_get_time),
    };
    struct e2e_plan plan = {.name = "proxied", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
