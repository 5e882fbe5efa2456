/* A made-up request with every sort of field, for the targets that read fields. Include the
 * header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_FIELDS_H
#define RLOCKD_TESTS_FUZZ_FIELDS_H

#include "server/base/log.h"
#include "server/base/text.h"
#include "server/http/request.h"
#include "tests/fuzz/fuzz.h"

enum { IDS_MAX = 8, NAMES_MAX = 4, TEXT_MAX = 64 };

struct http_request {
    const char *query, *body;
    size_t body_len, replies;
};

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
    (void)asked;
    (void)header;
    return NULL;
}

enum route_dialect http_dialect(const struct http_request *asked)
{
    (void)asked;
    return DIALECT_RLOCKD;
}

void http_log_text(struct http_request *answered, const char *name, const char *value)
{
    (void)answered;
    (void)name;
    (void)value;
}

void http_reply_problem(struct http_request *answered, int status, json_t *body)
{
    const char *detail = json_string_value(json_object_get(body, "detail"));

    CHECK((status == 400 || status == 415) && detail != NULL);
    CHECK(!text_has_control(detail, strlen(detail)));
    answered->replies++;
    json_decref(body);
}

void http_reply_header(struct http_request *answered, const char *name, const char *value)
{
    (void)answered;
    (void)name;
    (void)value;
}

bool http_reply_has_header(const struct http_request *answered, const char *name)
{
    (void)answered;
    (void)name;
    return false;
}

struct fuzz_values {
    struct field_integer ttl_ms, count;
    struct field_boolean create;
    struct field_text note;
    struct field_ids held;
    struct field_names locks;
    char ids[IDS_MAX][TOKEN_TEXT_SIZE];
    char names[NAMES_MAX][FIELD_TEXT_SIZE];
};

static const struct field fuzz_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct fuzz_values, ttl_ms), 100, INT64_C(31622400000)},
    {"count", FIELD_INTEGER, offsetof(struct fuzz_values, count), INT64_MIN, INT64_MAX},
    {"create", FIELD_BOOLEAN, offsetof(struct fuzz_values, create), 0, 0},
    {"note", FIELD_TEXT, offsetof(struct fuzz_values, note), 0, TEXT_MAX},
    {"held", FIELD_IDS, offsetof(struct fuzz_values, held), 0, IDS_MAX},
    {"locks", FIELD_NAMES, offsetof(struct fuzz_values, locks), 1, NAMES_MAX},
};

static void check_values(const struct fuzz_values *values)
{
    char again[TOKEN_TEXT_SIZE];

    if (values->ttl_ms.given)
        CHECK(values->ttl_ms.value >= 100 && values->ttl_ms.value <= INT64_C(31622400000));
    size_t len = strlen(values->note.text);
    CHECK(len <= TEXT_MAX && text_is_utf8(values->note.text, len) &&
          !text_has_control(values->note.text, len));
    CHECK(values->held.count <= IDS_MAX && values->locks.count <= NAMES_MAX);
    for (size_t i = 0; i < values->held.count; i++)
        CHECK(token_parse(values->ids[i], again) && strcmp(again, values->ids[i]) == 0);
    for (size_t i = 0; i < values->locks.count; i++) {
        len = strlen(values->names[i]);
        CHECK(len >= 1 && len <= HTTP_NAME_MAX && text_is_utf8(values->names[i], len));
    }
}

/* Whether the request was taken; it is refused exactly once otherwise. */
static bool read_values(struct fuzz_values *values, const char *query, const char *body,
                        size_t body_len)
{
    struct http_request request = {.query = query, .body = body, .body_len = body_len};

    log_set_level(LOG_LEVEL_ERROR + 1); /* no line, so no memory for its members */
    memset(values, 0, sizeof(*values));
    values->held.ids = values->ids;
    values->locks.names = values->names;
    bool is_taken = request_fields(&request, fuzz_fields,
                                   sizeof(fuzz_fields) / sizeof(fuzz_fields[0]), values);
    CHECK(request.replies == (is_taken ? 0 : 1));
    if (is_taken)
        check_values(values);
    return is_taken;
}

#endif
