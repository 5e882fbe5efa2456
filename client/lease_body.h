/* What the requests about a lease ask for. */
#ifndef RLOCK_CLIENT_LEASE_BODY_H
#define RLOCK_CLIENT_LEASE_BODY_H

#include <jansson.h>
#include <stdint.h>

#include "client/lease.h"

/* Of the lock, the set or the permit; the caller frees it. NULL: no memory. */
char *lease_path(const struct settings *settings);

/* Of the request that opens a session: host/pid is its name in listings. */
json_t *lease_session_body(const struct settings *settings);

/* Of a request that acquires the lease, and waits for so long. */
json_t *lease_acquire_body(const struct lease *lease, int64_t wait_ms);

#endif
