/* A JSON object, written directly as text, for the most frequent and for large answers.
 * All other answers use a tree of jansson's values, which costs ten times as much. */
#ifndef RLOCKD_SERVER_BASE_JSON_TEXT_H
#define RLOCKD_SERVER_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_TEXT_SHORT = 448 }; /* an ordinary answer fits */

struct json_text {
    char *text; /* without a NUL; `start`, or allocated: then the taker frees it */
    size_t len, size;
    char start[JSON_TEXT_SHORT];
};

void json_text_begin(struct json_text *json);

/* Add a member; `name` needs no escapes. `value` is UTF-8. */
void json_text_string(struct json_text *json, const char *name, const char *value);
/* The same in ASCII, for logs: other characters are escaped, bytes that are no UTF-8 are
 * replaced. */
void json_text_ascii(struct json_text *json, const char *name, const char *value);
/* A value that is JSON already. */
void json_text_raw(struct json_text *json, const char *name, const char *value, size_t len);
/* Of nanoseconds: milliseconds with three decimals. */
void json_text_milliseconds(struct json_text *json, const char *name, int64_t value_ns);
void json_text_integer(struct json_text *json, const char *name, int64_t value);
void json_text_boolean(struct json_text *json, const char *name, bool value);

/* A member that is an array, until it is closed. Each element is JSON already, or an object
 * whose members are added until it is closed. */
void json_text_open_array(struct json_text *json, const char *name);
void json_text_element(struct json_text *json, const char *value, size_t len);
void json_text_open_object(struct json_text *json);
void json_text_close_object(struct json_text *json);
void json_text_close_array(struct json_text *json);

/* Closes the object that json_text_begin() opened. */
void json_text_end(struct json_text *json);
/* Frees a text that is not taken. */
void json_text_drop(struct json_text *json);

#endif
