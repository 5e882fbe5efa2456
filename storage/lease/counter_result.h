/* The result of a request about a semaphore or a latch. */
#ifndef RLOCKD_STORAGE_LEASE_COUNTER_RESULT_H
#define RLOCKD_STORAGE_LEASE_COUNTER_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "storage/store/call_outcome.h"

enum counter_outcome {
    COUNTER_CREATED,
    COUNTER_EXISTS, /* as `value` */
    COUNTER_DELETED,
    COUNTER_MISSING,
    COUNTER_SHOWN,    /* `value`, `waiter_count` */
    COUNTER_GRANTED,  /* permits were taken, or the latch is at zero */
    COUNTER_RELEASED, /* permits were given, or the latch was counted down */
    COUNTER_REPLAYED, /* the first answer once more */
    COUNTER_BUSY,     /* at `value`: too few permits, or not at zero */
    COUNTER_REUSED,   /* the idempotency key belongs to another request */
    COUNTER_TOO_LARGE,
    COUNTER_TOO_MANY, /* so many wait that no other request may */
    COUNTER_WRONG_KIND,
    COUNTER_FAILED /* `failure` */
};

struct counter_result {
    enum counter_outcome outcome;
    enum call_outcome failure;
    int64_t value;       /* the present number of the semaphore or latch */
    int64_t permits;     /* that were taken or given */
    size_t waiter_count; /* of COUNTER_SHOWN, and of a latch that was awaited */
};

typedef void counter_done(void *arg, const struct counter_result *result);

#endif
