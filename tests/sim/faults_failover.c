/* Failovers: a replica becomes the master, and what it has not heard of is undone. */
#include "tests/sim/calls.h"
#include "tests/sim/faults.h"
#include "tests/sim/sockets.h"

#define MS CLOCK_NS_PER_MS
/* Longer than a message takes: what was done before the fault is with the replicas. */
enum { SETTLE_MS = 10 };
/* Front ends use the new master by then. */
enum { FOLLOW_MS = 8000 };

static struct chance chance;
static int64_t undone_until_ns;

void failovers_init(uint64_t seed)
{
    chance = chance_make(seed, "failovers");
}

int64_t faults_undone_until_ns(void)
{
    return undone_until_ns;
}

void faults_note_undone(void)
{
    undone_until_ns = now_ns();
}

static void pause_for(int64_t least_ms, int64_t most_ms)
{
    task_sleep(chance_between(&chance, least_ms, most_ms) * MS);
}

/* One of the replicas, or all of them, hear nothing more. */
static void cut_some_off(void)
{
    int64_t all = (1 << world.replicas) - 1;
    int64_t wanted = chance_percent(&chance, 75) ? chance_between(&chance, 1, world.replicas)
                                                 : all;

    for (struct server *server = server_next(NULL); server; server = server_next(server)) {
        if (server->master != world.master)
            continue;
        if ((wanted & 1) != 0)
            replication_cut_off(server, true);
        wanted >>= 1;
    }
}

static void go_on(void)
{
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master == world.master)
            replication_cut_off(server, false);
}

/* The replicas have all data, and then, maybe, some hear nothing more for a while. */
static void prepare(const struct fault *fault)
{
    while (!replication_is_complete())
        task_sleep(10 * MS);
    task_sleep(SETTLE_MS * MS);
    if (fault->lag_ms == 0)
        return;
    cut_some_off();
    pause_for(fault->lag_ms / 5 * world.pace, fault->lag_ms * world.pace);
}

static int64_t failovers_seen(void)
{
    int64_t count = 0;

    for (int i = 0; i < FRONTS; i++)
        for (int k = 0; k < world.fronts[i].worker_count; k++)
            count += metrics_value(world.fronts[i].metrics[k], METRIC_REDIS_FAILOVERS);
    return count;
}

/* At times a Sentinel sleeps through it, and names the old master when it wakes. */
static void promote(void)
{
    struct server *asleep = chance_percent(&chance, 40) ? sentinels_pick(&chance) : NULL;

    if (asleep != NULL)
        sockets_pause(asleep, true);
    replication_promote();
    sentinels_switch();
    if (asleep == NULL)
        return;
    pause_for(100, 3000);
    sockets_pause(asleep, false);
}

/* The old master learns what it is. */
static void demote(struct server *server)
{
    redis_kill_clients(&server->redis);
    replication_follow(server, world.master);
    faults_note_undone();
}

/* Waits for the failover's end. Returns how many workers have seen the failover. A lock that
 * was lost or released just before it may be held again, until its lease ends. */
static int64_t settle(int64_t before)
{
    for (int64_t i = 0; i < FOLLOW_MS && failovers_seen() == before; i += 10)
        task_sleep(10 * MS);
    if (world.sync_replicas == 0)
        task_sleep(LEASE_TTL_MAX_MS * world.pace * MS);
    return failovers_seen() - before;
}

int64_t fail_over_from_killed(const struct fault *fault, struct front *front)
{
    int64_t before = failovers_seen();

    (void)front;
    prepare(fault);
    struct server *killed = world.master;
    replication_lose_sent(killed);
    redis_restart(&killed->redis);
    killed->is_stopped = true;
    faults_note_undone();
    pause_for(fault->least_ms, fault->most_ms);
    promote();
    pause_for(100, 3000);
    killed->is_stopped = false;
    replication_follow(killed, world.master);
    return settle(before);
}

int64_t fail_over_from_living(const struct fault *fault, struct front *front)
{
    int64_t before = failovers_seen();

    (void)front;
    prepare(fault);
    struct server *living = world.master;
    promote();
    pause_for(fault->least_ms, fault->most_ms);
    demote(living);
    return settle(before);
}

int64_t fail_over_from_paused(const struct fault *fault, struct front *front)
{
    int64_t before = failovers_seen();

    (void)front;
    prepare(fault);
    struct server *paused = world.master;
    sockets_pause(paused, true);
    pause_for(fault->least_ms, fault->most_ms);
    promote();
    pause_for(0, 2000);
    sockets_pause(paused, false);
    pause_for(0, 1000);
    demote(paused);
    return settle(before);
}

int64_t cut_replicas_off(const struct fault *fault, struct front *front)
{
    (void)front;
    cut_some_off();
    pause_for(fault->least_ms, fault->most_ms);
    go_on();
    return 1;
}

int64_t pause_sentinel(const struct fault *fault, struct front *front)
{
    struct server *sentinel = sentinels_pick(&chance);

    (void)front;
    sockets_pause(sentinel, true);
    pause_for(fault->least_ms, fault->most_ms);
    sockets_pause(sentinel, false);
    return 1;
}
