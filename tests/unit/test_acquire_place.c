/* storage/wait/acquire.c for fair locks: whose place in the queue outlives his request, and
 * whose does not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/acquisitions.h"

static struct subscriber_channel *fair_channel(const struct client *client)
{
    static char channel[128];

    snprintf(channel, sizeof(channel), "redisson_lock__channel:{" LOCK "}:%s:0",
             client->lease.id);
    return channel_of(channel);
}

static int set_up_fair(void **state)
{
    int failed = set_up(state);

    for (size_t i = 0; i < CLIENTS; i++)
        clients[i].lease.kind = KIND_FAIR;
    return failed;
}

/* `client` waits, subscribed and asleep. */
static void start_in_queue(struct client *client)
{
    start(client, WAIT_MS);
    answer(client, TRY_BUSY);
    ready(fair_channel(client));
    answer_look(TTL_MS);
    assert_int_equal(client->suspended, 1);
}

enum when { ONLY, FIRST, TURN, FINAL, UNDER_WAY, WHENS };

static void bring_to(enum when when)
{
    if (when == ONLY || when == FIRST) {
        start(a, when == ONLY ? 0 : WAIT_MS);
        return;
    }
    start_in_queue(a);
    if (when == FINAL) {
        doze(a, WAIT_MS);
        return;
    }
    publish(fair_channel(a), "0");
    if (when == UNDER_WAY)
        pass(WAIT_MS * MS);
}

/* What has to be sent behind the attempt: nothing; the place stays; everything goes. */
enum sent { NOTHING, STAYS, GOES };

static const struct {
    enum try_outcome outcome;
    int sent[WHENS]; /* -1: it goes on */
} rows[] = {
    {TRY_GRANTED, {NOTHING, NOTHING, NOTHING, NOTHING, NOTHING}},
    {TRY_CONFIRMED, {NOTHING, NOTHING, NOTHING, NOTHING, NOTHING}},
    {TRY_BUSY, {NOTHING, -1, -1, STAYS, STAYS}},
    {TRY_NOT_EXECUTED, {NOTHING, NOTHING, -1, STAYS, STAYS}},
    {TRY_UNKNOWN, {STAYS, STAYS, -1, STAYS, STAYS}},
    {TRY_REFUSED, {NOTHING, NOTHING, GOES, GOES, GOES}},
};

static void expect_sent(int row, enum when when, enum sent sent)
{
    unsigned kept = sent == STAYS, withdrawn = sent == GOES;

    if (a->places_kept != kept || a->withdrawn != withdrawn)
        fail_msg("outcome %d at %d: %u places kept, %u withdrawn", (int)rows[row].outcome,
                 (int)when, a->places_kept, a->withdrawn);
}

static void every_outcome(void **state)
{
    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up_fair(state), 0);
            bring_to(when);
            answer(a, rows[i].outcome);
            if (rows[i].sent[when] < 0) {
                assert_int_equal(a->done, 0);
                expect_sent(i, when, NOTHING);
            } else {
                expect_done(a, rows[i].outcome);
                expect_sent(i, when, (enum sent)rows[i].sent[when]);
            }
            tear_down(state);
        }
    }
}

/* Nobody has its token: whatever the answer is, nothing stays. */
static void every_outcome_of_a_request_that_nobody_repeats(void **state)
{
    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up_fair(state), 0);
            a->lease.unrepeatable = true;
            bring_to(when);
            answer(a, rows[i].outcome);
            assert_int_equal(a->places_kept, 0);
            bool got_it = rows[i].outcome == TRY_GRANTED || rows[i].outcome == TRY_CONFIRMED;
            if (when > FIRST && a->done == 1 && !got_it)
                assert_int_equal(a->withdrawn, 1);
            tear_down(state);
        }
    }
}

/* The client has gone: nothing stays, whatever comes of the attempt under way. */
static void every_outcome_of_a_cancelled_attempt(void **state)
{
    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        for (enum when when = ONLY; when < WHENS; when++) {
            assert_int_equal(set_up_fair(state), 0);
            bring_to(when);
            cancel(a);
            answer(a, rows[i].outcome);
            assert_int_equal(a->places_kept, 0);
            assert_int_equal(a->withdrawn, 1);
            assert_int_equal(a->done, 0);
            tear_down(state);
        }
    }
}

static void an_unknown_attempt_is_taken_back_but_not_its_place(void **state)
{
    (void)state;
    bring_to(TURN);
    answer(a, TRY_UNKNOWN);
    doze(a, WAIT_MS);
    answer(a, TRY_BUSY);
    expect_done(a, TRY_BUSY);
    assert_int_equal(a->places_kept, 1);
    assert_int_equal(a->withdrawn, 0);
}

static void draining_keeps_the_places(void **state)
{
    (void)state;
    start_in_queue(a);
    start_in_queue(b);
    publish(fair_channel(b), "0"); /* its attempt is under way */
    acquirer_drain(acquirer);
    expect_done(a, TRY_DRAINING);
    assert_int_equal(b->done, 0);
    answer(b, TRY_BUSY);
    expect_done(b, TRY_DRAINING);
    assert_int_equal(a->places_kept, 1);
    assert_int_equal(b->places_kept, 1);
    start(c, WAIT_MS);
    answer(c, TRY_BUSY);
    expect_done(c, TRY_DRAINING);
    assert_int_equal(c->places_kept, 1);
    assert_int_equal(a->withdrawn + b->withdrawn + c->withdrawn, 0);
}

/* Who finds no room was never put in the queue; who was, meanwhile, keeps his place. */
static void too_many_waiters(void **state)
{
    (void)state;
    start(d, WAIT_MS);
    start_in_queue(a);
    start_in_queue(b);
    start_in_queue(c);
    answer(d, TRY_BUSY);
    expect_done(d, TRY_TOO_MANY_WAITERS);
    assert_int_equal(d->places_kept, 1);
    assert_int_equal(d->withdrawn, 0);
    d->done = 0;
    start(d, WAIT_MS);
    assert_int_equal(attempt_of(d)->wait_ms, 0);
    answer(d, TRY_BUSY);
    expect_done(d, TRY_TOO_MANY_WAITERS);
    assert_int_equal(d->places_kept, 1);
    assert_int_equal(d->withdrawn, 0);
}

/* Each of them listens to a channel of its own, and nobody else is woken. */
static void each_has_a_channel(void **state)
{
    (void)state;
    start_in_queue(a);
    start_in_queue(b);
    publish(fair_channel(b), "0");
    assert_null(attempt_of(a));
    assert_non_null(attempt_of(b));
    answer(b, TRY_GRANTED);
    assert_null(attempt_of(a));
    publish(fair_channel(a), "0");
    answer(a, TRY_GRANTED);
    expect_done(a, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_fair, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome),
        cmocka_unit_test(every_outcome_of_a_request_that_nobody_repeats),
        cmocka_unit_test(every_outcome_of_a_cancelled_attempt),
        TEST(an_unknown_attempt_is_taken_back_but_not_its_place),
        TEST(draining_keeps_the_places),
        TEST(too_many_waiters),
        TEST(each_has_a_channel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
