/* Bytes that no decent client sends: refused with a definite answer, never misread. */
#include <signal.h>

#include "harness.h"

enum { ANSWER_MS = 5000, CUT_OFF_MS = 20000, BODY_MAX = 16 * 1024 };

/* Sends a request line and headers as they are; the token of the world's choice is added. */
static struct reply *ask(struct world *w, const char *method, const char *target,
                         const char *headers, const char *body)
{
    struct raw *raw = raw_open(w->a);

    raw_text(raw, "%s %s HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n%s\r\n%s", method, target,
             token_new(w), headers, body);
    return raw_reply(raw, ANSWER_MS);
}

static void test_bad_names(struct world *w)
{
    static const char *const names[] = {
        "a%00b",  "%00",    "a%zzb",        "a%",        "a%4",
        "%ff",    "%c0%80", "%c3",          "%ed%a0%80", "a%0Ab",
        "a%1Fb",  "a%7Fb",  "%f4%90%80%80", "%e2%82",    "a%0d%0aSet-Cookie:%20x",
        "%c2%85", "%FE%FF",
    };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        static const char *const methods[] = {"PUT", "GET", "DELETE", "PATCH"};
        struct reply *r;

        for (size_t m = 0; m < COUNT_OF(methods); m++) {
            r = ask(w, methods[m], text(w, "/v1/locks/%s", names[i]), "", "");
            expect_problem(r, 400, "malformed-request");
            expect_detail(r, "name");
        }
        r = ask(w, "POST", text(w, "/v1/locks/%s/force-unlock", names[i]),
                "Content-Length: 0\r\n", "");
        expect_problem(r, 400, "malformed-request");
    }
    assert_false(redis_has(w->redis, "a"));
    assert_int_equal(json_array_size(redis_keys(w->redis, "a")), 0);
}

static void test_raw_bytes_in_the_target(struct world *w)
{
    static const char *const targets[] = {"/v1/locks/\xff", "/v1/locks/a\001b",
                                          "/v1/locks/a\tb", "/v1/locks/a\x7f"};

    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        struct reply *r = ask(w, "PUT", targets[i], "", "");

        expect_true(r, r->status == 400 || r->status == 404);
    }
    /* UTF-8 that was not encoded is taken for what it is, or refused; never cut. */
    ask(w, "PUT", "/v1/locks/\xc3\xbc", "", "");
    assert_false(redis_has(w->redis, "\xc3"));
    assert_int_equal(json_array_size(redis_keys(w->redis, "a")), 0);
}

static void test_name_lengths(struct world *w)
{
    char name[514];
    struct reply *r;

    memset(name, 'n', sizeof(name));
    name[512] = '\0';
    expect_status(ask(w, "PUT", text(w, "/v1/locks/%s", name), "", ""), 201);
    assert_true(redis_has(w->redis, name));
    name[512] = 'n';
    name[513] = '\0';
    expect_problem(ask(w, "PUT", text(w, "/v1/locks/%s", name), "", ""), 400,
                   "malformed-request");
    /* The limit is on what is decoded. */
    name[0] = '\0';
    for (int i = 0; i < 170; i++)
        strcat(name, "\xe2\x82\xac");
    expect_str(lock_put(w->a, name, token_new(w), NULL), "lock", name);
    r = ask(w, "PUT", "/v1/locks/?ttl_ms=1000", "", "");
    expect_true(r, r->status == 400 || r->status == 404 || r->status == 405);
    assert_false(redis_has(w->redis, ""));
}

static void test_encoded_slash_stays_in_the_name(struct world *w)
{
    struct reply *r = ask(w, "PUT", "/v1/locks/a%2Fforce-unlock", "", "");

    expect_status(r, 201);
    expect_str(r, "lock", "a/force-unlock");
    assert_true(redis_has(w->redis, "a/force-unlock"));
    /* Decoded once, not twice. */
    r = ask(w, "PUT", "/v1/locks/b%252Fc", "", "");
    expect_status(r, 201);
    expect_str(r, "lock", "b%2Fc");
    r = ask(w, "PUT", "/v1/locks/plus+plus", "", "");
    expect_str(r, "lock", "plus+plus");
}

static void test_body_where_none_belongs(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "no-body", token, NULL), 201);
    r = HTTP(w->a, .method = "DELETE", .path = "/v1/locks/no-body", .token = token,
             .body = "{\"ttl_ms\":1000}");
    expect_problem(r, 400, "malformed-request");
    r = HTTP(w->a, .method = "DELETE", .path = "/v1/locks/no-body", .token = token,
             .body = "{}");
    expect_status(r, 200);
}

static void test_slow_senders_are_cut_off(struct world *w)
{
    enum { KINDS = 4 };
    struct raw *slow[KINDS];
    int left = KINDS;
    int64_t began = now_ms();

    for (int i = 0; i < KINDS; i++)
        slow[i] = raw_open(w->a);
    raw_text(slow[1], "GET /livez HTTP/1.1\r\nHost: x\r\nX-Drip: ");
    raw_text(slow[2],
             "PUT /v1/locks/drip HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
             token_new(w));
    raw_text(slow[3], "G");
    /* A byte now and then makes them look alive: the deadline is for the whole request. */
    while (left > 0 && now_ms() - began < allowed_ms(CUT_OFF_MS)) {
        left = 0;
        for (int i = 0; i < KINDS; i++) {
            if (raw_closed(slow[i], 1))
                continue;
            left++;
            if (i > 0)
                raw_send(slow[i], i == 3 ? "E" : " ", 1);
        }
        nap_ms(500);
    }
    assert_int_equal(left, 0);
    assert_false(redis_has(w->redis, "drip"));
    /* A waiter is no slow sender. */
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
}

static void test_pipelined_requests(struct world *w)
{
    struct raw *raw = raw_open(w->a);
    const char *token = token_new(w);
    struct reply *r;

    raw_text(raw,
             "PUT /v1/locks/pipe?ttl_ms=9000 HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n\r\n"
             "GET /v1/locks/pipe HTTP/1.1\r\nHost: x\r\n\r\n"
             "DELETE /v1/locks/pipe HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n\r\n",
             token, token);
    r = raw_reply(raw, ANSWER_MS);
    expect_status(r, 201);
    expect_int(r, "ttl_ms", 9000);
    r = raw_reply(raw, ANSWER_MS);
    expect_status(r, 200);
    expect_bool(r, "locked", true);
    r = raw_reply(raw, ANSWER_MS);
    expect_status(r, 200);
    expect_str(r, "state", "released");
}

/* A request behind one that waits is no hang-up, and is answered in its turn. */
static void test_pipelined_behind_a_waiter(struct world *w)
{
    struct raw *raw = raw_open(w->a);
    const char *holder = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "pipe-wait", holder, "ttl_ms=60000"), 201);
    raw_text(raw,
             "PUT /v1/locks/pipe-wait?wait_ms=20000 HTTP/1.1\r\nHost: x\r\n"
             "Lease-Token: %s\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
             token_new(w));
    wait_until(waiter_count(w->a, "pipe-wait") == 1, 5000);
    assert_int_equal(waiter_count(w->a, "pipe-wait"), 1);
    expect_status(lock_release(w->a, "pipe-wait", holder), 200);
    r = raw_reply(raw, ANSWER_MS);
    expect_status(r, 201);
    r = raw_reply(raw, ANSWER_MS);
    expect_status(r, 200);
    expect_str(r, "name", "rlockd");
}

static void test_connection_is_kept(struct world *w)
{
    struct raw *raw = raw_open(w->a);

    for (int i = 0; i < 50; i++) {
        const char *token = token_new(w);

        raw_text(
            raw,
            "PUT /v1/locks/keep HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n"
            "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"ttl_ms\":9000}",
            token);
        expect_status(raw_reply(raw, ANSWER_MS), 201);
        raw_text(raw, "DELETE /v1/locks/keep HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n\r\n",
                 token);
        expect_status(raw_reply(raw, ANSWER_MS), 200);
    }
    assert_false(raw_closed(raw, 1));
    raw_text(raw, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect_status(raw_reply(raw, ANSWER_MS), 200);
    assert_true(raw_closed(raw, ANSWER_MS));
}

/* The end of the stream comes together with a request: the connection does not stay idle. */
static void test_hang_up_right_behind_a_request(struct world *w)
{
    static const char *const targets[] = {"GET /livez", "GET /v1/locks/hasty",
                                          "DELETE /v1/locks/hasty"};

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct raw *raw = raw_open(w->a);
        raw_text(raw, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        expect_status(raw_reply(raw, ANSWER_MS), 200);
        child_signal(w->a->child, SIGSTOP);
        raw_text(raw, "%s HTTP/1.1\r\nHost: x\r\nLease-Token: %s\r\n\r\n", targets[i],
                 token_new(w));
        raw_shut_write(raw);
        child_signal(w->a->child, SIGCONT);
        if (!raw_closed(raw, ANSWER_MS))
            FAIL("%s: its connection is still open", targets[i]);
    }
}

static void test_head(struct world *w)
{
    static const char *const paths[] = {"/livez", "/v1/locks/head", "/v1/locks", "/version"};

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct reply *get = http(w->a, "GET", paths[i], NULL);
        struct reply *head = http(w->a, "HEAD", paths[i], NULL);

        expect_status(head, 200);
        assert_string_equal(head->text, "");
        assert_string_equal(reply_header(w, head, "Content-Type"),
                            reply_header(w, get, "Content-Type"));
    }
    expect_status(http(w->a, "HEAD", "/nothing", NULL), 404);
    expect_status(http(w->a, "HEAD", "/v1/locks/a/force-unlock", NULL), 405);
}

static void test_deep_and_wide_json(struct world *w)
{
    char *deep = calloc(1, BODY_MAX);
    struct reply *r;

    world_defer(w, free, deep);
    strcpy(deep, "{\"note\":");
    memset(deep + strlen(deep), '[', 5000);
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/deep", .token = token_new(w),
             .body = deep);
    expect_problem(r, 400, "malformed-request");
    strcpy(deep, "{");
    for (int i = 0; i < 1000; i++)
        sprintf(deep + strlen(deep), "\"m%d\":%d,", i, i);
    strcpy(deep + strlen(deep) - 1, "}");
    r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/deep", .token = token_new(w),
             .body = deep);
    expect_problem(r, 400, "malformed-request");
    assert_false(redis_has(w->redis, "deep"));
}

/* What a client sends comes back only inside JSON. */
static void test_nothing_is_echoed_raw(struct world *w)
{
    struct reply *r = ask(w, "PUT", "/v1/locks/x?ttl%0d%0aX-Evil:%20yes=1", "", "");

    expect_problem(r, 400, "malformed-request");
    assert_null(strcasestr(r->head, "\nX-Evil"));
    r = lock_put(w->a, "<b>\"\\", token_new(w), "note=%22%5c%3cscript%3e");
    expect_status(r, 201);
    expect_str(r, "lock", "<b>\"\\");
    expect_str(r, "note", "\"\\<script>");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_bad_names),
        E2E_TEST(test_raw_bytes_in_the_target),
        E2E_TEST(test_name_lengths),
        E2E_TEST(test_encoded_slash_stays_in_the_name),
        E2E_TEST(test_body_where_none_belongs),
        E2E_TEST(test_slow_senders_are_cut_off),
        E2E_TEST(test_pipelined_requests),
        E2E_TEST(test_pipelined_behind_a_waiter),
        E2E_TEST(test_connection_is_kept),
        E2E_TEST(test_hang_up_right_behind_a_request),
        E2E_TEST(test_head),
        E2E_TEST(test_deep_and_wide_json),
        E2E_TEST(test_nothing_is_echoed_raw),
    };
    struct e2e_plan plan = {.name = "http-safety", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
