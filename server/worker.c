/* The start, the drain and the end of a worker's thread. */
#include "server/worker.h"

#include <stdbool.h>
#include <stdlib.h>

#include "handlers/context.h"
#include "handlers/routes.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "server/base/notify.h"
#include "server/base/token.h"
#include "server/http/http.h"
#include "storage/census/census.h"
#include "storage/store/lock_probe.h"
#include "storage/store/store.h"
#include "storage/session/watchdog.h"
#include "storage/topology/topology.h"
#include "storage/wait/acquire.h"
#include "storage/wait/neighbours.h"
#include "storage/wait/long_waits.h"
#include "storage/wait/session_watch.h"
#include "storage/wait/waiters.h"

/* Clients behind a load balancer learn from /readyz and from `Connection: close` to go
 * elsewhere. */
#define DRAIN_MIN_NS (200 * CLOCK_NS_PER_MS)
/* Longer than any one command of Redis may take. */
#define DRAIN_MAX_NS (3 * CLOCK_NS_PER_S)
/* For the last answers to leave. */
#define DRAIN_REPLY_NS (1 * CLOCK_NS_PER_S)
/* For requests of connections that were accepted last. */
#define DRAIN_DOOR_NS (50 * CLOCK_NS_PER_MS)
/* How long the first requests wait for the first connection to Redis. */
#define OPEN_MAX_NS (1 * CLOCK_NS_PER_S)
/* How often a worker looks whether Redis can still be used. */
#define READINESS_NS (1 * CLOCK_NS_PER_S)

struct worker {
    struct worker_shared *shared;
    size_t number;
    struct loop *loop;
    struct metrics metrics;
    struct log_buffer log;
    char worker_id[17];
    struct topology *topology;
    struct waiters *waiters;
    struct wait_slots wait_slots;
    struct neighbour neighbour;
    struct store *store;
    struct long_waits *long_waits;
    struct acquirer *acquirer;
    struct session_watch *session_watch;
    struct watchdog *watchdog;
    struct census *census; /* NULL: another worker of the front end has it */
    struct http_server *http;
    struct handler_context context;
    atomic_bool drain_wanted, turn_wanted, has_run;
    int64_t drain_at_ns, drain_started_ns, door_closed_ns;
    struct loop_hook drain_hook;
    struct timer drain_timer, open_timer, readiness_timer;
    struct lock_probe probe;
    bool ready; /* can use some keys at least */
    bool is_quorum;
};

struct metrics *worker_metrics(struct worker *worker)
{
    return &worker->metrics;
}

static void note_readiness(struct worker *worker)
{
    bool is_everywhere = false;
    bool ready = topology_reaches_some(worker->topology) &&
                 (topology_trouble(worker->topology, &is_everywhere)[0] == '\0' ||
                  !is_everywhere);

    metrics_set(&worker->metrics, METRIC_REDIS_UP,
                ready && topology_is_ready(worker->topology, NULL));
    if (ready == worker->ready)
        return;
    worker->ready = ready;
    size_t before = atomic_fetch_add(&worker->shared->ready_workers, ready ? 1 : (size_t)-1);
    if (!worker->context.leaving)
        notify("STATUS=%s", ready && before + 1 == worker->shared->worker_count
                                ? "serving"
                                : "Redis cannot be used: see /readyz");
}

/* No callback tells of a Redis that refuses writes, that lacks replicas or whose messages do
 * not come, or of the end of that. */
static void on_readiness_timer(void *arg)
{
    struct worker *worker = arg;

    note_readiness(worker);
    timer_arm(loop_timers(worker->loop), &worker->readiness_timer,
              loop_now_ns(worker->loop) + READINESS_NS);
}

static void on_redis_up(void *arg)
{
    struct worker *worker = arg;

    note_readiness(worker);
    if (topology_is_ready(worker->topology, NULL))
        http_open(worker->http);
    store_redis_is_up(worker->store);
    acquirer_redis_is_up(worker->acquirer);
    session_watch_notify_all(worker->session_watch);
}

static void on_redis_down(void *arg)
{
    struct worker *worker = arg;

    note_readiness(worker);
}

static bool may_grant(void *arg, const struct topology_node *node)
{
    const struct worker *worker = arg;

    return store_may_grant(worker->store, node);
}

/* --- draining ----------------------------------------------------------------------------- */

static void close_door(struct worker *worker)
{
    http_close_door(worker->http);
    worker->door_closed_ns = loop_now_ns(worker->loop);
}

static void begin_drain(struct worker *worker)
{
    worker->context.draining = true;
    worker->drain_started_ns = loop_now_ns(worker->loop);
    http_drain(worker->http);
    if (worker->shared->socket_is_inherited)
        close_door(worker);
    acquirer_drain(worker->acquirer);
    session_watch_notify_all(worker->session_watch);
}

static void on_open_timer(void *arg)
{
    struct worker *worker = arg;

    http_open(worker->http);
}

static void on_drain_timer(void *arg)
{
    (void)arg; /* the turn that it makes is all: on_turn() looks */
}

/* /readyz answers 503 at once for load balancers; clients are served until the drain delay is
 * over. */
static bool is_delayed(struct worker *worker)
{
    int64_t now_ns = loop_now_ns(worker->loop);

    if (!worker->context.leaving) {
        worker->context.leaving = true;
        worker->drain_at_ns = now_ns + worker->shared->config->drain_delay_ms * CLOCK_NS_PER_MS;
    }
    if (now_ns >= worker->drain_at_ns)
        return false;
    timer_arm(loop_timers(worker->loop), &worker->drain_timer, worker->drain_at_ns);
    return true;
}

/* True when no request is left, after the last connection that was accepted before listening
 * ended. */
static bool is_served_out(struct worker *worker, bool is_idle)
{
    int64_t now_ns = loop_now_ns(worker->loop);

    if (!is_idle || now_ns - worker->drain_started_ns < DRAIN_MIN_NS)
        return false;
    if (worker->door_closed_ns != 0)
        return now_ns - worker->door_closed_ns >= DRAIN_DOOR_NS;
    close_door(worker);
    return false;
}

static void on_turn(void *arg)
{
    struct worker *worker = arg;

    if (atomic_load_explicit(&worker->turn_wanted, memory_order_relaxed))
        atomic_store(&worker->turn_wanted, false);
    if (!worker->context.draining) {
        if (!atomic_load_explicit(&worker->drain_wanted, memory_order_relaxed) ||
            is_delayed(worker))
            return;
        begin_drain(worker);
        loop_again(worker->loop);
    }
    int64_t now_ns = loop_now_ns(worker->loop);
    int64_t passed_ns = now_ns - worker->drain_started_ns;
    bool idle = http_busy(worker->http) == 0 && store_pending(worker->store) == 0 &&
                worker->neighbour.under_way == 0;
    if (passed_ns >= DRAIN_MAX_NS) {
        if (worker->door_closed_ns == 0)
            close_door(worker);
        topology_stop(worker->topology); /* all calls that wait for a reply end now */
    }
    if (is_served_out(worker, idle) || passed_ns >= DRAIN_MAX_NS + DRAIN_REPLY_NS)
        loop_stop(worker->loop);
    else
        timer_arm(loop_timers(worker->loop), &worker->drain_timer, now_ns + DRAIN_MIN_NS / 10);
}

void worker_drain(struct worker *worker)
{
    atomic_store(&worker->drain_wanted, true);
    loop_wake(worker->loop);
}

bool worker_ping(struct worker *worker)
{
    if (atomic_load(&worker->has_run))
        return true;
    bool hangs = atomic_exchange(&worker->turn_wanted, true);
    loop_wake(worker->loop);
    return !hangs;
}

/* --- life --------------------------------------------------------------------------------- */

static bool start_storage(struct worker *worker)
{
    const struct worker_shared *shared = worker->shared;
    const struct topology_options topology_options = {
        .url = shared->redis_url,
        .loop = worker->loop,
        .metrics = &worker->metrics,
        .sync = {.replicas = shared->config->sync_replicas,
                 .timeout_ms = shared->config->sync_timeout_ms},
        .broadcasts = shared->config->redis_cluster_broadcast != 0,
        .probe = &worker->probe.probe,
        .heartbeat_channel = lock_probe_heartbeat_channel(&worker->probe),
        .up = on_redis_up,
        .down = on_redis_down,
        .may_grant = may_grant,
        .arg = worker};

    worker->topology = topology_new(&topology_options);
    if (worker->topology == NULL)
        return false;
    const struct store_options store_options = {.config = shared->config,
                                                .loop = worker->loop,
                                                .metrics = &worker->metrics,
                                                .topology = worker->topology,
                                                .worker_id = worker->worker_id};
    worker->store = store_new(&store_options);
    if (worker->store == NULL)
        return false;
    worker->watchdog = watchdog_new(worker->store);
    /* No census walks several servers. */
    bool has_census = worker->number == 0 && !worker->is_quorum;
    if (has_census)
        worker->census = census_new(worker->store, worker->worker_id);
    return worker->watchdog != NULL && (!has_census || worker->census != NULL);
}

static bool start_waiting(struct worker *worker)
{
    const struct worker_shared *shared = worker->shared;
    struct neighbour *neighbour = shared->neighbours != NULL ? &worker->neighbour : NULL;
    const struct waiters_options waiters_options = {.loop = worker->loop,
                                                    .metrics = &worker->metrics,
                                                    .topology = worker->topology,
                                                    .neighbour = neighbour};

    if (neighbour != NULL && !neighbours_add(shared->neighbours, neighbour, worker->loop))
        return false;

    /* A quarter of the connections stays free for requests that renew and release. */
    worker->wait_slots.limit = (size_t)shared->config->max_connections * 3 / 4 /
                               shared->worker_count;
    worker->waiters = waiters_new(&waiters_options);
    worker->long_waits = long_waits_new(worker->store);
    if (worker->waiters == NULL || worker->long_waits == NULL)
        return false;
    const struct acquirer_options acquirer_options = {
        .loop = worker->loop,
        .metrics = &worker->metrics,
        .store = worker->store,
        .waiters = worker->waiters,
        .slots = &worker->wait_slots,
        .neighbour = neighbour,
        .long_waits = worker->is_quorum ? NULL : long_waits_watcher(worker->long_waits),
        .keeps_releases_open = worker->is_quorum};
    worker->acquirer = acquirer_new(&acquirer_options);
    if (worker->acquirer == NULL)
        return false;
    const struct session_watch_options watch_options = {.loop = worker->loop,
                                                        .topology = worker->topology,
                                                        .acquirer = worker->acquirer,
                                                        .long_waits = worker->long_waits,
                                                        .slots = &worker->wait_slots};
    worker->session_watch = session_watch_new(&watch_options);
    return worker->session_watch != NULL;
}

static void fill_context(struct worker *worker)
{
    worker->context = (struct handler_context){.config = worker->shared->config,
                                               .loop = worker->loop,
                                               .metrics = &worker->metrics,
                                               .topology = worker->topology,
                                               .store = worker->store,
                                               .acquirer = worker->acquirer,
                                               .session_watch = worker->session_watch,
                                               .routes = routes_table(),
                                               .route_count = routes_count(),
                                               .all_metrics = worker->shared->metrics,
                                               .worker_count = worker->shared->worker_count,
                                               .is_quorum = worker->is_quorum,
                                               .ready_workers = &worker->shared->ready_workers};
}

static bool start_http(struct worker *worker, int listen_fd)
{
    struct worker_shared *shared = worker->shared;
    struct http_options options = {.listen_fd = listen_fd,
                                   .socket_is_inherited = shared->socket_is_inherited,
                                   .max_connections = shared->config->max_connections /
                                                      (int)shared->worker_count,
                                   .addresses = shared->addresses,
                                   .routes = routes_table(),
                                   .route_count = routes_count(),
                                   .context = &worker->context,
                                   .auth = shared->auth,
                                   .trusted_proxies = shared->trusted_proxies,
                                   .origins = shared->origins,
                                   .is_quorum = worker->is_quorum,
                                   .loop = worker->loop,
                                   .metrics = &worker->metrics,
                                   .log = &worker->log};

    worker->http = http_start(&options);
    return worker->http != NULL;
}

struct worker *worker_new(struct worker_shared *shared, size_t number, int listen_fd)
{
    struct worker *worker = calloc(1, sizeof(*worker));

    if (worker == NULL)
        return NULL;
    worker->shared = shared;
    worker->number = number;
    worker->is_quorum = shared->redis_url->topology == REDIS_QUORUM;
    log_buffer_init(&worker->log);
    token_random_hex(worker->worker_id, sizeof(worker->worker_id) - 1);
    lock_probe_make(&worker->probe, shared->config->key_prefix, worker->worker_id);
    worker->loop = loop_new();
    if (worker->loop == NULL || metrics_init(&worker->metrics, routes_count()) != 0 ||
        metrics_set_prefixes(&worker->metrics, shared->config->metrics_prefixes) != 0) {
        log_write(LOG_LEVEL_ERROR, "a worker could not be started", NULL);
        worker_free(worker);
        return NULL;
    }
    metrics_set(&worker->metrics, METRIC_WORKERS, 1);
    loop_set_busy_poll(worker->loop, shared->config->busy_poll_us * CLOCK_NS_PER_US);
    /* HTTP before Redis: in each turn answers and new requests come first, then one write takes
     * to Redis what the new requests need. */
    if (!start_http(worker, listen_fd) || !start_storage(worker) || !start_waiting(worker)) {
        log_write(LOG_LEVEL_ERROR, "a worker could not be started", NULL);
        worker_free(worker);
        return NULL;
    }
    fill_context(worker);
    worker->open_timer = (struct timer){.fire = on_open_timer, .arg = worker};
    timer_arm(loop_timers(worker->loop), &worker->open_timer,
              loop_now_ns(worker->loop) + OPEN_MAX_NS);
    worker->readiness_timer = (struct timer){.fire = on_readiness_timer, .arg = worker};
    on_readiness_timer(worker);
    worker->drain_timer = (struct timer){.fire = on_drain_timer, .arg = worker};
    worker->drain_hook = (struct loop_hook){.run = on_turn, .arg = worker};
    loop_hook_add(worker->loop, &worker->drain_hook);
    return worker;
}

void worker_run(struct worker *worker)
{
    loop_run(worker->loop);
    atomic_store(&worker->has_run, true);
}

void worker_free(struct worker *worker)
{
    /* Requests of the last turn are answered while there is HTTP to answer them. */
    if (worker->topology != NULL)
        topology_stop(worker->topology);
    if (worker->http != NULL)
        http_stop(worker->http);
    /* Calls that the end of the requests has made end now, in callbacks that need the rest. */
    if (worker->topology != NULL)
        topology_stop(worker->topology);
    if (worker->census != NULL)
        census_free(worker->census);
    if (worker->watchdog != NULL)
        watchdog_free(worker->watchdog);
    if (worker->session_watch != NULL)
        session_watch_free(worker->session_watch);
    if (worker->acquirer != NULL)
        acquirer_free(worker->acquirer);
    if (worker->long_waits != NULL)
        long_waits_free(worker->long_waits);
    if (worker->store != NULL)
        store_free(worker->store);
    if (worker->waiters != NULL)
        waiters_free(worker->waiters);
    if (worker->topology != NULL)
        topology_free(worker->topology);
    neighbours_remove(&worker->neighbour);
    if (worker->loop != NULL)
        loop_free(worker->loop);
    free(worker->context.metrics_page.text);
    metrics_release(&worker->metrics);
    log_buffer_release(&worker->log);
    free(worker);
}

static void deliver(struct worker *worker)
{
    if (worker->neighbour.inbox != NULL)
        inbox_deliver(worker->neighbour.inbox);
}

void workers_free(struct worker *const *workers, size_t count)
{
    /* Every call ends; then each release that was passed on comes back. */
    for (size_t i = 0; i < count; i++)
        topology_stop(workers[i]->topology);
    for (size_t i = 0; i < count; i++)
        deliver(workers[i]);
    for (size_t i = 0; i < count; i++)
        deliver(workers[i]);
    for (size_t i = 0; i < count; i++)
        worker_free(workers[i]);
}
