/* How late the machine is while a test runs: by how much the naps of a watching thread were too
 * long, and how long this program and its children were ready to run and got no processor. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "harness_world.h"

enum {
    NAP_MS = 20,
    READ_AGAIN_MS = 20, /* for so long a sum of all processes is good */
    PROCESSES_MAX = 256,
    TELL_MS = 250,  /* a test that fails says so from here on */
    STOOD_MS = 500, /* half of the shortest time that rlockd waits: for a server of a quorum */
    NS_PER_MS = 1000000
};

struct process {
    pid_t pid;
    int64_t waited_ns;
};

static struct {
    pthread_mutex_t mutex;
    pthread_t thread;
    _Atomic bool over;
    int64_t naps_ms;     /* by which naps were too long */
    int64_t nap_ends_ms; /* when the nap under way was to end */
    int64_t stood_ms;    /* by which the longest one of the running test was too long */
    struct process processes[PROCESSES_MAX];
    size_t processes_len;
    int64_t ended_ns;  /* what processes waited that have ended */
    int64_t waited_ms; /* naps and processes, when that was summed up last */
    int64_t read_ms;   /* the time then */
    int64_t sum_ms;    /* of what came in between, but never more than the time that passed */
    int64_t begun_ms;  /* sum_ms when the running test began */
} late = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* proc(5), /proc/PID/schedstat: time on the processor, time waited for it, in ns. */
static int64_t thread_waited_ns(pid_t pid, const char *thread)
{
    char path[64];
    int64_t waited_ns = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid, thread);
    char *content = file_read(path);
    if (sscanf(content, "%*d %" SCNd64, &waited_ns) != 1)
        waited_ns = 0;
    free(content);
    return waited_ns;
}

/* Of the thread that waited longest: those of one process wait side by side. -1: it has ended.
 */
static int64_t process_waited_ns(pid_t pid)
{
    char path[32];
    struct dirent *entry;
    int64_t longest_ns = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return -1;
    while ((entry = readdir(threads)) != NULL) {
        int64_t waited_ns = entry->d_name[0] != '.' ? thread_waited_ns(pid, entry->d_name) : 0;

        longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
    }
    closedir(threads);
    return longest_ns;
}

/* With the nap under way: its thread may get a processor later than the one that asks. */
static int64_t naps_too_long_ms(int64_t now)
{
    return late.naps_ms + (now > late.nap_ends_ms ? now - late.nap_ends_ms : 0);
}

static int64_t all_waited_ms(int64_t now)
{
    size_t kept = 0;
    int64_t sum_ns = 0;

    for (size_t i = 0; i < late.processes_len; i++) {
        struct process process = late.processes[i];
        int64_t waited_ns = process_waited_ns(process.pid);

        if (waited_ns < 0) {
            late.ended_ns += process.waited_ns;
            continue;
        }
        process.waited_ns = waited_ns > process.waited_ns ? waited_ns : process.waited_ns;
        sum_ns += process.waited_ns;
        late.processes[kept++] = process;
    }
    late.processes_len = kept;
    return naps_too_long_ms(now) + (late.ended_ns + sum_ns) / NS_PER_MS;
}

/* Processes that wait side by side delay a test once. */
static void sum_up(void)
{
    int64_t now = now_ms(), waited_ms = all_waited_ms(now);
    int64_t passed_ms = now - late.read_ms, more_ms = waited_ms - late.waited_ms;

    late.sum_ms += more_ms < passed_ms ? more_ms : passed_ms;
    late.waited_ms = waited_ms;
    late.read_ms = now;
}

static int64_t machine_late_ms(void)
{
    pthread_mutex_lock(&late.mutex);
    if (now_ms() >= late.read_ms + READ_AGAIN_MS)
        sum_up();
    int64_t sum_ms = late.sum_ms;
    pthread_mutex_unlock(&late.mutex);
    return sum_ms;
}

int64_t late_ms(void)
{
    return machine_late_ms() - late.begun_ms;
}

int64_t allowed_ms(int64_t ms)
{
    return patience_ms(ms) + late_ms();
}

void late_test_begins(void)
{
    late.begun_ms = machine_late_ms();
    pthread_mutex_lock(&late.mutex);
    late.stood_ms = 0;
    pthread_mutex_unlock(&late.mutex);
}

void late_tell(void)
{
    int64_t ms = late_ms();

    pthread_mutex_lock(&late.mutex);
    if (late.stood_ms >= STOOD_MS) /* for tests/run.sh */
        fprintf(stderr, "the machine stood still for %d ms in this test\n", (int)late.stood_ms);
    pthread_mutex_unlock(&late.mutex);

    if (ms >= TELL_MS)
        fprintf(stderr, "the machine was late by %d ms in this test: try E2E_PATIENCE=%d\n",
                (int)ms, (int)patience_ms(3));
}

void late_watch(pid_t pid)
{
    pthread_mutex_lock(&late.mutex);
    if (late.processes_len == PROCESSES_MAX)
        sum_up(); /* which drops those that have ended */
    if (late.processes_len < PROCESSES_MAX)
        late.processes[late.processes_len++] = (struct process){.pid = pid};
    pthread_mutex_unlock(&late.mutex);
}

static void *watch_naps(void *arg)
{
    (void)arg;
    while (!late.over) {
        nap_ms(NAP_MS);
        pthread_mutex_lock(&late.mutex);
        int64_t now = now_ms(), stood_ms = now - late.nap_ends_ms;
        late.naps_ms = naps_too_long_ms(now);
        late.stood_ms = stood_ms > late.stood_ms ? stood_ms : late.stood_ms;
        late.nap_ends_ms = now + NAP_MS;
        pthread_mutex_unlock(&late.mutex);
    }
    return NULL;
}

/* Signals are the test's. */
void late_start(void)
{
    sigset_t all, before;

    late.read_ms = now_ms();
    late.nap_ends_ms = late.read_ms + NAP_MS;
    late_watch(getpid());
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&late.thread, NULL, watch_naps, NULL) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void late_stop(void)
{
    late.over = true;
    pthread_join(late.thread, NULL);
}
