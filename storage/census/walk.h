/* A walk of the census over all locks. */
#ifndef RLOCKD_STORAGE_CENSUS_WALK_H
#define RLOCKD_STORAGE_CENSUS_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/timers.h"
#include "storage/census/picture.h"
#include "storage/census/seen.h"
#include "storage/look/lock_scan.h"

enum walk_lock_kind { WALK_LOCK, WALK_FAIR, WALK_READ, WALK_WRITE, WALK_KINDS };

struct walk;

/* The walk has seen all locks (`is_complete`), or it was given up. It may be started again. */
typedef void walk_done(void *arg, bool is_complete);

/* The walk rests after each step: see census_rest(). */
struct walk {
    struct store *store;
    struct seen *seen;
    struct lock_scan scan;
    size_t next_name, pending;
    bool is_running, is_given_up;
    struct timer rest;
    size_t looks_max;                  /* locks in the next step */
    int64_t step_began_ns, fastest_ns; /* of the steps until now */
    int64_t began_ns, began_ms;        /* by this worker's clock and by Redis' */
    walk_done *done;
    void *arg;
    /* What it has found: */
    struct census_picture picture;
    int64_t locks[WALK_KINDS], long_count;
    int64_t sessions;
};

void walk_init(struct walk *walk, struct store *store, struct seen *seen);
void walk_release(struct walk *walk);
/* Begins a walk; none may be running. `redis_now_ms`: Redis' clock now. `done` comes once, and
 * later. */
void walk_start(struct walk *walk, int64_t redis_now_ms, walk_done *done, void *arg);
/* The running walk ends at its next step. */
void walk_give_up(struct walk *walk);
/* Redis' clock, by the clock at the start of the walk. */
int64_t walk_now_ms(const struct walk *walk);

#endif
