/* The marker: a key that each worker refreshes all the time, and by which a worker learns that
 * Redis came back without what it had, and how long grants are to be held back for that. */
#ifndef RLOCKD_STORAGE_OBJECTS_MARKER_H
#define RLOCKD_STORAGE_OBJECTS_MARKER_H

#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct lease;
struct lock_store;

struct marker;

/* NULL: out of memory. */
struct marker *marker_new(struct lock_store *store);
/* No callback of Redis may be pending any more. */
void marker_free(struct marker *marker);

/* To be called when Redis is usable again, before any lease is asked for. */
void marker_redis_is_up(struct marker *marker);

/* For how long grants are still held back, in ms; 0: they are not. */
int64_t marker_quarantine_ms(const struct marker *marker);

#endif
