/* Who waits for which lock, semaphore or latch on this worker, and whose turn it is to try.
 *
 * The waiters of one lock stand in one queue. Whatever may have freed the lock (an unlock
 * message, the end of its TTL, a new subscription, a missed message made up for by a slow poll)
 * gives one of them the turn; a turn ends with the lock, with "busy", or is passed on. So one
 * unlock costs one script, and a waiter that goes away while it is its turn takes no wake-up
 * with it.
 *
 * A semaphore may serve several of them, and so do readers of a read/write lock: who got
 * something passes the turn on, and so does who wants more than there is to the next one that
 * wants less. An open latch is for everyone. The queue of a fair lock is in Redis, and each of
 * its waiters listens to a channel of its own: here it stands alone. */
#ifndef RLOCKD_STORAGE_WAITERS_H
#define RLOCKD_STORAGE_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/loop.h"
#include "server/metrics.h"
#include "storage/subscriber.h"

struct waiters;
struct waited_lock;

/* Places for requests that hang, of whatever sort: fewer than connections, so that those who
 * renew and release always find one. */
struct parking {
    size_t places, taken;
};

/* What is waited for: which channel tells of it, and which of its messages wake. */
enum wait_kind { WAIT_LOCK, WAIT_FAIR, WAIT_READ_WRITE, WAIT_SEMAPHORE, WAIT_LATCH };

/* Embedded in its owner. */
struct waiter {
    const char *lease_id; /* the owner's */
    /* It is its turn: try now, then say waiter_busy() or waiter_leave(). Never called while an
     * attempt of this waiter is under way; waiter_busy() may call it at once. */
    void (*turn)(void *arg);
    void *arg;
    enum wait_kind kind;
    int64_t wants; /* permits of a semaphore: who wants fewer may get them first */
    bool trying; /* an attempt is under way; the owner sets it for attempts of its own accord */
    bool nudged; /* during that attempt: another one has to follow */
    struct waited_lock *lock;
    struct waiter *prev, *next;
};

struct waiters_options {
    struct loop *loop;
    struct metrics *metrics;
    struct subscriber *subscriber;
};

struct waiters *waiters_new(const struct waiters_options *options);
/* Nobody may be waiting any more. */
void waiters_free(struct waiters *waiters);

/* To be asked before an attempt that may end in waiting: tells later whether anything happened
 * to its lock since. */
uint64_t waiters_generation(const struct waiters *waiters);

/* Joins the queue after an attempt that found the lock busy for `remaining_ms` (negative:
 * unknown) and began at `generation`. `lock` is the name of its hash. Its turn comes as soon as
 * the lock may have become free since. */
void waiter_join(struct waiters *waiters, struct waiter *waiter, const char *lock, size_t len,
                 uint64_t generation, int64_t remaining_ms);
/* The attempt found the lock busy, or could not be made: the waiter keeps its place and sleeps.
 */
void waiter_busy(struct waiters *waiters, struct waiter *waiter, int64_t remaining_ms);
/* The same of one that waits for several locks: it is this one that is in the way. Should it
 * stand in the queue of another one, which then is free, the next one there gets its turn. */
void waiter_move(struct waiters *waiters, struct waiter *waiter, const char *lock, size_t len,
                 uint64_t generation, int64_t remaining_ms);
/* Leaves the queue, whenever it wants. `taken_ms`: it got the lock for so long; negative: there
 * may be something left for others, and if it was its turn, the next one gets it. */
void waiter_leave(struct waiters *waiters, struct waiter *waiter, int64_t taken_ms);
bool waiter_is_waiting(const struct waiter *waiter);

/* Every lock's turn, since commands reach Redis again. */
void waiters_wake_all(struct waiters *waiters);
/* The lease `lease_id` was granted or ended elsewhere: those who wait with it try at once. */
void waiters_nudge(struct waiters *waiters, const char *lock, size_t len, const char *lease_id);

/* Counts what was heard of leases and sessions, so that an attempt that was under way meanwhile
 * is known to be too old: nobody is nudged who does not stand in a queue yet. */
uint64_t waiters_heard(const struct waiters *waiters);
/* Something was heard that the waiters do not listen to themselves. */
void waiters_hear(struct waiters *waiters);

/* When the last message that may have freed the waiter's lock came; 0: none yet. */
int64_t waiter_woken_ns(const struct waiter *waiter);

#endif
