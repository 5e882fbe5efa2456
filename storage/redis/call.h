/* How a command to Redis ends, and what its reply may wait for. */
#ifndef RLOCKD_STORAGE_REDIS_CALL_H
#define RLOCKD_STORAGE_REDIS_CALL_H

#include <stdint.h>

#include "server/base/clock.h"
#include "storage/redis/reply.h"

/* When a command that Redis refused (a replica, a slow script) is worth another try: Redis is
 * not to be asked all the time. */
#define REDIS_ASK_AGAIN_NS (500 * CLOCK_NS_PER_MS)

enum {
    REDIS_RUN_ID_SIZE = 48,
    /* A connection that was usable for less has not brought Redis back. */
    REDIS_BACK_MS = 15000
};

/* The Redis process at the other end of a connection. */
struct redis_server {
    char run_id[REDIS_RUN_ID_SIZE];    /* id of the Redis process; another id: data may be lost.
                                          Empty: never connected */
    char promotion[REDIS_RUN_ID_SIZE]; /* the last one of the process before the connection was
                                          made: the id of the replication that it left. Empty:
                                          none, or Redis has forgotten it */
    int64_t up_since_ns;               /* when the connection became usable last */
    int64_t lost_ns; /* since when, before that, commands may have been lost */
    bool is_cluster; /* a cluster, or a node of one: all keys of a script share a slot */
    bool has_shard_channels; /* knows SSUBSCRIBE: Redis 7 */
};

struct redis_result {
    enum redis_outcome outcome;
    enum redis_refusal refusal;
    const struct redis_value *reply;   /* for REDIS_DONE; gone after the callback */
    int64_t sent_ns;                   /* when it was queued: before Redis could run it */
    const struct redis_server *server; /* that was asked; gone after the callback */
};

/* How many replicas must confirm the changes of a script before its reply is passed on. */
struct redis_sync {
    int replicas; /* 0: none, and no WAIT is sent */
    int64_t timeout_ms;
};

typedef void redis_done(void *arg, const struct redis_result *result);

#endif
