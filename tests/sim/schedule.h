/* Virtual time of the whole simulation, what is to happen in it, and tasks: functions that may
 * sleep in it. */
#ifndef RLOCKD_TESTS_SIM_SCHEDULE_H
#define RLOCKD_TESTS_SIM_SCHEDULE_H

#include "server/base/clock.h"
#include "server/base/timers.h"

/* The real time of an observer outside, in ns. */
int64_t now_ns(void);
void schedule_at(struct timer *timer, int64_t at_ns);
void schedule_in(struct timer *timer, int64_t in_ns);
void schedule_cancel(struct timer *timer);
/* Lets everything happen, until `stop` is true or nothing is left to happen. */
void schedule_run(const bool *stop);

struct task;

/* The function begins in a later event. `done`, unless NULL, goes up when it has returned. */
struct task *task_start(void (*run)(void *arg), void *arg, int *done);
struct task *task_current(void);
void task_sleep(int64_t ns);
/* Until task_wake(), or for so long: false. */
bool task_wait(int64_t most_ns);
void task_wake(struct task *task);

#endif
