/* storage/wait/acquire.c, on its real waiters: how an acquisition ends, and what is taken back.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/acquisitions.h"

/* --- every outcome of an attempt, wherever it comes ----------------------------------------
 */

enum when {
    ONLY,      /* the only attempt of a client that does not wait */
    FIRST,     /* the first one of a client that would */
    TURN,      /* of a client that waits */
    FINAL,     /* at the deadline */
    UNDER_WAY, /* sent before the deadline, answered after it */
    WHENS
};

/* Whether the attempt, or those before it, may have left something behind. */
enum withdrawal { NO, YES, ANY };

enum { GOES_ON = -1 };

struct ending {
    int outcome; /* GOES_ON: it does not end */
    enum withdrawal withdrawal;
};

static const struct {
    enum try_outcome outcome;
    struct ending endings[WHENS];
} rows[] = {
    {TRY_GRANTED,
     {[ONLY] = {TRY_GRANTED, NO},
      [FIRST] = {TRY_GRANTED, NO},
      [TURN] = {TRY_GRANTED, NO},
      [FINAL] = {TRY_GRANTED, NO},
      [UNDER_WAY] = {TRY_GRANTED, NO}}},
    {TRY_CONFIRMED,
     {[ONLY] = {TRY_CONFIRMED, NO},
      [FIRST] = {TRY_CONFIRMED, NO},
      [TURN] = {TRY_CONFIRMED, NO},
      [FINAL] = {TRY_CONFIRMED, NO},
      [UNDER_WAY] = {TRY_CONFIRMED, NO}}},
    {TRY_BUSY,
     {[ONLY] = {TRY_BUSY, NO},
      [FIRST] = {GOES_ON, NO},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {TRY_BUSY, ANY},
      [UNDER_WAY] = {TRY_BUSY, YES}}},
    {TRY_NOT_EXECUTED,
     {[ONLY] = {TRY_NOT_EXECUTED, NO},
      [FIRST] = {TRY_NOT_EXECUTED, ANY},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {TRY_NOT_EXECUTED, YES},
      [UNDER_WAY] = {TRY_NOT_EXECUTED, YES}}},
    {TRY_UNKNOWN,
     {[ONLY] = {TRY_UNKNOWN, YES},
      [FIRST] = {TRY_UNKNOWN, YES},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {TRY_UNKNOWN, YES},
      [UNDER_WAY] = {TRY_UNKNOWN, YES}}},
    /* A refusal does not always take the request off the list of waiters. */
    {TRY_REFUSED,
     {[ONLY] = {TRY_REFUSED, NO},
      [FIRST] = {TRY_REFUSED, ANY},
      [TURN] = {TRY_REFUSED, YES},
      [FINAL] = {TRY_REFUSED, YES},
      [UNDER_WAY] = {TRY_REFUSED, YES}}},
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* Brings `a` to where its attempt is under way. */
static void bring_to(enum when when)
{
    if (when == ONLY || when == FIRST) {
        start(a, when == ONLY ? 0 : WAIT_MS);
        return;
    }
    start_waiting(a);
    if (when == FINAL) {
        doze(a, WAIT_MS);
        return;
    }
    unlocked();
    if (when == UNDER_WAY)
        pass(WAIT_MS * MS);
}

static void expect_ending(enum try_outcome outcome, enum when when, const struct ending *ending)
{
    bool withdrawn = a->withdrawn == 1;

    if (a->withdrawn > 1 ||
        (ending->withdrawal != ANY && withdrawn != (ending->withdrawal == YES)))
        fail_msg("outcome %d at %d: %u withdrawals", (int)outcome, (int)when, a->withdrawn);
    if (ending->outcome == GOES_ON ? a->done != 0 || a->acquisition == NULL
                                   : a->done != 1 || (int)a->result.outcome != ending->outcome)
        fail_msg("outcome %d at %d: %u calls, with %d", (int)outcome, (int)when, a->done,
                 (int)a->result.outcome);
    assert_null(attempt_of(a));
}

static void every_outcome_has_its_ending(void **state)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up(state), 0);
            bring_to(when);
            size_t attempts = store.attempt_count;
            answer(a, rows[i].outcome);
            expect_ending(rows[i].outcome, when, &rows[i].endings[when]);
            assert_int_equal(store.attempt_count, attempts);
            bool waits = when > FIRST || rows[i].endings[when].outcome == GOES_ON;
            assert_int_equal(a->suspended, waits);
            tear_down(state);
        }
    }
}

/* Redis may have forgotten the script, and run it after the withdrawal that came behind it. */
static bool may_have_run_late(enum try_outcome outcome)
{
    return outcome == TRY_GRANTED || outcome == TRY_BUSY || outcome == TRY_UNKNOWN;
}

/* Its grant, if there is one, is taken back behind the attempt; nobody is told anything. */
static void every_outcome_of_a_cancelled_attempt_is_withdrawn(void **state)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up(state), 0);
            bring_to(when);
            size_t attempts = store.attempt_count;
            cancel(a);
            assert_int_equal(a->withdrawn, 1);
            assert_int_equal(a->withdrawn_after, attempts);
            answer(a, rows[i].outcome);
            assert_int_equal(a->withdrawn, 1);
            assert_int_equal(store.orphans_withdrawn, may_have_run_late(rows[i].outcome));
            assert_int_equal(a->done, 0);
            assert_int_equal(store.attempt_count, attempts);
            tear_down(state);
        }
    }
}

/* --- what an ending depends on ------------------------------------------------------------ */

static void result_is_handed_on(void **state)
{
    struct lease_result lease = {.outcome = LEASE_GRANTED};
    struct attempt_result result = {
        .outcome = TRY_GRANTED, .remaining_ms = 29999, .lease = &lease};

    (void)state;
    start(a, 0);
    answer_with(a, &result);
    expect_done(a, TRY_GRANTED);
    assert_ptr_equal(a->result.lease, &lease);
    assert_null(a->result.counter);
}

/* Its holder would work without the lock. */
static void late_grant_is_none(void **state)
{
    static const enum try_outcome outcomes[] = {TRY_GRANTED, TRY_CONFIRMED};
    struct attempt_result result = {0};

    for (size_t i = 0; i < 2; i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up(state), 0);
            bring_to(when);
            result.outcome = outcomes[i];
            answer_with(a, &result);
            expect_done(a, TRY_UNKNOWN);
            assert_int_equal(a->withdrawn, 1);
            tear_down(state);
        }
    }
}

static void unknown_attempt_is_not_forgotten(void **state)
{
    static const struct {
        enum try_outcome last;
        enum try_outcome done;
        bool withdrawn;
    } after_unknown[] = {
        {TRY_GRANTED, TRY_GRANTED, false},
        {TRY_CONFIRMED, TRY_CONFIRMED, false},
        {TRY_NOT_EXECUTED, TRY_UNKNOWN, true},
        {TRY_UNKNOWN, TRY_UNKNOWN, true},
        {TRY_BUSY, TRY_BUSY, true},
    };

    for (size_t i = 0; i < sizeof(after_unknown) / sizeof(after_unknown[0]); i++) {
        assert_int_equal(set_up(state), 0);
        bring_to(TURN);
        answer(a, TRY_UNKNOWN);
        assert_int_equal(a->done, 0);
        doze(a, WAIT_MS);
        answer(a, after_unknown[i].last);
        expect_done(a, after_unknown[i].done);
        assert_int_equal(a->withdrawn, after_unknown[i].withdrawn);
        tear_down(state);
    }
}

static void refused_attempt_sleeps_half_a_second(void **state)
{
    (void)state;
    bring_to(TURN);
    answer(a, TRY_NOT_EXECUTED);
    assert_in_range(next_timer_ns(), 400 * MS, 600 * MS);
    pass(next_timer_ns());
    assert_non_null(attempt_of(a));
    answer(a, TRY_UNKNOWN);
    assert_in_range(next_timer_ns(), 400 * MS, 600 * MS);
    acquirer_redis_is_up(acquirer);
    assert_non_null(attempt_of(a));
}

/* The deadline may be over before its timer's turn. */
static void answer_after_the_deadline_is_the_last(void **state)
{
    (void)state;
    start(a, 5);
    loop.now_ns += 5 * MS;
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(a->suspended, 0);
    assert_null(CHANNEL_OF(LOCK));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_ending),
        cmocka_unit_test(every_outcome_of_a_cancelled_attempt_is_withdrawn),
        TEST(result_is_handed_on),
        cmocka_unit_test(late_grant_is_none),
        cmocka_unit_test(unknown_attempt_is_not_forgotten),
        TEST(refused_attempt_sleeps_half_a_second),
        TEST(answer_after_the_deadline_is_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
