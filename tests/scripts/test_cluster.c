/* Scripts on a cluster, where all keys of a script have to be in one slot. */
#include "harness.h"

static void semaphore_is_in_one_slot(void **state)
{
    (void)state;
    command("SET jobs 3");
    expect(run(SCRIPT_COUNTER_LOOK, KEYS("jobs", "{jobs}:timeout", "rlockd:waiters:{jobs}"),
               NO_ARGS),
           "[looked, 3, 0]");
}

static void key_outside_the_slot_is_refused(void **state)
{
    (void)state;
    expect(run(SCRIPT_COUNTER_LOOK, KEYS("jobs", "{other}:timeout", "rlockd:waiters:{jobs}"),
               NO_ARGS),
           "error: CROSSSLOT *");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(semaphore_is_in_one_slot),
        SCRIPT_TEST(key_outside_the_slot_is_refused),
    };

    return cmocka_run_group_tests_name("cluster", tests, redis_set_up_cluster, redis_tear_down);
}
