/* API tokens: the rights of each caller, the names that they are for, and the limits, from a
 * file that the operator keeps. The file has hashes of tokens and no token. The files:
 *
 *   auth_source.c   the tokens of now, replaced when the operator has changed the file
 *   auth.c          a set of tokens: read from its file, searched by a token
 *   auth_line.c     a line of the file
 *   auth_usage.c    what a caller uses of its limits
 *   auth_hash.c     hashes of tokens, and fresh tokens
 *
 * Each file needs only files below it. server/http/ asks who a caller is; handlers/ ask for the
 * rights and limits that only they know; server/main.c reads the file and the commands. This
 * folder knows server/base/ alone.
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

enum {
    AUTH_CALLER_SIZE = 65, /* a caller's name with its NUL */
    AUTH_PREFIX_MAX = 512  /* bytes of a prefix: as many as the longest name has */
};

/* The effect of a request on a name, which needs a right where API tokens are configured. */
enum auth_verb {
    AUTH_OPEN,   /* something that needs no API token */
    AUTH_KNOWN,  /* something that needs an API token, and no right */
    AUTH_READ,   /* looks */
    AUTH_LOCK,   /* acquires, renews and releases leases of the client */
    AUTH_OPERATE /* ends leases of other clients, or deletes objects */
};

struct auth;
struct auth_caller;

/* NULL with one line in `error`, which names the file and the line, when the file cannot be
 * used. */
struct auth *auth_load(const char *path, char *error, size_t error_size);
void auth_free(struct auth *auth);
/* The use that callers of `old` have made of their limits counts in `auth`, too. */
void auth_inherit(struct auth *auth, const struct auth *old);

/* A right of a caller. The prefix is "" for every name. */
struct auth_right {
    enum auth_verb verb;
    size_t len;
    char *prefix;
};

/* AUTH_NO_LIMIT: none. */
struct auth_limits {
    int64_t max_ttl_ms, max_waiters, max_requests_per_second;
};

enum { AUTH_NO_LIMIT = -1 };

/* The caller of an Authorization header, or NULL: `Bearer <token>` (RFC 6750 §2.1), or `Basic`
 * with the token as the password and any user name (RFC 7617 §2). */
const struct auth_caller *auth_find(const struct auth *auth, const char *authorization);
/* The user name of Basic, which nothing proves: for servers without API tokens. False: the
 * header is absent or has no name of 1 to AUTH_CALLER_SIZE - 1 bytes of UTF-8 without control
 * characters. */
bool auth_basic_user(const char *authorization, char user[AUTH_CALLER_SIZE])
    __attribute__((warn_unused_result));
/* By the time of day. */
bool auth_is_expired(const struct auth_caller *caller);
bool auth_allows(const struct auth_caller *caller, enum auth_verb verb, const char *name);
/* To any name. */
bool auth_allows_some(const struct auth_caller *caller, enum auth_verb verb);
const char *auth_caller_name(const struct auth_caller *caller);
/* NULL: there is no i-th right. In the order of the file. */
const struct auth_right *auth_right_at(const struct auth_caller *caller, size_t i);
const struct auth_limits *auth_limits(const struct auth_caller *caller);
/* Seconds since 1970; INT64_MAX: never. */
int64_t auth_expires_s(const struct auth_caller *caller);
/* As the file and the problems have it; "" for a verb that no right has. */
const char *auth_verb_name(enum auth_verb verb);

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
