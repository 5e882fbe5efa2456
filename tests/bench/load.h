/* The load generator's modes. Each prints its figures as members of the one JSON line. */
#ifndef RLOCKD_TESTS_BENCH_LOAD_H
#define RLOCKD_TESTS_BENCH_LOAD_H

#include "tests/bench/load_request.h"
#include "tests/bench/load_sample.h"

struct load_options {
    struct load_peer peer;
    uint16_t port;
    uint16_t release_port; /* hand-off: the front end that releases; else `port` */
    uint16_t second_port;  /* contend: the front end of every other connection; else `port` */
    bool tls;
    const char *kind; /* contend: plain, fair, write, mix or permit */
    size_t connections;
    size_t waiters;
    size_t locks; /* park: that the waiters are spread over */
    double seconds, warmup_s;
    long rounds;      /* park */
    long cycles;      /* > 0: so many instead of `seconds` */
    int rss_pid;      /* park: whose memory is measured */
    const char *name; /* the locks' names begin with it */
    struct load_processes processes;
};

/* Acquire, release, and again, on a lock of its own a connection. */
void load_cycle(struct load_options *options);
/* Acquires `cycles` locks and keeps them. */
void load_hold(struct load_options *options);
/* One lock and `waiters` who wait for it: from a release being sent to the next one's answer.
 */
void load_handoff(struct load_options *options);
/* Every connection takes and releases the one lock `name` again and again. */
void load_contend(struct load_options *options);
/* Cycles and keep-alives alone, then beside `waiters` who wait for other locks; `rounds` times
 * in turns. */
void load_park(struct load_options *options);

/* --- cycles, for load_cycle() and load_park() ----------------------------------------------
 */

struct load_cycler;

struct load_cycler *load_cycler_new(const struct load_options *options,
                                    struct load_client *client);
void load_cycler_free(struct load_cycler *cycler);
/* Starts cycling; load_client_poll() drives it, until no cycle is to be started any more and
 * those under way have ended. */
void load_cycler_start(struct load_cycler *cycler, long cycles_max);
void load_cycler_stop(struct load_cycler *cycler);
/* From now on it counts: samples[] are emptied. */
void load_cycler_measure(struct load_cycler *cycler);
void load_cycler_run(struct load_cycler *cycler, double seconds);
size_t load_cycler_cycles(const struct load_cycler *cycler); /* since it was made */
struct load_samples *load_cycler_samples(struct load_cycler *cycler, enum load_step step);

/* --- keep-alives, for load_park() -----------------------------------------------------------
 */

struct load_keeper;

/* Opens a session a connection. */
struct load_keeper *load_keeper_new(const struct load_options *options,
                                    struct load_client *client);
void load_keeper_free(struct load_keeper *keeper);
/* One keep-alive after another on every connection, for so long. */
void load_keeper_run(struct load_keeper *keeper, double seconds);
/* Of the last run. */
struct load_samples *load_keeper_samples(struct load_keeper *keeper);

/* --- waiters, for load_handoff() and load_park() -------------------------------------------
 */

struct load_line; /* those who wait */

/* Connects `count` waiters and returns when rlockd says that they all wait. */
struct load_line *load_line_new(const struct load_options *options, struct load_client *client,
                                size_t count, size_t locks);
/* Hangs up; returns when rlockd says that nobody waits. */
void load_line_free(struct load_line *line);
/* Somebody got the lock: its token and when; NULL: nobody yet. */
const char *load_line_granted(const struct load_line *line, int64_t *at_ns);
/* That one waits again, with another token. */
void load_line_again(struct load_line *line);

#endif
