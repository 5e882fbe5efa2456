/* Fair locks among Java clients: the same queue in Redis, byte for byte, and one order for
 * everybody. */
#include "fair.h"

#include <signal.h>

/* GONE_MS: how long the place of a request that is gone may block others, and a poll. */
enum { SOON_MS = 1000, LEASE_MS = 60000, POLL_CAP_MS = 7000, GONE_MS = PLACE_MS + 6000 };

static const char *channel_of(struct world *w, const char *lock, const char *holder)
{
    return text(w, "redisson_lock__channel:%s:%s",
                strchr(lock, '{') != NULL ? lock : text(w, "{%s}", lock), holder);
}

#define expect_about(number, expected)                                                         \
    do {                                                                                       \
        long long number_ = (number), expected_ = (expected);                                  \
        if (number_ < expected_ - allowed_ms(2000) || number_ > expected_ + 2000)              \
            FAIL("%lld is not about %lld", number_, expected_);                                \
    } while (0)

/* What Redisson's own scripts would have left, for names of both sorts. */
static void layout_of(struct world *w, const char *lock)
{
    const char *holder = fair_hold(w->a, lock, "ttl_ms=20000");
    const char *first = token_new(w), *third = token_new(w);
    struct call *call = fair_park(w->b, lock, first, "wait_ms=30000&ttl_ms=20000");
    const char *first_place = fair_place(w->a, lock, first);
    struct listener *first_hears = listener_start(w->redis, channel_of(w, lock, first_place));
    struct listener *java_hears = listener_start(w->redis, channel_of(w, lock, JAVA_A));
    struct listener *plain = listener_start(w->redis, text(w,
                                                           strchr(lock, '{') != NULL
                                                               ? "redisson_lock__channel:%s"
                                                               : "redisson_lock__channel:{%s}",
                                                           lock));

    assert_int_equal(strlen(first_place), 38);
    /* Java behind us sleeps as long as we may take. */
    expect_about(java_fair_lock(w->redis, lock, JAVA_A, LEASE_MS, FAIR_WAIT_MS),
                 20000 + FAIR_WAIT_MS);
    fair_park(w->a, lock, third, "wait_ms=30000");
    expect_queue(w->redis, lock, first_place, JAVA_A, fair_place(w->b, lock, third));
    for (int i = 0; i < 3; i++)
        expect_about(
            fair_time_left(w->redis, lock,
                           redis_str(w->redis, "LINDEX %s %d", fair_queue(w, lock), i)),
            20000 + (i + 1) * FAIR_WAIT_MS);
    assert_in_range(redis_int(w->redis, "TTL %s", fair_queue(w, lock)), 80000, 86400);
    assert_in_range(redis_int(w->redis, "TTL %s", fair_times(w, lock)), 80000, 86400);
    assert_int_equal(redis_int(w->redis, "HLEN %s", lock), 1);
    /* By a front end where the head does not wait, or it would need no message. */
    expect_status(lock_release(w->a, lock, holder), 200);
    assert_string_equal(listener_next(first_hears, SOON_MS), "0");
    expect_status(call_await(call, SOON_MS), 201);
    assert_string_equal(redis_str(w->redis, "HGET %s %s", lock, first_place), "1");
    expect_queue(w->redis, lock, JAVA_A, fair_place(w->b, lock, third));
    expect_about(fair_time_left(w->redis, lock, JAVA_A), 20000 + FAIR_WAIT_MS);
    assert_null(listener_next(java_hears, 50));
    expect_status(lock_release(w->a, lock, first), 200);
    assert_string_equal(listener_next(java_hears, SOON_MS), "0");
    assert_null(listener_next(first_hears, 50));
    assert_null(listener_next(plain, 50));
}

static void test_layout(struct world *w)
{
    layout_of(w, "layout");
    layout_of(w, "layout:{of}:braces");
}

/* In the order in which they came, whoever they are. */
static void test_mixed_order(struct world *w)
{
    const char *holder = fair_hold(w->a, "mixed", NULL), *second = token_new(w);
    const char *fourth = token_new(w);
    struct call *two, *four;

    assert_true(java_fair_lock(w->redis, "mixed", JAVA_A, LEASE_MS, FAIR_WAIT_MS) > 0);
    two = fair_park(w->b, "mixed", second, "wait_ms=50000&ttl_ms=60000");
    assert_true(java_fair_lock(w->redis, "mixed", JAVA_B, LEASE_MS, 20000) > 0);
    four = fair_park(w->a, "mixed", fourth, "wait_ms=50000&ttl_ms=60000");
    assert_true(java_fair_lock(w->redis, "mixed", JAVA_C, LEASE_MS, FAIR_WAIT_MS) > 0);
    assert_false(java_fair_try(w->redis, "mixed", JAVA_HOLDER, LEASE_MS));
    struct listener *b_hears = listener_start(w->redis, channel_of(w, "mixed", JAVA_B));
    struct listener *c_hears = listener_start(w->redis, channel_of(w, "mixed", JAVA_C));

    expect_status(lock_release(w->b, "mixed", holder), 200);
    /* Nobody overtakes the Java head, also while it is on its way. */
    expect_problem(fair_put(w->a, "mixed", token_new(w), NULL), 423, "locked");
    assert_true(java_fair_lock(w->redis, "mixed", JAVA_C, LEASE_MS, FAIR_WAIT_MS) >= 0);
    stays_true(!call_done(two) && !call_done(four), 200);
    assert_int_equal(java_fair_lock(w->redis, "mixed", JAVA_A, LEASE_MS, FAIR_WAIT_MS),
                     JAVA_GOT_IT);
    assert_int_equal(java_fair_lock(w->redis, "mixed", JAVA_A, LEASE_MS, FAIR_WAIT_MS),
                     JAVA_GOT_IT);
    struct reply *r = lock_look(w->a, "mixed");
    expect_str(r, "holders.0.redisson_holder", JAVA_A);
    expect_int(r, "holders.0.hold_count", 2);
    assert_int_equal(java_fair_unlock(w->redis, "mixed", JAVA_A), 0);
    assert_int_equal(java_fair_unlock(w->redis, "mixed", JAVA_B), -1);
    stays_true(!call_done(two), 100);
    int64_t freed = now_ms();
    assert_int_equal(java_fair_unlock(w->redis, "mixed", JAVA_A), 1);
    r = call_await(two, SOON_MS);
    expect_status(r, 201);
    assert_true(r->done_ms - freed < allowed_ms(SOON_MS));
    assert_int_equal(java_fair_lock(w->redis, "mixed", JAVA_B, LEASE_MS, 20000) > 0, 1);
    expect_status(lock_release(w->a, "mixed", second), 200);
    assert_string_equal(listener_next(b_hears, SOON_MS), "0");
    assert_int_equal(java_fair_lock(w->redis, "mixed", JAVA_B, LEASE_MS, 20000), JAVA_GOT_IT);
    stays_true(!call_done(four), 100);
    assert_int_equal(java_fair_unlock(w->redis, "mixed", JAVA_B), 1);
    expect_status(call_await(four, SOON_MS), 201);
    /* A Java client that gives up goes, too. */
    assert_true(java_fair_lock(w->redis, "mixed", JAVA_A, LEASE_MS, FAIR_WAIT_MS) > 0);
    struct call *last = fair_park(w->b, "mixed", token_new(w), "wait_ms=50000");
    java_fair_give_up(w->redis, "mixed", JAVA_A, FAIR_WAIT_MS);
    expect_status(lock_release(w->b, "mixed", fourth), 200);
    assert_string_equal(listener_next(c_hears, SOON_MS), "0");
    assert_int_equal(java_fair_lock(w->redis, "mixed", JAVA_C, LEASE_MS, FAIR_WAIT_MS),
                     JAVA_GOT_IT);
    assert_int_equal(java_fair_unlock(w->redis, "mixed", JAVA_C), 1);
    expect_status(call_await(last, SOON_MS), 201);
    expect_no_queue(w->redis, "mixed");
}

static void test_look_shows_the_queue(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    assert_int_equal(java_fair_lock(w->redis, "seen", JAVA_A, LEASE_MS, FAIR_WAIT_MS),
                     JAVA_GOT_IT);
    assert_true(java_fair_lock(w->redis, "seen", JAVA_B, LEASE_MS, FAIR_WAIT_MS) > 0);
    fair_park(w->a, "seen", token, "wait_ms=30000&note=me");
    r = lock_look(w->b, "seen");
    expect_str(r, "kind", "fair");
    expect_str(r, "holders.0.redisson_holder", JAVA_A);
    expect_int(r, "waiter_count", 2);
    expect_str(r, "waiters.0.redisson_holder", JAVA_B);
    expect_absent(r, "waiters.0.lease_id");
    expect_str(r, "waiters.1.note", "me");
    expect_between(r, "waiters.1.remaining_ms", 1, 30000);
    expect_between(r, "waiters.1.waited_ms", 0, 30000);
    expect_true(r, strncmp(fair_place(w->a, "seen", token), reply_str(r, "waiters.1.lease_id"),
                           36) == 0);
    redis_ok(w->redis, "DEL seen");
    r = fair_put(w->a, "seen", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.redisson_holder", JAVA_B);
    r = lock_look(w->a, "seen");
    expect_bool(r, "locked", false);
    expect_str(r, "kind", "fair");
    expect_int(r, "waiter_count", 2);
}

/* Redisson's asynchronous API takes off too much when it gives up: the next caller throws live
 * waiters out. Ours stay while they ask, and come back when they are out all the same. */
static void test_thrown_out_by_java(struct world *w)
{
    const char *holder = fair_hold(w->a, "thrown", NULL), *token = token_new(w);
    struct call *call, *behind;

    assert_true(java_fair_lock(w->redis, "thrown", JAVA_A, LEASE_MS, 10000) > 0);
    call = fair_park(w->b, "thrown", token, "wait_ms=50000&ttl_ms=60000");
    behind = fair_park(w->a, "thrown", token_new(w), "wait_ms=50000");
    const char *place = fair_place(w->a, "thrown", token);
    java_fair_give_up(w->redis, "thrown", JAVA_A, FAIR_WAIT_MS);
    java_fair_give_up(w->redis, "thrown", JAVA_A, FAIR_WAIT_MS);
    redis_ok(w->redis, "ZADD %s 1 %s", fair_times(w, "thrown"), place);
    /* Another one of ours does not throw it out. */
    expect_problem(fair_put(w->a, "thrown", token_new(w), NULL), 423, "locked");
    assert_string_equal(redis_str(w->redis, "LINDEX %s 0", fair_queue(w, "thrown")), place);
    assert_true(fair_time_left(w->redis, "thrown", place) > FAIR_WAIT_MS / 2);
    /* No poll of ours in between, which would give the place time again. */
    child_signal(w->a->child, SIGSTOP);
    child_signal(w->b->child, SIGSTOP);
    redis_ok(w->redis, "ZADD %s 1 %s", fair_times(w, "thrown"), place);
    bool has_lock = java_fair_try(w->redis, "thrown", JAVA_B, LEASE_MS);
    long long left = queue_len(w->redis, "thrown");
    child_signal(w->a->child, SIGCONT);
    child_signal(w->b->child, SIGCONT);
    assert_false(has_lock);
    assert_int_equal(left, 1);
    wait_until(queue_len(w->redis, "thrown") == 2, POLL_CAP_MS);
    expect_queue(w->redis, "thrown",
                 redis_str(w->redis, "LINDEX %s 0", fair_queue(w, "thrown")), place);
    expect_status(lock_release(w->a, "thrown", holder), 200);
    expect_status(call_await(behind, SOON_MS), 201);
    expect_status(force_unlock(w->a, "thrown"), 200);
    expect_status(call_await(call, SOON_MS), 201);
    expect_no_queue(w->redis, "thrown");
}

/* A lock that is held for hours: the times that Redisson gave would be over. */
static void test_long_held(struct world *w)
{
    const char *holder = fair_hold(w->a, "long", "ttl_ms=86400000");
    const char *tokens[3], *places[3];
    struct call *calls[3];

    for (int i = 0; i < 3; i++) {
        tokens[i] = token_new(w);
        calls[i] = fair_park(i % 2 ? w->a : w->b, "long", tokens[i],
                             "wait_ms=50000&ttl_ms=60000");
        places[i] = fair_place(w->a, "long", tokens[i]);
        /* As long after it came as Java's patience for one lasts. */
        redis_ok(w->redis, "ZADD %s %lld %s", fair_times(w, "long"),
                 (long long)epoch_ms() + i * 1000 + 9000, places[i]);
    }
    wait_until(fair_time_left(w->redis, "long", places[0]) > FAIR_WAIT_MS - 8000 &&
                   fair_time_left(w->redis, "long", places[1]) > 2 * FAIR_WAIT_MS - 8000 &&
                   fair_time_left(w->redis, "long", places[2]) > 3 * FAIR_WAIT_MS - 8000,
               POLL_CAP_MS);
    /* Then those ahead leave, and take off what they had added: nobody gets short of time. */
    expect_status(lock_release(w->a, "long", holder), 200);
    for (int i = 0; i < 3; i++) {
        expect_status(call_await(calls[i], SOON_MS), 201);
        assert_false(java_fair_try(w->redis, "long", JAVA_A, LEASE_MS));
        assert_int_equal(queue_len(w->redis, "long"), 2 - i);
        for (int other = i + 1; other < 3; other++)
            assert_true(fair_time_left(w->redis, "long", places[other]) > FAIR_WAIT_MS / 2);
        expect_status(lock_release(w->b, "long", tokens[i]), 200);
    }
}

/* A lock that was held for long: a Java client behind a place of ours, which is kept by other
 * means than its time, has time left when its turn comes, and is told when it is thrown out. */
static void test_java_behind_a_long_wait(struct world *w)
{
    const char *holder = fair_hold(w->a, "behind", NULL), *token = token_new(w);
    struct call *call = fair_park(w->b, "behind", token, "wait_ms=50000&ttl_ms=60000");

    assert_true(java_fair_lock(w->redis, "behind", JAVA_A, LEASE_MS, FAIR_WAIT_MS) > 0);
    assert_true(java_fair_lock(w->redis, "behind", JAVA_B, LEASE_MS, FAIR_WAIT_MS) > 0);
    struct listener *a_hears = listener_start(w->redis, channel_of(w, "behind", JAVA_A));
    struct listener *b_hears = listener_start(w->redis, channel_of(w, "behind", JAVA_B));
    redis_ok(w->redis, "ZADD %s %lld %s 1 %s", fair_times(w, "behind"),
             (long long)epoch_ms() + FAIR_WAIT_MS - 70000, JAVA_A, JAVA_B);
    expect_status(lock_release(w->a, "behind", holder), 200);
    expect_status(call_await(call, SOON_MS), 201);
    expect_about(fair_time_left(w->redis, "behind", JAVA_A), FAIR_WAIT_MS);
    expect_about(fair_time_left(w->redis, "behind", JAVA_B), FAIR_WAIT_MS);
    redis_ok(w->redis, "ZADD %s 1 %s", fair_times(w, "behind"), JAVA_A);
    expect_status(lock_release(w->b, "behind", token), 200);
    assert_string_equal(listener_next(a_hears, SOON_MS), "0");
    assert_string_equal(listener_next(b_hears, SOON_MS), "0");
    expect_queue(w->redis, "behind", JAVA_B);
}

/* A lease that gets shorter is told to the head as the end of one is; but the lock is held. */
static void test_shorter_lease_with_java_head(struct world *w)
{
    enum { LONG_MS = 3600000, SHORT_MS = 600000 };
    const char *holder = fair_hold(w->a, "shorter", "ttl_ms=3600000");

    assert_true(java_fair_lock(w->redis, "shorter", JAVA_A, LEASE_MS, FAIR_WAIT_MS) > 0);
    struct listener *hears = listener_start(w->redis, channel_of(w, "shorter", JAVA_A));
    expect_status(lock_renew(w->b, "shorter", holder, "ttl_ms=600000"), 200);
    assert_string_equal(listener_next(hears, SOON_MS), "0");
    expect_about(fair_time_left(w->redis, "shorter", JAVA_A), LONG_MS + FAIR_WAIT_MS);
    assert_in_range(java_fair_lock(w->redis, "shorter", JAVA_A, LEASE_MS, FAIR_WAIT_MS), 1,
                    SHORT_MS);
    /* When it is free, the head gets the time of one waiter. */
    expect_status(lock_release(w->b, "shorter", holder), 200);
    assert_string_equal(listener_next(hears, SOON_MS), "0");
    expect_about(fair_time_left(w->redis, "shorter", JAVA_A), FAIR_WAIT_MS);
}

/* Redisson's multi lock sets the TTL of all keys of a fair lock to that of its lease: the queue
 * may not end with it. */
static void test_queue_with_a_short_ttl(struct world *w)
{
    enum { SHORT_MS = 60000 };
    const char *queue = fair_queue(w, "short-keys"), *times = fair_times(w, "short-keys");

    fair_hold(w->a, "short-keys", "ttl_ms=600000");
    fair_park(w->a, "short-keys", token_new(w), "wait_ms=50000");
    fair_park(w->b, "short-keys", token_new(w), "wait_ms=50000");
    redis_ok(w->redis, "PEXPIRE %s %d", queue, SHORT_MS);
    redis_ok(w->redis, "PEXPIRE %s %d", times, SHORT_MS);
    wait_until(redis_int(w->redis, "TTL %s", queue) > 80000 &&
                   redis_int(w->redis, "TTL %s", times) > 80000,
               POLL_CAP_MS);
}

/* Java clients wait for longer than rlockd counts for one of them, and take off as much when
 * their turn comes: those behind have time left then. */
static void test_long_java_wait_ahead(struct world *w)
{
    enum { JAVA_WAIT_MS = 1200000, LATER_MS = 60000 };
    const char *holder = fair_hold(w->a, "patient", NULL), *token = token_new(w);

    assert_true(java_fair_lock(w->redis, "patient", JAVA_A, LEASE_MS, JAVA_WAIT_MS) > 0);
    struct call *call = fair_park(w->b, "patient", token, "wait_ms=50000&ttl_ms=60000");
    const char *place = fair_place(w->a, "patient", token);
    struct listener *hears = listener_start(w->redis, channel_of(w, "patient", place));
    long long behind_ms = LEASE_MS + JAVA_WAIT_MS + FAIR_WAIT_MS;
    expect_about(fair_time_left(w->redis, "patient", place), behind_ms);
    assert_true(java_fair_lock(w->redis, "patient", JAVA_B, LEASE_MS, FAIR_WAIT_MS) > 0);
    /* Another request of ours does not lower the time. */
    fair_put(w->a, "patient", token, "wait_ms=10");
    expect_about(fair_time_left(w->redis, "patient", place), behind_ms);
    for (int i = 0; i < 2; i++)
        redis_ok(w->redis, "ZINCRBY %s %d %s", fair_times(w, "patient"), -LATER_MS,
                 i == 0 ? place : JAVA_B);
    redis_ok(w->redis, "DEL patient");
    assert_int_equal(java_fair_lock(w->redis, "patient", JAVA_A, LEASE_MS, JAVA_WAIT_MS),
                     JAVA_GOT_IT);
    assert_int_equal(java_fair_unlock(w->redis, "patient", JAVA_A), 1);
    assert_string_equal(listener_next(hears, SOON_MS), "0");
    expect_status(call_await(call, SOON_MS), 201);
    expect_queue(w->redis, "patient", JAVA_B);
    assert_true(fair_time_left(w->redis, "patient", JAVA_B) > 0);
    expect_status(lock_release(w->a, "patient", holder), 410);
}

/* A Java client that waits behind places whose requests are gone, and hears its messages. */
struct behind {
    const char *lock, *holder, *ttl;
    bool is_released;
    struct listener *hears;
    int64_t from_ms; /* when the lock got free */
};

/* The Java client tries when it is told to, as Redisson does: it gets in before `GONE_MS`. */
static void java_gets_in(struct world *w, const struct behind *behind)
{
    int64_t until_ms = behind->from_ms + patience_ms(GONE_MS);
    const char *message;

    do {
        int64_t left_ms = until_ms - now_ms();
        message = left_ms > 0 ? listener_next(behind->hears, left_ms) : NULL;
        if (message == NULL)
            FAIL("a Java client was not told that %s is free", behind->lock);
        assert_string_equal(message, "0");
    } while (java_fair_lock(w->redis, behind->lock, JAVA_A, LEASE_MS, FAIR_WAIT_MS) !=
             JAVA_GOT_IT);
    expect_no_queue(w->redis, behind->lock);
}

/* Only Java clients wait behind the places of an answered request, and of a front end that was
 * killed: no request is left that would remove the places. Front ends that start meanwhile do
 * not know for how long Redis was away, and do not keep others from the visit. */
static void test_java_behind_gone_requests(struct world *w)
{
    struct front *doomed = front_start(w, "--redis", w->redis->url, NULL);
    struct behind all[] = {{.lock = "answered", .ttl = "ttl_ms=600000", .is_released = true},
                           {.lock = "killed", .ttl = "ttl_ms=600000", .is_released = true},
                           {.lock = "lapsed", .ttl = "ttl_ms=9000"}};
    enum { COUNT = sizeof(all) / sizeof(all[0]), STARTED = 4 };
    struct call *dead;

    for (int i = 0; i < COUNT; i++)
        all[i].holder = fair_hold(w->a, all[i].lock, all[i].ttl);
    expect_problem(fair_put(w->b, "answered", token_new(w), "wait_ms=50"), 423, "locked");
    expect_problem(fair_put(w->b, "lapsed", token_new(w), "wait_ms=50"), 423, "locked");
    dead = fair_park(doomed, "killed", token_new(w), "wait_ms=50000");
    fair_park(doomed, "killed", token_new(w), "wait_ms=50000");
    for (int i = 0; i < COUNT; i++) {
        assert_true(java_fair_lock(w->redis, all[i].lock, JAVA_A, LEASE_MS, FAIR_WAIT_MS) > 0);
        all[i].hears = listener_start(w->redis, channel_of(w, all[i].lock, JAVA_A));
    }
    front_kill(doomed);
    call_await(dead, 5000);
    for (int i = 0; i < COUNT; i++) {
        if (all[i].is_released)
            expect_status(lock_release(w->a, all[i].lock, all[i].holder), 200);
        all[i].from_ms = now_ms();
    }
    nap_ms(PLACE_MS - 4000);
    for (int i = 0; i < STARTED; i++)
        front_start(w, "--redis", w->redis->url, NULL);
    for (int i = 0; i < COUNT; i++)
        java_gets_in(w, &all[i]);
    wait_until(fair_visit(w, "answered") == NULL, GONE_MS);
    fair_park(w->b, "answered", token_new(w), "wait_ms=50000");
    wait_until(fair_visit(w, "answered") != NULL, SOON_MS);
}

/* One script asks for a visit to a lock that many wait for: a second one would bring the visit
 * forward by 1 ms. */
static void test_one_visit_for_many_waiters(struct world *w)
{
    fair_hold(w->a, "many", NULL);
    fair_park(w->b, "many", token_new(w), "wait_ms=50000");
    wait_until(fair_visit(w, "many") != NULL, SOON_MS);
    const char *at = fair_visit(w, "many");
    assert_in_range(atoll(at), epoch_ms() + PLACE_MS - patience_ms(3000),
                    epoch_ms() + PLACE_MS);
    for (int i = 0; i < 5; i++) {
        fair_park(w->b, "many", token_new(w), "wait_ms=50000");
        expect_problem(fair_put(w->b, "many", token_new(w), "wait_ms=10"), 423, "locked");
    }
    assert_string_equal(fair_visit(w, "many"), at);
}

/* A Java client that died at the head of the queue: Redisson's own clients ask in a tight loop
 * until its time is over; ours with patience, and the next one gets in then. */
static void test_dead_java_head(struct world *w)
{
    enum { WAITERS = 10, WATCHED_MS = 3000, ROUNDS_MAX = 2 * 2 * WATCHED_MS / 500 };
    struct call *calls[WAITERS];

    assert_int_equal(java_fair_lock(w->redis, "dead", JAVA_B, LEASE_MS, FAIR_WAIT_MS),
                     JAVA_GOT_IT);
    assert_true(java_fair_lock(w->redis, "dead", JAVA_A, LEASE_MS, 5000) > 0);
    for (int i = 0; i < WAITERS; i++)
        calls[i] = fair_park(i % 2 ? w->a : w->b, "dead", token_new(w), "wait_ms=50000");
    long long over = epoch_ms() + 5000;
    redis_ok(w->redis, "ZADD %s %lld %s", fair_times(w, "dead"), over, JAVA_A);
    assert_int_equal(java_fair_unlock(w->redis, "dead", JAVA_B), 1);
    scripts_count_from_now(w->redis);
    nap_ms(WATCHED_MS);
    assert_in_range(scripts_about(w->redis, "dead"), 0, ROUNDS_MAX + 3 * WAITERS);
    struct reply *r = call_await(calls[0], 10000);
    expect_status(r, 201);
    assert_true(epoch_ms() >= over);
    assert_true(epoch_ms() <= over + allowed_ms(SOON_MS));
    assert_false(call_done(calls[1]));
    assert_int_equal(queue_len(w->redis, "dead"), WAITERS - 1);
}

/* An entry without a time, which blocks Redisson's own clients for good, gets one. */
static void test_entries_without_a_time(struct world *w)
{
    const char *holder = fair_hold(w->a, "timeless", NULL), *token = token_new(w);
    struct call *call;

    redis_ok(w->redis, "RPUSH %s %s", fair_queue(w, "timeless"), JAVA_A);
    call = fair_park(w->b, "timeless", token, "wait_ms=50000&ttl_ms=60000");
    assert_true(fair_time_left(w->redis, "timeless", JAVA_A) > FAIR_WAIT_MS - 5000);
    expect_status(lock_release(w->a, "timeless", holder), 200);
    stays_true(!call_done(call), 200);
    redis_ok(w->redis, "ZADD %s 1 %s", fair_times(w, "timeless"), JAVA_A);
    expect_status(call_await(call, POLL_CAP_MS), 201);
    expect_no_queue(w->redis, "timeless");
    /* Ours that nobody asks for go at once. */
    redis_ok(w->redis, "RPUSH %s 11111111-1111-5111-8111-111111111111:0",
             fair_queue(w, "timeless"));
    expect_status(lock_release(w->a, "timeless", token), 200);
    expect_status(fair_put(w->b, "timeless", token_new(w), NULL), 201);
    expect_no_queue(w->redis, "timeless");
}

/* Either of the two keys is gone, or a name stands in one of them only. */
static void test_half_a_queue(struct world *w)
{
    const char *holder = fair_hold(w->a, "half", NULL), *first = token_new(w);
    struct call *one = fair_park(w->a, "half", first, "wait_ms=50000&ttl_ms=60000");
    const char *one_place = fair_place(w->a, "half", first), *second = token_new(w);
    struct call *two = fair_park(w->b, "half", second, "wait_ms=50000&ttl_ms=60000");
    const char *two_place = fair_place(w->a, "half", second);

    redis_ok(w->redis, "DEL %s", fair_times(w, "half"));
    wait_until(redis_int(w->redis, "ZCARD %s", fair_times(w, "half")) == 2, POLL_CAP_MS);
    expect_queue(w->redis, "half", one_place, two_place);
    redis_ok(w->redis, "DEL %s", fair_queue(w, "half"));
    redis_ok(w->redis, "RPUSH %s %s", fair_queue(w, "half"), JAVA_A);
    redis_ok(w->redis, "ZADD %s %lld %s", fair_times(w, "half"), (long long)epoch_ms() + 60000,
             JAVA_A);
    wait_until(queue_len(w->redis, "half") == 3, POLL_CAP_MS);
    java_fair_give_up(w->redis, "half", JAVA_A, 0);
    redis_ok(w->redis, "DEL half");
    expect_status(lock_release(w->a, "half", holder), 410);
    struct patience patience = patience_of(POLL_CAP_MS);
    while (!call_done(one) && !call_done(two) && !patience_ends(&patience))
        nap_ms(5);
    expect_status(force_unlock(w->a, "half"), 200);
    expect_status(call_await(one, SOON_MS), 201);
    expect_status(call_await(two, SOON_MS), 201);
    expect_no_queue(w->redis, "half");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_layout),
        E2E_TEST(test_mixed_order),
        E2E_TEST(test_look_shows_the_queue),
        E2E_TEST(test_thrown_out_by_java),
        E2E_TEST(test_long_held),
        E2E_TEST(test_java_behind_a_long_wait),
        E2E_TEST(test_shorter_lease_with_java_head),
        E2E_TEST(test_queue_with_a_short_ttl),
        E2E_TEST(test_long_java_wait_ahead),
        E2E_TEST(test_java_behind_gone_requests),
        E2E_TEST(test_one_visit_for_many_waiters),
        E2E_TEST(test_dead_java_head),
        E2E_TEST(test_entries_without_a_time),
        E2E_TEST(test_half_a_queue),
    };
    struct e2e_plan plan = {.name = "fair-java", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
