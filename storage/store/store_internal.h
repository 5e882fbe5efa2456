/* Shared by the files of the store: its struct, which other rooms see through store.h. */
#ifndef RLOCKD_STORAGE_STORE_STORE_INTERNAL_H
#define RLOCKD_STORAGE_STORE_STORE_INTERNAL_H

#include "storage/store/errand.h"
#include "storage/store/key.h"
#include "storage/store/lease_record.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/store/turns.h"
#include "storage/store/visits.h"

struct kept_part;
struct quorum_calls;

/* Sessions with leases that are still to be visited: visits.c. */
struct visit_line {
    struct turns turns;            /* of scripts; their weight is the number of their locks */
    struct lease_visits *sessions; /* uthash: with a script that waits or is sent next */
};

/* Errands that Redis has not confirmed yet: errand.c. */
struct errand_line {
    struct errand *first; /* utlist */
    struct timer retry;
};

struct store {
    struct store_options options;
    uint64_t attempt_count;
    struct store_call *call; /* that is being filled */
    struct turns looks;      /* look_turns.c */
    struct visit_line visit_lines[VISIT_LINES];
    struct errand_line errands[ERRAND_RANKS];
    struct marker *marker;
    struct quorum_calls *quorum; /* NULL: the topology is no quorum */
    struct kept_part *parts;     /* utlist: of other rooms */
};

/* errand.c */
void errands_init(struct store *store);
/* Sends the scripts that are not under way again. */
void errands_retry(struct store *store);
size_t errands_pending(const struct store *store);
/* Ends all errands. */
void errands_release(struct store *store);

/* visits.c */
void visits_init(struct store *store);

/* store_part.c */
void store_parts_release(struct store *store);

#endif
