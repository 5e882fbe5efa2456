/* storage/wait/share.c: when other clients come first, and for how long. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/clock.h"
#include "storage/wait/share.h"

#define MS CLOCK_NS_PER_MS
#define NOW (1000 * CLOCK_NS_PER_S)

enum { STREAK_MIN = 8, STREAK_MAX = 63, SERIES_MAX = 64 };

static unsigned waiters;

/* The lock has just been free for all clients. */
static struct share fresh(void)
{
    struct share share = {.here = 0};

    waiters = 1;
    share_taken_freely(&share, NOW);
    return share;
}

static void hand_over(struct share *share, int64_t now_ns)
{
    share_choose(share, waiters, now_ns);
    share_handed_over(share, now_ns);
}

/* Hands over until a release is for other clients first. Returns the hand-overs before. */
static int hand_over_for_a_streak(struct share *share, int64_t now_ns)
{
    int count = 0;

    for (share_choose(share, waiters, now_ns); !share->others_first;
         share_choose(share, waiters, now_ns)) {
        share_handed_over(share, now_ns);
        assert_true(++count < 1000);
    }
    return count;
}

/* Ends a streak with a yield, in which so many messages come; then the first attempt. */
static void yield_and_try(struct share *share, int messages, bool got_it)
{
    share_message(share); /* of the release by this worker */
    share_yield(share, NOW, NOW + MS);
    for (int i = 0; i < messages; i++)
        share_message(share);
    share_yielded(share, got_it);
}

static void other_clients_come_first_after_a_streak(void **state)
{
    struct share share = fresh();

    (void)state;
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN);
    share_handed_over(&share, NOW); /* none listens: the next streak begins with this one */
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN - 1);
}

/* Else most of many waiters would have no turn before the lock goes elsewhere, and it would go
 * there too often: that takes longer than a hand-over. */
static void a_streak_is_a_round_of_the_waiters(void **state)
{
    struct share share = fresh();

    (void)state;
    waiters = STREAK_MIN + 1;
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN + 1);
    share = fresh();
    waiters = STREAK_MAX + 1;
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MAX);
    waiters = STREAK_MIN; /* others have gone meanwhile */
    share_choose(&share, waiters, NOW);
    assert_true(share.others_first);
    yield_and_try(&share, 1, true);
    waiters = 1;
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN);
}

static void other_clients_come_first_after_a_while(void **state)
{
    struct share share = fresh();

    (void)state;
    share_choose(&share, waiters, NOW + 50 * MS);
    assert_false(share.others_first);
    share_choose(&share, waiters, NOW + 51 * MS);
    assert_true(share.others_first);
}

static void streaks_get_longer_while_nobody_wants_the_lock(void **state)
{
    static const int expected[] = {8, 16, 32, STREAK_MAX, STREAK_MAX};
    struct share share = fresh();

    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(hand_over_for_a_streak(&share, NOW), expected[i]);
        yield_and_try(&share, 0, true);
    }
}

static void streaks_are_short_again_when_others_want_the_lock(void **state)
{
    static const struct {
        int messages;
        bool got_it;
    } cases[] = {{1, true}, {0, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct share share = fresh();
        hand_over_for_a_streak(&share, NOW);
        yield_and_try(&share, 0, true);
        hand_over_for_a_streak(&share, NOW);
        yield_and_try(&share, cases[i].messages, cases[i].got_it);
        assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN);
    }
}

static void only_the_first_attempt_after_a_yield_counts(void **state)
{
    struct share share = fresh();

    (void)state;
    hand_over_for_a_streak(&share, NOW);
    yield_and_try(&share, 0, true);
    share_yielded(&share, false);
    assert_int_equal(hand_over_for_a_streak(&share, NOW), 2 * STREAK_MIN);
}

static void a_yield_lasts_as_long_as_the_streak(void **state)
{
    static const int64_t cases[][2] = {{0, 0}, {3, 3}, {5, 5}, {40, 5}}; /* streak, yield: ms */
    struct share share = fresh();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t now_ns = NOW + cases[i][0] * MS;
        assert_int_equal(share_next_yield_end_ns(&share, now_ns), now_ns + cases[i][1] * MS);
    }
}

static void a_worker_tries_after_the_worker_that_yields(void **state)
{
    struct share share = fresh();

    (void)state;
    assert_int_equal(share_yield_end_ns(&share, 0), 0);
    assert_int_equal(share_yield_end_ns(&share, NOW), NOW + MS);
    share_yield(&share, NOW, NOW + 5 * MS);
    assert_int_equal(share_yield_end_ns(&share, 0), NOW + 5 * MS);
    assert_int_equal(share_yield_end_ns(&share, NOW + 2 * MS), NOW + 5 * MS);
    assert_int_equal(share_yield_end_ns(&share, NOW + 6 * MS), NOW + 7 * MS);
}

/* An open release, 1 ms after the last message; then so many messages, its own first. */
static bool release_openly(struct share *share, int messages)
{
    bool yields;

    share->yield_until_ns = 0;
    share_open_release(share, NOW - MS, NOW);
    yields = share_yield_end_ns(share, 0) > NOW;
    for (int i = 0; i < messages; i++)
        share_message(share);
    return yields;
}

static void who_had_the_lock_has_its_turn_again(void **state)
{
    struct share share = fresh();

    (void)state;
    assert_false(release_openly(&share, 1));
    assert_false(release_openly(&share, 1));
    assert_false(release_openly(&share, 2)); /* another client had it after this release */
    assert_true(release_openly(&share, 1));
    assert_int_equal(share_yield_end_ns(&share, 0), NOW + 4 * MS + MS / 2);
    share_message(&share); /* it has had its turn */
    assert_int_equal(share_yield_end_ns(&share, 0), 0);
    share_choose(&share, waiters, NOW); /* the yield does not come back */
    assert_int_equal(share_yield_end_ns(&share, 0), 0);
    share_yielded(&share, true);
    assert_true(release_openly(&share, 3));
    share_yielded(&share, true);
    assert_false(release_openly(&share, 2)); /* it had two turns */
    hand_over(&share, NOW);                  /* others wait here */
    assert_false(release_openly(&share, 2));
}

static void an_open_yield_is_short(void **state)
{
    struct share share = fresh();

    (void)state;
    release_openly(&share, 2);
    share_open_release(&share, NOW - 1000 * MS, NOW);
    assert_int_equal(share_yield_end_ns(&share, 0), NOW + 5 * MS);
}

/* Another client may take the lock now and then: time that it does not use is lost. */
static void open_yields_for_nothing_get_rarer(void **state)
{
    static const int expected[] = {0, 1, 3, 7, 15, 31, 62, 62};
    struct share share = fresh();

    (void)state;
    release_openly(&share, 2);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        for (int passed = 0; passed < expected[i]; passed++)
            assert_false(release_openly(&share, 2));
        assert_true(release_openly(&share, 1));
        share_yielded(&share, true);
        share_message(&share); /* of another client, later */
    }
    for (int passed = 0; passed < 62; passed++)
        assert_false(release_openly(&share, 2));
    assert_true(release_openly(&share, 1));
    share_yielded(&share, false); /* it took the lock */
    share_message(&share);
    assert_true(release_openly(&share, 1));
    assert_int_equal(hand_over_for_a_streak(&share, NOW), STREAK_MIN);
}

static void a_series_ends_with_a_release_that_is_open(void **state)
{
    struct share share = fresh();
    struct hand_over_series series;

    (void)state;
    for (int i = 0; i < SERIES_MAX; i++) {
        share_read_series(&share, 2, NOW, &series);
        assert_false(series.is_open);
        assert_int_equal(series.has_gone_round, i > 2);
        hand_over(&share, NOW);
    }
    share_read_series(&share, 2, NOW, &series);
    assert_true(series.is_open);
    share_read_series(&share, 2, NOW, &series);
    assert_false(series.is_open);
}

static void a_series_ends_after_a_while(void **state)
{
    struct share share = fresh();
    struct hand_over_series series;

    (void)state;
    share_read_series(&share, 0, NOW + 60 * MS, &series);
    assert_false(series.is_open); /* it has not begun */
    hand_over(&share, NOW);
    share_read_series(&share, 0, NOW + 50 * MS, &series);
    assert_false(series.is_open);
    share_read_series(&share, 0, NOW + 51 * MS, &series);
    assert_true(series.is_open);
}

static void a_series_goes_with_the_lock(void **state)
{
    struct share from = fresh(), to = fresh();
    struct hand_over_series series;

    (void)state;
    for (int i = 0; i < 5; i++)
        hand_over(&from, NOW);
    share_read_series(&from, 0, NOW, &series);
    share_passed_on(&from);
    share_take_over(&to, &series);
    assert_int_equal(hand_over_for_a_streak(&to, NOW), STREAK_MIN - 5);
    share_read_series(&to, 0, NOW, &series);
    assert_int_equal(series.hand_overs, STREAK_MIN);
    share_read_series(&from, 0, NOW, &series);
    assert_int_equal(series.hand_overs, 0);
}

static void permits_keep_their_series(void **state)
{
    struct share share = fresh();
    const struct hand_over_series other = {.hand_overs = 60, .streak = 7, .streak_ns = NOW};
    struct hand_over_series series;

    (void)state;
    share.of_permits = true;
    for (int i = 0; i < 3; i++)
        hand_over(&share, NOW);
    share_passed_on(&share);
    share_take_over(&share, &other);
    share_taken_freely(&share, NOW + MS); /* another permit was free */
    share_read_series(&share, 0, NOW, &series);
    assert_int_equal(series.hand_overs, 3);
    assert_int_equal(series.streak, 3);
    assert_int_equal(series.streak_ns, NOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_clients_come_first_after_a_streak),
        cmocka_unit_test(a_streak_is_a_round_of_the_waiters),
        cmocka_unit_test(other_clients_come_first_after_a_while),
        cmocka_unit_test(streaks_get_longer_while_nobody_wants_the_lock),
        cmocka_unit_test(streaks_are_short_again_when_others_want_the_lock),
        cmocka_unit_test(only_the_first_attempt_after_a_yield_counts),
        cmocka_unit_test(a_yield_lasts_as_long_as_the_streak),
        cmocka_unit_test(a_worker_tries_after_the_worker_that_yields),
        cmocka_unit_test(who_had_the_lock_has_its_turn_again),
        cmocka_unit_test(an_open_yield_is_short),
        cmocka_unit_test(open_yields_for_nothing_get_rarer),
        cmocka_unit_test(a_series_ends_with_a_release_that_is_open),
        cmocka_unit_test(a_series_ends_after_a_while),
        cmocka_unit_test(a_series_goes_with_the_lock),
        cmocka_unit_test(permits_keep_their_series),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
