/* Acquisitions on a lock store that is only made up: every attempt waits until the test answers
 * it. For one test program, which is linked without the real one. */
#ifndef RLOCKD_TESTS_UNIT_ACQUISITIONS_H
#define RLOCKD_TESTS_UNIT_ACQUISITIONS_H

#include <stdio.h>
#include <string.h>

#include "storage/lease/prepare.h"
#include "storage/lease/withdraw.h"
#include "storage/look/locks.h"
#include "storage/wait/acquire.h"
#include "tests/unit/fake_topology.h"

#define LOCK "orders"

enum { ATTEMPTS = 16, CLIENTS = 4, WAITERS_MAX = 3, TTL_MS = 30000, WAIT_MS = 10000 };

struct sent_attempt {
    const struct lease *lease;
    int64_t wait_ms;
    bool registered, waiting;
    size_t blocking_index;
    attempt_done *done; /* NULL: answered */
    void *arg;
};

struct sent_preparation {
    const struct lease *lease;
    lease_prepare_done *done; /* NULL: answered */
    void *arg;
};

struct sent_look {
    lock_ttl_done *done; /* NULL: answered, or none */
    void *arg;
};

struct store {
    struct sent_look look; /* of a fair lock's waiter */
    struct sent_preparation preparations[ATTEMPTS];
    size_t preparation_count;
    struct sent_attempt attempts[ATTEMPTS];
    size_t attempt_count;
    unsigned orphans_withdrawn; /* of attempts that outlived their acquisition */
    unsigned orphans_unprepared;
};

struct client {
    struct lease lease;
    struct acquisition *acquisition;
    bool must_not_wait;
    unsigned suspended, done, withdrawn, places_kept, unprepared;
    size_t withdrawn_after; /* so many attempts of everyone's */
    struct acquire_result result;
};

static struct metrics metrics;
static struct store store;
static struct waiters *waiters;
static struct wait_slots slots;
static struct acquirer *acquirer;
static const struct long_wait_watcher *long_waits; /* NULL: nobody watches long waits */
static struct neighbour *neighbour;                /* of that acquirer; NULL: the only worker */
static struct client clients[CLIENTS];
static struct client *const a = &clients[0], *const b = &clients[1], *const c = &clients[2],
                            *const d = &clients[3];

int64_t store_quarantine_ms(const struct store *asked, const char *name)
{
    (void)asked;
    (void)name;
    return 0;
}

size_t store_key_name(const struct store *asked, const char *name, char *out, size_t out_size)
{
    (void)asked;
    return (size_t)snprintf(out, out_size, "%s", name);
}

void attempt_send(struct store *asked, const struct lease *lease, const struct attempt *attempt,
                  attempt_done *done, void *arg)
{
    assert_true(asked->attempt_count < ATTEMPTS);
    for (size_t i = 0; i < asked->attempt_count; i++)
        if (asked->attempts[i].lease == lease)
            assert_null(asked->attempts[i].done);
    asked->attempts[asked->attempt_count++] = (struct sent_attempt){
        .lease = lease,
        .wait_ms = attempt->wait_ms,
        .registered = attempt->registered,
        .waiting = attempt->waiting,
        .blocking_index = attempt->blocking_index,
        .done = done,
        .arg = arg};
}

void lock_ttl(struct store *asked, const char *name, lock_ttl_done *done, void *arg)
{
    assert_string_equal(name, LOCK);
    assert_null(asked->look.done);
    asked->look = (struct sent_look){done, arg};
}

static inline void answer_look(int64_t ttl_ms)
{
    const struct sent_look look = store.look;

    assert_non_null(look.done);
    store.look.done = NULL;
    look.done(look.arg, ttl_ms);
}

void lease_withdraw(struct store *asked, const struct lease *lease, enum withdraw_place place)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (lease != &clients[i].lease)
            continue;
        if (place == KEEP_PLACE) {
            clients[i].places_kept++;
        } else {
            clients[i].withdrawn++;
            clients[i].withdrawn_after = asked->attempt_count;
        }
        return;
    }
    asked->orphans_withdrawn += place == WITHDRAW_PLACE;
}

bool lease_needs_preparation(const struct lease *lease)
{
    return lease->session_id[0] != '\0';
}

void lease_prepare(struct store *asked, const struct lease *lease, int64_t wait_ms,
                   lease_prepare_done *done, void *arg)
{
    assert_true(asked->preparation_count < ATTEMPTS && wait_ms >= 0);
    asked->preparations[asked->preparation_count++] = (struct sent_preparation){lease, done,
                                                                                arg};
}

void lease_unprepare(struct store *asked, const struct lease *lease)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (lease == &clients[i].lease) {
            clients[i].unprepared++;
            return;
        }
    }
    asked->orphans_unprepared++;
}

/* The preparation that waits for its answer, or NULL. */
static inline struct sent_preparation *preparation_of(const struct client *client)
{
    for (size_t i = 0; i < store.preparation_count; i++)
        if (store.preparations[i].lease == &client->lease && store.preparations[i].done != NULL)
            return &store.preparations[i];
    return NULL;
}

static inline void answer_preparation(const struct client *client, enum try_outcome outcome,
                                      const struct lease_result *result)
{
    struct sent_preparation *sent = preparation_of(client);
    const struct preparation preparation = {
        .outcome = outcome, .session_name = "night build", .lease = result};

    assert_non_null(sent);
    lease_prepare_done *done = sent->done;
    sent->done = NULL;
    done(sent->arg, &preparation);
}

/* The attempt that waits for its answer, or NULL. */
static inline struct sent_attempt *attempt_of(const struct client *client)
{
    for (size_t i = 0; i < store.attempt_count; i++)
        if (store.attempts[i].lease == &client->lease && store.attempts[i].done != NULL)
            return &store.attempts[i];
    return NULL;
}

static inline void answer_with(const struct client *client, const struct attempt_result *result)
{
    struct sent_attempt *attempt = attempt_of(client);

    assert_non_null(attempt);
    attempt_done *done = attempt->done;
    attempt->done = NULL;
    done(attempt->arg, result);
}

static inline void answer(const struct client *client, enum try_outcome outcome)
{
    const struct lease_result lease = {.remaining_ms = TTL_MS};
    const struct attempt_result result = {
        .outcome = outcome, .remaining_ms = TTL_MS, .lease = &lease};

    answer_with(client, &result);
}

static inline bool may_wait(void *arg)
{
    struct client *client = arg;

    client->suspended += !client->must_not_wait;
    return !client->must_not_wait;
}

static inline void on_done(void *arg, const struct acquire_result *result)
{
    struct client *client = arg;

    client->done++;
    client->result = *result;
    client->acquisition = NULL;
}

static inline void start(struct client *client, int64_t wait_ms)
{
    client->acquisition = acquire_start(acquirer, &client->lease, loop.now_ns + wait_ms * MS,
                                        may_wait, on_done, client);
    assert_non_null(client->acquisition);
    assert_int_equal(client->done, 0);
}

/* `client` waits, subscribed and asleep. */
static inline void start_waiting(struct client *client)
{
    start(client, WAIT_MS);
    answer(client, TRY_BUSY);
    if (!CHANNEL_OF(LOCK)->live)
        ready(CHANNEL_OF(LOCK));
    if (attempt_of(client) != NULL)
        answer(client, TRY_BUSY);
    assert_int_equal(client->suspended, 1);
    assert_null(attempt_of(client));
}

/* `client` sleeps for so long, and finds the lock busy whenever it looks. */
static inline void doze(const struct client *client, int64_t ms)
{
    int64_t end_ns = loop.now_ns + ms * MS;

    while (next_timer_ns() < end_ns - loop.now_ns) {
        pass(next_timer_ns());
        if (attempt_of(client) != NULL)
            answer(client, TRY_BUSY);
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
static inline void expect_done(const struct client *client, enum try_outcome outcome)
{
    assert_int_equal(client->done, 1);
    assert_int_equal(client->result.outcome, outcome);
}

static inline int set_up(void **state)
{
    (void)state;
    memset(&topology, 0, sizeof(topology));
    memset(&metrics, 0, sizeof(metrics));
    memset(&store, 0, sizeof(store));
    memset(clients, 0, sizeof(clients));
    timers_init(&loop.timers);
    loop.now_ns = clock_ns();
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].lease.ttl_ms = TTL_MS;
        clients[i].lease.kind = KIND_LOCK;
        clients[i].lease.names = lock_names_of_one(LOCK);
        snprintf(clients[i].lease.id, sizeof(clients[i].lease.id), "%zu", i);
    }
    struct waiters_options of_waiters = {
        .loop = &loop, .metrics = &metrics, .topology = &topology, .neighbour = neighbour};
    waiters = waiters_new(&of_waiters);
    slots = (struct wait_slots){.limit = WAITERS_MAX};
    struct acquirer_options of_acquirer = {.loop = &loop,
                                           .metrics = &metrics,
                                           .store = &store,
                                           .waiters = waiters,
                                           .slots = &slots,
                                           .neighbour = neighbour,
                                           .long_waits = long_waits};
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
        while (preparation_of(&clients[i]) != NULL)
            answer_preparation(&clients[i], TRY_GRANTED, NULL);
        while (attempt_of(&clients[i]) != NULL)
            answer(&clients[i], TRY_BUSY);
        assert_int_equal(clients[i].done, done);
        lock_names_unref(clients[i].lease.names);
    }
    acquirer_free(acquirer);
    waiters_free(waiters);
    assert_int_equal(timers_next_ns(&loop.timers), -1);
    assert_int_equal(metrics.values[METRIC_WAITERS], 0);
    timers_release(&loop.timers);
    return 0;
}

#endif
