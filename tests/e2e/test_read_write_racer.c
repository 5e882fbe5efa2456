/* 32 clients on two front ends read and write under 4 locks. A writer is alone, whoever hangs
 * up, goes on to read or asks for too much; what it wrote no reader sees half done. */
#include "racers.h"

enum {
    RACERS = 32,
    LOCKS = 4,
    SECONDS = 6,
    TTL_MS = 60000,
    WINDOW_MS = 60000,
    READS_MIN = 300,
    WRITES_MIN = 200,
    HAND_OFF_MAX_MS = 50
};

/* What a lock protects: two numbers that are plain on purpose, and differ while one writes. */
struct arena {
    _Atomic int readers, writers;
    volatile long first, second;
    _Atomic json_int_t last_write;
    _Atomic long reads, writes;
};

struct course {
    struct arena arenas[LOCKS];
    _Atomic long together, hang_ups, downgrades, upgrades, starved;
    _Atomic int sessions_len;
    char sessions[RACERS][UUID_SIZE]; /* tokens */
};

static long ask(struct racer *racer, const char *method, int lock, const char *query,
                const char *token, int timeout_ms)
{
    char path[120], header[64];

    snprintf(path, sizeof(path), "locks/rwrace-%d%s", lock, query);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    return racer_ask(racer, method, path, header, timeout_ms);
}

static void release(struct racer *racer, int lock, const char *token)
{
    long status = ask(racer, "DELETE", lock, "", token, racer_patience());

    if (status != 200)
        racer_odd(racer, "a DELETE", status);
}

/* ---- inside ---- */

static void enter_as_reader(struct racer *racer, struct arena *arena, json_int_t fence)
{
    struct course *course = racer->course;

    course->together += atomic_fetch_add(&arena->readers, 1) > 0;
    if (arena->writers != 0 || fence < arena->last_write)
        racer_violation(racer, "a reader with token %lld, %d writers, the last with %lld",
                        (long long)fence, arena->writers, (long long)arena->last_write);
    arena->reads++;
}

static void read_inside(struct racer *racer, struct arena *arena)
{
    long first = arena->first;

    racer_dawdle(racer);
    if (arena->second != first || arena->first != first || arena->writers != 0)
        racer_violation(racer, "%ld and %ld were read, with %d writers", first, arena->second,
                        arena->writers);
    atomic_fetch_sub(&arena->readers, 1);
}

static void enter_as_writer(struct racer *racer, struct arena *arena, json_int_t fence)
{
    int writers = atomic_fetch_add(&arena->writers, 1), readers = arena->readers;

    if (writers != 0 || readers != 0 || fence <= arena->last_write)
        racer_violation(racer, "a writer with token %lld after %lld, %d others, %d readers",
                        (long long)fence, (long long)arena->last_write, writers, readers);
    arena->last_write = fence;
    arena->first++;
    racer_dawdle(racer);
    arena->second++;
    arena->writes++;
}

/* ---- rounds ---- */

/* Granted with this token; what it was answered is still there. */
static bool get_in(struct racer *racer, int lock, const char *query, const char *token)
{
    struct course *course = racer->course;
    bool hasty = racer_random(racer, 8) == 0;
    long status = ask(racer, "PUT", lock, query, token,
                      hasty ? 1 + racer_random(racer, 6) : racer_patience());

    if (status == 201)
        return true;
    if (status == 423) { /* readers need not let a writer in */
        course->starved++;
        return false;
    }
    if (!hasty || status != 0)
        racer_odd(racer, "a PUT", status);
    course->hang_ups++;
    status = ask(racer, "DELETE", lock, "", token, racer_patience());
    if (status != 200 && status != 410)
        racer_odd(racer, "the DELETE of one that went", status);
    return false;
}

static void race_to_read(struct racer *racer, int lock, const char *token)
{
    struct arena *arena = &((struct course *)racer->course)->arenas[lock];

    if (!get_in(racer, lock, "?kind=read&ttl_ms=60000&wait_ms=5000", token))
        return;
    enter_as_reader(racer, arena, racer_answered(racer, "fencing_token"));
    read_inside(racer, arena);
    release(racer, lock, token);
}

static void race_to_write(struct racer *racer, int lock, const char *token)
{
    struct arena *arena = &((struct course *)racer->course)->arenas[lock];

    if (!get_in(racer, lock, "?kind=write&ttl_ms=60000&wait_ms=5000", token))
        return;
    enter_as_writer(racer, arena, racer_answered(racer, "fencing_token"));
    atomic_fetch_sub(&arena->writers, 1);
    release(racer, lock, token);
}

/* Writes, goes on to read, and may not write again before that is over. */
static void race_to_downgrade(struct racer *racer, int lock, const char *token)
{
    struct course *course = racer->course;
    struct arena *arena = &course->arenas[lock];
    char reads[UUID_SIZE], upgrades[UUID_SIZE];

    if (!get_in(racer, lock, "?kind=write&owner=me&ttl_ms=60000&wait_ms=5000", token))
        return;
    json_int_t fence = racer_answered(racer, "fencing_token");
    enter_as_writer(racer, arena, fence);
    uuid_make(reads);
    long status = ask(racer, "PUT", lock, "?kind=read&owner=me&ttl_ms=60000", reads,
                      racer_patience());
    if (status != 201 || racer_answered(racer, "fencing_token") != fence)
        racer_odd(racer, "a read beside a write", status);
    atomic_fetch_sub(&arena->writers, 1);
    enter_as_reader(racer, arena, fence);
    release(racer, lock, token);
    if (racer_random(racer, 2) == 0) {
        status = ask(racer, "PUT", lock, "?kind=write&owner=me&wait_ms=5000", token,
                     racer_patience());
        if (status != 410)
            racer_odd(racer, "a spent token", status);
        uuid_make(upgrades);
        status = ask(racer, "PUT", lock, "?kind=write&owner=me&wait_ms=5000", upgrades,
                     racer_patience());
        if (status != 409)
            racer_odd(racer, "a reader that wants to write", status);
        course->upgrades++;
    }
    read_inside(racer, arena);
    release(racer, lock, reads);
    course->downgrades++;
}

static void open_session(struct racer *racer)
{
    struct course *course = racer->course;
    int n = atomic_fetch_add(&course->sessions_len, 1);
    long status;

    uuid_make(course->sessions[n]);
    snprintf(racer->session, sizeof(racer->session), "Session-Token: %s", course->sessions[n]);
    status = racer_ask(racer, "POST", "sessions?ttl_ms=600000", "Accept: */*",
                       racer_patience());
    if (status != 201)
        racer_odd(racer, "a session", status);
}

static void race_for_a_lock(struct racer *racer)
{
    int lock = racer_random(racer, LOCKS), what = racer_random(racer, 8);
    char token[UUID_SIZE];

    if (racer->session[0] == '\0')
        open_session(racer);
    uuid_make(token);
    if (what == 0)
        race_to_downgrade(racer, lock, token);
    else if (what <= 3)
        race_to_write(racer, lock, token);
    else
        race_to_read(racer, lock, token);
    nap_ms(racer_random(racer, 4)); /* or readers would let no writer in */
}

/* ---- afterwards ---- */

static void end_sessions(struct world *w, struct course *course)
{
    for (int i = 0; i < course->sessions_len; i++) {
        const char *header = text(w, "Session-Token: %s", course->sessions[i]);
        struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/sessions?ttl_ms=600000",
                               .headers = {header});
        const char *path = text(w, "/v1/sessions/%s", reply_str(r, "session_id"));

        r = HTTP(w->b, .method = "DELETE", .path = path, .headers = {header});
        expect_status(r, 200);
        expect_int(r, "released", 0);
    }
}

static double hand_off_ms(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};
    double sum = 0, count = 0;

    for (int i = 0; i < 2; i++) {
        sum += front_metric(fronts[i], "rlockd_unlock_to_grant_seconds_sum", NULL);
        count += front_metric(fronts[i], "rlockd_unlock_to_grant_seconds_count", NULL);
    }
    assert_true(count > 0);
    return 1000 * sum / count;
}

static void test_race(struct world *w)
{
    struct course *course = calloc(1, sizeof(*course));
    long reads = 0, writes = 0;

    assert_non_null(course);
    world_defer(w, free, course);
    race_run(w, RACERS, SECONDS, race_for_a_lock, course);
    for (int i = 0; i < LOCKS; i++) {
        struct arena *arena = &course->arenas[i];

        reads += arena->reads;
        writes += arena->writes;
        assert_int_equal(arena->first, arena->writes);
        assert_int_equal(arena->second, arena->writes);
    }
    double hand_off = hand_off_ms(w);
    print_message("%ld reads, %ld beside others, %ld writes, %ld downgrades, %ld upgrades "
                  "refused, %ld hang-ups, %ld starved, handed on in %.1f ms\n",
                  reads, (long)course->together, writes, (long)course->downgrades,
                  (long)course->upgrades, (long)course->hang_ups, (long)course->starved,
                  hand_off);
    /* Anti-vacuity: a race that nobody ran proves nothing. */
    assert_true(reads >= READS_MIN / patience_ms(1) && writes >= WRITES_MIN / patience_ms(1));
    assert_true(course->together > 0 && course->downgrades > 0 && course->upgrades > 0);
    assert_true(course->hang_ups > 0);
    assert_true(hand_off <= (double)patience_ms(HAND_OFF_MAX_MS));
    end_sessions(w, course);
    for (int i = 0; i < LOCKS; i++) {
        const char *lock = text(w, "rwrace-%d", i);

        wait_until(!redis_has(w->redis, lock), 2000);
        wait_until(waiter_count(w->a, lock) == 0, 2000);
    }
    race_check_remains(w, "redisson_lock_token:{rwrace-", TTL_MS + WINDOW_MS);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_race)};
    struct e2e_plan plan = {
        .name = "read-write-racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
