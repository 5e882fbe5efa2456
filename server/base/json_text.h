/* One flat JSON object, written straight into text: for the answers that are given all the
 * time. A tree of jansson's values costs ten times as much; it is for everything else. */
#ifndef RLOCKD_SERVER_BASE_JSON_TEXT_H
#define RLOCKD_SERVER_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_TEXT_SHORT = 448 }; /* an ordinary answer fits */

struct json_text {
    char *text; /* not ended by a NUL; either `start`, or whoever takes it frees it */
    size_t len, size;
    char start[JSON_TEXT_SHORT];
};

void json_text_begin(struct json_text *json);

/* Add a member; `name` needs no escapes. `value` is UTF-8. */
void json_text_string(struct json_text *json, const char *name, const char *value);
/* The same in ASCII alone, for logs: everything else is escaped, what is no UTF-8 is replaced.
 */
void json_text_ascii(struct json_text *json, const char *name, const char *value);
/* A value that is JSON already. */
void json_text_raw(struct json_text *json, const char *name, const char *value, size_t len);
/* Of nanoseconds: milliseconds with three decimals. */
void json_text_milliseconds(struct json_text *json, const char *name, int64_t value_ns);
void json_text_integer(struct json_text *json, const char *name, int64_t value);
void json_text_boolean(struct json_text *json, const char *name, bool value);
/* Closes the object, which has at least one member. */
void json_text_end(struct json_text *json);

#endif
