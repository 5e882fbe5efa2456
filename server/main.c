/* rlockd: starts its parts in order and stops them in the reverse order. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "server/worker.h"
#include "server/http/addresses.h"
#include "server/auth/auth_hash.h"
#include "server/auth/auth_source.h"
#include "server/base/config.h"
#include "server/base/prefix_times.h"
#include "server/http/cors.h"
#include "server/http/listen.h"
#include "server/http/origin.h"
#include "server/http/proxies.h"
#include "server/tls/tls.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/log_output.h"
#include "server/base/notify.h"
#include "server/redis_settings.h"
#include "storage/redis/embedded.h"
#include "storage/redis/url.h"
#include "storage/wait/neighbours.h"

enum {
    EXIT_CANNOT_START = 1,
    EXIT_USAGE = 2,
    ERROR_SIZE = 512,
    LOG_FINISH_MS = 1000, /* for a slow reader of the log */
    STOP_MAX_MS = 16000,  /* after the drain delay: 4 s of draining, 10 s of Redis, the log */
    WORKERS_MAX = 64,
    CONNECTIONS_PER_WORKER_MIN = 16
};

extern char **environ;

struct rlockd {
    struct config config;
    struct redis_url redis_url;
    struct redis_embedded *embedded; /* NULL: an external Redis */
    struct auth_source *auth;        /* NULL: no API tokens */
    struct addresses *addresses;
    struct proxies *trusted_proxies;
    struct origin_rules origins;
    int signal_fd;
    bool is_stopping; /* the service manager was told */
    int watchdog_ms;  /* -1: the service manager wants no signs of life */
    int64_t watchdog_at_ns;
    int listen_fds[WORKERS_MAX];
    char where[LISTEN_TEXT_SIZE];
    struct worker *workers[WORKERS_MAX];
    struct metrics *metrics[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    struct worker_shared shared;
};

static int refuse(const char *error)
{
    fprintf(stderr, "rlockd: %s\n", error);
    return -1;
}

/* Signals come through a descriptor to the main thread; workers inherit the blocked mask. */
static int take_signals(struct rlockd *rlockd)
{
    sigset_t mask;

    signal(SIGPIPE, SIG_IGN); /* hiredis writes without MSG_NOSIGNAL */
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    rlockd->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    return rlockd->signal_fd < 0 ? refuse("cannot take signals") : 0;
}

/* A standard descriptor that is closed would be given to the next file or socket, and the log
 * would be written into that. */
static int open_standard_descriptors(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? -1 : close(fd);
}

/* Raises the limit of file descriptors as far as the system allows: one for every connection
 * and every waiter. */
static int raise_descriptor_limit(struct config *config)
{
    struct rlimit limit;
    /* Log, signals and Redis; and each worker's listener, loop and connections to Redis. */
    const rlim_t reserve = 24 + 12 * (rlim_t)config->workers;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)config->max_connections + reserve > limit.rlim_cur) {
        config->max_connections = limit.rlim_cur > reserve ? (int)(limit.rlim_cur - reserve)
                                                           : 0;
        log_write(LOG_LEVEL_WARN,
                  "fewer connections than configured: the limit of file descriptors is low",
                  json_pack("{s:i}", "max_connections", config->max_connections));
    }
    if (config->max_connections < CONNECTIONS_PER_WORKER_MIN * config->workers)
        return refuse("the limit of open files (ulimit -n) is too low");
    return 0;
}

/* -1 after one line. */
static int check_lists(struct rlockd *rlockd)
{
    char error[ERROR_SIZE];

    if (!cors_list_is_valid(rlockd->config.cors_origins)) {
        fprintf(stderr,
                "rlockd: --cors-origins: must be origins such as https://example.com, as "
                "a browser sends them (small letters, no path, no port 443 of https), "
                "with commas between them, or *\n");
        return -1;
    }
    if (!origin_names_are_valid(rlockd->config.server_names)) {
        fprintf(stderr, "rlockd: --server-names: must be host names such as locks.example.com, "
                        "without ports, with commas between them\n");
        return -1;
    }
    if (!prefix_times_are_valid(rlockd->config.metrics_prefixes)) {
        fprintf(stderr,
                "rlockd: --metrics-prefixes: must be up to %d different prefixes, each "
                "of 1 to %d bytes and none of them 'other', with commas between them\n",
                METRICS_PREFIXES_MAX, METRICS_PREFIX_LEN_MAX);
        return -1;
    }
    rlockd->trusted_proxies = proxies_parse(rlockd->config.trusted_proxies, error,
                                            sizeof(error));
    if (rlockd->trusted_proxies == NULL)
        fprintf(stderr, "rlockd: --trusted-proxies: %s\n", error);
    return rlockd->trusted_proxies != NULL ? 0 : -1;
}

/* -1 after one line. */
static int start_tls(const struct config *config)
{
    char error[ERROR_SIZE];
    bool has_cert = config->tls_cert[0] != '\0', has_key = config->tls_key[0] != '\0';

    if (has_cert != has_key || (config->tls_client_ca[0] != '\0' && !has_cert))
        return refuse("--tls-cert and --tls-key: one needs the other, --tls-client-ca both");
    if (!has_cert)
        return 0;
    return tls_start(config->tls_cert, config->tls_key, config->tls_client_ca, error,
                     sizeof(error))
               ? 0
               : refuse(error);
}

/* Checks settings against each other. */
static int check_settings(struct rlockd *rlockd)
{
    const struct config *config = &rlockd->config;
    char error[ERROR_SIZE];

    if (config->max_connections < CONNECTIONS_PER_WORKER_MIN * config->workers) {
        fprintf(stderr, "rlockd: --max-connections: fewer than %d for each of --workers\n",
                CONNECTIONS_PER_WORKER_MIN);
        return -1;
    }
    if (config->long_wait_ms > 0 && config->long_wait_ms < 1000) /* as --help says */
        return refuse("--long-wait-ms: must be 0, or at least 1000");
    if (redis_settings_read(&rlockd->redis_url, config) != 0 ||
        redis_settings_check_quorum(&rlockd->config, &rlockd->redis_url) != 0)
        return -1;
    rlockd->addresses = addresses_new(config->max_connections_per_address);
    if (rlockd->addresses == NULL)
        return refuse("out of memory");
    if (config->api_tokens[0] == '\0')
        return 0;
    struct auth *auth = auth_load(config->api_tokens, error, sizeof(error));
    if (auth == NULL)
        return refuse(error);
    rlockd->auth = auth_source_new(auth);
    return rlockd->auth != NULL ? 0 : refuse("out of memory");
}

/* The embedded Redis, unless the settings name another. */
static int start_redis(struct rlockd *rlockd)
{
    char error[ERROR_SIZE];

    if (rlockd->config.redis_url[0] != '\0')
        return 0;
    rlockd->embedded = redis_embedded_start(rlockd->config.data_dir, error, sizeof(error));
    if (rlockd->embedded == NULL)
        return refuse(error);
    return redis_settings_parse_url(&rlockd->redis_url, redis_embedded_url(rlockd->embedded));
}

static void *run_worker(void *worker)
{
    worker_run(worker);
    return NULL;
}

static int start_workers(struct rlockd *rlockd)
{
    int count = rlockd->config.workers;

    rlockd->shared = (struct worker_shared){
        .config = &rlockd->config,
        .redis_url = &rlockd->redis_url,
        .auth = rlockd->auth,
        .trusted_proxies = rlockd->trusted_proxies,
        .origins = &rlockd->origins,
        .addresses = rlockd->addresses,
        .metrics = rlockd->metrics,
        .worker_count = (size_t)count,
        .socket_is_inherited = rlockd->shared.socket_is_inherited};
    if (count > 1) {
        rlockd->shared.neighbours = neighbours_new();
        if (rlockd->shared.neighbours == NULL)
            return refuse("out of memory");
    }
    for (int i = 0; i < count; i++) {
        rlockd->workers[i] = worker_new(&rlockd->shared, (size_t)i, rlockd->listen_fds[i]);
        if (rlockd->workers[i] == NULL)
            return -1;
        rlockd->metrics[i] = worker_metrics(rlockd->workers[i]);
    }
    notify("STATUS=no connection to Redis yet");
    for (int i = 0; i < count; i++)
        if (pthread_create(&rlockd->threads[i], NULL, run_worker, rlockd->workers[i]) != 0)
            return refuse("cannot start a thread");
    return 0;
}

static void reload_tls(void)
{
    char error[ERROR_SIZE];

    if (!tls_is_on())
        return;
    if (tls_reload(error, sizeof(error)))
        log_write(LOG_LEVEL_INFO, "certificate reloaded", NULL);
    else
        log_write(LOG_LEVEL_ERROR, "certificate not reloaded",
                  json_pack("{s:s*}", "reason", error));
}

/* Reads the file of API tokens again. A file with a mistake changes nothing. */
static void reload_tokens(const struct rlockd *rlockd)
{
    const char *path = rlockd->config.api_tokens;
    char error[ERROR_SIZE];

    if (rlockd->auth == NULL) {
        log_write(LOG_LEVEL_INFO, "nothing to reload: no API tokens", NULL);
        return;
    }
    struct auth *auth = auth_load(path, error, sizeof(error));
    if (auth != NULL && !auth_source_replace(rlockd->auth, auth)) {
        snprintf(error, sizeof(error), "out of memory");
        auth = NULL;
    }
    if (auth == NULL) {
        log_write(LOG_LEVEL_ERROR, "API tokens not reloaded",
                  json_pack("{s:s*, s:b}", "error", error, "audit", 1));
        return;
    }
    log_write(LOG_LEVEL_INFO, "API tokens reloaded",
              json_pack("{s:s*, s:b}", "file", path, "audit", 1));
}

/* True when it is time to stop. */
static bool read_signals(const struct rlockd *rlockd)
{
    struct signalfd_siginfo info;
    bool stop = false;

    while (read(rlockd->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        stop |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
        if (info.ssi_signo != SIGHUP)
            continue;
        if (!rlockd->is_stopping)
            notify_reloading();
        reload_tls();
        reload_tokens(rlockd);
        if (!rlockd->is_stopping)
            notify("READY=1");
    }
    return stop;
}

/* Tells the service manager that rlockd lives, as long as the loop of each worker does: one
 * that is late is asked again soon. Returns the ms until the next call; -1: none is needed. */
static int watchdog_tick(struct rlockd *rlockd)
{
    int64_t now_ns = clock_ns();

    if (rlockd->watchdog_ms < 0)
        return -1;
    if (now_ns >= rlockd->watchdog_at_ns) {
        bool all_live = true;
        for (int i = 0; i < rlockd->config.workers; i++)
            all_live &= worker_ping(rlockd->workers[i]);
        if (all_live)
            notify("WATCHDOG=1");
        int64_t pause_ms = all_live ? rlockd->watchdog_ms : rlockd->watchdog_ms / 8 + 1;
        rlockd->watchdog_at_ns = now_ns + pause_ms * CLOCK_NS_PER_MS;
    }
    return (int)((rlockd->watchdog_at_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
}

/* Looks after the embedded Redis and the service manager's watchdog, as long as workers run.
 * Returns the ms until the next call; -1: none is needed. */
static int tick(struct rlockd *rlockd)
{
    int redis_ms = rlockd->embedded ? redis_embedded_tick(rlockd->embedded) : -1;
    int watchdog_ms = watchdog_tick(rlockd);

    return redis_ms >= 0 && (watchdog_ms < 0 || redis_ms < watchdog_ms) ? redis_ms
                                                                        : watchdog_ms;
}

static void supervise(struct rlockd *rlockd)
{
    struct pollfd signals = {.fd = rlockd->signal_fd, .events = POLLIN};

    do {
        poll(&signals, 1, tick(rlockd));
    } while (!read_signals(rlockd));
}

/* Waits for the end of a worker. It may serve and drain for minutes, so its Redis is looked
 * after meanwhile, and SIGHUP is obeyed. */
static void join(struct rlockd *rlockd, pthread_t thread)
{
    enum { SIGNALS_MS = 250 }; /* how often signals are looked for */
    struct timespec until;

    for (;;) {
        int wait_ms = tick(rlockd);
        if (wait_ms < 0 || wait_ms > SIGNALS_MS)
            wait_ms = SIGNALS_MS;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t until_ns = until.tv_nsec + wait_ms * CLOCK_NS_PER_MS;
        until.tv_sec += until_ns / CLOCK_NS_PER_S;
        until.tv_nsec = until_ns % CLOCK_NS_PER_S;
        if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0)
            return;
        read_signals(rlockd);
    }
}

static void stop_workers(struct rlockd *rlockd)
{
    for (int i = 0; i < rlockd->config.workers; i++)
        worker_drain(rlockd->workers[i]);
    for (int i = 0; i < rlockd->config.workers; i++)
        join(rlockd, rlockd->threads[i]);
    workers_free(rlockd->workers, rlockd->shared.worker_count);
    if (rlockd->shared.neighbours != NULL)
        neighbours_free(rlockd->shared.neighbours);
}

/* A socket of the service manager wins over --listen. */
static int take_sockets(struct rlockd *rlockd)
{
    const struct config *config = &rlockd->config;
    char error[ERROR_SIZE];
    int passed = listen_inherit(rlockd->listen_fds, config->workers, rlockd->where, error,
                                sizeof(error));

    rlockd->shared.socket_is_inherited = passed > 0;
    if (passed < 0 || (passed == 0 &&
                       listen_open(config->listen_host, config->listen_port, rlockd->listen_fds,
                                   config->workers, rlockd->where, error, sizeof(error)) != 0))
        return refuse(error);
    return 0;
}

/* Everything before the workers; -1 after one line about what is wrong. */
static int prepare(struct rlockd *rlockd)
{
    rlockd->watchdog_ms = notify_watchdog_ms();
    if (take_signals(rlockd) != 0 || raise_descriptor_limit(&rlockd->config) != 0 ||
        take_sockets(rlockd) != 0)
        return -1;
    rlockd->origins = (struct origin_rules){.cors_origins = rlockd->config.cors_origins,
                                            .server_names = rlockd->config.server_names,
                                            .listen_host = rlockd->config.listen_host,
                                            .is_local = listen_is_local(rlockd->listen_fds[0]),
                                            .has_tls = tls_is_on()};
    return start_redis(rlockd);
}

/* Warns when the network reaches the server and clients need no API token. */
static void warn_if_open(const struct rlockd *rlockd)
{
    bool knows_callers = rlockd->auth != NULL || rlockd->config.tls_client_ca[0] != '\0';

    if (!rlockd->origins.is_local && !knows_callers)
        log_write(
            LOG_LEVEL_WARN,
            tls_is_on()
                ? "every client that reaches this address may use every lock: set --api-tokens"
                : "every client that reaches this address may use every lock, and tokens "
                  "cross the network in the clear: set --api-tokens and --tls-cert",
            json_pack("{s:s}", "listen", rlockd->where));
}

/* The exit status after something was printed: a full disk must not look like success. */
static int end_of_output(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return EXIT_SUCCESS;
    refuse("standard output cannot be written");
    return EXIT_CANNOT_START;
}

static int hash_token(const char *name)
{
    char error[ERROR_SIZE];

    if (auth_print_line(name, error, sizeof(error)))
        return end_of_output();
    refuse(error);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static struct rlockd rlockd; /* large, and lives as long as the process */
    char error[ERROR_SIZE];

    if (open_standard_descriptors() != 0)
        return EXIT_CANNOT_START;
    log_output_open();
    log_flush_at_abort();
    switch (config_load(&rlockd.config, argc, argv, environ, error, sizeof(error))) {
    case CONFIG_EXIT_OK:
        return end_of_output();
    case CONFIG_HASH_TOKEN:
        return hash_token(argc > 2 ? argv[2] : "caller");
    case CONFIG_MAKE_TOKEN:
        auth_print_token();
        return end_of_output();
    case CONFIG_ERROR:
        refuse(error);
        return EXIT_USAGE;
    case CONFIG_RUN:
        break;
    }
    if (check_settings(&rlockd) != 0 || check_lists(&rlockd) != 0 ||
        start_tls(&rlockd.config) != 0)
        return EXIT_USAGE;
    log_set_level(rlockd.config.log_level);
    json_object_seed(0);
    if (prepare(&rlockd) != 0 || start_workers(&rlockd) != 0) {
        redis_embedded_stop(rlockd.embedded);
        return EXIT_CANNOT_START;
    }
    log_write(LOG_LEVEL_INFO, "listening",
              json_pack("{s:s, s:s, s:i, s:i}", "listen", rlockd.where, "version",
                        RLOCKD_VERSION, "layout", KEY_LAYOUT, "workers",
                        rlockd.config.workers));
    warn_if_open(&rlockd);
    notify("READY=1");
    supervise(&rlockd);
    log_write(LOG_LEVEL_INFO, "draining", NULL);
    rlockd.is_stopping = true;
    notify("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%lld",
           (long long)(rlockd.config.drain_delay_ms + STOP_MAX_MS) * 1000);
    stop_workers(&rlockd);
    redis_embedded_stop(rlockd.embedded);
    if (rlockd.auth != NULL)
        auth_source_free(rlockd.auth);
    addresses_free(rlockd.addresses);
    proxies_free(rlockd.trusted_proxies);
    tls_stop();
    close(rlockd.signal_fd);
    log_write(LOG_LEVEL_INFO, "stopped", NULL);
    log_output_finish(LOG_FINISH_MS);
    return EXIT_SUCCESS;
}
