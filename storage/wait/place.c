/* Tells the waiters of one object on this worker of attempts and releases. */
#include "storage/wait/place.h"

#include "server/base/clock.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

/* A lock or permit that was passed on to another worker counts as held there for so long. */
#define PASSED_ON_NS (20 * CLOCK_NS_PER_MS)

void wait_place_find(struct wait_place *place, struct waiters *waiters, enum wait_kind kind)
{
    bool is_lock = kind == WAIT_LOCK;

    place->waiters = waiters;
    place->kind = kind;
    place->queue = wait_queue_find(waiters, kind, "", place->name, place->len);
    place->read_write = is_lock ? wait_queue_find(waiters, WAIT_READ_WRITE, "", place->name,
                                                  place->len)
                                : NULL;
    place->line = is_lock ? wait_line_find(waiters, place->name, place->len) : NULL;
}

static int64_t now_ns_of(const struct wait_place *place)
{
    return loop_now_ns(place->waiters->options.loop);
}

void place_taken(const struct wait_place *place, int64_t ttl_ms)
{
    if (place->queue != NULL)
        wait_queue_taken(place->queue, ttl_ms, false);
}

int64_t place_recently_taken_ms(const struct wait_place *place, bool reads, int64_t recent_ns)
{
    const struct wait_queue *queue = place->queue;

    if (queue == NULL || !subscription_is_live(&queue->subscription))
        return 0;
    int64_t now_ns = now_ns_of(place);
    if (wait_queue_yields(queue))
        return 1;
    int64_t taken_ns = queue->taken_ns, until_ns = queue->taken_until_ns;
    if (queue->shared != NULL)
        shared_lock_read_taken(queue->shared, &taken_ns, &until_ns);
    if (now_ns - taken_ns > recent_ns)
        return 0;
    bool is_waited_for = queue->waiting != NULL ||
                         (queue->shared != NULL && shared_lock_is_waited_for(queue->shared));
    if (is_waited_for && !reads)
        return 1; /* the waiters come first */
    return now_ns < until_ns ? (until_ns - now_ns) / CLOCK_NS_PER_MS : 0;
}

struct neighbour *place_next_worker(const struct wait_place *place)
{
    const struct neighbour *own = place->waiters->options.neighbour;
    int64_t now_ns = now_ns_of(place);

    if (place->queue != NULL && place->queue->shared != NULL)
        return shared_lock_next_worker(place->queue->shared, own, now_ns);
    if (place->line != NULL && place->line->shared != NULL)
        return shared_lock_next_worker(place->line->shared, own, now_ns);
    return neighbour_that_waits(own, place->kind, place->name, place->len, now_ns);
}

void place_passed_on(const struct wait_place *place)
{
    if (place->queue == NULL)
        return;
    share_passed_on(&place->queue->share);
    wait_queue_note_taken(place->queue, now_ns_of(place) + PASSED_ON_NS);
}

void place_missed(const struct wait_place *place)
{
    if (place->queue != NULL)
        wait_queue_note_released(place->queue);
    if (place->line != NULL)
        wait_line_released(place->line);
}

void place_rest(const struct wait_place *place, int64_t ns)
{
    neighbours_rest(place->waiters->options.neighbour, place->kind, place->name, place->len,
                    now_ns_of(place) + ns);
}

bool place_take_over(const struct wait_place *place, const struct hand_over_series *series)
{
    if (place->queue == NULL)
        return place->line != NULL;
    if (!wait_queue_yields(place->queue))
        share_take_over(&place->queue->share, series);
    return true;
}
