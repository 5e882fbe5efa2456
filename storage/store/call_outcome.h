/* The outcome of a call of Redis, apart from the content of its reply. */
#ifndef RLOCKD_STORAGE_STORE_CALL_OUTCOME_H
#define RLOCKD_STORAGE_STORE_CALL_OUTCOME_H

#include <stdbool.h>

#include "storage/redis/call.h"

enum call_outcome {
    CALL_DONE,
    CALL_WRONG_TYPE,    /* not executed: a key is of another type */
    CALL_OUT_OF_MEMORY, /* not executed: Redis has no memory for more */
    CALL_NOT_EXECUTED,
    CALL_QUARANTINE,     /* not executed: Redis may have lost leases that still run */
    CALL_NOT_REPLICATED, /* executed, but a failover may undo it: as good as unknown */
    CALL_UNKNOWN         /* it is unknown whether Redis did it: repeat with the same token */
};

/* Whether the call may have changed keys. */
bool call_is_unknown(enum call_outcome outcome);

enum call_outcome call_outcome_of(const struct redis_result *result);

#endif
