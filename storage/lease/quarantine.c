/* The results of attempts in a quarantine. */
#include "storage/lease/quarantine.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "storage/store/store_parts.h"

struct held_back {
    struct held_back *prev, *next;
    enum kind_family family;
    attempt_done *done;
    void *arg;
};

void attempt_hold_back(struct store *store, const struct lease *lease, attempt_done *done,
                       void *arg)
{
    struct held_back *held_back = malloc(sizeof(*held_back));

    assert(held_back != NULL);
    *held_back = (struct held_back){
        .family = kind_row(lease->kind)->family, .done = done, .arg = arg};
    DL_APPEND(store->held_back, held_back);
    timer_arm(loop_timers(store->options.loop), &store->refuse_held_back, 0);
}

static void refuse(const struct held_back *held_back)
{
    static const struct lease_result lease = {
        .outcome = LEASE_FAILED, .failure = CALL_QUARANTINE, .remaining_ms = -1};
    static const struct counter_result counter = {.outcome = COUNTER_FAILED,
                                                  .failure = CALL_QUARANTINE};
    struct attempt_result result = {.outcome = TRY_NOT_EXECUTED, .remaining_ms = -1};

    if (held_back->family == FAMILY_SEMAPHORE)
        result.counter = &counter;
    else
        result.lease = &lease;
    held_back->done(held_back->arg, &result);
}

void held_back_refuse(void *arg)
{
    struct store *store = arg;
    struct held_back *all = store->held_back, *held_back, *next;

    store->held_back = NULL; /* a callback may try, and be refused, again */
    DL_FOREACH_SAFE(all, held_back, next) {
        refuse(held_back);
        free(held_back);
    }
}
