/* Shared by the lock protocols of other programs (docs/neighbours.md). Their locks are leases
 * as any other, whose tokens are derived from the ids of their clients. */
#ifndef RLOCKD_HANDLERS_NEIGHBOURS_H
#define RLOCKD_HANDLERS_NEIGHBOURS_H

#include <jansson.h>

#include "handlers/lease_request.h"

/* The body as one JSON object, whatever its Content-Type; the caller's own. Members that the
 * protocol does not have are allowed. NULL: the request was refused. */
json_t *neighbour_body(struct http_request *http) __attribute__((warn_unused_result));

/* The member, a text of 1 to `max` bytes without control characters. NULL: the request was
 * refused. */
const char *neighbour_text(struct http_request *http, const json_t *object, const char *member,
                           size_t max) __attribute__((warn_unused_result));

/* Until it is released, or for `ttl_ms` of the query. False: the request was refused. */
bool neighbour_set_ttl(struct lease_request *request, struct lease_fields *fields)
    __attribute__((warn_unused_result));

/* Acquires the object until it is released, or for `ttl_ms` of the query; then `acquired`
 * answers the request. */
void neighbour_acquire(struct lease_request *request, struct lease_fields *fields,
                       void (*acquired)(struct lease_request *request,
                                        const struct acquire_result *result));

#endif
