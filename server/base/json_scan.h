/* A look at a JSON text before it is parsed, which costs much more: what no request may have is
 * found without memory, and as early as it comes. */
#ifndef RLOCKD_SERVER_BASE_JSON_SCAN_H
#define RLOCKD_SERVER_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum json_scan {
    JSON_SCAN_DONE, /* the text may still be no JSON */
    JSON_SCAN_UNKNOWN_MEMBER,
    JSON_SCAN_TOO_MANY_VALUES
};

/* Calls `is_known` for the name of each member of the object that the text is, as it stands
 * there, until it returns false. A name with escapes is left to the parser. Values are members
 * and elements, however deep. */
enum json_scan json_scan(const char *text, size_t len, size_t values_max,
                         bool (*is_known)(void *arg, const char *name, size_t name_len),
                         void *arg) __attribute__((warn_unused_result));

#endif
