/* What the files about waiters share. */
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
    struct waiter *waiting;
    unsigned waiter_count;
    struct waiter *baton; /* the waiter that has it, and tries; NULL: it is free */
    /* The baton goes to waiters that want less than this: an attempt that wanted as much was
     * in vain. INT64_MAX: to any. */
    int64_t wants_below;
    bool woken_again;               /* a wake-up came while the baton was not free */
    bool was_ready;                 /* the subscription has been there */
    uint64_t generation;            /* that of all queues, at the last wake-up */
    int64_t woken_ns;               /* when the last message came that wakes */
    int64_t message_ns;             /* the turn of the loop that read this message */
    int64_t held_until_ns;          /* the end of the hold, as a message told; 0: none did */
    struct timer timer;             /* the next poll; without waiters the end of the queue */
    struct timer subscribing;       /* of a fair lock's waiter that is not subscribed yet */
    int64_t taken_ns;               /* when a request of this worker last got the object */
    int64_t taken_until_ns;         /* until then nothing is free; past: perhaps something is */
    struct shared_lock *shared;     /* of a plain lock, of permits; NULL: one worker */
    struct share share;             /* how the turns are shared */
    struct wait_line *line;         /* of a fair lock, while there are waiters; else NULL */
    struct wait_queue *prev, *next; /* in the line */
    int64_t asked_ns;               /* when its first waiter asked for the place in the line */
    enum wait_kind kind;
    size_t len;
    char key[]; /* see queue.c */
};

/* The queues of one fair lock that have a waiter, in the order in which these joined: that of
 * the queue in Redis, as far as this worker knows. A line outlives its last waiter for a while.
 */
struct wait_line {
    UT_hash_handle hh;
    struct waiters *owner;
    struct wait_queue *queues;
    struct shared_lock *shared; /* NULL: the process has one worker */
    struct timer end;
    int64_t handed_over_ns; /* the last release by this worker to a waiter of the line */
    uint64_t generation;    /* as of queues, at the last release by this worker to no waiter */
    int64_t released_ns;    /* the time of that release */
    int64_t called_ns;      /* when a waiter was last called, or may have been */
    size_t len;
    char name[];
};

struct waiters {
    struct waiters_options options;
    struct wait_queue *queues;
    struct wait_line *lines;
    struct subscription leases;
    uint64_t lease_generation;
    /* Of all queues together: a queue that is dropped and made again gets a new value. */
    uint64_t generation;
};

/* baton.c */

/* Gives the baton to the first waiter that can take it, when the baton is free. */
void baton_give(struct wait_queue *queue);
void baton_give_to(struct wait_queue *queue, struct waiter *waiter, int64_t wants_below);
/* The waiter that had the baton has left, perhaps with some of the released permits. */
void baton_pass(struct wait_queue *queue, struct waiter *behind);
/* The waiter that had the baton has left with the lock to read, for so long. */
void baton_share(struct wait_queue *queue, int64_t wants, int64_t shared_ms);
/* An attempt is over and the baton is free: the baton goes round again, or the queue sleeps. */
void baton_settle(struct wait_queue *queue, int64_t remaining_ms);
/* The first waiter, from `waiter` on, that wants less than `wants_below` and can take the
 * baton. */
struct waiter *baton_find_smaller(const struct wait_queue *queue, struct waiter *waiter,
                                  int64_t wants_below);
/* Makes this waiter try, with or without the baton. */
void waiter_retry(struct waiter *waiter);
/* The object may have become free: one waiter tries. */
void wait_queue_wake(struct wait_queue *queue);
/* What was waited for has come for all waiters at once. */
void wait_queue_wake_everyone(struct wait_queue *queue);
void wait_queue_sleep(struct wait_queue *queue, int64_t remaining_ms);
/* Whoever holds the object holds it for so long: the queue sleeps no longer than until then,
 * and its next poll is not put off. */
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
/* The object was released to all clients, or is about to be. */
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

/* Another attempt has to follow the one that is over; a baton given meanwhile makes that one.
 */
void waiter_follow_retry(struct waiter *waiter, bool retry_wanted);

/* line.c */

/* The first waiter joins the queue, the last one has left. Nothing is done but for fair locks.
 */
void wait_line_join(struct wait_queue *queue, const struct waiter *waiter, const char *name,
                    size_t len);
void wait_line_leave(struct wait_queue *queue);
void wait_lines_free(struct waiters *waiters);
/* A waiter of the fair lock was called, or might have been. */
void wait_line_called(struct wait_queue *queue);
/* The same, by a message, which may be that of a release by this worker. */
void wait_line_notified(struct wait_queue *queue);
/* The lock is handed over again and again on this worker, no other worker of the process has
 * waiters, and no waiter is called: a waiter that joins now will hardly be. */
bool wait_line_hands_over(const struct wait_queue *queue);
/* NULL: no waiter waits for the fair lock here, nor did a moment ago. */
struct wait_line *wait_line_find(const struct waiters *waiters, const char *name, size_t len);
/* A release by this process granted the lock to no waiter of the line. An attempt that was sent
 * before the release may still be under way. */
void wait_line_released(struct wait_line *line);
/* Whether a waiter of another worker stands before the line in the queue of the fair lock. */
bool wait_line_is_behind(const struct wait_line *line);

#endif
