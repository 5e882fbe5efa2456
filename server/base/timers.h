/* Timers of one event loop: a binary heap of intrusive entries. Arming a timer allocates no
 * memory once the heap has grown; cancelling a timer needs no search. */
#ifndef RLOCKD_SERVER_BASE_TIMERS_H
#define RLOCKD_SERVER_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in its owner. A zeroed timer is valid and not armed. */
struct timer {
    int64_t at_ns;
    size_t slot; /* place in the heap plus one; 0: not armed */
    void (*fire)(void *arg);
    void *arg;
};

struct timers {
    struct timer **heap;
    size_t count, size;
    bool running;
    int64_t run_ns; /* the time of that run */
};

void timers_init(struct timers *timers);
/* The timers still armed are forgotten, not fired: their owners must be there still. */
void timers_release(struct timers *timers);

/* Arms `timer`, or moves it when it is armed already; `at_ns` as in clock_ns(). Within
 * timers_run() a time that has come already is that of the next run. */
void timer_arm(struct timers *timers, struct timer *timer, int64_t at_ns);
/* Does nothing when the timer is not armed. */
void timer_cancel(struct timers *timers, struct timer *timer);
bool timer_is_armed(const struct timer *timer);

/* Fires the timers that are due at `now_ns`. Each timer is disarmed before its callback, which
 * may arm the timer again; the timer then fires in a later run, so that this run always
 * ends. */
void timers_run(struct timers *timers, int64_t now_ns);
/* When the next timer is due, or -1 when no timer is armed. */
int64_t timers_next_ns(const struct timers *timers);

#endif
