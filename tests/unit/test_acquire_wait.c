/* storage/wait/acquire.c, on its real waiters: several clients of one lock, deadlines,
 * draining. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/acquisitions.h"

static void expect_attempt(const struct client *client, int64_t wait_ms, bool registered)
{
    const struct sent_attempt *attempt = attempt_of(client);

    assert_non_null(attempt);
    assert_int_equal(attempt->wait_ms, wait_ms);
    assert_int_equal(attempt->registered, registered);
}

/* So long as it may wait it stands among the waiters in Redis; the last attempt takes it off.
 */
static void attempts_register_for_the_time_left(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    expect_attempt(a, WAIT_MS, false);
    pass(1 * S);
    answer(a, TRY_BUSY);
    pass(1 * S);
    ready(CHANNEL_OF(LOCK));
    expect_attempt(a, WAIT_MS - 2000, true);
    answer(a, TRY_BUSY);
    doze(a, WAIT_MS - 2000);
    expect_attempt(a, 0, true);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);

    start(b, 0);
    expect_attempt(b, 0, false);
    answer(b, TRY_BUSY);
    expect_done(b, TRY_BUSY);
    assert_int_equal(b->suspended, 0);
    assert_int_equal(b->withdrawn, 0);
}

/* As in a cluster while the slot of the lock has no master. */
static void subscription_without_a_server_ends_with_the_wait(void **state)
{
    (void)state;
    start_waiting(a);
    CHANNEL_OF(LOCK)->owner->channel = NULL;
    pass(WAIT_MS * MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    pass(5 * S);
    assert_null(CHANNEL_OF(LOCK));
}

static void deadline_waits_for_the_attempt_under_way(void **state)
{
    (void)state;
    start_waiting(a);
    unlocked();
    size_t attempts = store.attempt_count;
    pass(WAIT_MS * MS);
    unlocked();
    assert_int_equal(store.attempt_count, attempts);
    assert_int_equal(a->done, 0);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(store.attempt_count, attempts);
}

static void message_during_the_first_attempt_gives_another(void **state)
{
    (void)state;
    start_waiting(a);
    start(b, WAIT_MS);
    unlocked();
    assert_non_null(attempt_of(a));
    answer(a, TRY_GRANTED);
    /* b's attempt may have run before that unlock, and a may have released since. */
    answer(b, TRY_BUSY);
    expect_attempt(b, WAIT_MS, true);
    answer(b, TRY_BUSY);
    /* The first attempt of c saw everything: it sleeps. */
    pass(21 * MS); /* until then a's release might grant it the lock */
    start(c, WAIT_MS);
    answer(c, TRY_BUSY);
    assert_null(attempt_of(c));
}

static void one_client_tries_at_a_time(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    start_waiting(c);
    unlocked();
    assert_non_null(attempt_of(a));
    assert_null(attempt_of(b));
    answer(a, TRY_GRANTED);
    assert_null(attempt_of(b));
    unlocked();
    assert_non_null(attempt_of(b));
    assert_null(attempt_of(c));
    expect_done(a, TRY_GRANTED);
    assert_int_equal(a->withdrawn, 0);
}

/* Its wake-up is not lost, and what it may have got is taken back first. */
static void cancelled_client_passes_its_turn_on(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    unlocked();
    size_t attempts = store.attempt_count;
    cancel(a);
    assert_int_equal(a->withdrawn, 1);
    assert_int_equal(a->withdrawn_after, attempts);
    assert_non_null(attempt_of(b));
    answer(a, TRY_GRANTED);
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
    assert_int_equal(a->done, 0);
    assert_int_equal(b->withdrawn, 0);
}

static void sleeper_is_cancelled_without_an_attempt(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    size_t attempts = store.attempt_count;
    cancel(b);
    assert_int_equal(b->withdrawn, 1);
    assert_int_equal(store.attempt_count, attempts);
    unlocked();
    assert_non_null(attempt_of(a));
    assert_int_equal(metrics.values[METRIC_WAITERS_GONE], 1);
}

/* The deadline of one that has the turn is no reason for the others to sleep on. */
static void deadline_passes_the_turn_on(void **state)
{
    (void)state;
    start_waiting(a);
    pass(1 * S);
    start_waiting(b);
    doze(a, WAIT_MS - 1500);
    unlocked();
    pass(500 * MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_non_null(attempt_of(b));
}

static void only_so_many_may_wait(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    start_waiting(c);
    start(d, WAIT_MS);
    expect_attempt(d, 0, false);
    answer(d, TRY_BUSY);
    expect_done(d, TRY_TOO_MANY_WAITERS);
    assert_int_equal(d->withdrawn, 0);
    assert_int_equal(d->suspended, 0);
    assert_int_equal(metrics.values[METRIC_REFUSED_WAITERS], 1);
    /* A free lock is for everyone. */
    d->done = 0;
    start(d, WAIT_MS);
    answer(d, TRY_GRANTED);
    expect_done(d, TRY_GRANTED);
    /* Those who wait already go on, and who leaves makes room. */
    unlocked();
    expect_attempt(a, WAIT_MS, true);
    answer(a, TRY_BUSY);
    assert_int_equal(a->done, 0);
    cancel(b);
    d->done = 0;
    pass(21 * MS); /* until then the release of d's lease might grant it the lock */
    start(d, WAIT_MS);
    expect_attempt(d, WAIT_MS, false);
    answer(d, TRY_BUSY);
    assert_int_equal(d->done, 0);
    assert_int_equal(d->suspended, 1);
}

static void draining_ends_every_wait(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    start(c, WAIT_MS);
    start(d, 0);
    unlocked();
    acquirer_drain(acquirer);
    expect_done(b, TRY_DRAINING);
    assert_int_equal(a->done, 0); /* an attempt is under way */
    answer(a, TRY_BUSY);
    expect_done(a, TRY_DRAINING);
    assert_int_equal(a->withdrawn, 1);
    assert_int_equal(b->withdrawn, 1);
    /* Who does not wait gets its answer, and who would have to is not let in. */
    assert_int_equal(c->done, 0);
    answer(c, TRY_BUSY);
    expect_done(c, TRY_DRAINING);
    assert_int_equal(c->withdrawn, 1);
    assert_int_equal(c->suspended, 0);
    answer(d, TRY_BUSY);
    expect_done(d, TRY_BUSY);
    c->done = 0;
    start(c, WAIT_MS);
    answer(c, TRY_GRANTED);
    expect_done(c, TRY_GRANTED);
}

/* Of an attempt whose outcome is unknown no answer says that it was not executed. */
static void draining_after_an_unknown_attempt(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    unlocked();
    answer(a, TRY_UNKNOWN);
    assert_int_equal(a->done, 0);
    acquirer_drain(acquirer);
    expect_done(a, TRY_UNKNOWN);
    assert_int_equal(a->withdrawn, 1);
}

static uint64_t observed(enum histogram histogram)
{
    uint64_t count = 0;

    for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++)
        count += metrics.histograms[histogram].buckets[i];
    return count;
}

static void waits_are_counted(void **state)
{
    (void)state;
    start(d, WAIT_MS);
    answer(d, TRY_GRANTED); /* no wait */
    start_waiting(a);
    start_waiting(b);
    start_waiting(c);
    pass(1 * S);
    unlocked();
    answer(a, TRY_GRANTED);
    cancel(b);
    doze(c, WAIT_MS - 1000);
    answer(c, TRY_BUSY);
    assert_int_equal(metrics.values[METRIC_WAITS_STARTED], 3);
    assert_int_equal(metrics.values[METRIC_WAITS_GRANTED], 1);
    assert_int_equal(metrics.values[METRIC_WAITS_ENDED], 2);
    assert_int_equal(metrics.values[METRIC_WAITERS_GONE], 1);
    assert_int_equal(metrics.values[METRIC_WAITERS], 0);
    assert_int_equal(observed(HISTOGRAM_WAIT), 3);
    assert_int_equal(observed(HISTOGRAM_UNLOCK_TO_GRANT), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* `a` and `b` wait for a permit, and `a` gets one. */
static void a_gets_a_permit(int64_t none_left_ms)
{
    const struct lease_result lease = {.remaining_ms = TTL_MS, .available = none_left_ms == 0};
    const struct attempt_result result = {.outcome = TRY_GRANTED,
                                          .remaining_ms = TTL_MS,
                                          .none_left_ms = none_left_ms,
                                          .lease = &lease};
    struct client *const both[] = {a, b};

    for (size_t i = 0; i < 2; i++) {
        both[i]->lease.kind = KIND_PERMIT;
        start(both[i], WAIT_MS);
        answer(both[i], TRY_BUSY);
    }
    ready(channel_of("redisson_sc:{" LOCK "}"));
    answer(a, TRY_BUSY);
    publish(channel_of("redisson_sc:{" LOCK "}"), "2");
    answer_with(a, &result);
    expect_done(a, TRY_GRANTED);
}

static void rest_of_the_permits_is_for_the_next(void **state)
{
    (void)state;
    a_gets_a_permit(0);
    assert_non_null(attempt_of(b));
}

/* An attempt would be in vain until a permit expires. */
static void after_the_last_permit_nobody_tries(void **state)
{
    (void)state;
    a_gets_a_permit(700);
    assert_null(attempt_of(b));
    pass(702 * MS);
    assert_non_null(attempt_of(b));
}

/* A waiter of a fair lock whose subscription has just been confirmed. */
static void start_looking(void)
{
    a->lease.kind = KIND_FAIR;
    start(a, WAIT_MS);
    answer(a, TRY_BUSY);
    ready(channel_of("redisson_lock__channel:{" LOCK "}:0:0"));
    assert_null(attempt_of(a));
}

static void fair_waiter_only_looks_whether_it_was_called(void **state)
{
    (void)state;
    start_looking();
    answer_look(700);
    assert_null(attempt_of(a));
    assert_int_equal(next_timer_ns(), 702 * MS);
    pass(702 * MS);
    assert_non_null(attempt_of(a));
    answer(a, TRY_BUSY);
    /* The next time more may have been missed. */
    ready(channel_of("redisson_lock__channel:{" LOCK "}:0:0"));
    assert_non_null(attempt_of(a));
}

static void fair_waiter_tries_where_the_lock_is_free(void **state)
{
    static const int64_t answers[] = {LOCK_TTL_FREE, LOCK_TTL_UNKNOWN};

    for (size_t i = 0; i < 2; i++) {
        tear_down(state);
        set_up(state);
        start_looking();
        answer_look(answers[i]);
        answer(a, TRY_GRANTED);
        expect_done(a, TRY_GRANTED);
    }
}

static void fair_waiter_is_called_while_it_looks(void **state)
{
    (void)state;
    start_looking();
    publish(channel_of("redisson_lock__channel:{" LOCK "}:0:0"), "0");
    answer_look(700);
    assert_non_null(attempt_of(a));
}

static void deadline_passes_while_it_looks(void **state)
{
    (void)state;
    start_looking();
    pass(WAIT_MS * MS);
    assert_int_equal(a->done, 0);
    answer_look(700);
    assert_int_equal(attempt_of(a)->wait_ms, 0);
}

static void fair_client_hangs_up_while_it_looks(void **state)
{
    (void)state;
    start_looking();
    cancel(a);
    assert_int_equal(a->withdrawn, 1);
    answer_look(700);
    assert_int_equal(store.orphans_withdrawn, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attempts_register_for_the_time_left),
        TEST(subscription_without_a_server_ends_with_the_wait),
        TEST(deadline_waits_for_the_attempt_under_way),
        TEST(message_during_the_first_attempt_gives_another),
        TEST(one_client_tries_at_a_time),
        TEST(cancelled_client_passes_its_turn_on),
        TEST(sleeper_is_cancelled_without_an_attempt),
        TEST(deadline_passes_the_turn_on),
        TEST(only_so_many_may_wait),
        TEST(draining_ends_every_wait),
        TEST(draining_after_an_unknown_attempt),
        TEST(waits_are_counted),
        TEST(rest_of_the_permits_is_for_the_next),
        TEST(after_the_last_permit_nobody_tries),
        TEST(fair_waiter_only_looks_whether_it_was_called),
        TEST(fair_waiter_tries_where_the_lock_is_free),
        TEST(fair_waiter_is_called_while_it_looks),
        TEST(deadline_passes_while_it_looks),
        TEST(fair_client_hangs_up_while_it_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
