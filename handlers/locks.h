/* What the handlers of locks share: reading a lease's request, and how results look in JSON. */
#ifndef RLOCKD_HANDLERS_LOCKS_H
#define RLOCKD_HANDLERS_LOCKS_H

#include <jansson.h>
#include <stdbool.h>

#include "handlers/service.h"
#include "server/request.h"
#include "storage/lock_store.h"

/* The name of the path. False for one that would be a companion key of another lock, or a
 * record of ours: refused. */
bool locks_read_name(struct http_request *request, char name[LOCK_NAME_SIZE])
    __attribute__((warn_unused_result));
/* The same of a name in the field `field`. */
bool locks_check_name(struct http_request *request, const char *field, const char *name)
    __attribute__((warn_unused_result));

/* Fills in name, lease id and mark from the path and the Lease-Token header, canonical in
 * `token`. A token that is not `required` and not there is made (and LEASE_NEW). False:
 * refused. */
bool locks_read_lease(struct http_request *request, bool required, struct lease *lease,
                      char token[37]) __attribute__((warn_unused_result));

/* The same without a name in the path. */
bool locks_read_token(struct http_request *request, bool required, struct lease *lease,
                      char token[37]) __attribute__((warn_unused_result));

/* The session that the lease is to belong to, if any. False: refused. */
bool locks_read_session(struct http_request *request, struct lease *lease)
    __attribute__((warn_unused_result));

/* How long the client wants to wait: its own wait_ms, or what it prefers as far as the server
 * likes (RFC 7240). */
int64_t locks_wait_ms(struct http_request *request, const struct field_integer *wait_ms);

/* Ends a request about a lease with a result that means the same for every operation. */
void locks_reply_failure(struct http_request *request, const struct lease *lease,
                         const struct lock_result *result);
/* Finds out who is in the way before locks_reply_busy(): see lock_describe_holder(). */
void locks_describe_holder(struct service *service, const struct lease *lease,
                           const struct lock_result *result, lock_done *done, void *arg);
/* Ends it with 423, or with what else `result` is. */
void locks_reply_busy(struct http_request *request, const struct lease *lease,
                      const struct lock_result *result);
/* Ends it with the lease as a granted, confirmed or renewed one. `token`: shown to the caller
 * because the server made it, or NULL. */
void locks_reply_hold(struct http_request *request, int status, const struct lease *lease,
                      const struct lock_result *result, const char *token);

/* Readers and writers of one lock hold it together, each with a lease of its own. */
bool locks_is_read_write(const char *kind);

/* {"lease_id": …} or {"redisson_holder": …}, with session, owner, note, hold_count and kind
 * where there are any. */
json_t *locks_holder_json(const struct lock_holder *holder);

/* Ends a request that could not be done because of Redis. */
void locks_reply_unavailable(struct http_request *request, enum lock_outcome outcome);

#endif
