/* server/request.c and problem.c, on requests that are only made up: what they need of
 * server/http.h is defined here. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http.h"
#include "server/problem.h"
#include "server/request.h"
#include "server/token.h"

#define TOKEN "6f1c2a0e-7b1d-4e3f-9a51-0c2d4e6f8a01"

struct http_request {
    const char *query, *body;
    size_t body_len;
    const char *headers[HTTP_HEADER_COUNT];
    unsigned replies;
    int status;
    json_t *problem; /* the answer's body */
    char retry_after[16];
};

static struct http_request request;

const char *http_query(const struct http_request *asked)
{
    return asked->query;
}

const char *http_body(const struct http_request *asked, size_t *len)
{
    *len = asked->body_len;
    return asked->body;
}

const char *http_header(const struct http_request *asked, enum http_header header)
{
    return asked->headers[header];
}

void http_reply_problem(struct http_request *answered, int status, json_t *body)
{
    answered->replies++;
    answered->status = status;
    json_decref(answered->problem);
    answered->problem = body;
}

void http_reply_header(struct http_request *answered, const char *name, const char *value)
{
    assert_string_equal(name, "Retry-After");
    snprintf(answered->retry_after, sizeof(answered->retry_after), "%s", value);
}

bool http_reply_has_header(const struct http_request *answered, const char *name)
{
    assert_string_equal(name, "Retry-After");
    return answered->retry_after[0] != '\0';
}

/* --- a table of fields -------------------------------------------------------------------- */

struct values {
    struct field_integer ttl, wait;
    struct field_text note, name;
};

static const struct field fields[] = {
    {"ttl", FIELD_INTEGER, offsetof(struct values, ttl), 100, 86400000},
    {"wait", FIELD_INTEGER, offsetof(struct values, wait), -5, INT64_MAX},
    {"note", FIELD_TEXT, offsetof(struct values, note), 0, FIELD_TEXT_SIZE - 1},
    {"name", FIELD_TEXT, offsetof(struct values, name), 2, 4},
};

static struct values values;

static void make(const char *query, const char *body)
{
    json_decref(request.problem);
    memset(&request, 0, sizeof(request));
    memset(&values, 0, sizeof(values));
    request.query = query;
    request.body = body;
    request.body_len = strlen(body);
}

static bool read_fields(void)
{
    return request_fields(&request, fields, sizeof(fields) / sizeof(fields[0]), &values);
}

static int tear_down(void **state)
{
    (void)state;
    make("", "");
    return 0;
}

static const char *detail(void)
{
    return json_string_value(json_object_get(request.problem, "detail"));
}

/* The request was refused, once, and `part` says so. */
static void expect_problem(int status, const char *part)
{
    assert_int_equal(request.replies, 1);
    assert_int_equal(request.status, status);
    assert_int_equal(json_integer_value(json_object_get(request.problem, "status")), status);
    assert_non_null(detail());
    if (strstr(detail(), part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", detail(), part);
}

static void expect_taken(void)
{
    if (!read_fields())
        fail_msg("query \"%s\", body \"%s\": %s", request.query, request.body, detail());
    assert_int_equal(request.replies, 0);
}

static void expect_refused(int status, const char *part)
{
    if (read_fields())
        fail_msg("query \"%s\", body \"%s\" are taken", request.query, request.body);
    expect_problem(status, part);
}

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
        {"ttl=1e3", "ttl: not a whole number"},
        {"ttl=+300", "ttl: not a whole number"},
        {"ttl=0300", "ttl: not a whole number"},
        {"ttl=300%00", "ttl: not a whole number"},
        {"ttl=9223372036854775808", "ttl: not a whole number"},
        {"ttl=99", "ttl: not a number from 100 to 86400000"},
        {"ttl=86400001", "ttl: not a number from 100 to 86400000"},
        {"wait=-6", "wait: not a number from -5 to 9223372036854775807"},
        {"ttl=300&ttl=300", "ttl: given more than once"},
        {"ttl=300&x=1", "x: there is no such field here"},
        {"=1", ": there is no such field here"},
        {"TTL=300", "TTL: there is no such field here"},
        {"ttl =300", "ttl : there is no such field here"},
        {"note=%", "note: not percent-encoded"},
        {"note=%4", "note: not percent-encoded"},
        {"note=%zz", "note: not percent-encoded"},
        {"note=%FF", "note: not 0 to 512 bytes of UTF-8"},
        {"note=a%00b", "note: not 0 to 512 bytes of UTF-8"},
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

/* --- body --------------------------------------------------------------------------------- */

static void body_sets_fields(void **state)
{
    (void)state;
    make("", "{\"ttl\": 30000, \"note\": \"a\\u0020\\\"b\\\" \\ud83d\\udd12\", \"wait\": -5}");
    expect_taken();
    assert_int_equal(values.ttl.value, 30000);
    assert_int_equal(values.wait.value, -5);
    assert_string_equal(values.note.text, "a \"b\" \xF0\x9F\x94\x92");
    assert_false(values.name.given);

    make("", " {} \n");
    expect_taken();
    assert_true(request_no_fields(&request));

    /* Both may be used, for different fields. */
    make("ttl=100", "{\"note\": \"\"}");
    expect_taken();
    assert_true(values.ttl.given && values.note.given);
}

static void bad_bodies_are_refused(void **state)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
        {" ", "body: not one JSON object"},
        {"{", "body: not one JSON object"},
        {"{} {}", "body: not one JSON object"},
        {"[]", "body: not one JSON object with unique members"},
        {"7", "body: not one JSON object"},
        {"null", "body: not one JSON object"},
        {"{\"ttl\": 300, \"ttl\": 300}", "body: not one JSON object with unique members"},
        {"{'ttl': 300}", "body: not one JSON object"},
        {"{\"ttl\": 0300}", "body: not one JSON object"},
        {"{\"note\": \"\xFF\"}", "body: not one JSON object"},
        {"{\"note\": \"\\u0000\"}", "body: not one JSON object"},
        {"{\"ttl\": 9223372036854775808}", "body: not one JSON object"},
        {"{\"ttl\": \"300\"}", "ttl: not a whole number"},
        {"{\"ttl\": 300.0}", "ttl: not a whole number"},
        {"{\"ttl\": null}", "ttl: not a whole number"},
        {"{\"ttl\": true}", "ttl: not a whole number"},
        {"{\"ttl\": 99}", "ttl: not a number from 100 to 86400000"},
        {"{\"note\": 1}", "note: not a string"},
        {"{\"note\": null}", "note: not a string"},
        {"{\"note\": [\"a\"]}", "note: not a string"},
        {"{\"note\": \"a\\nb\"}", "note: not 0 to 512 bytes of UTF-8"},
        {"{\"note\": \"a\\u2028b\"}", "note: not 0 to 512 bytes of UTF-8"},
        {"{\"name\": \"\xC3\xBC\xC3\xBC\xC3\xBC\"}", "name: not 2 to 4 bytes"},
        {"{\"x\": 1}", "x: there is no such field here"},
        {"{\"\": 1}", ": there is no such field here"},
        {"{\"x\": 1, \"ttl\": 300}", "x: there is no such field here"},
        {"{\"x\": 1, \"y\": 1}", "x: there is no such field here"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make("", rows[i].body);
        expect_refused(400, rows[i].part);
    }
    make("ttl=300", "{\"ttl\": 300}");
    expect_refused(400, "ttl: given more than once");
    make("", "{\"ttl\": 300}");
    assert_false(request_no_fields(&request));
    expect_problem(400, "ttl: there is no such field here");
    make("ttl=300", "");
    assert_false(request_no_fields(&request));
    expect_problem(400, "ttl: there is no such field here");
}

static void body_ends_by_its_length(void **state)
{
    (void)state;
    make("", "{\"ttl\": 300}garbage");
    request.body_len = 12;
    expect_taken();
    make("", "{}");
    request.body = "{}\0";
    request.body_len = 3;
    expect_refused(400, "body: not one JSON object");
}

static void body_has_to_be_json(void **state)
{
    static const char *const good[] = {"application/json", "application/json; charset=utf-8",
                                       "Application/JSON;x=y",
                                       "application/json ; charset=utf-8"};
    static const char *const bad[] = {"",
                                      "text/plain",
                                      "application/jsonx",
                                      "application/json-patch+json",
                                      "application/merge-patch+json",
                                      "application/x-www-form-urlencoded",
                                      "application/jso"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        make("", "{\"ttl\": 300}");
        request.headers[HTTP_CONTENT_TYPE] = good[i];
        expect_taken();
        assert_true(values.ttl.given);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make("", "{\"ttl\": 300}");
        request.headers[HTTP_CONTENT_TYPE] = bad[i];
        expect_refused(415, "application/json");
        /* No body, no type to look at. */
        make("ttl=300", "");
        request.headers[HTTP_CONTENT_TYPE] = bad[i];
        expect_taken();
    }
}

/* --- the rest ----------------------------------------------------------------------------- */

static void at_most_is_kept(void **state)
{
    struct field_integer number = {.given = true, .value = 55000};

    (void)state;
    make("", "");
    assert_true(request_at_most(&request, "wait", &number, 55000));
    assert_int_equal(request.replies, 0);
    assert_false(request_at_most(&request, "wait", &number, 54999));
    expect_problem(400, "wait: more than 54999");
    make("", "");
    number.given = false;
    assert_true(request_at_most(&request, "wait", &number, 1));
}

static void token_headers_are_read(void **state)
{
    char canonical[TOKEN_TEXT_SIZE];

    (void)state;
    make("", "");
    assert_false(request_token(&request, HTTP_LEASE_TOKEN, "Lease-Token", true, canonical));
    expect_problem(400, "Lease-Token: this request needs the header");
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
    expect_problem(400, "Lease-Token: not a UUID");
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
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_sets_nothing),    TEST(query_sets_fields),
        TEST(bad_queries_are_refused), TEST(bounds_belong_to_the_range),
        TEST(body_sets_fields),        TEST(bad_bodies_are_refused),
        TEST(body_ends_by_its_length), TEST(body_has_to_be_json),
        TEST(at_most_is_kept),         TEST(token_headers_are_read),
        TEST(preferred_wait_is_read),  TEST(problems_have_their_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
