/* Acquisitions of locks, permits and zeros of latches, with waiting: attempts, the place in the
 * queue, the deadline, and the withdrawal when the client has gone or the outcome is unknown.
 */
#ifndef RLOCKD_STORAGE_WAIT_ACQUIRE_H
#define RLOCKD_STORAGE_WAIT_ACQUIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/lease/attempt.h"
#include "storage/store/store.h"
#include "storage/wait/waiters.h"

struct acquirer;
struct acquisition;
struct deadlock;
struct long_wait;

/* From then on a wait is long. Short waits pay for nothing that is done about long ones. */
enum { LONG_WAIT_MS = 1000 };

/* The functions that watch long waits: see long_waits.h. */
struct long_wait_watcher {
    /* The wait of this acquisition has become long. The result stands for it until ended(). */
    struct long_wait *(*began)(void *arg, struct acquisition *acquisition);
    /* The wait is over; its lease is still there. `may_ask_again`: the client is told that it
     * may wait on, by another request with the token. Returns the last deadlock of the wait,
     * which the caller frees; NULL: none is known. */
    struct deadlock *(*ended)(struct long_wait *long_wait, bool may_ask_again);
    void *arg;
};

/* A lock that an owner of a session got, by its name in Redis. */
struct owner_grant {
    char owner[LOCK_OWNER_SIZE];
    const char *name;
    size_t len;
};

struct acquirer_options {
    struct loop *loop;
    struct metrics *metrics;
    struct store *store;
    struct waiters *waiters;
    struct wait_slots *slots;                   /* without a free one: TRY_TOO_MANY_WAITERS */
    struct neighbour *neighbour;                /* NULL: the only worker */
    const struct long_wait_watcher *long_waits; /* NULL: nothing is done about them */
    bool keeps_releases_open;                   /* in a quorum no release grants to a waiter */
};

struct acquirer *acquirer_new(const struct acquirer_options *options);
/* Every acquisition must have ended. */
void acquirer_free(struct acquirer *acquirer);

struct acquire_result {
    enum try_outcome outcome;
    /* The result of the attempt that decided, by the kind's family; both are NULL when no
     * attempt decided. Valid until the callback returns. */
    const struct lease_result *lease;
    const struct counter_result *counter;
    /* That the request waited in, of TRY_BUSY and TRY_DEADLOCK; NULL: none is known. Valid
     * until the callback returns. */
    const struct deadlock *deadlock;
};

typedef void acquire_done(void *arg, const struct acquire_result *result);

/* Acquires, waiting until `deadline_ns` (as clock_ns(); 0: one attempt). `lease` must stay
 * until the end. `may_wait` comes when a wait is to begin, perhaps before this returns, and not
 * again once it was true; if it is false in the end, the outcome is TRY_MAY_NOT_WAIT. `done`
 * comes exactly once, never before this returns, and not at all after acquire_cancel(). Unless
 * the outcome is TRY_GRANTED or TRY_CONFIRMED, everything is withdrawn, at the latest when
 * Redis is back. Only the place in a fair lock's queue stays for a while if the client may ask
 * again. */
struct acquisition *acquire_start(struct acquirer *acquirer, const struct lease *lease,
                                  int64_t deadline_ns, bool (*may_wait)(void *arg),
                                  acquire_done *done, void *arg);
/* The client has gone: leaves the queue, withdraws the attempts, and passes the baton on. Frees
 * the acquisition; `done` does not come. */
void acquire_cancel(struct acquisition *acquisition);

/* Releases a lease and, in the same script, grants the lock to the acquisition of this worker
 * that is next; or passes the release on to another worker of the process, which does so.
 * `done` comes as after lease_release(). False: no acquisition may have the lock, or the
 * release is open to all clients; nothing was done, and `done` does not come. */
bool acquire_hand_over(struct acquirer *acquirer, const struct lease *lease, lease_done *done,
                       void *arg) __attribute__((warn_unused_result));

/* Every acquisition that waits ends with TRY_DRAINING, and so does a later one that would have
 * to wait; with an attempt under way, by the reply to that attempt. If an attempt is unknown,
 * the acquisition ends with TRY_UNKNOWN. */
void acquirer_drain(struct acquirer *acquirer);
/* Something happened to this session: its acquisitions that wait try at once, and learn whether
 * it ended. `grant`: an owner got a lock, so only this owner's that wait for it try; or NULL.
 */
void acquirer_session_changed(struct acquirer *acquirer, const char *session_id,
                              const struct owner_grant *grant);
/* Messages about sessions may have been missed: each acquisition asks its session anew, with
 * its next attempt. */
void acquirer_doubt_notes(struct acquirer *acquirer);
/* Redis can be asked again: every acquisition that waits tries. */
void acquirer_redis_is_up(struct acquirer *acquirer);

#endif
