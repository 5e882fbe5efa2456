/* Withdrawals: attempts whose effect must not stay, kept until Redis has confirmed that it is
 * gone. */
#ifndef RLOCKD_STORAGE_LEASE_WITHDRAW_H
#define RLOCKD_STORAGE_LEASE_WITHDRAW_H

#include "server/base/timers.h"
#include "storage/store/lease.h"

struct store;

enum withdraw_place {
    WITHDRAW_PLACE, /* the place in the queue of a fair lock is given up, too */
    KEEP_PLACE      /* it stays for a while, for the next request with the same token */
};

/* Withdraws the grant or the place of this lease's attempt, now or as soon as Redis answers
 * again; gives up when the lease must have expired. Then forgets the attempt in the lease's
 * session, unless the lease is claimed by a later request. The lease is copied. */
void lease_withdraw(struct store *store, const struct lease *lease, enum withdraw_place place);

#endif
