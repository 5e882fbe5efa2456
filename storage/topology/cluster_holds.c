/* The holds: which slots' calls wait, and in which order. See cluster_calls.c for why. */
#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_call.h"

struct slot_hold *cluster_find_hold(const struct cluster *cluster, uint16_t slot)
{
    struct slot_hold *hold = NULL;

    if (cluster->holds != NULL)
        HASH_FIND(hh, cluster->holds, &slot, sizeof(slot), hold);
    return hold;
}

struct slot_hold *cluster_make_hold(struct cluster *cluster, uint16_t slot)
{
    struct slot_hold *hold = cluster_find_hold(cluster, slot);

    if (hold != NULL)
        return hold;
    hold = calloc(1, sizeof(*hold));
    assert(hold != NULL);
    hold->slot = slot;
    hold->wait_ns = CLUSTER_HOLD_RETRY_FIRST_NS;
    hold->until_ns = loop_now_ns(cluster->topology.options.loop) + CLUSTER_HOLD_PATIENCE_NS;
    HASH_ADD(hh, cluster->holds, slot, sizeof(slot), hold);
    if (!timer_is_armed(&cluster->hold_tick))
        timer_arm(loop_timers(cluster->topology.options.loop), &cluster->hold_tick,
                  loop_now_ns(cluster->topology.options.loop) + CLUSTER_HOLD_TICK_NS);
    return hold;
}

void cluster_calls_hold(struct cluster *cluster, uint16_t slot)
{
    if (cluster->in_flight[slot] > 0)
        (void)cluster_make_hold(cluster, slot);
}

struct cluster_call *cluster_take_held(struct cluster *cluster, struct slot_hold *hold)
{
    struct cluster_call **list = hold->redirected != NULL ? &hold->redirected : &hold->later;
    struct cluster_call *call = *list;

    if (call != NULL) {
        DL_DELETE(*list, call);
        cluster->held--;
    }
    return call;
}
