/* storage/wait/acquire.c, on its real waiters: one that waits for several locks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/acquisitions.h"

#define OTHER "invoices"

/* a wants both, in this order: invoices, orders. */
static int set_up_several(void **state)
{
    static const char *const names[] = {LOCK, OTHER};

    if (set_up(state) != 0)
        return 1;
    lock_names_unref(a->lease.names);
    a->lease.names = lock_names_new(names, 2);
    a->lease.kind = KIND_SET_LOCK;
    return 0;
}

static void answer_busy(size_t number, int64_t remaining_ms)
{
    struct attempt_result result = {
        .outcome = TRY_BUSY, .remaining_ms = remaining_ms, .blocking_index = number};

    answer_with(a, &result);
}

/* Waits for orders, asleep. */
static void wait_for_orders(void)
{
    start(a, WAIT_MS);
    answer_busy(2, TTL_MS);
    ready(CHANNEL_OF(LOCK));
    answer_busy(2, TTL_MS);
    assert_null(attempt_of(a));
    assert_int_equal(a->suspended, 1);
}

static void waits_for_the_one_blocking_index(void **state)
{
    (void)state;
    wait_for_orders();
    assert_null(CHANNEL_OF(OTHER));
    unlocked();
    assert_non_null(attempt_of(a));
    /* The script is told, so that it looks there first. */
    assert_int_equal(attempt_of(a)->blocking_index, 2);
    answer_busy(1, 700);
    assert_non_null(CHANNEL_OF(OTHER));
    ready(CHANNEL_OF(OTHER));
    answer_busy(1, 700);
    unlocked();
    assert_null(attempt_of(a));
    assert_int_equal(a->suspended, 1);
    /* It sleeps as long as that one is held. */
    pass(702 * MS);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(a->withdrawn, 0);
    assert_int_equal(metrics.values[METRIC_WAITS_STARTED], 1);
}

static void others_of_that_lock_are_not_left_asleep(void **state)
{
    (void)state;
    wait_for_orders();
    start_waiting(b);
    unlocked();
    assert_null(attempt_of(b));
    answer_busy(1, TTL_MS);
    assert_non_null(attempt_of(b));
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
}

/* What was published before it stood in the queue of the other lock. */
static void message_of_the_other_lock_is_not_missed(void **state)
{
    (void)state;
    lock_names_unref(b->lease.names);
    b->lease.names = lock_names_of_one(OTHER);
    start(b, WAIT_MS);
    answer(b, TRY_BUSY);
    ready(CHANNEL_OF(OTHER));
    answer(b, TRY_BUSY);
    wait_for_orders();
    unlocked();
    publish(CHANNEL_OF(OTHER), "0");
    answer(b, TRY_GRANTED);
    publish(CHANNEL_OF(OTHER), "0"); /* nobody waits there */
    answer_busy(1, TTL_MS);
    assert_non_null(attempt_of(a));
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

static void start_prepared_wait(void)
{
    start(a, WAIT_MS);
    answer_preparation(a, TRY_GRANTED, NULL);
    answer_busy(2, TTL_MS);
    ready(CHANNEL_OF(LOCK));
    answer_busy(2, TTL_MS);
}

static void sessions_and_leases_are_heard_in_either_queue(void **state)
{
    (void)state;
    snprintf(a->lease.session_id, sizeof(a->lease.session_id), "s");
    start_prepared_wait();
    acquirer_session_changed(acquirer, "s", NULL);
    assert_non_null(attempt_of(a));
    answer_busy(1, TTL_MS);
    ready(CHANNEL_OF(OTHER));
    answer_busy(1, TTL_MS);
    acquirer_session_changed(acquirer, "other", NULL);
    assert_null(attempt_of(a));
    acquirer_session_changed(acquirer, "s", NULL);
    assert_non_null(attempt_of(a));
    /* While it tries, and goes to the other queue with that attempt. */
    acquirer_session_changed(acquirer, "s", NULL);
    answer_busy(2, TTL_MS);
    assert_non_null(attempt_of(a));
    answer(a, TRY_REFUSED);
    expect_done(a, TRY_REFUSED);
    assert_int_equal(a->withdrawn, 1);
}

static void owner_got(const char *session_id, const char *owner, const char *name)
{
    struct owner_grant grant = {.name = name, .len = strlen(name)};

    snprintf(grant.owner, sizeof(grant.owner), "%s", owner);
    acquirer_session_changed(acquirer, session_id, &grant);
}

/* Those of the owner that wait for the lock, and no others. */
static void grant_to_the_owner_wakes_those_of_that_lock(void **state)
{
    (void)state;
    snprintf(a->lease.session_id, sizeof(a->lease.session_id), "s");
    snprintf(a->lease.owner, sizeof(a->lease.owner), "me");
    start_prepared_wait();
    owner_got("s", "me", OTHER);
    owner_got("s", "me", LOCK "/1");
    owner_got("s", "you", LOCK);
    owner_got("other", "me", LOCK);
    assert_null(attempt_of(a));
    owner_got("s", "me", LOCK);
    assert_non_null(attempt_of(a));
    /* While it tries, and goes to the other queue with that attempt. */
    owner_got("s", "me", LOCK);
    answer_busy(1, TTL_MS);
    assert_non_null(attempt_of(a));
    answer_busy(1, TTL_MS);
    ready(CHANNEL_OF(OTHER));
    answer_busy(1, TTL_MS);
    owner_got("s", "me", LOCK);
    assert_null(attempt_of(a));
    owner_got("s", "me", OTHER);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

/* The attempt that is left behind keeps what it needs. */
static void names_outlive_one_that_is_cancelled(void **state)
{
    (void)state;
    wait_for_orders();
    unlocked();
    cancel(a);
    assert_int_equal(a->withdrawn, 1);
    assert_int_equal(a->lease.names->refs, 2);
    answer_busy(1, TTL_MS);
    assert_int_equal(a->lease.names->refs, 1);
}

static void wait_ends(void **state)
{
    (void)state;
    wait_for_orders();
    unlocked();
    answer_busy(1, TTL_MS);
    ready(CHANNEL_OF(OTHER));
    answer_busy(1, TTL_MS);
    while (attempt_of(a) == NULL || attempt_of(a)->wait_ms > 0) {
        if (attempt_of(a) != NULL)
            answer_busy(1, TTL_MS);
        pass(next_timer_ns());
    }
    answer_busy(1, TTL_MS);
    expect_done(a, TRY_BUSY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_several, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waits_for_the_one_blocking_index),
        TEST(others_of_that_lock_are_not_left_asleep),
        TEST(message_of_the_other_lock_is_not_missed),
        TEST(sessions_and_leases_are_heard_in_either_queue),
        TEST(grant_to_the_owner_wakes_those_of_that_lock),
        TEST(names_outlive_one_that_is_cancelled),
        TEST(wait_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
