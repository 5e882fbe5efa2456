/* The making of a run's world, its settings, its history and its judgement. */
#include "tests/sim/run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "storage/redis/script.h"
#include "tests/checker/check.h"
#include "tests/sim/clients_visit.h"
#include "tests/sim/http.h"
#include "tests/sim/nemesis.h"
#include "tests/sim/sockets.h"
#include "tests/sim/world.h"

/* Runs of their own: without faults, for the rules that a fault near excuses; few connections,
 * so that not every request may wait; a quarantine, shorter than what is excused after a fault;
 * fencing counters that end while their leases are renewed, were the watchdog to leave them
 * alone; histograms of waits and holds. */
enum {
    FEW_EVERY = 5,
    FEW_CONNECTIONS = 20,
    MANY_CONNECTIONS = 10000,
    QUARANTINE_EVERY = 7,
    CALM_EVERY = 13,
    QUARANTINE_MS = 1500,
    SHORT_COUNTERS_EVERY = 9,
    TIMED_EVERY = 11,
    SYNC_TIMEOUT_MS = 150, /* replicas are cut off for longer */
    SHORT_COUNTER_MS = 2 * (WATCHDOG_MS + RETRY_WINDOW_MS) + 1000,
    COUNTER_MS = 86400000
};

/* Every fourth pair of seeds, a brisk run and a slow one: front ends with several workers. */
enum { SEVERAL_EVERY = 4, SEVERAL_AT = 3 };

struct world world;

static const struct run_options *the_options;
static bool has_faults;

/* --- what is written down
 * ---------------------------------------------------------------------- */

void record(const char *type, const char *format, ...)
{
    char line[16384];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    buffer_format(&world.history, "{\"type\":\"%s\",%s}\n", type, line);
    world.lines++;
}

void record_complaint(const struct front *front, int64_t began_ns, const char *complaint)
{
    record("op",
           "\"client\":\"nemesis\",\"op\":\"probe\",\"front\":%d,\"t_inv\":%lld,"
           "\"t_ret\":%lld,\"status\":503,\"outcome\":\"not-done\",\"malformed\":\"%s\"",
           front->number, (long long)began_ns, (long long)now_ns(), complaint);
}

void trace(const char *format, ...)
{
    va_list args;

    if (!world.prints)
        return;
    printf("%11.6f ", (double)now_ns() / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* --- the world
 * ------------------------------------------------------------------------------------ */

static void add_printable(struct buffer *line, const char *text, size_t len)
{
    for (size_t i = 0; i < len && line->len < 1000; i++)
        buffer_add(line, text[i] >= ' ' && text[i] <= '~' ? &text[i] : "|", 1);
}

static const char *script_name(struct bytes sha)
{
    for (int script = 0; script < SCRIPT_COUNT; script++) {
        const struct script_row *const rows[] = {
            script_row(script), script_row_of_cluster(script, false),
            script_row_of_cluster(script, true), script_row_of_quorum(script)};
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            if (strncmp(rows[i]->sha1, sha.text, sha.len) == 0)
                return rows[i]->name;
    }
    return "EVAL";
}

/* `script`: NULL, of another command than a script. */
static void show_request(const struct call *call, const char *script, const char *reply,
                         size_t len)
{
    struct buffer line = {0};

    for (size_t i = script != NULL ? 3 : 0; i < call->argc; i++) {
        add_printable(&line, " ", 1);
        add_printable(&line, call->argv[i].text, call->argv[i].len);
    }
    add_printable(&line, "  ->  ", 6);
    add_printable(&line, reply, len);
    trace("redis %d/%lld %s%.*s", ((struct server *)call->redis->owner)->number,
          (long long)call->client->id, script != NULL ? script : "", (int)line.len, line.text);
    buffer_release(&line);
}

static void see_request(const struct call *call, const char *reply, size_t len)
{
    const char *script = NULL;

    if (bytes_is_word(call->argv[0], "evalsha") || bytes_is_word(call->argv[0], "eval"))
        script = script_name(call->argv[1]);
    if (world.prints)
        show_request(call, script, reply, len);
    if (script != NULL && call->argc > 3) {
        visits_see(script, call->argv[3]);
        contest_see(script, call->argv[3]);
    }
}

static int workers_of(struct chance *chance)
{
    bool has_several = world.seed / 2 % SEVERAL_EVERY == SEVERAL_AT;

    return has_several ? (int)chance_between(chance, 2, WORKERS_MAX) : 1;
}

/* Three of sixteen pairs are behind Sentinels, three on a cluster, one of each with several
 * workers. */
static enum topology topology_of(uint64_t seed)
{
    uint64_t pair = seed / 2;

    if (pair % 8 == 2 || pair % 16 == 15)
        return TOPOLOGY_CLUSTER;
    return pair % 8 == 5 || pair % 16 == 7 ? TOPOLOGY_SENTINEL : TOPOLOGY_SINGLE;
}

static void choose_topology(void)
{
    struct chance chance = chance_make(world.seed, "topology");

    world.topology = the_options->topology < TOPOLOGIES ? the_options->topology
                                                        : topology_of(world.seed);
    if (world.topology == TOPOLOGY_CLUSTER)
        world.masters = (int)chance_between(&chance, 2, MASTERS_MAX);
    if (world.topology == TOPOLOGY_QUORUM)
        world.nodes = chance_percent(&chance, 70) ? 3 : 5;
    if (world.topology != TOPOLOGY_SENTINEL)
        return;
    world.replicas = chance_percent(&chance, 35) ? 1 : 2;
    world.sync_replicas = chance_percent(&chance, 60) ? world.replicas
                                                      : (int)chance_between(&chance, 0, 1);
}

static int64_t quarantine_ms(void)
{
    if (world.topology == TOPOLOGY_QUORUM)
        return QUORUM_QUARANTINE_MS * world.pace;
    return world.seed % QUARANTINE_EVERY == 0 ? QUARANTINE_MS : 0;
}

static void load_config(struct config *config, int workers)
{
    static char *const no_environment[] = {NULL};
    char texts[10][48], error[256];
    char *const argv[] = {"sim",    texts[0], texts[1], texts[2], texts[3], texts[4],
                          texts[5], texts[6], texts[7], texts[8], texts[9], NULL};

    snprintf(texts[0], sizeof(texts[0]), "--watchdog-timeout-ms=%lld",
             (long long)(WATCHDOG_MS * world.pace));
    snprintf(texts[1], sizeof(texts[1]), "--max-wait-ms=%lld",
             (long long)(MAX_WAIT_MS * world.pace));
    snprintf(texts[2], sizeof(texts[2]), "--retry-window-ms=%lld",
             (long long)(RETRY_WINDOW_MS * world.pace));
    snprintf(texts[3], sizeof(texts[3]), "--max-connections=%d",
             world.seed % FEW_EVERY == 0 ? FEW_CONNECTIONS * workers : MANY_CONNECTIONS);
    snprintf(texts[4], sizeof(texts[4]), "--quarantine-ms=%lld", (long long)quarantine_ms());
    snprintf(texts[5], sizeof(texts[5]), "--fencing-ttl-ms=%lld",
             world.seed % SHORT_COUNTERS_EVERY == 0 ? (long long)(SHORT_COUNTER_MS * world.pace)
                                                    : (long long)COUNTER_MS);
    snprintf(texts[6], sizeof(texts[6]), "--workers=%d", workers);
    snprintf(texts[7], sizeof(texts[7]), "--metrics-prefixes=%s",
             world.seed % TIMED_EVERY == 0 ? "plain-,{plain}-,rw-" : "");
    snprintf(texts[8], sizeof(texts[8]), "--sync-replicas=%d", world.sync_replicas);
    snprintf(texts[9], sizeof(texts[9]), "--sync-timeout-ms=%d", SYNC_TIMEOUT_MS);
    if (config_load(config, 11, argv, no_environment, error, sizeof(error)) == CONFIG_RUN)
        return;
    fprintf(stderr, "sim: %s\n", error);
    abort();
}

static void make_world(void)
{
    struct config config;
    struct chance chance = chance_make(the_options->seed, "workers");
    char quorum[24] = "";

    world.seed = the_options->seed;
    world.pace = world.seed % 2 == 0 ? PACE_SLOW : 1;
    world.prints = the_options->prints;
    choose_topology();
    log_set_level(world.prints ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    json_object_seed(1);
    servers_init(world.topology, world.replicas + world.masters + world.nodes, world.seed);
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        server->redis.observer = see_request;
    sockets_init(world.seed);
    http_init(world.seed);
    for (int i = 0; i < FRONTS; i++) {
        load_config(&config, workers_of(&chance));
        front_init(&world.fronts[i], i, world.seed, &config);
        front_start(&world.fronts[i]);
    }
    if (world.nodes > 0)
        snprintf(quorum, sizeof(quorum), "\"quorum\":%d,", world.nodes);
    record("run",
           "\"seed\":\"%llu\",\"retry_window_ms\":%lld,\"watchdog_ms\":%lld,"
           "\"max_ttl_ms\":%lld,\"place_ms\":%d,\"masters\":%d,%s"
           "\"permits\":{\"" PERMITS_NAME "\":%d,\"" LATE_NAME "\":1}",
           (unsigned long long)world.seed, (long long)(RETRY_WINDOW_MS * world.pace),
           (long long)(WATCHDOG_MS * world.pace),
           (long long)((LEASE_TTL_MAX_MS + WATCHDOG_MS) * world.pace), PLACE_MS,
           world.masters > 0 ? world.masters : 1, quorum, PERMITS_COUNT);
}

static void direct(void *arg)
{
    int over = 0, nemesis_over = 0;

    (void)arg;
    task_sleep(CLOCK_NS_PER_S);
    if (world.topology == TOPOLOGY_QUORUM) /* that of the first start */
        task_sleep((QUORUM_QUARANTINE_MS * world.pace + 2000) * CLOCK_NS_PER_MS);
    while (!make_semaphores() && !world.is_over)
        task_sleep(100 * CLOCK_NS_PER_MS);
    watch_start();
    int count = clients_start(&over);
    if (has_faults)
        task_start(nemesis_run, NULL, &nemesis_over);
    task_sleep(the_options->seconds * world.pace * CLOCK_NS_PER_S);
    world.is_stopping = true;
    while (over < count || world.doubled > 0 || (has_faults && nemesis_over == 0))
        task_sleep(100 * CLOCK_NS_PER_MS);
    if (the_options->drains)
        drain_run();
    world.is_over = true;
}

/* A run that does not end by then never will. */
#define DRAIN_MAX_NS (900 * CLOCK_NS_PER_S)

static bool is_late;

static void give_up(void *arg)
{
    (void)arg;
    is_late = world.is_over = true;
}

/* --- what the checker says
 * -------------------------------------------------------------------------- */

/* A run of so many seconds that does less proves little. */
static void set_bounds(struct bounds *bounds)
{
    int64_t seconds = the_options->seconds;

    bounds->min_requests = 15 * seconds;
    bounds->min_grants = 3 * seconds;
    bounds->min_waits = seconds / 2;
    bounds->min_releases = 2 * seconds;
    bounds->min_renewals = seconds / 4;
    bounds->min_abandoned = seconds / 4;
    bounds->min_repeats = seconds / 2;
    bounds->min_sweeps = 0;
    for (int i = 0; i < LOCK_COUNT; i++)
        bounds->min_sweeps += the_options->drains && lock_is_offered(&lock_names[i]);
    bounds->late_ms *= world.pace;
    bounds->deadlock_ms *= world.pace;
    bounds->trouble_ms = world.pace == 1 ? 4000 : 7000; /* beyond the longest poll */
    if (the_options->trouble_ms > 0)
        bounds->trouble_ms = the_options->trouble_ms;
}

static void check(struct run_result *result)
{
    struct history history = {0};
    struct report report;
    char why[80];
    FILE *out = fmemopen(result->report, REPORT_SIZE, "w");
    FILE *in = fmemopen(world.history.text, world.history.len, "r");

    report_init(&report, &history, out);
    set_bounds(&report.bounds);
    if (is_late)
        violation(&report, "END", "the run does not come to its end");
    if (!history_read(&history, in, why, sizeof(why)))
        violation(&report, "HISTORY", "%s", why);
    else
        check_all(&report, &history);
    result->is_clean = report_all_broken(&report) == 0;
    for (size_t i = 0; i < report.rules.count; i++) {
        const struct rule_count *count = report.rules.at[i];
        size_t len = strlen(result->rules);
        snprintf(result->rules + len, sizeof(result->rules) - len, "%s%s", len > 0 ? " " : "",
                 count->rule);
    }
    report_release(&report);
    history_free(&history);
    fclose(in);
    fclose(out);
}

static void sum_up(struct run_result *result)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */

    for (size_t i = 0; i < world.history.len; i++)
        hash = (hash ^ (unsigned char)world.history.text[i]) * 0x100000001B3u;
    result->history_hash = hash;
    result->requests = world.requests;
    result->grants = world.grants;
    result->faults = world.faults;
    result->scripts = world.counts.scripts;
    result->commands = world.counts.commands;
    result->passed = world.passed;
}

static void keep_history(void)
{
    FILE *file = fopen(the_options->history, "w");

    if (file == NULL || fwrite(world.history.text, 1, world.history.len, file) == 0) {
        perror(the_options->history);
        exit(2);
    }
    fclose(file);
}

void run_seed(const struct run_options *options, struct run_result *result)
{
    int64_t began_ns = now_ns();

    the_options = options;
    *result = (struct run_result){0};
    make_world();
    has_faults = options->faults != NULL &&
                 (options->faults[0] != '\0' || options->seed % CALM_EVERY != 0);
    if (has_faults)
        nemesis_choose(options->seed, options->faults);
    struct timer limit = {.fire = give_up};
    schedule_in(&limit, (options->seconds * CLOCK_NS_PER_S + DRAIN_MAX_NS) * world.pace);
    task_start(direct, NULL, NULL);
    schedule_run(&world.is_over);
    result->simulated_ms = (now_ns() - began_ns) / CLOCK_NS_PER_MS;
    if (options->history != NULL)
        keep_history();
    check(result);
    sum_up(result);
    result->is_over = true;
}
