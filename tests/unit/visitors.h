/* Visitors that wait in a storage/wait/waiters.c of their own, and count their turns. */
#ifndef RLOCKD_TESTS_UNIT_VISITORS_H
#define RLOCKD_TESTS_UNIT_VISITORS_H

#include <stdio.h>
#include <string.h>

#include "storage/wait/waiters.h"
#include "tests/unit/fake_topology.h"

#define POLL_MIN_NS (4 * S)
#define POLL_MAX_NS (6 * S)
#define EXPIRY_SLACK_NS (2 * MS)
#define LINGER_NS (2 * S)

#define LOCK "orders"
#define OTHER "invoices"
#define ID_A "aaaaaaaa-0000-5000-8000-000000000000"
#define ID_B "bbbbbbbb-0000-5000-8000-000000000000"

enum { VISITORS = 4 };

static struct metrics metrics;
static struct waiters *waiters;

static inline void unlocked(void)
{
    publish(CHANNEL_OF(LOCK), "0");
}

struct visitor {
    struct waiter waiter;
    unsigned turns;
};

static struct visitor visitors[VISITORS];
static struct visitor *const a = &visitors[0], *const b = &visitors[1], *const c = &visitors[2],
                             *const d = &visitors[3];

static inline void on_turn(void *arg)
{
    struct visitor *visitor = arg;

    assert_true(visitor->waiter.trying);
    assert_true(waiter_is_waiting(&visitor->waiter));
    visitor->turns++;
}

/* The turns that everyone has had since the last call. */
static inline void expect_turns(unsigned of_a, unsigned of_b, unsigned of_c, unsigned of_d)
{
    const unsigned want[VISITORS] = {of_a, of_b, of_c, of_d};

    for (size_t i = 0; i < VISITORS; i++) {
        if (visitors[i].turns != want[i])
            fail_msg("%c had %u turns, not %u", (char)('a' + i), visitors[i].turns, want[i]);
        visitors[i].turns = 0;
    }
}

static inline uint64_t generation(void)
{
    return waiters_generation(waiters);
}

static inline void join_as_of(struct visitor *visitor, uint64_t as_of, int64_t remaining_ms)
{
    waiter_join(waiters, &visitor->waiter, LOCK, strlen(LOCK), as_of, remaining_ms);
}

static inline void join(struct visitor *visitor)
{
    join_as_of(visitor, generation(), -1);
}

static inline void join_to(struct visitor *visitor, const char *lock)
{
    waiter_join(waiters, &visitor->waiter, lock, strlen(lock), generation(), -1);
}

static inline void move(struct visitor *visitor, const char *lock, uint64_t as_of,
                        int64_t remaining_ms)
{
    waiter_move(waiters, &visitor->waiter, lock, strlen(lock), as_of, remaining_ms);
}

static inline void busy(struct visitor *visitor)
{
    waiter_busy(&visitor->waiter, -1);
}

static inline void leave(struct visitor *visitor, int64_t taken_ms)
{
    waiter_leave(waiters, &visitor->waiter, taken_ms);
}

/* The first so many visitors wait, subscribed and asleep. */
static inline void sleepers(size_t count)
{
    join(a);
    ready(CHANNEL_OF(LOCK));
    busy(a);
    for (size_t i = 1; i < count; i++)
        join(&visitors[i]);
    expect_turns(1, 0, 0, 0);
}

static inline int set_up(void **state)
{
    static const char *const ids[VISITORS] = {ID_A, ID_B, "c", "d"};

    (void)state;
    memset(&topology, 0, sizeof(topology));
    memset(&metrics, 0, sizeof(metrics));
    timers_init(&loop.timers);
    loop.now_ns = 1000 * S;
    for (size_t i = 0; i < VISITORS; i++)
        visitors[i] = (struct visitor){
            .waiter = {.lease_id = ids[i], .try_now = on_turn, .arg = &visitors[i]}};
    struct waiters_options options = {
        .loop = &loop, .metrics = &metrics, .topology = &topology};
    waiters = waiters_new(&options);
    return waiters == NULL;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < VISITORS; i++)
        if (waiter_is_waiting(&visitors[i].waiter))
            leave(&visitors[i], 0);
    waiters_free(waiters);
    for (size_t i = 0; i < CHANNELS; i++)
        assert_null(topology.channels[i].owner);
    assert_int_equal(timers_next_ns(&loop.timers), -1);
    assert_int_equal(metrics.values[METRIC_WAITERS], 0);
    assert_int_equal(metrics.values[METRIC_WAITED_LOCKS], 0);
    timers_release(&loop.timers);
    return 0;
}

#endif
