/* The names of several locks at once. */
#ifndef RLOCKD_HANDLERS_MULTI_LOCKS_H
#define RLOCKD_HANDLERS_MULTI_LOCKS_H

#include <jansson.h>

#include "handlers/lease_request.h"

/* Takes the names over into the lease, when there are any, they are good, and the caller has a
 * right to all of them. False: refused. */
bool multi_locks_read(struct lease_request *request, const struct field_names *names)
    __attribute__((warn_unused_result));

/* Refuses a caller without a right to all of these names. */
bool multi_locks_check_right(struct http_request *http, const struct lock_names *names)
    __attribute__((warn_unused_result));
/* Whether the caller has the right to all of these names. */
bool multi_locks_allows(const struct auth_caller *caller, enum auth_verb verb,
                        const struct lock_names *names);

json_t *multi_locks_names_json(const struct lock_names *names);

#endif
