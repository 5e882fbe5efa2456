/* The Lua scripts that every change of a lock goes through: storage/scripts/, embedded at build
 * time. */
#ifndef RLOCKD_STORAGE_REDIS_SCRIPT_H
#define RLOCKD_STORAGE_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* In the order of the file names. */
enum script {
    SCRIPT_ACQUIRE,
    SCRIPT_CENSUS_CLAIM,
    SCRIPT_CENSUS_LOOK,
    SCRIPT_CENSUS_READ,
    SCRIPT_CENSUS_SESSIONS,
    SCRIPT_CENSUS_WAIT,
    SCRIPT_CENSUS_WAITS,
    SCRIPT_CENSUS_WRITE,
    SCRIPT_COUNTER_CREATE,
    SCRIPT_COUNTER_DELETE,
    SCRIPT_COUNTER_LOOK,
    SCRIPT_COUNTER_WITHDRAW,
    SCRIPT_FAIR_ACQUIRE,
    SCRIPT_FORCE_UNLOCK,
    SCRIPT_FORCED_BY,
    SCRIPT_GRANT_FIND,
    SCRIPT_HAND_OVER,
    SCRIPT_INDEX_CLAIM,
    SCRIPT_INDEX_SET,
    SCRIPT_LATCH_AWAIT,
    SCRIPT_LATCH_COUNT_DOWN,
    SCRIPT_LEASE_CLAIM,
    SCRIPT_LEASE_CONFIRM,
    SCRIPT_LEASE_END,
    SCRIPT_LEASE_LOST, /* of a quorum */
    SCRIPT_LEASE_WATCH,
    SCRIPT_LOCK_WAIT,
    SCRIPT_LOCK_WAITS,
    SCRIPT_LOOK,
    SCRIPT_MARKER,
    SCRIPT_PERMIT_ACQUIRE,
    SCRIPT_PERMIT_HAND_OVER,
    SCRIPT_PERMIT_LOOK,
    SCRIPT_PERMIT_RELEASE,
    SCRIPT_PERMIT_RENEW,
    SCRIPT_PERMIT_WITHDRAW,
    SCRIPT_PROBE,
    SCRIPT_QUEUE_VISIT,
    SCRIPT_RELEASE,
    SCRIPT_RENEW,
    SCRIPT_REPAIR, /* of a quorum */
    SCRIPT_RW_ACQUIRE,
    SCRIPT_RW_HAND_OVER,
    SCRIPT_SEMAPHORE_ACQUIRE,
    SCRIPT_SEMAPHORE_DRAIN,
    SCRIPT_SEMAPHORE_RELEASE,
    SCRIPT_SESSION_BIND,
    SCRIPT_SESSION_BRIEF,
    SCRIPT_SESSION_DUE,
    SCRIPT_SESSION_END,
    SCRIPT_SESSION_GET,
    SCRIPT_SESSION_IDLE,
    SCRIPT_SESSION_KEEP_ALIVE,
    SCRIPT_SESSION_OPEN,
    SCRIPT_SESSION_PAGE,
    SCRIPT_SESSION_REPAIR, /* of a quorum */
    SCRIPT_SESSION_SETTLE,
    SCRIPT_SESSION_TOLD, /* of a quorum */
    SCRIPT_SESSION_UNBIND,
    SCRIPT_SESSION_WAIT,
    SCRIPT_SESSION_WAITS,
    SCRIPT_SET_ACQUIRE,
    SCRIPT_SET_NAMES,
    SCRIPT_VOTE, /* of a quorum */
    SCRIPT_WATCH_MANY,
    SCRIPT_WITHDRAW,
    SCRIPT_COUNT
};

enum { SCRIPT_SHA1_LEN = 40 };

struct script_row {
    const char *name;
    const char *sha1; /* SHA-1 of the text, for EVALSHA */
    const char *text;
    size_t len;
    bool sync;   /* its reply waits for the replicas of --sync-replicas */
    bool grants; /* may grant a lease */
};

/* As it is sent to a Redis that keeps every key. */
const struct script_row *script_row(enum script script);
/* The form that is sent to a node of a cluster (storage/scripts/link.awk describes the
 * difference). `broadcasts`: messages go to all nodes, too, not to the shard only. */
const struct script_row *script_row_of_cluster(enum script script, bool broadcasts);
/* The form that is sent to a node of a quorum. The scripts of a quorum alone are empty in the
 * other forms. */
const struct script_row *script_row_of_quorum(enum script script);

#endif
