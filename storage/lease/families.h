/* The functions of each family of kinds: which KEYS and ARGV its scripts get. */
#ifndef RLOCKD_STORAGE_LEASE_FAMILIES_H
#define RLOCKD_STORAGE_LEASE_FAMILIES_H

#include "storage/lease/attempt.h"
#include "storage/lease/lease_result.h"

/* See attempt_send(). */
typedef void family_try(struct store *store, const struct lease *lease,
                        const struct attempt *attempt, attempt_done *done, void *arg);
/* See lease_renew() and lease_release(). */
typedef void family_change(struct store *store, const struct lease *lease, lease_done *done,
                           void *arg);

family_try lock_try, permit_try, semaphore_try, latch_try;
family_change lock_renew, permit_renew;
family_change lock_release, permit_release;
family_change lock_claim; /* see lease_get_set() */

#endif
