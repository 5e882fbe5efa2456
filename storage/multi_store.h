/* Leases of several locks at once, on Redis. They are acquired and taken back like one:
 * acquire.h, with `locks` in the lease. Their record knows the names, so all else needs the
 * token only.
 *
 * Every asynchronous call here takes a callback that comes exactly once, never before the call
 * returns. */
#ifndef RLOCKD_STORAGE_MULTI_STORE_H
#define RLOCKD_STORAGE_MULTI_STORE_H

#include "storage/lock_store.h"

void multi_renew(struct lock_store *store, const struct lease *lease, lock_done *done,
                 void *arg);
void multi_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                   void *arg);
/* LOCK_HELD, LOCK_BUSY for one that waits, LOCK_ENDED. */
void multi_look(struct lock_store *store, const struct lease *lease, lock_done *done,
                void *arg);
/* Only asks for the names: LOCK_FREE, and nothing is changed. */
void multi_look_names(struct lock_store *store, const struct lease *lease, lock_done *done,
                      void *arg);

/* The names that a result of these tells; NULL: none. To be dropped. */
struct lock_names *multi_names(const struct lock_store *store,
                               const struct lock_result *result);

struct multi_hold {
    int64_t fencing_token, hold_count;
};

/* What a result of LOCK_GRANTED or LOCK_HELD tells of each of `count` locks. */
void multi_holds(const struct lock_result *result, struct multi_hold *holds, size_t count);
/* The numbers of a text, a blank between them; 0 for those that it has not. */
void multi_numbers(const char *text, int64_t *numbers, size_t count);

#endif
