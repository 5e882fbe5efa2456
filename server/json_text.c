#include "server/json_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/text.h"

void json_text_begin(struct json_text *json)
{
    json->text = json->start;
    json->len = 0;
    json->size = sizeof(json->start);
}

static void grow(struct json_text *json, size_t len)
{
    bool is_short = json->text == json->start;

    json->size = (json->size + len) * 2;
    json->text = realloc(is_short ? NULL : json->text, json->size);
    assert(json->text != NULL);
    if (is_short)
        memcpy(json->text, json->start, json->len);
}

/* Room for so many bytes more. */
static char *reserve(struct json_text *json, size_t len)
{
    if (json->len + len > json->size)
        grow(json, len);
    return json->text + json->len;
}

static char *append(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

/* `,"name":` with room for `value_len` bytes after it. */
static char *begin_member(struct json_text *json, const char *name, size_t value_len)
{
    size_t name_len = strlen(name);
    char *out = reserve(json, name_len + value_len + 4);

    *out++ = json->len == 0 ? '{' : ',';
    *out++ = '"';
    out = append(out, name, name_len);
    return append(out, "\":", 2);
}

static void end_member(struct json_text *json, const char *end)
{
    json->len = (size_t)(end - json->text);
}

/* RFC 8259 §7: quotation mark, backslash and the control characters. */
static char *escape(char *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    if (c == '"' || c == '\\') {
        *out++ = '\\';
        *out++ = (char)c;
        return out;
    }
    out = append(out, "\\u00", 4);
    *out++ = hex[c >> 4];
    *out++ = hex[c & 15];
    return out;
}

void json_text_string(struct json_text *json, const char *name, const char *value)
{
    enum { LONGEST_ESCAPE = 6 };
    char *out = begin_member(json, name, strlen(value) * LONGEST_ESCAPE + 2);

    *out++ = '"';
    for (const char *p = value; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == '"' || c == '\\')
            out = escape(out, c);
        else
            *out++ = (char)c;
    }
    *out++ = '"';
    end_member(json, out);
}

void json_text_integer(struct json_text *json, const char *name, int64_t value)
{
    char *out = begin_member(json, name, TEXT_INT64_SIZE);

    end_member(json, out + text_format_int64(out, value));
}

void json_text_boolean(struct json_text *json, const char *name, bool value)
{
    char *out = begin_member(json, name, sizeof("false"));

    end_member(json, value ? append(out, "true", 4) : append(out, "false", 5));
}

void json_text_end(struct json_text *json)
{
    assert(json->len > 0);
    *reserve(json, 1) = '}';
    json->len++;
}
