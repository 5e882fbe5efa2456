/* Acquiring a lock, with waiting: attempts, the place in the queue, the deadline, and what
 * becomes of an acquisition whose client has gone or whose outcome nobody can know. */
#ifndef RLOCKD_STORAGE_ACQUIRE_H
#define RLOCKD_STORAGE_ACQUIRE_H

#include <stddef.h>
#include <stdint.h>

#include "storage/lock_store.h"
#include "storage/waiters.h"

struct acquirer;
struct acquisition;

/* What a lease is of, when it is of something else than a lock: how it is tried for and taken
 * back, and what there is to wait for. See lock_try() and lock_withdraw(). */
struct acquire_object {
    enum wait_kind wait;
    bool shared;   /* a grant leaves something for the next one, too */
    int64_t wants; /* see waiters.h; 0: as many as the lease's permits */
    void (*try)(struct lock_store *store, const struct lease *lease, int64_t register_ms,
                bool registered, lock_done *done, void *arg);
    void (*withdraw)(struct lock_store *store, const struct lease *lease);
    /* Instead, when the client may ask again: its place in line waits for that. May be NULL. */
    void (*keep_place)(struct lock_store *store, const struct lease *lease);
};

struct acquirer_options {
    struct loop *loop;
    struct metrics *metrics;
    struct lock_store *store;
    struct waiters *waiters;
    struct parking *parking; /* who finds no place is told LOCK_TOO_MANY_WAITERS */
};

struct acquirer *acquirer_new(const struct acquirer_options *options);
/* Every acquisition must have ended. */
void acquirer_free(struct acquirer *acquirer);

/* Acquires, waiting until `deadline_ns` (as clock_ns(); 0: one attempt).
 * `lease` must stay until the end. `parked` comes at most once, when the wait begins; `done`
 * exactly once, unless acquire_cancel() comes first, and never before this returns. With any
 * other outcome than LOCK_GRANTED and LOCK_HELD nothing is left behind, or will not be once
 * Redis answers again; but for a while the place in the queue of a fair lock. */
struct acquisition *acquire_start(struct acquirer *acquirer, const struct lease *lease,
                                  int64_t deadline_ns, void (*parked)(void *arg),
                                  lock_done *done, void *arg);
/* The client has gone: leaves the queue, takes back a grant that may be under way, passes its
 * turn on. Frees the acquisition; `done` does not come. */
void acquire_cancel(struct acquisition *acquisition);

/* Everyone who waits is told LOCK_DRAINING; who comes later and would have to wait, too. */
void acquirer_drain(struct acquirer *acquirer);
/* Something happened to this session: those who wait for it try at once, and learn if it ended.
 */
void acquirer_session_changed(struct acquirer *acquirer, const char *session_id);
/* Redis can be asked again: everyone tries. */
void acquirer_redis_is_up(struct acquirer *acquirer);

#endif
