/* Leases on Redis, of every kind: renew, release, withdraw. To acquire: attempt.h, and with
 * waiting storage/wait/acquire.h.
 *
 * Every asynchronous call here takes a callback that comes exactly once, never before the call
 * returns. What has to outlive the call is copied. */
#ifndef RLOCKD_STORAGE_LEASE_LEASES_H
#define RLOCKD_STORAGE_LEASE_LEASES_H

#include "storage/lease/attempt.h"
#include "storage/lease/lease_result.h"
#include "storage/store/store.h"

/* LEASE_HELD, or why not. */
void lease_renew(struct store *store, const struct lease *lease, lease_done *done, void *arg);
/* LEASE_RELEASED, or why not. */
void lease_release(struct store *store, const struct lease *lease, lease_done *done, void *arg);

/* Of a set: LEASE_HELD, LEASE_BUSY when it waits, or why not. A lease that holds is not
 * withdrawn any more. */
void lease_get_set(struct store *store, const struct lease *lease, lease_done *done, void *arg);
#endif
