/* The place where a lock or a semaphore is waited for on this worker: looked up once by name,
 * then asked and told about attempts and releases. */
#ifndef RLOCKD_STORAGE_WAIT_PLACE_H
#define RLOCKD_STORAGE_WAIT_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/key.h"
#include "storage/wait/share.h"
#include "storage/wait/waiters.h"

struct wait_line;

/* Valid until the loop goes on: timers drop queues and lines. A release does not say whether
 * its lock is plain, fair or read/write, so a place of kind WAIT_LOCK has all three. */
struct wait_place {
    struct waiters *waiters;
    enum wait_kind kind;
    struct wait_queue *queue;      /* of this kind; NULL: none */
    struct wait_queue *read_write; /* of WAIT_LOCK: the read/write lock's queue; NULL: none */
    struct wait_line *line;        /* of WAIT_LOCK: the fair lock's waiters; NULL: none */
    size_t len;
    char name[KEY_NAME_MAX + 1]; /* in Redis; set by the caller of wait_place_find() */
};

/* Fills in the rest; `name` and `len` are there. */
void wait_place_find(struct wait_place *place, struct waiters *waiters, enum wait_kind kind);

/* place.c */

/* A request of this worker, which did not wait, got the plain lock, the read/write lock to
 * write, or the last permit, for `ttl_ms`. */
void place_taken(const struct wait_place *place, int64_t ttl_ms);
/* How long the object is known to be taken, in ms; 0: not known. Only if a lease took it within
 * `recent_ns` and unlock messages reach this worker. `reads`: for a reader, which only a writer
 * blocks; any other request is behind the waiters. */
int64_t place_recently_taken_ms(const struct wait_place *place, bool reads, int64_t recent_ns);
/* The other worker whose waiter is next; NULL: there is none, or the next is this worker's. */
struct neighbour *place_next_worker(const struct wait_place *place);
/* The release was passed on to another worker, which grants what it frees to a waiter of its
 * own. */
void place_passed_on(const struct wait_place *place);
/* Such a release granted to no waiter. */
void place_missed(const struct wait_place *place);
/* Such a release came back: for `ns` no other is passed on. */
void place_rest(const struct wait_place *place, int64_t ns);
/* A release was passed on to this worker. False: it has no waiters. */
bool place_take_over(const struct wait_place *place, const struct hand_over_series *series)
    __attribute__((warn_unused_result));

/* next_waiter.c */

/* A lease is about to be released here. Returns the first waiter, unless an attempt is under
 * way (semaphore: the first waiter without an attempt). NULL: none, or the release is open to
 * all clients; a fair lock's never is. Fills in `series`. */
struct waiter *place_next(const struct wait_place *place, struct hand_over_series *series);
/* An attempt is made for that waiter: it has the baton (semaphore: if the baton is free). Then
 * comes waiter_busy(), waiter_leave() or waiter_unchosen(). Returns 0, or the number of workers
 * of this process that listen: then the script must grant only if nobody else listens. */
unsigned waiter_choose(struct waiter *waiter) __attribute__((warn_unused_result));
/* Other servers or clients do listen, and got the unlock message: the waiters of this worker
 * leave the lock or semaphore to them for a while. Before waiter_unchosen(). */
void waiter_yield(struct waiter *waiter);
/* Nothing came of the attempt: the waiter sleeps on, or tries if a wake-up came meanwhile. */
void waiter_unchosen(struct waiter *waiter);

#endif
