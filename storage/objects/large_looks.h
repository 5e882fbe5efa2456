/* Looks at sessions with many leases: each has megabytes of memory and a thousand scripts or
 * so. A worker has a few of them under way, and the others wait with next to nothing. */
#ifndef RLOCKD_STORAGE_OBJECTS_LARGE_LOOKS_H
#define RLOCKD_STORAGE_OBJECTS_LARGE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct lock_store;

/* Stays until its begin() was called, and if that was with true, until large_look_end(). */
struct large_look {
    /* `may`: false if it has waited too long, or too many have come behind it. */
    void (*begin)(void *arg, bool may);
    void *arg;
    int64_t since_ns;
    struct large_look *prev, *next; /* utlist */
};

/* Calls begin(), now or later. */
void large_look_start(struct lock_store *store, struct large_look *look);
void large_look_end(struct lock_store *store);

#endif
