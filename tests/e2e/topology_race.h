/* Clients of two front ends fight for locks while servers of Redis die, stop, move slots or are
 * replaced. Fencing tokens grow throughout; two clients are inside a lock only for the time
 * that the documents give for it: the leases that a new master had not heard of, until they
 * end. */
#ifndef E2E_TOPOLOGY_RACE_H
#define E2E_TOPOLOGY_RACE_H

#include "racers.h"

enum { RACE_LOCKS_MAX = 9, RACE_LOCK_SIZE = 40, RACE_TTL_MS = 3000, RACE_FAILOVER_MS = 20000 };

/* What a lock protects, and the last fencing token that somebody was told. */
struct arena {
    char lock[RACE_LOCK_SIZE];
    _Atomic int inside;
    _Atomic json_int_t last_fence;
    _Atomic long grants;
};

/* A fault, and what it may do. */
struct topology_fault {
    /* Is called by the thread of the test, some time after the start. */
    void (*strike)(void *topology);
    bool again;       /* and again, as long as the race lasts */
    bool loses;       /* what no replica has is lost: others may come in until leases end */
    bool is_late;     /* a master that stood still may have granted just before */
    bool is_long;     /* leases that outlast a failover */
    const char *sync; /* --sync-replicas; NULL: none are waited for */
    int seconds;      /* that the race lasts; 0: some */
};

struct topology_race {
    const struct topology_fault *fault;
    void *topology; /* is handed to strike() */
    int locks, ttl_ms;
    int64_t began_ms;
    _Atomic int64_t fault_ms, struck_ms; /* its begin, its end; 0: still to come */
    _Atomic int64_t first_overlap_ms, last_overlap_ms; /* 0: there was none */
    struct arena arenas[RACE_LOCKS_MAX];
    _Atomic long refused, overlaps, later_grants, late;
};

/* Fails the test when a rule was broken, or little happened. The front ends, with this URL, are
 * w->a and w->b. */
struct topology_race *topology_race(struct world *w, const char *url, int locks,
                                    const struct topology_fault *fault, void *topology);

#endif
