/* A session's home: the leases that the session has asked for, and their states. A request
 * for a lease with a session keeps this order, so that no lock stays held for a session that
 * has ended, and no lease is forgotten that an answer named:
 *
 *   session_bind() -> SESSION_BOUND -> the lock's home is asked -> the client is answered
 *
 * and when the lock's home has granted nothing to the attempt and the attempt does not wait (it
 * was refused, busy, or withdrawn): session_unbind() with the attempt. A request that was told
 * that the lease is held already keeps its attempt noted. A lease that was released is unbound
 * without attempt. A bind whose outcome is unknown is unbound, too. */
#ifndef RLOCKD_STORAGE_NOTES_BIND_H
#define RLOCKD_STORAGE_NOTES_BIND_H

#include "storage/store/call_outcome.h"
#include "storage/store/store.h"

enum session_bind_outcome {
    SESSION_BOUND,
    SESSION_BIND_ENDED, /* the session is not open: `reason` */
    SESSION_BIND_FULL,  /* with this lease it would have more than SESSION_LOCKS_MAX locks */
    SESSION_BIND_FAILED /* `failure` */
};

struct session_binding {
    enum session_bind_outcome outcome;
    enum call_outcome failure;
    char reason[LEASE_REASON_SIZE];
    const char *session_name; /* gone after the callback */
};

typedef void session_bind_done(void *arg, const struct session_binding *binding);

/* Notes the attempt of a lease that has a session_id, in that session. Reads of the
 * lease: kind, names, session_id, id, attempt, watchdog, ttl_ms; copies what outlives the call.
 * `done` comes exactly once, never before the call returns. */
void session_bind(struct store *store, const struct lease *lease, session_bind_done *done,
                  void *arg);

/* Forgets an attempt of a lease; NULL: the lease has ended, with all its attempts. Reads of the
 * lease: kind, names, id. The script is sent again until Redis has confirmed it, or until the
 * session is gone. */
void session_unbind(struct store *store, const char *session_id, const struct lease *lease,
                    const char *attempt);

enum session_verdict {
    SESSION_LEASE_RENEWED, /* and the watchdog renews it again */
    SESSION_LEASE_LATER,   /* ends by itself after `ms`, or waits so long */
    SESSION_LEASE_LOST     /* a lost lease: the next keep-alive tells its `reason` and `kind` */
};

struct session_report {
    enum session_verdict verdict;
    int64_t ms;
    const char *reason,
        *kind; /* of SESSION_LEASE_LOST, `kind` of RENEWED, too; else not read */
};

/* The session's reply to a report: SESSION_BOUND while it is open. */
typedef void session_settle_done(void *arg, const struct session_binding *binding);

/* Ms until the watchdog looks at a lease of this kind that it does not renew: when the lease
 * ends, and at a read in each period, for a Java client may shorten a read at any time. */
int64_t session_visit_ms(const struct store *store, const char *kind, int64_t ttl_ms);

/* Writes the verdict of a lock's home on a lease into the session's home. Reads of the lease:
 * kind, names, id. `done` may be NULL, else as in session_bind(). */
void session_settle(struct store *store, const char *session_id, const struct lease *lease,
                    const struct session_report *report, session_settle_done *done, void *arg);

#endif
