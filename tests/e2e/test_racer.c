/* The racer: clients on two front ends fight for a few objects of each kind, in every manner of
 * asking. Never are more inside an object than it admits, what it protects is never seen half
 * done, its fencing tokens grow, each client gets its turn, and nothing is left at the end. */
#include "contest.h"
#include "counters.h"
#include "fair.h"

enum {
    SECONDS = 4,
    WINDOW_MS = 60000, /* --retry-window-ms */
    STUCK_MS = 3500,   /* a waiter that loses its wake-up sleeps longer: until the next poll */
    HAND_OFF_MS = 50,
    ENTRIES_MIN = 200
};

static const struct contest contests[] = {
    {.name = "plain",
     .kind = "locks",
     .objects = 8,
     .most = 1,
     .capacity = 1,
     .ways = {{"", 1, 1, CAN(TRIES) | CAN(HURRIES) | CAN(HANGS_UP) | CAN(REPEATS)}}},
    {.name = "fair",
     .kind = "locks",
     .objects = 2,
     .most = 1,
     .capacity = 1,
     .is_fair = true,
     .ways = {{"&kind=fair", 1, 1, CAN(LEAVES) | CAN(RETURNS)}}},
    /* More writers than readers would never see two readers together. */
    {.name = "read-write",
     .kind = "locks",
     .objects = 4,
     .most = 1,
     .capacity = CONTEST_RACERS,
     .has_sessions = true,
     .ways = {{"&kind=read", 1, 4, CAN(HANGS_UP)},
              {"&kind=write", CONTEST_RACERS, 3, CAN(HANGS_UP)},
              {"&kind=write&owner=me", CONTEST_RACERS, 1, CAN(DOWNGRADES)}}},
    {.name = "{set}",
     .kind = "locks",
     .objects = 5,
     .most = 4,
     .capacity = 1,
     .ways = {{"", 1, 1, CAN(HURRIES)}}},
    {.name = "permits",
     .kind = "permit-semaphores",
     .part = "/permit",
     .objects = 1,
     .most = 1,
     .capacity = 5,
     .ways = {{"", 1, 1, CAN(HANGS_UP) | CAN(REPEATS)}}},
    {.name = "semaphore",
     .kind = "semaphores",
     .part = "/acquire",
     .objects = 1,
     .most = 1,
     .capacity = 5,
     .is_counter = true,
     .ways = {{"&permits=1", 1, 1, CAN(HURRIES) | CAN(HANGS_UP)},
              {"&permits=2", 2, 1, CAN(REPEATS)}}},
};

static long ordered_entries(const struct course *course)
{
    long ordered = 0;

    for (int i = 0; i < course->contest->objects && course->contest->is_fair; i++)
        ordered += fair_watch_ordered(course->queues[i]);
    return ordered;
}

/* A race that nobody ran proves nothing. */
static bool has_shown(const struct course *course)
{
    const struct contest *contest = course->contest;
    unsigned manners = 0, missing = 0;

    for (int i = 0; i < CONTEST_WAYS_MAX; i++)
        manners |= contest->ways[i].manners;
    for (int i = 0; i < MANNERS; i++)
        missing += (manners & CAN(i)) && course->manners[i] == 0;
    /* Who waits is seen at one node only. */
    return missing == 0 && course->entries >= ENTRIES_MIN &&
           (contest->capacity == 1 || course->together > 0) &&
           (contest->most == 1 || course->several > 0) &&
           (!contest->is_fair || ordered_entries(course) > 0 || redis_has_masters());
}

static bool look(void *arg)
{
    struct course *course = arg;

    nap_ms(course->contest->is_fair ? 1 : 20);
    for (int i = 0; i < course->contest->objects && course->contest->is_fair; i++)
        fair_watch_look(course->queues[i]);
    return has_shown(course);
}

/* --- afterwards --------------------------------------------------------------------------- */

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

static void end_sessions(struct world *w, struct course *course)
{
    for (int i = 0; i < course->session_count; i++) {
        const char *header = text(w, "Session-Token: %s", course->sessions[i]);
        struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/sessions?ttl_ms=600000",
                               .headers = {header});
        const char *path = text(w, "/v1/sessions/%s", reply_str(r, "session_id"));

        r = HTTP(w->b, .method = "DELETE", .path = path, .headers = {header});
        expect_status(r, 200);
        expect_int(r, "released", 0);
    }
}

/* Nobody is inside or waits, and no count is lost. */
static void expect_left(struct world *w, struct course *course)
{
    const struct contest *contest = course->contest;
    bool is_lock = strcmp(contest->kind, "locks") == 0;

    for (int i = 0; i < contest->objects; i++) {
        struct arena *arena = &course->arenas[i];
        const char *name = text(w, "%s%d", contest->name, i);

        assert_int_equal(arena->taken, 0);
        assert_int_equal(arena->first, arena->alone);
        if (is_lock) {
            wait_until(waiter_count(w->a, name) == 0, 2000);
            expect_bool(lock_look(w->a, name), "locked", false);
            /* A grant to a client that has gone, or to a reader, has a token, too. */
            expect_between(lock_look(w->b, name), "fencing_token", arena->last_fence,
                           INT64_MAX);
        } else {
            wait_until(counter_value(w->redis, name) == contest->capacity, 5000);
            wait_until(counter_waiters(w->a, text(w, "%s/%s", contest->kind, name)) == 0, 2000);
            assert_false(redis_has(w->redis, text(w, "{%s}:timeout", name)));
            redis_ok(w->redis, "DEL %s", name);
        }
        if (contest->is_fair)
            expect_no_queue(w->redis, name);
    }
    end_sessions(w, course);
    race_check_remains(w, "redisson_lock_token:", CONTEST_TTL_MS + WINDOW_MS);
}

static void expect_raced(struct course *course)
{
    const struct contest *contest = course->contest;

    print_message("%s: %ld entries, %ld beside others, %ld of several, %ld in order, %ld "
                  "refused, at most %ld ms\n",
                  contest->name, (long)course->entries, (long)course->together,
                  (long)course->several, ordered_entries(course), (long)course->refusals,
                  (long)course->longest_ms);
    for (int i = 0; i < MANNERS; i++)
        print_message("%s%ld", i == 0 ? "manners: " : ", ", (long)course->manners[i]);
    print_message("\n");
    assert_true(has_shown(course));
    assert_true(course->longest_ms < patience_ms(STUCK_MS));
}

static void race(struct world *w, const struct contest *contest)
{
    struct course *course = calloc(1, sizeof(*course));

    assert_non_null(course);
    world_defer(w, free, course);
    course->contest = contest;
    for (int i = 0; i < contest->objects; i++) {
        const char *name = text(w, "%s%d", contest->name, i);

        if (contest->is_fair)
            course->queues[i] = fair_watch_new(w, name);
        if (strcmp(contest->kind, "locks") != 0)
            expect_status(counter_send(w->a, "PUT",
                                       text(w, "%s/%s?permits=%d", contest->kind, name,
                                            contest->capacity),
                                       NULL),
                          201);
    }
    race_run(w, CONTEST_RACERS, SECONDS, contest_round, course, look);
    expect_raced(course);
    expect_left(w, course);
    assert_true(hand_off_ms(w) <= (double)patience_ms(HAND_OFF_MS));
}

static void test_plain(struct world *w)
{
    race(w, &contests[0]);
}

static void test_fair(struct world *w)
{
    race(w, &contests[1]);
}

static void test_read_write(struct world *w)
{
    race(w, &contests[2]);
}

static void test_sets(struct world *w)
{
    race(w, &contests[3]);
}

static void test_permits(struct world *w)
{
    race(w, &contests[4]);
}

static void test_semaphore(struct world *w)
{
    race(w, &contests[5]);
}

int main(void)
{
    static const char *const flags[] = {"--workers", "2", NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_plain), E2E_TEST(test_fair),    E2E_TEST(test_read_write),
        E2E_TEST(test_sets),  E2E_TEST(test_permits), E2E_TEST(test_semaphore),
    };
    struct e2e_plan plan = {.name = "racer", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
