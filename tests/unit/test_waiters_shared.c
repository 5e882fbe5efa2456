/* storage/wait/waiters.c: semaphores and readers, of whom several are served; latches that are
 * for everyone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/visitors.h"

#define SEMAPHORE channel_of("redisson_sc:{" LOCK "}")
#define READ_WRITE channel_of("redisson_rwlock:{" LOCK "}")
#define LATCH channel_of("redisson_countdownlatch__channel__{" LOCK "}")

/* All four wait, subscribed and asleep; each wants one permit. */
static void crowd(enum wait_kind kind)
{
    for (size_t i = 0; i < VISITORS; i++) {
        visitors[i].waiter.kind = kind;
        visitors[i].waiter.wants = 1;
    }
    join(a);
    ready(kind == WAIT_LATCH ? LATCH : kind == WAIT_SEMAPHORE ? SEMAPHORE : READ_WRITE);
    busy(a);
    for (size_t i = 1; i < VISITORS; i++)
        join(&visitors[i]);
    expect_turns(1, 0, 0, 0);
}

static void release_serves_until_one_is_busy(void **state)
{
    (void)state;
    crowd(WAIT_SEMAPHORE);
    publish(SEMAPHORE, "3");
    expect_turns(1, 0, 0, 0);
    leave(a, -1);
    expect_turns(0, 1, 0, 0);
    leave(b, -1);
    expect_turns(0, 0, 1, 0);
    busy(c);
    expect_turns(0, 0, 0, 0);
    /* Who wants as much as one that was busy need not try. */
    publish(SEMAPHORE, "12");
    expect_turns(0, 0, 1, 0);
}

static void other_messages_wake_nobody(void **state)
{
    static const char *const payloads[] = {"", "0", "-3", "x"};

    (void)state;
    crowd(WAIT_SEMAPHORE);
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++)
        publish(SEMAPHORE, payloads[i]);
    expect_turns(0, 0, 0, 0);
}

static void the_modest_pass(void **state)
{
    (void)state;
    crowd(WAIT_SEMAPHORE);
    a->waiter.wants = 9;
    b->waiter.wants = 9;
    c->waiter.wants = 4;
    d->waiter.wants = 2;
    publish(SEMAPHORE, "2");
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 1, 0);
    busy(c);
    expect_turns(0, 0, 0, 1);
    leave(d, -1);
    /* Something may be left, so it begins again at the head. */
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 1, 0);
    /* What happens meanwhile is for the head, too. */
    publish(SEMAPHORE, "9");
    busy(c);
    expect_turns(1, 0, 0, 0);
}

/* A writer at the head, readers behind it. */
static void readers_behind_a_writer(void)
{
    crowd(WAIT_READ_WRITE);
    a->waiter.wants = 2;
}

/* In another turn of the loop than all messages before. */
static void tell_free(const char *payload)
{
    pass(1);
    publish(READ_WRITE, payload);
}

/* The head is not asked again after each of them. */
static void readers_pass_a_busy_writer_one_after_the_other(void **state)
{
    (void)state;
    readers_behind_a_writer();
    tell_free("1");
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 1, 0, 0);
    leave(b, -1);
    expect_turns(0, 0, 1, 0);
    /* One that goes away without it passes the turn on, too. */
    leave(c, -1);
    expect_turns(0, 0, 0, 1);
    leave(d, -1);
    /* At the end something may be left for the head. */
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 0, 0);
    tell_free("0");
    expect_turns(1, 0, 0, 0);
}

static void what_happens_among_readers_is_for_the_head(void **state)
{
    (void)state;
    readers_behind_a_writer();
    tell_free("1");
    busy(a);
    expect_turns(1, 1, 0, 0);
    tell_free("0");
    leave(b, -1);
    expect_turns(1, 0, 0, 0);
    busy(a);
    expect_turns(0, 0, 1, 0);
    busy(c); /* a writer was quicker: readers that want as much need not try */
    expect_turns(0, 0, 0, 0);
    pass(POLL_MAX_NS);
    expect_turns(1, 0, 0, 0);
}

/* After the head's own turn nobody is passed over: whoever wants as much as it may have it. */
static void the_next_turn_begins_at_the_head(void **state)
{
    (void)state;
    readers_behind_a_writer();
    b->waiter.wants = 2;
    tell_free("1");
    busy(a);
    expect_turns(1, 0, 1, 0);
    busy(c);
    tell_free("1");
    leave(a, -1);
    expect_turns(1, 1, 0, 0);
    leave(b, 1000);
    expect_turns(0, 0, 0, 0);
    pass(S + EXPIRY_SLACK_NS);
    expect_turns(0, 0, 1, 0);
    leave(c, -1);
    expect_turns(0, 0, 0, 1);
}

/* An attempt that begins upon the first of two messages comes after both. */
static void messages_of_one_turn_wake_once(void **state)
{
    (void)state;
    readers_behind_a_writer();
    tell_free("1");
    publish(READ_WRITE, "0");
    expect_turns(1, 0, 0, 0);
    leave(a, 1000);
    expect_turns(0, 0, 0, 0);
    tell_free("1");
    expect_turns(0, 1, 0, 0);
}

/* What it finds out may be older than what happened. */
static void who_tries_meanwhile_tries_again(void **state)
{
    (void)state;
    readers_behind_a_writer();
    waiters_retry_lease(waiters, LOCK, strlen(LOCK), c->waiter.lease_id);
    expect_turns(0, 0, 1, 0);
    tell_free("1");
    busy(a);
    leave(b, -1);
    expect_turns(1, 1, 0, 1);
    leave(d, -1);
    busy(a);
    expect_turns(1, 0, 0, 0);
    busy(c);
    expect_turns(0, 0, 1, 0);
    busy(c);
    expect_turns(0, 0, 0, 0);
    /* The same of one before the first that can have the turn. */
    waiters_retry_lease(waiters, LOCK, strlen(LOCK), a->waiter.lease_id);
    tell_free("1");
    expect_turns(1, 0, 1, 0);
    busy(c);
    busy(a);
    expect_turns(1, 0, 0, 0);
}

/* How often a waits anew until nothing more happens; far too often to be all is not waited for.
 */
static unsigned tries_until_quiet(void)
{
    unsigned tries = 0;

    for (; a->waiter.trying && tries < 50; tries++)
        busy(a);
    a->turns = 0;
    return tries;
}

/* Alone, it tries of its own accord, and meanwhile the lock's channel is heard. */
static void events_are_tried_for_once(void **state)
{
    static const enum wait_kind kinds[] = {WAIT_SEMAPHORE, WAIT_READ_WRITE};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        a->waiter.kind = kinds[i];
        a->waiter.wants = 1;
        join(a);
        ready(kinds[i] == WAIT_SEMAPHORE ? SEMAPHORE : READ_WRITE);
        busy(a);
        a->waiter.trying = true; /* as its owner does */
        publish(kinds[i] == WAIT_SEMAPHORE ? SEMAPHORE : READ_WRITE, "1");
        assert_in_range(tries_until_quiet(), 1, 2);
        /* It had the turn, and a nudge of its own came on top. */
        publish(kinds[i] == WAIT_SEMAPHORE ? SEMAPHORE : READ_WRITE, "1");
        waiters_retry_lease(waiters, LOCK, strlen(LOCK), a->waiter.lease_id);
        publish(kinds[i] == WAIT_SEMAPHORE ? SEMAPHORE : READ_WRITE, "1");
        assert_in_range(tries_until_quiet(), 1, 2);
        leave(a, -1);
    }
}

/* Two that try of their own accord while a release comes: both try once more, no more often. */
static void all_that_try_meanwhile_try_again_once(void **state)
{
    (void)state;
    crowd(WAIT_READ_WRITE);
    leave(c, -1);
    leave(d, -1);
    waiters_retry_lease(waiters, LOCK, strlen(LOCK), a->waiter.lease_id);
    waiters_retry_lease(waiters, LOCK, strlen(LOCK), b->waiter.lease_id);
    expect_turns(1, 1, 0, 0);
    tell_free("0");
    busy(b);
    busy(a);
    expect_turns(1, 1, 0, 0);
    busy(a);
    busy(b);
    expect_turns(0, 0, 0, 0);
    pass(POLL_MAX_NS);
    expect_turns(1, 0, 0, 0);
}

/* The poll comes while the only waiter tries of its own accord, and goes with it. */
static void who_joins_after_a_poll_is_polled_for(void **state)
{
    (void)state;
    a->waiter.kind = b->waiter.kind = WAIT_READ_WRITE;
    join(a);
    ready(READ_WRITE);
    busy(a);
    expect_turns(1, 0, 0, 0);
    a->waiter.trying = true; /* as its owner does */
    pass(POLL_MAX_NS);
    join(b);
    leave(a, -1);
    expect_turns(0, 0, 0, 0);
    pass(POLL_MAX_NS);
    expect_turns(0, 1, 0, 0);
}

static void open_latch_is_for_everyone(void **state)
{
    (void)state;
    crowd(WAIT_LATCH);
    publish(LATCH, "1");
    expect_turns(1, 0, 0, 0);
    publish(LATCH, "0");
    expect_turns(0, 1, 1, 1);
    /* The one that was trying has to try again. */
    busy(a);
    expect_turns(1, 0, 0, 0);
    for (size_t i = 0; i < VISITORS; i++)
        leave(&visitors[i], -1);
    expect_turns(0, 0, 0, 0);
}

/* A name that was a lock's is soon a semaphore's: the lock's channel tells nothing of it. */
static void kinds_have_their_own_queues(void **state)
{
    (void)state;
    sleepers(1);
    leave(a, -1);
    crowd(WAIT_SEMAPHORE);
    assert_int_equal(metrics.values[METRIC_WAITED_LOCKS], 2);
    unlocked();
    expect_turns(0, 0, 0, 0);
    publish(SEMAPHORE, "1");
    expect_turns(1, 0, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(release_serves_until_one_is_busy),
        TEST(other_messages_wake_nobody),
        TEST(the_modest_pass),
        TEST(readers_pass_a_busy_writer_one_after_the_other),
        TEST(what_happens_among_readers_is_for_the_head),
        TEST(the_next_turn_begins_at_the_head),
        TEST(messages_of_one_turn_wake_once),
        TEST(who_tries_meanwhile_tries_again),
        TEST(events_are_tried_for_once),
        TEST(all_that_try_meanwhile_try_again_once),
        TEST(who_joins_after_a_poll_is_polled_for),
        TEST(open_latch_is_for_everyone),
        TEST(kinds_have_their_own_queues),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
