/* The states of an acquisition: which may follow which, and what holds in each. */
#include <assert.h>

#include "server/base/clock.h"
#include "storage/wait/acquire_internal.h"

#define TO(state) (1U << (state))

enum fact {
    UNDER_WAY = 1, /* a call is under way whose reply ends or moves the acquisition */
    ATTEMPTED = 2,
    WAITING = 4, /* the wait has begun */
    DEFERRED = 8,
    MAY_BE_GRANTED = 16, /* by a release under way */
    IN_QUEUE = 32,
    COPIED = 64 /* the lease is its own copy */
};

/* Of each state: the states that may follow, the facts that hold on entry, and those that do
 * not. */
static const struct {
    unsigned next, always, never;
} states[STATE_COUNT] = {
    [STARTING] = {.next = TO(PREPARING) | TO(TRYING) | TO(TRYING_FULL) | TO(LAST_ATTEMPT) |
                          TO(SLEEPING)},
    [PREPARING] = {.next = TO(PREPARING) | TO(TRYING) | TO(TRYING_FULL) | TO(RETRYING) |
                           TO(LAST_ATTEMPT) | TO(SLEEPING) | TO(ORPHANED) | TO(ENDED),
                   .always = UNDER_WAY,
                   .never = DEFERRED | MAY_BE_GRANTED | COPIED},
    [TRYING] = {.next = TO(SLEEPING) | TO(PREPARING) | TO(ORPHANED) | TO(ENDED),
                .always = UNDER_WAY | ATTEMPTED,
                .never = WAITING | DEFERRED | MAY_BE_GRANTED | IN_QUEUE | COPIED},
    [TRYING_FULL] = {.next = TO(PREPARING) | TO(ORPHANED) | TO(ENDED),
                     .always = UNDER_WAY | ATTEMPTED,
                     .never = WAITING | DEFERRED | MAY_BE_GRANTED | IN_QUEUE | COPIED},
    [SLEEPING] = {.next = TO(LOOKING) | TO(RETRYING) | TO(LAST_ATTEMPT) | TO(PREPARING) |
                          TO(CHOSEN) | TO(ENDED),
                  .always = WAITING,
                  .never = UNDER_WAY | COPIED},
    [LOOKING] = {.next = TO(SLEEPING) | TO(RETRYING) | TO(LAST_ATTEMPT) | TO(PREPARING) |
                         TO(ORPHANED) | TO(ENDED),
                 .always = UNDER_WAY | ATTEMPTED | WAITING | IN_QUEUE,
                 .never = DEFERRED | MAY_BE_GRANTED | COPIED},
    [RETRYING] = {.next = TO(SLEEPING) | TO(LAST_ATTEMPT) | TO(PREPARING) | TO(ORPHANED) |
                          TO(ENDED),
                  .always = UNDER_WAY | ATTEMPTED | WAITING | IN_QUEUE,
                  .never = DEFERRED | MAY_BE_GRANTED | COPIED},
    [CHOSEN] = {.next = TO(SLEEPING) | TO(ORPHANED) | TO(ENDED),
                .always = UNDER_WAY | ATTEMPTED | WAITING | IN_QUEUE | MAY_BE_GRANTED,
                .never = COPIED},
    [LAST_ATTEMPT] = {.next = TO(PREPARING) | TO(ORPHANED) | TO(ENDED),
                      .always = UNDER_WAY | ATTEMPTED,
                      .never = DEFERRED | MAY_BE_GRANTED | COPIED},
    [ORPHANED] = {.next = TO(ENDED), .always = COPIED, .never = IN_QUEUE | MAY_BE_GRANTED},
    [ENDED] = {.never = IN_QUEUE | MAY_BE_GRANTED},
};

static unsigned facts_of(const struct acquisition *acquisition)
{
    return (acquisition->waiter.trying ? UNDER_WAY : 0U) |
           (acquisition->attempted ? ATTEMPTED : 0U) |
           (acquisition->wait_began_ns != 0 ? WAITING : 0U) |
           (acquisition->deferred ? DEFERRED : 0U) |
           (acquisition->waiter.chosen ? MAY_BE_GRANTED : 0U) |
           (waiter_is_waiting(&acquisition->waiter) ? IN_QUEUE : 0U) |
           (acquisition->orphan != NULL ? COPIED : 0U);
}

void acquisition_enter(struct acquisition *acquisition, enum acquisition_state state)
{
    unsigned facts = facts_of(acquisition);

    assert(states[acquisition->state].next & TO(state));
    assert((facts & states[state].always) == states[state].always);
    assert((facts & states[state].never) == 0);
    acquisition->state = state;
}

int64_t acquisition_left_ms(const struct acquisition *acquisition)
{
    int64_t now_ns = loop_now_ns(acquisition->acquirer->options.loop);

    return (acquisition->deadline_ns - now_ns) / CLOCK_NS_PER_MS;
}
