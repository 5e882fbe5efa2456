#include "handlers/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/routes.h"
#include "server/clock.h"
#include "server/token.h"

/* Clients behind a load balancer learn from /readyz and from `Connection: close` to go
 * elsewhere. */
#define DRAIN_MIN_NS (200 * CLOCK_NS_PER_MS)
/* Longer than any one command of Redis may take. */
#define DRAIN_MAX_NS (3 * CLOCK_NS_PER_S)
/* For the last answers to leave. */
#define DRAIN_REPLY_NS (1 * CLOCK_NS_PER_S)

static void on_redis_up(void *arg)
{
    struct service *service = arg;

    metrics_set(&service->metrics, METRIC_REDIS_UP, 1);
    lock_store_redis_is_up(service->store);
    acquirer_redis_is_up(service->acquirer);
    session_watch_stir_all(service->session_watch);
}

static void on_redis_down(void *arg)
{
    struct service *service = arg;

    metrics_set(&service->metrics, METRIC_REDIS_UP, 0);
}

/* --- draining ----------------------------------------------------------------------------- */

static void begin_drain(struct service *service)
{
    service->draining = true;
    service->drain_started_ns = loop_now_ns(service->loop);
    http_drain(service->http);
    acquirer_drain(service->acquirer);
    session_watch_stir_all(service->session_watch);
}

static void on_drain_timer(void *arg)
{
    (void)arg; /* the turn that it makes is all: on_turn() looks */
}

static void on_turn(void *arg)
{
    struct service *service = arg;

    if (!service->draining) {
        if (!atomic_load_explicit(&service->drain_wanted, memory_order_relaxed))
            return;
        begin_drain(service);
        loop_again(service->loop);
    }
    int64_t now_ns = loop_now_ns(service->loop);
    int64_t passed_ns = now_ns - service->drain_started_ns;
    bool idle = http_busy(service->http) == 0 && lock_store_pending(service->store) == 0;
    if (passed_ns >= DRAIN_MAX_NS)
        redis_stop(service->redis); /* everything that still waits for it ends now */
    if ((idle && passed_ns >= DRAIN_MIN_NS) || passed_ns >= DRAIN_MAX_NS + DRAIN_REPLY_NS)
        loop_stop(service->loop);
    else
        timer_arm(loop_timers(service->loop), &service->drain_timer,
                  now_ns + DRAIN_MIN_NS / 10);
}

void service_drain(struct service *service)
{
    atomic_store(&service->drain_wanted, true);
    loop_wake(service->loop);
}

/* --- life --------------------------------------------------------------------------------- */

/* Names like those of a lock with the operator's prefix, since permissions may hang on it. */
static void name_probe(struct service *service)
{
    struct key *keys = service->probe_keys;
    char name[KEY_NAME_MAX + 1];

    int len = snprintf(name, sizeof(name), "%srlockd:probe:%s",
                       service->shared->config->key_prefix, service->worker_id);
    memcpy(keys[0].text, name, (size_t)len + 1);
    key_for_lock(&keys[1], KEY_COUNTER, name, (size_t)len);
    key_for_id(&keys[2], KEY_LEASE, service->worker_id);
    key_for_timeouts(&keys[3], name, (size_t)len);
    key_for_lock(&keys[4], KEY_FAIR_QUEUE, name, (size_t)len);
    key_for_lock(&keys[5], KEY_FAIR_TIMES, name, (size_t)len);
    key_for_lock(&keys[6], KEY_CHANNEL, name, (size_t)len);
    key_for_lock(&keys[7], KEY_READ_WRITE_CHANNEL, name, (size_t)len);
    key_for_lock(&keys[8], KEY_SEMAPHORE_CHANNEL, name, (size_t)len);
    key_for_latch_channel(&keys[9], name, (size_t)len);
    key_for_id(&service->heart_channel, CHANNEL_WORKER, service->worker_id);
    for (size_t i = 0; i < PROBE_KEYS + PROBE_LOCK_CHANNELS; i++)
        service->probe[i] = keys[i].text;
    service->probe[PROBE_KEYS + PROBE_LOCK_CHANNELS] = service->heart_channel.text;
    service->probe[PROBE_KEYS + PROBE_LOCK_CHANNELS + 1] = CHANNEL_LEASES;
    service->probe[PROBE_KEYS + PROBE_LOCK_CHANNELS + 2] = CHANNEL_SESSIONS;
}

static bool start_storage(struct service *service)
{
    const struct service_shared *shared = service->shared;
    const struct redis_options redis_options = {.url = shared->redis_url,
                                                .loop = service->loop,
                                                .metrics = &service->metrics,
                                                .probe = service->probe,
                                                .probe_keys = PROBE_KEYS,
                                                .probe_channels = PROBE_CHANNELS,
                                                .up = on_redis_up,
                                                .down = on_redis_down,
                                                .arg = service};

    service->redis = redis_new(&redis_options);
    if (service->redis == NULL)
        return false;
    const struct subscriber_options subscriber_options = {
        .url = shared->redis_url,
        .loop = service->loop,
        .metrics = &service->metrics,
        .commands = service->redis,
        .heart_channel = service->heart_channel.text};
    service->subscriber = subscriber_new(&subscriber_options);
    if (service->subscriber == NULL)
        return false;
    const struct waiters_options waiters_options = {
        .loop = service->loop, .metrics = &service->metrics, .subscriber = service->subscriber};
    service->waiters = waiters_new(&waiters_options);
    const struct lock_store_options store_options = {.config = shared->config,
                                                     .loop = service->loop,
                                                     .metrics = &service->metrics,
                                                     .redis = service->redis,
                                                     .worker_id = service->worker_id};
    service->store = lock_store_new(&store_options);
    if (service->waiters == NULL || service->store == NULL)
        return false;
    /* A quarter of the connections stays for those who renew and release. */
    service->parking.places = (size_t)shared->config->max_connections * 3 / 4 /
                              shared->worker_count;
    const struct acquirer_options acquirer_options = {.loop = service->loop,
                                                      .metrics = &service->metrics,
                                                      .store = service->store,
                                                      .waiters = service->waiters,
                                                      .parking = &service->parking};
    service->acquirer = acquirer_new(&acquirer_options);
    const struct session_watch_options watch_options = {.loop = service->loop,
                                                        .subscriber = service->subscriber,
                                                        .acquirer = service->acquirer,
                                                        .parking = &service->parking};
    service->session_watch = session_watch_new(&watch_options);
    service->watchdog = watchdog_new(service->store);
    return service->acquirer != NULL && service->session_watch != NULL &&
           service->watchdog != NULL;
}

static bool start_http(struct service *service, int listen_fd)
{
    const struct service_shared *shared = service->shared;
    struct http_options options = {.listen_fd = listen_fd,
                                   .max_connections = shared->config->max_connections /
                                                      (int)shared->worker_count,
                                   .routes = routes_table(),
                                   .route_count = routes_count(),
                                   .service = service,
                                   .auth = shared->auth,
                                   .loop = service->loop,
                                   .metrics = &service->metrics,
                                   .log = &service->log};

    service->http = http_start(&options);
    return service->http != NULL;
}

struct service *service_new(const struct service_shared *shared, int listen_fd)
{
    struct service *service = calloc(1, sizeof(*service));

    if (service == NULL)
        return NULL;
    service->shared = shared;
    log_buffer_init(&service->log);
    token_random_hex(service->worker_id, sizeof(service->worker_id) - 1);
    name_probe(service);
    service->loop = loop_new();
    if (service->loop == NULL || metrics_init(&service->metrics, routes_count()) != 0) {
        log_write(LOG_LEVEL_ERROR, "a worker could not be started", NULL);
        service_free(service);
        return NULL;
    }
    /* HTTP before Redis: in each turn answers and new requests come first, then one write takes
     * to Redis what the new requests need. */
    if (!start_http(service, listen_fd) || !start_storage(service)) {
        log_write(LOG_LEVEL_ERROR, "a worker could not be started", NULL);
        service_free(service);
        return NULL;
    }
    service->drain_timer = (struct timer){.fire = on_drain_timer, .arg = service};
    service->drain_hook = (struct loop_hook){.run = on_turn, .arg = service};
    loop_hook_add(service->loop, &service->drain_hook);
    return service;
}

void service_run(struct service *service)
{
    loop_run(service->loop);
}

void service_free(struct service *service)
{
    /* What came in the last turn is answered while there is HTTP to answer it. */
    if (service->redis != NULL)
        redis_stop(service->redis);
    if (service->http != NULL)
        http_stop(service->http);
    /* What the end of the requests still asks for ends now, in callbacks that need the rest. */
    if (service->redis != NULL)
        redis_free(service->redis);
    if (service->watchdog != NULL)
        watchdog_free(service->watchdog);
    if (service->session_watch != NULL)
        session_watch_free(service->session_watch);
    if (service->acquirer != NULL)
        acquirer_free(service->acquirer);
    if (service->store != NULL)
        lock_store_free(service->store);
    if (service->waiters != NULL)
        waiters_free(service->waiters);
    if (service->subscriber != NULL)
        subscriber_free(service->subscriber);
    if (service->loop != NULL)
        loop_free(service->loop);
    metrics_release(&service->metrics);
    log_buffer_release(&service->log);
    free(service);
}
