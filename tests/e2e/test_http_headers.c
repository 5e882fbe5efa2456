/* Request lines and headers: how much of them is served, and what is refused. */
#include "harness.h"

#include <microhttpd.h>

enum { ANSWER_MS = 5000, CUT_OFF_MS = 20000, CLOSED_UNANSWERED = 6 };

/* Sends a request line and headers as they are; the token of the world's choice is added. */
static struct reply *ask(struct world *w, const char *method, const char *target,
                         const char *headers, const char *body)
{
    struct raw *raw = raw_open(w->a);

    raw_text(raw, "%s %s HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n%s\r\n%s", method, target,
             token_new(w), headers, body);
    return raw_reply(raw, ANSWER_MS);
}

/* As browsers and proxies send them: 30 headers, cookies of `bytes` in all, 32 in each. */
static const char *busy_headers(struct world *w, size_t bytes)
{
    char *all = calloc(1, bytes + 8192);
    size_t len = 0, end;

    assert_non_null(all);
    world_defer(w, free, all);
    for (int i = 0; i < 28; i++)
        len += (size_t)sprintf(all + len, "X-Forwarded-Thing-%d: value-%d\r\n", i, i);
    len += (size_t)sprintf(all + len, "Cookie: ");
    end = len + bytes;
    for (int i = 0; len < end; i++)
        len += (size_t)sprintf(all + len, "cookie-%04d=%019d; ", i, i);
    memcpy(all + end, "\r\n", 3);
    return all;
}

static void test_cookies_and_proxies(struct world *w)
{
    static const size_t sizes[] = {0, 1, 31, 100, 1500, 2900, 4000, 5000, 6500, 7000};

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct raw *raw = raw_open(w->a);
        const char *token = token_new(w);

        /* Also the second request of its connection, and with a body. */
        for (int again = 0; again < 3; again++) {
            raw_text(
                raw,
                "PUT /v1/locks/cookies-%zu HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
                "Content-Type: application/json\r\nContent-Length: 12000\r\n%s\r\n%-12000s",
                i, token, busy_headers(w, sizes[i]), "{\"ttl_ms\":9000}");
            struct reply *r = raw_reply(raw, ANSWER_MS);
            expect_status(r, again ? 200 : 201);
            expect_int(r, "ttl_ms", 9000);
        }
    }
}

/* Whatever the size, there is an answer: ours, or libmicrohttpd's where its memory ends. */
static void test_large_headers(struct world *w)
{
    enum { HUGE = 65000 };
    char *value = calloc(1, HUGE + 1);
    char *many = calloc(1, HUGE + 1);
    struct reply *r;

    world_defer(w, free, value);
    world_defer(w, free, many);
    memset(value, 'v', HUGE);
    for (int len = 8000; len < HUGE; len += len < 14500 ? 61 : 9973) {
        r = ask(w, "GET", "/livez", text(w, "X-Long: %.*s\r\n", len, value), "");
        if (len < 9900)
            expect_status(r, 200);
        else if (len > 10100 && len < 10500)
            expect_problem(r, 431, "headers-too-large");
        else if (len > 11200)
            expect_status(r, 431);
        /* Between them not even the head of an answer fits: closed, and logged as 499. */
    }
    for (int count = 1; count < 130; count++) {
        size_t len = 0;
        for (int i = 0; i < count; i++)
            len += (size_t)sprintf(many + len, "X-%d: some value\r\n", i);
        r = ask(w, "GET", "/livez", many, "");
        if (count <= 120)
            expect_status(r, 200);
        else if (count > 125)
            expect_problem(r, 431, "headers-too-large");
    }
    r = ask(w, "GET", text(w, "/v1/locks/%s", value), "", "");
    expect_true(r, r->status == 414 || r->status == 431);
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
    /* Those that we never see leave a line, too. */
    assert_non_null(strstr(front_log(w->a), "HTTP response code is 431"));
}

/* Where libmicrohttpd 1.0.1 loses its place in its own buffer. */
static void test_long_queries_without_headers(struct world *w)
{
    enum { LONGEST = 6000 };
    static const char *const starts[] = {"GET /livez?", "GET /livez?a=1&", "GET /livez?&&"};
    static const char *const behind[] = {"", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "{}"};
    char *fill = calloc(1, LONGEST);

    assert_non_null(fill);
    world_defer(w, free, fill);
    memset(fill, 'q', LONGEST);
    for (size_t i = 0; i < COUNT_OF(starts) * COUNT_OF(behind); i++) {
        for (int len = 1; len < LONGEST; len += 251) {
            struct raw *raw = raw_open(w->a);

            raw_text(raw, "%s%.*s HTTP/1.%d\r\n\r\n%s", starts[i / COUNT_OF(behind)], len, fill,
                     len % 2, behind[i % COUNT_OF(behind)]);
            raw_shut_write(raw);
            assert_true(raw_closed(raw, ANSWER_MS));
        }
        expect_status(http(w->a, "GET", "/livez", NULL), 200);
    }
}

static void test_no_host_and_odd_versions(struct world *w)
{
    struct raw *raw = raw_open(w->a);
    struct reply *r;

    raw_text(raw, "GET /livez HTTP/1.1\r\n\r\n");
    expect_status(raw_reply(raw, ANSWER_MS), 400);
    raw = raw_open(w->a);
    raw_text(raw, "GET /livez HTTP/9.9\r\nHost: x\r\n\r\n");
    r = raw_reply(raw, ANSWER_MS);
    expect_true(r, r->status == 505 || r->status == 400);
    raw = raw_open(w->a); /* HTTP/2 without TLS */
    raw_text(raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    r = raw_reply(raw, ANSWER_MS);
    expect_true(r, r->status == 505 || r->status == 400);
    assert_true(raw_closed(raw, ANSWER_MS));
    raw = raw_open(w->a); /* offers HTTP/2, and is served without */
    raw_text(raw, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                  "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n");
    expect_status(raw_reply(raw, ANSWER_MS), 200);
    raw = raw_open(w->a);
    raw_send(raw, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    raw_text(raw, "\r\n\r\n");
    assert_true(raw_closed(raw, CUT_OFF_MS));
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
}

/* Bytes that are cut off, skipped or joined somewhere else would be read in two ways. */
static void test_what_is_read_in_two_ways(struct world *w)
{
#define BYTES(literal)                                                                         \
    {                                                                                          \
        literal, sizeof(literal) - 1                                                           \
    }
    static const struct {
        const char *bytes;
        size_t len;
    } heads[] = {
        BYTES("GET /livez\0x HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez\0 HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez?a\0 HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET\0 /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET\0X /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("\rGET /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GE\x01T /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("(GET) /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET  /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez x HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez\x01 HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\0y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\0\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: \0y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A\0: y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: y\0\r\nX-B: z\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\0"
              "3\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\n: y\r\nX-A: z\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\n: y\r\nHost: x\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\n y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\tc\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b\rX-B: c\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b\r Transfer-Encoding: chunked\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x, y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x/y\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nHost: x\r\n\n"),
        BYTES("GET /livez HTTP/1.1\nHost: x\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\nX-A: b\r\n\r\n"),
        BYTES("GET /livez HTTP/1.1\r\n\r\n"),
    };

    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        struct raw *raw = raw_open(w->a);

        raw_send(raw, heads[i].bytes, heads[i].len);
        raw_text(raw, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
        struct reply *r = raw_reply(raw, ANSWER_MS);
        /* From 1.0 on libmicrohttpd closes at once, without an answer, at a NUL in the request
         * line and at a bare CR before it. */
        if (r->status != 400 && !(i < CLOSED_UNANSWERED && r->status == 0))
            FAIL("head %zu: %d", i, r->status);
        assert_int_equal(raw_reply(raw, 200)->status, 0);
        assert_true(raw_closed(raw, ANSWER_MS));
    }
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
}

static void test_absolute_targets(struct world *w)
{
    static const struct {
        const char *target, *name;
    } rows[] = {
        {"http://x/v1/locks/absolute", "absolute"},
        {"HTTPS://x:7400/v1/locks/absolute", "absolute"},
        {"http://x/v1/locks/http:%2F%2Fx", "http://x"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_str(ask(w, "GET", rows[i].target, "", ""), "lock", rows[i].name);
    expect_str(ask(w, "GET", "http://x", "", ""), "documentation", "/openapi.yaml");
    expect_detail(ask(w, "GET", "http://x?a=1", "", ""), "a: there is no such field");
    expect_status(ask(w, "GET", "ftp://x/v1/locks/absolute", "", ""), 404);
}

static void test_hosts(struct world *w)
{
    static const char *const hosts[] = {"", "x", "x:7400", "[::1]:7400", "a_b.example", "x."};
    struct front *fe = front_start(w, "--redis", w->redis->url, "--server-names",
                                   "x, a_b.example, x.", NULL);

    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct raw *raw = raw_open(fe);

        raw_text(raw, "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        expect_status(raw_reply(raw, ANSWER_MS), 200);
    }
}

/* RFC 9110 §5.5: blanks around a value are no part of it. */
static void test_blanks_behind_a_value(struct world *w)
{
    static const char *const blanks[] = {" ", "\t", " \t  "};
    static const char secret[] = "blank-secret-aaaaaaaa";
    const char *tokens = tokens_write(w, "tokens",
                                      "ci {blank-secret-aaaaaaaa} lock=* read=*\n");
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens", tokens, NULL);

    for (size_t i = 0; i < COUNT_OF(blanks); i++) {
        struct raw *raw = raw_open(fe);

        raw_text(raw,
                 "PUT /v1/locks/blank-%zu HTTP/1.1\r\nHost: x%s\r\nLease-Token: %s%s\r\n"
                 "Authorization: Bearer %s%s\r\nContent-Type: application/json%s\r\n"
                 "Content-Length: 15\r\n\r\n{\"ttl_ms\":9000}",
                 i, blanks[i], token_new(w), blanks[i], secret, blanks[i], blanks[i]);
        struct reply *r = raw_reply(raw, ANSWER_MS);
        expect_status(r, 201);
        expect_int(r, "ttl_ms", 9000);
        raw_text(raw,
                 "GET /v1/locks/blank-%zu HTTP/1.1\r\nHost: x\r\nX-Empty:%s\r\n"
                 "X-Request-Id:%s\r\nAuthorization: Bearer %s%s\r\n\r\n",
                 i, blanks[i], blanks[i], secret, blanks[i]);
        expect_status(raw_reply(raw, ANSWER_MS), 200);
    }
}

/* Where a request ends, libmicrohttpd has read in its own way: what it may have read otherwise
 * than a proxy is refused. */
static void test_blanks_behind_a_length(struct world *w)
{
    static const struct {
        const char *header, *body;
    } framings[] = {
        {"Content-Length: 2 ", "{}"},
        {"Content-Length: 2\t", "{}"},
        {"Transfer-Encoding: chunked ", "2\r\n{}\r\n0\r\n\r\n"},
        {"Transfer-Encoding: chunked\t", "2\r\n{}\r\n0\r\n\r\n"},
    };

    for (size_t i = 0; i < COUNT_OF(framings); i++) {
        struct raw *raw = raw_open(w->a);

        raw_text(raw, "PUT /v1/locks/x HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", framings[i].header,
                 framings[i].body);
        struct reply *r = raw_reply(raw, ANSWER_MS);
        expect_true(r, MHD_VERSION >= 0x01000000 || r->status == 400);
    }
}

/* libmicrohttpd before 1.0 sends the head of these answers twice, the second time as their
 * body. The connection ends there, so only whoever reads the text is puzzled. */
static void test_a_length_that_libmicrohttpd_refuses(struct world *w)
{
    static const char *const lengths[] = {"two", "-1", "99999999999999999999"};

    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct raw *raw = raw_open(w->a);

        raw_text(raw, "PUT /v1/locks/x HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n",
                 lengths[i]);
        struct reply *r = raw_reply(raw, ANSWER_MS);
        expect_true(r, r->status == 400 || r->status == 413);
        expect_true(r, strncmp(r->text, "HTTP/1.1 4", 10) == 0 ||
                           strncmp(r->text, "<html>", 6) == 0);
        assert_true(raw_closed(raw, ANSWER_MS));
    }
}

/* RFC 9110 §5.3: the lines of a list are one value, whatever stands between them. */
static void test_lists_in_several_lines(struct world *w)
{
    enum { MANY = 110 };
    static const char *const lists[] = {
        "Prefer: respond-async\r\nPrefer: wait=7\r\n",
        "Prefer: wait=7\r\nX-Between: a\r\nprefer: wait=9\r\n",
        "Prefer:\r\nPrefer: \t\r\nPREFER: wait=7 \t\r\nPrefer:\r\n",
        /* RFC 7240 */
        "Prefer: x=\"a\\\", wait=1, wait=2\", waiting=3, wait=4x, wait, Wait = \"7\"; y=8\r\n",
    };
    char *many = calloc(MANY, sizeof("Prefer: p-000\r\n"));
    size_t len = 0;
    struct reply *r;

    assert_non_null(many);
    world_defer(w, free, many);
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        r = ask(w, "PUT", text(w, "/v1/locks/list-%zu", i), lists[i], "");
        expect_status(r, 201);
        assert_string_equal(reply_header(w, r, "Preference-Applied"), "wait=7");
    }
    for (int i = 0; i < MANY; i++)
        len += (size_t)sprintf(many + len, "Prefer: p-%d\r\n", i);
    r = ask(w, "PUT", "/v1/locks/list", text(w, "%sPrefer: wait=7\r\n", many), "");
    expect_status(r, 201);
    assert_string_equal(reply_header(w, r, "Preference-Applied"), "wait=7");
    r = ask(w, "GET", "/livez", text(w, "Prefer: %04500d\r\nPrefer: %04500d\r\n", 0, 0), "");
    expect_status(r, 200);
    r = ask(w, "GET", "/livez", text(w, "Prefer: %05050d\r\nPrefer: %05050d\r\n", 0, 0), "");
    expect_problem(r, 431, "headers-too-large");
    expect_detail(ask(w, "GET", "/livez", "Content-Type: a\r\nContent-Type: b\r\n", ""),
                  "Content-Type occurs more than once");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_cookies_and_proxies),
        E2E_TEST(test_large_headers),
        E2E_TEST(test_long_queries_without_headers),
        E2E_TEST(test_no_host_and_odd_versions),
        E2E_TEST(test_what_is_read_in_two_ways),
        E2E_TEST(test_absolute_targets),
        E2E_TEST(test_hosts),
        E2E_TEST(test_blanks_behind_a_value),
        E2E_TEST(test_blanks_behind_a_length),
        E2E_TEST(test_a_length_that_libmicrohttpd_refuses),
        E2E_TEST(test_lists_in_several_lines),
    };
    struct e2e_plan plan = {.name = "http-headers", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
