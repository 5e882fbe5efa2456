/* The threads of a front end, one for each worker. All of them run on the one thread of the
 * simulation: a turn of a worker's loop is an event of the schedule. Where a process has
 * several workers a turn may stop half way, for what the others do meanwhile. */
#ifndef RLOCKD_TESTS_SIM_THREADS_H
#define RLOCKD_TESTS_SIM_THREADS_H

#include <stdbool.h>
#include <ucontext.h>

#include "tests/sim/chance.h"
#include "tests/sim/schedule.h"

struct front;
struct loop;
struct worker;

/* At one thread: see http.c. */
enum { STRANGERS_MAX = 1000 };

struct thread {
    struct front *front;
    int number;
    bool is_paused, has_ended;
    bool is_closed;        /* its listener: takes no new connections */
    bool is_amid;          /* a turn has begun, and is not over */
    bool was_poked;        /* meanwhile */
    bool has_long_turns;   /* and that is in the history */
    int mutexes;           /* that it holds */
    int64_t spent_ns;      /* by this turn so far, for clients */
    int64_t busy_until_ns; /* with the turn before */
    uint64_t rounds[STRANGERS_MAX];
    struct timer turn;
    struct loop *loop;
    struct worker *worker;
    ucontext_t context;
    char *stack; /* NULL: its process has no other worker */
};

/* Of a process with several workers: which of them runs when. */
struct threads_plan {
    struct chance chance;
    unsigned yield_percent;   /* of the places where a turn may stop half way */
    unsigned refusal_percent; /* of the messages to another worker, as of a full inbox */
    struct task *listener;    /* is woken by the next one */
};

/* The one whose code runs now; NULL: the main thread of the process. */
extern struct thread *running_thread;

void threads_init(struct front *front, uint64_t seed);
/* As those of a process that has just begun. */
void thread_begin(struct thread *thread);
/* The process is gone, wherever the thread was. */
void thread_lose(struct thread *thread);
/* Stands still; or goes on where it was. */
void thread_pause(struct thread *thread, bool is_paused);
/* In a turn: so much time of its processor was for clients. A turn begins with what has come
 * from Redis and with timers that are due, so it must not spend long. */
void thread_spend(struct thread *thread, int64_t ns);
/* Something came for it: its next turn is soon. */
void thread_poke(struct thread *thread);
/* In the code of a thread: other threads may run here. Not while it holds a mutex. */
void thread_may_yield(void);

/* Of a task: until a worker of the front end sends a message to another worker, or for so long.
 */
void threads_await_message(struct front *front, int64_t most_ns);

/* front.c: the loop of the thread has ended. */
void front_thread_ended(struct thread *thread);

/* loop.c */
void loop_turn(struct loop *loop);
/* When it has something to do, by its own clock; -1: never. */
int64_t loop_next_ns(struct loop *loop);
bool loop_is_stopped(const struct loop *loop);
struct thread *loop_thread(const struct loop *loop);

#endif
