/* The characters of a JSON text that open, close and separate. */
#include "server/base/json_scan.h"

#include <string.h>

/* The closing quote of the string that begins behind `at`; `end`: there is none. */
static const char *string_end(const char *at, const char *end, bool *has_escapes)
{
    *has_escapes = false;
    while (at < end && *at != '"') {
        if (*at == '\\') {
            *has_escapes = true;
            at++;
        }
        at++;
    }
    return at < end ? at : end;
}

enum json_scan json_scan(const char *text, size_t len, size_t values_max,
                         bool (*is_known)(void *arg, const char *name, size_t name_len),
                         void *arg)
{
    const char *end = text + len, *close;
    size_t depth = 0, values = 0;
    bool is_object = false, is_name_next = false, has_escapes;

    for (const char *at = text; at < end; at++) {
        switch (*at) {
        case '"':
            close = string_end(at + 1, end, &has_escapes);
            if (is_name_next && close < end && !has_escapes &&
                !is_known(arg, at + 1, (size_t)(close - at - 1)))
                return JSON_SCAN_UNKNOWN_MEMBER;
            is_name_next = false;
            at = close;
            break;
        case '{':
        case '[':
            if (depth++ == 0)
                is_name_next = is_object = *at == '{';
            values++;
            break;
        case ',':
            is_name_next = depth == 1 && is_object;
            values++;
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        default:
            break;
        }
        if (values > values_max)
            return JSON_SCAN_TOO_MANY_VALUES;
    }
    return JSON_SCAN_DONE;
}
