/* The event loop of one worker thread: descriptors (epoll), timers, work at the end of each
 * turn, and a function by which another thread wakes the loop.
 *
 * The files of this folder, which every other folder may call, and which calls none (client/
 * has a house of its own):
 *
 *   loop.c          the turns of the event loop
 *   loop_hooks.c    what is called at the end of each turn
 *   timers.c        the heap of a loop's timers
 *   busy_poll.c     whether the next wait of a loop begins with a poll
 *   inbox.c         messages to the loop of another thread
 *   config.c        the table of settings, flags and environment
 *   config_text.c   --help and the man page
 *   log.c           log lines
 *   log_output.c    writes that wait for no reader
 *   metrics.c       the table of metrics, and their page
 *   histogram.c     durations in buckets
 *   metrics_quorum.c  rounds and clocks of a quorum
 *   prefix_times.c  durations for each prefix of names
 *   notify.c        tells the service manager, as sd_notify(3) does
 *   token.c         tokens, and the ids that are derived from them
 *   text.c          numbers, names, UTF-8, percent encoding
 *   json_text.c     writes JSON
 *   json_scan.c     looks at JSON before it is parsed
 *   date.c          dates of RFC 3339
 *   pool.c          blocks of one size */
#ifndef RLOCKD_SERVER_BASE_LOOP_H
#define RLOCKD_SERVER_BASE_LOOP_H

#include <stdint.h>

#include "server/base/timers.h"

struct loop;

/* A watched descriptor, embedded in its owner. The owner also closes the descriptor. */
struct loop_watch {
    int fd;
    void (*ready)(void *arg, uint32_t epoll_events);
    void *arg;
};

/* Work done once a turn, after the events and timers of that turn; embedded in its owner. Hooks
 * run in the order in which they were added. */
struct loop_hook {
    void (*run)(void *arg);
    void *arg;
    struct loop_hook *next;
};

/* NULL when the kernel refuses a descriptor. */
struct loop *loop_new(void);
void loop_free(struct loop *loop);
/* Lets the loop poll for events for up to `limit_ns` before it sleeps, while that pays; 0, as
 * at first: never. */
void loop_set_busy_poll(struct loop *loop, int64_t limit_ns);

/* Starts watching; `epoll_events` as in epoll_ctl(2). Non-zero: errno tells why not. */
int loop_watch_add(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
    __attribute__((warn_unused_result));
int loop_watch_change(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
    __attribute__((warn_unused_result));
/* After this `ready` is not called again, not even for an event of this very turn. Call it
 * before the descriptor is closed. */
void loop_watch_remove(struct loop *loop, struct loop_watch *watch);

void loop_hook_add(struct loop *loop, struct loop_hook *hook);
/* Not from within a hook. */
void loop_hook_remove(struct loop *loop, struct loop_hook *hook);

/* Timers of this loop, to be armed from its own thread. */
struct timers *loop_timers(struct loop *loop);
/* The time at which this turn began, as clock_ns(); cheap. */
int64_t loop_now_ns(const struct loop *loop);

/* Asks for another turn at once, since work was found too late in this one. */
void loop_again(struct loop *loop);

/* From a hook: `replies` of another server are under way when this turn ends; more than 2 count
 * as 2. */
void loop_await(struct loop *loop, unsigned replies);

/* Runs until loop_stop(). */
void loop_run(struct loop *loop);
/* From any thread, also from a signal handler: the loop takes a turn. */
void loop_wake(struct loop *loop);
/* From the loop's own thread: loop_run() returns after this turn. */
void loop_stop(struct loop *loop);

#endif
