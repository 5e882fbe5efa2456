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

static void polls_that_find_events_go_on(void **state)
{
    (void)state;
    sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    for (int i = 0; i < MANY; i++) {
        busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY,
                        i % 4 == 0 ? BUSY_POLL_NOTHING : BUSY_POLL_FOUND, now_ns);
        assert_true(is_on(BUSY_POLL_FOR_REPLY));
    }
}

/* Polls in vain until the polling ends. Returns their number. */
static int poll_in_vain(void)
{
    int polls = 0;

    while (is_on(BUSY_POLL_FOR_REPLY)) {
        busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY, BUSY_POLL_NOTHING, now_ns);
        if (++polls > MANY)
            fail_msg("polls in vain without end");
    }
    return polls;
}

/* The pause before short sleeps begin the polling again. */
static int64_t pause_ns(void)
{
    int64_t began_ns = now_ns;

    for (; !is_on(BUSY_POLL_FOR_REPLY); now_ns += CLOCK_NS_PER_MS)
        sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    return now_ns - began_ns;
}

static void polls_in_vain_are_fewer_and_fewer(void **state)
{
    (void)state;
    pause_ns();
    assert_in_range(poll_in_vain(), 1, 8);
    int64_t first_ns = pause_ns(), last_ns = 0;
    for (int i = 0; i < 16; i++) {
        poll_in_vain();
        last_ns = pause_ns();
    }
    assert_true(last_ns >= 100 * first_ns);
    assert_true(last_ns <= 2 * CLOCK_NS_PER_S);
}

static void after_a_second_of_polls_the_next_pause_is_short(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        pause_ns();
        poll_in_vain();
    }
    pause_ns();
    for (int i = 0; i < MANY; i++) {
        now_ns += 2 * CLOCK_NS_PER_S / MANY;
        busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY, BUSY_POLL_FOUND, now_ns);
    }
    poll_in_vain();
    assert_true(pause_ns() <= 10 * CLOCK_NS_PER_MS);
}

static void one_disturbed_poll_ends_the_polling(void **state)
{
    (void)state;
    sleep_often(BUSY_POLL_FOR_REPLY, LIMIT_NS);
    for (int i = 0; i < MANY; i++)
        busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY, BUSY_POLL_FOUND, now_ns);
    busy_poll_ended(&poll, BUSY_POLL_FOR_REPLY, BUSY_POLL_DISTURBED, now_ns);
    assert_false(is_on(BUSY_POLL_FOR_REPLY));
    assert_true(pause_ns() >= CLOCK_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_sleeps_begin_the_polling, set_up),
        cmocka_unit_test_setup(long_sleeps_do_not, set_up),
        cmocka_unit_test_setup(a_limit_of_zero_allows_no_poll, set_up),
        cmocka_unit_test_setup(each_kind_of_wait_is_judged_alone, set_up),
        cmocka_unit_test_setup(polls_that_find_events_go_on, set_up),
        cmocka_unit_test_setup(polls_in_vain_are_fewer_and_fewer, set_up),
        cmocka_unit_test_setup(after_a_second_of_polls_the_next_pause_is_short, set_up),
        cmocka_unit_test_setup(one_disturbed_poll_ends_the_polling, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
