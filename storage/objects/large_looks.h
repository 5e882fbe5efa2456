/* Large looks: looks at sessions with many leases, each of which takes megabytes of memory and
 * about a thousand scripts. A worker has a few of them under way; the others wait, and take
 * next to no memory meanwhile. */
#ifndef RLOCKD_STORAGE_OBJECTS_LARGE_LOOKS_H
#define RLOCKD_STORAGE_OBJECTS_LARGE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct lock_store;

/* Owned by the caller. It must live until its begin() was called. */
struct large_look {
    /* `may`: false if the look has waited too long, or too many looks wait behind it. After
     * true the caller calls large_look_end() once. */
    void (*begin)(void *arg, bool may);
    void *arg;
    int64_t since_ns;
    struct large_look *prev, *next; /* utlist */
};

/* Calls the look's begin(), at once or later. */
void large_look_start(struct lock_store *store, struct large_look *look);
/* A look has ended: the next ones that wait begin, or are refused. */
void large_look_end(struct lock_store *store);

#endif
