/* Leases on Redis, of every kind: renew, release, withdraw. To acquire: attempt.h, and with
 * waiting storage/wait/acquire.h.
 *
 * Every asynchronous call here takes a callback that comes exactly once, never before the call
 * returns. What has to outlive the call is copied. */
#ifndef RLOCKD_STORAGE_OBJECTS_LEASES_H
#define RLOCKD_STORAGE_OBJECTS_LEASES_H

#include "storage/objects/attempt.h"
#include "storage/objects/lease_result.h"
#include "storage/objects/lock_store.h"

/* LEASE_HELD, or why not. */
void lease_renew(struct lock_store *store, const struct lease *lease, lease_done *done,
                 void *arg);
/* LEASE_RELEASED, or why not. */
void lease_release(struct lock_store *store, const struct lease *lease, lease_done *done,
                   void *arg);

/* Of a set: LEASE_HELD, LEASE_BUSY when it waits, or why not. A lease that holds is not
 * withdrawn any more. */
void lease_get_set(struct lock_store *store, const struct lease *lease, lease_done *done,
                   void *arg);
#endif
