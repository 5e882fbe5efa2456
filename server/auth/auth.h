/* API tokens: the rights of each caller, the names that they are for, and the limits, from a
 * file that the operator keeps. The file has hashes of tokens and no token.
 *
 * A line is `<caller> sha256:<hash of the token> <word>...`, separated by blanks; `#` at the
 * start of a line or after a blank begins a comment. Every line ends with a newline, so that a
 * file that was cut is refused. The words: `read=`, `lock=` and `operate=` with a prefix of
 * names, or `*` for every name; once each `expires=` with a date (RFC 3339), `max-ttl-ms=`,
 * `max-waiters=` and `max-requests-per-second=` with a number. */
#ifndef RLOCKD_SERVER_AUTH_AUTH_H
#define RLOCKD_SERVER_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/route.h"

/* A caller's name with its NUL. */
enum { AUTH_CALLER_SIZE = 65 };

struct auth;
struct auth_caller;

/* NULL with one line in `error`, which names the file and the line, when the file cannot be
 * used. */
struct auth *auth_load(const char *path, char *error, size_t error_size);
void auth_free(struct auth *auth);
/* What callers have used of their limits by tokens of `old` counts in `auth`, too. */
void auth_inherit(struct auth *auth, const struct auth *old);

/* The caller of an Authorization header (RFC 6750 §2.1), or NULL. */
const struct auth_caller *auth_find(const struct auth *auth, const char *authorization);
/* By the time of day. */
bool auth_is_expired(const struct auth_caller *caller);
bool auth_allows(const struct auth_caller *caller, enum route_access verb, const char *name);
/* To any name. */
bool auth_allows_some(const struct auth_caller *caller, enum route_access verb);
const char *auth_caller_name(const struct auth_caller *caller);
/* As the file and the problems have it; `verb` is not ROUTE_OPEN. */
const char *auth_verb_name(enum route_access verb);

/* False: the caller has as many waiting requests as it may have. Each true needs one
 * auth_end_wait(). */
bool auth_begin_wait(const struct auth_caller *caller) __attribute__((warn_unused_result));
void auth_end_wait(const struct auth_caller *caller);
/* The longest lease or session that the caller may ask for; INT64_MAX: any. */
int64_t auth_max_ttl_ms(const struct auth_caller *caller);
/* False: the caller asks more often than it may. `now_ns` as clock_ns(). */
bool auth_count_request(const struct auth_caller *caller, int64_t now_ns)
    __attribute__((warn_unused_result));

#endif
