/* Semaphores whose permits are leases, on Redis: Redisson's RPermitExpirableSemaphore. A permit
 * has a token, an end, and a session if it wants one, like a lock.
 *
 * Every asynchronous call takes a callback that comes exactly once, never before the call
 * returns. */
#ifndef RLOCKD_STORAGE_PERMIT_STORE_H
#define RLOCKD_STORAGE_PERMIT_STORE_H

#include "storage/acquire.h"

enum { PERMIT_ID_SIZE = 33, PERMITS_SHOWN = 100 };

/* The outcomes of a lock; `hold_count` says how many permits are free. */
extern const struct acquire_object permit_object;
void permit_renew(struct lock_store *store, const struct lease *lease, lock_done *done,
                  void *arg);
void permit_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                    void *arg);
/* See lock_withdraw(). */
void permit_withdraw(struct lock_store *store, const struct lease *lease);

/* A permit that somebody holds. */
struct permit_view {
    char lease_id[LEASE_ID_SIZE];     /* empty: not one of ours */
    char permit_id[PERMIT_ID_SIZE];   /* as Redisson shows it */
    char session_id[SESSION_ID_SIZE]; /* empty: none */
    int64_t remaining_ms;             /* negative: for ever */
};

struct permits_view {
    enum lock_outcome outcome; /* LOCK_LOOKED, LOCK_NOT_FOUND, or why not */
    int64_t free_count, held_count;
    size_t waiter_count;
    size_t shown;
    struct permit_view permits[PERMITS_SHOWN]; /* those that end first */
};

typedef void permits_look_done(void *arg, const struct permits_view *view);

void permits_look(struct lock_store *store, const char *name, permits_look_done *done,
                  void *arg);

#endif
