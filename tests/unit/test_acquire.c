/* storage/acquire.c, on its real waiters: how an acquisition ends, and what is taken back. */
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
    enum lock_outcome outcome;
    struct ending endings[WHENS];
} rows[] = {
    {LOCK_GRANTED,
     {[ONLY] = {LOCK_GRANTED, NO},
      [FIRST] = {LOCK_GRANTED, NO},
      [TURN] = {LOCK_GRANTED, NO},
      [FINAL] = {LOCK_GRANTED, NO},
      [UNDER_WAY] = {LOCK_GRANTED, NO}}},
    {LOCK_HELD,
     {[ONLY] = {LOCK_HELD, NO},
      [FIRST] = {LOCK_HELD, NO},
      [TURN] = {LOCK_HELD, NO},
      [FINAL] = {LOCK_HELD, NO},
      [UNDER_WAY] = {LOCK_HELD, NO}}},
    {LOCK_BUSY,
     {[ONLY] = {LOCK_BUSY, NO},
      [FIRST] = {GOES_ON, NO},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {LOCK_BUSY, ANY},
      [UNDER_WAY] = {LOCK_BUSY, YES}}},
    {LOCK_NOT_EXECUTED,
     {[ONLY] = {LOCK_NOT_EXECUTED, NO},
      [FIRST] = {LOCK_NOT_EXECUTED, ANY},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {LOCK_NOT_EXECUTED, YES},
      [UNDER_WAY] = {LOCK_NOT_EXECUTED, YES}}},
    {LOCK_UNKNOWN,
     {[ONLY] = {LOCK_UNKNOWN, YES},
      [FIRST] = {LOCK_UNKNOWN, YES},
      [TURN] = {GOES_ON, NO},
      [FINAL] = {LOCK_UNKNOWN, YES},
      [UNDER_WAY] = {LOCK_UNKNOWN, YES}}},
    /* These take the lease off the list of waiters themselves. */
    {LOCK_ENDED,
     {[ONLY] = {LOCK_ENDED, NO},
      [FIRST] = {LOCK_ENDED, ANY},
      [TURN] = {LOCK_ENDED, ANY},
      [FINAL] = {LOCK_ENDED, ANY},
      [UNDER_WAY] = {LOCK_ENDED, ANY}}},
    {LOCK_REUSED,
     {[ONLY] = {LOCK_REUSED, NO},
      [FIRST] = {LOCK_REUSED, ANY},
      [TURN] = {LOCK_REUSED, ANY},
      [FINAL] = {LOCK_REUSED, ANY},
      [UNDER_WAY] = {LOCK_REUSED, ANY}}},
    /* And these do not. */
    {LOCK_WRONG_KIND,
     {[ONLY] = {LOCK_WRONG_KIND, NO},
      [FIRST] = {LOCK_WRONG_KIND, ANY},
      [TURN] = {LOCK_WRONG_KIND, YES},
      [FINAL] = {LOCK_WRONG_KIND, YES},
      [UNDER_WAY] = {LOCK_WRONG_KIND, YES}}},
    {LOCK_OUT_OF_MEMORY,
     {[ONLY] = {LOCK_OUT_OF_MEMORY, NO},
      [FIRST] = {LOCK_OUT_OF_MEMORY, ANY},
      [TURN] = {LOCK_OUT_OF_MEMORY, YES},
      [FINAL] = {LOCK_OUT_OF_MEMORY, YES},
      [UNDER_WAY] = {LOCK_OUT_OF_MEMORY, YES}}},
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

static void expect_ending(enum lock_outcome outcome, enum when when,
                          const struct ending *ending)
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
            assert_int_equal(a->parked, waits);
            tear_down(state);
        }
    }
}

/* Redis may have forgotten the script, and run it after the withdrawal that came behind it. */
static bool may_have_run_late(enum lock_outcome outcome)
{
    return outcome == LOCK_GRANTED || outcome == LOCK_BUSY || outcome == LOCK_UNKNOWN;
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
    struct lock_result result = {.outcome = LOCK_GRANTED,
                                 .fencing_token = 1750000000000001,
                                 .remaining_ms = 29999,
                                 .ttl_ms = TTL_MS,
                                 .note = "n"};

    (void)state;
    start(a, 0);
    answer_with(a, &result);
    expect_done(a, LOCK_GRANTED);
    assert_memory_equal(&a->result, &result, sizeof(result));
}

/* Its holder would work without the lock. */
static void late_grant_is_none(void **state)
{
    static const enum lock_outcome outcomes[] = {LOCK_GRANTED, LOCK_HELD};
    struct lock_result result = {0};

    for (size_t i = 0; i < 2; i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up(state), 0);
            bring_to(when);
            result.outcome = outcomes[i];
            answer_with(a, &result);
            expect_done(a, LOCK_UNKNOWN);
            assert_int_equal(a->withdrawn, 1);
            tear_down(state);
        }
    }
}

static void unknown_attempt_is_not_forgotten(void **state)
{
    static const struct {
        enum lock_outcome last, done;
        bool withdrawn;
    } after_unknown[] = {
        {LOCK_GRANTED, LOCK_GRANTED, false},
        {LOCK_HELD, LOCK_HELD, false},
        {LOCK_NOT_EXECUTED, LOCK_UNKNOWN, true},
        {LOCK_UNKNOWN, LOCK_UNKNOWN, true},
        {LOCK_BUSY, LOCK_BUSY, true},
    };

    for (size_t i = 0; i < sizeof(after_unknown) / sizeof(after_unknown[0]); i++) {
        assert_int_equal(set_up(state), 0);
        bring_to(TURN);
        answer(a, LOCK_UNKNOWN);
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
    answer(a, LOCK_NOT_EXECUTED);
    assert_in_range(next_timer_ns(), 400 * MS, 600 * MS);
    pass(next_timer_ns());
    assert_non_null(attempt_of(a));
    answer(a, LOCK_UNKNOWN);
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
    answer(a, LOCK_BUSY);
    expect_done(a, LOCK_BUSY);
    assert_int_equal(a->parked, 0);
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
