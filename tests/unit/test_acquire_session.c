/* storage/wait/acquire.c: leases with a session, whose attempts are noted there first. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/acquisitions.h"

static int set_up_session(void **state)
{
    int failed = set_up(state);

    for (size_t i = 0; i < CLIENTS; i++)
        snprintf(clients[i].lease.session_id, sizeof(clients[i].lease.session_id), "s");
    return failed;
}

static void prepared(const struct client *client)
{
    answer_preparation(client, TRY_GRANTED, NULL);
}

static void the_session_is_asked_before_the_lock(void **state)
{
    (void)state;
    start(a, 0);
    assert_null(attempt_of(a));
    prepared(a);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(a->unprepared, 0);
    assert_int_equal(store.preparation_count, 1);
}

static void what_came_to_nothing_is_noted_no_more(void **state)
{
    (void)state;
    start(a, 0);
    prepared(a);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(a->unprepared, 1);
    assert_int_equal(a->withdrawn, 0);
}

static void a_request_that_waited_is_withdrawn_instead(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    pass(WAIT_MS * MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(a->withdrawn, 1);
    assert_int_equal(a->unprepared, 0);
    assert_int_equal(store.preparation_count, 1);
}

static void a_session_that_has_ended_refuses(void **state)
{
    const struct lease_result ended = {.outcome = LEASE_SESSION_ENDED, .reason = "expired"};

    (void)state;
    start(a, WAIT_MS);
    answer_preparation(a, TRY_REFUSED, &ended);
    expect_done(a, TRY_REFUSED);
    assert_int_equal(store.attempt_count, 0);
    assert_int_equal(a->unprepared, 0);
    assert_int_equal(a->withdrawn, 0);
}

/* The lock's home says that the lease was spent; the session says why. */
static void a_waiter_learns_that_its_session_has_ended(void **state)
{
    const struct lease_result spent = {.outcome = LEASE_ENDED, .reason = "session-ended"};
    const struct lease_result ended = {.outcome = LEASE_SESSION_ENDED, .reason = "expired"};
    const struct attempt_result refused = {.outcome = TRY_REFUSED, .lease = &spent};

    (void)state;
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer_with(a, &refused);
    assert_int_equal(a->done, 0);
    answer_preparation(a, TRY_REFUSED, &ended);
    expect_done(a, TRY_REFUSED);
}

static void a_worker_that_stood_still_asks_again(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    pass(6 * S);
    prepared(a);
    assert_null(attempt_of(a));
    prepared(a);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(store.preparation_count, 2);
}

/* The worker stood still within a turn, with the attempt on its way or about to be: meanwhile
 * the session may have forgotten the note, and the lease would last beyond the session. The
 * note of a request that waits is safe. */
static void a_grant_without_a_fresh_note_is_none(void **state)
{
    (void)state;
    loop.now_ns = clock_ns() - 11 * S;
    start(a, 0);
    prepared(a);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_UNKNOWN);
    assert_int_equal(a->withdrawn, 1);
    start(b, WAIT_MS);
    prepared(b);
    answer(b, TRY_CONFIRMED);
    expect_done(b, TRY_UNKNOWN);
    start(c, WAIT_MS);
    prepared(c);
    answer(c, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(c, TRY_GRANTED);
    expect_done(c, TRY_GRANTED);
}

/* As in a quarantine: the lock's home may have forgotten that the request waits, and the
 * session forgets a note of which it finds no trace there. */
static void an_attempt_that_is_held_back_needs_a_fresh_note(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(a, TRY_NOT_EXECUTED);
    pass(1 * S);
    answer(a, TRY_NOT_EXECUTED);
    assert_int_equal(store.preparation_count, 1);
    pass(6 * S);
    assert_null(attempt_of(a));
    prepared(a);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(store.preparation_count, 2);
}

/* Client a waits, its attempt ends so, and the next one needs a fresh note. */
static void wait_without_redis(enum try_outcome outcome)
{
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(a, outcome);
    pass(6 * S);
}

/* No errand takes back the note of an attempt that may still come. */
static void a_note_that_is_unknown_is_taken_back_at_the_end(void **state)
{
    const struct lease_result failed = {.outcome = LEASE_FAILED};

    (void)state;
    start(a, 0);
    answer_preparation(a, TRY_UNKNOWN, &failed);
    expect_done(a, TRY_UNKNOWN);
    assert_int_equal(a->unprepared, 1);
    start(b, 0);
    answer_preparation(b, TRY_NOT_EXECUTED, &failed);
    expect_done(b, TRY_NOT_EXECUTED);
    assert_int_equal(b->unprepared, 0);
    start(c, WAIT_MS);
    cancel(c);
    answer_preparation(c, TRY_UNKNOWN, &failed);
    assert_int_equal(store.orphans_unprepared, 1);
}

/* A note that could not be made costs a request that waits no more than an attempt that did not
 * reach Redis. */
static void a_request_that_waits_outlives_an_outage(void **state)
{
    const struct lease_result failed = {.outcome = LEASE_FAILED};

    (void)state;
    wait_without_redis(TRY_NOT_EXECUTED);
    answer_preparation(a, TRY_NOT_EXECUTED, &failed);
    assert_int_equal(a->done, 0);
    pass(1 * S);
    answer_preparation(a, TRY_UNKNOWN, &failed);
    assert_int_equal(a->done, 0);
    pass(1 * S);
    prepared(a);
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
}

/* In a cluster the session of one request may be out of reach, and the lock not. */
static void a_request_that_cannot_be_noted_lets_others_try(void **state)
{
    const struct lease_result failed = {.outcome = LEASE_FAILED};

    (void)state;
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    start(b, WAIT_MS);
    prepared(b);
    answer(b, TRY_BUSY);
    ready(CHANNEL_OF(LOCK));
    answer(a, TRY_NOT_EXECUTED);
    pass(6 * S);
    answer_preparation(a, TRY_NOT_EXECUTED, &failed);
    answer(b, TRY_BUSY);
    unlocked();
    assert_null(preparation_of(a));
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
    unlocked();
    answer_preparation(a, TRY_NOT_EXECUTED, &failed);
    pass(1 * S);
    assert_non_null(preparation_of(a));
    assert_int_equal(a->done, 0);
}

static void an_outage_until_the_deadline_tells_of_the_unknown(void **state)
{
    const struct lease_result failed = {.outcome = LEASE_FAILED};

    (void)state;
    wait_without_redis(TRY_UNKNOWN);
    pass(WAIT_MS * MS);
    answer_preparation(a, TRY_NOT_EXECUTED, &failed);
    expect_done(a, TRY_UNKNOWN);
    assert_null(a->result.lease); /* which would say that nothing was done */
}

/* Its calls, each of which is answered within 2 s, come one after the other. */
static void a_request_is_answered_however_long_its_calls_take(void **state)
{
    (void)state;
    start(a, 0);
    pass(3499 * MS);
    assert_int_equal(a->done, 0);
    pass(1 * MS);
    expect_done(a, TRY_NOT_EXECUTED);
    prepared(a);
    assert_int_equal(store.orphans_unprepared, 1);
    assert_int_equal(store.attempt_count, 0);
    start(b, 1000);
    pass(3 * S);
    prepared(b);
    pass(1499 * MS);
    assert_int_equal(b->done, 0);
    pass(1 * MS);
    expect_done(b, TRY_UNKNOWN);
    assert_int_equal(b->withdrawn, 1);
    answer(b, TRY_GRANTED);
    assert_int_equal(store.orphans_withdrawn, 1);
    /* The attempt of a token that is known may take several calls by itself. */
    c->lease.session_id[0] = '\0';
    c->lease.token = TOKEN_RETURNED;
    start(c, 0);
    pass(3500 * MS);
    expect_done(c, TRY_UNKNOWN);
}

/* The same of what comes after the deadline of a request that waits. */
static void a_request_that_waited_is_answered_however_long_its_calls_take(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    prepared(a);
    answer(a, TRY_BUSY);
    doze(a, 9 * S / MS);
    acquirer_doubt_notes(acquirer);
    pass(1 * S);
    assert_non_null(preparation_of(a));
    pass(2 * S);
    prepared(a);
    pass(1499 * MS);
    assert_int_equal(a->done, 0);
    pass(1 * MS);
    expect_done(a, TRY_UNKNOWN);
    assert_int_equal(a->withdrawn, 1);
    /* A worker that stood still asks all the same. */
    start(b, WAIT_MS);
    prepared(b);
    answer(b, TRY_BUSY);
    pass(60 * S);
    assert_int_equal(b->done, 0);
    prepared(b);
    answer(b, TRY_BUSY);
    expect_done(b, TRY_BUSY);
}

static void a_client_that_went_away_leaves_nothing(void **state)
{
    (void)state;
    start(a, WAIT_MS);
    cancel(a);
    prepared(a);
    assert_int_equal(store.orphans_unprepared, 1);
    assert_int_equal(store.attempt_count, 0);
    assert_int_equal(a->withdrawn + store.orphans_withdrawn, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_session, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_session_is_asked_before_the_lock),
        TEST(what_came_to_nothing_is_noted_no_more),
        TEST(a_request_that_waited_is_withdrawn_instead),
        TEST(a_session_that_has_ended_refuses),
        TEST(a_waiter_learns_that_its_session_has_ended),
        TEST(a_worker_that_stood_still_asks_again),
        TEST(a_grant_without_a_fresh_note_is_none),
        TEST(an_attempt_that_is_held_back_needs_a_fresh_note),
        TEST(a_note_that_is_unknown_is_taken_back_at_the_end),
        TEST(a_request_that_waits_outlives_an_outage),
        TEST(a_request_that_cannot_be_noted_lets_others_try),
        TEST(an_outage_until_the_deadline_tells_of_the_unknown),
        TEST(a_request_is_answered_however_long_its_calls_take),
        TEST(a_request_that_waited_is_answered_however_long_its_calls_take),
        TEST(a_client_that_went_away_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
