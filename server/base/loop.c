/* The turns of the event loop: epoll, timers, hooks, and the wake-up by another thread. */
#include "server/base/loop.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/busy_poll.h"
#include "server/base/clock.h"
#include "server/base/loop_hooks.h"

enum { EVENTS_PER_TURN = 256 };
#define SLEEP_MAX_NS (60 * CLOCK_NS_PER_S)

struct loop {
    int epoll_fd;
    struct loop_watch waker;
    struct timers timers;
    struct loop_hooks hooks;
    int64_t now_ns;
    bool again, stopping, sleeps_for_ms;
    struct busy_poll busy_poll;
    unsigned awaited; /* replies, when the turn began to wait */
    int event_count;  /* the events of this turn, so that a removed watch can be taken out of it
                       */
    struct epoll_event events[EVENTS_PER_TURN];
};

static void drain_waker(void *arg, uint32_t epoll_events)
{
    struct loop *loop = arg;
    uint64_t count;

    (void)epoll_events;
    while (read(loop->waker.fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

struct loop *loop_new(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL)
        return NULL;
    loop_hooks_init(&loop->hooks);
    loop->now_ns = clock_ns();
    timers_init(&loop->timers);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->waker.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop->waker.ready = drain_waker;
    loop->waker.arg = loop;
    if (loop->epoll_fd < 0 || loop->waker.fd < 0 ||
        loop_watch_add(loop, &loop->waker, EPOLLIN) != 0) {
        loop_free(loop);
        return NULL;
    }
    return loop;
}

void loop_free(struct loop *loop)
{
    if (loop->waker.fd >= 0)
        close(loop->waker.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    timers_release(&loop->timers);
    free(loop);
}

void loop_set_busy_poll(struct loop *loop, int64_t limit_ns)
{
    busy_poll_init(&loop->busy_poll, limit_ns);
}

static int control(struct loop *loop, int op, struct loop_watch *watch, uint32_t epoll_events)
{
    struct epoll_event event = {.events = epoll_events, .data.ptr = watch};

    return epoll_ctl(loop->epoll_fd, op, watch->fd, &event);
}

int loop_watch_add(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
{
    return control(loop, EPOLL_CTL_ADD, watch, epoll_events);
}

int loop_watch_change(struct loop *loop, struct loop_watch *watch, uint32_t epoll_events)
{
    return control(loop, EPOLL_CTL_MOD, watch, epoll_events);
}

void loop_watch_remove(struct loop *loop, struct loop_watch *watch)
{
    control(loop, EPOLL_CTL_DEL, watch, 0);
    for (int i = 0; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
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
    loop->awaited += replies;
}

/* Nanoseconds to sleep; negative: until an event. */
static int64_t sleep_ns(const struct loop *loop, int64_t now_ns)
{
    int64_t next_ns = timers_next_ns(&loop->timers);
    int64_t left_ns = next_ns - now_ns;

    if (loop->again || (next_ns >= 0 && left_ns <= 0))
        return 0;
    if (next_ns < 0)
        return -1;
    return left_ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : left_ns;
}

/* A lock lies idle until the timer of its yield fires, so a millisecond matters. Linux before
 * 5.11 and some sandboxes have no epoll_pwait2(2); epoll_wait(2) knows milliseconds, which are
 * rounded up so that a timer is never a turn early. */
static int find_events(struct loop *loop, int64_t timeout_ns)
{
    if (timeout_ns > 0 && !loop->sleeps_for_ms) {
        struct timespec timeout = {.tv_sec = timeout_ns / CLOCK_NS_PER_S,
                                   .tv_nsec = timeout_ns % CLOCK_NS_PER_S};
        int count = epoll_pwait2(loop->epoll_fd, loop->events, EVENTS_PER_TURN, &timeout, NULL);
        if (count >= 0 || errno == EINTR)
            return count;
        loop->sleeps_for_ms = true;
    }
    return epoll_wait(loop->epoll_fd, loop->events, EVENTS_PER_TURN,
                      timeout_ns <= 0 ? (int)timeout_ns
                                      : (int)((timeout_ns - 1) / CLOCK_NS_PER_MS + 1));
}

/* The number of events; 0: the limit has passed. */
static int poll_events(struct loop *loop, enum busy_poll_wait wait, int64_t now_ns)
{
    int64_t end_ns = now_ns + loop->busy_poll.limit_ns, looked_ns;
    int count;

    do {
        looked_ns = now_ns;
        sched_yield(); /* Redis or a client may need this processor to cause the event */
        count = find_events(loop, 0);
        now_ns = clock_ns();
    } while (count == 0 && now_ns < end_ns);
    busy_poll_ended(&loop->busy_poll, wait, count != 0, now_ns - looked_ns, now_ns);
    return count;
}

/* Several replies come one after the other while this thread works on the first ones: a poll
 * would save few sleeps. */
static int await_events(struct loop *loop)
{
    int64_t now_ns = clock_ns();
    int64_t timeout_ns = sleep_ns(loop, now_ns);
    int count;
    enum busy_poll_wait wait = loop->awaited == 0 ? BUSY_POLL_FOR_ANYTHING
                                                  : BUSY_POLL_FOR_REPLY;

    if (timeout_ns == 0 || loop->awaited > 1)
        return find_events(loop, timeout_ns);
    if (busy_poll_is_on(&loop->busy_poll, wait, now_ns)) {
        count = poll_events(loop, wait, now_ns);
        return count != 0 ? count : find_events(loop, timeout_ns);
    }
    count = find_events(loop, timeout_ns);
    busy_poll_slept(&loop->busy_poll, wait, clock_ns() - now_ns);
    return count;
}

static void take_turn(struct loop *loop)
{
    loop->event_count = await_events(loop);
    loop->again = false;
    loop->awaited = 0;
    loop->now_ns = clock_ns();
    for (int i = 0; i < loop->event_count; i++) {
        struct loop_watch *watch = loop->events[i].data.ptr;
        if (watch != NULL)
            watch->ready(watch->arg, loop->events[i].events);
    }
    loop->event_count = 0;
    timers_run(&loop->timers, loop->now_ns);
    loop_hooks_run(&loop->hooks);
}

void loop_run(struct loop *loop)
{
    loop->stopping = false;
    while (!loop->stopping)
        take_turn(loop);
}

void loop_wake(struct loop *loop)
{
    uint64_t one = 1;
    int saved_errno = errno;

    /* EAGAIN only means that the counter is full, so the loop is awake anyway. */
    while (write(loop->waker.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    errno = saved_errno;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
