/* Shared by the files about waiters. Each file calls only files above it in this list:
 *
 *   share.c        how often waiters of this worker come before other clients: arithmetic
 *   neighbours.c   the table by which the workers of the process know of each other's waiters
 *   queue.c        one queue: its key, whether its object is taken, whose turn it is
 *   line.c         the queues of one fair lock, in order
 *   baton.c        which waiter tries, and when a queue that nothing wakes tries
 *   waiters.c      joins, leaves, subscriptions and their messages
 *   place.c        what is known and told about an object by its name
 *   next_waiter.c  to which waiter a release may hand the object over
 *
 * Above them stand the acquisitions: see acquire_internal.h. */
#ifndef RLOCKD_STORAGE_WAIT_WAITERS_INTERNAL_H
#define RLOCKD_STORAGE_WAIT_WAITERS_INTERNAL_H

#include <uthash.h>

#include "storage/wait/share.h"
#include "storage/wait/waiters.h"

/* The waiters of one object on this worker. */
struct wait_queue {
    UT_hash_handle hh;
    struct waiters *owner;
    struct subscription subscription;
    bool is_subscribed; /* also while no server has the lock's slot */
    struct waiter *waiting;
    unsigned waiter_count;
    struct waiter *baton; /* the waiter that holds the baton and tries; NULL: free */
    /* The baton goes only to waiters that want less than this, because an attempt for as much
     * failed. INT64_MAX: to any waiter. */
    int64_t wants_below;
    uint64_t round;           /* of turns: from one wake-up or poll to the next */
    bool woken_again;         /* a wake-up came while the baton was not free */
    bool was_ready;           /* the subscription has been confirmed before */
    uint64_t generation;      /* the value of waiters.generation at the last wake-up */
    int64_t woken_ns;         /* when the last message came that wakes waiters */
    int64_t message_ns;       /* when the turn of the loop began that read it */
    int64_t held_until_ns;    /* when the lock gets free, from a `held <ms>` message; 0: none */
    struct timer timer;       /* the next poll; of a queue without waiters: its end */
    struct timer subscribing; /* a fair lock's waiter subscribes then, unless it left before */
    int64_t taken_ns;         /* when a request of this worker last got the object */
    int64_t taken_until_ns;   /* nothing is free before; in the past: something may be */
    struct shared_lock *shared;     /* only of WAIT_LOCK and WAIT_SEMAPHORE; NULL: one worker */
    struct share share;             /* how the turns are shared */
    struct wait_line *line;         /* of a fair lock with waiters; else NULL */
    struct wait_queue *prev, *next; /* in the line */
    int64_t asked_ns;               /* when the first waiter sent its first attempt */
    enum wait_kind kind;
    size_t len;
    char key[]; /* see queue.c */
};

/* The queues with waiters of one fair lock, in the order in which the waiters joined. As far as
 * this worker knows, that is the order of the lock's queue in Redis. The line is kept for a
 * while after its last waiter has left. */
struct wait_line {
    UT_hash_handle hh;
    struct waiters *owner;
    struct wait_queue *queues;
    struct shared_lock *shared; /* NULL: the process has one worker */
    struct timer end;
    int64_t handed_over_ns; /* when this worker last handed the lock over to the line */
    uint64_t generation;    /* as of a queue; at the last release by this worker to no waiter */
    int64_t released_ns;    /* when that release happened */
    int64_t called_ns;      /* when a message last called a waiter, or may have */
    size_t len;
    char name[];
};

struct waiters {
    struct waiters_options options;
    struct wait_queue *queues;
    struct wait_line *lines;
    struct subscription leases;
    uint64_t lease_generation;
    /* Grows with each wake-up of any queue, so a queue that is dropped and made again never
     * has an old value. */
    uint64_t generation;
};

/* baton.c */

/* Gives the baton to the first waiter that can take it. If the baton is not free, or no waiter
 * can take it, that is made up for when an attempt ends. */
void baton_give(struct wait_queue *queue);
void baton_give_to(struct wait_queue *queue, struct waiter *waiter, int64_t wants_below);
/* The waiter that had the baton has left, perhaps with some of the released permits: the baton
 * goes to a waiter from `behind` on that wants less, or goes round again. */
void baton_pass(struct wait_queue *queue, struct waiter *behind);
/* The waiter that had the baton has left with a read/write lock to read, for `shared_ms`: all
 * readers try at once. `wants`: what a reader wants. */
void baton_share(struct wait_queue *queue, int64_t wants, int64_t shared_ms);
/* An attempt is over and the baton is free: the baton goes round again, or the queue sleeps. */
void baton_settle(struct wait_queue *queue, int64_t remaining_ms);
/* The first waiter, from `waiter` on, that wants less than `wants_below`, can take the baton
 * and does not rest. */
struct waiter *baton_find_smaller(const struct wait_queue *queue, struct waiter *waiter,
                                  int64_t wants_below);
/* The waiter could not try: it goes to the end of the queue, and rests for this round. */
void baton_rest(struct wait_queue *queue, struct waiter *waiter);
/* Makes this waiter try, with or without the baton; after the attempt under way, if there is
 * one. */
void waiter_retry(struct waiter *waiter);
/* The object may have become free: one waiter tries. */
void wait_queue_wake(struct wait_queue *queue);
/* A latch is open: all waiters try at once. */
void wait_queue_wake_everyone(struct wait_queue *queue);
/* Sets the timer for the next poll: after `remaining_ms` (negative: unknown) or a few seconds,
 * whichever comes first. */
void wait_queue_sleep(struct wait_queue *queue, int64_t remaining_ms);
/* The lock is free in `ms`: wakes the queue then, if it would sleep longer. */
void wait_queue_sleep_until_free(struct wait_queue *queue, int64_t ms);

/* queue.c */

/* `lease_id`: of a fair lock's waiter. NULL: there is none. */
struct wait_queue *wait_queue_find(const struct waiters *waiters, enum wait_kind kind,
                                   const char *lease_id, const char *name, size_t len);
/* Makes the queue, without callbacks. There must be none with this key. */
struct wait_queue *wait_queue_add(struct waiters *waiters, enum wait_kind kind,
                                  const char *lease_id, const char *name, size_t len);
/* A request of this worker got the object for `taken_ms`, and nothing is left of it. */
void wait_queue_taken(struct wait_queue *queue, int64_t taken_ms, bool by_hand_over);
/* A request of this worker got a part of the object: other requests may get some, too. */
void wait_queue_shared(struct wait_queue *queue, bool by_hand_over);
/* The object is taken until then, as far as this worker knows. */
void wait_queue_note_taken(struct wait_queue *queue, int64_t until_ns);
/* The object was released to all clients, or is about to be, or may have been. */
void wait_queue_note_released(struct wait_queue *queue);
/* Tells the other workers of the process until when other clients come first; 0: no longer. */
void wait_queue_announce_yield(struct wait_queue *queue, int64_t until_ns);
/* The first attempt after a yield is over: finds out whether other clients wanted the lock.
 * `got_it`: the attempt got the lock. Does nothing during a yield. */
void wait_queue_yielded(struct wait_queue *queue, bool got_it);
bool wait_queue_yields(const struct wait_queue *queue);
/* When the waiters may try again: the end of the last yield, which may be over. */
int64_t wait_queue_yield_end_ns(const struct wait_queue *queue);

/* waiters.c */

/* An attempt is over. If `retry_wanted`, another one follows, unless the waiter has got the
 * baton meanwhile and tries already. */
void waiter_follow_retry(struct waiter *waiter, bool retry_wanted);

/* line.c */

/* The queue has its first waiter, or has lost its last one. Only queues of fair locks stand in
 * a line; for others these do nothing. */
void wait_line_join(struct wait_queue *queue, const struct waiter *waiter, const char *name,
                    size_t len);
void wait_line_leave(struct wait_queue *queue);
void wait_lines_free(struct waiters *waiters);
/* A message called a waiter of the fair lock, or may have. */
void wait_line_called(struct wait_queue *queue);
/* A message woke a waiter of the fair lock. Counts as a call unless a release by this worker
 * has just sent such a message. */
void wait_line_notified(struct wait_queue *queue);
/* Whether a waiter that joins now will probably get the lock before it needs its channel: this
 * worker keeps handing the lock over, no other worker of the process has waiters, and no
 * message has called a waiter lately. */
bool wait_line_hands_over(const struct wait_queue *queue);
/* NULL: the fair lock has no waiters here, and had none a moment ago. */
struct wait_line *wait_line_find(const struct waiters *waiters, const char *name, size_t len);
/* A release by this process granted the lock to no waiter of the line. A waiter that joins
 * after an attempt from before the release has to try again. */
void wait_line_released(struct wait_line *line);
/* Whether a waiter of another worker stands before the line in the queue of the fair lock. */
bool wait_line_is_behind(const struct wait_line *line);

#endif
