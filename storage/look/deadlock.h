/* A deadlock: sessions of which each waits for a lock that the next one holds, and the last one
 * for a lock of the first. And its mark: a short-lived key beside each of these locks, by which
 * a look at the lock finds the deadlock. */
#ifndef RLOCKD_STORAGE_LOOK_DEADLOCK_H
#define RLOCKD_STORAGE_LOOK_DEADLOCK_H

#include "server/base/log.h" /* json_t */
#include "storage/store/lease.h"
#include "storage/store/holder.h"
#include "storage/store/store.h"

/* A longer cycle is not found. */
enum { DEADLOCK_MEMBERS_MAX = 16 };

/* A wait of a session, or of an owner of a session. */
struct deadlock_member {
    char session_id[SESSION_ID_SIZE], session_name[SESSION_NAME_SIZE], owner[LOCK_OWNER_SIZE];
    char lease_id[LEASE_ID_SIZE];
    char note[LOCK_NOTE_SIZE];
    char lock[LOCK_NAME_SIZE]; /* it waits for this one, which the next member holds */
    /* Of a deadlock that was read from a mark the rest is not known. */
    bool is_set; /* the lease that waits is of several locks */
    char wait_id[ATTEMPT_ID_SIZE];
    int64_t since_ms;             /* when the wait began, by Redis' clock */
    char field[LOCK_HOLDER_SIZE]; /* by which the next member holds the lock */
    int64_t fencing_token;        /* of its grant */
};

/* Its owner frees it. */
struct deadlock {
    size_t count;
    struct deadlock_member members[];
};

/* Whether the wait of `member` began after that of `other`. All workers have the same opinion
 * on this: two waits may have begun in the same millisecond. */
bool deadlock_is_younger(const struct deadlock_member *member,
                         const struct deadlock_member *other);
/* An array with an object for each member, in their order; NULL for NULL. */
json_t *deadlock_json(const struct deadlock *deadlock);

/* Marks its locks for `ttl_ms`. */
void deadlock_mark(struct store *store, const struct deadlock *deadlock, int64_t ttl_ms);
/* Reads what look.lua replies of a mark. NULL: there is none, or it is no mark of rlockd. */
struct deadlock *deadlock_parse_mark(const char *text, size_t len);

#endif
