/* storage/census/read.c: the rest behind each step of the census, by which it takes a hundredth
 * of Redis' time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "storage/census/census_internal.h"
#include "server/base/loop.h"
#include "storage/store/store_internal.h"

#define MS CLOCK_NS_PER_MS
#define S CLOCK_NS_PER_S

static void never(void *arg)
{
    (void)arg;
    fail();
}

static struct store store;
static struct timer rest = {.fire = never};

/* Ms of the rest behind a step that took so long. */
static int64_t rest_ms(int64_t took_ns)
{
    struct loop *loop = store.options.loop;

    census_rest(&store, &rest, clock_ns() - took_ns);
    assert_true(timer_is_armed(&rest));
    return (rest.at_ns - loop_now_ns(loop)) / MS;
}

static void a_rest_is_99_times_as_long_as_its_step(void **state)
{
    (void)state;
    assert_in_range(rest_ms(5 * MS), 99 * 5, 99 * 20);
    timer_cancel(loop_timers(store.options.loop), &rest);
}

/* Redis does not work for so long. */
static void a_machine_that_stood_still_puts_off_no_picture(void **state)
{
    (void)state;
    assert_in_range(rest_ms(2 * S), 99 * 20 - 1, 99 * 20);
    timer_cancel(loop_timers(store.options.loop), &rest);
}

/* Steps whose time a clock hardly shows do not follow each other at once. */
static void a_short_step_has_a_rest(void **state)
{
    (void)state;
    assert_in_range(rest_ms(0), 9, 99 * 20);
    timer_cancel(loop_timers(store.options.loop), &rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rest_is_99_times_as_long_as_its_step),
        cmocka_unit_test(a_machine_that_stood_still_puts_off_no_picture),
        cmocka_unit_test(a_short_step_has_a_rest),
    };

    store.options.loop = loop_new();
    assert_non_null(store.options.loop);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_free(store.options.loop);
    return failed;
}
