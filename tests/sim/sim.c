/* sim [--seeds=N] [--seed=S] [--seconds=T] [--jobs=J] [--faults=WORD|none] [--no-drain]
 * [--trace]
 *     [--trouble-ms=N] [--topology=WORD] [--history=FILE] [--twice] [--first]: N runs, with the
 * seeds from S on, J at a time. Exit status 1: a rule was broken, or the same seed gave two
 * histories. With one seed everything happens in this process, for a debugger. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/run.h"

enum { JOBS_MAX = 64, TWICE_EVERY = 20 };

struct job {
    pid_t pid;
    uint64_t seed;
    bool is_again; /* the second run of its seed, whose history has to be the same */
    uint64_t wanted_hash;
    struct run_result *result; /* shared with the process of the run */
};

struct sums {
    int64_t runs, broken, differ, simulated_ms, requests, grants, faults, scripts, commands;
    int64_t passed;
};

static struct run_options options = {
    .seed = 1, .topology = TOPOLOGIES, .seconds = 40, .faults = "", .drains = true};
static int64_t seeds = 1, job_count = 1;
static bool twice, only_first;
static struct sums sums;

static const struct option flags[] = {{"seeds", required_argument, NULL, 'n'},
                                      {"seed", required_argument, NULL, 's'},
                                      {"seconds", required_argument, NULL, 't'},
                                      {"jobs", required_argument, NULL, 'j'},
                                      {"faults", required_argument, NULL, 'f'},
                                      {"history", required_argument, NULL, 'o'},
                                      {"trace", no_argument, NULL, 'v'},
                                      {"twice", no_argument, NULL, '2'},
                                      {"first", no_argument, NULL, '1'},
                                      {"trouble-ms", required_argument, NULL, 'm'},
                                      {"no-drain", no_argument, NULL, 'd'},
                                      {"topology", required_argument, NULL, 'p'},
                                      {NULL, 0, NULL, 0}};

static bool read_flags(int argc, char **argv)
{
    int flag;

    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        switch (flag) {
        case 'n':
            seeds = strtoll(optarg, NULL, 10);
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtoll(optarg, NULL, 10);
            break;
        case 'j':
            job_count = strtoll(optarg, NULL, 10);
            break;
        case 'f':
            options.faults = strcmp(optarg, "none") == 0 ? NULL : optarg;
            break;
        case 'o':
            options.history = optarg;
            break;
        case 'm':
            options.trouble_ms = strtoll(optarg, NULL, 10);
            break;
        case 'p':
            if (!topology_read(optarg, &options.topology))
                return false;
            break;
        case 'v':
            options.prints = true;
            break;
        case '2':
            twice = true;
            break;
        case '1':
            only_first = true;
            break;
        case 'd':
            options.drains = false;
            break;
        default:
            return false;
        }
    }
    return optind == argc && seeds > 0 && job_count > 0 && job_count <= JOBS_MAX;
}

static int64_t real_ms(void)
{
    return (int64_t)(time(NULL)) * 1000;
}

/* --- many runs
 * ------------------------------------------------------------------------------------ */

static void complain(const struct job *job)
{
    const struct run_result *result = job->result;

    printf(
        "sim: seed %llu: %s\n%s\nsim: again: build/tests/sim/sim --seed=%llu --seconds=%lld\n",
        (unsigned long long)job->seed, result->is_over ? result->rules : "the run broke off",
        result->report, (unsigned long long)job->seed, (long long)options.seconds);
}

static void count(const struct job *job)
{
    const struct run_result *result = job->result;

    sums.runs++;
    sums.simulated_ms += result->simulated_ms;
    sums.requests += result->requests;
    sums.grants += result->grants;
    sums.faults += result->faults;
    sums.scripts += result->scripts;
    sums.commands += result->commands;
    sums.passed += result->passed;
    if (!result->is_over || !result->is_clean) {
        sums.broken++;
        complain(job);
    }
    if (job->is_again && result->history_hash != job->wanted_hash) {
        sums.differ++;
        printf("sim: seed %llu: two runs, two histories\n", (unsigned long long)job->seed);
    }
    fflush(stdout);
}

/* Other addresses for everything, as another process has them. */
static void shift_memory(void)
{
    static char *blocks[64];

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        blocks[i] = malloc(24 + 104 * i);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i += 3)
        free(blocks[i]);
}

static void start(struct job *job, uint64_t seed, bool is_again, uint64_t wanted_hash)
{
    job->seed = seed;
    job->is_again = is_again;
    job->wanted_hash = wanted_hash;
    memset(job->result, 0, sizeof(*job->result));
    fflush(stdout);
    job->pid = fork();
    if (job->pid < 0) {
        perror("fork");
        exit(2);
    }
    if (job->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is_again)
        shift_memory();
    options.seed = seed;
    run_seed(&options, job->result);
    exit(0);
}

static void run_many(void)
{
    static struct job jobs[JOBS_MAX];
    int64_t next = 0, running = 0;

    for (int64_t i = 0; i < job_count; i++) {
        jobs[i].result = mmap(NULL, sizeof(struct run_result), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (jobs[i].result == MAP_FAILED)
            exit(2);
        if (next < seeds) {
            start(&jobs[i], options.seed + (uint64_t)next++, false, 0);
            running++;
        }
    }
    while (running > 0) {
        int64_t at = 0;
        pid_t pid = wait(NULL);
        while (at < job_count && jobs[at].pid != pid)
            at++;
        if (at == job_count)
            continue;
        struct job *job = &jobs[at];
        bool again = !job->is_again && job->result->is_over &&
                     (twice || (job->seed - options.seed) % TWICE_EVERY == 0);
        count(job);
        if (only_first && sums.broken + sums.differ > 0)
            next = seeds;
        if (again && !(only_first && sums.broken + sums.differ > 0))
            start(job, job->seed, true, job->result->history_hash);
        else if (next < seeds)
            start(job, options.seed + (uint64_t)next++, false, 0);
        else
            running--;
    }
}

static int run_one(void)
{
    static struct run_result result;

    run_seed(&options, &result);
    printf("%s\nsim: seed %llu, history %016llx: %s\n", result.report,
           (unsigned long long)options.seed, (unsigned long long)result.history_hash,
           result.is_clean ? "clean" : result.rules);
    return !result.is_clean;
}

int main(int argc, char **argv)
{
    if (!read_flags(argc, argv)) {
        fprintf(stderr, "usage: sim [--seeds=N] [--seed=S] [--seconds=T] [--jobs=J] "
                        "[--faults=WORD|none] [--no-drain] [--trace] [--trouble-ms=N] "
                        "[--topology=single|sentinel|cluster|quorum] "
                        "[--history=FILE] [--twice] [--first]\n");
        return 2;
    }
    if (seeds == 1 && !twice)
        return run_one();
    int64_t began_ms = real_ms();
    run_many();
    int64_t ms = real_ms() - began_ms;
    printf("sim: %lld runs, seeds %llu to %llu: %lld simulated s in %lld s (%lld x), %lld "
           "requests, %lld grants, %lld faults, %lld scripts, %lld commands of Redis, "
           "%lld releases passed on\n",
           (long long)sums.runs, (unsigned long long)options.seed,
           (unsigned long long)options.seed + (unsigned long long)seeds - 1,
           (long long)sums.simulated_ms / 1000, (long long)ms / 1000,
           (long long)(sums.simulated_ms / (ms > 0 ? ms : 1)), (long long)sums.requests,
           (long long)sums.grants, (long long)sums.faults, (long long)sums.scripts,
           (long long)sums.commands, (long long)sums.passed);
    printf("sim: %lld runs broke a rule, %lld seeds gave two histories\n",
           (long long)sums.broken, (long long)sums.differ);
    return sums.broken > 0 || sums.differ > 0;
}
