/* Shared by the files about acquisitions, which stand above those about waiters; each calls
 * only files above it in this list:
 *
 *   acquire_state.c  the states: which may follow which, what holds in each
 *   acquire_timer.c  the timer of a wait
 *   deferral.c       how long the first attempt of a request may be put off
 *   acquire_end.c    what is withdrawn, answered and counted at the end
 *   acquire.c        attempts, preparations, waits
 *   release.c        releases on this worker that grant to a waiter
 *   pass_on.c        releases that another worker grants; acquire_hand_over()
 *   cycle_search.c   follows holders and what they wait for, in search of a cycle
 *   deadlock_check.c proves that a cycle was there
 *   full_locks.c     which locks have as many notes of long waits as a lock may have
 *   long_waits.c     what is written of requests that have waited for long, and their checks
 *   session_watch.c  keep-alives that wait, and messages about sessions */
#ifndef RLOCKD_STORAGE_WAIT_ACQUIRE_INTERNAL_H
#define RLOCKD_STORAGE_WAIT_ACQUIRE_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include "server/base/pool.h"
#include "server/base/text.h"
#include "storage/lease/hand_over.h"
#include "storage/store/key.h"
#include "storage/lease/prepare.h"
#include "storage/lease/withdraw.h"
#include "storage/wait/acquire.h"
#include "storage/wait/place.h"

/* A power of two. */
enum { SESSION_LISTS = 256 };

/* The number of the list that a session is in. */
static inline size_t session_list(const char *session_id)
{
    return text_hash(session_id, strlen(session_id)) & (SESSION_LISTS - 1);
}

/* How long the first attempt of a request is put off if a hand-over will probably grant the
 * lock first: then the wait costs no script besides the hand-over. Only if a request of this
 * worker got the lock within the same time. Redis and other servers do not know of the request
 * meanwhile, so the time is shorter than a client would notice. */
enum { DEFERRAL_MS = 20 };

struct acquirer {
    struct acquirer_options options;
    struct acquisition *acquisitions;
    /* The acquisitions with a session, by session: a message about it is for these only. */
    struct acquisition *of_sessions[SESSION_LISTS];
    struct pool pool; /* of acquisitions */
    bool draining;
};

enum acquisition_state {
    STARTING,
    PREPARING,    /* the attempt is noted in the session, or the names of a set are kept */
    TRYING,       /* the first attempt; if it finds the object busy, the wait begins */
    TRYING_FULL,  /* the first attempt of a request that finds no free slot to wait in */
    SLEEPING,     /* in the queue, without an attempt */
    LOOKING,      /* in the queue, and Redis is asked whether the lock is free */
    RETRYING,     /* in the queue, with an attempt */
    CHOSEN,       /* in the queue, and a release under way may grant the lock to it */
    LAST_ATTEMPT, /* an attempt that decides: no wait follows */
    ORPHANED,     /* ended while a call was under way: waits for the reply to that call */
    ENDED,
    STATE_COUNT
};

struct acquisition {
    struct acquisition *prev, *next;
    struct acquisition *session_prev, *session_next;
    struct acquisition **session_list; /* one of acquirer.of_sessions; NULL: no session */
    struct acquirer *acquirer;
    const struct lease *lease;
    enum acquisition_state state;
    struct attempt attempt; /* the last one that was sent */
    bool attempted;         /* an attempt was sent, or a release that may grant */
    bool deferred;          /* the wait began without an attempt */
    bool uncertain;         /* the outcome of an attempt is unknown */
    bool prepared;          /* the attempt is or may be noted, if the lease has a session */
    bool is_note_in_doubt;  /* the note may be lost, or its session have ended, since */
    bool is_unwritten;      /* the last attempt has left no trace in Redis, or perhaps none */
    bool session_is_asked;  /* because the lock's home says that the session ended */
    int64_t asked_ns;       /* when the preparation was sent */
    enum withdraw_place place;
    struct waiter waiter;
    struct timer deadline; /* earlier: see acquire_timer.c */
    int64_t deadline_ns;
    int64_t last_ns;           /* when it is answered whatever is under way; 0: not set yet */
    int64_t wait_began_ns;     /* when the wait began; 0: it has not */
    uint64_t generation;       /* waiters_generation() before the last attempt */
    uint64_t lease_generation; /* waiters_lease_generation() before the last attempt */
    bool (*may_wait)(void *arg);
    acquire_done *done;
    void *arg;
    struct long_wait *long_wait; /* NULL: the wait is not long */
    struct lease *orphan;        /* once ORPHANED: a copy of the lease; else NULL */
};

/* Whether something may have been taken: a look at a latch takes nothing. */
static inline bool acquisition_is_in_doubt(const struct acquisition *acquisition)
{
    return acquisition->uncertain && kind_row(acquisition->lease->kind)->family != FAMILY_LATCH;
}

/* Where the lock or semaphore of a lease is waited for; of a set, its first lock. */
static inline void acquirer_find_place(const struct acquirer *acquirer,
                                       const struct lease *lease, struct wait_place *place)
{
    place->len = store_key_name(acquirer->options.store, lease_name(lease), place->name,
                                sizeof(place->name));
    wait_place_find(place, acquirer->options.waiters, kind_row(lease->kind)->wait);
}

/* acquire_state.c */

/* The state must be able to follow the acquisition's, and what holds in it must hold. */
void acquisition_enter(struct acquisition *acquisition, enum acquisition_state state);
/* Before the deadline; negative: it has passed. */
int64_t acquisition_left_ms(const struct acquisition *acquisition);

/* acquire_timer.c */

/* Sets the timer of a wait for what comes next. */
void acquisition_arm(struct acquisition *acquisition);
/* Sets the timer of a request whose calls may go on beyond its deadline. */
void acquisition_arm_last(struct acquisition *acquisition);
/* The timer has fired. Whether the request has to be answered now, though a call is under way.
 */
bool acquisition_is_overdue(const struct acquisition *acquisition);
/* From here on a deferred request waits as any other. */
void acquisition_end_deferral(struct acquisition *acquisition);
/* The timer has fired. Whether that was because the wait became long. */
bool acquisition_becomes_long(struct acquisition *acquisition);

/* acquire.c */

/* An attempt has ended, or a release that may have granted the lock. */
void acquisition_tried(struct acquisition *acquisition, const struct attempt_result *result);
/* Makes the next attempt, or the preparation that acquisition_must_prepare() asks for. */
void acquisition_try(struct acquisition *acquisition);
/* Whether an attempt needs a preparation first, such as a note in the session. */
bool acquisition_must_prepare(const struct acquisition *acquisition);

/* deferral.c */

/* How long an attempt would find the lock busy, in ms, if a release is likely to grant the lock
 * to this request without an attempt; 0: the request has to try. */
int64_t acquisition_deferrable_ms(const struct acquisition *acquisition);

/* release.c */

/* Whether a release of such a lease may grant. */
bool release_may_grant(const struct lease *lease);
/* The acquisition of this worker that may get what the lease frees; NULL: none. Fills in
 * `series`. */
struct acquisition *release_find_next(const struct wait_place *place, const struct lease *lease,
                                      struct hand_over_series *series);
/* Releases the lease and grants to that acquisition. `done` comes as after lease_release(). */
void release_to(struct acquisition *acquisition, const struct lease *lease, lease_done *done,
                void *arg);
/* As acquire_hand_over(), but the release is not passed on to another worker. */
bool acquire_hand_over_here(struct acquirer *acquirer, const struct lease *lease,
                            lease_done *done, void *arg) __attribute__((warn_unused_result));
/* As acquire_hand_over(), of a release that was passed on to this worker: `done` comes with
 * the result of the script. */
bool acquire_hand_over_passed(struct acquirer *acquirer, const struct lease *lease,
                              const struct hand_over_series *series, hand_over_done *done,
                              void *arg) __attribute__((warn_unused_result));

/* acquire_end.c. Each of these ends the acquisition and, but for the last two, answers. */

/* With the result of an attempt. */
void acquisition_finish_with(struct acquisition *acquisition,
                             const struct attempt_result *attempt);
/* With an outcome that no attempt decided. */
void acquisition_finish_as(struct acquisition *acquisition, enum try_outcome outcome);
/* This front end drains, and no attempt is under way. */
void acquisition_finish_draining(struct acquisition *acquisition);
/* See acquisition_is_overdue(). */
void acquisition_finish_overdue(struct acquisition *acquisition);
void acquisition_finish_refused(struct acquisition *acquisition, enum try_outcome outcome,
                                const struct lease_result *lease);
/* Leaves the queue and stops the timers; the acquisition is freed now, or by the call under
 * way. `taken_ms`: see waiter_leave(). */
void acquisition_end(struct acquisition *acquisition, bool got_it, int64_t taken_ms);
/* To be called before that, while the lease is there. Returns as long_wait_watcher.ended(). */
struct deadlock *acquisition_end_long_wait(struct acquisition *acquisition, bool may_ask_again);
/* The call that was under way when the acquisition ended has been answered. `granted`: the call
 * was an attempt that was or may have been granted; else a preparation or a refused attempt. */
void acquisition_end_orphan(struct acquisition *acquisition, bool granted);

#endif
