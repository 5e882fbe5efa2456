/* Values of options, from text that a person or a file gives. */
#ifndef RLOCK_CLIENT_VALUES_H
#define RLOCK_CLIENT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest ttl_ms of a lease: openapi.yaml. */
#define DURATION_MAX_MS (366 * INT64_C(86400000))

/* Milliseconds: 500ms, 30, 30s, 5m, 2h, 1d; a bare number is seconds. -1: no duration, or
 * longer than DURATION_MAX_MS. */
int64_t value_duration(const char *text);

/* Digits and nothing else, up to `max`. */
bool value_number(const char *text, int max, int *out) __attribute__((warn_unused_result));

/* Cuts the list at its commas and spaces, without slashes at the end of URLs; `urls` points
 * into the list. False: a URL is no http:// or https:// URL, or there are more than `max`. */
bool value_urls(char *list, char **urls, size_t max, size_t *count)
    __attribute__((warn_unused_result));

/* Texts go into JSON, which is UTF-8. */
bool value_is_utf8(const char *text);

#endif
