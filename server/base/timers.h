/* Timers of one event loop: a binary heap of intrusive entries, so that arming one allocates
 * nothing once the heap has grown and cancelling one needs no search. */
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
/* The timers still armed are forgotten, not fired. */
void timers_release(struct timers *timers);

/* Arms `timer`, or moves it when it is armed already; `at_ns` as in clock_ns(). Within
 * timers_run() a time that has come already is that of the next run. */
void timer_arm(struct timers *timers, struct timer *timer, int64_t at_ns);
/* Does nothing when the timer is not armed. */
void timer_cancel(struct timers *timers, struct timer *timer);
bool timer_is_armed(const struct timer *timer);

/* Fires what is due at `now_ns`; each timer is disarmed before its call and may be armed again,
 * for a later run: no call can keep this one from its end. */
void timers_run(struct timers *timers, int64_t now_ns);
/* When the next one is due, or -1 when none is armed. */
int64_t timers_next_ns(const struct timers *timers);

#endif
