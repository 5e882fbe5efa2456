/* storage/wait/acquire_timer.c: when a wait becomes long, and that its end is told. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/acquisitions.h"

static unsigned begun, ended;
static bool goes_on; /* the client may ask again */

static struct long_wait *on_began(void *arg, struct acquisition *acquisition)
{
    (void)acquisition;
    begun++;
    return arg;
}

static struct deadlock *on_ended(struct long_wait *long_wait, bool may_ask_again)
{
    assert_ptr_equal(long_wait, &begun);
    assert_int_equal(a->done, 0); /* the lease is still there */
    goes_on = may_ask_again;
    ended++;
    return NULL;
}

static int set_up_watched(void **state)
{
    static const struct long_wait_watcher watcher = {on_began, on_ended, &begun};

    begun = ended = 0;
    long_waits = &watcher;
    return set_up(state);
}

static void a_short_wait_is_not_told_of(void **state)
{
    (void)state;
    start_waiting(a);
    doze(a, LONG_WAIT_MS - 1);
    unlocked();
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(begun + ended, 0);
}

static void a_wait_becomes_long_once(void **state)
{
    (void)state;
    start_waiting(a);
    doze(a, LONG_WAIT_MS);
    assert_int_equal(begun, 1);
    doze(a, 3 * LONG_WAIT_MS);
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 0);
    unlocked();
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(ended, 1);
    assert_false(goes_on);
}

static void a_long_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    start_waiting(a);
    doze(a, WAIT_MS - 1);
    assert_int_equal(a->done, 0);
    pass(MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(ended, 1);
    assert_true(goes_on);
}

static void a_client_that_goes_ends_its_long_wait(void **state)
{
    (void)state;
    start_waiting(a);
    doze(a, 2 * LONG_WAIT_MS);
    cancel(a);
    assert_int_equal(ended, 1);
    assert_false(goes_on);
}

/* A deadline before that leaves no time to become long in. */
static void a_wait_with_an_early_deadline_never_becomes_long(void **state)
{
    (void)state;
    start(a, LONG_WAIT_MS);
    answer(a, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(a, TRY_BUSY);
    pass(LONG_WAIT_MS * MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(begun + ended, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_watched, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_short_wait_is_not_told_of),
        TEST(a_wait_becomes_long_once),
        TEST(a_long_wait_ends_at_its_deadline),
        TEST(a_client_that_goes_ends_its_long_wait),
        TEST(a_wait_with_an_early_deadline_never_becomes_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
