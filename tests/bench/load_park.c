/* What many who wait cost: their memory, and the time of others beside them. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"

enum { ROUNDS_MAX = 100 };

/* What is measured, alone and beside the waiters. */
enum probe { CYCLE_ALONE, CYCLE_BESIDE, KEEP_ALIVE_ALONE, KEEP_ALIVE_BESIDE, PROBES };

static const char *const probe_names[PROBES] = {[CYCLE_ALONE] = "alone",
                                                [CYCLE_BESIDE] = "beside",
                                                [KEEP_ALIVE_ALONE] = "keep_alive_alone",
                                                [KEEP_ALIVE_BESIDE] = "keep_alive_beside"};

struct parking {
    const struct load_options *options;
    struct load_client client;
    struct load_cycler *cycler;
    struct load_keeper *keeper;
    size_t rounds;
    double p99_us[PROBES][ROUNDS_MAX];
};

/* Takes the locks that the waiters wait for, and keeps them. */
static void take_locks(const struct load_options *options)
{
    struct load_options hold = *options;

    hold.cycles = (long)options->locks;
    hold.connections = 1;
    load_hold(&hold);
}

static double probe_cycles(struct parking *parking)
{
    struct load_cycler *cycler = parking->cycler;

    load_cycler_start(cycler, 0);
    load_cycler_run(cycler, parking->options->warmup_s);
    load_cycler_measure(cycler);
    load_cycler_run(cycler, parking->options->seconds);
    double p99_us = load_samples_p99_us(load_cycler_samples(cycler, STEP_ACQUIRE));
    load_cycler_stop(cycler);
    return p99_us;
}

static double probe_keep_alives(struct parking *parking)
{
    load_keeper_run(parking->keeper, parking->options->warmup_s);
    load_keeper_run(parking->keeper, parking->options->seconds);
    return load_samples_p99_us(load_keeper_samples(parking->keeper));
}

static void probe(struct parking *parking, enum probe cycle, enum probe keep_alive)
{
    parking->p99_us[cycle][parking->rounds] = probe_cycles(parking);
    parking->p99_us[keep_alive][parking->rounds] = probe_keep_alives(parking);
}

static struct load_line *park(struct parking *parking)
{
    const struct load_options *options = parking->options;
    long before_kb = load_rss_kb(options->rss_pid);
    int64_t started_ns = load_now_ns();
    struct load_line *line = load_line_new(options, &parking->client, options->waiters,
                                           options->locks);
    double took_s = (double)(load_now_ns() - started_ns) / 1e9;
    long after_kb = load_rss_kb(options->rss_pid);

    if (parking->rounds == 0) /* later the memory of those before is used again */
        printf(", \"waiters\": %zu, \"parked_in_s\": %.2f, \"bytes_per_waiter\": %.0f",
               options->waiters, took_s,
               (double)(after_kb - before_kb) * 1024 / (double)options->waiters);
    return line;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print(struct parking *parking)
{
    for (int i = 0; i < PROBES; i++)
        printf(", \"%s_p99_us\": %.1f", probe_names[i],
               median(parking->p99_us[i], parking->rounds));
}

void load_park(struct load_options *options)
{
    struct load_options probes = *options;
    struct parking parking = {.options = options};

    if (options->rounds < 1 || options->rounds > ROUNDS_MAX)
        load_fail("--rounds: 1 to %d", ROUNDS_MAX);
    probes.name = "probe";
    load_client_init(&parking.client, options->port, options->tls);
    parking.cycler = load_cycler_new(&probes, &parking.client);
    parking.keeper = load_keeper_new(&probes, &parking.client);
    take_locks(options);
    for (; parking.rounds < (size_t)options->rounds; parking.rounds++) {
        probe(&parking, CYCLE_ALONE, KEEP_ALIVE_ALONE);
        struct load_line *line = park(&parking);
        probe(&parking, CYCLE_BESIDE, KEEP_ALIVE_BESIDE);
        load_line_free(line);
    }
    print(&parking);
    load_keeper_free(parking.keeper);
    load_cycler_free(parking.cycler);
    load_client_release(&parking.client);
}
