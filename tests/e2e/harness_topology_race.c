/* A race for locks while the servers of a topology fail over or move slots. */
#include "topology_race.h"

enum {
    RACERS = 16,
    SECONDS = 12,
    FAULT_AT_MS = 2000,
    LONG_TTL_MS = 9000,
    LONG_HOLD_MS = 4000,
    HOLD_MS = 4,
    WAIT_MS = 8000,
    FAULT_LASTS_MS = 5000 /* and a failover takes less than a quarter of RACE_FAILOVER_MS */
};

/* Replication is asynchronous: a lease that was granted before the failover, or by the old
 * master in its last moments, ends by its time. */
static bool may_overlap(const struct topology_race *race)
{
    int64_t passed_ms = now_ms() - race->fault_ms;

    return race->fault->loses && race->fault->sync == NULL && race->fault_ms != 0 &&
           passed_ms < FAULT_LASTS_MS + patience_ms(RACE_FAILOVER_MS / 4) + race->ttl_ms;
}

static void critical(struct racer *racer, struct arena *arena, json_int_t fence_before)
{
    struct topology_race *race = racer->course;
    json_int_t fence = racer_answered(racer, "fencing_token"), last = arena->last_fence;

    if (fence <= fence_before)
        racer_violation(racer, "%s: fencing token %lld after %lld", arena->lock,
                        (long long)fence, (long long)fence_before);
    while (last < fence && !atomic_compare_exchange_weak(&arena->last_fence, &last, fence)) {
    }
    if (atomic_fetch_add(&arena->inside, 1) != 0) {
        race->last_overlap_ms = now_ms();
        if (race->overlaps++ == 0)
            race->first_overlap_ms = now_ms();
        if (!may_overlap(race))
            racer_violation(racer, "%s: two inside", arena->lock);
    }
    arena->grants++;
    race->later_grants += race->fault_ms != 0;
    nap_ms(racer_random(racer, race->fault->is_long ? LONG_HOLD_MS : HOLD_MS));
    atomic_fetch_sub(&arena->inside, 1);
}

static long ask(struct racer *racer, const char *method, const char *lock, const char *query,
                const char *token)
{
    char path[120], header[64];

    snprintf(path, sizeof(path), "locks/%s%s", lock, query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    return racer_ask(racer, method, path, header, racer_patience());
}

/* A grant whose answer a master that then stood still did not send, and whose lease was over
 * when the next master had the request again: it was asked for before the master went on. */
static bool is_late_grant(const struct racer *racer, long status, int64_t asked_ms)
{
    const struct topology_race *race = racer->course;

    return status == 410 && race->fault->is_late && race->fault_ms != 0 &&
           (race->struck_ms == 0 || asked_ms < race->struck_ms) &&
           strstr(racer->answer, "\"reason\":\"expired\"") != NULL;
}

static void race_on(struct racer *racer)
{
    struct topology_race *race = racer->course;
    struct arena *arena = &race->arenas[racer_random(racer, race->locks)];
    json_int_t fence_before = arena->last_fence;
    int64_t asked_ms = now_ms();
    char token[UUID_SIZE], query[64];

    uuid_make(token);
    snprintf(query, sizeof(query), "?ttl_ms=%d&wait_ms=%d", race->ttl_ms, WAIT_MS);
    long status = ask(racer, "PUT", arena->lock, query, token);
    if (status == 201) {
        critical(racer, arena, fence_before);
        status = ask(racer, "DELETE", arena->lock, "", token);
        if (status != 200 && status != 410 && status != 503)
            racer_odd(racer, "a DELETE", status);
    } else if (status == 503) {
        race->refused++;
        nap_ms(50);
        ask(racer, "DELETE", arena->lock, "", token);
    } else if (is_late_grant(racer, status, asked_ms)) {
        race->late++;
    } else if (status != 423 || (race->fault_ms == 0 && !race->fault->is_long)) {
        racer_odd(racer, "a PUT", status);
    }
}

static bool has_shown(const struct topology_race *race)
{
    return race->struck_ms != 0 && race->later_grants > (race->fault->is_long ? 5 : 50);
}

static bool wait_and_strike(void *course)
{
    struct topology_race *race = course;

    nap_ms(20);
    if (now_ms() - race->began_ms < FAULT_AT_MS ||
        (race->struck_ms != 0 && !race->fault->again))
        return has_shown(race);
    if (race->fault_ms == 0)
        race->fault_ms = now_ms();
    race->fault->strike(race->topology);
    race->struck_ms = now_ms();
    return has_shown(race);
}

/* Nobody keeps what it was not told of. */
static void expect_all_free(struct world *w, struct topology_race *race)
{
    for (int i = 0; i < race->locks; i++) {
        struct arena *arena = &race->arenas[i];
        struct reply *r = lock_put(w->a, arena->lock, token_new(w), "wait_ms=20000");
        expect_status(r, 201);
        expect_between(r, "fencing_token", arena->last_fence + 1, INT64_MAX);
    }
}

static void report(struct topology_race *race)
{
    long grants = 0;

    for (int i = 0; i < race->locks; i++)
        grants += race->arenas[i].grants;
    print_message("%ld grants, %ld of them after the fault, %ld refused, %ld overlaps, %ld "
                  "late\n",
                  grants, (long)race->later_grants, (long)race->refused, (long)race->overlaps,
                  (long)race->late);
    assert_true(has_shown(race));
    assert_true(race->late <= RACERS); /* each has one request under way */
}

static void forget_fronts(void *thing)
{
    struct world *w = thing;

    w->a = NULL;
    w->b = NULL;
}

struct topology_race *topology_race(struct world *w, const char *url, int locks,
                                    const struct topology_fault *fault, void *topology)
{
    struct topology_race *race = calloc(1, sizeof(*race));
    const char *replicas = fault->sync != NULL ? fault->sync : "0";

    assert_non_null(race);
    assert_true(locks <= RACE_LOCKS_MAX);
    world_defer(w, free, race);
    race->fault = fault;
    race->topology = topology;
    race->locks = locks;
    race->ttl_ms = fault->is_long ? LONG_TTL_MS : RACE_TTL_MS;
    for (int i = 0; i < locks; i++)
        snprintf(race->arenas[i].lock, RACE_LOCK_SIZE, "race-%d", i);
    w->a = front_start(w, "--redis", url, "--sync-replicas", replicas, NULL);
    w->b = front_start(w, "--redis", url, "--sync-replicas", replicas, "--workers", "2", NULL);
    world_defer(w, forget_fronts, w);
    race->began_ms = now_ms();
    race_run(w, RACERS, fault->seconds != 0 ? fault->seconds : SECONDS, race_on, race,
             wait_and_strike);
    report(race);
    wait_until(front_ready(w->a) && front_ready(w->b), RACE_FAILOVER_MS);
    expect_all_free(w, race);
    return race;
}
