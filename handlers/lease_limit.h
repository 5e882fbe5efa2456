/* The limit of leases of an API token: which leases of its caller count, and how their ends are
 * noticed. Without API tokens, and for a caller without the limit, nothing is counted and
 * nothing is refused. */
#ifndef RLOCKD_HANDLERS_LEASE_LIMIT_H
#define RLOCKD_HANDLERS_LEASE_LIMIT_H

#include <stdbool.h>

#include "handlers/lease_request.h"
#include "storage/objects/session_store.h"

/* Before the attempt to acquire the lease of the request. False: the caller has as many leases
 * as it may, and the request was refused. */
bool lease_limit_begin(struct lease_request *request) __attribute__((warn_unused_result));
/* The attempt has ended with `result`; NULL: the client hung up before. Does nothing after the
 * first call. */
void lease_limit_acquired(struct lease_request *request, const struct acquire_result *result);
/* The answer of a grant did not reach its client, and the grant is withdrawn. */
void lease_limit_withdrawn(struct lease_request *request);
/* A renewal or a release has ended with `result`. */
void lease_limit_changed(struct lease_request *request, const struct lease_result *result);

/* The session is open: the request has opened it, or found it open. */
void lease_limit_session_open(struct http_request *http, const char *session_id,
                              const struct session_view *view);
/* The session is open and holds the leases of `view`, which was asked for at `asked_ns`
 * (clock_ns()). */
void lease_limit_session_holds(struct http_request *http, const char *session_id,
                               const struct session_view *view, int64_t asked_ns);
/* The session has ended, and its leases with it. */
void lease_limit_session_ended(struct http_request *http, const char *session_id);

#endif
