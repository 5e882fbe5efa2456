/* Which web pages may read our answers: cross-origin resource sharing, as the Fetch standard
 * has it. Credentials (cookies, certificates) are never shared. */
#ifndef RLOCKD_SERVER_HTTP_CORS_H
#define RLOCKD_SERVER_HTTP_CORS_H

#include <stdbool.h>

/* Is `list` made of origins (https://example.com:8443) with commas between them, or a `*`? */
bool cors_list_is_valid(const char *list);
/* The value of Access-Control-Allow-Origin for this Origin; NULL: that page may not read. */
const char *cors_allowed_origin(const char *list, const char *origin);

#endif
