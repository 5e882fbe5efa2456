/* The fields of a request: declared as a table, taken from the query and the JSON body alike.
 */
#ifndef RLOCKD_SERVER_HTTP_REQUEST_H
#define RLOCKD_SERVER_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/token.h"
#include "server/http/http.h"

enum { FIELD_TEXT_SIZE = 513 };

struct field_integer {
    bool given;
    int64_t value;
};

struct field_boolean {
    bool given;
    bool value;
};

struct field_text {
    bool given;
    char text[FIELD_TEXT_SIZE]; /* UTF-8 without control characters */
};

/* A list of ids: an array of strings in the body, one text with commas in the query. */
struct field_ids {
    bool given;
    size_t count;
    char (*ids)[TOKEN_TEXT_SIZE]; /* the caller's, with room for `max` of them */
};

/* A list of names, 1 to HTTP_NAME_MAX bytes of UTF-8 without control characters each: an array
 * of strings in the body; in the query, since names may have commas, the field once for each.
 */
struct field_names {
    bool given;
    size_t count;
    char (*names)[FIELD_TEXT_SIZE]; /* the caller's, with room for `max` of them */
};

enum field_type { FIELD_INTEGER, FIELD_BOOLEAN, FIELD_TEXT, FIELD_IDS, FIELD_NAMES };

struct field {
    const char *name;
    enum field_type type;
    size_t offset;    /* of the struct field_… */
    int64_t min, max; /* of the number, of the text's bytes (max < FIELD_TEXT_SIZE), of how many
                         ids or names */
};

/* Reads the fields into `values`, zeroed before. False: the request was refused and is
 * answered. */
bool request_fields(struct http_request *request, const struct field *fields,
                    size_t field_count, void *values) __attribute__((warn_unused_result));

/* The same from the query alone: the body is the handler's own. */
bool request_query_fields(struct http_request *request, const struct field *fields,
                          size_t field_count, void *values) __attribute__((warn_unused_result));

/* The same for a request that takes no field at all. */
bool request_no_fields(struct http_request *request) __attribute__((warn_unused_result));

/* Refuses a wait_ms beyond a bound that only the settings know. */
bool request_wait_at_most(struct http_request *request, const struct field_integer *field,
                          int64_t max) __attribute__((warn_unused_result));

/* Reads the token of a header in canonical form. False: the request was refused, for the token
 * is required and missing, or is no UUID. Without a token that is not required `canonical` is
 * empty. */
bool request_token(struct http_request *request, enum http_header header,
                   const char *header_name, bool required, char canonical[TOKEN_TEXT_SIZE])
    __attribute__((warn_unused_result));

/* The seconds of `wait=N` in the Prefer header (RFC 7240); -1: without. */
int64_t request_prefer_wait_s(const struct http_request *request);

#endif
