/* Locks that are full of notes. */
#include "storage/wait/full_locks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "server/base/clock.h"

/* Then one wait asks again, for another one may have ended. */
enum { FULL_LOCK_PAUSE_MS = 8000 };

struct full_lock {
    struct full_lock *prev, *next;
    UT_hash_handle hh;
    int64_t until_ns;
    char name[]; /* as clients say it */
};

static void forget(struct full_locks *locks, struct full_lock *lock)
{
    HASH_DEL(locks->by_name, lock);
    DL_DELETE(locks->first_to_forget, lock);
    free(lock);
}

static struct full_lock *find(struct full_locks *locks, const char *name, int64_t now_ns)
{
    struct full_lock *found;

    while (locks->first_to_forget != NULL && locks->first_to_forget->until_ns <= now_ns)
        forget(locks, locks->first_to_forget);
    HASH_FIND_STR(locks->by_name, name, found);
    return found;
}

bool full_locks_has(struct full_locks *locks, const char *name, int64_t now_ns)
{
    return find(locks, name, now_ns) != NULL;
}

void full_locks_add(struct full_locks *locks, const char *name, int64_t now_ns)
{
    size_t size = strlen(name) + 1;
    struct full_lock *lock = find(locks, name, now_ns);

    if (lock != NULL)
        return;
    lock = malloc(sizeof(*lock) + size);
    assert(lock != NULL);
    lock->until_ns = now_ns + FULL_LOCK_PAUSE_MS * CLOCK_NS_PER_MS;
    memcpy(lock->name, name, size);
    HASH_ADD_STR(locks->by_name, name, lock);
    DL_APPEND(locks->first_to_forget, lock);
}

void full_locks_release(struct full_locks *locks)
{
    while (locks->first_to_forget != NULL)
        forget(locks, locks->first_to_forget);
}
