/* Releases that may grant the lock to an acquisition of tests/unit/acquisitions.h, which stay
 * under way until the test answers them. For one test program, which is linked without the real
 * ones. */
#ifndef RLOCKD_TESTS_UNIT_HAND_OVERS_H
#define RLOCKD_TESTS_UNIT_HAND_OVERS_H

#include "storage/lease/hand_over.h"
#include "storage/lease/leases.h"
#include "tests/unit/acquisitions.h"

/* The hand-over that waits for its answer. */
static struct {
    const struct lease *next;
    struct attempt attempt;
    unsigned own_listeners;
    hand_over_done *done; /* NULL: there is none */
    void *arg;
} sent;

/* Of the lease that is released. */
static struct {
    struct lease lease;
    unsigned asked, done; /* releases as any other; answers */
    struct lease_result result;
} holder;

void hand_over_send(struct store *asked, const struct lease *lease, const struct lease *next,
                    const struct attempt *attempt, unsigned own_listeners, hand_over_done *done,
                    void *arg)
{
    (void)asked;
    assert_null(sent.done);
    assert_string_equal(lease->id, holder.lease.id);
    sent.next = next;
    sent.attempt = *attempt;
    sent.own_listeners = own_listeners;
    sent.done = done;
    sent.arg = arg;
}

void lease_release(struct store *asked, const struct lease *lease, lease_done *done, void *arg)
{
    (void)asked;
    (void)done;
    (void)arg;
    assert_string_equal(lease->id, holder.lease.id);
    holder.asked++;
}

static inline void on_released(void *arg, const struct lease_result *result)
{
    assert_ptr_equal(arg, &holder);
    holder.done++;
    holder.result = *result;
}

static inline bool release(void)
{
    return acquire_hand_over(acquirer, &holder.lease, on_released, &holder);
}

static inline void answer_hand_over(const struct lease_result *released,
                                    const struct attempt_result *attempt)
{
    const struct hand_over_result result = {.released = released, .attempt = attempt};
    hand_over_done *done = sent.done;

    assert_non_null(done);
    sent.done = NULL;
    done(sent.arg, &result);
}

static const struct lease_result released = {.outcome = LEASE_RELEASED};

/* Released; others listen, and were told. */
static inline void answer_yield(void)
{
    const struct hand_over_result result = {.released = &released, .others_listen = true};
    hand_over_done *done = sent.done;

    assert_non_null(done);
    sent.done = NULL;
    done(sent.arg, &result);
}

static const struct attempt_result granted = {.outcome = TRY_GRANTED, .remaining_ms = TTL_MS};

#define PERMITS_CHANNEL channel_of("redisson_sc:{" LOCK "}")

/* The holder has the only permit, and this client waits for it. */
static inline void start_waiting_for_permit(struct client *client)
{
    holder.lease.kind = KIND_PERMIT;
    client->lease.kind = KIND_PERMIT;
    start(client, WAIT_MS);
    answer(client, TRY_BUSY);
    if (!PERMITS_CHANNEL->live)
        ready(PERMITS_CHANNEL);
    if (attempt_of(client) != NULL)
        answer(client, TRY_BUSY);
    assert_null(attempt_of(client));
}

/* Of a permit, after which so many are free. */
static inline void grant_permit(int64_t available)
{
    const struct lease_result lease = {
        .outcome = LEASE_GRANTED, .remaining_ms = TTL_MS, .available = available};
    const struct attempt_result grant = {.outcome = TRY_GRANTED,
                                         .remaining_ms = TTL_MS,
                                         .none_left_ms = available == 0 ? TTL_MS : 0,
                                         .lease = &lease};

    answer_hand_over(&released, &grant);
}

static inline void expect_sent_to(const struct client *client)
{
    assert_non_null(sent.done);
    assert_ptr_equal(sent.next, &client->lease);
}

/* The hand-over under way grants the lock to its waiter, who has it, and then waits for it
 * again, behind the others. (A token that came back is not put off.) */
static inline void grant_and_rejoin(void)
{
    struct client *client = NULL;

    for (size_t i = 0; i < CLIENTS; i++)
        if (sent.next == &clients[i].lease)
            client = &clients[i];
    assert_non_null(client);
    answer_hand_over(&released, &granted);
    expect_done(client, TRY_GRANTED);
    client->done = client->suspended = holder.done = 0;
    client->lease.token = TOKEN_RETURNED;
    store.attempt_count = 0;
    start_waiting(client);
}

static inline int set_up_holder(void **state)
{
    memset(&sent, 0, sizeof(sent));
    memset(&holder, 0, sizeof(holder));
    holder.lease.kind = KIND_LOCK;
    holder.lease.names = lock_names_of_one(LOCK);
    snprintf(holder.lease.id, sizeof(holder.lease.id), "holder");
    return set_up(state);
}

static inline int tear_down_holder(void **state)
{
    lock_names_unref(holder.lease.names);
    return sent.done != NULL || tear_down(state);
}

#endif
