#include "storage/watchdog.h"

#include <stdlib.h>

#include "server/clock.h"
#include "storage/lock_store_internal.h"

enum {
    /* Leases that one run of the script deals with: some tenths of a millisecond of Redis'
       thread. */
    BATCH = 100,
    /* Between two rounds: a session's end is noticed within a second, also with short timeouts.
     */
    ROUND_MIN_MS = 20,
    ROUND_MAX_MS = 500,
    ROUNDS_PER_TIMEOUT = 12
};

struct watchdog {
    struct lock_store *store;
    struct timer round;
    int64_t round_ms;
    bool under_way;
};

static void take_round(void *arg);

static void on_tended(void *arg, const struct redis_result *result)
{
    struct watchdog *watchdog = arg;
    struct metrics *metrics = watchdog->store->options.metrics;

    watchdog->under_way = false;
    if (result->outcome != REDIS_DONE)
        return; /* the next round tries again, and so does every other front end */
    metrics_add(metrics, METRIC_WATCHDOG_RENEWALS,
                redis_reply_integer(redis_reply_at(result->reply, 0)));
    metrics_add(metrics, METRIC_WATCHDOG_LOSSES,
                redis_reply_integer(redis_reply_at(result->reply, 1)));
    metrics_add(metrics, METRIC_SESSIONS_EXPIRED,
                redis_reply_integer(redis_reply_at(result->reply, 2)));
    int64_t late_ms = redis_reply_integer(redis_reply_at(result->reply, 4));
    if (redis_reply_integer(redis_reply_at(result->reply, 0)) > 0)
        metrics_observe(metrics, HISTOGRAM_WATCHDOG_LATENESS, late_ms * CLOCK_NS_PER_MS);
    if (redis_reply_integer(redis_reply_at(result->reply, 3)) == 1)
        take_round(watchdog);
}

static void take_round(void *arg)
{
    struct watchdog *watchdog = arg;
    const struct lock_store *store = watchdog->store;
    const struct config *config = store->options.config;
    struct script_args args = {0};
    struct key sessions = {.len = sizeof(KEY_SESSIONS) - 1, .text = KEY_SESSIONS};
    struct key due = {.len = sizeof(KEY_DUE) - 1, .text = KEY_DUE};

    timer_arm(loop_timers(store->options.loop), &watchdog->round,
              loop_now_ns(store->options.loop) + watchdog->round_ms * CLOCK_NS_PER_MS);
    if (watchdog->under_way)
        return;
    args_key(&args, &sessions);
    args_key(&args, &due);
    args_number(&args, config->watchdog_timeout_ms);
    args_number(&args, watchdog_period_ms(config));
    args_number(&args, config->retry_window_ms);
    args_number(&args, BATCH);
    args_number(&args,
                (loop_now_ns(store->options.loop) - store->up_since_ns) / CLOCK_NS_PER_MS);
    watchdog->under_way = true;
    args_send(store, SCRIPT_TEND, &args, on_tended, watchdog);
}

struct watchdog *watchdog_new(struct lock_store *store)
{
    struct watchdog *watchdog = calloc(1, sizeof(*watchdog));

    if (watchdog == NULL)
        return NULL;
    watchdog->store = store;
    watchdog->round_ms = store->options.config->watchdog_timeout_ms / ROUNDS_PER_TIMEOUT;
    if (watchdog->round_ms > ROUND_MAX_MS)
        watchdog->round_ms = ROUND_MAX_MS;
    if (watchdog->round_ms < ROUND_MIN_MS)
        watchdog->round_ms = ROUND_MIN_MS;
    watchdog->round = (struct timer){.fire = take_round, .arg = watchdog};
    take_round(watchdog);
    return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
    timer_cancel(loop_timers(watchdog->store->options.loop), &watchdog->round);
    free(watchdog);
}
