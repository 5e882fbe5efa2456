/* What goes wrong in a run, and when. */
#include "tests/sim/nemesis.h"

#include <stddef.h>
#include <string.h>

#include "tests/sim/calls.h"
#include "tests/sim/faults.h"

enum { FAULTS_MAX = 128, SERVER_FAULTS = 5 };

#define MS CLOCK_NS_PER_MS

static struct chance chance;
static const struct fault *chosen[FAULTS_MAX];
static size_t chosen_count;
static int active;

/* How often a fault is among those of which each comes once; 0: it cannot be in this run. With
 * several servers about half of the faults are of servers. */
static int share_of(const struct fault *fault)
{
    if (fault->needs_workers && world.fronts[0].worker_count == 1)
        return 0;
    if (fault->beyond_quorum && world.topology == TOPOLOGY_QUORUM)
        return 0;
    if (fault->topologies == 0)
        return 1;
    if ((fault->topologies >> world.topology & 1) == 0)
        return 0;
    return world.topology == TOPOLOGY_SINGLE ? 1 : SERVER_FAULTS;
}

size_t nemesis_choose(uint64_t seed, const char *word)
{
    chance = chance_make(seed, "nemesis");
    faults_init(seed);
    failovers_init(seed);
    cluster_faults_init(seed);
    chosen_count = 0;
    for (size_t i = 0; i < fault_count; i++)
        for (int k = 0; strstr(faults[i].name, word) != NULL && k < share_of(&faults[i]); k++)
            chosen[chosen_count++] = &faults[i];
    return chosen_count;
}

static void pause_for(int64_t least_ms, int64_t most_ms)
{
    task_sleep(chance_between(&chance, least_ms, most_ms) * MS);
}

/* A failover loses no write that replicas have to confirm, and one server of a quorum no
 * decision. */
static bool loses_data(const struct fault *fault)
{
    return fault->loses_data && world.topology != TOPOLOGY_QUORUM &&
           !(fault->is_failover && world.sync_replicas > 0);
}

struct hurt {
    const struct fault *fault;
    struct front *front;
};

static void record_fault(const struct hurt *how, int64_t began_ns, int64_t touched)
{
    const struct fault *fault = how->fault;
    char front[24] = "", undoes[48] = "";

    if (fault->of_front)
        snprintf(front, sizeof(front), ",\"front\":%d", how->front->number);
    if (faults_undone_until_ns() > began_ns)
        snprintf(undoes, sizeof(undoes), ",\"undoes_until\":%lld",
                 (long long)faults_undone_until_ns());
    record("fault",
           "\"kind\":\"%s\",\"scope\":\"%s\",\"t_begin\":%lld,\"t_end\":%lld,"
           "\"effect\":%lld%s%s%s%s%s",
           fault->name, fault->of_front ? "front" : "redis", (long long)began_ns,
           (long long)now_ns(), (long long)touched, front,
           loses_data(fault) ? ",\"loses_data\":true" : "", fault->loses_data ? undoes : "",
           fault->restarts && world.topology == TOPOLOGY_QUORUM ? ",\"restarts\":true" : "",
           fault->topologies == 1U << TOPOLOGY_QUORUM ? ",\"minority\":true" : "");
    world.faults++;
}

static void hurt(void *arg)
{
    const struct hurt *how = arg;
    const struct fault *fault = how->fault;
    int64_t began_ns = now_ns();

    trace("FAULT %s, front end %d", fault->name, how->front->number);
    active++;
    world.only_out_of_memory = active == 1 &&
                               fault->flag == offsetof(struct redis, is_out_of_memory);
    world.losses += loses_data(fault);
    int64_t touched = fault->run(fault, how->front);
    world.losses += loses_data(fault);
    active--;
    world.only_out_of_memory = false;
    trace("HEALED %s", fault->name);
    record_fault(how, began_ns, touched);
}

/* Each must be ready again by itself; one that is not is killed, and that is noted. */
static void see_to(struct front *front)
{
    int64_t began_ns = now_ns();

    if (front_becomes_ready(front))
        return;
    record_complaint(front, began_ns, "a front end does not become ready again");
    began_ns = now_ns();
    front_restart(front);
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
                     second->place == PLACE_PROCESS ||
                     (first->slows_redis && second->place == PLACE_NET) ||
                     (second->slows_redis && first->place == PLACE_NET);

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
    const struct fault *order[FAULTS_MAX];

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
