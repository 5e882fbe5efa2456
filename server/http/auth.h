/* API tokens: who may use which lock names, from a file that the operator keeps.
 *
 * A line is `<caller> <lock|operator> <token> <name prefix>`, separated by blanks; `#` at the
 * start of a line or after a blank begins a comment; the prefix `*` stands for every name. An
 * operator may also force locks open. A caller with several lines may do what any of them
 * allows. */
#ifndef RLOCKD_SERVER_HTTP_AUTH_H
#define RLOCKD_SERVER_HTTP_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/route.h"

/* A caller's name with its NUL. */
enum { AUTH_CALLER_SIZE = 65 };

struct auth;
struct auth_caller;

/* NULL with one line in `error`, which names the file and the line, when the file cannot be
 * used. */
struct auth *auth_load(const char *path, char *error, size_t error_size);
void auth_free(struct auth *auth);

/* The caller of an Authorization header (RFC 6750 §2.1), or NULL. Takes the same time wherever
 * two tokens begin to differ. */
const struct auth_caller *auth_find(const struct auth *auth, const char *authorization);
bool auth_allows(const struct auth_caller *caller, enum route_access access, const char *name);
const char *auth_caller_name(const struct auth_caller *caller);

#endif
