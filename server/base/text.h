/* Pure checks and conversions of text that came from outside. */
#ifndef RLOCKD_SERVER_BASE_TEXT_H
#define RLOCKD_SERVER_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Well-formed UTF-8 (RFC 3629): no overlong form, no surrogate, nothing above U+10FFFF. */
bool text_is_utf8(const char *text, size_t len);

/* C0 (NUL included), DEL, C1, or the line and paragraph separators U+2028 and U+2029. `text` is
 * UTF-8; in anything else only C0 and DEL are sure to be found. */
bool text_has_control(const char *text, size_t len);

/* Decodes %XX once (RFC 3986) and ends `out` with a NUL. -1: a % without two hex digits after
 * it, or no room for result and NUL. %00 is decoded, so check the result by its length. `out`
 * may be `in`. */
int text_percent_decode(const char *in, size_t in_len, char *out, size_t out_size,
                        size_t *out_len) __attribute__((warn_unused_result));

/* The same for a name or value of a query string, where + is a space. */
int text_query_decode(const char *in, size_t in_len, char *out, size_t out_size,
                      size_t *out_len) __attribute__((warn_unused_result));

/* Base64 whose text may stand in a URL, without padding (RFC 4648 §5). `out` has room for
 * TEXT_BASE64_SIZE(len) bytes. */
#define TEXT_BASE64_SIZE(len) (((len)*4 + 2) / 3 + 1)
void text_base64url(const char *in, size_t len, char *out);
/* Ends `out` with a NUL. -1: another character, a length that no text has, or no room. */
int text_base64url_decode(const char *in, char *out, size_t out_size, size_t *out_len)
    __attribute__((warn_unused_result));

/* The whole text is one decimal number as JSON writes it: no plus sign, space or leading zero.
 * False, with *out untouched, for anything else or what int64_t cannot hold. */
bool text_parse_int64(const char *text, int64_t *out) __attribute__((warn_unused_result));

/* Steps over an entry of a list with commas between its entries: `*entry` is its begin. Returns
 * its length without the spaces around it, which may be 0. */
size_t text_next_entry(const char **list, const char **entry);

enum { TEXT_INT64_SIZE = 21 };

/* FNV-1a, for tables of this process. */
uint32_t text_hash(const char *text, size_t len);

/* The number in decimal, with a NUL; returns its length. snprintf() takes ten times as long. */
size_t text_format_int64(char out[TEXT_INT64_SIZE], int64_t number);

#endif
