/* The fair racer: 32 connections on two front ends stand in the queues of 2 fair locks, some
 * leave, some come back for their place. Nobody who came later gets in before one that stood
 * there already; and nobody is in a lock with another. */
#include "fair.h"
#include "racers.h"

#include <pthread.h>
#include <time.h>

enum {
    RACERS = 32,
    LOCKS = 2,
    SECONDS = 5,
    WAIT_MS = 20000, /* far more than a turn takes */
    HASTY_MS = 3,
    TTL_MS = 20000,
    WINDOW_MS = 60000,
    GRANTS_MAX = 100000,
    GRANTS_MIN = 300,
    ORDERED_MIN = 100,
    HAND_OFF_MS = 50 /* the median, when all is well */
};

/* One token's way to the lock, by a clock that ticks with every event. */
struct grant {
    char lease_id[UUID_SIZE];
    long asked; /* before its first request was sent */
    json_int_t fence;
};

struct arena {
    _Atomic int inside;
    long grant_count; /* plain on purpose: without the lock it would go wrong */
    int64_t freed_us; /* just before the last release was sent */
    struct grant grants[GRANTS_MAX];
    char queue[80];
    json_t *seen; /* lease id -> clock when it was first seen in the queue */
};

struct course {
    _Atomic long clock;
    struct arena arenas[LOCKS];
    _Atomic long entered, returns, gave_up, hand_offs;
    int hand_off_us[GRANTS_MAX];
    /* Looks at the queues, all the time. */
    pthread_t watch;
    redisContext *db;
    _Atomic bool over;
};

static int64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- racers ---- */

static long ask(struct racer *racer, const char *method, int lock, const char *query,
                const char *token)
{
    char path[120], header[64];

    snprintf(path, sizeof(path), "locks/fair-race-%d%s", lock, query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    return racer_ask(racer, method, path, header, racer_patience());
}

static void note_grant(struct racer *racer, struct arena *arena, long asked)
{
    long number = arena->grant_count;
    struct grant *grant = &arena->grants[number % GRANTS_MAX];
    json_int_t last = number > 0 ? arena->grants[(number - 1) % GRANTS_MAX].fence : 0;
    json_t *answer = json_loads(racer->answer, 0, NULL);

    snprintf(grant->lease_id, UUID_SIZE, "%s",
             json_string_value(json_object_get(answer, "lease_id")));
    json_decref(answer);
    grant->asked = asked;
    grant->fence = racer_answered(racer, "fencing_token");
    if (grant->fence <= last)
        racer_violation(racer, "fencing token %lld after %lld", (long long)grant->fence,
                        (long long)last);
}

static void critical(struct racer *racer, struct arena *arena, long asked, int64_t asked_us)
{
    struct course *course = racer->course;
    int64_t now_us = clock_us();

    if (atomic_fetch_add(&arena->inside, 1) != 0)
        racer_violation(racer, "another one is inside");
    if (asked_us < arena->freed_us && course->hand_offs < GRANTS_MAX)
        course->hand_off_us[course->hand_offs++ % GRANTS_MAX] = (int)(now_us - arena->freed_us);
    note_grant(racer, arena, asked);
    racer_dawdle(racer);
    arena->grant_count++;
    course->entered++;
    arena->freed_us = clock_us();
    atomic_fetch_sub(&arena->inside, 1);
}

static void race_for_a_turn(struct racer *racer)
{
    struct course *course = racer->course;
    int lock = racer_random(racer, LOCKS);
    bool hasty = racer_random(racer, 8) == 0, leaves = racer_random(racer, 2) == 0;
    long asked = ++course->clock, status;
    int64_t asked_us = clock_us();
    char token[UUID_SIZE], query[64];

    uuid_make(token);
    snprintf(query, sizeof(query), "?kind=fair&ttl_ms=%d&wait_ms=%d", TTL_MS,
             hasty ? HASTY_MS : WAIT_MS);
    status = ask(racer, "PUT", lock, query, token);
    if (status == 423 && hasty && leaves) {
        course->gave_up++;
        status = ask(racer, "DELETE", lock, "", token);
        if (status != 200)
            racer_odd(racer, "giving up", status);
        return;
    }
    if (status == 423 && hasty) { /* its place is still there */
        snprintf(query, sizeof(query), "?kind=fair&ttl_ms=%d&wait_ms=%d", TTL_MS, WAIT_MS);
        status = ask(racer, "PUT", lock, query, token);
        course->returns++;
    }
    if (status != 201) {
        racer_odd(racer, "a PUT", status);
        return;
    }
    critical(racer, &course->arenas[lock], asked, asked_us);
    status = ask(racer, "DELETE", lock, "", token);
    if (status != 200)
        racer_odd(racer, "a DELETE", status);
}

/* ---- the order in which they stood there ---- */

static void look_at_queue(struct course *course, struct arena *arena)
{
    redisReply *list = redisCommand(course->db, "LRANGE %s 0 -1", arena->queue);
    long now = ++course->clock;

    for (size_t i = 0; list != NULL && i < list->elements; i++) {
        char *lease_id = list->element[i]->str;

        lease_id[UUID_SIZE - 1] = '\0';
        if (json_object_get(arena->seen, lease_id) == NULL)
            json_object_set_new(arena->seen, lease_id, json_integer(now));
    }
    if (list != NULL)
        freeReplyObject(list);
}

static void *watch(void *arg)
{
    struct course *course = arg;

    for (int i = 0; !course->over; i++) {
        look_at_queue(course, &course->arenas[i % LOCKS]);
        nap_ms(i % 2);
    }
    return NULL;
}

static void watch_end(struct course *course)
{
    if (course->over)
        return;
    course->over = true;
    pthread_join(course->watch, NULL);
    redisFree(course->db);
}

static void course_undo(void *thing)
{
    struct course *course = thing;

    watch_end(course);
    for (int i = 0; i < LOCKS; i++)
        json_decref(course->arenas[i].seen);
    free(course);
}

static struct course *course_start(struct world *w)
{
    struct course *course = calloc(1, sizeof(*course));

    assert_non_null(course);
    for (int i = 0; i < LOCKS; i++) {
        const char *lock = text(w, "fair-race-%d", i);

        course->arenas[i].seen = json_object();
        snprintf(course->arenas[i].queue, sizeof(course->arenas[i].queue), "%s",
                 fair_queue(w, lock));
    }
    course->db = redisConnectUnix(w->redis->socket);
    assert_int_equal(pthread_create(&course->watch, NULL, watch, course), 0);
    world_defer(w, course_undo, course);
    return course;
}

/* How many were seen in the queue: none of them was granted the lock after one that asked only
 * then. */
static long check_order(const struct arena *arena, int lock)
{
    long latest_asked = 0, ordered = 0;

    for (long i = 0; i < arena->grant_count && i < GRANTS_MAX; i++) {
        const struct grant *grant = &arena->grants[i];
        json_t *seen = json_object_get(arena->seen, grant->lease_id);

        ordered += seen != NULL;
        if (seen != NULL && json_integer_value(seen) < latest_asked)
            FAIL("lock %d: grant %ld stood in the queue at %lld, and one that asked at %ld was "
                 "granted before it",
                 lock, i, (long long)json_integer_value(seen), latest_asked);
        if (grant->asked > latest_asked)
            latest_asked = grant->asked;
    }
    return ordered;
}

static int by_size(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void test_race(struct world *w)
{
    struct course *course = course_start(w);
    long grants = 0, ordered = 0;

    race_run(w, RACERS, SECONDS, race_for_a_turn, course);
    watch_end(course);
    for (int i = 0; i < LOCKS; i++) {
        const char *lock = text(w, "fair-race-%d", i);

        grants += course->arenas[i].grant_count;
        ordered += check_order(&course->arenas[i], i);
        expect_no_queue(w->redis, lock);
        expect_bool(lock_look(w->a, lock), "locked", false);
    }
    assert_int_equal(grants, course->entered);
    qsort(course->hand_off_us, (size_t)course->hand_offs, sizeof(int), by_size);
    int median_us = course->hand_off_us[course->hand_offs / 2];
    print_message("%ld grants, %ld of waiters that were seen, %ld came back, %ld gave up; "
                  "handed on within %d us, 99 %% within %d us\n",
                  grants, ordered, (long)course->returns, (long)course->gave_up, median_us,
                  course->hand_off_us[course->hand_offs * 99 / 100]);
    /* Anti-vacuity. */
    assert_true(grants >= GRANTS_MIN / patience_ms(1) && grants < GRANTS_MAX);
    /* Who waits is seen at one node only. */
    assert_true(ordered >= ORDERED_MIN / patience_ms(1) || redis_has_masters());
    assert_true(course->returns > 0 && course->gave_up > 0);
    assert_true(median_us < patience_ms(HAND_OFF_MS) * 1000);
    race_check_remains(w, "redisson_lock_token:{fair-race-", TTL_MS + WINDOW_MS);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {
        .name = "fair-racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
