/* The permits of a semaphore that are held, and how many are free. */
#ifndef RLOCKD_STORAGE_LOOK_PERMITS_GET_H
#define RLOCKD_STORAGE_LOOK_PERMITS_GET_H

#include "storage/lease/counter_result.h"
#include "storage/store/store.h"

enum { PERMIT_ID_SIZE = 33, PERMITS_SHOWN = 100 };

/* A held permit. */
struct permit_view {
    char lease_id[LEASE_ID_SIZE];     /* empty: not a lease of rlockd */
    char permit_id[PERMIT_ID_SIZE];   /* as Redisson shows it */
    char session_id[SESSION_ID_SIZE]; /* empty: none */
    char caller[LEASE_CALLER_SIZE];   /* who acquired it; empty: not known */
    char note[LOCK_NOTE_SIZE];        /* the client of another protocol; or empty */
    int64_t granted_us;               /* by Redis' clock; 0: not known */
    int64_t remaining_ms;             /* negative: for ever */
};

struct permits_view {
    enum counter_outcome outcome; /* COUNTER_SHOWN, COUNTER_MISSING, or why not */
    enum call_outcome failure;    /* of COUNTER_FAILED */
    int64_t free_count, held_count;
    size_t waiter_count;
    size_t shown;
    struct permit_view permits[PERMITS_SHOWN]; /* those that end first */
};

/* The view is gone when the callback returns. */
typedef void permits_get_done(void *arg, const struct permits_view *view);

/* Names up to `max` permits, at most PERMITS_SHOWN. `done` comes exactly once, never before
 * this returns. */
void permits_get(struct store *store, const char *name, size_t max, permits_get_done *done,
                 void *arg);

#endif
