/* Leases on Redis, of every kind: renew, release, withdraw. To acquire: attempt.h, and with
 * waiting storage/wait/acquire.h. The files of the room:
 *
 *   leases.c      hands each request to the family of its kind
 *   families.h    what each family does
 *   locks.c       the family of locks, and of sets of locks
 *   permits.c     the family of permits
 *   counters.c    the families of semaphores and latches, and what else they can do
 *   send.c        sends the script of a request, and tells the lease's session of the result
 *   read_reply.c  reads a reply into a result
 *   prepare.c     what comes before an attempt: the names of a set, the note of the session
 *   withdraw.c    takes the effect of an attempt back
 *   hand_over.c   releases a lease and grants the object to a waiter, in one script
 *   quarantine.c  refuses attempts while Redis may have lost leases
 *   attempt.h, lease_result.h, counter_result.h  the parameters and results
 *
 * storage/wait/, storage/session/, storage/look/ and handlers/ may call the room. It calls
 * storage/notes/ and storage/store/.
 *
 * Every asynchronous call here takes a callback that comes exactly once, never before the call
 * returns. Parameters that have to outlive the call are copied. */
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
