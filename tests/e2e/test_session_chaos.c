/* Three front ends are killed and come back at random while clients with sessions hold, renew
 * and pass on locks. CHAOS_SECONDS says how long, CHAOS_CLIENTS how many, CHAOS_SEED repeats
 * the dice. */
#include "session_chaos.h"

static void test_chaos(struct world *w)
{
    static const struct chaos_plan plan = {.clients = 20,
                                           .seconds = 12,
                                           .timeout_ms = 1000,
                                           .session_ms = 3000,
                                           .patience_ms = 8000,
                                           .slack_ms = 1000,
                                           .hold_ms = 1500, /* longer than without watchdog */
                                           .death_odds = 24,
                                           .strike = chaos_kill_fronts};

    chaos_run(w, &plan, w->redis, NULL);
}

int main(void)
{
    static const struct e2e_test tests[] = {E2E_TEST(test_chaos)};
    struct e2e_plan plan = {.name = "session-chaos", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
