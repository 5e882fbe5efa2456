/* The faults that a run can have. */
#ifndef RLOCKD_TESTS_SIM_FAULTS_H
#define RLOCKD_TESTS_SIM_FAULTS_H

#include "tests/sim/world.h"

/* No two faults of one place at a time; PLACE_PROCESS is in the way of all others. */
enum place {
    PLACE_FRONT,
    PLACE_PROCESS,
    PLACE_NET,
    PLACE_LINKS,
    PLACE_MEMORY,
    PLACE_SCRIPTS,
    PLACE_SLOTS,
    PLACE_CLOCK
};

/* Begins, waits and heals, in a task; returns how much it touched. The other fields are those
 * of its shape. */
struct fault {
    const char *name;
    int64_t (*run)(const struct fault *fault, struct front *front);
    enum place place;
    bool of_front, loses_data;
    bool slows_redis;          /* in PLACE_NET, besides its own place */
    bool needs_workers;        /* in front ends with several workers */
    bool is_failover;          /* `loses_data` unless replicas have to confirm changes */
    bool restarts;             /* of a quorum: a server, whose holds count no more */
    bool beyond_quorum;        /* in no quorum: no majority stands it */
    unsigned topologies;       /* a bit for each in which it can be; 0: in all */
    int64_t least_ms, most_ms; /* how long it lasts */
    enum trouble trouble;
    int64_t lag_ms;                         /* at most so far behind are the replicas */
    size_t flag;                            /* its offset in the master's struct redis */
    const int64_t *refused;                 /* what Redis refuses because of it */
    int64_t (*strike)(struct front *front); /* one blow; returns how much it touched */
};

extern const struct fault faults[];
extern const size_t fault_count;

void faults_init(uint64_t seed);
void failovers_init(uint64_t seed);
void cluster_faults_init(uint64_t seed);
/* What was done since the last failover began and until then is undone; 0: there was none. */
int64_t faults_undone_until_ns(void);
void faults_note_undone(void);
/* The front end answers /readyz with 200 within the time in which each has to; false: not. */
bool front_becomes_ready(struct front *front);
/* Kills the front end's process, and starts it again. */
void front_restart(struct front *front);

/* faults_failover.c */
int64_t fail_over_from_killed(const struct fault *fault, struct front *front);
/* The old master goes on meanwhile. */
int64_t fail_over_from_living(const struct fault *fault, struct front *front);
int64_t fail_over_from_paused(const struct fault *fault, struct front *front);
int64_t cut_replicas_off(const struct fault *fault, struct front *front);
int64_t pause_sentinel(const struct fault *fault, struct front *front);

/* faults_cluster.c */
int64_t move_slots(const struct fault *fault, struct front *front);
int64_t cut_master_off(const struct fault *fault, struct front *front);

#endif
