/* storage/wait/release.c and next_waiter.c: which waiter a release may grant the lock to, and
 * what becomes of both. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/hand_overs.h"

/* ---- who is next ---- */

static void first_waiter_is_granted_the_lock(void **state)
{
    (void)state;
    assert_false(release());
    start_waiting(a);
    start_waiting(b);
    assert_true(release());
    expect_sent_to(a);
    assert_true(sent.attempt.registered);
    assert_null(attempt_of(a));
    assert_null(attempt_of(b));
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(a->withdrawn, 0);
    assert_int_equal(holder.done, 1);
    assert_int_equal(holder.result.outcome, LEASE_RELEASED);
    assert_int_equal(metrics.values[METRIC_WAITS_GRANTED], 1);
    assert_true(release());
    expect_sent_to(b);
    answer_hand_over(&released, &granted);
    expect_done(b, TRY_GRANTED);
    assert_false(release());
}

static void waiter_with_an_attempt_is_not_chosen(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    assert_false(release());
    answer(a, TRY_BUSY);
    assert_false(release()); /* not subscribed yet */
    ready(CHANNEL_OF(LOCK));
    assert_false(release());
    answer(a, TRY_BUSY);
    start_waiting(b);
    unlocked();
    assert_non_null(attempt_of(a));
    assert_false(release());
    answer(a, TRY_BUSY);
    CHANNEL_OF(LOCK)->live = false;
    assert_false(release());
}

static void only_some_kinds_are_served(void **state)
{
    (void)state;
    snprintf(a->lease.owner, sizeof(a->lease.owner), "me");
    start_waiting(a);
    assert_false(release());
    cancel(a);
    b->lease.kind = KIND_SET_LOCK;
    start_waiting(b);
    assert_false(release());
}

static void waiter_of_another_lock_is_not_chosen(void **state)
{
    (void)state;
    start_waiting(a);
    lock_names_unref(holder.lease.names);
    holder.lease.names = lock_names_of_one("invoices");
    assert_false(release());
}

/* Its note in the session may be gone: it has to be noted anew. */
static void stale_note_is_not_relied_on(void **state)
{
    (void)state;
    snprintf(a->lease.session_id, sizeof(a->lease.session_id), "s");
    start(a, WAIT_MS);
    answer_preparation(a, TRY_GRANTED, NULL);
    answer(a, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(a, TRY_BUSY);
    assert_true(release());
    expect_sent_to(a);
    assert_string_equal(sent.attempt.session_name, "night build");
    answer_hand_over(NULL, NULL);
    loop.now_ns += (WAIT_MS + 6000) * MS; /* the worker stood still */
    assert_false(release());
}

static void first_waiter_is_granted_the_permit(void **state)
{
    (void)state;
    start_waiting_for_permit(a);
    start_waiting_for_permit(b);
    assert_true(release());
    expect_sent_to(a);
    grant_permit(0);
    expect_done(a, TRY_GRANTED);
    assert_null(attempt_of(b)); /* no other permit is free */
    assert_int_equal(holder.done, 1);
    assert_true(release());
    expect_sent_to(b);
    cancel(b);
    assert_int_equal(b->withdrawn, 1);
    grant_permit(0);
    assert_int_equal(store.orphans_withdrawn, 1);
    assert_false(release());
}

/* The names of a lock and of a semaphore are apart; so are the waiters of both. */
static void release_of_a_lock_grants_no_permit(void **state)
{
    (void)state;
    start_waiting_for_permit(a);
    holder.lease.kind = KIND_LOCK;
    assert_false(release());
    holder.lease.kind = KIND_PERMIT;
    b->lease.kind = KIND_SEMAPHORE;
    cancel(a);
    start(b, WAIT_MS);
    answer(b, TRY_BUSY);
    if (attempt_of(b) != NULL)
        answer(b, TRY_BUSY);
    assert_false(release());
}

static void fair_waiters_are_next_in_their_order(void **state)
{
    struct client *const order[] = {a, b};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        order[i]->lease.kind = KIND_FAIR;
        start(order[i], WAIT_MS);
        answer(order[i], TRY_BUSY);
    }
    ready(channel_of("redisson_lock__channel:{" LOCK "}:1:0"));
    answer_look(TTL_MS);
    assert_true(release()); /* the queue in Redis decides, not the subscription */
    expect_sent_to(a);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    assert_true(release());
    expect_sent_to(b);
    cancel(b);
    assert_false(release());
    answer_hand_over(&released, &granted);
}

/* ---- what goes wrong ---- */

static void client_that_hung_up_is_not_chosen(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    cancel(a);
    assert_true(release());
    expect_sent_to(b);
    answer_hand_over(&released, &granted);
    expect_done(b, TRY_GRANTED);
}

/* The withdrawal is behind the script on the connection, and comes once more after the reply.
 */
static void client_hangs_up_meanwhile(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    assert_true(release());
    cancel(a);
    assert_int_equal(a->withdrawn, 1);
    assert_non_null(attempt_of(b)); /* it has the baton now */
    answer_hand_over(&released, &granted);
    assert_int_equal(store.orphans_withdrawn, 1);
    assert_int_equal(a->done, 0);
    assert_int_equal(holder.done, 1);
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
}

static void client_hangs_up_where_nothing_was_done(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release());
    cancel(a);
    answer_hand_over(NULL, NULL);
    assert_int_equal(a->withdrawn, 1);
    assert_int_equal(store.orphans_withdrawn, 0);
    assert_int_equal(holder.asked, 1);
}

static void lost_reply_is_unknown_to_both(void **state)
{
    const struct lease_result unknown = {.outcome = LEASE_FAILED, .failure = CALL_UNKNOWN};
    const struct attempt_result lost = {
        .outcome = TRY_UNKNOWN, .remaining_ms = -1, .lease = &unknown};

    (void)state;
    start_waiting(a);
    assert_true(release());
    answer_hand_over(&unknown, &lost);
    assert_int_equal(holder.result.failure, CALL_UNKNOWN);
    assert_int_equal(a->done, 0);
    pass(500 * MS + 2 * MS);
    assert_non_null(attempt_of(a)); /* finds the grant, or withdraws it in the end */
    answer(a, TRY_BUSY);
    doze(a, WAIT_MS);
    expect_done(a, TRY_BUSY);
    assert_int_equal(a->withdrawn, 1);
}

static void release_as_any_other_where_nothing_was_done(void **state)
{
    (void)state;
    start_waiting(a);
    int64_t sleep_ns = next_timer_ns();
    assert_true(release());
    answer_hand_over(NULL, NULL);
    assert_int_equal(holder.asked, 1);
    assert_int_equal(holder.done, 0);
    assert_null(attempt_of(a));
    assert_int_equal(next_timer_ns(), sleep_ns); /* sleeps on as before */
    unlocked();
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

/* Released, and the waiters were told. */
static void message_meanwhile_is_not_missed(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release());
    unlocked();
    assert_null(attempt_of(a));
    answer_hand_over(&released, NULL);
    assert_int_equal(holder.done, 1);
    assert_int_equal(holder.asked, 0);
    assert_non_null(attempt_of(a));
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

/* The waiter was not the head of the queue. Another front end's was, holds the lock by now, and
 * not for as long as the released lease would have. */
static void end_that_is_told_meanwhile_is_not_missed(void **state)
{
    (void)state;
    a->lease.kind = KIND_FAIR;
    start(a, WAIT_MS);
    answer(a, TRY_BUSY);
    struct subscriber_channel *channel = channel_of("redisson_lock__channel:{" LOCK "}:0:0");
    ready(channel);
    answer_look(TTL_MS);
    assert_true(release());
    publish(channel, "held 900");
    answer_hand_over(&released, NULL);
    assert_null(attempt_of(a));
    pass(900 * MS + 2 * MS);
    assert_non_null(attempt_of(a));
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

static void news_of_the_lease_meanwhile_are_not_missed(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release());
    waiters_retry_lease(waiters, LOCK, strlen(LOCK), a->lease.id);
    assert_null(attempt_of(a));
    answer_hand_over(&released, NULL);
    assert_non_null(attempt_of(a));
}

static void deadline_waits_for_the_reply(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    doze(a, WAIT_MS - 1);
    while (attempt_of(b) != NULL)
        answer(b, TRY_BUSY);
    assert_true(release());
    pass(1 * MS);
    assert_int_equal(a->done, 0);
    answer_hand_over(&released, NULL);
    assert_int_equal(attempt_of(a)->wait_ms, 0);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
}

static void grant_at_the_deadline_counts(void **state)
{
    (void)state;
    start_waiting(a);
    doze(a, WAIT_MS - 1);
    assert_true(release());
    pass(2 * MS);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
}

static void draining_waits_for_the_chosen_one(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release());
    acquirer_drain(acquirer);
    assert_int_equal(a->done, 0);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(a->withdrawn, 0);
}

/* A release of one hold of several frees nothing. */
static void draining_ends_a_chosen_one_that_gets_nothing(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release());
    acquirer_drain(acquirer);
    answer_hand_over(NULL, NULL);
    expect_done(a, TRY_DRAINING);
    assert_int_equal(a->withdrawn, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_holder, tear_down_holder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_waiter_is_granted_the_lock),
        TEST(waiter_with_an_attempt_is_not_chosen),
        TEST(only_some_kinds_are_served),
        TEST(waiter_of_another_lock_is_not_chosen),
        TEST(stale_note_is_not_relied_on),
        TEST(first_waiter_is_granted_the_permit),
        TEST(release_of_a_lock_grants_no_permit),
        TEST(fair_waiters_are_next_in_their_order),
        TEST(client_that_hung_up_is_not_chosen),
        TEST(client_hangs_up_meanwhile),
        TEST(client_hangs_up_where_nothing_was_done),
        TEST(lost_reply_is_unknown_to_both),
        TEST(release_as_any_other_where_nothing_was_done),
        TEST(message_meanwhile_is_not_missed),
        TEST(end_that_is_told_meanwhile_is_not_missed),
        TEST(news_of_the_lease_meanwhile_are_not_missed),
        TEST(deadline_waits_for_the_reply),
        TEST(grant_at_the_deadline_counts),
        TEST(draining_waits_for_the_chosen_one),
        TEST(draining_ends_a_chosen_one_that_gets_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
