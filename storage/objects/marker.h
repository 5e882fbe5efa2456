/* Markers: a key at each Redis that keeps a part of the keys, or all of them. Each worker
 * refreshes the markers all the time, and learns by a marker that its Redis came back without
 * what it had, and how long grants are to be held back for that. */
#ifndef RLOCKD_STORAGE_OBJECTS_MARKER_H
#define RLOCKD_STORAGE_OBJECTS_MARKER_H

#include <stdbool.h>
#include <stdint.h>

struct lock_store;
struct redis_tag;

struct marker;

/* NULL: out of memory. */
struct marker *marker_new(struct lock_store *store);
/* No callback of Redis may be pending any more. */
void marker_free(struct marker *marker);

/* To be called when Redis is usable again, before any lease is asked for. */
void marker_redis_is_up(struct marker *marker);

/* For how long grants of objects with this tag are still held back, in ms; 0: they are not. */
int64_t marker_quarantine_ms(const struct marker *marker, const struct redis_tag *tag);
/* The same of whatever is held back for longest. */
int64_t marker_longest_quarantine_ms(const struct marker *marker);

#endif
