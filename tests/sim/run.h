/* One run: a world from a seed, its history, and what the checker says. */
#ifndef RLOCKD_TESTS_SIM_RUN_H
#define RLOCKD_TESTS_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/servers.h"

enum { REPORT_SIZE = 32 * 1024 };

struct run_options {
    uint64_t seed;
    enum topology topology; /* TOPOLOGIES: that of the seed */
    int64_t seconds;        /* of clients and faults; what is left after them comes on top */
    const char *faults;     /* those whose name has this word; NULL: none */
    const char *history;    /* a file for it; NULL: none */
    int64_t trouble_ms;     /* see struct bounds; 0: as the pace of the run wants it */
    bool prints;            /* what happens, as it happens */
    bool drains;            /* with the sweep, and what is left in the end */
};

struct run_result {
    bool is_over, is_clean;
    int64_t simulated_ms, requests, grants, faults, scripts, commands, passed;
    uint64_t history_hash;
    char rules[128]; /* that were broken */
    char report[REPORT_SIZE];
};

/* Once in a process: what a front end leaves behind when it is killed goes with the process. */
void run_seed(const struct run_options *options, struct run_result *result);

#endif
