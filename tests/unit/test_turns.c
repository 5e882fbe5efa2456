/* storage/store/turns.c: pieces of expensive work, a few at a time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "storage/store/turns.h"

enum { PIECES = 1005, MOST = 2, WAITING_MAX = 1000 };

struct piece {
    struct turn turn;
    int began, refused;
};

static struct piece pieces[PIECES];
static const char *owner; /* of the pieces that start */
static size_t weight;     /* of each of them */

static void on_turn(void *arg, bool may)
{
    struct piece *piece = arg;

    piece->began += may;
    piece->refused += !may;
}

static void start(struct turns *turns, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        pieces[i] = (struct piece){
            .turn = {.begin = on_turn, .arg = &pieces[i], .owner = owner, .weight = weight}};
        turn_start(turns, &pieces[i].turn);
    }
}

static void expect_began(size_t from, size_t to, int began)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal(pieces[i].began, began);
}

static int set_up(void **state)
{
    static struct turns turns;
    struct loop *loop = loop_new();

    owner = NULL;
    weight = 1;
    turns_init(&turns, loop, MOST, TURNS_REFUSE);
    *state = &turns;
    return loop != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    struct turns *turns = *state;

    turns_release(turns);
    loop_free(turns->loop);
    return 0;
}

static void test_the_first_come_first(void **state)
{
    struct turns *turns = *state;

    assert_true(turns_are_free(turns));
    start(turns, 0, 5);
    assert_false(turns_are_free(turns));
    expect_began(0, 2, 1);
    expect_began(2, 5, 0);
    turn_end(turns, &pieces[0].turn);
    expect_began(2, 5, 0);
    turns_go_on(turns);
    expect_began(2, 3, 1);
    expect_began(3, 5, 0);
    turn_end(turns, &pieces[1].turn);
    turn_end(turns, &pieces[2].turn);
    turns_go_on(turns);
    expect_began(3, 5, 1);
}

static void test_a_pause(void **state)
{
    struct turns *turns = *state;

    turns_pause(turns, 1000000000);
    assert_false(turns_are_free(turns));
    start(turns, 0, 1);
    turns_go_on(turns);
    expect_began(0, 1, 0);
    timer_cancel(loop_timers(turns->loop), &turns->pause);
    turns_go_on(turns);
    expect_began(0, 1, 1);
}

static void test_the_oldest_of_too_many_is_refused(void **state)
{
    struct turns *turns = *state;

    start(turns, 0, MOST + WAITING_MAX);
    for (size_t i = 0; i < MOST + WAITING_MAX; i++)
        assert_int_equal(pieces[i].refused, 0);
    start(turns, MOST + WAITING_MAX, PIECES);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(pieces[i].refused, i >= MOST && i < PIECES - WAITING_MAX);
    expect_began(MOST, PIECES, 0);
}

static void test_weights_add_up_to_the_limit(void **state)
{
    struct turns *turns = *state;

    weight = MOST + 1;
    start(turns, 0, 1);
    expect_began(0, 1, 1); /* alone, as no limit has room for it */
    weight = 1;
    start(turns, 1, 2);
    weight = MOST;
    start(turns, 2, 3);
    weight = 1;
    start(turns, 3, 4);
    expect_began(1, 4, 0);
    turn_end(turns, &pieces[0].turn);
    turns_go_on(turns);
    expect_began(1, 2, 1);
    expect_began(2, 4, 0); /* though there is room for the last */
    turn_end(turns, &pieces[1].turn);
    turns_go_on(turns);
    expect_began(2, 3, 1);
    expect_began(3, 4, 0);
}

static void test_no_piece_is_refused_by_turns_that_wait(void **state)
{
    struct turns *turns = *state;

    turns->patience = TURNS_WAIT;
    start(turns, 0, PIECES);
    pieces[MOST].turn.since_ns -= INT64_C(3600) * 1000000000;
    turn_end(turns, &pieces[0].turn);
    turns_go_on(turns);
    expect_began(0, MOST + 1, 1);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(pieces[i].refused, 0);
}

static void test_owners_do_not_delay_each_other(void **state)
{
    struct turns *turns = *state;

    owner = "one";
    start(turns, 0, 3);
    owner = "other";
    start(turns, 3, 5);
    expect_began(0, 1, 1);
    expect_began(1, 3, 0); /* though there is room for two pieces */
    expect_began(3, 4, 1);
    expect_began(4, 5, 0);
    turn_end(turns, &pieces[3].turn);
    turns_go_on(turns);
    expect_began(1, 3, 0);
    expect_began(4, 5, 1);
    turn_end(turns, &pieces[0].turn);
    turns_go_on(turns);
    expect_began(1, 2, 1);
    expect_began(2, 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owners_do_not_delay_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_weights_add_up_to_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_piece_is_refused_by_turns_that_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_oldest_of_too_many_is_refused, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
