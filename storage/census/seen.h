/* Since when the walks of the census have seen the holders whose grants have no time: Java
 * clients. The memory is bounded: when it is full, further holders are not remembered, so their
 * holds count as just begun, until a remembered hold has ended. A worker that takes the census
 * over knows the holders of the last picture only. */
#ifndef RLOCKD_STORAGE_CENSUS_SEEN_H
#define RLOCKD_STORAGE_CENSUS_SEEN_H

#include <stddef.h>
#include <stdint.h>

enum { SEEN_MAX = 65536 /* of some 100 bytes each */ };

struct seen_holder;

struct seen {
    struct seen_holder *holders; /* uthash */
    size_t limit;                /* at most SEEN_MAX */
    unsigned walk;               /* the number of the current one */
};

void seen_init(struct seen *seen, size_t limit);
/* Since when this holder of the lock has been seen by each walk, `now_ms` where this is the
 * first one. Counts as seen by the current walk. */
int64_t seen_since(struct seen *seen, const char *name, const char *field, int64_t now_ms);
/* A walk has seen all locks: holders that it has not seen are forgotten. */
void seen_end_walk(struct seen *seen);
/* Forgets all holders. */
void seen_forget(struct seen *seen);
/* How many holders are remembered. */
size_t seen_count(const struct seen *seen);

#endif
