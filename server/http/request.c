/* The reader of fields, from the query and from the JSON body, and its complaints. */
#include "server/http/request.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/http.h"
#include "server/base/json_scan.h"
#include "server/http/problem.h"
#include "server/base/text.h"
#include "server/base/token.h"

enum {
    SHOWN_NAME_MAX = 64,
    KNOWN_NAMES_SIZE = 256,
    /* Of a body, besides the entries of its lists: several times as many as any request has. */
    MEMBERS_MAX = 64,
    /* Longer than any name or value of a query that HTTP lets through. */
    QUERY_TEXT_SIZE = 4096
};

struct reading {
    struct http_request *request;
    const struct field *fields;
    size_t field_count;
    void *values;
};

/* Refuses the request over one field; always false. */
#define REFUSE(request, ...)                                                                   \
    (problem_reply((request), PROBLEM_MALFORMED_REQUEST, NULL, __VA_ARGS__), false)

static void *value_of(const struct reading *reading, const struct field *field)
{
    return (char *)reading->values + field->offset;
}

static const struct field *find_field(const struct reading *reading, const char *name)
{
    for (size_t i = 0; i < reading->field_count; i++)
        if (strcmp(reading->fields[i].name, name) == 0)
            return &reading->fields[i];
    return NULL;
}

/* `given` is the first member of every value. */
static bool is_given(const struct reading *reading, const struct field *field)
{
    return *(bool *)value_of(reading, field);
}

/* Whether a piece of a request may be repeated in the answer. */
static bool is_printable(const char *text)
{
    size_t len = strlen(text);

    return text_is_utf8(text, len) && !text_has_control(text, len);
}

static bool refuse_name(const struct reading *reading, const char *name)
{
    bool is_long = strlen(name) > SHOWN_NAME_MAX;
    const char *shown = is_long               ? "a long name"
                        : !is_printable(name) ? "a name with control characters"
                                              : name;
    char known[KNOWN_NAMES_SIZE] = "";
    size_t len = 0;

    if (reading->field_count == 0)
        return REFUSE(reading->request, "%s: there is no such field here: none is taken",
                      shown);
    for (size_t i = 0; i < reading->field_count && len < sizeof(known); i++)
        len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i > 0 ? ", " : "",
                                reading->fields[i].name);
    return REFUSE(reading->request, "%s: there is no such field here: there are %s", shown,
                  known);
}

static bool accept_name(const struct reading *reading, const char *name,
                        const struct field **field)
{
    *field = find_field(reading, name);
    return *field != NULL || refuse_name(reading, name);
}

static bool is_milliseconds(const char *name)
{
    size_t len = strlen(name);

    return len > 3 && strcmp(name + len - 3, "_ms") == 0;
}

static bool set_integer(const struct reading *reading, const struct field *field, int64_t value)
{
    struct field_integer *integer = value_of(reading, field);

    if (value < field->min && field->max == INT64_MAX) /* the settings have the other bound */
        return REFUSE(reading->request, "%s: less than %" PRId64, field->name, field->min);
    if (value < field->min || value > field->max)
        return REFUSE(reading->request, "%s: not a number from %" PRId64 " to %" PRId64 "%s",
                      field->name, field->min, field->max,
                      is_milliseconds(field->name) ? " milliseconds" : "");
    integer->given = true;
    integer->value = value;
    return true;
}

static bool set_boolean(const struct reading *reading, const struct field *field, bool value)
{
    struct field_boolean *boolean = value_of(reading, field);

    boolean->given = true;
    boolean->value = value;
    return true;
}

static bool set_text(const struct reading *reading, const struct field *field,
                     const char *value, size_t len)
{
    struct field_text *text = value_of(reading, field);

    assert(field->max < FIELD_TEXT_SIZE);
    if (len < (size_t)field->min || len > (size_t)field->max || !text_is_utf8(value, len) ||
        text_has_control(value, len))
        return REFUSE(reading->request,
                      "%s: not %" PRId64 " to %" PRId64
                      " bytes of UTF-8 without control characters",
                      field->name, field->min, field->max);
    text->given = true;
    memcpy(text->text, value, len);
    text->text[len] = '\0';
    return true;
}

static bool add_id(const struct reading *reading, const struct field *field, const char *text,
                   size_t len)
{
    struct field_ids *ids = value_of(reading, field);
    char copy[TOKEN_TEXT_SIZE];

    ids->given = true;
    if (len >= sizeof(copy) || ids->count == (size_t)field->max)
        return REFUSE(reading->request, "%s: not a list of at most %" PRId64 " ids",
                      field->name, field->max);
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (!token_parse(copy, ids->ids[ids->count]))
        return REFUSE(reading->request, "%s: an entry is not an id", field->name);
    ids->count++;
    return true;
}

static bool add_name(const struct reading *reading, const struct field *field, const char *text,
                     size_t len)
{
    struct field_names *names = value_of(reading, field);

    names->given = true;
    if (names->count == (size_t)field->max)
        return REFUSE(reading->request, "%s: more than %" PRId64 " names", field->name,
                      field->max);
    if (len < 1 || len > HTTP_NAME_MAX || !text_is_utf8(text, len) ||
        text_has_control(text, len))
        return REFUSE(reading->request,
                      "%s: an entry is not 1 to %d bytes of UTF-8 without control characters",
                      field->name, HTTP_NAME_MAX);
    memcpy(names->names[names->count], text, len);
    names->names[names->count++][len] = '\0';
    return true;
}

/* --- query -------------------------------------------------------------------------------- */

/* A whole number, also with a fraction of zeros: 30000.0, as languages write a number that is
 * floating-point to them. Cuts the fraction off. */
static bool read_whole_number(char *text, int64_t *number)
{
    char *dot = strchr(text, '.');

    if (dot != NULL && dot[1] != '\0' && dot[1 + strspn(dot + 1, "0")] == '\0')
        *dot = '\0';
    return text_parse_int64(text, number);
}

/* Ids with commas between them; none is a list, too. */
static bool add_ids(const struct reading *reading, const struct field *field, const char *text)
{
    struct field_ids *ids = value_of(reading, field);

    ids->given = true;
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        if (!add_id(reading, field, text, len))
            return false;
        text += len + (text[len] == ',');
    }
    return true;
}

static bool read_pair(const struct reading *reading, const char *pair, size_t pair_len)
{
    char name[QUERY_TEXT_SIZE], value[QUERY_TEXT_SIZE];
    const char *equals = memchr(pair, '=', pair_len);
    size_t name_len = equals ? (size_t)(equals - pair) : pair_len;
    const char *raw_value = equals ? equals + 1 : pair + pair_len;
    size_t raw_value_len = (size_t)(pair + pair_len - raw_value), len;
    const struct field *field;
    int64_t number;

    if (text_query_decode(pair, name_len, name, sizeof(name), &len) != 0 ||
        strlen(name) != len || !text_is_utf8(name, len) || text_has_control(name, len))
        return REFUSE(reading->request, "query: a name in it is not percent-encoded text");
    if (!accept_name(reading, name, &field))
        return false;
    if (is_given(reading, field) && field->type != FIELD_NAMES)
        return REFUSE(reading->request, "%s: given more than once", name);
    if (text_query_decode(raw_value, raw_value_len, value, sizeof(value), &len) != 0)
        return REFUSE(reading->request, "%s: not percent-encoded, or too long", field->name);
    if (strlen(value) != len)
        return REFUSE(reading->request, "%s: has a NUL in it", field->name);
    if (field->type == FIELD_TEXT)
        return set_text(reading, field, value, len);
    if (field->type == FIELD_IDS)
        return add_ids(reading, field, value);
    if (field->type == FIELD_NAMES)
        return add_name(reading, field, value, len);
    if (field->type == FIELD_BOOLEAN) {
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return REFUSE(reading->request, "%s: not true or false", field->name);
        return set_boolean(reading, field, value[0] == 't');
    }
    if (!read_whole_number(value, &number))
        return REFUSE(reading->request, "%s: not a whole number", field->name);
    return set_integer(reading, field, number);
}

static bool read_query(const struct reading *reading)
{
    const char *pair = http_query(reading->request);

    while (*pair != '\0') {
        size_t len = strcspn(pair, "&");
        if (len > 0 && !read_pair(reading, pair, len))
            return false;
        pair += len + (pair[len] == '&');
    }
    return true;
}

/* --- body --------------------------------------------------------------------------------- */

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";

    if (content_type == NULL)
        return true;
    if (strncasecmp(content_type, json, sizeof(json) - 1) != 0)
        return false;
    const char *rest = content_type + sizeof(json) - 1;
    rest += strspn(rest, " \t");
    return *rest == '\0' || *rest == ';';
}

/* Of ids or names: `add` takes each. */
static bool read_array(const struct reading *reading, const struct field *field,
                       const json_t *array,
                       bool (*add)(const struct reading *reading, const struct field *field,
                                   const char *text, size_t len))
{
    size_t i;
    const json_t *item;

    if (!json_is_array(array))
        return REFUSE(reading->request, "%s: not an array of strings", field->name);
    *(bool *)value_of(reading, field) = true;
    json_array_foreach(array, i, item) {
        if (!json_is_string(item))
            return REFUSE(reading->request, "%s: an entry is not a string", field->name);
        if (!add(reading, field, json_string_value(item), json_string_length(item)))
            return false;
    }
    return true;
}

/* A whole number, also as the floating-point languages write it: 30000.0, 3e4. False: no
 * number, or not a whole one, or one so large that a double does not hold each of its
 * neighbours. */
static bool whole_number(const json_t *json, int64_t *number)
{
    const double exact_max = 9007199254740992.0; /* 2^53 */
    double real = json_real_value(json);         /* 0 of all that is no real number */

    if (json_is_integer(json)) {
        *number = json_integer_value(json);
        return true;
    }
    if (!json_is_real(json) || real < -exact_max || real > exact_max)
        return false;
    *number = (int64_t)real;
    return (double)*number == real;
}

static bool is_text(const json_t *json, const char *text)
{
    return json_is_string(json) && json_string_length(json) == strlen(text) &&
           strcmp(json_string_value(json), text) == 0;
}

static bool is_id(const json_t *json, const char *id)
{
    char canonical[TOKEN_TEXT_SIZE];

    return json_is_string(json) && token_parse(json_string_value(json), canonical) &&
           strcmp(canonical, id) == 0;
}

/* Whether the body and the query give a field the same value. */
static bool repeats_query(const struct reading *reading, const struct field *field,
                          const json_t *json)
{
    const struct field_integer *integer = value_of(reading, field);
    const struct field_boolean *boolean = value_of(reading, field);
    const struct field_text *text = value_of(reading, field);
    const struct field_ids *ids = value_of(reading, field);
    const struct field_names *names = value_of(reading, field);
    size_t i, same = 0;
    const json_t *item;
    int64_t number;

    switch (field->type) {
    case FIELD_INTEGER:
        return whole_number(json, &number) && number == integer->value;
    case FIELD_BOOLEAN:
        return json_is_boolean(json) && json_is_true(json) == boolean->value;
    case FIELD_TEXT:
        return is_text(json, text->text);
    case FIELD_IDS:
        json_array_foreach(json, i, item)
            same += i < ids->count && is_id(item, ids->ids[i]);
        return json_is_array(json) && same == ids->count && i == same;
    case FIELD_NAMES:
        json_array_foreach(json, i, item)
            same += i < names->count && is_text(item, names->names[i]);
        return json_is_array(json) && same == names->count && i == same;
    }
    return false;
}

static bool read_member(const struct reading *reading, const char *name, const json_t *value)
{
    const struct field *field;
    int64_t number;

    if (!accept_name(reading, name, &field))
        return false;
    if (json_is_null(value)) /* absent, as generated clients write it */
        return true;
    if (is_given(reading, field)) /* by the query: the members of the body are unique */
        return repeats_query(reading, field, value) ||
               REFUSE(reading->request, "%s: the query and the body say different things",
                      name);
    if (field->type == FIELD_TEXT) {
        if (!json_is_string(value))
            return REFUSE(reading->request, "%s: not a string", name);
        return set_text(reading, field, json_string_value(value), json_string_length(value));
    }
    if (field->type == FIELD_IDS)
        return read_array(reading, field, value, add_id);
    if (field->type == FIELD_NAMES)
        return read_array(reading, field, value, add_name);
    if (field->type == FIELD_BOOLEAN) {
        if (!json_is_boolean(value))
            return REFUSE(reading->request, "%s: not true or false", name);
        return set_boolean(reading, field, json_is_true(value));
    }
    if (!whole_number(value, &number))
        return REFUSE(reading->request, "%s: not a whole number", name);
    return set_integer(reading, field, number);
}

static bool is_known_member(void *arg, const char *name, size_t len)
{
    const struct reading *reading = arg;
    char text[SHOWN_NAME_MAX + 2]; /* a longer name is unknown, and is not shown */

    if (len >= sizeof(text))
        len = sizeof(text) - 1;
    memcpy(text, name, len);
    text[len] = '\0';
    return find_field(reading, text) != NULL || refuse_name(reading, text);
}

/* A body that no request may have is refused before it is parsed, so that it costs its client
 * more than the server. */
static bool scan_body(const struct reading *reading, const char *body, size_t len)
{
    size_t values_max = MEMBERS_MAX;

    for (size_t i = 0; i < reading->field_count; i++) {
        enum field_type type = reading->fields[i].type;
        if (type == FIELD_IDS || type == FIELD_NAMES)
            values_max += (size_t)reading->fields[i].max;
    }
    switch (json_scan(body, len, values_max, is_known_member, (void *)reading)) {
    case JSON_SCAN_DONE:
        return true;
    case JSON_SCAN_UNKNOWN_MEMBER:
        return false; /* answered */
    case JSON_SCAN_TOO_MANY_VALUES:
        return REFUSE(reading->request, "body: more than %zu values", values_max);
    }
    return false;
}

static bool read_body(const struct reading *reading)
{
    size_t len;
    const char *body = http_body(reading->request, &len);
    json_error_t error;
    const char *name;
    json_t *value;

    if (len == 0)
        return true;
    if (!is_json(http_header(reading->request, HTTP_CONTENT_TYPE))) {
        problem_reply(reading->request, PROBLEM_UNSUPPORTED_MEDIA_TYPE, NULL,
                      "Content-Type: a body must be application/json");
        return false;
    }
    if (!scan_body(reading, body, len))
        return false;
    json_t *object = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    /* Generated clients send `null` where their caller gave no body. */
    if (!json_is_object(object) && !json_is_null(object)) {
        bool is_told = object == NULL && is_printable(error.text);
        json_decref(object);
        return REFUSE(reading->request, "body: not one JSON object with unique members%s%s",
                      is_told ? ": " : "", is_told ? error.text : "");
    }
    bool ok = true;
    json_object_foreach(object, name, value) {
        ok = read_member(reading, name, value);
        if (!ok)
            break;
    }
    json_decref(object);
    return ok;
}

bool request_fields(struct http_request *request, const struct field *fields,
                    size_t field_count, void *values)
{
    const struct reading reading = {request, fields, field_count, values};

    return read_query(&reading) && read_body(&reading);
}

bool request_query_fields(struct http_request *request, const struct field *fields,
                          size_t field_count, void *values)
{
    const struct reading reading = {request, fields, field_count, values};

    return read_query(&reading);
}

bool request_no_fields(struct http_request *request)
{
    return request_fields(request, NULL, 0, NULL);
}

bool request_wait_at_most(struct http_request *request, const struct field_integer *field,
                          int64_t max)
{
    if (field->given && field->value > max)
        return REFUSE(request,
                      "wait_ms: more than %" PRId64
                      ", the longest wait of this server: to wait "
                      "longer, repeat the request with the same token or key",
                      max);
    return true;
}
