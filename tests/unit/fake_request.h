/* A made-up request, for tests of server/http/request.c: what that needs of server/http/http.h
 * is defined here. Include it once a program. */
#ifndef TESTS_UNIT_FAKE_REQUEST_H
#define TESTS_UNIT_FAKE_REQUEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "server/http/http.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "server/base/token.h"

#define TOKEN "6f1c2a0e-7b1d-4e3f-9a51-0c2d4e6f8a01"

struct http_request {
    const char *query, *body;
    size_t body_len;
    const char *headers[HTTP_HEADER_COUNT];
    unsigned replies;
    int status;
    json_t *problem; /* the answer's body */
    char retry_after[16];
    enum route_dialect dialect;
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

void http_log_text(struct http_request *answered, const char *name, const char *value)
{
    (void)answered;
    (void)name;
    (void)value;
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

enum route_dialect http_dialect(const struct http_request *asked)
{
    return asked->dialect;
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
    assert_false(text_has_control(detail(), strlen(detail())));
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

#endif
