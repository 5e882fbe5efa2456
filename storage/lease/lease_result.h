/* The result of a request about a lease: the same for locks, sets of locks and permits. */
#ifndef RLOCKD_STORAGE_LEASE_LEASE_RESULT_H
#define RLOCKD_STORAGE_LEASE_LEASE_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/call_outcome.h"
#include "storage/store/holder.h"
#include "storage/store/lease_record.h"

enum lease_outcome {
    LEASE_GRANTED,
    LEASE_HELD, /* by this lease already, or still */
    LEASE_BUSY, /* another holder has the object; the result of a look: the lease waits */
    LEASE_RELEASED,
    LEASE_ENDED,         /* the lease is spent: `reason` */
    LEASE_SESSION_ENDED, /* `reason` */
    LEASE_SESSION_FULL,  /* the leases of the session have as many locks as they may */
    LEASE_REUSED,        /* the token belongs to another object, kind or owner */
    LEASE_WRONG_KIND,    /* the name is that of another kind of object */
    LEASE_UPGRADE,       /* its owner reads under the lock, and would wait for itself */
    LEASE_TOO_MANY,      /* so many wait for it that no other request may */
    LEASE_MANY_READS,    /* its owner reads the lock as often as it may */
    LEASE_FAILED         /* `failure` */
};

/* One lock that a lease holds. */
struct lease_hold {
    int64_t fencing_token; /* 0: none was ever issued */
    int64_t hold_count;
};

/* The memory that a result points to is gone when the callback returns. */
struct lease_result {
    enum lease_outcome outcome;
    enum call_outcome failure;
    int64_t remaining_ms; /* counted from before Redis was asked; negative: unknown */
    int64_t ttl_ms;       /* 0: not known */
    int64_t holds_left;   /* after a release */
    int64_t available;    /* permits of the semaphore that are free */
    int64_t next_end_ms;  /* ms until a permit expires, after the grant of the last free permit;
                             0: not known */
    size_t hold_count;    /* how many locks are held: as many as the lease has names */
    size_t blocking_index; /* from 1 on: which lock of a set this is about; 0: not known */
    const struct lease_hold *holds;
    const struct lease_record *record; /* NULL: of a new grant, which is as it was asked for */
    const struct lock_holder *holder;  /* of LEASE_BUSY; NULL: not known */
    char reason[LEASE_REASON_SIZE];
    /* Of a lease that was forced out: who did that, and why; NULL or empty: not known. */
    const char *forced_by, *forced_reason;
    /* Of LEASE_RELEASED, and of a LEASE_ENDED that was found just now: the session that has
     * lost the lease by that; empty: none. */
    char session_id[SESSION_ID_SIZE];
};

typedef void lease_done(void *arg, const struct lease_result *result);

#endif
