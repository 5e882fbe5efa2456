/* The queue of virtual time, and the stacks of tasks. */
#include "tests/sim/schedule.h"

#include <stdlib.h>
#include <ucontext.h>

#include "tests/sim/bytes.h"

/* Not 0: a front end takes that for "never" in places. */
#define BEGIN_NS (1000 * CLOCK_NS_PER_S)

enum { STACK_SIZE = 128 * 1024 };

static struct timers events;
static int64_t time_ns = BEGIN_NS;

int64_t now_ns(void)
{
    return time_ns;
}

void schedule_at(struct timer *timer, int64_t at_ns)
{
    timer_arm(&events, timer, at_ns < time_ns ? time_ns : at_ns);
}

void schedule_in(struct timer *timer, int64_t in_ns)
{
    schedule_at(timer, time_ns + in_ns);
}

void schedule_cancel(struct timer *timer)
{
    timer_cancel(&events, timer);
}

void schedule_run(const bool *stop)
{
    while (!*stop && timers_next_ns(&events) >= 0) {
        time_ns = timers_next_ns(&events);
        timers_run(&events, time_ns);
    }
}

/* --- tasks ---------------------------------------------------------------------------------
 */

struct task {
    ucontext_t context;
    struct timer timer;
    void (*run)(void *arg);
    void *arg;
    int *done;
    bool is_over, was_woken;
    char stack[STACK_SIZE];
};

static ucontext_t scheduler;
static struct task *current;

struct task *task_current(void)
{
    return current;
}

static void begin(void)
{
    current->run(current->arg);
    if (current->done != NULL)
        ++*current->done;
    current->is_over = true;
    swapcontext(&current->context, &scheduler);
}

static void resume(void *arg)
{
    struct task *task = arg;

    current = task;
    swapcontext(&scheduler, &task->context);
    current = NULL;
    if (task->is_over)
        free(task);
}

struct task *task_start(void (*run)(void *arg), void *arg, int *done)
{
    struct task *task = malloc(sizeof(*task));

    if (task == NULL || getcontext(&task->context) != 0)
        abort();
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = sizeof(task->stack);
    task->context.uc_link = NULL;
    makecontext(&task->context, begin, 0);
    task->timer = (struct timer){.fire = resume, .arg = task};
    task->run = run;
    task->arg = arg;
    task->done = done;
    task->is_over = task->was_woken = false;
    schedule_in(&task->timer, 0);
    return task;
}

static void leave(void)
{
    swapcontext(&current->context, &scheduler);
}

void task_sleep(int64_t ns)
{
    schedule_in(&current->timer, ns);
    leave();
}

bool task_wait(int64_t most_ns)
{
    current->was_woken = false;
    task_sleep(most_ns);
    return current->was_woken;
}

void task_wake(struct task *task)
{
    task->was_woken = true;
    schedule_in(&task->timer, 0);
}
