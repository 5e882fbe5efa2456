/* Percentiles of latencies, and the CPU time and memory of processes by /proc. */
#include "tests/bench/load_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/load_client.h"

void load_samples_add(struct load_samples *samples, int64_t ns)
{
    if (samples->count == samples->size) {
        samples->size = samples->size ? samples->size * 2 : 4096;
        samples->ns = realloc(samples->ns, samples->size * sizeof(*samples->ns));
        if (samples->ns == NULL)
            load_fail("out of memory");
    }
    samples->ns[samples->count++] = ns;
}

void load_samples_release(struct load_samples *samples)
{
    free(samples->ns);
    *samples = (struct load_samples){0};
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static double percentile_us(const struct load_samples *samples, double share)
{
    if (samples->count == 0)
        return 0;
    size_t i = (size_t)(share * (double)(samples->count - 1) + 0.5);
    return (double)samples->ns[i] / 1000;
}

static void sort(struct load_samples *samples)
{
    qsort(samples->ns, samples->count, sizeof(*samples->ns), compare);
}

double load_samples_p99_us(struct load_samples *samples)
{
    sort(samples);
    return percentile_us(samples, 0.99);
}

void load_samples_print(struct load_samples *samples, const char *name)
{
    sort(samples);
    printf(", \"%s_count\": %zu, \"%s_p50_us\": %.1f, \"%s_p99_us\": %.1f, "
           "\"%s_max_us\": %.1f",
           name, samples->count, name, percentile_us(samples, 0.5), name,
           percentile_us(samples, 0.99), name, percentile_us(samples, 1));
}

/* --- processes ---------------------------------------------------------------------------- */

/* A file of /proc, cut to `size`. */
static void read_proc(int pid, const char *file, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        load_fail("%s cannot be read", path);
    text[fread(text, 1, size - 1, in)] = '\0';
    fclose(in);
}

/* User and system time of every thread: fields 14 and 15 of proc(5)'s stat. */
static int64_t cpu_us(int pid)
{
    char text[1024];
    unsigned long long user = 0, system = 0;

    read_proc(pid, "stat", text, sizeof(text));
    const char *rest = strrchr(text, ')'); /* the name may hold anything */
    if (rest == NULL || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                               &user, &system) != 2)
        load_fail("/proc/%d/stat is not understood", pid);
    return (int64_t)((user + system) * 1000000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}

void load_processes_start(struct load_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        processes->list[i].cpu_us = cpu_us(processes->list[i].pid);
}

void load_processes_stop(struct load_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        processes->list[i].taken_us = cpu_us(processes->list[i].pid) -
                                      processes->list[i].cpu_us;
}

void load_processes_print(const struct load_processes *processes)
{
    printf(", \"cpu_us\": {");
    for (size_t i = 0; i < processes->count; i++)
        printf("%s\"%s\": %lld", i ? ", " : "", processes->list[i].name,
               (long long)processes->list[i].taken_us);
    printf("}");
}

long load_rss_kb(int pid)
{
    char text[4096];
    long kb = 0;

    read_proc(pid, "smaps_rollup", text, sizeof(text));
    const char *line = strstr(text, "\nRss:");
    if (line == NULL || sscanf(line, "\nRss: %ld", &kb) != 1)
        load_fail("/proc/%d/smaps_rollup is not understood", pid);
    return kb;
}
