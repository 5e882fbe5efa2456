/* What goes wrong in a run. A fault is a function that begins it, waits, heals it, and returns
 * how much it touched; MEASURED is counted by the requests that it hurt. */
#include <string.h>

#include "tests/sim/calls.h"
#include "tests/sim/nemesis.h"
#include "tests/sim/sockets.h"

enum { MEASURED = -1 };

#define MS CLOCK_NS_PER_MS
/* A front end is ready again by then, once nothing hurts it any more. */
#define READY_NS (6 * CLOCK_NS_PER_S)

static struct chance chance;

static int64_t between(int64_t least, int64_t most)
{
    return chance_between(&chance, least, most);
}

static void pause_for(int64_t least_ms, int64_t most_ms)
{
    task_sleep(between(least_ms, most_ms) * MS);
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

static void await_ready(struct front *front)
{
    int64_t began_ns = now_ns();

    while (!is_ready(front) && now_ns() - began_ns < READY_NS)
        task_sleep(50 * MS);
}

static int64_t kill_front(struct front *front)
{
    front_kill(front);
    pause_for(200, 2000);
    front_start(front);
    await_ready(front);
    return 1;
}

static int64_t pause_front(struct front *front)
{
    front_pause(front, true);
    pause_for(500, 4000);
    front_pause(front, false);
    task_sleep(300 * MS);
    return 1;
}

static int64_t stop_front(struct front *front)
{
    int64_t began_ns = now_ns();

    front_stop(front);
    while (!front->has_ended && now_ns() - began_ns < READY_NS)
        task_sleep(10 * MS);
    if (!front->has_ended) {
        record("op",
               "\"client\":\"nemesis\",\"op\":\"probe\",\"front\":%d,\"t_inv\":%lld,"
               "\"t_ret\":%lld,\"status\":503,\"outcome\":\"not-done\","
               "\"malformed\":\"a graceful stop does not end\"",
               front->number, (long long)began_ns, (long long)now_ns());
        front_kill(front);
    }
    front_start(front);
    await_ready(front);
    return 1;
}

/* Its clock runs up to 5 % faster or slower than that of Redis. */
static int64_t drift(struct front *front)
{
    front_set_drift(front, between(-50000, 50000));
    pause_for(2000, 6000);
    front_set_drift(front, 0);
    return 1;
}

/* --- the process of Redis --------------------------------------------------------------------
 */

static void take_redis_away(int64_t least_ms, int64_t most_ms)
{
    redis_restart(&world.redis);
    sockets_stop_redis(true);
    pause_for(least_ms, most_ms);
    sockets_stop_redis(false);
}

static int64_t restart_redis(struct front *front)
{
    (void)front;
    take_redis_away(200, 2000);
    return 1;
}

static int64_t empty_redis(struct front *front)
{
    (void)front;
    keyspace_clear(&world.redis.keys);
    take_redis_away(100, 1500);
    return 1;
}

/* A replica takes over that has not heard the last of what was written. */
static int64_t fail_over(struct front *front)
{
    struct keyspace replica = keyspace_copy(&world.redis.keys);

    (void)front;
    pause_for(1, 1500);
    keyspace_clear(&world.redis.keys);
    world.redis.keys = replica;
    take_redis_away(50, 1000);
    /* What was released just before is held again, until its lease ends. */
    task_sleep(LEASE_TTL_MAX_MS * world.pace * MS);
    return 1;
}

static int64_t stop_redis_for_a_while(struct front *front)
{
    (void)front;
    sockets_pause_redis(true);
    pause_for(500, 3500);
    sockets_pause_redis(false);
    return 1;
}

/* It is told that it is a replica now, and later that it is not. */
static int64_t demote(struct front *front)
{
    int64_t before = world.redis.counts.refused_writes;

    (void)front;
    world.redis.is_replica = true;
    pause_for(300, 2500);
    world.redis.is_replica = false;
    return world.redis.counts.refused_writes - before;
}

/* Leases end early, or late. */
static int64_t jump_ahead(struct front *front)
{
    (void)front;
    world.redis_jump_us += between(100, 2000) * 1000;
    task_sleep(LEASE_TTL_MAX_MS * world.pace * MS);
    return 1;
}

static int64_t jump_back(struct front *front)
{
    (void)front;
    world.redis_jump_us -= between(100, 1500) * 1000;
    task_sleep((LEASE_TTL_MAX_MS * world.pace + 1500) * MS);
    return 1;
}

/* --- what Redis can be told to do
 * ---------------------------------------------------------------- */

static int64_t forget_scripts(struct front *front)
{
    int64_t before = world.redis.counts.unknown_scripts;

    (void)front;
    for (int i = 0; i < 20; i++) {
        redis_forget_scripts(&world.redis);
        task_sleep(100 * MS);
    }
    return world.redis.counts.unknown_scripts - before;
}

static int64_t run_out_of_memory(struct front *front)
{
    int64_t before = world.redis.counts.out_of_memory;

    (void)front;
    world.redis.is_out_of_memory = true;
    pause_for(1000, 3000);
    world.redis.is_out_of_memory = false;
    return world.redis.counts.out_of_memory - before;
}

static int64_t lack_replicas(struct front *front)
{
    int64_t before = world.redis.counts.refused_writes;

    (void)front;
    world.redis.lacks_replicas = true;
    pause_for(500, 3000);
    world.redis.lacks_replicas = false;
    return world.redis.counts.refused_writes - before;
}

static int64_t kill_some(bool subscribers)
{
    int64_t killed = 0;

    for (int64_t i = between(1, 6); i > 0; i--) {
        killed += sockets_kill(subscribers);
        pause_for(50, 500);
    }
    return killed;
}

static int64_t kill_connections(struct front *front)
{
    (void)front;
    return kill_some(false);
}

static int64_t kill_subscriptions(struct front *front)
{
    (void)front;
    return kill_some(true);
}

/* --- the network on both sides of a front end
 * ------------------------------------------------------ */

static int64_t through(struct front *front, struct net *net, enum trouble trouble,
                       int64_t least_ms, int64_t most_ms)
{
    *net = (struct net){
        .trouble = trouble, .delay_ns = between(20, 500) * MS, .budget = between(50, 20000)};
    pause_for(least_ms, most_ms);
    if (net->touched == 0)
        net->budget = 0;
    for (int i = 0; i < 50 && net->touched == 0; i++) /* a fault that touches nothing is none */
        task_sleep(100 * MS * world.pace);
    net->trouble = TROUBLE_NONE;
    sockets_heal(front);
    http_heal(front);
    return net->touched;
}

static int64_t hold_redis(struct front *front)
{
    return through(front, &front->to_redis, TROUBLE_HOLD, 500, 4000);
}

static int64_t lose_redis(struct front *front)
{
    return through(front, &front->to_redis, TROUBLE_BLACKHOLE, 500, 4000);
}

static int64_t delay_redis(struct front *front)
{
    return through(front, &front->to_redis, TROUBLE_DELAY, 400, 3000);
}

static int64_t drop_redis_replies(struct front *front)
{
    return through(front, &front->to_redis, TROUBLE_DROP_REPLIES, 300, 2500);
}

static int64_t cut_redis(struct front *front)
{
    return through(front, &front->to_redis, TROUBLE_CUT, 300, 1500);
}

static int64_t reset_redis(struct front *front)
{
    int64_t count = 0;

    for (int64_t i = between(1, 5); i > 0; i--) {
        count += sockets_reset_all(front);
        pause_for(10, 500);
    }
    return count;
}

static int64_t refuse_redis(struct front *front)
{
    front->to_redis.trouble = TROUBLE_REFUSE;
    sockets_reset_all(front);
    return through(front, &front->to_redis, TROUBLE_REFUSE, 300, 2000);
}

static int64_t hold_clients(struct front *front)
{
    return through(front, &front->to_clients, TROUBLE_HOLD, 200, 3000);
}

static int64_t lose_clients(struct front *front)
{
    return through(front, &front->to_clients, TROUBLE_BLACKHOLE, 200, 2000);
}

static int64_t delay_clients(struct front *front)
{
    return through(front, &front->to_clients, TROUBLE_DELAY, 400, 3000);
}

static int64_t drop_answers(struct front *front)
{
    return through(front, &front->to_clients, TROUBLE_DROP_REPLIES, 200, 1500);
}

static int64_t cut_clients(struct front *front)
{
    return through(front, &front->to_clients, TROUBLE_CUT, 200, 1000);
}

static int64_t reset_clients(struct front *front)
{
    int64_t count = 0;

    for (int i = 0; i < 200 && (count == 0 || i < 5); i++) {
        count += http_reset_all(front);
        pause_for(10, 400);
    }
    return count;
}

/* --- all of them
 * -------------------------------------------------------------------------------------- */

/* No two faults of one place at a time; FAULT_PROCESS is in the way of all others. */
enum place {
    PLACE_FRONT,
    PLACE_PROCESS,
    PLACE_NET,
    PLACE_LINKS,
    PLACE_MEMORY,
    PLACE_SCRIPTS,
    PLACE_CLOCK
};

struct fault {
    const char *name;
    int64_t (*run)(struct front *front);
    enum place place;
    bool of_front, loses_data;
};

static const struct fault faults[] = {
    {"F1 front end killed", kill_front, PLACE_FRONT, true, false},
    {"F2 front end paused", pause_front, PLACE_FRONT, true, false},
    {"F3 Redis killed, data kept", restart_redis, PLACE_PROCESS, false, false},
    {"F4 Redis killed, data lost", empty_redis, PLACE_PROCESS, false, true},
    {"F5 failover to a replica that lags, data lost", fail_over, PLACE_PROCESS, false, true},
    {"F6 Redis demoted", demote, PLACE_PROCESS, false, false},
    {"F7 Redis in a black hole", lose_redis, PLACE_NET, false, false},
    {"F7 Redis held", hold_redis, PLACE_NET, false, false},
    {"F7 Redis delayed", delay_redis, PLACE_NET, false, false},
    {"F8 Redis reset", reset_redis, PLACE_NET, false, false},
    {"F8 Redis cut off", cut_redis, PLACE_NET, false, false},
    {"F8 Redis refuses", refuse_redis, PLACE_NET, false, false},
    {"F8 Redis' replies dropped", drop_redis_replies, PLACE_NET, false, false},
    {"F9 answers dropped", drop_answers, PLACE_FRONT, true, false},
    {"F10 clients reset", reset_clients, PLACE_FRONT, true, false},
    {"F10 clients cut off", cut_clients, PLACE_FRONT, true, false},
    {"F10 clients held", hold_clients, PLACE_FRONT, true, false},
    {"F10 clients in a black hole", lose_clients, PLACE_FRONT, true, false},
    {"F10 clients delayed", delay_clients, PLACE_FRONT, true, false},
    {"F11 Redis' clock jumps ahead", jump_ahead, PLACE_CLOCK, false, true},
    {"F11 Redis' clock jumps back", jump_back, PLACE_CLOCK, false, true},
    {"F12 clock drifts", drift, PLACE_FRONT, true, false},
    {"F13 subscriptions killed", kill_subscriptions, PLACE_LINKS, false, false},
    {"F13 connections killed", kill_connections, PLACE_LINKS, false, false},
    {"F14 out of memory", run_out_of_memory, PLACE_MEMORY, false, false},
    {"F16 no replicas", lack_replicas, PLACE_MEMORY, false, false},
    {"F18 scripts forgotten", forget_scripts, PLACE_SCRIPTS, false, false},
    {"F20 Redis stopped", stop_redis_for_a_while, PLACE_PROCESS, false, false},
    {"F24 graceful stop", stop_front, PLACE_FRONT, true, false},
};

enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static const struct fault *chosen[FAULTS];
static size_t chosen_count;
static int active;

size_t nemesis_choose(uint64_t seed, const char *word)
{
    chance = chance_make(seed, "nemesis");
    chosen_count = 0;
    for (size_t i = 0; i < FAULTS; i++)
        if (strstr(faults[i].name, word) != NULL)
            chosen[chosen_count++] = &faults[i];
    return chosen_count;
}

struct hurt {
    const struct fault *fault;
    struct front *front;
};

static void hurt(void *arg)
{
    const struct hurt *how = arg;
    const struct fault *fault = how->fault;
    int64_t began_ns = now_ns();
    char front[24] = "";

    trace("FAULT %s, front end %d", fault->name, how->front->number);
    active++;
    world.only_out_of_memory = active == 1 && fault->run == run_out_of_memory;
    int64_t hard = fault->of_front ? world.hard_of[how->front->number] : world.hard;
    int64_t touched = fault->run(how->front);
    int64_t ended_ns = now_ns();
    active--;
    world.only_out_of_memory = false;
    trace("HEALED %s", fault->name);
    if (touched == MEASURED) {
        task_sleep(CLOCK_NS_PER_S); /* answers that are late on their way count, too */
        touched = (fault->of_front ? world.hard_of[how->front->number] : world.hard) - hard;
    }
    if (fault->of_front)
        snprintf(front, sizeof(front), ",\"front\":%d", how->front->number);
    record("fault",
           "\"kind\":\"%s\",\"scope\":\"%s\",\"t_begin\":%lld,\"t_end\":%lld,"
           "\"effect\":%lld%s%s",
           fault->name, fault->of_front ? "front" : "redis", (long long)began_ns,
           (long long)ended_ns, (long long)touched, front,
           fault->loses_data ? ",\"loses_data\":true" : "");
    world.faults++;
}

/* Each must be ready again by itself; one that is not is killed, and that is noted. */
static void see_to(struct front *front)
{
    int64_t began_ns = now_ns();

    await_ready(front);
    if (now_ns() - began_ns < READY_NS)
        return;
    record("op",
           "\"client\":\"nemesis\",\"op\":\"probe\",\"front\":%d,\"t_inv\":%lld,"
           "\"t_ret\":%lld,\"status\":503,\"outcome\":\"not-done\","
           "\"malformed\":\"a front end does not become ready again\"",
           front->number, (long long)began_ns, (long long)now_ns());
    began_ns = now_ns();
    kill_front(front);
    record("fault",
           "\"kind\":\"restart\",\"scope\":\"front\",\"t_begin\":%lld,\"t_end\":%lld,"
           "\"front\":%d,\"effect\":1",
           (long long)began_ns, (long long)now_ns(), front->number);
}

static void hurt_some(const struct fault *first)
{
    const struct fault *second = chosen[chance_below(&chance, chosen_count)];
    struct hurt one = {first, &world.fronts[chance_below(&chance, FRONTS)]};
    struct hurt two = {second, &world.fronts[chance_below(&chance, FRONTS)]};
    int over = 0, count = 1;
    bool conflicts = first->place == second->place || first->place == PLACE_PROCESS ||
                     second->place == PLACE_PROCESS;

    task_start(hurt, &one, &over);
    if (!conflicts && chance_percent(&chance, 35)) {
        task_start(hurt, &two, &over);
        count = 2;
    }
    while (over < count)
        task_sleep(10 * MS);
}

/* Every fault in a random order, and then again, as far as there is time. */
void nemesis_run(void *arg)
{
    size_t left = 0;
    const struct fault *order[FAULTS];

    (void)arg;
    pause_for(1500, 4500);
    while (chosen_count > 0 && !world.is_stopping) {
        if (left == 0) {
            left = chosen_count;
            memcpy(order, chosen, sizeof(order));
        }
        size_t at = chance_below(&chance, left);
        const struct fault *fault = order[at];
        order[at] = order[--left];
        hurt_some(fault);
        for (int i = 0; i < FRONTS; i++)
            see_to(&world.fronts[i]);
        pause_for(1000 * world.pace, 3000 * world.pace);
    }
}
