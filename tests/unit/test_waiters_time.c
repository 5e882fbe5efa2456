/* storage/wait/waiters.c: what is stale, what is due, and when a lock is forgotten. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/visitors.h"

static void stale_attempt_is_made_up_for(void **state)
{
    (void)state;
    sleepers(1);
    uint64_t before = generation();
    join_as_of(b, before, -1);
    expect_turns(0, 0, 0, 0);
    unlocked();
    busy(a);
    expect_turns(1, 0, 0, 0);
    assert_int_not_equal(generation(), before);
    /* The attempt began before the message. */
    join_as_of(c, before, -1);
    expect_turns(1, 0, 0, 0);
    busy(a);
    /* It began before the lock was subscribed to. */
    join_as_of(d, 0, -1);
    expect_turns(1, 0, 0, 0);
}

static void cut_subscription_makes_attempts_stale(void **state)
{
    (void)state;
    sleepers(1);
    uint64_t before = generation();
    CHANNEL_OF(LOCK)->live = false;
    join_as_of(b, before, -1);
    expect_turns(0, 0, 0, 0);
    uint64_t cut = generation();
    ready(CHANNEL_OF(LOCK));
    expect_turns(1, 0, 0, 0);
    busy(a);
    join_as_of(c, cut, -1);
    expect_turns(1, 0, 0, 0);
}

static void poll_comes_within_six_seconds(void **state)
{
    (void)state;
    sleepers(2);
    for (int i = 0; i < 20; i++) {
        assert_in_range(next_timer_ns(), POLL_MIN_NS, POLL_MAX_NS);
        int64_t sleep_ns = next_timer_ns();
        pass(sleep_ns - 1);
        expect_turns(0, 0, 0, 0);
        pass(1);
        expect_turns(1, 0, 0, 0);
        busy(a);
    }
    /* A long lease is not slept through. */
    unlocked();
    waiter_busy(&a->waiter, 86400000);
    assert_in_range(next_timer_ns(), POLL_MIN_NS, POLL_MAX_NS);
    expect_turns(1, 0, 0, 0);
    pass(POLL_MAX_NS);
    expect_turns(1, 0, 0, 0);
}

static void poll_comes_without_a_subscription(void **state)
{
    (void)state;
    join(a);
    assert_in_range(next_timer_ns(), POLL_MIN_NS, POLL_MAX_NS);
    pass(POLL_MAX_NS);
    expect_turns(1, 0, 0, 0);
}

static void end_of_the_lease_is_tried_for(void **state)
{
    (void)state;
    join_as_of(a, 0, 250);
    assert_int_equal(next_timer_ns(), 250 * MS + EXPIRY_SLACK_NS);
    pass(250 * MS + EXPIRY_SLACK_NS);
    expect_turns(1, 0, 0, 0);
    waiter_busy(&a->waiter, 0);
    assert_int_equal(next_timer_ns(), EXPIRY_SLACK_NS);
    pass(EXPIRY_SLACK_NS);
    expect_turns(1, 0, 0, 0);
    /* The timer during a turn: another one follows. */
    waiter_busy(&a->waiter, 100);
    ready(CHANNEL_OF(LOCK));
    expect_turns(1, 0, 0, 0);
    pass(POLL_MAX_NS);
    expect_turns(0, 0, 0, 0);
    busy(a);
    expect_turns(1, 0, 0, 0);
}

static void lock_is_forgotten_after_a_while(void **state)
{
    (void)state;
    sleepers(1);
    uint64_t before = generation();
    leave(a, 30000);
    assert_int_equal(generation(), before);
    pass(LINGER_NS - 1);
    assert_non_null(CHANNEL_OF(LOCK));
    assert_int_equal(metrics.values[METRIC_WAITED_LOCKS], 1);
    pass(1);
    assert_null(CHANNEL_OF(LOCK));
    assert_int_equal(metrics.values[METRIC_WAITED_LOCKS], 0);
    /* An attempt from before that must not seem fresh in the new subscription. */
    join_as_of(a, before, -1);
    CHANNEL_OF(LOCK)->live = true;
    assert_true(generation() > before);
    join_as_of(b, before, -1);
    expect_turns(1, 0, 0, 0);
}

static void lock_that_is_wanted_again_stays_subscribed(void **state)
{
    (void)state;
    sleepers(1);
    leave(a, -1);
    pass(LINGER_NS - 1);
    unlocked(); /* nobody is there */
    uint64_t now = generation();
    join(b);
    pass(1);
    assert_non_null(CHANNEL_OF(LOCK));
    assert_int_equal(generation(), now);
    expect_turns(0, 0, 0, 0);
    unlocked();
    expect_turns(0, 1, 0, 0);
}

static void waking_message_is_remembered(void **state)
{
    (void)state;
    sleepers(2);
    assert_int_equal(waiter_woken_ns(&b->waiter), 0);
    pass(1 * S);
    unlocked();
    pass(1 * S);
    assert_int_equal(waiter_woken_ns(&b->waiter), loop.now_ns - 1 * S);
}

/* It could not try. */
static void refused(struct visitor *visitor)
{
    visitor->waiter.rests = true;
    waiter_busy(&visitor->waiter, 500);
}

/* Those behind have their turns first, at once; only when nobody is left is there a pause. */
static void who_cannot_try_goes_behind_the_others(void **state)
{
    (void)state;
    sleepers(4);
    unlocked();
    expect_turns(1, 0, 0, 0);
    refused(a);
    expect_turns(0, 1, 0, 0);
    refused(b);
    expect_turns(0, 0, 1, 0);
    refused(c);
    expect_turns(0, 0, 0, 1);
    busy(d);
    expect_turns(0, 0, 0, 0);
    assert_in_range(next_timer_ns(), POLL_MIN_NS, POLL_MAX_NS);
    unlocked();
    expect_turns(0, 0, 0, 1);
    refused(d);
    expect_turns(1, 0, 0, 0);
    refused(a);
    expect_turns(0, 1, 0, 0);
    unlocked(); /* so that one begins anew, after whoever came last */
    refused(b);
    expect_turns(0, 0, 1, 0);
    refused(c);
    refused(d);
    refused(a);
    refused(b);
    expect_turns(1, 1, 0, 1);
    assert_int_equal(next_timer_ns(), 500 * MS + EXPIRY_SLACK_NS);
    pass(next_timer_ns());
    expect_turns(0, 0, 1, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* The sole waiter in a queue of its own, asleep. */
static struct subscriber_channel *fair_sleeper(void)
{
    a->waiter.kind = WAIT_FAIR;
    join(a);
    struct subscriber_channel *channel = channel_of("redisson_lock__channel:{" LOCK "}:" ID_A
                                                    ":0");
    ready(channel);
    busy(a);
    expect_turns(1, 0, 0, 0);
    return channel;
}

static void fair_waiter_is_told_of_the_end(void **state)
{
    (void)state;
    struct subscriber_channel *channel = fair_sleeper();
    publish(channel, "held 300");
    assert_int_equal(next_timer_ns(), 300 * MS + EXPIRY_SLACK_NS);
    publish(channel, "held 900"); /* puts nothing off */
    assert_int_equal(next_timer_ns(), 300 * MS + EXPIRY_SLACK_NS);
    pass(next_timer_ns());
    expect_turns(1, 0, 0, 0);
    /* What a message told during an attempt is newer than what the attempt found. */
    publish(channel, "held 400");
    waiter_busy(&a->waiter, 3000);
    assert_int_equal(next_timer_ns(), 400 * MS + EXPIRY_SLACK_NS);
    pass(next_timer_ns());
    expect_turns(1, 0, 0, 0);
    waiter_busy(&a->waiter, 3000);
    assert_int_equal(next_timer_ns(), 3000 * MS + EXPIRY_SLACK_NS);
    publish(channel, "held 0");
    assert_int_equal(next_timer_ns(), EXPIRY_SLACK_NS);
}

/* The channel is that of the lease, which nobody waits for again once it was granted. */
static void fair_lease_that_was_granted_is_forgotten_at_once(void **state)
{
    (void)state;
    struct subscriber_channel *channel = fair_sleeper();
    leave(a, -1);
    pass(LINGER_NS - 1);
    assert_ptr_equal(channel_of("redisson_lock__channel:{" LOCK "}:" ID_A ":0"), channel);
    join(a);
    leave(a, 30000);
    pass(0);
    assert_null(channel_of("redisson_lock__channel:{" LOCK "}:" ID_A ":0"));
}

static void words_that_tell_no_end(void **state)
{
    static const char *const words[] = {"held",   "held ",      "held -5",
                                        "held x", "held 1 2",   "held 9999999999999999999",
                                        "hell 5", "held 900000"};

    (void)state;
    struct subscriber_channel *channel = fair_sleeper();
    int64_t before_ns = next_timer_ns();
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        publish(channel, words[i]);
        assert_int_equal(next_timer_ns(), before_ns);
    }
    expect_turns(0, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stale_attempt_is_made_up_for),
        TEST(cut_subscription_makes_attempts_stale),
        TEST(poll_comes_within_six_seconds),
        TEST(poll_comes_without_a_subscription),
        TEST(end_of_the_lease_is_tried_for),
        TEST(lock_is_forgotten_after_a_while),
        TEST(lock_that_is_wanted_again_stays_subscribed),
        TEST(waking_message_is_remembered),
        TEST(who_cannot_try_goes_behind_the_others),
        TEST(fair_waiter_is_told_of_the_end),
        TEST(fair_lease_that_was_granted_is_forgotten_at_once),
        TEST(words_that_tell_no_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
