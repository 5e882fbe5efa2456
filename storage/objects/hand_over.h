/* Releasing a lock and granting it to a waiter of the same worker in one script. */
#ifndef RLOCKD_STORAGE_OBJECTS_HAND_OVER_H
#define RLOCKD_STORAGE_OBJECTS_HAND_OVER_H

#include "storage/objects/attempt.h"
#include "storage/objects/lease_result.h"

/* Whether a waiter with this lease may be given a lock by the release of another. Of one plain
 * or fair lock, and without an owner: an owner's leases may share the lock, readers do, and a
 * set needs all its locks. */
bool hand_over_serves(const struct lease *next);

struct hand_over_result {
    /* Of the release. NULL: nothing was done, the lease is still to be released. */
    const struct lease_result *released;
    /* Of the waiter's attempt. NULL: there was none, and the waiter waits as before. */
    const struct attempt_result *attempt;
};

typedef void hand_over_done(void *arg, const struct hand_over_result *result);

/* Releases the lease, of a lock, and grants it to `next`, whose attempt before has registered
 * it as a waiter. `done` comes exactly once, never before this returns; the leases are copied.
 */
void hand_over_send(struct lock_store *store, const struct lease *lease,
                    const struct lease *next, const struct attempt *attempt,
                    hand_over_done *done, void *arg);

#endif
