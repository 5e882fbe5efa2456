/* load MODE [options]: one run of load against one server; prints one line of JSON. What the
 * modes do stands in load.h. Meant for tests/bench/run and tests/bench/budgets. */
#include "tests/bench/load.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct mode {
    const char *name;
    void (*run)(struct load_options *options);
};

static const struct mode modes[] = {{"cycle", load_cycle},
                                    {"hold", load_hold},
                                    {"handoff", load_handoff},
                                    {"park", load_park},
                                    {"contend", load_contend}};

enum load_flag {
    OPTION_PORT = 1,
    OPTION_RELEASE_PORT,
    OPTION_SECOND_PORT,
    OPTION_TLS,
    OPTION_KIND,
    OPTION_DIALECT,
    OPTION_CONNECTIONS,
    OPTION_WAITERS,
    OPTION_LOCKS,
    OPTION_SECONDS,
    OPTION_WARMUP,
    OPTION_CYCLES,
    OPTION_ROUNDS,
    OPTION_RSS,
    OPTION_CPU,
    OPTION_NAME,
    OPTION_ACQUIRE,
    OPTION_RELEASE,
    OPTION_LEASE,
    OPTION_SESSION
};

static const struct option long_options[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"release-port", required_argument, NULL, OPTION_RELEASE_PORT},
    {"second-port", required_argument, NULL, OPTION_SECOND_PORT},
    {"tls", no_argument, NULL, OPTION_TLS},
    {"kind", required_argument, NULL, OPTION_KIND},
    {"dialect", required_argument, NULL, OPTION_DIALECT},
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"waiters", required_argument, NULL, OPTION_WAITERS},
    {"locks", required_argument, NULL, OPTION_LOCKS},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"cycles", required_argument, NULL, OPTION_CYCLES},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"rss", required_argument, NULL, OPTION_RSS},
    {"cpu", required_argument, NULL, OPTION_CPU},
    {"name", required_argument, NULL, OPTION_NAME},
    {"acquire-sha", required_argument, NULL, OPTION_ACQUIRE},
    {"release-sha", required_argument, NULL, OPTION_RELEASE},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"session", required_argument, NULL, OPTION_SESSION},
    {0}};

/* NAME=PID */
static void add_process(struct load_processes *processes, char *text)
{
    char *equals = strchr(text, '=');

    if (equals == NULL || processes->count == LOAD_PROCESSES_MAX)
        load_fail("--cpu: NAME=PID, at most %d times", LOAD_PROCESSES_MAX);
    *equals = '\0';
    processes->list[processes->count++] = (struct load_process){
        .name = text, .pid = (int)strtol(equals + 1, NULL, 10)};
}

static void take_option(struct load_options *options, enum load_flag flag, char *value)
{
    switch (flag) {
    case OPTION_PORT:
        options->port = (uint16_t)strtoul(value, NULL, 10);
        break;
    case OPTION_RELEASE_PORT:
        options->release_port = (uint16_t)strtoul(value, NULL, 10);
        break;
    case OPTION_SECOND_PORT:
        options->second_port = (uint16_t)strtoul(value, NULL, 10);
        break;
    case OPTION_TLS:
        options->tls = true;
        break;
    case OPTION_KIND:
        options->kind = value;
        break;
    case OPTION_DIALECT:
        if (!load_dialect_find(value, &options->peer.dialect))
            load_fail("--dialect: rlockd, webdis, etcd or bare");
        break;
    case OPTION_CONNECTIONS:
        options->connections = strtoul(value, NULL, 10);
        break;
    case OPTION_WAITERS:
        options->waiters = strtoul(value, NULL, 10);
        break;
    case OPTION_LOCKS:
        options->locks = strtoul(value, NULL, 10);
        break;
    case OPTION_SECONDS:
        options->seconds = strtod(value, NULL);
        break;
    case OPTION_WARMUP:
        options->warmup_s = strtod(value, NULL);
        break;
    case OPTION_CYCLES:
        options->cycles = strtol(value, NULL, 10);
        break;
    case OPTION_ROUNDS:
        options->rounds = strtol(value, NULL, 10);
        break;
    case OPTION_RSS:
        options->rss_pid = (int)strtol(value, NULL, 10);
        break;
    case OPTION_CPU:
        add_process(&options->processes, value);
        break;
    case OPTION_NAME:
        options->name = value;
        break;
    case OPTION_ACQUIRE:
        options->peer.acquire_sha = value;
        break;
    case OPTION_RELEASE:
        options->peer.release_sha = value;
        break;
    case OPTION_LEASE:
        options->peer.lease = strtoll(value, NULL, 10);
        break;
    case OPTION_SESSION:
        options->peer.session = value;
        break;
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    struct load_options options = {.connections = 64,
                                   .locks = 100,
                                   .seconds = 2,
                                   .warmup_s = 0.3,
                                   .rounds = 1,
                                   .kind = "plain",
                                   .peer = {.acquire_sha = "", .release_sha = ""}};
    char name[32];
    int option;

    snprintf(name, sizeof(name), "bench-%d", (int)getpid()); /* not those of the run before */
    options.name = name;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == '?')
            return 2;
        take_option(&options, (enum load_flag)option, optarg);
    }
    if (options.release_port == 0)
        options.release_port = options.port;
    if (options.second_port == 0)
        options.second_port = options.port;
    raise_descriptor_limit();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (optind + 1 != argc || strcmp(argv[optind], modes[i].name) != 0)
            continue;
        printf("{\"mode\": \"%s\"", modes[i].name);
        modes[i].run(&options);
        printf("}\n");
        return 0;
    }
    load_fail("which mode? cycle, hold, handoff, park or contend");
}
