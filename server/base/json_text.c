/* The writer of JSON text: members, escapes, and the growth of the buffer. */
#include "server/base/json_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"

void json_text_begin(struct json_text *json)
{
    json->text = json->start;
    json->text[0] = '{';
    json->len = 1;
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

/* A comma, unless what comes is the first in its object or array. */
static char *separate(const struct json_text *json, char *out)
{
    char last = json->text[json->len - 1];

    if (last != '{' && last != '[')
        *out++ = ',';
    return out;
}

/* `,"name":` with room for `value_len` bytes after it. */
static char *begin_member(struct json_text *json, const char *name, size_t value_len)
{
    size_t name_len = strlen(name);
    char *out = reserve(json, name_len + value_len + 4);

    out = separate(json, out);
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

/* Bytes up to the first that needs an escape, or to the end. */
static size_t plain_len(const char *text)
{
    static const bool is_special[256] = {[0 ... 0x1F] = true, ['"'] = true, ['\\'] = true};
    size_t len = 0;

    while (!is_special[(unsigned char)text[len]])
        len++;
    return len;
}

void json_text_string(struct json_text *json, const char *name, const char *value)
{
    enum { LONGEST_ESCAPE = 6 };
    char *out = begin_member(json, name, strlen(value) * LONGEST_ESCAPE + 2);

    *out++ = '"';
    for (;;) {
        size_t len = plain_len(value);
        out = append(out, value, len);
        value += len;
        if (*value == '\0')
            break;
        out = escape(out, (unsigned char)*value++);
    }
    *out++ = '"';
    end_member(json, out);
}

static char *escape_unit(char *out, unsigned unit)
{
    static const char hex[] = "0123456789ABCDEF";

    *out++ = '\\';
    *out++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *out++ = hex[unit >> shift & 15];
    return out;
}

/* The code point that begins at `*p`, which moves behind it; U+FFFD for a byte that begins
 * none. */
static unsigned next_code_point(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    int more = s[0] < 0x80 ? 0 : s[0] >= 0xF0 ? 3 : s[0] >= 0xE0 ? 2 : s[0] >= 0xC2 ? 1 : -1;

    if (more < 0 || strnlen(*p, 4) <= (size_t)more || !text_is_utf8(*p, (size_t)more + 1)) {
        (*p)++;
        return 0xFFFD;
    }
    unsigned point = more == 0 ? s[0] : s[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++)
        point = point << 6 | (s[i] & 0x3F);
    *p += more + 1;
    return point;
}

void json_text_ascii(struct json_text *json, const char *name, const char *value)
{
    enum { LONGEST_ESCAPE = 6 }; /* of a byte */
    char *out = begin_member(json, name, strlen(value) * LONGEST_ESCAPE + 2);

    *out++ = '"';
    for (const char *p = value; *p != '\0';) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            *out++ = (char)c;
            p++;
            continue;
        }
        unsigned point = next_code_point(&p);
        if (point >= 0x10000) {
            out = escape_unit(out, 0xD800 + ((point - 0x10000) >> 10));
            point = 0xDC00 + ((point - 0x10000) & 0x3FF);
        }
        out = escape_unit(out, point);
    }
    *out++ = '"';
    end_member(json, out);
}

void json_text_raw(struct json_text *json, const char *name, const char *value, size_t len)
{
    end_member(json, append(begin_member(json, name, len), value, len));
}

void json_text_milliseconds(struct json_text *json, const char *name, int64_t value_ns)
{
    int64_t us = value_ns / 1000;
    char *out = begin_member(json, name, TEXT_INT64_SIZE + 4);

    out += text_format_int64(out, us / 1000);
    *out++ = '.';
    *out++ = (char)('0' + us / 100 % 10);
    *out++ = (char)('0' + us / 10 % 10);
    *out++ = (char)('0' + us % 10);
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

static void put(struct json_text *json, char c)
{
    *reserve(json, 1) = c;
    json->len++;
}

void json_text_open_array(struct json_text *json, const char *name)
{
    end_member(json, append(begin_member(json, name, 1), "[", 1));
}

void json_text_element(struct json_text *json, const char *value, size_t len)
{
    end_member(json, append(separate(json, reserve(json, len + 1)), value, len));
}

void json_text_open_object(struct json_text *json)
{
    json_text_element(json, "{", 1);
}

void json_text_close_object(struct json_text *json)
{
    put(json, '}');
}

void json_text_close_array(struct json_text *json)
{
    put(json, ']');
}

void json_text_end(struct json_text *json)
{
    put(json, '}');
}

void json_text_drop(struct json_text *json)
{
    if (json->text != json->start)
        free(json->text);
}
