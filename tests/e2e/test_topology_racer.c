/* Clients of two front ends fight for locks while the master is replaced. Fencing tokens grow
 * throughout; two clients are inside a lock only for the time that the documents give for it:
 * the leases that the new master had not heard of, until they end. */
#include <signal.h>

#include "racers.h"
#include "sentinel.h"

enum {
    RACERS = 16,
    LOCKS = 4,
    SECONDS = 13,
    FAULT_AT_MS = 3000,
    TTL_MS = 3000,
    LONG_TTL_MS = 9000, /* of leases that outlast a failover */
    LONG_HOLD_MS = 4000,
    WAIT_MS = 8000,
    FAILOVER_MS = 20000
};

enum fault { BY_HAND, KILLED, PAUSED, ISOLATED };

/* What a lock protects, and the last fencing token that somebody was told. */
struct arena {
    _Atomic int inside;
    _Atomic json_int_t last_fence;
    _Atomic long grants;
};

struct course {
    struct trio trio;
    enum fault fault;
    bool is_sync; /* no client is told of what no replica has */
    int64_t began_ms;
    _Atomic int64_t fault_ms; /* 0: still to come */
    struct arena arenas[LOCKS];
    _Atomic long refused, overlaps, later_grants;
};

/* Replicas get nothing more of what the master does, and one of them follows it. */
static void isolate_and_kill(const struct redis *master)
{
    redisContext *db = redisConnectUnix(master->socket);

    if (db != NULL && db->err == 0) {
        freeReplyObject(redisCommand(db, "ACL SETUSER default -psync -sync -replconf"));
        freeReplyObject(redisCommand(db, "CLIENT KILL TYPE replica"));
        nap_ms(2000);
        kill(child_pid(master->child), SIGKILL);
    }
    redisFree(db);
}

static void strike(struct course *course)
{
    struct redis *master = course->trio.server[0];

    switch (course->fault) {
    case BY_HAND:
        sentinel_ok(course->trio.sentinel[0], "SENTINEL FAILOVER mymaster");
        return;
    case KILLED:
        kill(child_pid(master->child), SIGKILL);
        return;
    case PAUSED:
        kill(child_pid(master->child), SIGSTOP);
        nap_ms(5000);
        kill(child_pid(master->child), SIGCONT);
        return;
    case ISOLATED:
        isolate_and_kill(master);
        return;
    }
}

/* The first racer brings the fault. */
static void wait_and_strike(struct course *course)
{
    if (course->fault_ms == 0 && now_ms() - course->began_ms > FAULT_AT_MS) {
        course->fault_ms = now_ms();
        strike(course);
    }
    nap_ms(20);
}

static int ttl_of(const struct course *course)
{
    return course->fault == ISOLATED ? LONG_TTL_MS : TTL_MS;
}

/* A lease that was granted before the failover, or by the old master in its last moments, ends
 * by its time. */
static bool may_overlap(const struct course *course)
{
    int64_t passed_ms = now_ms() - course->fault_ms;

    return course->fault_ms != 0 &&
           passed_ms < 5000 + patience_ms(FAILOVER_MS / 4) + ttl_of(course);
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
        if (course->is_sync || !may_overlap(course))
            racer_violation(racer, "lock %d: two inside", lock);
    }
    arena->grants++;
    course->later_grants += course->fault_ms != 0;
    nap_ms(racer_random(racer, course->fault == ISOLATED ? LONG_HOLD_MS : 4));
    atomic_fetch_sub(&arena->inside, 1);
}

static long ask(struct racer *racer, const char *method, int lock, const char *query,
                const char *token)
{
    char path[100], header[64];

    snprintf(path, sizeof(path), "locks/fail-%d%s", lock, query);
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
    snprintf(query, sizeof(query), "?ttl_ms=%d&wait_ms=%d", ttl_of(course), WAIT_MS);
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
    } else if (status != 423 || (course->fault_ms == 0 && course->fault != ISOLATED)) {
        racer_odd(racer, "a PUT", status);
    }
}

static void forget_fronts(void *thing)
{
    struct world *w = thing;

    w->a = NULL;
    w->b = NULL;
}

static void race(struct world *w, enum fault fault, bool is_sync)
{
    const char *replicas = is_sync ? "1" : "0";
    struct course *course = calloc(1, sizeof(*course));
    long grants = 0;

    assert_non_null(course);
    world_defer(w, free, course);
    course->trio = trio_start(w);
    course->fault = fault;
    course->is_sync = is_sync;
    w->a = front_start(w, "--redis", course->trio.url, "--sync-replicas", replicas, NULL);
    w->b = front_start(w, "--redis", course->trio.url, "--sync-replicas", replicas, "--workers",
                       "2", NULL);
    world_defer(w, forget_fronts, w);
    course->began_ms = now_ms();
    race_run(w, RACERS, SECONDS, race_on, course);
    for (int i = 0; i < LOCKS; i++)
        grants += course->arenas[i].grants;
    print_message("%ld grants, %ld of them after the fault, %ld refused, %ld overlaps\n",
                  grants, (long)course->later_grants, (long)course->refused,
                  (long)course->overlaps);
    assert_true(course->fault_ms != 0 && course->later_grants > (fault == ISOLATED ? 5 : 50));
    wait_until(front_ready(w->a) && front_ready(w->b), FAILOVER_MS);
    /* A busy machine may make the Sentinels change their minds once more. */
    assert_true(reply_int(http(w->a, "GET", "/readyz", NULL), "redis.failovers") >= 1);
    /* Nobody keeps what it was not told of. */
    for (int i = 0; i < LOCKS; i++) {
        struct reply *r = lock_put(w->a, text(w, "fail-%d", i), token_new(w), "wait_ms=20000");
        expect_status(r, 201);
        expect_between(r, "fencing_token", course->arenas[i].last_fence + 1, INT64_MAX);
    }
}

static void test_failover_by_hand(struct world *w)
{
    race(w, BY_HAND, false);
}

static void test_master_killed(struct world *w)
{
    race(w, KILLED, false);
}

static void test_master_paused(struct world *w)
{
    race(w, PAUSED, false);
}

/* What the replicas did not get is lost: clients may overlap. */
static void test_master_isolated(struct world *w)
{
    race(w, ISOLATED, false);
}

/* What the replicas did not get nobody was told of. */
static void test_master_isolated_with_sync(struct world *w)
{
    race(w, ISOLATED, true);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_failover_by_hand),
        E2E_TEST(test_master_killed),
        E2E_TEST(test_master_paused),
        E2E_TEST(test_master_isolated),
        E2E_TEST(test_master_isolated_with_sync),
    };
    struct e2e_plan plan = {.name = "topology_racer", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
