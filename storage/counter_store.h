/* Semaphores without leases and count-down latches on Redis: numbers that Redisson's RSemaphore
 * and RCountDownLatch share.
 *
 * Every asynchronous call takes a callback that comes exactly once, never before the call
 * returns. The requests that change something are leases in the sense of acquire.h: `id` is
 * their idempotency key, under which Redis keeps what they did; where it is empty, nothing is
 * kept. */
#ifndef RLOCKD_STORAGE_COUNTER_STORE_H
#define RLOCKD_STORAGE_COUNTER_STORE_H

#include "storage/acquire.h"

/* What every client can read back from JSON. */
#define COUNTER_MAX ((int64_t)9007199254740991)
/* Java's int. */
#define PERMITS_MAX ((int64_t)INT32_MAX)

enum counter_kind { COUNTER_SEMAPHORE, COUNTER_PERMIT_SEMAPHORE, COUNTER_LATCH };

/* LOCK_GRANTED: made now; LOCK_HELD: it is there, as `value`. */
void counter_create(struct lock_store *store, enum counter_kind kind, const char *name,
                    int64_t value, lock_done *done, void *arg);
/* LOCK_UNLOCKED: deleted; LOCK_FREE: there was none. */
void counter_delete(struct lock_store *store, enum counter_kind kind, const char *name,
                    lock_done *done, void *arg);
/* LOCK_LOOKED with `value` and `waiter_count`, or LOCK_NOT_FOUND. */
void semaphore_look(struct lock_store *store, const char *name, lock_done *done, void *arg);

/* LOCK_GRANTED and LOCK_HELD (the first answer once more) with `value` and `permits`. */
extern const struct acquire_object semaphore_object;
void semaphore_drain(struct lock_store *store, const struct lease *request, lock_done *done,
                     void *arg);
/* The same with LOCK_RELEASED. */
void semaphore_release(struct lock_store *store, const struct lease *request, lock_done *done,
                       void *arg);
/* Gives back what the request with this mark acquired or drained: see lock_withdraw(). */
void semaphore_withdraw(struct lock_store *store, const struct lease *request);

/* LOCK_GRANTED: the latch is at zero, or not there; LOCK_BUSY: it is at `value`. */
extern const struct acquire_object latch_object;
/* LOCK_RELEASED or LOCK_HELD with `value`. */
void latch_count_down(struct lock_store *store, const struct lease *request, lock_done *done,
                      void *arg);

#endif
