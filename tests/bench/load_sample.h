/* What is measured: latencies, and what processes used meanwhile. */
#ifndef RLOCKD_TESTS_BENCH_LOAD_SAMPLE_H
#define RLOCKD_TESTS_BENCH_LOAD_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct load_samples {
    int64_t *ns;
    size_t count, size;
};

void load_samples_add(struct load_samples *samples, int64_t ns);
void load_samples_release(struct load_samples *samples);
/* Sorts. */
double load_samples_p99_us(struct load_samples *samples);
/* Prints `"<name>_p50_us": …, "<name>_p99_us": …` and the count. Sorts. */
void load_samples_print(struct load_samples *samples, const char *name);

enum { LOAD_PROCESSES_MAX = 8 };

/* A process whose CPU time is measured. */
struct load_process {
    const char *name;
    int pid;
    int64_t cpu_us, taken_us; /* at the start of the window; within it */
};

struct load_processes {
    size_t count;
    struct load_process list[LOAD_PROCESSES_MAX];
};

void load_processes_start(struct load_processes *processes);
void load_processes_stop(struct load_processes *processes);
/* Prints `"cpu_us": {"<name>": …}`. */
void load_processes_print(const struct load_processes *processes);

/* Resident kilobytes of a process. */
long load_rss_kb(int pid);

#endif
