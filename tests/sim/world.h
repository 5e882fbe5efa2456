/* What the clients, the nemesis and the checks of one run share. */
#ifndef RLOCKD_TESTS_SIM_WORLD_H
#define RLOCKD_TESTS_SIM_WORLD_H

#include <stdio.h>

#include "tests/sim/front.h"
#include "tests/sim/servers.h"

/* Times of a brisk run. In a slow one all but PLACE_MS, which is the product's own, are `pace`
 * times as long, and so are those of the clients: the same traffic meets other timers. */
enum {
    FRONTS = 3,
    PACE_SLOW = 10,
    RETRY_WINDOW_MS = 12000,
    QUORUM_QUARANTINE_MS = 12500, /* at least the retry window */
    WATCHDOG_MS = 3200,
    MAX_WAIT_MS = 40000,
    PLACE_MS = 15000,
    SESSION_TTL_MAX_MS = 3000,
    LEASE_TTL_MAX_MS = 4000,
    PAUSE_MAX_MS = 8000, /* of a front end, in any run */
    LOCKS_OF_A_SET = 3,
    LOCK_COUNT = 12
};

struct world {
    uint64_t seed;
    int64_t pace;
    enum topology topology;
    int replicas;      /* of a master */
    int masters;       /* of a cluster */
    int nodes;         /* servers of a quorum */
    int sync_replicas; /* the setting of the front ends */
    struct server *master;
    int64_t failovers;
    struct redis_counts counts; /* of all servers */
    struct front fronts[FRONTS];
    bool is_stopping; /* clients begin nothing new */
    bool is_over;
    bool only_out_of_memory; /* no other fault than that is there */
    int64_t losses;          /* odd while a fault may undo what clients were told */
    bool prints;             /* what happens, as it happens */
    int waiting;
    int64_t filled; /* locks of a session that has as many as it may have */
    int doubled;    /* requests that something has sent again, and that go on */
    struct buffer history;
    int64_t requests, grants, faults, lines;
    int64_t passed;        /* releases that a worker passed on to another one */
    int64_t redis_jump_us; /* of Redis' clock */
};

extern struct world world;

/* One line of the history, without its braces; the text of the format is JSON. */
void record(const char *type, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of its own for what is wrong with a front end. */
void record_complaint(const struct front *front, int64_t began_ns, const char *complaint);
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A lock's kind and name. */
struct lock_name {
    const char *kind, *name;
};

extern const struct lock_name lock_names[LOCK_COUNT];
/* clients.c: false: a lock of this kind is refused in this run. */
bool lock_is_offered(const struct lock_name *lock);
#define PERMITS_NAME "permits-a"
#define PERMITS_COUNT 2
/* One permit, which is released too late. */
#define LATE_NAME "permits-late"
/* Becomes another kind of object again and again. */
#define ODD_NAME "odd-a"
#define SEMAPHORE_NAME "semaphore-a"
#define SEMAPHORE_PERMITS 4
/* Is deleted and made anew again and again. */
#define ANEW_NAME "semaphore-anew"
#define ANEW_PERMITS 2

/* kinds.c: begins them all; `over` counts those that have ended. */
int clients_start(int *over);
/* watch.c: begins what looks on; and what comes after the faults, of a task. */
void watch_start(void);
/* Those that Redis has not; of a task. False: one could not be made. */
bool make_semaphores(void);
void drain_run(void);
/* watch.c: a line that says how many of a thing are there which should not be. `number`: of a
 * front end; -1: of none. */
void note_leak(const char *subject, int number, int64_t now, const char *detail);
/* watch.c: a line that says how often a rule of the clients was checked. */
void note_checks(const char *subject, int64_t checks);
/* clients_counter.c: whether all permits have come back; drops the latch. */
void check_counters(void);
/* calls.c: a semaphore, anew; of a task. */
bool make_semaphore(const char *path, const char *name, int permits);

#endif
