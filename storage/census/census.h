/* The census: one worker of all front ends walks all locks, slowly, and writes what all front
 * ends read: the longest holds, the longest waits, and counts. The files of the room:
 *
 *   census.c      the claim of the one worker, and its rounds
 *   walk.c        the walk over all locks, at one hundredth of Redis' time
 *   seen.c        since when the walks have seen the holders whose grant has no time
 *   waited.c      the index of locks that requests wait for, and a look at each of them
 *   picture.c     the longest holds or waits, as text in Redis
 *   publish.c     writes a picture, and tells the log what has begun or ended
 *   read.c        reads a picture
 *
 * It is a room of its own, beside storage/session/ and its watchdog: it acts by itself, and
 * storage/look/, which it calls, only answers requests. handlers/ read the pictures,
 * storage/wait/ notes long waits, and server/worker.c starts the census. */
#ifndef RLOCKD_STORAGE_CENSUS_CENSUS_H
#define RLOCKD_STORAGE_CENSUS_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/census/picture.h"
#include "storage/store/call_outcome.h"
#include "storage/store/kind.h"
#include "storage/store/store.h"

struct census;

/* Takes part in the census from now on. At most one worker of a front end does: it sets the
 * metrics of the pictures. NULL: out of memory. */
struct census *census_new(struct store *store, const char *worker_id);
/* No call may be under way: see topology_stop(). */
void census_free(struct census *census);

struct census_reading {
    enum call_outcome outcome;
    int64_t age_ms; /* since the picture was written; negative: there is none yet */
    int64_t now_ms; /* Redis' clock, which the times of the picture are of */
    const struct census_picture *picture; /* empty where there is none */
};

/* The reading and its picture are valid until it returns. */
typedef void census_read_done(void *arg, const struct census_reading *reading);

/* Reads the last picture, of whichever front end. `done` comes once, and later. */
void census_read(struct store *store, enum census_kind kind, census_read_done *done, void *arg);

/* A lease that has waited for long, for one lock of its names. */
struct census_wait {
    const char *name;     /* of the lock, as clients say it */
    const char *lease_id; /* and the kind that it asks for */
    enum object_kind kind;
};

typedef void census_noted_done(void *arg, bool is_full);

/* The lease waits since `waited_ms`, and goes on: the census looks at the lock for `left_ms`,
 * and so long this note waits for the next request of the lease, which goes on where this one
 * ended. Make it again while the wait lasts. `done` comes once, and later. Full: the wait is
 * not noted, for enough other leases wait for the lock. */
void census_note_wait(struct store *store, const struct census_wait *wait, int64_t waited_ms,
                      int64_t left_ms, census_noted_done *done, void *arg);
/* No further request of the lease will wait. Should that not reach Redis, the note ends by
 * itself. */
void census_end_wait(struct store *store, const struct census_wait *wait);

#endif
