/* storage/wait/pass_on.c and neighbours.c: a release on one worker goes to a waiter of another
 * worker and comes back. Both workers are in one thread; the inboxes are delivered by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "storage/wait/neighbours.h"
#include "storage/wait/place.h"
#include "tests/unit/hand_overs.h"

/* The waiters of acquisitions.h are on the first worker, the release is on the second. */
static struct neighbours *neighbours;
static struct neighbour first, second;
static struct waiters *second_waiters;
static struct acquirer *second_acquirer;

static int set_up_workers(void **state)
{
    first = second = (struct neighbour){0};
    neighbours = neighbours_new();
    if (neighbours == NULL || !neighbours_add(neighbours, &first, &loop) ||
        !neighbours_add(neighbours, &second, &loop))
        return 1;
    neighbour = &first;
    if (set_up_holder(state) != 0)
        return 1;
    second_waiters = waiters_new(&(struct waiters_options){
        .loop = &loop, .metrics = &metrics, .topology = &topology, .neighbour = &second});
    second_acquirer = acquirer_new(&(struct acquirer_options){.loop = &loop,
                                                              .metrics = &metrics,
                                                              .store = &store,
                                                              .waiters = second_waiters,
                                                              .slots = &slots,
                                                              .neighbour = &second});
    return second_waiters == NULL || second_acquirer == NULL;
}

static int tear_down_workers(void **state)
{
    bool is_left = first.under_way > 0 || second.under_way > 0;

    if (c->acquisition != NULL) /* the client that may be on the second worker */
        cancel(c);
    while (attempt_of(c) != NULL)
        answer(c, TRY_BUSY);
    acquirer_free(second_acquirer);
    waiters_free(second_waiters);
    int failed = tear_down_holder(state);
    neighbours_remove(&first);
    neighbours_remove(&second);
    neighbours_free(neighbours);
    neighbour = NULL;
    return is_left || failed;
}

static bool release_on_second(void)
{
    return acquire_hand_over(second_acquirer, &holder.lease, on_released, &holder);
}

static void waiter_of_another_worker_is_granted_the_lock(void **state)
{
    (void)state;
    assert_false(release_on_second());
    start_waiting(a);
    assert_true(release_on_second());
    assert_null(sent.done);
    inbox_deliver(first.inbox);
    expect_sent_to(a);
    assert_int_equal(sent.own_listeners, 0);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    assert_int_equal(holder.done, 0);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
    assert_int_equal(holder.result.outcome, LEASE_RELEASED);
    assert_int_equal(holder.asked, 0);
    assert_false(release_on_second());
}

/* --- fair locks --------------------------------------------------------------------------- */

static void start_waiting_fairly(struct client *client)
{
    client->lease.kind = KIND_FAIR;
    start(client, WAIT_MS);
    answer(client, TRY_BUSY);
}

static void fair_waiter_of_another_worker_is_granted_the_lock(void **state)
{
    (void)state;
    start_waiting_fairly(a);
    start_waiting_fairly(b);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    expect_sent_to(a);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
    assert_true(release_on_second());
    cancel(b);
    inbox_deliver(first.inbox);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
    assert_false(release_on_second());
}

/* Whose waiter asked first, of whatever worker: that one is the head in Redis. */
static void fair_waiters_of_workers_are_next_in_their_order(void **state)
{
    struct shared_lock *shared = shared_lock_join(neighbours, WAIT_LOCK, LOCK, strlen(LOCK));

    (void)state;
    start_waiting_fairly(a);
    shared_lock_asked(shared, &second, loop.now_ns + MS);
    assert_true(release());
    expect_sent_to(a);
    answer_hand_over(NULL, NULL);
    shared_lock_asked(shared, &second, loop.now_ns - MS);
    assert_true(release());
    assert_null(sent.done);
    inbox_deliver(second.inbox); /* whose waiter has left meanwhile */
    inbox_deliver(first.inbox);
    expect_sent_to(a);
    answer_hand_over(NULL, NULL);
    shared_lock_asked(shared, &second, 0);
    pass(MS);
    assert_true(release());
    expect_sent_to(a);
    answer_hand_over(NULL, NULL);
    shared_lock_leave(neighbours, shared);
}

/* A Java client is the head. The release was told to all, and whoever asked meanwhile asks
 * again. */
static void fair_release_that_granted_to_none_is_told(void **state)
{
    (void)state;
    start_waiting_fairly(a);
    start(b, WAIT_MS);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    answer_hand_over(&released, NULL);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
    assert_int_equal(holder.asked, 0);
    assert_int_equal(a->done, 0);
    answer(b, TRY_GRANTED);
}

/* The other worker may release the lock by a message, which a waiter without a subscription
 * would miss. */
static void fair_waiters_of_two_workers_subscribe_at_once(void **state)
{
    (void)state;
    start_waiting_fairly(a);
    assert_true(release());
    answer_hand_over(&released, &granted);
    start_waiting_fairly(b);
    assert_null(channel_of("redisson_lock__channel:{" LOCK "}:1:0"));
    struct shared_lock *shared = shared_lock_join(neighbours, WAIT_LOCK, LOCK, strlen(LOCK));
    start_waiting_fairly(c);
    assert_non_null(channel_of("redisson_lock__channel:{" LOCK "}:2:0"));
    shared_lock_leave(neighbours, shared);
}

/* --- permits ------------------------------------------------------------------------------ */

static void waiter_of_another_worker_is_granted_the_permit(void **state)
{
    (void)state;
    start_waiting_for_permit(a);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    expect_sent_to(a);
    grant_permit(0);
    expect_done(a, TRY_GRANTED);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
    start_waiting(b); /* for a lock of that name */
    assert_false(release_on_second());
}

/* --- turns -------------------------------------------------------------------------------- */

/* As many turns as the worker has clients, the holder and its waiters, and then the other
 * worker's. */
static void workers_have_turns_by_their_clients(void **state)
{
    struct shared_lock *shared = shared_lock_join(neighbours, WAIT_LOCK, LOCK, strlen(LOCK));

    (void)state;
    shared_lock_waits(shared, &second, true);
    start_waiting(a);
    start_waiting(b);
    for (int i = 0; i < 3; i++) {
        assert_true(release());
        expect_sent_to(i % 2 == 0 ? a : b);
        grant_and_rejoin();
    }
    assert_true(release());
    assert_null(sent.done);
    inbox_deliver(second.inbox); /* whose waiters have left meanwhile */
    inbox_deliver(first.inbox);
    expect_sent_to(b);
    answer_hand_over(NULL, NULL);
    shared_lock_waits(shared, &second, false);
    shared_lock_leave(neighbours, shared);
}

/* The other worker listens, too: it is none of the others that come first now and then. */
static void workers_of_the_process_are_no_others(void **state)
{
    struct shared_lock *shared = shared_lock_join(neighbours, WAIT_LOCK, LOCK, strlen(LOCK));

    (void)state;
    shared_lock_listens(shared, &second, true);
    start_waiting(a);
    assert_true(release());
    assert_int_equal(sent.own_listeners, 2);
    answer_hand_over(NULL, NULL);
    shared_lock_listens(shared, &second, false);
    shared_lock_leave(neighbours, shared);
    shared = shared_lock_join(neighbours, WAIT_SEMAPHORE, LOCK, strlen(LOCK));
    shared_lock_listens(shared, &second, true);
    start_waiting_for_permit(b);
    assert_true(release());
    expect_sent_to(b);
    assert_int_equal(sent.own_listeners, 2);
    answer_hand_over(NULL, NULL);
    shared_lock_listens(shared, &second, false);
    shared_lock_leave(neighbours, shared);
}

/* The client waits on the second worker, whose channel is returned. */
static struct subscriber_channel *start_waiting_on_second(struct client *client)
{
    struct subscriber_channel *channel = topology.channels;
    struct acquirer *own = acquirer;

    acquirer = second_acquirer;
    start(client, WAIT_MS);
    acquirer = own;
    answer(client, TRY_BUSY);
    while (channel->owner == NULL || channel->live ||
           strcmp(channel->name, CHANNEL_OF(LOCK)->name) != 0)
        assert_true(++channel < topology.channels + CHANNELS);
    ready(channel);
    answer(client, TRY_BUSY);
    assert_null(attempt_of(client));
    return channel;
}

/* Clients of other servers would have the lock to themselves for no time if the other workers
 * took it, which may hear of the release before the worker that releases has its answer. */
static void a_yield_is_that_of_all_workers(void **state)
{
    (void)state;
    start_waiting(a);
    struct subscriber_channel *seconds = start_waiting_on_second(c);
    assert_true(release());
    assert_int_equal(sent.own_listeners, 2);
    publish(seconds, "0");
    assert_null(attempt_of(c));
    answer_yield();
    publish(seconds, "0"); /* of another client's release */
    assert_false(release_on_second());
    start(b, WAIT_MS);
    assert_null(attempt_of(b));
    pass(5 * MS);
    assert_non_null(attempt_of(a));
    assert_null(attempt_of(c));
    answer(a, TRY_BUSY);
    pass(MS);
    answer(c, TRY_GRANTED);
    expect_done(c, TRY_GRANTED);
}

/* The reply to an attempt from before the release comes when the yield is over, and before the
 * timers of that turn of the loop. */
static void what_a_yield_puts_off_outlives_a_late_reply(void **state)
{
    (void)state;
    start_waiting(a);
    struct subscriber_channel *seconds = start_waiting_on_second(c);
    assert_true(release());
    waiters_retry_lease(second_waiters, LOCK, strlen(LOCK), c->lease.id);
    publish(seconds, "0");
    answer_yield();
    publish(seconds, "0");
    loop.now_ns += 6 * MS;
    answer(c, TRY_BUSY);
    pass(0);
    assert_non_null(attempt_of(c));
}

/* Nobody else listened. */
static void a_release_that_is_handed_over_holds_no_worker_back(void **state)
{
    (void)state;
    start_waiting(a);
    start_waiting(b);
    struct subscriber_channel *seconds = start_waiting_on_second(c);
    assert_true(release());
    assert_int_equal(sent.own_listeners, 2);
    answer_hand_over(&released, &granted);
    expect_done(a, TRY_GRANTED);
    publish(seconds, "0"); /* the lease has ended elsewhere */
    answer(c, TRY_BUSY);
    pass(60 * MS);
    assert_false(release()); /* everybody's turn */
    assert_true(release());
    assert_int_equal(sent.own_listeners, 2);
    answer_hand_over(&released, NULL); /* it could not be handed over */
    publish(seconds, "0");
    answer(c, TRY_GRANTED);
}

/* A lock that another client has released is free on each worker, for requests that come now.
 */
static void a_message_of_a_release_ends_what_workers_know(void **state)
{
    (void)state;
    start_waiting(a);
    cancel(a);
    start(b, WAIT_MS);
    answer(b, TRY_GRANTED);
    expect_done(b, TRY_GRANTED);
    start(c, WAIT_MS);
    assert_null(attempt_of(c)); /* the lock was taken a moment ago */
    cancel(c);
    unlocked();
    start(d, WAIT_MS);
    assert_non_null(attempt_of(d));
}

/* However the lock goes from worker to worker, one release in so many is open to all. */
static void a_series_goes_on_with_the_lock(void **state)
{
    static const struct {
        unsigned hand_overs;
        int64_t age_ms;
        bool is_open;
    } cases[] = {{64, 0, true}, {63, 0, false}, {1, 60, true}, {1, 0, false}, {0, 60, false}};

    (void)state;
    start_waiting(a);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t began_ns = loop.now_ns - cases[i].age_ms * MS;
        const struct hand_over_series series = {.hand_overs = cases[i].hand_overs,
                                                .handing_over_ns = began_ns,
                                                .streak_ns = loop.now_ns};
        struct wait_place place = {.len = strlen(LOCK), .name = LOCK};
        wait_place_find(&place, waiters, WAIT_LOCK);
        assert_true(place_take_over(&place, &series));
        assert_int_equal(release(), !cases[i].is_open);
        if (!cases[i].is_open)
            grant_and_rejoin();
    }
}

static void release_comes_back_when_the_waiter_has_gone(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    cancel(a);
    inbox_deliver(first.inbox);
    assert_null(sent.done);
    assert_int_equal(holder.asked, 0);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
}

static void release_comes_back_when_the_waiters_yield(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    assert_true(release()); /* of another lease */
    answer_yield();
    inbox_deliver(first.inbox);
    assert_null(sent.done);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
}

/* Not every time: a waiter of a sort that takes attempts would cost each release two trips. */
static void releases_rest_when_one_came_back(void **state)
{
    (void)state;
    snprintf(a->lease.owner, sizeof(a->lease.owner), "me");
    start_waiting(a);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
    assert_false(release_on_second());
    pass(MS);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 2);
}

static void grant_is_withdrawn_when_the_client_goes_meanwhile(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    cancel(a);
    assert_int_equal(a->withdrawn, 1);
    answer_hand_over(&released, &granted);
    assert_int_equal(store.orphans_withdrawn, 1);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
}

static void unknown_outcome_is_told_to_both(void **state)
{
    static const struct lease_result unknown = {.outcome = LEASE_FAILED,
                                                .failure = CALL_UNKNOWN};
    static const struct attempt_result attempt = {.outcome = TRY_UNKNOWN};

    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    answer_hand_over(&unknown, &attempt);
    assert_int_equal(a->done, 0); /* it tries again */
    inbox_deliver(second.inbox);
    assert_int_equal(holder.done, 1);
    assert_int_equal(holder.result.outcome, LEASE_FAILED);
}

/* The script served no such lease, or was refused. */
static void release_that_did_nothing_comes_back(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    inbox_deliver(first.inbox);
    answer_hand_over(NULL, NULL);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
    assert_int_equal(a->done, 0);
}

static void worker_that_drains_is_passed_nothing(void **state)
{
    (void)state;
    start_waiting(a);
    assert_true(release_on_second());
    acquirer_drain(acquirer);
    expect_done(a, TRY_DRAINING);
    inbox_deliver(first.inbox);
    inbox_deliver(second.inbox);
    assert_int_equal(holder.asked, 1);
    assert_false(release_on_second());
}

int main(void)
{
#define TEST(function)                                                                         \
    cmocka_unit_test_setup_teardown(function, set_up_workers, tear_down_workers)
    const struct CMUnitTest tests[] = {
        TEST(waiter_of_another_worker_is_granted_the_lock),
        TEST(fair_waiter_of_another_worker_is_granted_the_lock),
        TEST(fair_waiters_of_workers_are_next_in_their_order),
        TEST(fair_release_that_granted_to_none_is_told),
        TEST(fair_waiters_of_two_workers_subscribe_at_once),
        TEST(waiter_of_another_worker_is_granted_the_permit),
        TEST(workers_have_turns_by_their_clients),
        TEST(workers_of_the_process_are_no_others),
        TEST(a_yield_is_that_of_all_workers),
        TEST(what_a_yield_puts_off_outlives_a_late_reply),
        TEST(a_release_that_is_handed_over_holds_no_worker_back),
        TEST(a_message_of_a_release_ends_what_workers_know),
        TEST(a_series_goes_on_with_the_lock),
        TEST(release_comes_back_when_the_waiter_has_gone),
        TEST(release_comes_back_when_the_waiters_yield),
        TEST(releases_rest_when_one_came_back),
        TEST(grant_is_withdrawn_when_the_client_goes_meanwhile),
        TEST(unknown_outcome_is_told_to_both),
        TEST(release_that_did_nothing_comes_back),
        TEST(worker_that_drains_is_passed_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
