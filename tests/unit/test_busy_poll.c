/* server/base/busy_poll.c: when polls begin, when they end, and how long the pauses are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/busy_poll.h"
#include "server/base/clock.h"

#define LIMIT_NS (50 * CLOCK_NS_PER_US)
#define LONG_NS (10 * LIMIT_NS)

enum { MANY = 100 };

static struct busy_poll poll;
static int64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    busy_poll_init(&poll, LIMIT_NS);
    now_ns = CLOCK_NS_PER_S;
    return 0;
}

static bool is_on(enum busy_poll_wait wait)
{
    return busy_poll_is_on(&poll, wait, now_ns);
}

static void sleep_often(enum busy_poll_wait wait, int64_t slept_ns)
{
    for (int i = 0; i < MANY; i++)
        busy_poll_slept(&poll, wait, slept_ns);
}

static void short_sleeps_begin_the_polling(void **state)
{
    (void)state;
    assert_false(is_on(BUSY_POLL_FOR_REPLY));
    sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    assert_true(is_on(BUSY_POLL_FOR_REPLY));
}

static void long_sleeps_do_not(void **state)
{
    (void)state;
    sleep_often(BUSY_POLL_FOR_REPLY, LONG_NS);
    assert_false(is_on(BUSY_POLL_FOR_REPLY));
}

static void a_limit_of_zero_allows_no_poll(void **state)
{
    (void)state;
    busy_poll_init(&poll, 0);
    sleep_often(BUSY_POLL_FOR_REPLY, 0);
    assert_false(is_on(BUSY_POLL_FOR_REPLY));
}

static void each_kind_of_wait_is_judged_alone(void **state)
{
    (void)state;
    sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    sleep_often(BUSY_POLL_FOR_ANYTHING, LONG_NS);
    assert_true(is_on(BUSY_POLL_FOR_REPLY));
    assert_false(is_on(BUSY_POLL_FOR_ANYTHING));
}

static void end_poll(bool has_found, int64_t away_ns)
{
    busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY, has_found, away_ns, now_ns);
}

static void polls_that_find_events_go_on(void **state)
{
    (void)state;
    sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    for (int i = 0; i < MANY; i++) {
        end_poll(i % 4 != 0, 0);
        assert_true(is_on(BUSY_POLL_FOR_REPLY));
    }
}

/* Waits that are short when they sleep, and last longer than each poll. */
static void polls_in_vain_take_little_time(void **state)
{
    int64_t end_ns = now_ns + CLOCK_NS_PER_S, polled_ns = 0;

    (void)state;
    while (now_ns < end_ns) {
        bool polls = is_on(BUSY_POLL_FOR_REPLY);
        now_ns += LIMIT_NS;
        if (polls) {
            end_poll(false, 0);
            polled_ns += LIMIT_NS;
        } else {
            busy_poll_slept(&poll, BUSY_POLL_FOR_REPLY, LIMIT_NS);
        }
    }
    assert_true(polled_ns > 0);
    assert_true(polled_ns < CLOCK_NS_PER_S / 20);
}

/* The time until short sleeps begin the polling again. */
static int64_t pause_ns(void)
{
    int64_t began_ns = now_ns;

    for (; !is_on(BUSY_POLL_FOR_REPLY); now_ns += CLOCK_NS_PER_MS)
        sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    return now_ns - began_ns;
}

static void a_disturbed_poll_ends_the_polling_for_many_times_as_long(void **state)
{
    (void)state;
    pause_ns();
    end_poll(true, LIMIT_NS); /* a script of Redis */
    assert_true(is_on(BUSY_POLL_FOR_REPLY));
    end_poll(true, CLOCK_NS_PER_MS);
    assert_false(is_on(BUSY_POLL_FOR_REPLY));
    int64_t short_ns = pause_ns();
    assert_true(short_ns >= 20 * CLOCK_NS_PER_MS);
    end_poll(true, 4 * CLOCK_NS_PER_MS);
    assert_true(pause_ns() >= 3 * short_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_sleeps_begin_the_polling, set_up),
        cmocka_unit_test_setup(long_sleeps_do_not, set_up),
        cmocka_unit_test_setup(a_limit_of_zero_allows_no_poll, set_up),
        cmocka_unit_test_setup(each_kind_of_wait_is_judged_alone, set_up),
        cmocka_unit_test_setup(polls_that_find_events_go_on, set_up),
        cmocka_unit_test_setup(polls_in_vain_take_little_time, set_up),
        cmocka_unit_test_setup(a_disturbed_poll_ends_the_polling_for_many_times_as_long,
                               set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
