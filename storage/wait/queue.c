/* One queue of waiters: its key, and what this worker knows of the object: until when it is
 * taken, and whose turn it is. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/store/key.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/waiters_internal.h"

enum { LEASE_ID_MAX = 40 };

/* --- keys --------------------------------------------------------------------------------- */

/* The key that tells one queue from another: the kind, for the name of a lock may soon be that
 * of a semaphore; the lease, where each waiter of a fair lock has a queue of its own; the name.
 */
struct queue_key {
    size_t len;
    char text[1 + LEASE_ID_MAX + KEY_NAME_MAX + 1];
};

static void make_key(struct queue_key *key, enum wait_kind kind, const char *lease_id,
                     const char *name, size_t len)
{
    size_t id_len = kind == WAIT_FAIR ? strlen(lease_id) : 0;

    assert(id_len <= LEASE_ID_MAX && len <= KEY_NAME_MAX);
    key->text[0] = (char)kind;
    memcpy(key->text + 1, lease_id, id_len);
    memcpy(key->text + 1 + id_len, name, len);
    key->len = 1 + id_len + len;
}

struct wait_queue *wait_queue_find(const struct waiters *waiters, enum wait_kind kind,
                                   const char *lease_id, const char *name, size_t len)
{
    struct wait_queue *queue;
    struct queue_key key;

    make_key(&key, kind, lease_id, name, len);
    HASH_FIND(hh, waiters->queues, key.text, key.len, queue);
    return queue;
}

struct wait_queue *wait_queue_add(struct waiters *waiters, enum wait_kind kind,
                                  const char *lease_id, const char *name, size_t len)
{
    struct queue_key key;

    make_key(&key, kind, lease_id, name, len);
    struct wait_queue *queue = calloc(1, sizeof(*queue) + key.len);
    assert(queue != NULL);
    queue->owner = waiters;
    queue->kind = kind;
    queue->share.of_permits = kind == WAIT_SEMAPHORE;
    queue->len = key.len;
    memcpy(queue->key, key.text, key.len);
    queue->generation = ++waiters->generation;
    queue->round = 1;
    HASH_ADD(hh, waiters->queues, key, queue->len, queue);
    return queue;
}

/* --- whether the object is taken ---------------------------------------------------------- */

static int64_t now_ns_of(const struct wait_queue *queue)
{
    return loop_now_ns(queue->owner->options.loop);
}

void wait_queue_note_released(struct wait_queue *queue)
{
    queue->taken_until_ns = 0;
    if (queue->shared != NULL)
        shared_lock_released(queue->shared);
}

void wait_queue_note_taken(struct wait_queue *queue, int64_t until_ns)
{
    queue->taken_ns = now_ns_of(queue);
    queue->taken_until_ns = until_ns;
    if (queue->shared != NULL)
        shared_lock_taken(queue->shared, queue->taken_ns, until_ns);
}

/* --- turns -------------------------------------------------------------------------------- */

void wait_queue_announce_yield(struct wait_queue *queue, int64_t until_ns)
{
    if (queue->shared != NULL)
        shared_lock_yields(queue->shared, queue->owner->options.neighbour, until_ns);
}

int64_t wait_queue_yield_end_ns(const struct wait_queue *queue)
{
    int64_t others_ns = 0;

    if (queue->shared != NULL)
        others_ns = shared_lock_yield_of_others(queue->shared, queue->owner->options.neighbour);
    return share_yield_end_ns(&queue->share, others_ns);
}

bool wait_queue_yields(const struct wait_queue *queue)
{
    return wait_queue_yield_end_ns(queue) > now_ns_of(queue);
}

void wait_queue_yielded(struct wait_queue *queue, bool got_it)
{
    if (!wait_queue_yields(queue))
        share_yielded(&queue->share, got_it);
}

/* A request of this worker got the object, or a part of it: counts its turn. The other workers
 * were told of a yield if the release was for other clients first; no other client took it. */
static void count_turn(struct wait_queue *queue, bool by_hand_over)
{
    bool was_announced = queue->share.others_first;

    wait_queue_yielded(queue, true);
    if (by_hand_over)
        share_handed_over(&queue->share, now_ns_of(queue));
    else
        share_taken_freely(&queue->share, now_ns_of(queue));
    if (was_announced && !queue->share.others_first)
        wait_queue_announce_yield(queue, 0);
}

void wait_queue_taken(struct wait_queue *queue, int64_t taken_ms, bool by_hand_over)
{
    int64_t now_ns = now_ns_of(queue);

    if (queue->line != NULL)
        queue->line->handed_over_ns = now_ns;
    count_turn(queue, by_hand_over);
    wait_queue_note_taken(queue, taken_ms < CLOCK_MS_MAX ? now_ns + taken_ms * CLOCK_NS_PER_MS
                                                         : INT64_MAX);
}

void wait_queue_shared(struct wait_queue *queue, bool by_hand_over)
{
    if (by_hand_over)
        count_turn(queue, true);
    else
        wait_queue_yielded(queue, true);
    wait_queue_note_released(queue);
}
