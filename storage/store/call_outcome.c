/* The outcome of a request to Redis. */
#include "storage/store/call_outcome.h"

enum call_outcome call_outcome_of(const struct redis_result *result)
{
    switch (result->outcome) {
    case REDIS_DONE:
        return CALL_DONE;
    case REDIS_UNKNOWN:
        return result->refusal == REDIS_NOT_REPLICATED ? CALL_NOT_REPLICATED : CALL_UNKNOWN;
    case REDIS_REFUSED:
        break;
    }
    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        return CALL_WRONG_TYPE;
    if (result->refusal == REDIS_REFUSED_OUT_OF_MEMORY)
        return CALL_OUT_OF_MEMORY;
    if (result->refusal == REDIS_QUARANTINED)
        return CALL_QUARANTINE;
    return CALL_NOT_EXECUTED;
}

bool call_is_unknown(enum call_outcome outcome)
{
    return outcome == CALL_UNKNOWN || outcome == CALL_NOT_REPLICATED;
}
