/* server/base/timers.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/base/timers.h"

enum { TIMERS = 200, STEPS = 50000, SPAN_NS = 1000 };

/* What a naive model of `timers` knows of each of them: -1 is not armed. */
struct entry {
    struct timer timer;
    int64_t model_ns;
    int64_t again_ns; /* the next call arms it again so much later; 0: not */
    unsigned fired;
};

static struct timers timers;
static struct entry entries[TIMERS];
static int64_t run_until_ns, last_fired_ns;
static unsigned fired_total;

static void on_fire(void *arg)
{
    struct entry *entry = arg;

    assert_false(timer_is_armed(&entry->timer));
    assert_int_not_equal(entry->model_ns, -1);
    assert_int_equal(entry->timer.at_ns, entry->model_ns);
    assert_true(entry->model_ns <= run_until_ns);
    assert_true(entry->model_ns >= last_fired_ns);
    last_fired_ns = entry->model_ns;
    entry->model_ns = -1;
    entry->fired++;
    fired_total++;
    if (entry->again_ns != 0) {
        int64_t at_ns = last_fired_ns + entry->again_ns;
        timer_arm(&timers, &entry->timer, at_ns);
        entry->model_ns = at_ns > run_until_ns ? at_ns : run_until_ns + 1;
    }
}

static void note_fired(struct entry *entry)
{
    entry->fired++;
    if (++fired_total > TIMERS)
        fail_msg("a run without end");
}

static void arm_for_the_past(void *arg)
{
    struct entry *entry = arg;

    note_fired(entry);
    timer_arm(&timers, &entry->timer, 0);
}

static void arm_the_other(void *arg)
{
    struct entry *entry = arg;

    note_fired(entry);
    timer_arm(&timers, &entries[entry == &entries[0]].timer, run_until_ns);
}

static int set_up(void **state)
{
    (void)state;
    timers_init(&timers);
    memset(entries, 0, sizeof(entries));
    for (size_t i = 0; i < TIMERS; i++) {
        entries[i].timer.fire = on_fire;
        entries[i].timer.arg = &entries[i];
        entries[i].model_ns = -1;
    }
    last_fired_ns = INT64_MIN;
    fired_total = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    timers_release(&timers);
    return 0;
}

static void arm(size_t i, int64_t at_ns)
{
    entries[i].model_ns = at_ns;
    timer_arm(&timers, &entries[i].timer, at_ns);
}

static void run(int64_t now_ns)
{
    run_until_ns = now_ns;
    last_fired_ns = INT64_MIN;
    timers_run(&timers, now_ns);
}

/* The first one that the model has; -1: none. */
static int64_t model_next_ns(void)
{
    int64_t next_ns = -1;

    for (size_t i = 0; i < TIMERS; i++)
        if (entries[i].model_ns != -1 && (next_ns == -1 || entries[i].model_ns < next_ns))
            next_ns = entries[i].model_ns;
    return next_ns;
}

static void expect_model(void)
{
    for (size_t i = 0; i < TIMERS; i++)
        if (timer_is_armed(&entries[i].timer) != (entries[i].model_ns != -1))
            fail_msg("timer %zu is %s", i, entries[i].model_ns == -1 ? "armed" : "not armed");
    assert_int_equal(timers_next_ns(&timers), model_next_ns());
}

/* Numerical Recipes' generator: the same steps in every run. */
static uint32_t random_below(uint32_t limit)
{
    static uint32_t seed = 20240607;

    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * limit) >> 32);
}

static void random_steps_agree_with_the_model(void **state)
{
    int64_t now_ns = 0;
    unsigned moved = 0, cancelled = 0;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_below(TIMERS);
        switch (random_below(8)) {
        case 0:
        case 1:
            cancelled += timer_is_armed(&entries[i].timer);
            entries[i].model_ns = -1;
            timer_cancel(&timers, &entries[i].timer);
            break;
        case 2:
            now_ns += random_below(SPAN_NS / 20);
            run(now_ns);
            assert_true(model_next_ns() == -1 || model_next_ns() > now_ns);
            break;
        default:
            moved += timer_is_armed(&entries[i].timer);
            entries[i].again_ns = random_below(4) == 0 ? 1 + random_below(SPAN_NS) : 0;
            arm(i, now_ns + random_below(SPAN_NS));
        }
        expect_model();
    }
    assert_true(moved > 1000 && cancelled > 1000 && fired_total > 1000);
}

static void fires_in_order_and_only_what_is_due(void **state)
{
    (void)state;
    for (size_t i = 0; i < TIMERS; i++)
        arm(i, 10 + (int64_t)(i * 77 % TIMERS)); /* 77 and 200: every place once */
    assert_int_equal(timers_next_ns(&timers), 10);
    run(9);
    assert_int_equal(fired_total, 0);
    run(10);
    assert_int_equal(fired_total, 1);
    assert_int_equal(entries[0].fired, 1);
    run(10 + TIMERS / 2 - 1);
    assert_int_equal(fired_total, TIMERS / 2);
    assert_int_equal(timers_next_ns(&timers), 10 + TIMERS / 2);
    run(INT64_MAX);
    assert_int_equal(fired_total, TIMERS);
    for (size_t i = 0; i < TIMERS; i++)
        assert_int_equal(entries[i].fired, 1);
    assert_int_equal(timers_next_ns(&timers), -1);
}

static void rearmed_in_its_call_fires_when_due_again(void **state)
{
    (void)state;
    entries[0].again_ns = 10;
    arm(0, 100);
    arm(1, 115);
    run(100);
    assert_int_equal(entries[0].fired, 1);
    assert_int_equal(timers_next_ns(&timers), 110);
    run(115);
    assert_int_equal(entries[0].fired, 2);
    assert_int_equal(entries[1].fired, 1);
    assert_int_equal(timers_next_ns(&timers), 120);
    timer_cancel(&timers, &entries[0].timer);
    assert_int_equal(timers_next_ns(&timers), -1);
}

/* Each call arms its timer for a time that is over: one call a run, and everything else that is
 * due has its turn, too. */
static void armed_for_now_fires_in_the_next_run(void **state)
{
    (void)state;
    entries[0].timer.fire = arm_for_the_past;
    arm(0, 100);
    arm(1, 100);
    run(100);
    assert_int_equal(entries[0].fired, 1);
    assert_int_equal(entries[1].fired, 1);
    assert_true(timers_next_ns(&timers) > 100 && timers_next_ns(&timers) <= 101);
    arm(1, 102);
    run(102);
    assert_int_equal(entries[0].fired, 2);
    assert_int_equal(entries[1].fired, 2);
}

/* So does one that arms the other, again and again. */
static void two_cannot_keep_a_run_going(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        entries[i].timer.fire = arm_the_other;
    arm(0, 5);
    run(5);
    assert_int_equal(fired_total, 1);
    run(6);
    assert_int_equal(fired_total, 2);
    assert_true(timer_is_armed(&entries[0].timer));
}

static void cancel_the_other(void *arg)
{
    struct entry *other = arg;

    fired_total++;
    other->model_ns = -1;
    timer_cancel(&timers, &other->timer);
}

static void cancelled_by_another_call_does_not_fire(void **state)
{
    (void)state;
    arm(0, 5);
    entries[0].timer.fire = cancel_the_other;
    entries[0].timer.arg = &entries[1];
    arm(1, 6); /* due in the same run */
    arm(2, 5);
    run(7);
    assert_int_equal(fired_total, 2);
    assert_int_equal(entries[1].fired, 0);
    assert_int_equal(entries[2].fired, 1);
}

static void zeroed_and_released_timers_are_not_armed(void **state)
{
    struct timer zeroed = {0};

    (void)state;
    assert_false(timer_is_armed(&zeroed));
    timer_cancel(&timers, &zeroed);
    assert_int_equal(timers_next_ns(&timers), -1);
    run(INT64_MAX);
    arm(0, 1);
    arm(1, 2);
    timers_release(&timers);
    assert_false(timer_is_armed(&entries[0].timer));
    assert_false(timer_is_armed(&entries[1].timer));
    timer_cancel(&timers, &entries[0].timer);
    assert_int_equal(timers_next_ns(&timers), -1);
    assert_int_equal(fired_total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_steps_agree_with_the_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fires_in_order_and_only_what_is_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rearmed_in_its_call_fires_when_due_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(armed_for_now_fires_in_the_next_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_cannot_keep_a_run_going, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_by_another_call_does_not_fire, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(zeroed_and_released_timers_are_not_armed, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
