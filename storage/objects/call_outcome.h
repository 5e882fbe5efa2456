/* What a request to Redis came to, before anybody reads the reply. */
#ifndef RLOCKD_STORAGE_OBJECTS_CALL_OUTCOME_H
#define RLOCKD_STORAGE_OBJECTS_CALL_OUTCOME_H

#include "storage/redis/call.h"

enum call_outcome {
    CALL_DONE,
    CALL_WRONG_TYPE,    /* not executed: a key is of another type */
    CALL_OUT_OF_MEMORY, /* not executed: Redis has no memory for more */
    CALL_NOT_EXECUTED,
    CALL_UNKNOWN /* nobody can know: ask again with the same token */
};

enum call_outcome call_outcome_of(const struct redis_result *result);

#endif
