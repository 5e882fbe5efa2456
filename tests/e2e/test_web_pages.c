/* Requests as browsers send them for web pages: of this server, of allowed origins, of others.
 * tests/web has a real browser send them. */
#include "harness.h"

#define EVIL "Origin: https://evil.example"

struct operation {
    const char *method, *path;
};

/* All that changes something without a token that the page would have to know. */
static const struct operation changes[] = {
    {"POST", "/v1/locks/deploy/force-unlock"},
    {"POST", "/v1/locks/taken"},
    {"PUT", "/v1/locks/taken"},
    {"POST", "/v1/multi-locks?locks=taken"},
    {"POST", "/v1/sessions"},
    {"PUT", "/v1/semaphores/made?permits=1"},
    {"POST", "/v1/semaphores/s/acquire"},
    {"POST", "/v1/semaphores/s/release"},
    {"POST", "/v1/semaphores/s/drain"},
    {"DELETE", "/v1/semaphores/s"},
    {"PUT", "/v1/permit-semaphores/made?permits=1"},
    {"DELETE", "/v1/permit-semaphores/p"},
    {"PUT", "/v1/latches/made?count=1"},
    {"POST", "/v1/latches/l/count-down"},
    {"DELETE", "/v1/latches/l"},
};

static const struct operation looks[] = {
    {"GET", "/v1/locks"},        {"GET", "/v1/locks/deploy"}, {"HEAD", "/v1/locks/deploy"},
    {"GET", "/v1/semaphores/s"}, {"GET", "/v1/latches/l"},    {"GET", "/v1/sessions"},
    {"GET", "/metrics"},         {"GET", "/version"},         {"GET", "/livez"},
};

/* A front end with a Redis of its own, in which there is something to change and to read. */
static struct front *filled(struct world *w)
{
    struct front *fe = front_start(w, "--redis", redis_start(w, NULL)->url, NULL);

    expect_status(lock_put(fe, "deploy", token_new(w), "ttl_ms=600000"), 201);
    expect_status(http(fe, "PUT", "/v1/semaphores/s?permits=3", NULL), 201);
    expect_status(http(fe, "PUT", "/v1/permit-semaphores/p?permits=3", NULL), 201);
    expect_status(http(fe, "PUT", "/v1/latches/l?count=3", NULL), 201);
    return fe;
}

static void expect_filled(struct front *fe)
{
    expect_bool(http(fe, "GET", "/v1/locks/deploy", NULL), "locked", true);
    expect_bool(http(fe, "GET", "/v1/locks/taken", NULL), "locked", false);
    expect_int(http(fe, "GET", "/v1/semaphores/s", NULL), "available", 3);
    expect_status(http(fe, "GET", "/v1/permit-semaphores/p", NULL), 200);
    expect_int(http(fe, "GET", "/v1/latches/l", NULL), "count", 3);
    expect_status(http(fe, "GET", "/v1/semaphores/made", NULL), 404);
    expect_status(http(fe, "GET", "/v1/permit-semaphores/made", NULL), 404);
    expect_int(http(fe, "GET", "/v1/latches/made", NULL), "count", 0);
    assert_int_equal(
        json_array_size(reply_get(http(fe, "GET", "/v1/sessions", NULL), "sessions")), 0);
}

/* With a token, as a page would make one. */
static struct reply *ask(struct front *fe, const struct operation *operation,
                         const char *const headers[3])
{
    bool has_token = strcmp(operation->method, "PUT") == 0 ||
                     strstr(operation->path, "locks/taken") != NULL;

    return HTTP(fe, .method = operation->method, .path = operation->path,
                .token = has_token ? token_new(fe->world) : NULL,
                .headers = {headers[0], headers[1], headers[2]});
}

static void expect_refused(struct front *fe, const struct operation *operations, size_t count,
                           const char *const headers[3], const char *detail)
{
    for (size_t i = 0; i < count; i++) {
        struct reply *r = ask(fe, &operations[i], headers);
        if (r->status != 403)
            FAIL("%s %s with %s: %d %s", operations[i].method, operations[i].path, headers[0],
                 r->status, r->text);
        if (strcmp(operations[i].method, "HEAD") == 0)
            continue;
        expect_problem(r, 403, "forbidden");
        expect_detail(r, detail);
    }
}

static void test_foreign_pages(struct world *w)
{
    struct front *fe = filled(w);
    const char *const rows[][3] = {
        {EVIL, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: empty"},
        {EVIL},
        {"Origin: null"},
        {text(w, "Origin: https://127.0.0.1:%d.evil.example", fe->port)},
        {"Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"}, /* another port */
        {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"},
        {"Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: script"},
        {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_refused(fe, changes, COUNT_OF(changes), rows[i], "Origin: web pages of other");
        expect_refused(fe, looks, COUNT_OF(looks), rows[i], "Origin: web pages of other");
        expect_filled(fe);
    }
}

/* DNS rebinding: the browser takes the page for a page of this server. */
static void test_rebound_names(struct world *w)
{
    struct front *fe = filled(w);
    const char *const post[3] = {"Host: rebind.example:7400",
                                 "Origin: http://rebind.example:7400"};
    const char *const get[3] = {"Host: rebind.example:7400"};

    expect_refused(fe, changes, COUNT_OF(changes), post, "Host: this server answers only");
    expect_refused(fe, looks, COUNT_OF(looks), get, "Host: this server answers only");
    expect_filled(fe);
}

static void test_pages_of_the_server(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--server-names",
                                   "locks.example, other.example", NULL);
    const char *const hosts[] = {text(w, "127.0.0.1:%d", fe->port),
                                 text(w, "localhost:%d", fe->port), "locks.example",
                                 "Other.Example:7400"};

    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        const char *host = text(w, "Host: %s", hosts[i]);
        const char *origin = text(w, "Origin: http://%s", hosts[i]);
        struct reply *r = HTTP(fe, .method = "POST", .path = "/v1/locks/own",
                               .headers = {host, origin, "Sec-Fetch-Site: same-origin"});
        expect_status(r, 201);
        expect_status(HTTP(fe, .method = "DELETE", .path = "/v1/locks/own",
                           .token = reply_str(r, "lease_token"), .headers = {host, origin}),
                      200);
        r = HTTP(fe, .method = "GET", .path = "/v1/locks/own",
                 .headers = {host, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: empty"});
        expect_status(r, 200);
        /* A page that another site embeds cannot be read there. */
        assert_string_equal(reply_header(w, r, "Cross-Origin-Resource-Policy"), "same-origin");
    }
    expect_problem(HTTP(fe, .method = "GET", .path = "/livez", .headers = {"Host: x"}), 403,
                   "forbidden");
}

/* The user follows a link of another site, or types the address. */
static void test_links(struct world *w)
{
    static const char *const sites[] = {"cross-site", "same-site", "none"};

    for (size_t i = 0; i < COUNT_OF(sites); i++) {
        const char *site = text(w, "Sec-Fetch-Site: %s", sites[i]);
        int status = strcmp(sites[i], "none") == 0 ? 200 : 403;
        expect_status(HTTP(w->a, .method = "GET", .path = "/version",
                           .headers = {site, "Sec-Fetch-Dest: document"}),
                      200);
        expect_status(HTTP(w->a, .method = "GET", .path = "/v1/locks",
                           .headers = {site, "Sec-Fetch-Dest: document"}),
                      status);
    }
}

/* An allowed origin is allowed with each of these headers, and says its origin itself. */
static void test_pages_of_allowed_origins(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--cors-origins",
                                   "https://a.example", NULL);

    expect_status(HTTP(fe, .method = "POST", .path = "/v1/locks/allowed",
                       .headers = {"Origin: https://a.example", "Sec-Fetch-Site: cross-site"}),
                  201);
    expect_problem(HTTP(fe, .method = "POST", .path = "/v1/locks/allowed", .headers = {EVIL}),
                   403, "forbidden");
    expect_problem(HTTP(fe, .method = "GET", .path = "/v1/locks",
                        .headers = {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"}),
                   403, "forbidden");
}

static void test_wrong_names(struct world *w)
{
    static const char *const bad[] = {"a:7400", "http://a.example", "*", "a,,b"};

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *const args[] = {"--listen", "127.0.0.1:0", "--server-names", bad[i], NULL};
        struct child *child = rlockd_start(w, args, NULL);
        assert_int_equal(child_wait(child, 5000), 2);
        assert_non_null(strstr(child_stderr(child), "rlockd: --server-names: must be"));
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_foreign_pages),
        E2E_TEST(test_rebound_names),
        E2E_TEST(test_pages_of_the_server),
        E2E_TEST(test_links),
        E2E_TEST(test_pages_of_allowed_origins),
        E2E_TEST(test_wrong_names),
    };
    struct e2e_plan plan = {.name = "web_pages", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
