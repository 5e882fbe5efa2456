/* The turns of the workers' threads: when each begins, where it stops half way, and when it
 * goes on. */
#include "tests/sim/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/inbox.h"
#include "tests/sim/front.h"
#include "tests/sim/world.h"

enum { STACK_SIZE = 512 * 1024 };

/* For clients, of one turn: the millisecond that they may take, and what takes long begins
 * before it is over. */
#define SPENT_MAX_NS (2 * CLOCK_NS_PER_MS)

struct thread *running_thread;

static ucontext_t outside; /* of the turns */

static void on_turn(void *arg);

void threads_init(struct front *front, uint64_t seed)
{
    struct threads_plan *plan = &front->plan;
    char name[24];

    snprintf(name, sizeof(name), "threads of %d", front->number);
    plan->chance = chance_make(seed, name);
    plan->yield_percent = (unsigned)chance_between(&plan->chance, 1, 20);
    plan->refusal_percent = chance_percent(&plan->chance, 33) ? 10 : 0;
    for (int i = 0; i < front->worker_count; i++) {
        struct thread *thread = &front->threads[i];
        *thread = (struct thread){.front = front, .number = i};
        thread->turn = (struct timer){.fire = on_turn, .arg = thread};
        if (front->worker_count > 1)
            thread->stack = malloc(STACK_SIZE);
    }
}

/* --- when a turn begins, and goes on
 * ---------------------------------------------------------------------------------------- */

/* Until a processor is free for it: with several threads that may take long. */
static int64_t start_ns(struct front *front)
{
    struct chance *chance = front->worker_count > 1 ? &front->plan.chance : &front->chance;
    int64_t us = chance_between(chance, 5, 60);

    if (front->worker_count > 1 && chance_percent(chance, 2))
        us = chance_between(chance, 100, 20000);
    return us * 1000;
}

static void turn_in(struct thread *thread, int64_t in_ns)
{
    int64_t at_ns = now_ns() + in_ns;

    if (at_ns < thread->busy_until_ns)
        at_ns = thread->busy_until_ns;
    if (!thread->front->is_alive || thread->is_paused || thread->has_ended ||
        (timer_is_armed(&thread->turn) && thread->turn.at_ns <= at_ns))
        return;
    schedule_at(&thread->turn, at_ns);
}

void thread_poke(struct thread *thread)
{
    if (thread->is_amid)
        thread->was_poked = true;
    else
        turn_in(thread, start_ns(thread->front));
}

static void await_turn(struct thread *thread)
{
    int64_t next_ns = loop_next_ns(thread->loop);
    int64_t left_ns = next_ns - front_clock_ns(thread->front);

    if (thread->was_poked || (next_ns >= 0 && left_ns <= 0))
        thread_poke(thread);
    else if (next_ns >= 0)
        turn_in(thread, left_ns);
    thread->was_poked = false;
}

void thread_pause(struct thread *thread, bool is_paused)
{
    thread->is_paused = is_paused;
    if (is_paused)
        schedule_cancel(&thread->turn);
    else
        turn_in(thread, start_ns(thread->front));
}

/* --- the turns
 * ------------------------------------------------------------------------------ */

static void take_turns(void)
{
    struct thread *thread = running_thread;

    for (;;) {
        loop_turn(thread->loop);
        thread->is_amid = false;
        swapcontext(&thread->context, &outside);
    }
}

void thread_begin(struct thread *thread)
{
    thread->is_paused = thread->has_ended = thread->is_closed = false;
    thread->is_amid = thread->was_poked = thread->has_long_turns = false;
    thread->mutexes = 0;
    thread->spent_ns = thread->busy_until_ns = 0;
    memset(thread->rounds, 0, sizeof(thread->rounds));
    if (thread->stack == NULL)
        return;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_SIZE;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, take_turns, 0);
}

void thread_lose(struct thread *thread)
{
    schedule_cancel(&thread->turn);
    thread->has_ended = true;
    thread->is_amid = false;
}

void thread_spend(struct thread *thread, int64_t ns)
{
    thread->spent_ns += ns;
    if (thread->spent_ns <= SPENT_MAX_NS || thread->has_long_turns)
        return;
    thread->has_long_turns = true;
    record_complaint(thread->front, now_ns(), "a turn is long before Redis is read again");
}

/* No turn begins while the time passes that this turn has spent. */
static void spend(struct thread *thread)
{
    if (thread->spent_ns == 0)
        return;
    thread->busy_until_ns = now_ns() + thread->spent_ns;
    thread->spent_ns = 0;
    if (timer_is_armed(&thread->turn) && thread->turn.at_ns < thread->busy_until_ns)
        schedule_at(&thread->turn, thread->busy_until_ns);
}

static void on_turn(void *arg)
{
    struct thread *thread = arg;

    running_front = thread->front;
    running_thread = thread;
    if (thread->stack != NULL) {
        thread->is_amid = true;
        swapcontext(&outside, &thread->context);
    } else {
        loop_turn(thread->loop);
    }
    running_thread = NULL;
    if (!thread->is_amid)
        spend(thread);
    if (thread->is_amid)
        ; /* goes on later */
    else if (loop_is_stopped(thread->loop))
        front_thread_ended(thread);
    else
        await_turn(thread);
    running_front = NULL;
}

void thread_may_yield(void)
{
    struct thread *thread = running_thread;
    int saved_errno = errno;

    if (thread == NULL || !thread->is_amid || thread->mutexes > 0 ||
        !chance_percent(&thread->front->plan.chance, thread->front->plan.yield_percent))
        return;
    schedule_in(&thread->turn, start_ns(thread->front));
    swapcontext(&thread->context, &outside);
    errno = saved_errno;
}

/* --- messages between the workers of a front end
 * -------------------------------------------------------------------------- */

bool __real_inbox_post(struct inbox *inbox, struct inbox_message *message);
bool __wrap_inbox_post(struct inbox *inbox, struct inbox_message *message);

bool __wrap_inbox_post(struct inbox *inbox, struct inbox_message *message)
{
    struct threads_plan *plan = &running_front->plan;

    thread_may_yield();
    if (chance_percent(&plan->chance, plan->refusal_percent) ||
        !__real_inbox_post(inbox, message))
        return false;
    world.passed++;
    if (plan->listener != NULL)
        task_wake(plan->listener);
    plan->listener = NULL;
    return true;
}

void threads_await_message(struct front *front, int64_t most_ns)
{
    front->plan.listener = task_current();
    task_wait(most_ns);
    front->plan.listener = NULL;
}
