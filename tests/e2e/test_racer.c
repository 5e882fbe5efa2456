/* The lock-racer: 64 connections on two front ends fight for 8 locks. What a lock protects is
 * never seen by two, its fencing tokens grow, and nothing is left at the end. */
#include "racers.h"

enum {
    RACERS = 64,
    LOCKS = 8,
    SECONDS = 6,
    WAIT_MS = 20000, /* far more than a turn takes: nobody has to go without */
    HASTY_MS = 3,
    TTL_MS = 20000,
    WINDOW_MS = 60000,
    GRANTS_MIN = 500,
    WAITS_MIN = 100
};

/* What a lock protects. The counter is plain on purpose: without the lock it would go wrong. */
struct arena {
    _Atomic int inside;
    volatile long counter;
    json_int_t last_fence;
    _Atomic long grants;
};

struct course {
    struct arena arenas[LOCKS];
    _Atomic long waits, refusals, confirmations;
};

static long ask(struct racer *racer, const char *method, int lock, const char *query,
                const char *token)
{
    char path[100], header[64];

    snprintf(path, sizeof(path), "locks/race-%d%s", lock, query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    return racer_ask(racer, method, path, header, racer_patience());
}

/* Inside the lock: nobody else may be here, and the plain counter must not lose a count. */
static void critical(struct racer *racer, int lock, const char *token)
{
    struct course *course = racer->course;
    struct arena *arena = &course->arenas[lock];
    json_int_t fence = racer_answered(racer, "fencing_token");
    int others = atomic_fetch_add(&arena->inside, 1);
    long seen = arena->counter;

    if (others != 0 || fence <= arena->last_fence)
        racer_violation(racer, "lock %d: %d others inside, fencing token %lld after %lld", lock,
                        others, (long long)fence, (long long)arena->last_fence);
    arena->last_fence = fence;
    arena->grants++;
    if (racer_random(racer, 8) == 0) {
        long status = ask(racer, "PUT", lock, "", token);

        course->confirmations++;
        if (status != 200 || racer_answered(racer, "fencing_token") != fence)
            racer_odd(racer, "a repeated PUT", status);
    }
    racer_dawdle(racer);
    arena->counter = seen + 1;
    atomic_fetch_sub(&arena->inside, 1);
}

static void race_for_a_lock(struct racer *racer)
{
    struct course *course = racer->course;
    int lock = racer_random(racer, LOCKS);
    bool hasty = racer_random(racer, 16) == 0;
    char token[UUID_SIZE], query[64];
    long status;

    uuid_make(token);
    snprintf(query, sizeof(query), "?ttl_ms=%d", TTL_MS);
    status = ask(racer, "PUT", lock, query, token);
    if (status == 423) {
        snprintf(query, sizeof(query), "?ttl_ms=%d&wait_ms=%d", TTL_MS,
                 hasty ? HASTY_MS : WAIT_MS);
        status = ask(racer, "PUT", lock, query, token);
        course->waits += status == 201;
    }
    if (status == 423 && hasty) {
        course->refusals++;
        return;
    }
    if (status != 201) {
        racer_odd(racer, "a PUT", status);
        return;
    }
    critical(racer, lock, token);
    status = ask(racer, "DELETE", lock, "", token);
    if (status != 200)
        racer_odd(racer, "a DELETE", status);
}

static void test_race(struct world *w)
{
    struct course *course = calloc(1, sizeof(*course));
    long grants = 0;

    assert_non_null(course);
    world_defer(w, free, course);
    race_run(w, RACERS, SECONDS, race_for_a_lock, course);
    for (int i = 0; i < LOCKS; i++) {
        grants += course->arenas[i].grants;
        if (course->arenas[i].counter != course->arenas[i].grants)
            FAIL("lock %d: counted %ld of %ld", i, course->arenas[i].counter,
                 (long)course->arenas[i].grants);
    }
    print_message("%ld grants, %ld after a wait, %ld refused, %ld confirmed\n", grants,
                  (long)course->waits, (long)course->refusals, (long)course->confirmations);
    /* Anti-vacuity: a race that nobody ran proves nothing. */
    assert_true(grants >= GRANTS_MIN / patience_ms(1));
    assert_true(course->waits >= WAITS_MIN / patience_ms(1));
    assert_true(course->confirmations > 0);
    for (int i = 0; i < LOCKS; i++) {
        struct reply *r = lock_look(w->a, text(w, "race-%d", i));

        expect_bool(r, "locked", false);
        expect_int(r, "waiter_count", 0);
        expect_int(r, "fencing_token", course->arenas[i].last_fence);
    }
    race_check_remains(w, "redisson_lock_token:{race-", TTL_MS + WINDOW_MS);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {.name = "racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
