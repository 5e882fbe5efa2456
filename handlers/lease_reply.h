/* Answers to requests about leases, and the parts of these answers that other requests
 * share. */
#ifndef RLOCKD_HANDLERS_LEASE_REPLY_H
#define RLOCKD_HANDLERS_LEASE_REPLY_H

#include <jansson.h>

#include "handlers/lease_request.h"
#include "storage/lease/lease_result.h"
#include "storage/look/deadlock.h"

/* Each of these ends the request. */

/* The lease as granted, confirmed or renewed, with the token if the answer has to show it. */
void lease_reply_hold(struct lease_request *request, int status,
                      const struct lease_result *result);
/* The members of a hold in the log, for an answer of another protocol. */
void lease_log_hold(const struct lease_request *request, const struct lease_result *result);
/* However an acquisition has ended: leases_acquire.c. */
void lease_reply_acquired(struct lease_request *request, const struct acquire_result *result);
/* A released or waiting lease: the answer names no holds. */
void lease_reply_released(struct lease_request *request, const struct lease_result *result);
void lease_reply_waiting(struct lease_request *request);
/* Of a busy object. `deadlock`: that the request waited in; NULL: none is known. */
void lease_reply_busy(struct lease_request *request, const struct lease_result *result,
                      const struct deadlock *deadlock);
/* A result that is no success of the operation. */
void lease_reply_failure(struct lease_request *request, const struct lease_result *result);
/* Of a permit: there is no semaphore of this name, or not yet. */
void lease_reply_no_semaphore(struct lease_request *request);
/* Why an acquisition failed for no reason of the lease's: too many waiters, draining, Redis. */
void lease_reply_not_acquired(struct lease_request *request, enum try_outcome outcome);

/* The same for any request. `failure`: why Redis did not do it. */
void reply_unavailable(struct http_request *http, enum call_outcome failure);
/* The lock has more readers than a search for a fencing token looks at. */
void reply_many_readers(struct http_request *http);

/* Of a busy object: the header Retry-After and its twin in `members`. `remaining_ms`: until the
 * object may be free; negative: unknown. */
void reply_retry_after(struct http_request *http, json_t *members, int64_t remaining_ms);

/* Adds a text from Redis, if there is one and it is UTF-8: a key in Redis may hold any bytes.
 */
void reply_write_text(struct json_text *body, const char *name, const char *text);

/* The name of the lock of a set to which a result refers; for a lease on one object the name of
 * that object. */
const char *lease_blocking_name(const struct lease *lease, const struct lease_result *result);

#endif
