/* What the files about acquisitions share. */
#ifndef RLOCKD_STORAGE_WAIT_ACQUIRE_INTERNAL_H
#define RLOCKD_STORAGE_WAIT_ACQUIRE_INTERNAL_H

#include <stdbool.h>

#include "server/base/pool.h"
#include "storage/lease/hand_over.h"
#include "storage/store/key.h"
#include "storage/lease/prepare.h"
#include "storage/lease/withdraw.h"
#include "storage/wait/acquire.h"
#include "storage/wait/place.h"

/* A power of two. */
enum { SESSION_LISTS = 256 };

/* The first attempt of a request that would find the lock busy is put off for so long. While a
 * lock changes hands again and again on this worker, most waits are over by then, and have cost
 * no script besides the hand-over. Redis and other servers do not know of the request
 * meanwhile, so the time is shorter than a client would notice. Only for a lock that a request
 * of this worker got within the same time. */
enum { DEFERRAL_MS = 20 };

struct acquirer {
    struct acquirer_options options;
    struct acquisition *acquisitions;
    /* Those for sessions, once more: a message of a session is not for all that wait. */
    struct acquisition *of_sessions[SESSION_LISTS];
    struct pool pool; /* of them */
    bool draining;
};

enum acquisition_state {
    STARTING,
    PREPARING,    /* the lease's session is asked, the names of a set are kept */
    TRYING,       /* the first attempt; if it finds the object busy, the wait begins */
    TRYING_FULL,  /* the first attempt of a request that finds no free slot to wait in */
    SLEEPING,     /* in the queue, without an attempt */
    LOOKING,      /* in the queue, and the lock is looked at: is an attempt worth while? */
    RETRYING,     /* in the queue, with an attempt */
    CHOSEN,       /* in the queue, and a release may grant the lock to it */
    LAST_ATTEMPT, /* an attempt after which nothing is waited for */
    ORPHANED,     /* it has ended while an attempt was under way, whose reply is awaited */
    ENDED,
    STATE_COUNT
};

struct acquisition {
    struct acquisition *prev, *next;
    struct acquisition *session_prev, *session_next;
    struct acquisition **session_list; /* one of the acquirer's; NULL: for no session */
    struct acquirer *acquirer;
    const struct lease *lease;
    enum acquisition_state state;
    struct attempt attempt; /* the last one that was sent */
    bool attempted;         /* an attempt was sent, or a release that may grant */
    bool deferred;          /* it waits, and its first attempt is still to come */
    bool uncertain;         /* the outcome of an attempt is unknown */
    bool prepared;          /* the attempt is noted, if the lease has a session */
    bool is_note_in_doubt;  /* Redis was away since then, and may have lost its data */
    bool session_is_asked;  /* whether it has ended: the lock's home says so */
    int64_t asked_ns;       /* when the preparation was sent */
    enum withdraw_place place;
    struct waiter waiter;
    struct timer deadline;
    int64_t deadline_ns;
    int64_t wait_began_ns;     /* when the wait began; 0: it has not */
    uint64_t generation;       /* waiters_generation() before that attempt */
    uint64_t lease_generation; /* waiters_lease_generation() before that attempt */
    bool (*may_wait)(void *arg);
    acquire_done *done;
    void *arg;
    struct lease *orphan; /* of ORPHANED: a copy of the lease */
};

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
void acquisition_finish_refused(struct acquisition *acquisition, enum try_outcome outcome,
                                const struct lease_result *lease);
/* Leaves the queue and stops the timers; the acquisition is freed now, or by the call under
 * way. `taken_ms`: see waiter_leave(). */
void acquisition_end(struct acquisition *acquisition, bool got_it, int64_t taken_ms);
/* The call that was under way when the acquisition ended has been answered. `granted`: the call
 * was an attempt that was or may have been granted; else a preparation or a refused attempt. */
void acquisition_end_orphan(struct acquisition *acquisition, bool granted);

#endif
