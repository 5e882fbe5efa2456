/* Clients of two front ends fight for locks while slots move, and while a master is replaced.
 * Fencing tokens grow throughout. As long as no data is lost, nobody is ever inside a lock with
 * another one; after a failover only for the time that the documents give for it. */
#include <signal.h>

#include "cluster.h"
#include "racers.h"

enum {
    RACERS = 16,
    LOCKS = 9,
    SECONDS = 12,
    FAULT_AT_MS = 2000,
    TTL_MS = 3000,
    WAIT_MS = 8000,
    FAILOVER_MS = 20000
};

enum fault { SLOTS_MOVE, PROMOTED, KILLED, PAUSED };

/* What a lock protects, and the last fencing token that somebody was told. */
struct arena {
    _Atomic int inside;
    _Atomic json_int_t last_fence;
    _Atomic long grants;
};

struct course {
    struct cluster *cluster;
    enum fault fault;
    int64_t began_ms;
    _Atomic int64_t fault_ms; /* 0: still to come */
    struct arena arenas[LOCKS];
    int slots[LOCKS];
    int moved;
    _Atomic long refused, overlaps, later_grants;
};

static void name_lock(char *name, size_t size, int lock)
{
    snprintf(name, size, "cluster-race-%d", lock);
}

/* The slot of a lock goes to the next master. */
static void move_a_slot(struct course *course)
{
    struct cluster *cluster = course->cluster;
    int slot = course->slots[course->moved++ % LOCKS], n = 0;
    struct redis *from = cluster_owner(cluster, slot);

    while (cluster->nodes[n] != from)
        n++;
    struct redis *to = cluster->nodes[(n + 1) % cluster->masters];
    slot_open(cluster, slot, from, to);
    nap_ms(course->moved * 7 % 50);
    slot_migrate(cluster, slot, from, to);
    slot_close(cluster, slot, from, to);
}

static void strike(struct course *course)
{
    struct redis *master = course->cluster->nodes[0];

    switch (course->fault) {
    case SLOTS_MOVE:
        move_a_slot(course);
        return;
    case PROMOTED:
        redis_ok(course->cluster->nodes[course->cluster->masters], "CLUSTER FAILOVER");
        return;
    case KILLED:
        kill(child_pid(master->child), SIGKILL);
        return;
    case PAUSED:
        kill(child_pid(master->child), SIGSTOP);
        nap_ms(5000);
        kill(child_pid(master->child), SIGCONT);
        return;
    }
}

/* The first racer brings the faults, and is alone with the harness meanwhile. */
static void wait_and_strike(struct course *course)
{
    bool again = course->fault == SLOTS_MOVE;

    if ((course->fault_ms == 0 || again) && now_ms() - course->began_ms > FAULT_AT_MS) {
        if (course->fault_ms == 0)
            course->fault_ms = now_ms();
        strike(course);
    }
    nap_ms(20);
}

/* Replication is asynchronous: what the new master had not heard of is granted once more. A
 * promotion by hand waits until the replica has heard of everything. */
static bool may_overlap(const struct course *course)
{
    int64_t passed_ms = now_ms() - course->fault_ms;

    return course->fault >= KILLED && course->fault_ms != 0 &&
           passed_ms < 5000 + patience_ms(FAILOVER_MS / 4) + TTL_MS;
}

static void critical(struct racer *racer, int lock, json_int_t fence_before)
{
    struct course *course = racer->course;
    struct arena *arena = &course->arenas[lock];
    json_int_t fence = racer_answered(racer, "fencing_token"), last = arena->last_fence;

    if (fence <= fence_before)
        racer_violation(racer, "lock %d: fencing token %lld after %lld", lock, (long long)fence,
                        (long long)fence_before);
    while (last < fence && !atomic_compare_exchange_weak(&arena->last_fence, &last, fence)) {
    }
    if (atomic_fetch_add(&arena->inside, 1) != 0) {
        course->overlaps++;
        if (!may_overlap(course))
            racer_violation(racer, "lock %d: two inside", lock);
    }
    arena->grants++;
    course->later_grants += course->fault_ms != 0;
    nap_ms(racer_random(racer, 4));
    atomic_fetch_sub(&arena->inside, 1);
}

static long ask(struct racer *racer, const char *method, int lock, const char *query,
                const char *token)
{
    char name[40], path[120], header[64];

    name_lock(name, sizeof(name), lock);
    snprintf(path, sizeof(path), "locks/%s%s", name, query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    return racer_ask(racer, method, path, header, racer_patience());
}

static void race_on(struct racer *racer)
{
    struct course *course = racer->course;
    int lock = racer_random(racer, LOCKS);
    json_int_t fence_before = course->arenas[lock].last_fence;
    char token[UUID_SIZE], query[64];

    if (racer == racer->race->first) {
        wait_and_strike(course);
        return;
    }
    uuid_make(token);
    snprintf(query, sizeof(query), "?ttl_ms=%d&wait_ms=%d", TTL_MS, WAIT_MS);
    long status = ask(racer, "PUT", lock, query, token);
    if (status == 201) {
        critical(racer, lock, fence_before);
        status = ask(racer, "DELETE", lock, "", token);
        if (status != 200 && status != 410 && status != 503)
            racer_odd(racer, "a DELETE", status);
    } else if (status == 503) {
        course->refused++;
        nap_ms(50);
        ask(racer, "DELETE", lock, "", token);
    } else if (status == 410 && course->fault == PAUSED) {
        nap_ms(
            1); /* granted by the master that stood still, and over when that was found out */
    } else if (status != 423 || course->fault_ms == 0) {
        racer_odd(racer, "a PUT", status);
    }
}

static void forget_fronts(void *thing)
{
    struct world *w = thing;

    w->a = NULL;
    w->b = NULL;
}

static void race(struct world *w, enum fault fault)
{
    struct course *course = calloc(1, sizeof(*course));
    char name[40];
    long grants = 0;

    assert_non_null(course);
    world_defer(w, free, course);
    course->cluster = cluster_start(w, 3, fault != SLOTS_MOVE);
    course->fault = fault;
    for (int i = 0; i < LOCKS; i++) {
        name_lock(name, sizeof(name), i);
        course->slots[i] = cluster_slot(course->cluster, name);
    }
    w->a = front_start(w, "--redis", course->cluster->url, NULL);
    w->b = front_start(w, "--redis", course->cluster->url, "--workers", "2", NULL);
    world_defer(w, forget_fronts, w);
    course->began_ms = now_ms();
    race_run(w, RACERS, SECONDS, race_on, course);
    for (int i = 0; i < LOCKS; i++)
        grants += course->arenas[i].grants;
    print_message("%ld grants, %ld of them after the fault, %ld refused, %ld overlaps, "
                  "%d slots moved\n",
                  grants, (long)course->later_grants, (long)course->refused,
                  (long)course->overlaps, course->moved);
    assert_true(course->fault_ms != 0 && course->later_grants > 50);
    if (fault != SLOTS_MOVE)
        assert_non_null(
            strstr(redis_str(course->cluster->nodes[3], "INFO replication"), "role:master"));
    assert_true(fault != SLOTS_MOVE || course->moved > LOCKS);
    wait_until(front_ready(w->a) && front_ready(w->b), FAILOVER_MS);
    /* Nobody keeps what it was not told of. */
    for (int i = 0; i < LOCKS; i++) {
        name_lock(name, sizeof(name), i);
        struct reply *r = lock_put(w->a, name, token_new(w), "wait_ms=10000");
        expect_status(r, 201);
        expect_between(r, "fencing_token", course->arenas[i].last_fence + 1, INT64_MAX);
    }
}

static void test_slots_move(struct world *w)
{
    race(w, SLOTS_MOVE);
}

static void test_replica_promoted_by_hand(struct world *w)
{
    race(w, PROMOTED);
}

static void test_master_killed(struct world *w)
{
    race(w, KILLED);
}

static void test_master_paused(struct world *w)
{
    race(w, PAUSED);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_slots_move),
        E2E_TEST(test_replica_promoted_by_hand),
        E2E_TEST(test_master_killed),
        E2E_TEST(test_master_paused),
    };
    struct e2e_plan plan = {
        .name = "topology_cluster_racer", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
