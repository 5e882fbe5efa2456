/* What looks on while clients and faults go on, and what is left at the end. */
#include <string.h>

#include "tests/sim/clients.h"

enum { OTHER_REQUESTS = 30, SESSION_PARTS = 16 };

/* Requests that no client made, and what counts for some: the census looks at each lock with a
 * script, and a visit or a keep-alive at each lease of a session; in a cluster each worker asks
 * for each part of the list of sessions with a script of its own. */
static int64_t other_requests(void)
{
    int64_t count = OTHER_REQUESTS + world.filled + HOARD;

    for (int i = 0; world.topology == TOPOLOGY_CLUSTER && i < FRONTS; i++)
        count += world.fronts[i].worker_count * SESSION_PARTS;
    return count;
}

/* Of a quorum those of each server. */
static int64_t scripts_of(int server)
{
    return world.nodes > 0 ? server_at_index(server)->redis.ran : world.counts.scripts;
}

/* The scripts that Redis runs in a second, and the requests that they are for. */
static void watch_rate(void *arg)
{
    int servers = world.nodes > 0 ? world.nodes : 1;

    (void)arg;
    while (!world.is_over) {
        int64_t began_ns = now_ns(), requests = world.requests, before[SERVERS_MAX];
        char scripts[24 * SERVERS_MAX];
        int waiting = world.waiting, len = 0;
        for (int i = 0; i < servers; i++)
            before[i] = scripts_of(i);
        task_sleep(CLOCK_NS_PER_S);
        for (int i = 0; i < servers; i++)
            len += snprintf(scripts + len, sizeof(scripts) - (size_t)len, "%s%lld",
                            i > 0 ? "," : "", (long long)(scripts_of(i) - before[i]));
        record("rate",
               "\"t_begin\":%lld,\"t_end\":%lld,\"scripts\":%s%s%s,\"requests\":%lld,"
               "\"waiters\":%d",
               (long long)began_ns, (long long)now_ns(), servers > 1 ? "[" : "", scripts,
               servers > 1 ? "]" : "",
               (long long)(world.requests - requests + other_requests()),
               world.waiting > waiting ? world.waiting : waiting);
    }
}

/* /livez never asks Redis: it is answered whatever goes on. */
static void watch_life(void *arg)
{
    while (!world.is_over) {
        probe_life(arg);
        task_sleep(500 * MS * world.pace);
    }
}

static bool make_if_gone(const char *path, const char *name, int permits)
{
    const struct server *server = servers_owner(bytes_of(name));
    struct value *value;

    HASH_FIND_STR(server->redis.keys.values, name, value);
    return value != NULL || make_semaphore(path, name, permits);
}

bool make_semaphores(void)
{
    if (world.topology == TOPOLOGY_QUORUM)
        return true; /* it has none */
    return make_if_gone("permit-semaphores", PERMITS_NAME, PERMITS_COUNT) &&
           make_if_gone("permit-semaphores", LATE_NAME, 1) &&
           make_if_gone("semaphores", SEMAPHORE_NAME, SEMAPHORE_PERMITS);
}

/* A Redis that lost its data has no permits any more: they are made again. */
static void keep_semaphores(void *arg)
{
    (void)arg;
    while (!world.is_over) {
        make_semaphores();
        task_sleep(200 * MS * world.pace);
    }
}

void watch_start(void)
{
    task_start(watch_rate, NULL, NULL);
    task_start(keep_semaphores, NULL, NULL);
    for (int i = 0; i < FRONTS; i++)
        task_start(watch_life, &world.fronts[i], NULL);
}

/* --- after the faults ------------------------------------------------------------------------
 */

struct sweep {
    struct caller caller;
    const struct lock_name *lock;
    int64_t wait_ms;
};

/* Every lock can be had once more, by whoever asks. */
static void sweep_lock(void *arg)
{
    struct sweep *sweep = arg;
    const struct how how = {.ttl_ms = 1000, .wait_ms = sweep->wait_ms, .is_sweep = true};
    size_t at = (size_t)(sweep->lock - lock_names);
    const char *name = at < PLAIN ? plain_names[at] : sweep->lock->name;
    struct lease lease = lease_make(&sweep->caller, sweep->lock->kind, name, NULL);

    ask_acquire(&lease, &how);
    ask_release(&lease);
}

static void sweep_all(int64_t wait_ms)
{
    static struct sweep sweeps[LOCK_COUNT];
    static int round;
    int over = 0;

    for (int i = 0; i < LOCK_COUNT; i++) {
        if (!lock_is_offered(&lock_names[i])) {
            over++;
            continue;
        }
        sweeps[i] = (struct sweep){.lock = &lock_names[i], .wait_ms = wait_ms};
        caller_init(&sweeps[i].caller, "sweep", LOCK_COUNT * round + i);
        task_start(sweep_lock, &sweeps[i], &over);
    }
    while (over < LOCK_COUNT)
        task_sleep(10 * MS);
    round++;
}

void note_leak(const char *subject, int number, int64_t now, const char *detail)
{
    char of[32] = "";

    if (number >= 0)
        snprintf(of, sizeof(of), " of front end %d", number);
    record("leak",
           "\"subject\":\"%s%s\",\"base\":0,\"now\":%lld,\"allowed\":0,\"detail\":\"%s\"",
           subject, of, (long long)now, detail);
}

void note_checks(const char *subject, int64_t checks)
{
    record("leak", "\"subject\":\"%s\",\"checks\":%lld", subject, (long long)checks);
}

static int64_t metric_of(const struct front *front, enum metric metric)
{
    int64_t sum = 0;

    for (int i = 0; i < front->worker_count; i++)
        sum += metrics_value(front->metrics[i], metric);
    return sum;
}

static void check_fronts(void)
{
    static const struct {
        const char *name;
        enum metric metric;
    } gauges[] = {{"waiters", METRIC_WAITERS},
                  {"waited_locks", METRIC_WAITED_LOCKS},
                  {"pending_withdrawals", METRIC_PENDING_WITHDRAWALS}};

    task_sleep(5 * CLOCK_NS_PER_S);
    for (int i = 0; i < FRONTS; i++)
        for (size_t k = 0; k < sizeof(gauges) / sizeof(gauges[0]); k++)
            note_leak(gauges[k].name, i, metric_of(&world.fronts[i], gauges[k].metric), "");
}

/* Of a server of a quorum whose clock is an hour behind: what front ends claim there is due by
 * the clocks of the others, so it stays in the index for that hour. */
static bool is_due_late(const struct server *server, const struct value *value)
{
    return server->skew_us < -HOUR_US / 2 && strncmp(value->key, "rlockd:sessions:", 16) == 0;
}

static bool may_stay(const struct value *value, bool without_end)
{
    static const char *const names[] = {PERMITS_NAME, LATE_NAME, SEMAPHORE_NAME, ANEW_NAME,
                                        "rlockd:marker"};
    static const char *const prefixes[] = {
        "redisson_lock_token:", "rlockd:marker:", "rlockd:census:{"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(value->key, names[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(value->key, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return value->end_ms != NO_END && (without_end || strstr(value->key, ODD_NAME) != NULL);
}

/* Keys that are none of those that stay. What is left of an object that was overwritten ends
 * within a day. */
static int64_t keys_left(bool without_end, char *some, size_t size)
{
    int64_t count = 0;

    some[0] = '\0';
    for (struct server *server = NULL; (server = server_next_master(server)) != NULL;) {
        keyspace_expire(&server->redis.keys, server_clock_us(server) / 1000);
        for (struct value *value = server->redis.keys.values; value; value = value->hh.next)
            if (!may_stay(value, without_end) && !is_due_late(server, value) && count++ < 5)
                snprintf(some + strlen(some), size - strlen(some), "%s ", value->key);
    }
    return count;
}

static int64_t channels_left(void)
{
    int64_t count = 0;

    for (struct server *server = NULL; (server = server_next_master(server)) != NULL;)
        count += (int64_t)redis_channels(&server->redis, "redisson");
    return count;
}

static void check_redis(int64_t longest_ms)
{
    char some[512];
    int64_t began_ns = now_ns();

    while (keys_left(false, some, sizeof(some)) > 0 && now_ns() - began_ns < longest_ms * MS)
        task_sleep(250 * MS);
    note_leak("keys left in Redis", -1, keys_left(false, some, sizeof(some)), some);
    note_leak("keys without an end", -1, keys_left(true, some, sizeof(some)), some);
    note_leak("subscriptions", -1, channels_left(), "");
}

void drain_run(void)
{
    /* A place in a fair queue lasts twice its time where Redis was away meanwhile. */
    int64_t longest_ms = (SESSION_TTL_MAX_MS + WATCHDOG_MS) * world.pace;

    end_odd_lock();
    longest_ms = longest_ms > 2 * PLACE_MS ? longest_ms : 2 * PLACE_MS;
    sweep_all(longest_ms + 7000);
    check_fronts();
    if (world.topology != TOPOLOGY_QUORUM) {
        check_counters();
        note_checks_anew();
    }
    /* A permit of a client that died is taken off by the next one that asks. */
    task_sleep((LEASE_TTL_MAX_MS + WATCHDOG_MS) * MS * world.pace);
    sweep_all(longest_ms);
    check_redis((MAX_WAIT_MS + RETRY_WINDOW_MS) * world.pace + PLACE_MS + 5000);
}
