/* The bounds of a turn, and the rounds of service. */
#include "server/http/budget.h"

#include "server/base/clock.h"

/* While requests are served, no reply of Redis is read, no command is written, and no timer
 * fires. `make budgets` counts instructions under valgrind, where everything takes many times
 * as long, with a longer turn. */
#ifndef TURN_NS
#define TURN_NS (1 * CLOCK_NS_PER_MS)
#endif

/* A request and its answer take some 10 us, of which the answer alone takes half. */
enum { TURN_REQUESTS = 100 };

void budget_init(struct budget *budget)
{
    *budget = (struct budget){.round = 1, .is_exhausted = true};
}

void budget_begin_turn(struct budget *budget, int64_t now_ns)
{
    if (!budget->is_cut)
        budget->round++;
    budget->end_ns = now_ns + TURN_NS;
    budget->left = TURN_REQUESTS;
    budget->is_exhausted = budget->is_cut = budget->has_put_off = false;
}

static bool take(struct budget *budget)
{
    if (budget->is_exhausted) {
        budget->is_cut = budget->has_put_off = true;
        return false;
    }
    budget->is_exhausted = --budget->left == 0;
    return true;
}

bool budget_takes_request(struct budget *budget, uint64_t *round, int64_t now_ns)
{
    if (*round == budget->round) {
        budget->has_put_off = true;
        return false;
    }
    if (!budget->is_exhausted)
        budget->is_exhausted = (now_ns != 0 ? now_ns : clock_ns()) >= budget->end_ns;
    if (!take(budget))
        return false;
    *round = budget->round;
    return true;
}

bool budget_takes_answer(struct budget *budget)
{
    return take(budget);
}

bool budget_ends_turn(struct budget *budget)
{
    budget->is_exhausted |= clock_ns() >= budget->end_ns;
    return budget->is_exhausted;
}

bool budget_has_put_off(const struct budget *budget)
{
    return budget->has_put_off;
}
