/* The steps before the lock's home is asked for a lease: the names of a set are kept, and the
 * attempt is noted in the lease's session. */
#ifndef RLOCKD_STORAGE_LEASE_PREPARE_H
#define RLOCKD_STORAGE_LEASE_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/store/call_outcome.h"
#include "storage/lease/attempt.h"

struct store;

/* Texts and results are gone when the callback returns. */
struct preparation {
    enum try_outcome outcome; /* TRY_GRANTED, or why not: then `lease` says more */
    const char *session_name; /* of TRY_GRANTED; "": there is no session */
    const struct lease_result *lease;
};

typedef void lease_prepare_done(void *arg, const struct preparation *preparation);

/* Whether this lease has a session, or is of several locks. */
bool lease_needs_preparation(const struct lease *lease);
/* `wait_ms`: for which the request may wait. `done` comes exactly once, never before this
 * returns; the lease is copied. The attempt is noted after TRY_GRANTED, and may be after
 * TRY_UNKNOWN. */
void lease_prepare(struct store *store, const struct lease *lease, int64_t wait_ms,
                   lease_prepare_done *done, void *arg);
/* An attempt that is or may be noted has ended without a grant. */
void lease_unprepare(struct store *store, const struct lease *lease);

#endif
