/* The table of faults: what each fault does, and how it is healed. */
#include "tests/sim/faults.h"

#include <stddef.h>

#include "tests/sim/calls.h"
#include "tests/sim/sockets.h"

#define MS CLOCK_NS_PER_MS
/* A front end is ready again by then, once nothing hurts it any more. */
#define READY_NS (6 * CLOCK_NS_PER_S)
/* A fault that touches nothing is none: so long it waits for something to touch. */
enum { TOUCH_MS = 5000, YIELD_PERCENT_BUSY = 60 };

static struct chance chance;

void faults_init(uint64_t seed)
{
    chance = chance_make(seed, "faults");
}

static int64_t between(int64_t least, int64_t most)
{
    return chance_between(&chance, least, most);
}

static void pause_for(int64_t least_ms, int64_t most_ms)
{
    task_sleep(between(least_ms, most_ms) * MS);
}

static void last(const struct fault *fault)
{
    pause_for(fault->least_ms, fault->most_ms);
}

/* Until the number is another one, or for so long: the time in which another fault keeps the
 * front end from doing anything does not count. */
static void await_change(const int64_t *number, int64_t from, const struct front *front)
{
    for (int i = 0; i < TOUCH_MS / 100 && *number == from;
         i += front->is_alive && !front_is_paused(front))
        task_sleep(100 * MS * world.pace);
}

/* --- the process of a front end ------------------------------------------------------------
 */

static bool is_ready(struct front *front)
{
    const struct request request = {.method = "GET", .uri = "/readyz", .timeout_ns = 1000 * MS};
    struct answer answer = http_ask(front, &request);

    json_decref(answer.body);
    return answer.status == 200;
}

bool front_becomes_ready(struct front *front)
{
    int64_t began_ns = now_ns();

    while (!is_ready(front)) {
        if (now_ns() - began_ns >= READY_NS)
            return false;
        task_sleep(50 * MS);
    }
    return true;
}

void front_restart(struct front *front)
{
    front_kill(front);
    pause_for(200, 2000);
    front_start(front);
    front_becomes_ready(front);
}

static int64_t kill_front(const struct fault *fault, struct front *front)
{
    (void)fault;
    front_restart(front);
    return 1;
}

/* While a message is on its way from one worker to another, or has just come; but not for ever.
 */
static void await_message(struct front *front)
{
    threads_await_message(front, TOUCH_MS * MS * world.pace);
    task_sleep(between(0, 300) * CLOCK_NS_PER_US);
}

static int64_t kill_front_amid_message(const struct fault *fault, struct front *front)
{
    await_message(front);
    return kill_front(fault, front);
}

/* A kernel that lets one thread wait for long. */
static int64_t pause_worker(const struct fault *fault, struct front *front)
{
    struct thread *thread = &front->threads[between(0, front->worker_count - 1)];

    thread_pause(thread, true);
    last(fault);
    thread_pause(thread, false);
    task_sleep(300 * MS);
    return 1;
}

static int64_t pause_front(const struct fault *fault, struct front *front)
{
    front_pause(front, true);
    last(fault);
    front_pause(front, false);
    task_sleep(300 * MS);
    return 1;
}

static int64_t flood_front(const struct fault *fault, struct front *front)
{
    int64_t before = front->strangers_served;

    front->strangers = STRANGERS_MAX;
    for (int i = 0; front->is_alive && i < front->worker_count; i++)
        thread_poke(&front->threads[i]);
    last(fault);
    front->strangers = 0;
    return front->strangers_served - before;
}

static void end_gracefully(struct front *front)
{
    int64_t began_ns = now_ns();

    front_stop(front);
    while (!front->has_ended && now_ns() - began_ns < READY_NS)
        task_sleep(10 * MS);
    if (!front->has_ended) {
        record_complaint(front, began_ns, "a graceful stop does not end");
        front_kill(front);
    }
}

static int64_t stop_front(const struct fault *fault, struct front *front)
{
    (void)fault;
    end_gracefully(front);
    front_start(front);
    front_becomes_ready(front);
    return 1;
}

/* Its threads seldom come to the end of a turn at one go. */
static int64_t stop_front_amid_message(const struct fault *fault, struct front *front)
{
    unsigned before = front->plan.yield_percent;

    await_message(front);
    front->plan.yield_percent = YIELD_PERCENT_BUSY;
    int64_t touched = stop_front(fault, front);
    front->plan.yield_percent = before;
    return touched;
}

/* Its replies from Redis come late, so that attempts are under way when it stops. */
static int64_t stop_slow_front(const struct fault *fault, struct front *front)
{
    front->to_redis = (struct net){.trouble = fault->trouble, .delay_ns = between(5, 300) * MS};
    last(fault);
    end_gracefully(front);
    front->to_redis.trouble = TROUBLE_NONE;
    front_start(front);
    front_becomes_ready(front);
    return 1;
}

/* Its clock runs up to 5 % faster or slower than that of Redis; in a quorum, with the clocks of
 * the servers, by less than the drift that leases allow for. */
static int64_t drift(const struct fault *fault, struct front *front)
{
    int64_t most = world.topology == TOPOLOGY_QUORUM ? 5000 : 50000;

    front_set_drift(front, between(-most, most));
    last(fault);
    front_set_drift(front, 0);
    return 1;
}

/* --- the process of Redis --------------------------------------------------------------------
 */

static void take_redis_away(const struct fault *fault, struct server *server)
{
    replication_restart(server);
    server->is_stopped = true;
    last(fault);
    server->is_stopped = false;
    if (world.topology == TOPOLOGY_QUORUM)
        quorum_note_restart(server);
}

static int64_t restart_redis(const struct fault *fault, struct front *front)
{
    (void)front;
    take_redis_away(fault, servers_pick_master(&chance));
    return 1;
}

static int64_t empty_redis(const struct fault *fault, struct front *front)
{
    struct server *server = servers_pick_master(&chance);

    (void)front;
    keyspace_clear(&server->redis.keys);
    take_redis_away(fault, server);
    return 1;
}

/* A replica takes over that has not heard the last of what was written. */
static int64_t fail_over(const struct fault *fault, struct front *front)
{
    struct keyspace *keys = &world.master->redis.keys;
    struct keyspace replica = keyspace_copy(keys);

    (void)front;
    pause_for(1, 1500);
    keyspace_clear(keys);
    *keys = replica;
    faults_note_undone();
    take_redis_away(fault, world.master);
    /* What was released just before is held again, until its lease ends. */
    task_sleep(LEASE_TTL_MAX_MS * world.pace * MS);
    return 1;
}

static int64_t stop_redis_for_a_while(const struct fault *fault, struct front *front)
{
    struct server *server = servers_pick_master(&chance);

    (void)front;
    sockets_pause(server, true);
    last(fault);
    sockets_pause(server, false);
    return 1;
}

/* Leases end early, or late. */
static int64_t move_clock(int64_t ms)
{
    world.redis_jump_us += ms * 1000;
    task_sleep((LEASE_TTL_MAX_MS * world.pace + (ms < 0 ? -ms : 0)) * MS);
    return 1;
}

static int64_t jump_ahead(const struct fault *fault, struct front *front)
{
    (void)front;
    return move_clock(between(fault->least_ms, fault->most_ms));
}

static int64_t jump_back(const struct fault *fault, struct front *front)
{
    (void)front;
    return move_clock(-between(fault->least_ms, fault->most_ms));
}

/* --- what Redis can be told to do
 * ---------------------------------------------------------------- */

/* Redis refuses, for a while, what the flag says. */
static int64_t set_flag(const struct fault *fault, struct front *front)
{
    int64_t before = *fault->refused;
    bool *flag = (bool *)((char *)&servers_pick_master(&chance)->redis + fault->flag);

    *flag = true;
    last(fault);
    await_change(fault->refused, before, front);
    *flag = false;
    return *fault->refused - before;
}

static int64_t forget_scripts(const struct fault *fault, struct front *front)
{
    int64_t before = *fault->refused;

    (void)front;
    for (int i = 0; i < 20 || (i < 200 && *fault->refused == before); i++) {
        redis_forget_scripts(&servers_pick_master(&chance)->redis);
        last(fault);
    }
    return *fault->refused - before;
}

/* --- connections -----------------------------------------------------------------------------
 */

static int64_t kill_connections(struct front *front)
{
    (void)front;
    return sockets_kill(false);
}

static int64_t kill_subscriptions(struct front *front)
{
    (void)front;
    return sockets_kill(true);
}

/* Blow after blow. */
static int64_t strike(const struct fault *fault, struct front *front)
{
    int64_t count = 0, blows = between(1, 6);

    for (int64_t i = 0; i < blows || (i < 200 && count == 0); i++) {
        count += fault->strike(front);
        last(fault);
    }
    return count;
}

/* `server`: NULL, or the only one that is touched. */
static int64_t bring_trouble(const struct fault *fault, struct front *front, struct net *net,
                             const struct server *server)
{
    *net = (struct net){.trouble = fault->trouble,
                        .delay_ns = between(20, 500) * MS,
                        .budget = between(50, 20000)};
    if (fault->trouble == TROUBLE_REFUSE)
        sockets_reset(front, server);
    last(fault);
    if (net->touched == 0)
        net->budget = 0;
    await_change(&net->touched, 0, front);
    net->trouble = TROUBLE_NONE;
    sockets_heal(front);
    http_heal(front);
    return net->touched;
}

static int64_t trouble_redis(const struct fault *fault, struct front *front)
{
    return bring_trouble(fault, front, &front->to_redis, NULL);
}

static int64_t trouble_clients(const struct fault *fault, struct front *front)
{
    return bring_trouble(fault, front, &front->to_clients, NULL);
}

/* Other front ends have no trouble with this server. */
static int64_t trouble_server(const struct fault *fault, struct front *front)
{
    const struct server *server = quorum_pick(&chance);

    return bring_trouble(fault, front, &front->to_server[server->number], server);
}

/* --- all of them
 * -------------------------------------------------------------------------------------- */

/* Shapes of rows: how long, and what else the function needs. */
#define LASTS(least, most) .least_ms = (least), .most_ms = (most)
#define OF_FRONT PLACE_FRONT, true, false
#define AT(place) place, false, false
#define LOSES_DATA(place) place, false, true
#define FAILOVER PLACE_PROCESS, false, true, .is_failover = true
#define FLAG(name, count) .flag = offsetof(struct redis, name), .refused = &world.counts.count
#define WITH(name) .topologies = 1U << TOPOLOGY_##name

const struct fault faults[] = {
    {"F1 front end killed", kill_front, OF_FRONT, LASTS(0, 0)},
    {"F2 front end paused", pause_front, OF_FRONT, LASTS(500, 4000)},
    {"F2 front end paused for long", pause_front, OF_FRONT, LASTS(5500, PAUSE_MAX_MS)},
    {"a flood of strangers", flood_front, AT(PLACE_FRONT), LASTS(6000, 9000)},
    {"a short flood of strangers", flood_front, AT(PLACE_FRONT), LASTS(800, 2500)},
    {"F3 Redis killed, data kept", restart_redis, AT(PLACE_PROCESS), LASTS(200, 2000),
     .restarts = true},
    {"F4 Redis killed, data lost", empty_redis, LOSES_DATA(PLACE_PROCESS), LASTS(100, 1500),
     .restarts = true},
    {"F5 failover to a replica that lags, data lost", fail_over, LOSES_DATA(PLACE_PROCESS),
     LASTS(50, 1000), WITH(SINGLE)},
    {"F5 master killed, a replica promoted", fail_over_from_killed, FAILOVER, LASTS(200, 2500),
     WITH(SENTINEL)},
    {"F5 master killed, a replica that lags promoted", fail_over_from_killed, FAILOVER,
     LASTS(200, 2500), .lag_ms = 500, WITH(SENTINEL)},
    {"F5 master replaced by hand", fail_over_from_living, FAILOVER, LASTS(50, 1500),
     WITH(SENTINEL)},
    {"F5 master alone, a replica promoted", fail_over_from_living, FAILOVER, LASTS(300, 3000),
     .lag_ms = 2500, WITH(SENTINEL)},
    {"F5 master stands still, a replica promoted", fail_over_from_paused, FAILOVER,
     LASTS(2600, 4000), WITH(SENTINEL)},
    {"F5 replicas cut off", cut_replicas_off, AT(PLACE_PROCESS), LASTS(300, 3000),
     WITH(SENTINEL)},
    {"F5 a Sentinel stands still", pause_sentinel, AT(PLACE_LINKS), LASTS(300, 5000),
     WITH(SENTINEL)},
    {"F6 slots move", move_slots, AT(PLACE_SLOTS), LASTS(1, 40), WITH(CLUSTER)},
    {"F6 a slot stays open", move_slots, AT(PLACE_SLOTS), LASTS(20, 400), WITH(CLUSTER)},
    {"F6 master alone", cut_master_off, AT(PLACE_PROCESS), LASTS(500, 5000), WITH(CLUSTER)},
    {"F6 Redis demoted", set_flag, AT(PLACE_PROCESS), LASTS(300, 2500),
     FLAG(is_replica, refused_writes)},
    {"F6 Redis demoted for long", set_flag, AT(PLACE_PROCESS), LASTS(14000, 18000),
     FLAG(is_replica, refused_writes)},
    {"F7 Redis in a black hole", trouble_redis, AT(PLACE_NET), LASTS(500, 4000),
     TROUBLE_BLACKHOLE},
    {"F7 Redis held", trouble_redis, AT(PLACE_NET), LASTS(500, 4000), TROUBLE_HOLD},
    {"F7 Redis delayed", trouble_redis, AT(PLACE_NET), LASTS(400, 3000), TROUBLE_DELAY},
    {"F8 Redis reset", strike, AT(PLACE_NET), LASTS(10, 500), .strike = sockets_reset_all},
    {"F8 Redis cut off", trouble_redis, AT(PLACE_NET), LASTS(300, 1500), TROUBLE_CUT},
    {"F8 Redis refuses", trouble_redis, AT(PLACE_NET), LASTS(300, 2000), TROUBLE_REFUSE},
    {"F8 Redis' replies dropped", trouble_redis, AT(PLACE_NET), LASTS(300, 2500),
     TROUBLE_DROP_REPLIES},
    {"F9 answers dropped", trouble_clients, OF_FRONT, LASTS(200, 1500), TROUBLE_DROP_REPLIES},
    {"F10 clients reset", strike, OF_FRONT, LASTS(10, 400), .strike = http_reset_all},
    {"F10 clients cut off", trouble_clients, OF_FRONT, LASTS(200, 1000), TROUBLE_CUT},
    {"F10 clients held", trouble_clients, OF_FRONT, LASTS(200, 3000), TROUBLE_HOLD},
    {"F10 clients in a black hole", trouble_clients, OF_FRONT, LASTS(200, 2000),
     TROUBLE_BLACKHOLE},
    {"F10 clients delayed", trouble_clients, OF_FRONT, LASTS(400, 3000), TROUBLE_DELAY},
    {"F11 Redis' clock jumps ahead", jump_ahead, LOSES_DATA(PLACE_CLOCK), LASTS(100, 2000),
     .beyond_quorum = true},
    {"F11 Redis' clock jumps back", jump_back, LOSES_DATA(PLACE_CLOCK), LASTS(100, 1500),
     .beyond_quorum = true},
    {"F12 clock drifts", drift, OF_FRONT, LASTS(2000, 6000)},
    {"F13 subscriptions killed", strike, AT(PLACE_LINKS), LASTS(50, 500),
     .strike = kill_subscriptions},
    {"F13 connections killed", strike, AT(PLACE_LINKS), LASTS(50, 500),
     .strike = kill_connections},
    {"F14 out of memory", set_flag, AT(PLACE_MEMORY), LASTS(1000, 3000),
     FLAG(is_out_of_memory, out_of_memory)},
    {"F16 no replicas", set_flag, AT(PLACE_MEMORY), LASTS(500, 3000),
     FLAG(lacks_replicas, refused_writes)},
    {"F18 scripts forgotten", forget_scripts, AT(PLACE_SCRIPTS), LASTS(100, 100),
     .refused = &world.counts.unknown_scripts},
    {"F20 Redis stopped", stop_redis_for_a_while, AT(PLACE_PROCESS), LASTS(500, 3500)},
    {"F24 graceful stop", stop_front, OF_FRONT, LASTS(0, 0)},
    {"F24 graceful stop, Redis slow", stop_slow_front, OF_FRONT, LASTS(50, 500), TROUBLE_DELAY,
     .slows_redis = true},
    {"F1 front end killed amid a message", kill_front_amid_message, OF_FRONT, LASTS(0, 0),
     .needs_workers = true},
    {"F2 worker paused", pause_worker, OF_FRONT, LASTS(5, 300), .needs_workers = true},
    {"F2 worker paused for long", pause_worker, OF_FRONT, LASTS(500, 4000),
     .needs_workers = true},
    {"F24 graceful stop amid a message", stop_front_amid_message, OF_FRONT, LASTS(0, 0),
     .needs_workers = true},
    {"F3 a server killed, data kept", restart_redis, AT(PLACE_PROCESS), LASTS(200, 6000),
     .restarts = true, WITH(QUORUM)},
    {"F4 a server killed, data lost", empty_redis, AT(PLACE_PROCESS), LASTS(100, 3000),
     .restarts = true, WITH(QUORUM)},
    {"F20 a server stopped", stop_redis_for_a_while, AT(PLACE_PROCESS), LASTS(500, 12000),
     WITH(QUORUM)},
    {"F7 a server in a black hole", trouble_server, AT(PLACE_NET), LASTS(500, 4000),
     TROUBLE_BLACKHOLE, WITH(QUORUM)},
    {"F7 a server held", trouble_server, AT(PLACE_NET), LASTS(500, 4000), TROUBLE_HOLD,
     WITH(QUORUM)},
    {"F7 a server delayed", trouble_server, AT(PLACE_NET), LASTS(400, 6000), TROUBLE_DELAY,
     WITH(QUORUM)},
    {"F8 a server refuses", trouble_server, AT(PLACE_NET), LASTS(300, 6000), TROUBLE_REFUSE,
     WITH(QUORUM)},
    {"F8 a server's replies dropped", trouble_server, AT(PLACE_NET), LASTS(300, 2500),
     TROUBLE_DROP_REPLIES, WITH(QUORUM)},
};

const size_t fault_count = sizeof(faults) / sizeof(faults[0]);
