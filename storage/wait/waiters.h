/* The requests of this worker that wait for a lock, a semaphore or a latch, and which of them
 * tries next.
 *
 * The waiters of one object stand in one queue, and each queue has one baton. Whatever may have
 * freed the object (an unlock message, the end of its TTL, a new subscription, a poll that
 * makes up for a lost message) gives the baton to one waiter, which makes an attempt. The
 * waiter leaves the queue with the object, or finds it busy and stays, or leaves because its
 * client has gone: then the baton is passed on. So one unlock costs one script, and no wake-up
 * is lost with a waiter that goes away.
 *
 * One release of a semaphore may satisfy several waiters, and so may one of a read/write lock:
 * a waiter that got something passes the baton on. A waiter that wants more than there is
 * passes it to the next one that wants less. When a reader got the lock, all that wait to read
 * try at once. An open latch satisfies all its waiters at once.
 * The queue of a fair lock is in Redis, which wakes each waiter by a channel of its own: here
 * each waiter of a fair lock has a queue of its own. */
#ifndef RLOCKD_STORAGE_WAIT_WAITERS_H
#define RLOCKD_STORAGE_WAIT_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/store/kind.h"
#include "storage/topology/topology.h"

struct neighbour;
struct waiters;
struct wait_queue;

/* Slots for requests that wait, acquisitions and keep-alives alike. There are fewer slots than
 * connections, so that a connection is left for requests that renew and release. */
struct wait_slots {
    size_t limit, used;
};

/* Embedded in its owner. */
struct waiter {
    const char *lease_id; /* the owner's */
    /* The object may be free: try now, then call waiter_busy(), waiter_move() or
     * waiter_leave(). Never called while an attempt of this waiter is under way; waiter_busy()
     * and waiter_move() may call it at once. */
    void (*try_now)(void *arg);
    void *arg;
    enum wait_kind kind;
    int64_t asked_ns; /* when its first attempt was sent, as clock_ns() */
    int64_t wants;    /* permits of a semaphore: waiters that want fewer may get theirs first */
    bool trying;      /* an attempt is under way; the owner sets it for attempts of its own */
    bool chosen;      /* a release under way may grant */
    int64_t shared_ms; /* the owner sets it before waiter_leave(): how long the waiter has a
                          read/write lock to read; 0: it has none */
    bool may_look;     /* only a new subscription woke the waiter: a look at the lock may do */
    bool retry_wanted; /* another attempt has to follow the one that is under way */
    bool rests; /* the owner sets it before waiter_busy() or waiter_move(), because it could not
                   try: goes behind the other waiters, and the next one has its turn at once */
    uint64_t rested_in_round; /* as wait_queue.round; 0: in none */
    struct wait_queue *queue;
    struct waiter *prev, *next;
};

struct waiters_options {
    struct loop *loop;
    struct metrics *metrics;
    struct topology *topology;
    struct neighbour *neighbour; /* NULL: the only worker */
};

struct waiters *waiters_new(const struct waiters_options *options);
/* Every waiter must have left. */
void waiters_free(struct waiters *waiters);

/* Changes with every wake-up. To be read before an attempt that may end in waiting: so
 * waiter_join() knows whether a wake-up came during the attempt. */
uint64_t waiters_generation(const struct waiters *waiters);

/* Joins the queue after an attempt that began at `generation` and found the object busy for
 * `remaining_ms` (negative: unknown). `name` is the object's name in Redis. Tries again at once
 * when the object may have become free since. */
void waiter_join(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms);
/* The attempt found the object busy, or could not be made: the waiter stays in the queue and
 * sleeps. */
void waiter_busy(struct waiter *waiter, int64_t remaining_ms);
/* The same, and `name` is the object that blocked the attempt. A waiter for a set of locks goes
 * to the queue of that lock; the lock whose queue it leaves is free, so the baton of that queue
 * is passed on. */
void waiter_move(struct waiters *waiters, struct waiter *waiter, const char *name, size_t len,
                 uint64_t generation, int64_t remaining_ms);
/* Leaves the queue, at any time. `taken_ms`: with the object, for so long; negative: something
 * may be left for other waiters, so the baton, if this waiter has it, is passed on. */
void waiter_leave(struct waiters *waiters, struct waiter *waiter, int64_t taken_ms);
/* A waiter of a fair lock has found the lock free: it missed the message that called it. */
void waiter_was_called(struct waiter *waiter);
bool waiter_is_waiting(const struct waiter *waiter);

/* Whether this worker has a waiter, or had one a moment ago. */
bool waiters_have_queues(const struct waiters *waiters);

/* Wakes every queue: commands reach Redis again. */
void waiters_wake_all(struct waiters *waiters);
/* Waiters with this lease try at once: the lease was granted or ended elsewhere. */
void waiters_retry_lease(struct waiters *waiters, const char *name, size_t len,
                         const char *lease_id);

/* Changes with every message about a lease or a session. To be read before an attempt: such a
 * message reaches only waiters that stand in a queue already. */
uint64_t waiters_lease_generation(const struct waiters *waiters);
/* A message about a session came, which another listener has received. */
void waiters_lease_changed(struct waiters *waiters);

/* When the last message that wakes the waiter's queue came; 0: none yet. */
int64_t waiter_woken_ns(const struct waiter *waiter);

#endif
