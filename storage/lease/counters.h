/* Semaphores without leases and count-down latches on Redis: numbers that Redisson's RSemaphore
 * and RCountDownLatch share. To acquire permits or to await a latch: attempt.h.
 *
 * Every asynchronous call takes a callback that comes exactly once, never before the call
 * returns. Of a request that changes a number `id` is the idempotency key, under which Redis
 * keeps the request's effect; with an empty key no effect is kept. */
#ifndef RLOCKD_STORAGE_LEASE_COUNTERS_H
#define RLOCKD_STORAGE_LEASE_COUNTERS_H

#include "storage/lease/counter_result.h"
#include "storage/store/store.h"

/* The largest number that every client can read back from JSON. */
#define COUNTER_MAX ((int64_t)9007199254740991)
/* Java's int. */
#define PERMITS_MAX ((int64_t)INT32_MAX)

/* `kind`: KIND_SEMAPHORE, KIND_PERMIT (the semaphore that permits are of) or KIND_LATCH. */

/* COUNTER_CREATED or COUNTER_EXISTS, with `value`. */
void counter_create(struct store *store, enum object_kind kind, const char *name, int64_t value,
                    counter_done *done, void *arg);
/* COUNTER_DELETED or COUNTER_MISSING. */
void counter_delete(struct store *store, enum object_kind kind, const char *name,
                    counter_done *done, void *arg);
/* COUNTER_SHOWN with `value` and `waiter_count`, or COUNTER_MISSING. */
void semaphore_get(struct store *store, const char *name, counter_done *done, void *arg);

/* COUNTER_GRANTED or COUNTER_REPLAYED, with `value` and `permits`. lease_withdraw() gives them
 * back. In a quarantine COUNTER_FAILED, without asking Redis. */
void semaphore_drain(struct store *store, const struct lease *request, counter_done *done,
                     void *arg);
/* COUNTER_RELEASED or COUNTER_REPLAYED, with `value` and `permits`; COUNTER_TOO_LARGE; without
 * `create` COUNTER_MISSING. */
void semaphore_release(struct store *store, const struct lease *request, bool create,
                       counter_done *done, void *arg);
/* COUNTER_RELEASED or COUNTER_REPLAYED, with `value`. */
void latch_count_down(struct store *store, const struct lease *request, counter_done *done,
                      void *arg);

#endif
