/* The clients of the simulation (tests/sim) before real front ends. Here a task is a thread,
 * and the time is that of the machine; one task runs at a time, as in the simulation, but while
 * it sleeps or waits for an answer the others go on. tests/faults/live.py starts this program,
 * and reads the lines of the history from its output.
 *
 * usage: live SEED quorum|other PORT...: what the front ends have behind them, and their ports.
 * Lines of the input:
 *   memory 1   nothing but Redis' memory is short from now on; memory 0: that is over
 *   lost       Redis may lose data from now on
 *   stop       clients begin nothing new; the program ends when they have ended
 * `memory` and `lost` are answered by a line of type "heard". */
#include "tests/faults/live.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/bytes.h"
#include "tests/sim/clients.h"

struct world world;

/* --- tasks and time
 * ------------------------------------------------------------------------------------------ */

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void live_enter(void)
{
    pthread_mutex_lock(&one_at_a_time);
}

void live_leave(void)
{
    pthread_mutex_unlock(&one_at_a_time);
}

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

void task_sleep(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / CLOCK_NS_PER_S, .tv_nsec = ns % CLOCK_NS_PER_S};

    live_leave();
    nanosleep(&left, NULL);
    live_enter();
}

struct start {
    void (*run)(void *arg);
    void *arg;
    int *done;
};

static void *run_task(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    live_enter();
    start.run(start.arg);
    if (start.done != NULL)
        ++*start.done;
    live_leave();
    http_hang_up();
    return NULL;
}

/* No task waits for another one but by a count: there is none to return. */
struct task *task_start(void (*run)(void *arg), void *arg, int *done)
{
    struct start *start = zalloc(sizeof(*start));
    pthread_t thread;

    *start = (struct start){run, arg, done};
    if (pthread_create(&thread, NULL, run_task, start) != 0 || pthread_detach(thread) != 0) {
        fprintf(stderr, "live: a thread cannot be started\n");
        exit(1);
    }
    return NULL;
}

/* --- the history
 * ------------------------------------------------------------------------------------------ */

void record(const char *type, const char *format, ...)
{
    va_list args;

    printf("{\"type\":\"%s\",", type);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("}\n");
    fflush(stdout);
}

void trace(const char *format, ...)
{
    (void)format;
}

/* Noted at the end, and only if no data was lost: the client that complains may hear of the
 * loss later than of its consequences. */
void note_leak(const char *subject, int number, int64_t now, const char *detail)
{
    (void)number;
    (void)detail;
    buffer_format(&world.history,
                  "{\"type\":\"leak\",\"subject\":\"%s\",\"base\":0,\"now\":%lld,"
                  "\"allowed\":0}\n",
                  subject, (long long)now);
}

void note_checks(const char *subject, int64_t checks)
{
    buffer_format(&world.history, "{\"type\":\"leak\",\"subject\":\"%s\",\"checks\":%lld}\n",
                  subject, (long long)checks);
}

void tell_redis(const char *const *words)
{
    struct buffer line = {0};

    for (size_t i = 0; words[i] != NULL; i++)
        buffer_format(&line, "%s\"%s\"", i > 0 ? "," : "", words[i]);
    record("redis", "\"words\":[%.*s]", (int)line.len, line.text);
    buffer_release(&line);
}

/* How many requests wait now: the reader of the history compares it with what Redis runs. */
static void tell_waiting(void *arg)
{
    (void)arg;
    while (!world.is_over) {
        record("waiting", "\"waiting\":%d", world.waiting);
        task_sleep(200 * MS);
    }
}

/* --- the run
 * ------------------------------------------------------------------------------------------ */

static const struct client_kind kinds[] = {
    {"Client", 5, pick_plain, run_cycles},
    {"FairClient", 3, pick_fair, run_cycles},
    {"ReadWriteClient", 6, pick_read_write, run_cycles},
    {"PermitClient", 3, pick_permit, run_cycles},
    {"MultiClient", 2, pick_several, run_cycles},
    {"ImpatientClient", 4, pick_any, run_impatient},
    {"SessionClient", 4, pick_any, run_sessions},
    {"Visitor", 2, pick_any, run_visitor},
    {"Stranger", 1, pick_any, run_stranger},
    {"Overtaker", 2, pick_any, run_overtaker},
    {"SemaphoreClient", 3, pick_any, run_semaphore},
    {"Drainer", 1, pick_any, run_drainer},
    {"LatchWaiter", 2, pick_any, run_latch_waiter},
    {"LatchCounter", 1, pick_any, run_latch_counter},
    {"Crowd", 1, pick_any, run_crowd},
    {"Forced", 2, pick_any, run_forced},
    {"Hoarder", 1, pick_any, run_hoarder},
    {"Throng", 1, pick_any, run_throng},
    {"Ring", 1, pick_any, run_ring},
};

/* The kinds of clients for a quorum, which has locks, read/write locks and sessions alone. No
 * client forces locks: a force-unlock that reaches a server late ends a lease that the server
 * has granted since. */
static const struct client_kind quorum_kinds[] = {
    {"Client", 6, pick_plain, run_cycles},
    {"ReadWriteClient", 6, pick_read_write, run_cycles},
    {"MultiClient", 4, pick_several, run_cycles},
    {"ImpatientClient", 5, pick_any, run_impatient},
    {"SessionClient", 5, pick_any, run_sessions},
    {"Visitor", 2, pick_any, run_visitor},
    {"Overtaker", 3, pick_any, run_overtaker},
    {"Crowd", 1, pick_any, run_crowd},
    {"Hoarder", 1, pick_any, run_hoarder},
    {"Throng", 1, pick_any, run_throng},
};

static int start_clients(int *over)
{
    return world.topology == TOPOLOGY_QUORUM
               ? kinds_start(quorum_kinds, sizeof(quorum_kinds) / sizeof(quorum_kinds[0]), over)
               : kinds_start(kinds, sizeof(kinds) / sizeof(kinds[0]), over);
}

static void make_world(int argc, char **argv)
{
    /* Of a Redis Cluster all locks of a set have to be in one slot. */
    static const char *const in_one_slot[PLAIN] = {"{plain}-a", "{plain}-b", "{plain}-c"};

    json_object_seed(1);
    world.seed = strtoull(argv[1], NULL, 10);
    world.pace = 1;
    world.topology = strcmp(argv[2], "quorum") == 0 ? TOPOLOGY_QUORUM : TOPOLOGY_SINGLE;
    for (int i = 0; i < FRONTS; i++) {
        world.fronts[i].number = i % (argc - 3);
        world.fronts[i].worker_count = 2;
    }
    http_set_ports(argc - 3, argv + 3);
    memcpy(plain_names, in_one_slot, sizeof(plain_names));
}

/* False: the run is over. */
static bool obey(const char *line)
{
    bool is_over = strcmp(line, "stop\n") == 0;

    live_enter();
    if (strncmp(line, "memory ", 7) == 0)
        world.only_out_of_memory = line[7] == '1';
    else if (strcmp(line, "lost\n") == 0)
        world.losses = 1;
    if (!is_over)
        record("heard", "\"line\":%zu", strlen(line));
    live_leave();
    return !is_over;
}

static void end(const int *over, int count)
{
    live_enter();
    world.is_stopping = true;
    while (*over < count || world.doubled > 0)
        task_sleep(20 * MS);
    if (world.topology != TOPOLOGY_QUORUM)
        check_counters();
    world.is_over = true;
    if (world.losses == 0)
        fwrite(world.history.text, 1, world.history.len, stdout);
    fflush(stdout);
    live_leave();
}

int main(int argc, char **argv)
{
    char line[64];
    int over = 0;

    if (argc < 4) {
        fprintf(stderr, "usage: %s SEED quorum|other PORT...\n", argv[0]);
        return 2;
    }
    make_world(argc, argv);
    live_enter();
    int count = start_clients(&over);
    task_start(tell_waiting, NULL, NULL);
    live_leave();
    while (fgets(line, sizeof(line), stdin) != NULL && obey(line))
        ;
    end(&over, count);
    return 0;
}
