/* The results of attempts in a quarantine. */
#include "storage/lease/quarantine.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "storage/store/store.h"
#include "storage/store/store_call.h"

struct held_back {
    struct held_back *prev, *next;
    enum kind_family family;
    attempt_done *done;
    counter_done *drained; /* instead of `done` */
    void *arg;
};

struct quarantine {
    struct held_back *held_back; /* utlist */
    struct loop *loop;
    struct timer refuse;
};

static void refuse(const struct held_back *held_back)
{
    static const struct lease_result lease = {
        .outcome = LEASE_FAILED, .failure = CALL_QUARANTINE, .remaining_ms = -1};
    static const struct counter_result counter = {.outcome = COUNTER_FAILED,
                                                  .failure = CALL_QUARANTINE};
    struct attempt_result result = {.outcome = TRY_NOT_EXECUTED, .remaining_ms = -1};

    if (held_back->drained != NULL) {
        held_back->drained(held_back->arg, &counter);
        return;
    }
    if (held_back->family == FAMILY_SEMAPHORE)
        result.counter = &counter;
    else
        result.lease = &lease;
    held_back->done(held_back->arg, &result);
}

static void refuse_all(void *arg)
{
    struct quarantine *quarantine = arg;
    struct held_back *all = quarantine->held_back, *held_back, *next;

    quarantine->held_back = NULL; /* a callback may try, and be refused, again */
    DL_FOREACH_SAFE(all, held_back, next) {
        refuse(held_back);
        free(held_back);
    }
}

static void quarantine_init(void *part, struct store *store)
{
    struct quarantine *quarantine = part;

    quarantine->loop = store_loop(store);
    quarantine->refuse = (struct timer){.fire = refuse_all, .arg = quarantine};
}

static void quarantine_release(void *part)
{
    struct quarantine *quarantine = part;

    timer_cancel(loop_timers(quarantine->loop), &quarantine->refuse);
    refuse_all(quarantine);
}

static const struct store_part quarantines = {
    .size = sizeof(struct quarantine), .init = quarantine_init, .release = quarantine_release};

/* `what` is copied. */
static void hold_back(struct store *store, const struct held_back *what)
{
    struct quarantine *quarantine = store_part(store, &quarantines);
    struct held_back *held_back = malloc(sizeof(*held_back));

    assert(held_back != NULL);
    *held_back = *what;
    DL_APPEND(quarantine->held_back, held_back);
    timer_arm(loop_timers(quarantine->loop), &quarantine->refuse, 0);
}

void attempt_hold_back(struct store *store, const struct lease *lease, attempt_done *done,
                       void *arg)
{
    const struct held_back what = {
        .family = kind_row(lease->kind)->family, .done = done, .arg = arg};

    hold_back(store, &what);
}

void drain_hold_back(struct store *store, counter_done *drained, void *arg)
{
    const struct held_back what = {.family = FAMILY_SEMAPHORE, .drained = drained, .arg = arg};

    hold_back(store, &what);
}
