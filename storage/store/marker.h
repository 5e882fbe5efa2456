/* Markers: a key at each Redis that has keys of locks. Each worker refreshes the markers every
 * second. By a marker a worker notices that its Redis came back without its data, and learns
 * how long the quarantine lasts. A Redis whose marker names another layout is not used. */
#ifndef RLOCKD_STORAGE_STORE_MARKER_H
#define RLOCKD_STORAGE_STORE_MARKER_H

#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_member;
struct topology_node;
struct redis_tag;

struct marker;

/* NULL: out of memory. */
struct marker *marker_new(struct store *store);
/* No callback of Redis may be pending any more. */
void marker_free(struct marker *marker);

/* To be called when Redis is usable again, before any lease is asked for. */
void marker_redis_is_up(struct marker *marker);

/* Redis' clock in epoch ms, as far as the last refresh of a marker tells; 0: there was none. */
int64_t marker_redis_ms(const struct marker *marker);

/* For how long this node gives no votes, in a quorum; 0: it does. */
int64_t marker_node_quarantine_ms(const struct marker *marker,
                                  const struct topology_node *node);
/* Whether a marker of the process that serves as this node was read. In a quorum the replies of
 * another node count for nothing: a marker that could not be written would hide a restart. */
bool marker_node_is_read(const struct marker *marker, const struct topology_node *node);
/* The clock of this node, in µs of its epoch; 0: not known. */
int64_t marker_node_clock_us(const struct marker *marker, const struct topology_node *node);

/* The next server of a quorum, see store_next_member(). */
void marker_next_member(const struct marker *marker, struct store_member *member);

/* For how long grants of objects with this tag are still held back, in ms; 0: they are not. */
int64_t marker_quarantine_ms(const struct marker *marker, const struct redis_tag *tag);
/* The same for the objects whose grants are held back for longest. */
int64_t marker_longest_quarantine_ms(const struct marker *marker);

#endif
