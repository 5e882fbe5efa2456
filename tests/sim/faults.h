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
    int64_t least_ms, most_ms; /* how long it lasts */
    enum trouble trouble;
    bool *flag;                             /* of the simulated Redis */
    const int64_t *refused;                 /* what Redis refuses because of it */
    int64_t (*strike)(struct front *front); /* one blow; returns how much it touched */
};

extern const struct fault faults[];
extern const size_t fault_count;

void faults_init(uint64_t seed);
/* What was done since the last failover began and until then is undone; 0: there was none. */
int64_t faults_undone_until_ns(void);
/* The front end answers /readyz with 200 within the time in which each has to; false: not. */
bool front_becomes_ready(struct front *front);
/* Kills the front end's process, and starts it again. */
void front_restart(struct front *front);

#endif
