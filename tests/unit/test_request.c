/* server/http/request.c and problem.c: queries, headers and problems. */
#include "tests/unit/fake_request.h"

/* --- query -------------------------------------------------------------------------------- */

static void nothing_sets_nothing(void **state)
{
    static const char *const queries[] = {"", "&", "&&&"};

    (void)state;
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        make(queries[i], "");
        expect_taken();
        assert_false(values.ttl.given || values.wait.given || values.note.given);
        assert_true(request_no_fields(&request));
    }
}

static void query_sets_fields(void **state)
{
    (void)state;
    make("ttl=30000&wait=-5", "");
    expect_taken();
    assert_true(values.ttl.given && values.wait.given);
    assert_int_equal(values.ttl.value, 30000);
    assert_int_equal(values.wait.value, -5);
    assert_false(values.note.given);
    make("ttl=30000.0&wait=-5.00", "");
    expect_taken();
    assert_int_equal(values.ttl.value, 30000);
    assert_int_equal(values.wait.value, -5);

    make("&wait=9223372036854775807&&note=a+b%2Bc%26%3D%C3%BC=x&", "");
    expect_taken();
    assert_int_equal(values.wait.value, INT64_MAX);
    assert_string_equal(values.note.text, "a b+c&=\xC3\xBC=x");

    make("n%6Ft%65=", "");
    expect_taken();
    assert_true(values.note.given);
    assert_string_equal(values.note.text, "");

    make("note", "");
    expect_taken();
    assert_true(values.note.given);
}

static void bad_queries_are_refused(void **state)
{
    static const struct {
        const char *query, *part;
    } rows[] = {
        {"ttl", "ttl: not a whole number"},
        {"ttl=", "ttl: not a whole number"},
        {"ttl=1.5", "ttl: not a whole number"},
        {"ttl=300.", "ttl: not a whole number"},
        {"ttl=300.0.0", "ttl: not a whole number"},
        {"ttl=.0", "ttl: not a whole number"},
        {"ttl=1e3", "ttl: not a whole number"},
        {"ttl=+300", "ttl: not a whole number"},
        {"ttl=0300", "ttl: not a whole number"},
        {"ttl=300%00", "ttl: has a NUL in it"},
        {"ttl=9223372036854775808", "ttl: not a whole number"},
        {"ttl=99", "ttl: not a number from 100 to 86400000"},
        {"ttl=86400001", "ttl: not a number from 100 to 86400000"},
        {"wait=-6", "wait: less than -5"},
        {"ttl=300&ttl=300", "ttl: given more than once"},
        {"ttl=300&x=1", "x: there is no such field here"},
        {"=1", ": there is no such field here"},
        {"TTL=300", "TTL: there is no such field here"},
        {"ttl =300", "ttl : there is no such field here"},
        {"note=%", "note: not percent-encoded"},
        {"note=%4", "note: not percent-encoded"},
        {"note=%zz", "note: not percent-encoded"},
        {"note=%FF", "note: not 0 to 512 bytes of UTF-8"},
        {"note=a%00b", "note: has a NUL in it"},
        {"note=a%0Ab", "note: not 0 to 512 bytes of UTF-8"},
        {"name=a", "name: not 2 to 4 bytes"},
        {"name=abcde", "name: not 2 to 4 bytes"},
        {"%zz=1", "query: a name in it"},
        {"%FF=1", "query: a name in it"},
        {"ttl%00=300", "query: a name in it"},
        {"a%0Ab=1", "query: a name in it"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make(rows[i].query, "");
        expect_refused(400, rows[i].part);
    }
}

static void bounds_belong_to_the_range(void **state)
{
    char query[2000];

    (void)state;
    make("ttl=100&name=ab", "");
    expect_taken();
    make("ttl=86400000&name=abcd", "");
    expect_taken();
    assert_int_equal(values.ttl.value, 86400000);

    snprintf(query, sizeof(query), "note=%0*d", FIELD_TEXT_SIZE - 1, 0);
    make(query, "");
    expect_taken();
    assert_int_equal(strlen(values.note.text), FIELD_TEXT_SIZE - 1);
    snprintf(query, sizeof(query), "note=%0*d", FIELD_TEXT_SIZE, 0);
    make(query, "");
    expect_refused(400, "note: not 0 to 512 bytes");
    snprintf(query, sizeof(query), "note=%0*d", 1500, 0);
    make(query, "");
    expect_refused(400, "note: not 0 to 512 bytes");
    snprintf(query, sizeof(query), "%0*d=1", 1500, 0);
    make(query, "");
    expect_refused(400, "a long name: there is no such field here");
}
/* --- the rest ----------------------------------------------------------------------------- */

static void at_most_is_kept(void **state)
{
    struct field_integer number = {.given = true, .value = 55000};

    (void)state;
    make("", "");
    assert_true(request_wait_at_most(&request, &number, 55000));
    assert_int_equal(request.replies, 0);
    assert_false(request_wait_at_most(&request, &number, 54999));
    expect_problem(400, "wait_ms: more than 54999");
    make("", "");
    number.given = false;
    assert_true(request_wait_at_most(&request, &number, 1));
}

static void token_headers_are_read(void **state)
{
    char canonical[TOKEN_TEXT_SIZE];

    (void)state;
    make("", "");
    assert_false(request_token(&request, HTTP_LEASE_TOKEN, "Lease-Token", true, canonical));
    expect_problem(400, "Lease-Token: this request needs the header: a UUID that you make");
    make("", "");
    memset(canonical, '?', sizeof(canonical));
    assert_true(request_token(&request, HTTP_LEASE_TOKEN, "Lease-Token", false, canonical));
    assert_string_equal(canonical, "");
    request.headers[HTTP_LEASE_TOKEN] = "6F1C2A0E-7B1D-4E3F-9A51-0C2D4E6F8A01";
    assert_true(request_token(&request, HTTP_LEASE_TOKEN, "Lease-Token", true, canonical));
    assert_string_equal(canonical, TOKEN);
    assert_true(request_token(&request, HTTP_SESSION_TOKEN, "Session-Token", false, canonical));
    assert_string_equal(canonical, "");
    assert_int_equal(request.replies, 0);
    request.headers[HTTP_LEASE_TOKEN] = "secret";
    assert_false(request_token(&request, HTTP_LEASE_TOKEN, "Lease-Token", false, canonical));
    expect_problem(400, "Lease-Token: must be a UUID");
    assert_null(strstr(detail(), "secret"));
}

static void preferred_wait_is_read(void **state)
{
    static const struct {
        const char *prefer;
        int64_t wait_s;
    } rows[] = {
        {NULL, -1},
        {"", -1},
        {"wait", -1},
        {"wait=", -1},
        {"wait=x", -1},
        {"wait=-1", -1},
        {"wait=+1", -1},
        {"await=5", -1},
        {"waits=5", -1},
        {"respond-async", -1},
        {"wait=0", 0},
        {"wait=10", 10},
        {"WAIT=10", 10},
        {"wait=10; x=y", 10},
        {" \t wait=10", 10},
        {"respond-async, wait=10", 10},
        {"respond-async,wait=10", 10},
        {",,wait=10", 10},
        {"wait=10, wait=20", 10}, /* RFC 7240 §2: the first one counts */
        {"respond-async,", -1},
        {"wait=2147483647", INT32_MAX},
        {"wait=2147483648", INT32_MAX},
        {"wait=99999999999999999999999", INT32_MAX},
    };

    (void)state;
    make("", "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        request.headers[HTTP_PREFER] = rows[i].prefer;
        int64_t wait_s = request_prefer_wait_s(&request);
        if (wait_s != rows[i].wait_s)
            fail_msg("\"%s\" is %lld", rows[i].prefer, (long long)wait_s);
    }
    assert_int_equal(request.replies, 0);
}

static void problems_have_their_members(void **state)
{
    (void)state;
    make("", "");
    problem_reply(&request, PROBLEM_LOCKED, json_pack("{s:s}", "holder", "x"), "%d left", 7);
    expect_problem(423, "7 left");
    assert_int_equal(json_object_size(request.problem), 5);
    assert_string_equal(json_string_value(json_object_get(request.problem, "type")),
                        "urn:rlockd:problem:locked");
    assert_string_equal(json_string_value(json_object_get(request.problem, "holder")), "x");
    assert_non_null(json_object_get(request.problem, "title"));
    assert_string_equal(request.retry_after, "1");
    /* The caller's own Retry-After stays. */
    make("", "");
    http_reply_header(&request, "Retry-After", "9");
    problem_reply(&request, PROBLEM_REDIS_UNAVAILABLE, NULL, "later");
    assert_string_equal(request.retry_after, "9");
    make("", "");
    problem_reply(&request, PROBLEM_LEASE_ENDED, NULL, "gone");
    expect_problem(410, "gone");
    assert_string_equal(request.retry_after, "");
    assert_null(json_object_get(request.problem, "kind"));
    /* FleetLock's. */
    make("", "");
    request.dialect = DIALECT_FLEETLOCK;
    problem_reply(&request, PROBLEM_LOCKED, NULL, "busy");
    assert_string_equal(json_string_value(json_object_get(request.problem, "kind")), "locked");
    assert_string_equal(json_string_value(json_object_get(request.problem, "value")), "busy");
    make("", "");
    request.dialect = DIALECT_GIT_LFS;
    problem_reply(&request, PROBLEM_LOCK_EXISTS, NULL, "busy");
    expect_problem(409, "busy");
    assert_string_equal(request.retry_after, "");
    assert_string_equal(json_string_value(json_object_get(request.problem, "message")), "busy");
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_sets_nothing),    TEST(query_sets_fields),
        TEST(bad_queries_are_refused), TEST(bounds_belong_to_the_range),
        TEST(at_most_is_kept),         TEST(token_headers_are_read),
        TEST(preferred_wait_is_read),  TEST(problems_have_their_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
