/* Answers that wait for replicas. */
#ifndef RLOCKD_STORAGE_REDIS_SYNC_H
#define RLOCKD_STORAGE_REDIS_SYNC_H

#include <stdint.h>

/* How many replicas must have what a script did before its answer is let go. */
struct redis_sync {
    int replicas; /* 0: none, and no WAIT is sent */
    int64_t timeout_ms;
};

#endif
