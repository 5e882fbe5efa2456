/* The table by which a release on one worker of the process finds a waiter of another worker.
 * Workers that run share this table, their inboxes and counters, and nothing else. A process
 * with one worker has no such table. */
#ifndef RLOCKD_STORAGE_WAIT_NEIGHBOURS_H
#define RLOCKD_STORAGE_WAIT_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/inbox.h"
#include "storage/store/kind.h"

enum { NEIGHBOURS_MAX = 64 };

struct acquirer;
struct neighbours;
struct shared_lock;

/* One worker among the others; embedded in its owner. */
struct neighbour {
    struct neighbours *all;
    size_t index;
    struct inbox *inbox;
    struct acquirer *acquirer;
    size_t under_way; /* releases that this worker has passed on, or was passed */
};

/* NULL: out of memory. */
struct neighbours *neighbours_new(void);
/* Every worker must have been removed. */
void neighbours_free(struct neighbours *neighbours);
/* Adds a worker, before the workers run: at most NEIGHBOURS_MAX. False: the kernel refuses a
 * descriptor. */
bool neighbours_add(struct neighbours *neighbours, struct neighbour *neighbour,
                    struct loop *loop) __attribute__((warn_unused_result));
/* After the workers ran; before the loop is freed. Nothing is done for a worker that was not
 * added. */
void neighbours_remove(struct neighbour *neighbour);

/* All that follows may be called on the thread of each worker. */

/* The entry of the lock (`kind` WAIT_LOCK) or the semaphore (WAIT_SEMAPHORE) with this name,
 * which lasts while some worker has a queue of waiters for the plain lock or the permits, or a
 * line of waiters for the fair lock. To be given back by shared_lock_leave(). */
struct shared_lock *shared_lock_join(struct neighbours *neighbours, enum wait_kind kind,
                                     const char *name, size_t len);
void shared_lock_leave(struct neighbours *neighbours, struct shared_lock *lock);
/* Whether another worker has joined the entry, too. */
bool shared_lock_is_shared(struct neighbours *neighbours, const struct shared_lock *lock);
/* Whether this worker has waiters of the plain lock or of permits. */
void shared_lock_waits(struct shared_lock *lock, const struct neighbour *neighbour, bool waits);
/* When the first waiter of this worker asked for its place in the queue of the fair lock, as
 * clock_ns(); 0: the worker has none. */
void shared_lock_asked(struct shared_lock *lock, const struct neighbour *neighbour,
                       int64_t asked_ns);
/* Whether any worker of the process has waiters of the plain lock or of permits. */
bool shared_lock_is_waited_for(const struct shared_lock *lock);
/* Whether this worker listens to the channel of the lock or semaphore. */
void shared_lock_listens(struct shared_lock *lock, const struct neighbour *neighbour,
                         bool listens);
/* The number of workers of this process that listen. */
unsigned shared_lock_listeners(const struct shared_lock *lock);

/* A request of some worker got the lock, or the last permit, at `taken_ns`: as far as the
 * workers know, nothing is free before `until_ns`. */
void shared_lock_taken(struct shared_lock *lock, int64_t taken_ns, int64_t until_ns);
/* The lock, or a permit, was released. */
void shared_lock_released(struct shared_lock *lock);
/* This worker yields: until `until_ns` the waiters of all workers leave the lock or permits to
 * clients of other servers. 0: ends the yield, if this worker began the last one. */
void shared_lock_yields(struct shared_lock *lock, const struct neighbour *neighbour,
                        int64_t until_ns);
/* The end of the yield that another worker began last; it may be over. */
int64_t shared_lock_yield_of_others(const struct shared_lock *lock,
                                    const struct neighbour *neighbour);
/* Raises *taken_ns and *until_ns to this lock's values. */
void shared_lock_read_taken(const struct shared_lock *lock, int64_t *taken_ns,
                            int64_t *until_ns);

/* The other worker whose waiter is next. Plain lock and permits: the next worker, after this
 * one and round, that has waiters. Fair lock: the worker whose first waiter asked before those
 * of all others, as far as the workers know. NULL: none, that waiter is this worker's, or
 * neighbours_rest() says so. */
struct neighbour *shared_lock_next_worker(const struct shared_lock *lock,
                                          const struct neighbour *neighbour, int64_t now_ns);
/* The same, of the entry with this name, which a worker that has neither a queue nor a line has
 * not joined. */
struct neighbour *neighbour_that_waits(const struct neighbour *neighbour, enum wait_kind kind,
                                       const char *name, size_t len, int64_t now_ns);
/* A release came back: until `until_ns` no worker is next. */
void neighbours_rest(const struct neighbour *neighbour, enum wait_kind kind, const char *name,
                     size_t len, int64_t until_ns);

#endif
