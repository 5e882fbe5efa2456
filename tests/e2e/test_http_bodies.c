/* Where a request ends: lengths, chunks, and what is too much. */
#include "harness.h"

enum { ANSWER_MS = 5000, CUT_OFF_MS = 20000, BODY_MAX = 16 * 1024 };

static void test_transfer_encoding(struct world *w)
{
    static const char *const headers[] = {
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked;x=1\r\n",
        "Transfer-Encoding: \r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "transfer-encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\0\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        struct raw *raw = raw_open(w->a);
        bool has_nul = i == COUNT_OF(headers) - 1;

        raw_text(raw, "PUT /v1/locks/te HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n",
                 token_new(w));
        raw_send(raw, headers[i], strlen(headers[i]));
        if (has_nul)
            raw_send(raw, "\0\r\n", 3);
        raw_text(raw, "\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        struct reply *r = raw_reply(raw, ANSWER_MS);
        expect_status(r, 400);
        /* What follows might be the body: nothing more is answered on this connection. */
        assert_int_equal(raw_reply(raw, 300)->status, 0);
        assert_true(raw_closed(raw, ANSWER_MS));
    }
    assert_false(redis_has(w->redis, "te"));
}

/* Chunks with a request behind them, sent in pieces of `step` bytes. */
static struct raw *send_chunks(struct world *w, const char *name, const char *chunks,
                               size_t step)
{
    struct raw *raw = raw_open(w->a);
    const char *all = text(w,
                           "PUT /v1/locks/%s HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
                           "Content-Type: application/json\r\n"
                           "Transfer-Encoding: Chunked\r\n\r\n%s"
                           "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
                           name, token_new(w), chunks);

    for (size_t sent = 0, len = strlen(all); sent < len; sent += step) {
        raw_send(raw, all + sent, step < len - sent ? step : len - sent);
        if (step < len)
            nap_ms(1);
    }
    return raw;
}

static void test_chunked_bodies(struct world *w)
{
    static const char *const chunks[] = {
        "d\r\n{\"ttl_ms\":900\r\n2\r\n0}\r\n0\r\n\r\n",
        "f\r\n{\"ttl_ms\":9000}\r\n0\r\n\r\n",
        "F\r\n{\"ttl_ms\":9000}\r\n000\r\n\r\n",
        "f\r\n{\"ttl_ms\":9000}\r\n0\r\nX-Trailer: yes\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        for (size_t step = 1; step < 2000; step += 1500) {
            struct raw *raw = send_chunks(w, text(w, "chunked-%zu-%zu", i, step), chunks[i],
                                          step);
            struct reply *r = raw_reply(raw, ANSWER_MS);

            expect_status(r, 201);
            expect_int(r, "ttl_ms", 9000);
            /* The last request of its connection. */
            assert_int_equal(raw_reply(raw, 300)->status, 0);
            assert_true(raw_closed(raw, ANSWER_MS));
        }
    }
    expect_status(raw_reply(send_chunks(w, "chunked-none", "0\r\n\r\n", 9999), ANSWER_MS), 201);
}

static void test_bad_chunks(struct world *w)
{
    static const char *const chunks[] = {
        "x\r\n{}\r\n0\r\n\r\n",   "-2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n", "2\r\n{}xx0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",    ";a\r\n{}\r\n0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n", "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "1\r\n{\r\n0\r\n\r\n",
    };
    char *long_extension = calloc(1, 40000);

    assert_non_null(long_extension);
    world_defer(w, free, long_extension);
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        struct raw *raw = send_chunks(w, "bad-chunks", chunks[i], 9999);
        struct reply *r = raw_reply(raw, ANSWER_MS);

        expect_true(r, r->status == 400 || r->status == 413);
        assert_int_equal(raw_reply(raw, 300)->status, 0);
        assert_true(raw_closed(raw, ANSWER_MS));
    }
    memset(long_extension, 'e', 39000);
    memcpy(long_extension, "2;", 2);
    /* libmicrohttpd before 1.0 has no room for it and no answer: the deadline ends it. */
    assert_true(raw_closed(send_chunks(w, "bad-chunks", long_extension, 99999), CUT_OFF_MS));
    assert_false(redis_has(w->redis, "bad-chunks"));
}

static void test_chunked_bodies_have_a_limit(struct world *w)
{
    char *big = calloc(1, 3 * BODY_MAX);
    struct raw *raw;

    assert_non_null(big);
    world_defer(w, free, big);
    /* 16 KiB are taken, one byte more is refused when it is known. */
    for (int more = 0; more <= 1; more++) {
        int len = sprintf(big, "%x\r\n", BODY_MAX + more);
        memset(big + len, ' ', BODY_MAX + (size_t)more);
        memcpy(big + len, "{}", 2);
        memcpy(big + len + BODY_MAX + more, "\r\n0\r\n\r\n", 8);
        struct reply *r = raw_reply(send_chunks(w, text(w, "limit-%d", more), big, 99999),
                                    ANSWER_MS);
        if (more == 0)
            expect_status(r, 201);
        else
            expect_problem(r, 413, "too-large");
    }
    assert_false(redis_has(w->redis, "limit-1"));
    /* Without end: closed. */
    raw = send_chunks(w, "limit-2", "", 99999);
    memset(big, ' ', BODY_MAX);
    for (int i = 0; i < 30; i++) {
        raw_text(raw, "%x\r\n", BODY_MAX);
        raw_send(raw, big, BODY_MAX);
        raw_text(raw, "\r\n");
    }
    assert_true(raw_closed(raw, ANSWER_MS));
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
}

/* From 1.0 on libmicrohttpd refuses them. */
static void test_chunk_extensions(struct world *w)
{
    struct reply *r = raw_reply(
        send_chunks(w, "extension", "2;name=value\r\n{}\r\n0\r\n\r\n", 9999), ANSWER_MS);

    expect_true(r, r->status == 201 || r->status == 400);
}

static void test_chunks_in_http_1_0(struct world *w)
{
    struct raw *raw = raw_open(w->a);

    raw_text(raw,
             "PUT /v1/locks/te HTTP/1.0\r\nHost: x\r\nLease-Token: %s\r\n"
             "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             token_new(w));
    struct reply *r = raw_reply(raw, ANSWER_MS);
    if (r->status != 400)
        expect_problem(r, 411, "length-required");
    assert_false(redis_has(w->redis, "te"));
}

static void test_doubled_content_length(struct world *w)
{
    static const char *const headers[] = {
        "Content-Length: 0\r\nContent-Length: 5\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2, 2\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +2\r\n",
        "Content-Length: 0x2\r\n",
        "Content-Length: two\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        struct raw *raw = raw_open(w->a);

        raw_text(raw, "PUT /v1/locks/cl HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n%s\r\n{}",
                 token_new(w), headers[i]);
        expect_status(raw_reply(raw, ANSWER_MS), 400);
        assert_true(raw_closed(raw, ANSWER_MS));
    }
    assert_false(redis_has(w->redis, "cl"));
}

static void test_oversized_bodies(struct world *w)
{
    char *big = calloc(1, BODY_MAX + 64);
    struct raw *raw = raw_open(w->a);
    struct reply *r;

    world_defer(w, free, big);
    /* Refused by its announced length, before the body is there. */
    raw_text(raw,
             "PUT /v1/locks/big HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
             token_new(w), BODY_MAX + 1);
    r = raw_reply(raw, ANSWER_MS);
    expect_problem(r, 413, "too-large");
    assert_true(raw_closed(raw, ANSWER_MS));
    raw = raw_open(w->a);
    raw_text(raw,
             "PUT /v1/locks/big HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
             "Content-Length: 99999999999999999999\r\n\r\n",
             token_new(w));
    r = raw_reply(raw, ANSWER_MS);
    expect_true(r, r->status == 400 || r->status == 413);
    assert_false(redis_has(w->redis, "big"));
    /* The largest one that is allowed. */
    memset(big, ' ', BODY_MAX);
    memcpy(big, "{\"ttl_ms\":5000}", 15);
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/big", .token = token_new(w),
             .body = big);
    expect_status(r, 201);
    expect_int(r, "ttl_ms", 5000);
}

/* curl, Go and Java ask before they send a body. */
static void test_expect_continue(struct world *w)
{
    static const struct {
        const char *length, *body;
    } sent[] = {
        {"Content-Length: 15", "{\"ttl_ms\":9000}"},
        {"Transfer-Encoding: chunked", "f\r\n{\"ttl_ms\":9000}\r\n0\r\n\r\n"},
    };
    struct raw *raw;

    for (size_t i = 0; i < COUNT_OF(sent); i++) {
        raw = raw_open(w->a);
        raw_text(raw,
                 "PUT /v1/locks/expect-%zu HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
                 "Content-Type: application/json\r\n%s\r\nExpect: 100-continue\r\n\r\n",
                 i, token_new(w), sent[i].length);
        expect_status(raw_reply(raw, ANSWER_MS), 100);
        raw_text(raw, "%s", sent[i].body);
        struct reply *r = raw_reply(raw, ANSWER_MS);
        expect_status(r, 201);
        expect_int(r, "ttl_ms", 9000);
    }
    /* Refused before the body: nobody is asked to send it. */
    raw = raw_open(w->a);
    raw_text(raw,
             "PUT /v1/locks/expect HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
             "Content-Length: %d\r\nExpect: 100-continue\r\n\r\n",
             token_new(w), BODY_MAX + 1);
    expect_problem(raw_reply(raw, ANSWER_MS), 413, "too-large");
    assert_true(raw_closed(raw, ANSWER_MS));
    assert_false(redis_has(w->redis, "expect"));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_transfer_encoding),
        E2E_TEST(test_chunked_bodies),
        E2E_TEST(test_bad_chunks),
        E2E_TEST(test_chunked_bodies_have_a_limit),
        E2E_TEST(test_chunk_extensions),
        E2E_TEST(test_chunks_in_http_1_0),
        E2E_TEST(test_doubled_content_length),
        E2E_TEST(test_oversized_bodies),
        E2E_TEST(test_expect_continue),
    };
    struct e2e_plan plan = {.name = "http-bodies", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
