#include "server/request.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http.h"
#include "server/problem.h"
#include "server/text.h"
#include "server/token.h"

enum {
    SHOWN_NAME_MAX = 64,
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
static bool accept_name(const struct reading *reading, const char *name, bool in_query,
                        const struct field **field)
{
    *field = find_field(reading, name);
    if (*field == NULL)
        return REFUSE(reading->request, "%s: there is no such field here",
                      strlen(name) <= SHOWN_NAME_MAX ? name : "a long name");
    bool may_repeat = in_query && (*field)->type == FIELD_NAMES;
    if (*(bool *)value_of(reading, *field) && !may_repeat)
        return REFUSE(reading->request, "%s: given more than once", name);
    return true;
}

static bool set_integer(const struct reading *reading, const struct field *field, int64_t value)
{
    struct field_integer *integer = value_of(reading, field);

    if (value < field->min || value > field->max)
        return REFUSE(reading->request, "%s: not a number from %" PRId64 " to %" PRId64,
                      field->name, field->min, field->max);
    integer->given = true;
    integer->value = value;
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
    char copy[37];

    ids->given = true;
    if (len >= sizeof(copy) || ids->count == (size_t)field->max)
        return REFUSE(reading->request, "%s: not a list of at most %" PRId64 " ids",
                      field->name, field->max);
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (!token_parse(copy, ids->ids[ids->count]))
        return REFUSE(reading->request, "%s: holds what is not an id", field->name);
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
                      "%s: holds what is not 1 to %d bytes of UTF-8 without control characters",
                      field->name, HTTP_NAME_MAX);
    memcpy(names->names[names->count], text, len);
    names->names[names->count++][len] = '\0';
    return true;
}

/* --- query -------------------------------------------------------------------------------- */

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
    if (!accept_name(reading, name, true, &field))
        return false;
    if (text_query_decode(raw_value, raw_value_len, value, sizeof(value), &len) != 0)
        return REFUSE(reading->request, "%s: not percent-encoded, or too long", field->name);
    if (field->type == FIELD_TEXT)
        return set_text(reading, field, value, len);
    if (field->type == FIELD_IDS)
        return add_ids(reading, field, value);
    if (field->type == FIELD_NAMES)
        return add_name(reading, field, value, len);
    if (strlen(value) != len || !text_parse_int64(value, &number))
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
    size_t len = sizeof(json) - 1;

    if (content_type == NULL)
        return true;
    return strncasecmp(content_type, json, len) == 0 &&
           (content_type[len] == '\0' || content_type[len] == ';' || content_type[len] == ' ');
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
            return REFUSE(reading->request, "%s: holds what is not a string", field->name);
        if (!add(reading, field, json_string_value(item), json_string_length(item)))
            return false;
    }
    return true;
}

static bool read_member(const struct reading *reading, const char *name, const json_t *value)
{
    const struct field *field;

    if (!accept_name(reading, name, false, &field))
        return false;
    if (field->type == FIELD_TEXT) {
        if (!json_is_string(value))
            return REFUSE(reading->request, "%s: not a string", name);
        return set_text(reading, field, json_string_value(value), json_string_length(value));
    }
    if (field->type == FIELD_IDS)
        return read_array(reading, field, value, add_id);
    if (field->type == FIELD_NAMES)
        return read_array(reading, field, value, add_name);
    if (!json_is_integer(value))
        return REFUSE(reading->request, "%s: not a whole number", name);
    return set_integer(reading, field, json_integer_value(value));
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
    json_t *object = json_loadb(body, len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return REFUSE(reading->request, "body: not one JSON object with unique members%s%s",
                      object ? "" : ": ", object ? "" : error.text);
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

bool request_no_fields(struct http_request *request)
{
    return request_fields(request, NULL, 0, NULL);
}

bool request_at_most(struct http_request *request, const char *name,
                     const struct field_integer *field, int64_t max)
{
    if (field->given && field->value > max)
        return REFUSE(request, "%s: more than %" PRId64 ", which this server allows", name,
                      max);
    return true;
}

/* --- headers ------------------------------------------------------------------------------ */

bool request_token(struct http_request *request, int header, const char *header_name,
                   bool required, char canonical[37])
{
    const char *text = http_header(request, (enum http_header)header);

    canonical[0] = '\0';
    if (text == NULL && !required)
        return true;
    if (text == NULL)
        return REFUSE(request, "%s: this request needs the header", header_name);
    if (!token_parse(text, canonical))
        return REFUSE(request, "%s: not a UUID in its canonical text form, or nil",
                      header_name);
    return true;
}

int64_t request_prefer_wait_s(const struct http_request *request)
{
    const char *prefer = http_header(request, HTTP_PREFER);

    for (; prefer != NULL && *prefer != '\0'; prefer += strcspn(prefer, ",") + 1) {
        prefer += strspn(prefer, " \t");
        if (strncasecmp(prefer, "wait=", 5) == 0 && isdigit((unsigned char)prefer[5])) {
            int64_t wait_s = strtoll(prefer + 5, NULL, 10);
            return wait_s < INT32_MAX ? wait_s : INT32_MAX;
        }
        if (prefer[strcspn(prefer, ",")] == '\0')
            break;
    }
    return -1;
}
