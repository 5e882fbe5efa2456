/* One attempt to acquire an object, of any kind, that a request may have to wait for. */
#ifndef RLOCKD_STORAGE_LEASE_ATTEMPT_H
#define RLOCKD_STORAGE_LEASE_ATTEMPT_H

#include "storage/lease/counter_result.h"
#include "storage/lease/lease_result.h"
#include "storage/store/call_outcome.h"

struct store;

/* How an attempt is made. */
struct attempt {
    int64_t wait_ms; /* > 0: if it finds the object busy, the request is registered among the
                        waiters in Redis for so long */
    bool registered; /* the request stands there, and leaves unless it goes on to wait */
    bool waiting;    /* the request waits on this worker, and others perhaps behind it */
    size_t blocking_index; /* of a set: which lock blocked the attempt before; 0: none did */
    char session_name[SESSION_NAME_SIZE]; /* of the lease's session; empty: none */
};

/* How an attempt, its preparation, or the acquisition that makes them ends. */
enum try_outcome {
    TRY_GRANTED,   /* of a preparation: the attempt may be sent */
    TRY_CONFIRMED, /* granted already, to another request with the same token or key */
    TRY_BUSY,      /* of an acquisition: until the deadline */
    TRY_REFUSED,   /* for good: the family's result says why */
    TRY_NOT_EXECUTED,
    TRY_UNKNOWN, /* repeat the request with the same token */
    /* Of acquisitions only, decided without Redis: */
    TRY_TOO_MANY_WAITERS,
    TRY_MAY_NOT_WAIT, /* the client has as many waiters as it may */
    TRY_DEADLOCK,     /* the wait is part of one, and the session wants to be refused */
    TRY_DRAINING
};

/* The outcome of a call that failed. */
enum try_outcome try_outcome_of_failure(enum call_outcome failure);

struct attempt_result {
    enum try_outcome outcome;
    int64_t remaining_ms;  /* of the grant, or until it may be had; negative: unknown */
    size_t blocking_index; /* of a set that is busy */
    int64_t none_left_ms;  /* after a grant of a permit: ms for which no other permit gets free;
                              0: not known */
    /* The result by the kind's family: the other pointer is NULL. Valid until the callback
     * returns. */
    const struct lease_result *lease;
    const struct counter_result *counter;
};

typedef void attempt_done(void *arg, const struct attempt_result *result);

/* `done` comes exactly once, never before this returns; the lease is copied. */
void attempt_send(struct store *store, const struct lease *lease, const struct attempt *attempt,
                  attempt_done *done, void *arg);

#endif
