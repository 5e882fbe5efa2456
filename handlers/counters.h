/* Shared by the handlers of semaphores and latches. */
#ifndef RLOCKD_HANDLERS_COUNTERS_H
#define RLOCKD_HANDLERS_COUNTERS_H

#include <jansson.h>

#include "handlers/lease_request.h"
#include "storage/lease/counters.h"

/* A request about the semaphore or latch of the path. NULL: refused. */
struct lease_request *counter_request_new(struct http_request *http, enum object_kind kind);

/* PUT of a semaphore or latch whose number is the required field `field`: 1 to `max`. */
void counter_put(struct http_request *http, enum object_kind kind, const char *field,
                 int64_t max, counter_done *done);
/* The answer to a PUT: `member` of the body is the number that there is. */
void counter_reply_put(struct lease_request *request, const char *member,
                       const struct counter_result *result);

/* {"<member of the kind>": name}, to be added to. */
json_t *counter_json(const struct lease_request *request);
/* Ends the request with a 423. */
void counter_reply_busy(struct lease_request *request, int64_t available, const char *detail);
/* Ends the request with a result that means the same for every operation. */
void counter_reply_failure(struct lease_request *request, const struct counter_result *result);
/* The same for an acquisition that was not granted. */
void counter_reply_not_acquired(struct lease_request *request,
                                const struct acquire_result *result);

#endif
