/* storage/wait/next_waiter.c: when the waiters of a worker leave a release to other clients. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/hand_overs.h"

enum { HAND_OVERS_MAX = 64, HAND_OVERS_MS = 50, STREAK = 8, YIELD_MS = 5 };

static void turns_are_bounded(void **state)
{
    (void)state;
    start_waiting(a);
    for (int i = 0; i < HAND_OVERS_MAX; i++) {
        assert_true(release());
        grant_and_rejoin();
    }
    assert_false(release());
    assert_true(release());
    grant_and_rejoin();
    pass((HAND_OVERS_MS + 1) * MS);
    assert_false(release());
    assert_true(release());
    grant_and_rejoin();
}

static void release_that_grants_nothing_is_no_turn(void **state)
{
    (void)state;
    start_waiting(a);
    for (int i = 0; i <= HAND_OVERS_MAX; i++) {
        assert_true(release());
        answer_hand_over(NULL, NULL);
    }
}

/* The release under way is offered to other clients first, after a whole streak. */
static void expect_others_first(void)
{
    assert_true(release());
    assert_int_equal(sent.own_listeners, 1);
}

static void hand_over_often(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        assert_true(release());
        assert_int_equal(sent.own_listeners, 0);
        grant_and_rejoin();
    }
}

/* A whole streak, of which the first hand-over finds that nobody else listens. */
static void begin_streak(int64_t ms)
{
    expect_others_first();
    grant_and_rejoin();
    pass(ms * MS);
    hand_over_often(STREAK - 1);
}

static void others_come_first_now_and_then(void **state)
{
    (void)state;
    start_waiting(a);
    begin_streak(0); /* they may have waited while nobody waited here */
    begin_streak(0);
    expect_others_first();
    grant_and_rejoin();
    hand_over_often(1);
    pass((HAND_OVERS_MS + 1) * MS);
    assert_false(release()); /* everybody's turn */
    expect_others_first();
    grant_and_rejoin();
}

/* The worker's waiters leave the lock to others for as long as its hand-overs took. */
static void others_have_the_lock_to_themselves(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    begin_streak(2);
    expect_others_first();
    unlocked(); /* by this release */
    answer_yield();
    assert_int_equal(holder.done, 1);
    assert_null(attempt_of(a));
    assert_false(release()); /* of what a request without a wait got meanwhile */
    unlocked();              /* by another holder */
    assert_null(attempt_of(a));
    start(c, WAIT_MS);
    assert_null(attempt_of(c));
    assert_int_equal(next_timer_ns(), 2 * MS);
    pass(2 * MS - 1);
    assert_null(attempt_of(a));
    pass(1);
    assert_non_null(attempt_of(a));
    assert_null(attempt_of(b));
    unlocked();
    answer(a, TRY_BUSY); /* and tries again: others' messages count now */
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    hand_over_often(STREAK);
    expect_others_first();
    grant_and_rejoin();
}

static void yield_is_short(void **state)
{
    (void)state;
    start_waiting(a);
    begin_streak(40);
    expect_others_first();
    answer_yield();
    assert_int_equal(next_timer_ns(), YIELD_MS * MS);
    pass(YIELD_MS * MS);
    assert_non_null(attempt_of(a));
}

/* Other clients may listen and want no lock: a front end whose waiters have left. */
static void what_others_do_not_take_is_offered_less_often(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    begin_streak(1);
    expect_others_first();
    unlocked();
    answer_yield();
    pass(1 * MS);
    answer(a, TRY_GRANTED);
    hand_over_often(1);
    pass(2 * MS);
    hand_over_often(2 * STREAK - 1);
    expect_others_first();
    unlocked();
    answer_yield();
    unlocked(); /* they take it now */
    pass(2 * MS);
    answer(b, TRY_GRANTED);
    start(c, WAIT_MS);
    hand_over_often(STREAK);
    expect_others_first();
    grant_and_rejoin();
}

/* The only client with an attempt under way. */
static const struct client *trying_client(void)
{
    const struct client *trying = NULL;

    for (size_t i = 0; i < CLIENTS; i++) {
        if (attempt_of(&clients[i]) != NULL) {
            assert_null(trying);
            trying = &clients[i];
        }
    }
    assert_non_null(trying);
    return trying;
}

/* The yield that is the rarest still comes before the release that is open to all, which the
 * worker's own waiters may win each time. */
static void yields_never_end(void **state)
{
    unsigned streak = STREAK;

    (void)state;
    start_waiting(a);
    start_waiting(b);
    start_waiting(c);
    begin_streak(1);
    for (int i = 0; i < 3; i++) {
        expect_others_first();
        unlocked();
        answer_yield();
        pass(1 * MS);
        answer(trying_client(), TRY_GRANTED);
        if (i == 0)
            start(d, WAIT_MS);
        streak = streak * 2 < HAND_OVERS_MAX ? streak * 2 : HAND_OVERS_MAX - 1;
        hand_over_often(1);
        pass(1 * MS);
        hand_over_often(streak - 1);
    }
    expect_others_first();
    answer_yield();
}

/* Two front ends with a client each: that of the release asks again at once, and would get the
 * lock again and again. It leaves the lock to the client of the other front end, without an
 * attempt, until the message that this one has released it. */
static void the_only_client_leaves_the_lock_to_others(void **state)
{
    (void)state;
    start_waiting(a);
    unlocked();
    answer(a, TRY_GRANTED);
    assert_false(release()); /* nobody else has had it, as far as is known */
    unlocked();
    start(b, WAIT_MS);
    answer(b, TRY_BUSY);
    unlocked(); /* by another client, which had it meanwhile */
    pass(1 * MS);
    answer(b, TRY_GRANTED);
    assert_false(release());
    unlocked();
    start(c, WAIT_MS);
    assert_null(attempt_of(c));
    pass(1 * MS);
    assert_null(attempt_of(c));
    unlocked();
    assert_non_null(attempt_of(c));
    answer(c, TRY_GRANTED);
    pass(1 * MS);
    assert_false(release());
    unlocked();
    start(d, WAIT_MS);
    assert_null(attempt_of(d));
    pass(5 * MS); /* nobody takes it */
    assert_non_null(attempt_of(d));
}

/* A yield during which no request waits does not end the worker's subscription. */
static void a_yield_without_requests_forgets_nothing(void **state)
{
    (void)state;
    start_waiting(a);
    unlocked();
    answer(a, TRY_GRANTED);
    assert_false(release());
    unlocked();
    unlocked(); /* by another client */
    start(b, WAIT_MS);
    pass(1 * MS);
    answer(b, TRY_GRANTED);
    assert_false(release());
    unlocked();
    pass(YIELD_MS * 2 * MS);
    assert_true(CHANNEL_OF(LOCK)->live);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_holder, tear_down_holder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(turns_are_bounded),
        TEST(release_that_grants_nothing_is_no_turn),
        TEST(others_come_first_now_and_then),
        TEST(others_have_the_lock_to_themselves),
        TEST(yield_is_short),
        TEST(what_others_do_not_take_is_offered_less_often),
        TEST(yields_never_end),
        TEST(the_only_client_leaves_the_lock_to_others),
        TEST(a_yield_without_requests_forgets_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
