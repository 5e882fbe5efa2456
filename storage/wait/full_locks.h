/* Locks that have as many notes of long waits as a lock may have: each worker remembers them
 * for a while, so that its further waits for such a lock do not ask for a note. */
#ifndef RLOCKD_STORAGE_WAIT_FULL_LOCKS_H
#define RLOCKD_STORAGE_WAIT_FULL_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct full_lock;

struct full_locks {
    struct full_lock *by_name;         /* uthash */
    struct full_lock *first_to_forget; /* utlist */
};

/* The lock was full just now, and is taken for full for some seconds. */
void full_locks_add(struct full_locks *locks, const char *name, int64_t now_ns);
bool full_locks_has(struct full_locks *locks, const char *name, int64_t now_ns);
/* Forgets all. */
void full_locks_release(struct full_locks *locks);

#endif
