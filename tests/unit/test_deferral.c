/* First attempts that are put off, since a release is likely to grant the lock before. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/hand_overs.h"

enum { DEFERRAL_MS = 20 };

/* `a` has just got the lock by a release, and nobody waits. */
static void a_gets_the_lock(void)
{
    start_waiting(a);
    assert_true(release());
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
}

static void expect_deferred(const struct client *client)
{
    assert_null(attempt_of(client));
    assert_int_equal(client->suspended, 1);
    assert_int_equal(client->done, 0);
}

static void expect_tries(const struct client *client, int64_t wait_ms)
{
    assert_non_null(attempt_of(client));
    assert_int_equal(attempt_of(client)->wait_ms, wait_ms);
    assert_false(attempt_of(client)->registered);
}

/* ---- where it pays ---- */

static void release_grants_without_an_attempt(void **state)
{
    (void)state;
    a_gets_the_lock();
    size_t attempts = store.attempt_count;
    start(b, WAIT_MS);
    expect_deferred(b);
    assert_int_equal(slots.used, 1);
    start(c, WAIT_MS);
    assert_true(release());
    expect_sent_to(b);
    assert_false(sent.attempt.registered);
    answer_hand_over(&released, &granted);
    expect_done(b, TRY_GRANTED);
    assert_int_equal(b->withdrawn, 0);
    assert_true(release());
    expect_sent_to(c);
    answer_hand_over(&released, &granted);
    expect_done(c, TRY_GRANTED);
    assert_int_equal(store.attempt_count, attempts);
    assert_int_equal(slots.used, 0);
    assert_int_equal(metrics.values[METRIC_WAITS_GRANTED], 3);
}

static void registered_waiter_comes_first(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    assert_true(release());
    answer_hand_over(&released, &granted);
    start(c, WAIT_MS);
    expect_deferred(c);
    assert_true(release());
    expect_sent_to(b);
    assert_true(sent.attempt.registered);
    answer_hand_over(&released, &granted);
}

static void permit_is_granted_without_an_attempt(void **state)
{
    (void)state;
    start_waiting_for_permit(a);
    assert_true(release());
    grant_permit(0);
    b->lease.kind = KIND_PERMIT;
    start(b, WAIT_MS);
    expect_deferred(b);
    assert_true(release());
    expect_sent_to(b);
    assert_false(sent.attempt.registered);
    grant_permit(0);
    expect_done(b, TRY_GRANTED);
    assert_false(release());
    c->lease.kind = KIND_PERMIT;
    start(c, WAIT_MS);
    expect_tries(c, WAIT_MS); /* nobody waits, and a permit is free */
    assert_false(attempt_of(c)->waiting);
    answer(c, TRY_GRANTED);
    d->lease.kind = KIND_PERMIT;
    start(d, WAIT_MS);
    expect_deferred(d);
}

/* Also of a lease that did not wait. */
static void first_attempt_that_is_granted_counts(void **state)
{
    (void)state;
    a_gets_the_lock();
    pass(DEFERRAL_MS * MS);
    assert_false(release());
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
    answer(b, TRY_GRANTED);
    start(c, WAIT_MS);
    expect_deferred(c);
}

/* ---- how it ends ---- */

static void attempt_follows_in_time(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    pass(DEFERRAL_MS * MS - 1);
    expect_deferred(b);
    pass(1);
    expect_tries(b, WAIT_MS - DEFERRAL_MS);
    assert_true(attempt_of(b)->waiting); /* a permit tells it when to look again */
    answer(b, TRY_BUSY);
    assert_int_equal(b->suspended, 1);
    assert_true(release());
    assert_true(sent.attempt.registered);
    answer_hand_over(NULL, NULL);
    doze(b, WAIT_MS - DEFERRAL_MS);
    assert_int_equal(attempt_of(b)->wait_ms, 0);
    answer(b, TRY_BUSY);
    expect_done(b, TRY_BUSY);
}

static void wake_up_ends_it(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    unlocked();
    expect_tries(b, WAIT_MS);
    start(c, WAIT_MS); /* b comes first */
    expect_deferred(c);
    pass(DEFERRAL_MS * MS);
    expect_tries(c, WAIT_MS - DEFERRAL_MS);
    answer(b, TRY_BUSY);
    assert_null(attempt_of(b));
}

/* The script did not grant, for whatever reason, and the deferral ended meanwhile. */
static void attempt_follows_a_release_that_granted_nothing(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    pass(DEFERRAL_MS * MS - 1);
    assert_true(release());
    pass(1);
    assert_null(attempt_of(b));
    answer_hand_over(&released, NULL);
    expect_tries(b, WAIT_MS - DEFERRAL_MS);
}

static void lost_reply_is_found_out(void **state)
{
    const struct lease_result unknown = {.outcome = LEASE_FAILED, .failure = CALL_UNKNOWN};
    const struct attempt_result lost = {
        .outcome = TRY_UNKNOWN, .remaining_ms = -1, .lease = &unknown};

    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    assert_true(release());
    answer_hand_over(&unknown, &lost);
    assert_int_equal(b->done, 0);
    pass(DEFERRAL_MS * MS);
    expect_tries(b, WAIT_MS - DEFERRAL_MS);
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
}

static void client_hangs_up(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    start(c, WAIT_MS);
    cancel(b); /* Redis knows nothing of it */
    assert_int_equal(b->withdrawn, 0);
    assert_true(release());
    expect_sent_to(c);
    cancel(c);
    assert_int_equal(c->withdrawn, 1);
    answer_hand_over(&released, &granted);
    assert_int_equal(store.orphans_withdrawn, 1);
    assert_int_equal(slots.used, 0);
}

static void draining_ends_it(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    acquirer_drain(acquirer);
    expect_done(b, TRY_DRAINING);
    start(c, WAIT_MS);
    expect_tries(c, WAIT_MS);
}

static void redis_is_back(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, WAIT_MS);
    acquirer_redis_is_up(acquirer);
    expect_tries(b, WAIT_MS);
}

/* ---- where the attempt is made at once ---- */

static void lock_that_may_be_free_is_tried(void **state)
{
    (void)state;
    a_gets_the_lock();
    assert_false(release());
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
}

static void lock_that_is_held_for_long_is_tried(void **state)
{
    (void)state;
    a_gets_the_lock();
    pass(DEFERRAL_MS * MS + 1);
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
}

static void lease_that_may_have_ended_is_tried(void **state)
{
    const struct attempt_result brief = {.outcome = TRY_GRANTED, .remaining_ms = 10};

    (void)state;
    start_waiting(a);
    assert_true(release());
    answer_hand_over(&released, &brief);
    pass(10 * MS);
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
}

static void messages_have_to_be_heard(void **state)
{
    (void)state;
    a_gets_the_lock();
    CHANNEL_OF(LOCK)->live = false;
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
}

static void short_waits_are_not_deferred(void **state)
{
    (void)state;
    a_gets_the_lock();
    start(b, DEFERRAL_MS);
    expect_tries(b, DEFERRAL_MS);
    start(c, 0);
    expect_tries(c, 0);
}

static void some_leases_are_not_deferred(void **state)
{
    (void)state;
    a_gets_the_lock();
    snprintf(b->lease.owner, sizeof(b->lease.owner), "me");
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
    c->lease.token = TOKEN_RETURNED; /* without a record it is spent */
    start(c, WAIT_MS);
    expect_tries(c, WAIT_MS);
    snprintf(d->lease.session_id, sizeof(d->lease.session_id), "s");
    start(d, WAIT_MS);
    assert_non_null(preparation_of(d));
}

static void who_may_not_wait_tries(void **state)
{
    (void)state;
    a_gets_the_lock();
    b->must_not_wait = true;
    start(b, WAIT_MS);
    expect_tries(b, WAIT_MS);
    answer(b, TRY_BUSY);
    expect_done(b, TRY_MAY_NOT_WAIT);
    slots.used = slots.limit;
    start(c, WAIT_MS);
    expect_tries(c, 0);
    slots.used = 0;
}

/* Nothing is waited for when the lock is released; a waiter is on the way. */
static void fair_waiter_tries_after_a_release_meanwhile(void **state)
{
    (void)state;
    a->lease.kind = b->lease.kind = KIND_FAIR;
    start(a, WAIT_MS);
    answer(a, TRY_BUSY);
    assert_true(release());
    answer_hand_over(&released, &granted);
    pass(MS); /* the queue of that waiter is forgotten */
    start(b, WAIT_MS);
    assert_false(release());
    answer(b, TRY_BUSY);
    assert_non_null(attempt_of(b));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_holder, tear_down_holder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(release_grants_without_an_attempt),
        TEST(registered_waiter_comes_first),
        TEST(permit_is_granted_without_an_attempt),
        TEST(first_attempt_that_is_granted_counts),
        TEST(attempt_follows_in_time),
        TEST(wake_up_ends_it),
        TEST(attempt_follows_a_release_that_granted_nothing),
        TEST(lost_reply_is_found_out),
        TEST(client_hangs_up),
        TEST(draining_ends_it),
        TEST(redis_is_back),
        TEST(lock_that_may_be_free_is_tried),
        TEST(lock_that_is_held_for_long_is_tried),
        TEST(lease_that_may_have_ended_is_tried),
        TEST(messages_have_to_be_heard),
        TEST(short_waits_are_not_deferred),
        TEST(some_leases_are_not_deferred),
        TEST(who_may_not_wait_tries),
        TEST(fair_waiter_tries_after_a_release_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
