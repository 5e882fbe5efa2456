/* 32 clients on two front ends fight for 5 permits of each kind of semaphore. Never are more
 * than 5 inside, whoever hangs up or repeats itself, and in the end none is lost. */
#include "counters.h"
#include "racers.h"

enum { RACERS = 32, PERMITS = 5, SECONDS = 5, ENTRIES_MIN = 300 };

struct course {
    _Atomic int inside[2]; /* plain, with leases */
    _Atomic long entries[2], hang_ups, repeats;
};

static void critical(struct racer *racer, int kind, int permits)
{
    struct course *course = racer->course;
    int inside = atomic_fetch_add(&course->inside[kind], permits) + permits;

    if (inside > PERMITS)
        racer_violation(racer, "%d permits of kind %d are out", inside, kind);
    course->entries[kind]++;
    racer_dawdle(racer);
    atomic_fetch_sub(&course->inside[kind], permits);
}

/* Hangs up in the midst, and asks again with the same key what became of it. */
static long acquire_hastily(struct racer *racer, const char *path, const char *header)
{
    struct course *course = racer->course;
    char again[120];
    long status = racer_ask(racer, "POST", path, header, 1 + racer_random(racer, 6));

    if (status != 0)
        return status;
    course->hang_ups++;
    snprintf(again, sizeof(again), "%.*s", (int)strcspn(path, "&"), path);
    return racer_ask(racer, "POST", again, header, racer_patience());
}

static void race_plain(struct racer *racer)
{
    struct course *course = racer->course;
    int permits = 1 + racer_random(racer, 2);
    bool hasty = racer_random(racer, 8) == 0;
    char path[100], key[UUID_SIZE], header[64];
    long status;

    uuid_make(key);
    snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
    snprintf(path, sizeof(path), "semaphores/race/acquire?permits=%d&wait_ms=20000", permits);
    status = hasty ? acquire_hastily(racer, path, header)
                   : racer_ask(racer, "POST", path, header, racer_patience());
    if (hasty && status == 423)
        return;
    if (status != 200) {
        racer_odd(racer, "an acquire", status);
        return;
    }
    critical(racer, 0, permits);
    uuid_make(key);
    snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
    snprintf(path, sizeof(path), "semaphores/race/release?permits=%d", permits);
    bool repeats = racer_random(racer, 8) == 0;
    for (int i = repeats ? 2 : 1; i > 0; i--) {
        status = racer_ask(racer, "POST", path, header, racer_patience());
        if (status != 200)
            racer_odd(racer, "a release", status);
    }
    course->repeats += repeats;
}

static void race_leased(struct racer *racer)
{
    static const char path[] = "permit-semaphores/leased/permit";
    struct course *course = racer->course;
    bool hasty = racer_random(racer, 8) == 0;
    char token[UUID_SIZE], header[64];
    long status;

    uuid_make(token);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    status = racer_ask(racer, "PUT",
                       "permit-semaphores/leased/permit?wait_ms=20000&ttl_ms=60000", header,
                       hasty ? 1 + racer_random(racer, 6) : racer_patience());
    if (status == 201)
        critical(racer, 1, 1);
    else if (hasty && status == 0)
        course->hang_ups++;
    else
        racer_odd(racer, "a PUT", status);
    bool is_lost = status == 0;
    status = racer_ask(racer, "DELETE", path, header, racer_patience());
    if (status != 200 && !(is_lost && status == 410))
        racer_odd(racer, "a DELETE", status);
}

static void race_for_permits(struct racer *racer)
{
    if (racer_random(racer, 2) == 0)
        race_plain(racer);
    else
        race_leased(racer);
}

/* Every permit is back, nobody waits, and what is left ends by itself. */
static void check_remains(struct world *w)
{
    wait_until(counter_value(w->redis, "race") == PERMITS, 5000);
    wait_until(counter_value(w->redis, "leased") == PERMITS, 5000);
    assert_false(redis_has(w->redis, "{leased}:timeout"));
    assert_int_equal(counter_waiters(w->a, "semaphores/race"), 0);
    assert_int_equal(counter_waiters(w->b, "permit-semaphores/leased"), 0);
    redis_ok(w->redis, "DEL race");
    redis_ok(w->redis, "DEL leased");
    race_check_remains(w, "redisson_lock_token:", 120000);
}

static void test_race(struct world *w)
{
    struct course *course = calloc(1, sizeof(*course));

    assert_non_null(course);
    world_defer(w, free, course);
    expect_status(counter_send(w->a, "PUT", "semaphores/race?permits=5", NULL), 201);
    expect_status(counter_send(w->a, "PUT", "permit-semaphores/leased?permits=5", NULL), 201);
    race_run(w, RACERS, SECONDS, race_for_permits, course);
    print_message("%ld and %ld entries, %ld hang-ups, %ld releases repeated\n",
                  (long)course->entries[0], (long)course->entries[1], (long)course->hang_ups,
                  (long)course->repeats);
    /* Anti-vacuity: a race that nobody ran proves nothing. */
    assert_true(course->entries[0] >= ENTRIES_MIN / patience_ms(1));
    assert_true(course->entries[1] >= ENTRIES_MIN / patience_ms(1));
    assert_true(course->hang_ups > 0 && course->repeats > 0);
    check_remains(w);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {
        .name = "semaphore-racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
