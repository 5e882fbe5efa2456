/* rlockd: starts what it is made of in order and stops it in the reverse order. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "handlers/service.h"
#include "server/auth.h"
#include "server/config.h"
#include "server/listen.h"
#include "server/log.h"
#include "storage/redis_embedded.h"
#include "storage/redis_url.h"

enum {
    EXIT_CANNOT_START = 1,
    EXIT_USAGE = 2,
    ERROR_SIZE = 512,
    WORKERS_MAX = 64,
    CONNECTIONS_PER_WORKER_MIN = 16
};

extern char **environ;

struct rlockd {
    struct config config;
    struct redis_url redis_url;
    struct redis_embedded *embedded; /* NULL: an external Redis */
    struct auth *auth;               /* NULL: no API tokens */
    int signal_fd;
    int listen_fds[WORKERS_MAX];
    char where[LISTEN_TEXT_SIZE];
    struct service *services[WORKERS_MAX];
    struct metrics *metrics[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    struct service_shared shared;
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
    sigaddset(&mask, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    rlockd->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    return rlockd->signal_fd < 0 ? refuse("cannot take signals") : 0;
}

/* As many descriptors as the system lets us have: one for every connection and every waiter. */
static int raise_descriptor_limit(struct config *config)
{
    struct rlimit limit;
    /* Log, signals and Redis; and each worker's listener, loop and connections to Redis. */
    const rlim_t reserve = 64 + 8 * (rlim_t)config->workers;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)config->max_connections + reserve > limit.rlim_cur) {
        config->max_connections = limit.rlim_cur > 2 * reserve ? (int)(limit.rlim_cur - reserve)
                                                               : (int)reserve;
        log_write(LOG_LEVEL_WARN, "fewer connections than wanted: the descriptor limit is low",
                  json_pack("{s:i}", "max_connections", config->max_connections));
    }
    if (config->max_connections < CONNECTIONS_PER_WORKER_MIN * config->workers)
        return refuse("the limit of open files (ulimit -n) is too low");
    return 0;
}

static int parse_redis_url(struct redis_url *url, const char *text)
{
    char error[ERROR_SIZE];

    if (redis_url_parse(url, text, error, sizeof(error)) == 0)
        return 0;
    fprintf(stderr, "rlockd: --redis (RLOCKD_REDIS): %s\n", error);
    return -1;
}

/* What one setting alone does not show. */
static int check_settings(struct rlockd *rlockd)
{
    const struct config *config = &rlockd->config;
    char error[ERROR_SIZE];

    if (config->max_connections < CONNECTIONS_PER_WORKER_MIN * config->workers) {
        fprintf(stderr, "rlockd: --max-connections: fewer than %d for each of --workers\n",
                CONNECTIONS_PER_WORKER_MIN);
        return -1;
    }
    if (config->redis_url[0] != '\0' &&
        parse_redis_url(&rlockd->redis_url, config->redis_url) != 0)
        return -1;
    if (config->api_tokens[0] == '\0')
        return 0;
    rlockd->auth = auth_load(config->api_tokens, error, sizeof(error));
    return rlockd->auth != NULL ? 0 : refuse(error);
}

/* The embedded one where no other is named. */
static int start_redis(struct rlockd *rlockd)
{
    char error[ERROR_SIZE];

    if (rlockd->config.redis_url[0] != '\0')
        return 0;
    rlockd->embedded = redis_embedded_start(rlockd->config.data_dir, error, sizeof(error));
    if (rlockd->embedded == NULL)
        return refuse(error);
    return parse_redis_url(&rlockd->redis_url, redis_embedded_url(rlockd->embedded));
}

static void *run_worker(void *service)
{
    service_run(service);
    return NULL;
}

static int start_workers(struct rlockd *rlockd)
{
    int count = rlockd->config.workers;

    rlockd->shared = (struct service_shared){.config = &rlockd->config,
                                             .redis_url = &rlockd->redis_url,
                                             .auth = rlockd->auth,
                                             .metrics = rlockd->metrics,
                                             .worker_count = (size_t)count};
    for (int i = 0; i < count; i++) {
        rlockd->services[i] = service_new(&rlockd->shared, rlockd->listen_fds[i]);
        if (rlockd->services[i] == NULL)
            return -1;
        rlockd->metrics[i] = &rlockd->services[i]->metrics;
    }
    for (int i = 0; i < count; i++)
        if (pthread_create(&rlockd->threads[i], NULL, run_worker, rlockd->services[i]) != 0)
            return refuse("cannot start a thread");
    return 0;
}

/* True when it is time to stop. */
static bool read_signals(const struct rlockd *rlockd)
{
    struct signalfd_siginfo info;
    bool stop = false;

    while (read(rlockd->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        stop |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
    return stop;
}

static void supervise(const struct rlockd *rlockd)
{
    struct pollfd signals = {.fd = rlockd->signal_fd, .events = POLLIN};

    for (;;) {
        int timeout_ms = rlockd->embedded ? redis_embedded_tick(rlockd->embedded) : -1;
        poll(&signals, 1, timeout_ms);
        if (read_signals(rlockd))
            return;
    }
}

static void stop_workers(struct rlockd *rlockd)
{
    for (int i = 0; i < rlockd->config.workers; i++)
        service_drain(rlockd->services[i]);
    for (int i = 0; i < rlockd->config.workers; i++)
        pthread_join(rlockd->threads[i], NULL);
    for (int i = 0; i < rlockd->config.workers; i++)
        service_free(rlockd->services[i]);
}

/* Everything before the workers; -1 after one line about what is wrong. */
static int prepare(struct rlockd *rlockd)
{
    char error[ERROR_SIZE];

    if (take_signals(rlockd) != 0)
        return -1;
    if (raise_descriptor_limit(&rlockd->config) != 0)
        return -1;
    if (listen_open(rlockd->config.listen_host, rlockd->config.listen_port, rlockd->listen_fds,
                    rlockd->config.workers, rlockd->where, error, sizeof(error)) != 0)
        return refuse(error);
    return start_redis(rlockd);
}

int main(int argc, char **argv)
{
    static struct rlockd rlockd; /* large, and lives as long as the process */
    char error[ERROR_SIZE];

    switch (config_load(&rlockd.config, argc, argv, environ, error, sizeof(error))) {
    case CONFIG_EXIT_OK:
        return EXIT_SUCCESS;
    case CONFIG_ERROR:
        refuse(error);
        return EXIT_USAGE;
    case CONFIG_RUN:
        break;
    }
    if (check_settings(&rlockd) != 0)
        return EXIT_USAGE;
    log_set_level(rlockd.config.log_level);
    json_object_seed(0);
    if (prepare(&rlockd) != 0 || start_workers(&rlockd) != 0) {
        redis_embedded_stop(rlockd.embedded);
        return EXIT_CANNOT_START;
    }
    log_write(LOG_LEVEL_INFO, "listening",
              json_pack("{s:s, s:s, s:i}", "listen", rlockd.where, "version", RLOCKD_VERSION,
                        "workers", rlockd.config.workers));
    supervise(&rlockd);
    log_write(LOG_LEVEL_INFO, "draining", NULL);
    stop_workers(&rlockd);
    redis_embedded_stop(rlockd.embedded);
    if (rlockd.auth != NULL)
        auth_free(rlockd.auth);
    close(rlockd.signal_fd);
    log_write(LOG_LEVEL_INFO, "stopped", NULL);
    return EXIT_SUCCESS;
}
