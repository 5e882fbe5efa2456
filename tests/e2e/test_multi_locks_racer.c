/* Many clients on two front ends fight for some of five locks at once, named in any order, and
 * others for one of them. Nobody waits for ever, no two are inside, nothing is left. */
#include "harness_session.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    RACERS = 32,
    LOCKS = 5,
    SECONDS = 5,
    WAIT_MS = 20000, /* far more than a turn takes: nobody has to go without */
    HASTY_MS = 5,
    GRANTS_MIN = 100,
    WAITS_MIN = 50,
    STUCK_MS = 3500 /* whose wake-up was lost sleeps longer: until the next poll */
};

/* What a lock protects. The counter is plain on purpose: without the lock it would go wrong. */
struct arena {
    _Atomic int inside;
    volatile long counter;
    json_int_t last_fence;
    _Atomic long grants;
};

struct race {
    struct arena arenas[LOCKS];
    _Atomic bool over;
    _Atomic long several, waits, refusals;
    _Atomic int violations, odd_answers;
    _Atomic long longest_ms;
    pthread_mutex_t mutex;
    char trouble[512];
};

struct racer {
    struct race *race;
    int port;
    pthread_t thread;
    unsigned seed;
    struct rest rest;
    int locks[LOCKS];
    int lock_count;
};

static void trouble(struct racer *racer, const char *what, int status)
{
    struct race *race = racer->race;

    pthread_mutex_lock(&race->mutex);
    if (race->trouble[0] == '\0')
        snprintf(race->trouble, sizeof(race->trouble), "%s: %d %.*s", what, status,
                 (int)racer->rest.answer_len, racer->rest.answer ? racer->rest.answer : "");
    pthread_mutex_unlock(&race->mutex);
}

static void odd(struct racer *racer, const char *what, int status)
{
    racer->race->odd_answers++;
    trouble(racer, what, status);
}

/* Some of the locks, in any order. */
static void pick(struct racer *racer)
{
    int all[LOCKS];

    for (int i = 0; i < LOCKS; i++)
        all[i] = i;
    for (int i = LOCKS - 1; i > 0; i--) {
        int j = rand_r(&racer->seed) % (i + 1), other = all[i];

        all[i] = all[j];
        all[j] = other;
    }
    racer->lock_count = 1 + rand_r(&racer->seed) % 4;
    memcpy(racer->locks, all, sizeof(all));
}

static bool is_several(const struct racer *racer)
{
    return racer->lock_count > 1;
}

static int ask(struct racer *racer, const char *method, const char *token, int wait_ms)
{
    char path[64] = "/v1/multi-locks", body[256] = "", names[128] = "";

    for (int i = 0; i < racer->lock_count; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s\"mrace-%d\"",
                 i ? "," : "", racer->locks[i]);
    if (!is_several(racer))
        snprintf(path, sizeof(path), "/v1/locks/mrace-%d", racer->locks[0]);
    if (strcmp(method, "PUT") == 0) {
        int len = snprintf(body, sizeof(body), "{\"ttl_ms\": 20000, \"wait_ms\": %d", wait_ms);

        snprintf(body + len, sizeof(body) - (size_t)len,
                 is_several(racer) ? ", \"locks\": [%s]}" : "}", names);
    }
    return rest_ask(&racer->rest, racer->port, method, path, token, NULL,
                    body[0] != '\0' ? body : NULL);
}

static json_int_t fence_for(const struct racer *racer, int lock)
{
    const json_t *locks = json_object_get(racer->rest.json, "locks"), *entry;
    char name[16];
    size_t i;

    if (!is_several(racer))
        return rest_int(&racer->rest, "fencing_token");
    snprintf(name, sizeof(name), "mrace-%d", lock);
    json_array_foreach(locks, i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "lock")), name) == 0)
            return json_integer_value(json_object_get(entry, "fencing_token"));
    }
    return -1;
}

static void enter(struct racer *racer, struct arena *arena, json_int_t fence)
{
    if (atomic_fetch_add(&arena->inside, 1) != 0 || fence <= arena->last_fence) {
        racer->race->violations++;
        trouble(racer, "two inside, or an old fencing token", 0);
    }
    arena->last_fence = fence;
    arena->grants++;
}

static void critical(struct racer *racer)
{
    long seen[LOCKS];

    for (int i = 0; i < racer->lock_count; i++) {
        struct arena *arena = &racer->race->arenas[racer->locks[i]];

        enter(racer, arena, fence_for(racer, racer->locks[i]));
        seen[i] = arena->counter;
    }
    for (int i = rand_r(&racer->seed) % 4; i > 0; i--)
        sched_yield();
    for (int i = 0; i < racer->lock_count; i++) {
        struct arena *arena = &racer->race->arenas[racer->locks[i]];

        arena->counter = seen[i] + 1;
        atomic_fetch_sub(&arena->inside, 1);
    }
}

static void racer_round(struct racer *racer)
{
    bool hasty = rand_r(&racer->seed) % 8 == 0;
    char token[UUID_SIZE];
    int64_t began = now_ms();
    int status;

    pick(racer);
    uuid_make(token);
    status = ask(racer, "PUT", token, hasty ? HASTY_MS : WAIT_MS);
    if (status == 423 && hasty) {
        racer->race->refusals++;
        return;
    }
    if (status != 201) {
        odd(racer, "PUT", status);
        return;
    }
    if (now_ms() - began > racer->race->longest_ms)
        racer->race->longest_ms = now_ms() - began;
    racer->race->waits += now_ms() - began > 2;
    racer->race->several += is_several(racer);
    critical(racer);
    status = ask(racer, "DELETE", token, 0);
    if (status != 200)
        odd(racer, "DELETE", status);
}

static void *racer_run(void *arg)
{
    struct racer *racer = arg;

    while (!racer->race->over && racer->race->violations == 0)
        racer_round(racer);
    return NULL;
}

static void check_locks(struct world *w, struct race *race)
{
    long grants = 0;

    for (int i = 0; i < LOCKS; i++) {
        struct reply *r = lock_look(w->a, text(w, "mrace-%d", i));

        expect_bool(r, "locked", false);
        expect_int(r, "waiter_count", 0);
        expect_int(r, "fencing_token", race->arenas[i].last_fence);
        assert_int_equal(race->arenas[i].counter, race->arenas[i].grants);
        grants += race->arenas[i].grants;
    }
    print_message("%ld grants, %ld of several, %ld waited, at most %ld ms, %ld refused\n",
                  grants, (long)race->several, (long)race->waits, (long)race->longest_ms,
                  (long)race->refusals);
    assert_true(race->several >= GRANTS_MIN / patience_ms(1));
    assert_true(race->waits >= WAITS_MIN / patience_ms(1));
    assert_true(race->longest_ms < STUCK_MS + late_ms());
}

static void check_remains(struct world *w)
{
    json_t *keys = redis_keys(w->redis, ""), *key;
    size_t i;

    json_array_foreach(keys, i, key) {
        const char *name = json_string_value(key);
        long long ttl_ms = redis_int(w->redis, "PTTL %s", name);

        if (strncmp(name, "redisson_lock_token:{mrace-", 27) != 0 &&
            (strncmp(name, "rlockd:", 7) != 0 || ttl_ms == -1 || ttl_ms > 150000))
            FAIL("left behind: %s with a TTL of %lld ms", name, ttl_ms);
    }
}

static void test_race(struct world *w)
{
    struct race *race = calloc(1, sizeof(*race));
    struct racer *racers = calloc(RACERS, sizeof(*racers));
    const char *seconds = getenv("RACER_SECONDS");

    assert_true(race != NULL && racers != NULL);
    world_defer(w, free, race);
    world_defer(w, free, racers);
    pthread_mutex_init(&race->mutex, NULL);
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){
            .race = race, .port = i % 2 ? w->a->port : w->b->port, .seed = i + 1};
        rest_init(&racers[i].rest);
        assert_int_equal(pthread_create(&racers[i].thread, NULL, racer_run, &racers[i]), 0);
    }
    for (int64_t end = now_ms() + 1000L * (seconds ? atoi(seconds) : SECONDS);
         now_ms() < end && race->violations == 0;)
        nap_ms(20);
    race->over = true;
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        rest_free(&racers[i].rest);
    }
    if (race->violations > 0 || race->odd_answers > 0 || race->trouble[0] != '\0')
        FAIL("%d violations, %d odd answers; the first: %s", race->violations,
             race->odd_answers, race->trouble);
    check_locks(w, race);
    check_remains(w);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {.name = "multi-locks-racer",
                            .needs_one_server = true,
                            E2E_TESTS(tests),
                            .front_ends = 2,
                            .flags = flags};

    return e2e_run(&plan);
}
