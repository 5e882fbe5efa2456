/* What other handlers need of those of several locks at once. */
#ifndef RLOCKD_HANDLERS_MULTI_LOCKS_H
#define RLOCKD_HANDLERS_MULTI_LOCKS_H

#include "handlers/locks.h"
#include "storage/lock_names.h"

/* Takes the names over into the lease, when they are there, good, and the caller's, and its
 * kind is one that several locks have. False: refused. */
bool multi_locks_read(struct http_request *request, const struct field_names *names,
                      struct lease *lease) __attribute__((warn_unused_result));

/* The first name that the caller has no right to; NULL: none. */
const char *multi_locks_allows(const struct auth_caller *caller,
                               const struct lock_names *names);

json_t *multi_locks_names_json(const struct lock_names *names);

/* locks_reply_hold() of several. */
void multi_locks_reply_hold(struct http_request *request, int status, const struct lease *lease,
                            const struct lock_result *result, const char *token);

#endif
