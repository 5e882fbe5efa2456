/* Answers that wait for replicas. */
#ifndef RLOCKD_STORAGE_REDIS_SYNC_H
#define RLOCKD_STORAGE_REDIS_SYNC_H

#include <stdint.h>

/* How many replicas must confirm the changes of a script before its reply is passed on. */
struct redis_sync {
    int replicas; /* 0: none, and no WAIT is sent */
    int64_t timeout_ms;
};

#endif
