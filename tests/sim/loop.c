/* In place of server/base/loop.c: the same turns, but of virtual time. Instead of epoll the
 * simulated sockets are asked. */
#include "server/base/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "server/base/loop_hooks.h"
#include "tests/sim/bells.h"
#include "tests/sim/bytes.h"
#include "tests/sim/front.h"
#include "tests/sim/sockets.h"

enum { WATCHES_MAX = 64 };

struct loop {
    struct thread *thread;
    struct timers timers;
    struct loop_hooks hooks;
    int64_t now_ns;
    bool again, stopping;
    size_t watch_count;
    struct loop_watch *watches[WATCHES_MAX];
    uint32_t wanted[WATCHES_MAX];
};

struct loop *loop_new(void)
{
    struct loop *loop = zalloc(sizeof(*loop));

    loop->thread = running_thread;
    loop->thread->loop = loop;
    loop_hooks_init(&loop->hooks);
    loop->now_ns = clock_ns();
    timers_init(&loop->timers);
    return loop;
}

void loop_free(struct loop *loop)
{
    timers_release(&loop->timers);
    free(loop);
}

void loop_set_busy_poll(struct loop *loop, int64_t limit_ns)
{
    (void)loop;
    (void)limit_ns;
}

static size_t find_watch(const struct loop *loop, const struct loop_watch *watch)
{
    size_t i = 0;

    while (i < loop->watch_count && loop->watches[i] != watch)
        i++;
    return i;
}

int loop_watch_add(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
{
    if (loop->watch_count == WATCHES_MAX)
        abort();
    loop->watches[loop->watch_count] = watch;
    loop->wanted[loop->watch_count++] = epoll_events;
    return 0;
}

int loop_watch_change(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
{
    loop->wanted[find_watch(loop, watch)] = epoll_events;
    return 0;
}

void loop_watch_remove(struct loop *loop, struct loop_watch *watch)
{
    size_t at = find_watch(loop, watch);

    if (at == loop->watch_count)
        return;
    loop->watch_count--;
    for (; at < loop->watch_count; at++) {
        loop->watches[at] = loop->watches[at + 1];
        loop->wanted[at] = loop->wanted[at + 1];
    }
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook)
{
    loop_hooks_add(&loop->hooks, hook);
}

void loop_hook_remove(struct loop *loop, struct loop_hook *hook)
{
    loop_hooks_remove(&loop->hooks, hook);
}

struct timers *loop_timers(struct loop *loop)
{
    return &loop->timers;
}

int64_t loop_now_ns(const struct loop *loop)
{
    return loop->now_ns;
}

void loop_again(struct loop *loop)
{
    loop->again = true;
}

void loop_await(struct loop *loop, unsigned replies)
{
    (void)loop; /* a turn of virtual time polls for nothing */
    (void)replies;
}

void loop_run(struct loop *loop)
{
    (void)loop; /* the schedule runs it */
    abort();
}

void loop_wake(struct loop *loop)
{
    thread_poke(loop->thread);
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}

bool loop_is_stopped(const struct loop *loop)
{
    return loop->stopping;
}

struct thread *loop_thread(const struct loop *loop)
{
    return loop->thread;
}

static uint32_t ready_events(const struct loop *loop, size_t at)
{
    int fd = loop->watches[at]->fd;
    uint32_t events = bell_of(fd) != NULL ? bell_events(bell_of(fd)) : socket_events(fd);

    return events & (loop->wanted[at] | EPOLLERR | EPOLLHUP);
}

int64_t loop_next_ns(struct loop *loop)
{
    bool is_ready = loop->again;

    for (size_t i = 0; i < loop->watch_count && !is_ready; i++)
        is_ready = ready_events(loop, i) != 0;
    return is_ready ? clock_ns() : timers_next_ns(&loop->timers);
}

void loop_turn(struct loop *loop)
{
    struct loop_watch *ready[WATCHES_MAX];
    uint32_t events[WATCHES_MAX];
    size_t count = 0;

    loop->again = false;
    for (size_t i = 0; i < loop->watch_count; i++) {
        events[count] = ready_events(loop, i);
        if (events[count] == 0)
            continue;
        if (bell_of(loop->watches[i]->fd) != NULL)
            bell_heard(bell_of(loop->watches[i]->fd));
        ready[count++] = loop->watches[i];
    }
    loop->now_ns = clock_ns();
    for (size_t i = 0; i < count; i++)
        if (find_watch(loop, ready[i]) < loop->watch_count)
            ready[i]->ready(ready[i]->arg, events[i]);
    timers_run(&loop->timers, loop->now_ns);
    loop_hooks_run(&loop->hooks);
}
