/* Rounds of SCAN over the keys of one type of all nodes: each round brings some keys, as names
 * of locks (hashes) or of semaphores and latches (strings). The caller looks at each key, which
 * may be something else. */
#ifndef RLOCKD_STORAGE_LOOK_LOCK_SCAN_H
#define RLOCKD_STORAGE_LOOK_LOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/call_outcome.h"
#include "storage/store/store.h"

enum { SCAN_PATTERN_SIZE = 2 * KEY_NAME_MAX + 2 };

struct lock_scan;

/* The round has its keys, or `outcome` says why not. */
typedef void lock_scan_done(void *arg, enum call_outcome outcome);

/* A walk over the nodes. Its owner reads the position, and never writes it but before the first
 * round; then `process` may be set for the beginning of a node, too. */
struct lock_scan {
    struct store *store;
    size_t count; /* keys that Redis visits in a round; the owner may change it between two */
    const char *type; /* of the keys, as Redis names it */
    char pattern[SCAN_PATTERN_SIZE];
    struct topology_node *node; /* that is scanned, and its number among them */
    size_t node_number;
    uint64_t cursor, next_cursor; /* of this round and of the next one */
    uint32_t process;    /* call_process() of the one that gave `cursor`; 0: any may have */
    bool is_cursor_lost; /* another process has answered this round */
    char **names;        /* of this round, without those that no client can ask for */
    size_t name_count;
    lock_scan_done *done;
    void *arg;
};

/* Begins a walk at the first node, over names that begin with `prefix`, as clients say it. No
 * round is sent yet. `type` stays the caller's. */
void lock_scan_begin(struct lock_scan *scan, struct store *store, const char *type,
                     const char *prefix, size_t count);
/* Before the first round: goes on to a server of a quorum that can be asked, if this one is
 * away, for the others have what it has. */
void lock_scan_pass_over(struct lock_scan *scan);
/* Asks for the keys of the round at the cursor. Refused where no majority of a quorum can be
 * asked: the other servers do not know all locks. `done` comes once, and later. */
void lock_scan_round(struct lock_scan *scan, lock_scan_done *done, void *arg);
/* Whether the walk has lost its way, and is to begin anew, for it would miss keys: a cursor is
 * good for the Redis process that gave it only, and behind a node that has lost its slots, or
 * another place among the nodes, there may be nodes that have not been scanned. To be asked
 * after each round and, before lock_scan_next(), after a rest: the memory of a node is freed a
 * minute after it has lost its slots. */
bool lock_scan_is_lost(const struct lock_scan *scan);
/* The round is to be asked for again: forgets its names. */
void lock_scan_repeat(struct lock_scan *scan);
/* Puts the names in the order of their hashes, and forgets those up to the hash `after`; 0:
 * none. */
void lock_scan_cut(struct lock_scan *scan, uint32_t after);
/* Of a name, never 0. */
uint32_t lock_scan_hash(const char *name);
/* Goes on to the next round, on the next node after the last round of a node, and forgets the
 * names. False: there is no further round. */
bool lock_scan_next(struct lock_scan *scan);
void lock_scan_end(struct lock_scan *scan);

#endif
