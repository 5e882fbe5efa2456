/* storage/wait/waiters.c: whose turn it is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "storage/store/key.h"
#include "tests/unit/visitors.h"

/* Subscribe, wait for the acknowledgement, try once more, then sleep. */
static void first_one_tries_when_subscribed(void **state)
{
    (void)state;
    assert_null(CHANNEL_OF(LOCK));
    join(a);
    uint64_t before = generation();
    join(b);
    assert_non_null(CHANNEL_OF(LOCK));
    expect_turns(0, 0, 0, 0);
    ready(CHANNEL_OF(LOCK));
    expect_turns(1, 0, 0, 0);
    assert_true(generation() > before);
    busy(a);
    expect_turns(0, 0, 0, 0);
    /* The connection was lost and came back. */
    ready(CHANNEL_OF(LOCK));
    expect_turns(1, 0, 0, 0);
    assert_int_equal(metrics.values[METRIC_WAITERS], 2);
    assert_int_equal(metrics.values[METRIC_WAITED_LOCKS], 1);
}

static void message_gives_one_turn(void **state)
{
    (void)state;
    sleepers(3);
    unlocked();
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 0, 0);
    /* Who found it busy keeps its place. */
    publish(CHANNEL_OF(LOCK), "1");
    expect_turns(1, 0, 0, 0);
    assert_int_equal(metrics.values[METRIC_UNLOCK_MESSAGES], 2);
}

static void other_messages_give_none(void **state)
{
    static const char *const payloads[] = {"", "2", "00", "01", "x", "0 "};

    (void)state;
    sleepers(1);
    uint64_t before = generation();
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++)
        publish(CHANNEL_OF(LOCK), payloads[i]);
    expect_turns(0, 0, 0, 0);
    assert_int_equal(generation(), before);
    assert_int_equal(metrics.values[METRIC_UNLOCK_MESSAGES], 0);
}

static void messages_during_a_turn_give_one_more(void **state)
{
    (void)state;
    sleepers(2);
    unlocked();
    unlocked();
    unlocked();
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 0, 0);
}

static void leaving_with_the_turn_passes_it_on(void **state)
{
    (void)state;
    sleepers(3);
    unlocked();
    leave(a, -1);
    expect_turns(1, 1, 0, 0);
    leave(b, -1);
    expect_turns(0, 0, 1, 0);
    busy(c);
    expect_turns(0, 0, 0, 0);
    assert_false(waiter_is_waiting(&a->waiter));
    assert_true(waiter_is_waiting(&c->waiter));
}

static void leaving_with_the_lock_keeps_the_turn(void **state)
{
    (void)state;
    sleepers(3);
    unlocked();
    leave(a, 300);
    expect_turns(1, 0, 0, 0);
    assert_int_equal(next_timer_ns(), 300 * MS + EXPIRY_SLACK_NS);
    unlocked();
    expect_turns(0, 1, 0, 0);
    /* It was free again while b took it. */
    unlocked();
    leave(b, 300);
    expect_turns(0, 0, 1, 0);
}

/* One that waits for several locks and finds that another one is in the way: the lock of this
 * queue is free. */
static void moving_passes_the_turn_on(void **state)
{
    (void)state;
    sleepers(3);
    unlocked();
    expect_turns(1, 0, 0, 0);
    uint64_t before = generation();
    move(a, OTHER, before, -1);
    expect_turns(0, 1, 0, 0);
    assert_int_equal(metrics.values[METRIC_WAITERS], 3);
    /* Subscribed now: what happened to that one before is not known. */
    ready(CHANNEL_OF(OTHER));
    expect_turns(1, 0, 0, 0);
    move(a, OTHER, generation(), 700);
    expect_turns(0, 0, 0, 0);
    publish(CHANNEL_OF(OTHER), "0");
    expect_turns(1, 0, 0, 0);
    /* And back: b has that turn still. */
    move(a, LOCK, generation(), -1);
    expect_turns(0, 0, 0, 0);
    busy(b);
    expect_turns(0, 0, 0, 0);
    unlocked();
    expect_turns(0, 1, 0, 0);
}

/* What happened to the other lock while it tried has woken nobody: it tries again. */
static void moving_loses_no_message(void **state)
{
    (void)state;
    sleepers(1);
    join_to(b, OTHER);
    ready(CHANNEL_OF(OTHER));
    expect_turns(0, 1, 0, 0);
    busy(b);
    unlocked();
    uint64_t before = generation();
    expect_turns(1, 0, 0, 0);
    leave(b, 300);
    publish(CHANNEL_OF(OTHER), "0");
    move(a, OTHER, before, -1);
    expect_turns(1, 0, 0, 0);
    /* So does one that was nudged meanwhile. */
    waiters_retry_lease(waiters, OTHER, strlen(OTHER), ID_A);
    move(a, LOCK, generation(), -1);
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 0, 0);
}

static void leaving_without_the_turn_gives_none(void **state)
{
    (void)state;
    sleepers(3);
    leave(b, -1);
    expect_turns(0, 0, 0, 0);
    unlocked();
    leave(c, -1);
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 0, 0);
}

static void attempt_of_its_own_holds_no_turn(void **state)
{
    (void)state;
    sleepers(2);
    a->waiter.trying = true;
    unlocked();
    expect_turns(0, 1, 0, 0);
    leave(a, -1);
    busy(b);
    expect_turns(0, 0, 0, 0);
    /* Nobody is free to try: whoever ends its attempt first tells. */
    join(c);
    b->waiter.trying = true;
    c->waiter.trying = true;
    unlocked();
    expect_turns(0, 0, 0, 0);
    leave(c, -1);
    expect_turns(0, 0, 0, 0);
    busy(b);
    expect_turns(0, 1, 0, 0);
}

/* A message found everyone trying; who has slept since makes up for it. */
static void missed_message_is_made_up_for(void **state)
{
    (void)state;
    sleepers(1);
    a->waiter.trying = true;
    unlocked();
    join(b);
    expect_turns(0, 0, 0, 0);
    leave(a, -1);
    expect_turns(0, 1, 0, 0);
}

static void everyone_is_woken_once_a_lock(void **state)
{
    (void)state;
    sleepers(2);
    waiter_join(waiters, &c->waiter, OTHER, strlen(OTHER), 0, -1);
    waiter_join(waiters, &d->waiter, OTHER, strlen(OTHER), 0, -1);
    waiters_wake_all(waiters);
    expect_turns(1, 0, 1, 0);
    /* One lock's message is not the other's. */
    busy(a);
    busy(c);
    publish(CHANNEL_OF(OTHER), "0");
    expect_turns(0, 0, 1, 0);
    leave(a, -1);
    leave(b, -1);
    /* Where nobody waits nothing has happened. */
    uint64_t before = generation();
    waiters_wake_all(waiters);
    join_as_of(a, before, -1);
    expect_turns(0, 0, 0, 0);
}

static void nudge(const char *lease_id, const char *lock)
{
    char payload[1024];

    snprintf(payload, sizeof(payload), "%s %s", lease_id, lock);
    publish(channel_of("rlockd:leases"), payload);
}

static void same_lease_is_nudged(void **state)
{
    char too_long[KEY_NAME_MAX + 2];

    (void)state;
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    sleepers(3);
    c->waiter.lease_id = ID_A;
    nudge(ID_A, OTHER);
    nudge("eeeeeeee-0000-5000-8000-000000000000", LOCK);
    nudge(ID_A, "");
    publish(channel_of("rlockd:leases"), ID_A);
    publish(channel_of("rlockd:leases"), "");
    nudge(ID_A, too_long); /* anybody may publish */
    expect_turns(0, 0, 0, 0);
    nudge(ID_A, LOCK);
    expect_turns(1, 0, 1, 0);
    /* The turn is still there for others. */
    unlocked();
    expect_turns(0, 1, 0, 0);
    busy(a);
    leave(c, 100);
    expect_turns(0, 0, 0, 0);
    leave(b, -1);
    expect_turns(1, 0, 0, 0);
}

static void nudge_during_an_attempt_is_kept(void **state)
{
    (void)state;
    sleepers(1);
    unlocked();
    nudge(ID_A, LOCK);
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(1, 0, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_one_tries_when_subscribed),
        TEST(message_gives_one_turn),
        TEST(other_messages_give_none),
        TEST(messages_during_a_turn_give_one_more),
        TEST(leaving_with_the_turn_passes_it_on),
        TEST(leaving_with_the_lock_keeps_the_turn),
        TEST(moving_passes_the_turn_on),
        TEST(moving_loses_no_message),
        TEST(leaving_without_the_turn_gives_none),
        TEST(attempt_of_its_own_holds_no_turn),
        TEST(missed_message_is_made_up_for),
        TEST(everyone_is_woken_once_a_lock),
        TEST(same_lease_is_nudged),
        TEST(nudge_during_an_attempt_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
