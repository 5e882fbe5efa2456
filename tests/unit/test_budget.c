/* server/http/budget.c: what a turn takes, and whose request is next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/base/clock.h"
#include "server/http/budget.h"

enum { CONNECTIONS = 1000, TURNS_MAX = 100 };

/* A turn that begins now, by the real clock. */
static int64_t begin(struct budget *budget)
{
    int64_t now_ns = clock_ns();

    budget_begin_turn(budget, now_ns);
    return now_ns;
}

static void a_turn_ends_by_the_clock(void **state)
{
    struct budget budget;
    uint64_t early = 0, late = 0;

    (void)state;
    budget_init(&budget);
    int64_t now_ns = begin(&budget);
    assert_true(budget_takes_request(&budget, &early, now_ns));
    assert_false(budget_takes_request(&budget, &late, now_ns + 2 * CLOCK_NS_PER_MS));
    assert_true(budget_has_put_off(&budget));
    assert_false(budget_takes_answer(&budget));
    assert_true(budget_ends_turn(&budget));
    now_ns = begin(&budget);
    assert_false(budget_has_put_off(&budget));
    assert_true(budget_takes_request(&budget, &late, now_ns));
}

/* Whoever has been served waits until all others have been, in however many turns. */
static void each_connection_is_served_once_a_round(void **state)
{
    static uint64_t rounds[CONNECTIONS];
    struct budget budget;
    size_t served[CONNECTIONS] = {0}, count = 0, in_turn = CONNECTIONS;
    int turns = 0;

    (void)state;
    budget_init(&budget);
    /* Each always has a next request, and the first are always asked first. */
    for (; count < CONNECTIONS; turns++) {
        int64_t now_ns = begin(&budget);
        assert_true(turns < TURNS_MAX);
        in_turn = 0;
        for (size_t i = 0; i < CONNECTIONS; i++) {
            bool is_served = budget_takes_request(&budget, &rounds[i], now_ns);
            served[i] += is_served;
            in_turn += is_served;
        }
        count += in_turn;
        assert_true(budget_has_put_off(&budget));
        assert_true(in_turn > 0 && in_turn < CONNECTIONS / 2);
    }
    for (size_t i = 0; i < CONNECTIONS; i++)
        assert_int_equal(served[i], 1);
}

/* A round ends with a turn, so two requests of one connection are never of one turn. */
static void a_connection_is_served_once_a_turn(void **state)
{
    struct budget budget;
    uint64_t round = 0;

    (void)state;
    budget_init(&budget);
    for (int i = 0; i < 3; i++) {
        int64_t now_ns = begin(&budget);
        assert_true(budget_takes_request(&budget, &round, now_ns));
        assert_false(budget_takes_request(&budget, &round, now_ns));
        assert_true(budget_has_put_off(&budget));
    }
}

/* Answers count, too, and are of no round. */
static void answers_are_bounded(void **state)
{
    struct budget budget;
    uint64_t round = 0;
    int answers = 0;

    (void)state;
    budget_init(&budget);
    begin(&budget);
    while (budget_takes_answer(&budget))
        assert_true(++answers < CONNECTIONS);
    assert_true(budget_has_put_off(&budget));
    assert_false(budget_takes_request(&budget, &round, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_ends_by_the_clock),
        cmocka_unit_test(each_connection_is_served_once_a_round),
        cmocka_unit_test(a_connection_is_served_once_a_turn),
        cmocka_unit_test(answers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
