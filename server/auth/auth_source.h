/* The API tokens of now, for every thread: replaced as a whole when the operator has changed
 * the file, while requests go on with those that they came under. */
#ifndef RLOCKD_SERVER_AUTH_AUTH_SOURCE_H
#define RLOCKD_SERVER_AUTH_AUTH_SOURCE_H

#include "server/auth/auth.h"

struct auth_source;

/* Takes `auth` over. NULL: out of memory. */
struct auth_source *auth_source_new(struct auth *auth);
/* When no thread uses the source any more. */
void auth_source_free(struct auth_source *source);
/* For one thread at a time. Takes ownership of `auth`. The former set is freed when the last
 * request that refers to it has ended. False: out of memory, and the former set stays. */
bool auth_source_replace(struct auth_source *source, struct auth *auth)
    __attribute__((warn_unused_result));

/* A set of tokens that stays until auth_snapshot_drop(). */
struct auth_snapshot;
struct auth_snapshot *auth_source_take(struct auth_source *source);
const struct auth *auth_snapshot_auth(const struct auth_snapshot *snapshot);
/* NULL is allowed. */
void auth_snapshot_drop(struct auth_snapshot *snapshot);

#endif
