/* Releasing a lock or a permit and granting it to a waiter of the same worker in one script. */
#ifndef RLOCKD_STORAGE_LEASE_HAND_OVER_H
#define RLOCKD_STORAGE_LEASE_HAND_OVER_H

#include "storage/lease/attempt.h"
#include "storage/store/kind.h"
#include "storage/store/lease.h"
#include "storage/lease/lease_result.h"

/* Whether the release of another lease may hand its lock or permit over to a waiter with this
 * lease. True for a lease of one lock without an owner, and of a permit: leases of one owner
 * may share the lock, and a set needs all its locks. */
static inline bool hand_over_serves(const struct lease *next)
{
    enum kind_family family = kind_row(next->kind)->family;

    return (family == FAMILY_LOCK || family == FAMILY_PERMIT) && next->owner[0] == '\0';
}

struct hand_over_result {
    /* The result of the release. NULL: the script changed nothing; the lease is still to be
     * released. */
    const struct lease_result *released;
    /* Of the waiter's attempt. NULL: there was none, and the waiter waits as before. */
    const struct attempt_result *attempt;
    bool others_listen; /* so there was no attempt: the release was told to all */
};

typedef void hand_over_done(void *arg, const struct hand_over_result *result);

/* Releases the lease, of the object that `next` waits for, and grants the lock or permit to
 * `next`, whose attempt before has registered it as a waiter, or which has made none
 * (`attempt->registered`). `own_listeners` above 0: but not if more than so many listen to the
 * channel of a lock that is not fair or of a semaphore. `done` comes exactly once, never before
 * this returns; the leases are copied. */
void hand_over_send(struct store *store, const struct lease *lease, const struct lease *next,
                    const struct attempt *attempt, unsigned own_listeners, hand_over_done *done,
                    void *arg);

#endif
