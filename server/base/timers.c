/* The binary heap of timers. */
#include "server/base/timers.h"

#include <assert.h>
#include <stdlib.h>

void timers_init(struct timers *timers)
{
    *timers = (struct timers){0};
}

void timers_release(struct timers *timers)
{
    for (size_t i = 0; i < timers->count; i++)
        timers->heap[i]->slot = 0;
    free(timers->heap);
    *timers = (struct timers){0};
}

static void place(struct timers *timers, size_t i, struct timer *timer)
{
    timers->heap[i] = timer;
    timer->slot = i + 1;
}

static void sift_up(struct timers *timers, size_t i, struct timer *timer)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (timers->heap[parent]->at_ns <= timer->at_ns)
            break;
        place(timers, i, timers->heap[parent]);
        i = parent;
    }
    place(timers, i, timer);
}

static void sift_down(struct timers *timers, size_t i, struct timer *timer)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= timers->count)
            break;
        if (child + 1 < timers->count &&
            timers->heap[child + 1]->at_ns < timers->heap[child]->at_ns)
            child++;
        if (timers->heap[child]->at_ns >= timer->at_ns)
            break;
        place(timers, i, timers->heap[child]);
        i = child;
    }
    place(timers, i, timer);
}

static void settle(struct timers *timers, size_t i, struct timer *timer)
{
    if (i > 0 && timers->heap[(i - 1) / 2]->at_ns > timer->at_ns)
        sift_up(timers, i, timer);
    else
        sift_down(timers, i, timer);
}

void timer_arm(struct timers *timers, struct timer *timer, int64_t at_ns)
{
    assert(timer->fire != NULL);
    if (timers->running && at_ns <= timers->run_ns)
        at_ns = timers->run_ns + 1;
    timer->at_ns = at_ns;
    if (timer->slot != 0) {
        settle(timers, timer->slot - 1, timer);
        return;
    }
    if (timers->count == timers->size) {
        size_t size = timers->size ? timers->size * 2 : 64;
        struct timer **heap = realloc(timers->heap, size * sizeof(*heap));
        assert(heap != NULL); /* a deadline that cannot be kept is worse than a restart */
        timers->heap = heap;
        timers->size = size;
    }
    timers->count++;
    sift_up(timers, timers->count - 1, timer);
}

void timer_cancel(struct timers *timers, struct timer *timer)
{
    if (timer->slot == 0)
        return;
    size_t i = timer->slot - 1;
    struct timer *last = timers->heap[--timers->count];
    timer->slot = 0;
    if (last != timer)
        settle(timers, i, last);
}

bool timer_is_armed(const struct timer *timer)
{
    return timer->slot != 0;
}

void timers_run(struct timers *timers, int64_t now_ns)
{
    timers->running = true;
    timers->run_ns = now_ns;
    while (timers->count > 0 && timers->heap[0]->at_ns <= now_ns) {
        struct timer *due = timers->heap[0];
        timer_cancel(timers, due);
        due->fire(due->arg);
    }
    timers->running = false;
}

int64_t timers_next_ns(const struct timers *timers)
{
    return timers->count ? timers->heap[0]->at_ns : -1;
}
