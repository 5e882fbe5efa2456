#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/clock.h"
#include "storage/lock_store_internal.h"

/* How soon a withdrawal that Redis refused (a replica, a slow script) is tried again. */
#define RETRY_NS (500 * CLOCK_NS_PER_MS)

/* A request whose effect must not stay, kept until Redis has confirmed that. */
struct withdrawal {
    struct withdrawal *prev, *next;
    struct lock_store *store;
    enum script script;
    const char *record;
    char name[LOCK_NAME_SIZE];
    struct lock_names *locks; /* of several */
    char lease_id[LEASE_ID_SIZE];
    char mark[LOCK_MARK_SIZE];
    enum lease_mode mode;
    int64_t expires_ns; /* by then there is nothing left to take back */
    bool keeps_place;
    bool in_flight;
};

static void forget(struct withdrawal *withdrawal)
{
    struct lock_store *store = withdrawal->store;

    DL_DELETE(store->withdrawals, withdrawal);
    metrics_add(store->options.metrics, METRIC_PENDING_WITHDRAWALS, -1);
    lock_names_drop(withdrawal->locks);
    free(withdrawal);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct withdrawal *withdrawal = arg;
    struct lock_store *store = withdrawal->store;

    withdrawal->in_flight = false;
    if (result->outcome == REDIS_DONE) {
        if (redis_reply_integer(result->reply) == 1)
            metrics_add(store->options.metrics, METRIC_UNDONE, 1);
        forget(withdrawal);
        return;
    }
    if (result->refusal == REDIS_REFUSED_WRONG_TYPE) {
        forget(withdrawal); /* the name is something else by now */
        return;
    }
    if (!timer_is_armed(&store->retry_withdrawals))
        timer_arm(loop_timers(store->options.loop), &store->retry_withdrawals,
                  loop_now_ns(store->options.loop) + RETRY_NS);
}

static void send(struct withdrawal *withdrawal)
{
    struct script_args args = {0};
    struct key name, record, waiters;
    char *names = NULL;
    size_t names_len;

    name.len = lock_store_key_name(withdrawal->store, withdrawal->name, name.text,
                                   sizeof(name.text));
    key_for_id(&record, withdrawal->record, withdrawal->lease_id);
    key_for_lock(&waiters, KEY_WAITERS, name.text, name.len);
    args_key(&args, &name);
    args_key(&args, &record);
    args_key(&args, &waiters);
    args_string(&args, withdrawal->lease_id);
    args_string(&args, withdrawal->mark);
    args_string(&args, withdrawal->mode == LEASE_NEW ? "1" : "");
    args_string(&args, withdrawal->keeps_place ? "1" : "");
    args_number(&args, withdrawal->store->options.config->retry_window_ms);
    if (withdrawal->locks != NULL) {
        names = lock_names_join(withdrawal->locks,
                                withdrawal->store->options.config->key_prefix, &names_len);
        args_text(&args, names, names_len);
    }
    withdrawal->in_flight = true;
    args_send(withdrawal->store, withdrawal->script, &args, on_reply, withdrawal);
    free(names);
}

void withdraw_by(struct lock_store *store, enum script script, const char *record,
                 const struct lease *lease, bool keeps_place)
{
    struct withdrawal *withdrawal = calloc(1, sizeof(*withdrawal));

    assert(withdrawal != NULL);
    withdrawal->store = store;
    withdrawal->script = script;
    withdrawal->record = record;
    memcpy(withdrawal->name, lease->name, sizeof(lease->name));
    withdrawal->locks = lock_names_share(lease->locks);
    memcpy(withdrawal->lease_id, lease->id, sizeof(lease->id));
    memcpy(withdrawal->mark, lease->mark, sizeof(lease->mark));
    withdrawal->mode = lease->mode;
    withdrawal->keeps_place = keeps_place;
    withdrawal->expires_ns = loop_now_ns(store->options.loop) +
                             (lease->ttl_ms + store->options.config->retry_window_ms) *
                                 CLOCK_NS_PER_MS;
    DL_APPEND(store->withdrawals, withdrawal);
    metrics_add(store->options.metrics, METRIC_PENDING_WITHDRAWALS, 1);
    send(withdrawal); /* when Redis is down: lock_store_redis_is_up() does */
}

void lock_withdraw(struct lock_store *store, const struct lease *lease)
{
    withdraw_by(store, SCRIPT_WITHDRAW, KEY_LEASE, lease, false);
}

void lock_keep_place(struct lock_store *store, const struct lease *lease)
{
    withdraw_by(store, SCRIPT_WITHDRAW, KEY_LEASE, lease, true);
}

void withdrawals_retry(void *arg)
{
    struct lock_store *store = arg;
    struct withdrawal *withdrawal, *next;
    int64_t now_ns = loop_now_ns(store->options.loop);

    if (!redis_is_up(store->options.redis))
        return; /* lock_store_redis_is_up() comes back to it */
    DL_FOREACH_SAFE(store->withdrawals, withdrawal, next) {
        if (withdrawal->in_flight)
            continue;
        if (withdrawal->expires_ns < now_ns)
            forget(withdrawal);
        else
            send(withdrawal);
    }
}

size_t lock_store_pending(const struct lock_store *store)
{
    const struct withdrawal *withdrawal;
    size_t count;

    DL_COUNT(store->withdrawals, withdrawal, count);
    return count;
}

void lock_store_redis_is_up(struct lock_store *store)
{
    store->up_since_ns = loop_now_ns(store->options.loop);
    withdrawals_retry(store);
}

void withdrawals_release(struct lock_store *store)
{
    struct withdrawal *withdrawal, *next;

    DL_FOREACH_SAFE(store->withdrawals, withdrawal, next) {
        forget(withdrawal);
    }
}
