/* One worker: a thread with its loop, its HTTP, its connections to Redis and its waiters.
 * Workers share the settings and nothing else; a second worker is like a second front end. */
#ifndef RLOCKD_HANDLERS_SERVICE_H
#define RLOCKD_HANDLERS_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/auth.h"
#include "server/config.h"
#include "server/http.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "storage/acquire.h"
#include "storage/keys.h"
#include "storage/lock_store.h"
#include "storage/redis.h"
#include "storage/session_watch.h"
#include "storage/subscriber.h"
#include "storage/waiters.h"
#include "storage/watchdog.h"

/* What all workers share; it outlives them. */
struct service_shared {
    const struct config *config;
    const struct redis_url *redis_url;
    const struct auth *auth; /* NULL: no API tokens */
    struct metrics **metrics;
    size_t worker_count;
};

/* What permissions are tried on while connecting: keys and channels of a lock, and channels of
 * our own. */
enum { PROBE_KEYS = 6, PROBE_LOCK_CHANNELS = 4, PROBE_CHANNELS = PROBE_LOCK_CHANNELS + 3 };

struct service {
    const struct service_shared *shared;
    struct loop *loop;
    struct metrics metrics;
    struct log_buffer log;
    char worker_id[17];
    struct redis *redis;
    struct subscriber *subscriber;
    struct waiters *waiters;
    struct parking parking;
    struct lock_store *store;
    struct acquirer *acquirer;
    struct session_watch *session_watch;
    struct watchdog *watchdog;
    struct http_server *http;
    atomic_bool drain_wanted;
    bool draining;
    int64_t drain_started_ns;
    struct loop_hook drain_hook;
    struct timer drain_timer;
    struct key probe_keys[PROBE_KEYS + PROBE_LOCK_CHANNELS], heart_channel;
    const char *probe[PROBE_KEYS + PROBE_CHANNELS]; /* see redis_options */
};

/* Everything but the thread. `listen_fd` is taken over. NULL after one log line. */
struct service *service_new(const struct service_shared *shared, int listen_fd);
/* Runs until it is drained: call it on the worker's thread. */
void service_run(struct service *service);
/* From any thread: stop waiting, finish what is under way, then service_run() returns. */
void service_drain(struct service *service);
void service_free(struct service *service);

#endif
