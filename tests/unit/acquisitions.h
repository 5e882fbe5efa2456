/* Acquisitions on a lock store that is only made up: every attempt waits until the test answers
 * it. For one test program, which is linked without the real one. */
#ifndef RLOCKD_TESTS_UNIT_ACQUISITIONS_H
#define RLOCKD_TESTS_UNIT_ACQUISITIONS_H

#include <stdio.h>
#include <string.h>

#include "storage/acquire.h"
#include "tests/unit/fake_subscriber.h"

#define LOCK "orders"

enum { ATTEMPTS = 16, CLIENTS = 4, WAITERS_MAX = 3, TTL_MS = 30000, WAIT_MS = 10000 };

struct attempt {
    const struct lease *lease;
    int64_t register_ms;
    bool registered;
    lock_done *done; /* NULL: answered */
    void *arg;
};

struct lock_store {
    struct attempt attempts[ATTEMPTS];
    size_t attempt_count;
    unsigned orphans_withdrawn; /* of attempts that outlived their acquisition */
};

struct client {
    struct lease lease;
    struct acquisition *acquisition;
    unsigned parked, done, withdrawn, places_kept;
    size_t withdrawn_after; /* so many attempts of everyone's */
    struct lock_result result;
};

static struct metrics metrics;
static struct lock_store store;
static struct waiters *waiters;
static struct parking parking;
static struct acquirer *acquirer;
static struct client clients[CLIENTS];
static struct client *const a = &clients[0], *const b = &clients[1], *const c = &clients[2],
                            *const d = &clients[3];

size_t lock_store_key_name(const struct lock_store *asked, const char *name, char *out,
                           size_t out_size)
{
    (void)asked;
    return (size_t)snprintf(out, out_size, "%s", name);
}

void lock_try(struct lock_store *asked, const struct lease *lease, int64_t register_ms,
              bool registered, lock_done *done, void *arg)
{
    assert_true(asked->attempt_count < ATTEMPTS);
    for (size_t i = 0; i < asked->attempt_count; i++)
        if (asked->attempts[i].lease == lease)
            assert_null(asked->attempts[i].done);
    asked->attempts[asked->attempt_count++] = (struct attempt){lease, register_ms, registered,
                                                               done, arg};
}

void lock_withdraw(struct lock_store *asked, const struct lease *lease)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (lease == &clients[i].lease) {
            clients[i].withdrawn++;
            clients[i].withdrawn_after = asked->attempt_count;
            return;
        }
    }
    asked->orphans_withdrawn++;
}

void lock_keep_place(struct lock_store *asked, const struct lease *lease)
{
    (void)asked;
    for (size_t i = 0; i < CLIENTS; i++)
        if (lease == &clients[i].lease)
            clients[i].places_kept++;
}

/* The attempt that waits for its answer, or NULL. */
static inline struct attempt *attempt_of(const struct client *client)
{
    for (size_t i = 0; i < store.attempt_count; i++)
        if (store.attempts[i].lease == &client->lease && store.attempts[i].done != NULL)
            return &store.attempts[i];
    return NULL;
}

static inline void answer_with(const struct client *client, const struct lock_result *result)
{
    struct attempt *attempt = attempt_of(client);

    assert_non_null(attempt);
    lock_done *done = attempt->done;
    attempt->done = NULL;
    done(attempt->arg, result);
}

static inline void answer(const struct client *client, enum lock_outcome outcome)
{
    struct lock_result result = {
        .outcome = outcome, .remaining_ms = TTL_MS, .fencing_token = 1000 + (int)outcome};

    answer_with(client, &result);
}

static inline void on_parked(void *arg)
{
    struct client *client = arg;

    client->parked++;
}

static inline void on_done(void *arg, const struct lock_result *result)
{
    struct client *client = arg;

    client->done++;
    client->result = *result;
    client->acquisition = NULL;
}

static inline void start(struct client *client, int64_t wait_ms)
{
    client->acquisition = acquire_start(acquirer, &client->lease, loop.now_ns + wait_ms * MS,
                                        on_parked, on_done, client);
    assert_non_null(client->acquisition);
    assert_int_equal(client->done, 0);
}

/* `client` waits, subscribed and asleep. */
static inline void start_waiting(struct client *client)
{
    start(client, WAIT_MS);
    answer(client, LOCK_BUSY);
    if (!CHANNEL_OF(LOCK)->live)
        ready(CHANNEL_OF(LOCK));
    if (attempt_of(client) != NULL)
        answer(client, LOCK_BUSY);
    assert_int_equal(client->parked, 1);
    assert_null(attempt_of(client));
}

/* `client` sleeps for so long, and finds the lock busy whenever it looks. */
static inline void doze(const struct client *client, int64_t ms)
{
    int64_t end_ns = loop.now_ns + ms * MS;

    while (next_timer_ns() < end_ns - loop.now_ns) {
        pass(next_timer_ns());
        if (attempt_of(client) != NULL)
            answer(client, LOCK_BUSY);
    }
    pass(end_ns - loop.now_ns);
}

static inline void unlocked(void)
{
    publish(CHANNEL_OF(LOCK), "0");
}

static inline void cancel(struct client *client)
{
    acquire_cancel(client->acquisition);
    client->acquisition = NULL;
}

/* Ended by exactly one call, with this. */
static inline void expect_done(const struct client *client, enum lock_outcome outcome)
{
    assert_int_equal(client->done, 1);
    assert_int_equal(client->result.outcome, outcome);
}

static inline int set_up(void **state)
{
    (void)state;
    memset(&subscriber, 0, sizeof(subscriber));
    memset(&metrics, 0, sizeof(metrics));
    memset(&store, 0, sizeof(store));
    memset(clients, 0, sizeof(clients));
    timers_init(&loop.timers);
    loop.now_ns = 1000 * S;
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].lease.ttl_ms = TTL_MS;
        snprintf(clients[i].lease.name, sizeof(clients[i].lease.name), LOCK);
        snprintf(clients[i].lease.id, sizeof(clients[i].lease.id), "%zu", i);
    }
    struct waiters_options of_waiters = {
        .loop = &loop, .metrics = &metrics, .subscriber = &subscriber};
    waiters = waiters_new(&of_waiters);
    parking = (struct parking){.places = WAITERS_MAX};
    struct acquirer_options of_acquirer = {.loop = &loop,
                                           .metrics = &metrics,
                                           .store = &store,
                                           .waiters = waiters,
                                           .parking = &parking};
    acquirer = acquirer_new(&of_acquirer);
    return waiters == NULL || acquirer == NULL;
}

/* Whatever is left ends, and then nothing is. */
static inline int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLIENTS; i++)
        if (clients[i].acquisition != NULL)
            cancel(&clients[i]);
    for (size_t i = 0; i < CLIENTS; i++) {
        unsigned done = clients[i].done;
        while (attempt_of(&clients[i]) != NULL)
            answer(&clients[i], LOCK_BUSY);
        assert_int_equal(clients[i].done, done);
    }
    acquirer_free(acquirer);
    waiters_free(waiters);
    assert_int_equal(timers_next_ns(&loop.timers), -1);
    assert_int_equal(metrics.values[METRIC_WAITERS], 0);
    timers_release(&loop.timers);
    return 0;
}

#endif
