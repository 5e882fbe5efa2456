/* server/loop.c: what is due again and again keeps nothing else from its turn. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/loop.h"

enum { TURNS = 3, FAR_TOO_MANY = 1000, TRIES = 100 };

static struct loop *loop;
static struct timer busy;
static struct loop_watch watch;
static int ends[2];
static unsigned fired, ready, turns;

/* Due at once, again and again, as the refusals of calls that are made again are. */
static void on_busy(void *arg)
{
    (void)arg;
    if (++fired > FAR_TOO_MANY)
        fail_msg("a turn without end");
    timer_arm(loop_timers(loop), &busy, 0);
}

static void on_ready(void *arg, uint32_t epoll_events)
{
    (void)arg;
    (void)epoll_events;
    ready++;
}

static void on_turn(void *arg)
{
    (void)arg;
    if (++turns == TURNS)
        loop_stop(loop);
}

static int set_up(void **state)
{
    static struct loop_hook hook;

    (void)state;
    loop = loop_new();
    fired = ready = turns = 0;
    busy = (struct timer){.fire = on_busy};
    hook = (struct loop_hook){.run = on_turn};
    if (loop == NULL || pipe(ends) != 0)
        return -1;
    loop_hook_add(loop, &hook);
    watch = (struct loop_watch){.fd = ends[0], .ready = on_ready};
    return loop_watch_add(loop, &watch, EPOLLIN);
}

static int tear_down(void **state)
{
    (void)state;
    loop_watch_remove(loop, &watch);
    close(ends[0]);
    close(ends[1]);
    loop_free(loop);
    return 0;
}

static void a_timer_that_is_always_due_leaves_turns_to_others(void **state)
{
    (void)state;
    timer_arm(loop_timers(loop), &busy, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    loop_run(loop);
    assert_int_equal(fired, TURNS);
    assert_int_equal(ready, TURNS); /* nobody has read what is there */
}

/* With polls and without, events are found, and timers are due. */
static void a_loop_that_polls_finds_events_and_timers(void **state)
{
    char byte;

    (void)state;
    loop_set_busy_poll(loop, 10 * CLOCK_NS_PER_MS);
    assert_int_equal(write(ends[1], "x", 1), 1);
    for (unsigned run = 1; run <= 10; run++) { /* the first sleep, the others poll */
        turns = 0;
        loop_run(loop);
        assert_int_equal(ready, run * TURNS);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    timer_arm(loop_timers(loop), &busy, clock_ns() + CLOCK_NS_PER_MS);
    turns = 0;
    loop_run(loop); /* one poll to the limit, then the timer */
    assert_int_equal(fired, TURNS);
}

/* The best of many, because other programs may have the processors. */
static void a_timer_is_due_within_a_millisecond(void **state)
{
    int64_t least_ns = INT64_MAX;
    struct epoll_event none;

    (void)state;
    for (int try = 0; try < TRIES; try++) {
        int64_t begin_ns = clock_ns();
        fired = 0;
        turns = TURNS - 2; /* one turn that sleeps, and one that may come too early */
        timer_arm(loop_timers(loop), &busy, begin_ns + CLOCK_NS_PER_MS / 10);
        loop_run(loop);
        int64_t took_ns = clock_ns() - begin_ns;
        assert_true(fired > 0 && took_ns >= CLOCK_NS_PER_MS / 10);
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    if (epoll_pwait2(-1, &none, 1, NULL, NULL) != 0 && (errno == ENOSYS || errno == EPERM))
        skip(); /* no sleep is shorter here */
    assert_true(least_ns < CLOCK_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_timer_that_is_always_due_leaves_turns_to_others,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loop_that_polls_finds_events_and_timers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_timer_is_due_within_a_millisecond, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
