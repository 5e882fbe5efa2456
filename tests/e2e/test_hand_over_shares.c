/* The shares of a contested lock or permit that releases hand over: clients of both workers of
 * a front end, of two front ends, pollers and Java clients have their turns, and never two at
 * once. */
#include "counters.h"
#include "fair.h"
#include "racers.h"

#include <unistd.h>

enum { RECOVER_MS = 6000 };

static double hand_overs(struct front *fe)
{
    return front_metric(fe, "rlockd_hand_overs_total", NULL);
}

static double passed_releases(struct front *fe)
{
    return front_metric(fe, "rlockd_passed_releases_total", NULL);
}

static const char *const contested[] = {"lock", "fair", "write", "permit"};

enum {
    SIDE_A,
    SIDE_B,
    SIDE_POLLER, /* on the first front end, without waiting */
    SIDE_JAVA,
    SIDES,
    RACERS = 8,
    SECONDS = 3,
    TURNS_MIN = 40,
    SHARE_MIN = 5 /* per cent of the turns; on an idle machine 30 and more */
};

struct contest {
    const char *kind;
    bool is_permit;
    int permits;              /* of a semaphore; 0: one */
    const char *path, *query; /* of an acquire: the start of its query */
    bool has_b, has_poller, has_java, hangs_up;
    int java_wakes_us; /* from the unlock message to the attempt of a Java client */
    int java_percent;  /* of the turns, at least */
    struct java *java; /* of each racer */
    _Atomic int inside;
    volatile long counter;
    _Atomic long turns[SIDES], hung_up;
    json_int_t last_fence;
};

/* A thread of a Java client, as RLock.lock() acts: it tries, and at each unlock message again.
 */
struct java {
    redisContext *db, *listener;
};

static void enter(struct racer *racer, int side, json_int_t fence)
{
    struct contest *contest = racer->course;
    int most = contest->permits > 0 ? contest->permits : 1;
    int others = atomic_fetch_add(&contest->inside, 1);
    long seen = contest->counter;

    if (others >= most || (fence != 0 && fence <= contest->last_fence))
        racer_violation(racer, "%d others inside, fencing token %lld after %lld", others,
                        (long long)fence, (long long)contest->last_fence);
    if (fence != 0)
        contest->last_fence = fence;
    racer_dawdle(racer);
    if (contest->permits <= 1)
        contest->counter = seen + 1;
    contest->turns[side]++;
    atomic_fetch_sub(&contest->inside, 1);
}

static void take_turn(struct racer *racer, int side)
{
    struct contest *contest = racer->course;
    char path[120], header[64], token[UUID_SIZE];
    bool is_hasty = contest->hangs_up && racer_random(racer, 4) == 0;
    /* An answer that the kernel took counts as delivered: then the lease has to end itself. */
    int ttl_ms = is_hasty ? 2000 : 20000;
    int wait_ms = side == SIDE_POLLER ? 0 : 20000;

    uuid_make(token);
    snprintf(header, sizeof(header), "Lease-Token: %s", token);
    snprintf(path, sizeof(path), "%s%swait_ms=%d&ttl_ms=%d", contest->path, contest->query,
             wait_ms, ttl_ms);
    long status = racer_ask(racer, "PUT", path, header,
                            is_hasty ? 1 + racer_random(racer, 8) : racer_patience());
    if (status == 0 && is_hasty) {
        contest->hung_up++;
        return;
    }
    if (status == 423 && side == SIDE_POLLER)
        return;
    if (status != 201) {
        racer_odd(racer, "a PUT", status);
        return;
    }
    enter(racer, side, contest->is_permit ? 0 : racer_answered(racer, "fencing_token"));
    status = racer_ask(racer, "DELETE", contest->path, header, racer_patience());
    if (status != 200)
        racer_odd(racer, "a DELETE", status);
}

static struct redisContext *java_connect(struct racer *racer, int64_t timeout_ms)
{
    redisContext *context = redisConnectUnix(racer->fe->world->redis->socket);

    if (context == NULL || context->err != 0)
        racer_odd(racer, "a connection to Redis", 0);
    else
        redisSetTimeout(context, (struct timeval){.tv_sec = timeout_ms / 1000});
    return context;
}

static long long java_run(struct racer *racer, struct java *java, const char *script)
{
    int number = (int)(racer - racer->race->first);
    redisReply *reply = redisCommand(java->db,
                                     "EVAL %s 1 contested 0b7dd2f4-6d7b-4d2f-9b39-"
                                     "4a0f9a6a2f4e:%d",
                                     script, number);
    long long result = reply != NULL && reply->type == REDIS_REPLY_INTEGER ? reply->integer
                                                                           : -1;

    if (result < 0)
        racer_odd(racer, "a script of the Java client", result);
    freeReplyObject(reply);
    return result;
}

/* The commands of a Java client for a lock of this kind. */
static const struct java_side {
    const char *kind, *channel, *lock, *unlock;
} java_sides[] = {
    {"lock", "redisson_lock__channel:{contested}",
     "if redis.call('exists', KEYS[1]) == 1 then return 0 end "
     "redis.call('hincrby', KEYS[1], ARGV[1], 1) "
     "redis.call('pexpire', KEYS[1], 30000) return 1",
     "redis.call('hdel', KEYS[1], ARGV[1]) "
     "return redis.call('publish', 'redisson_lock__channel:{contested}', '0')"},
    {"write", "redisson_rwlock:{contested}",
     "if redis.call('exists', KEYS[1]) == 1 then return 0 end "
     "redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1) "
     "redis.call('pexpire', KEYS[1], 30000) return 1",
     "redis.call('del', KEYS[1]) "
     "return redis.call('publish', 'redisson_rwlock:{contested}', '1')"},
};

static void java_take_turn(struct racer *racer, struct java *java)
{
    const struct contest *contest = racer->course;
    bool is_write = strcmp(contest->kind, "write") == 0;
    const struct java_side *side = &java_sides[is_write];
    void *message;

    if (java->db == NULL) {
        java->db = java_connect(racer, patience_ms(5000));
        java->listener = java_connect(racer, 1000);
        freeReplyObject(redisCommand(java->listener, "SUBSCRIBE %s", side->channel));
    }
    for (int tries = 0; java_run(racer, java, side->lock) == 0; tries++) {
        if (tries > 1000)
            return;
        if (redisGetReply(java->listener, &message) == REDIS_OK)
            freeReplyObject(message);
        else
            java->listener->err = 0; /* nothing came for a second: the connection is fine */
        usleep((useconds_t)contest->java_wakes_us);
    }
    enter(racer, SIDE_JAVA, 0);
    java_run(racer, java, side->unlock);
}

/* ---- tests of shares ---- */

static void take_turn_of_side(struct racer *racer)
{
    struct contest *contest = racer->course;
    struct world *w = racer->fe->world;
    int number = (int)(racer - racer->race->first);

    if (contest->has_java && number % 2 == 1) {
        java_take_turn(racer, &contest->java[number]);
    } else if (contest->has_poller && number == 0) {
        racer->fe = w->a;
        take_turn(racer, SIDE_POLLER);
    } else if (contest->has_b && number % 2 == 1) {
        racer->fe = w->b;
        take_turn(racer, SIDE_B);
    } else {
        racer->fe = w->a;
        take_turn(racer, SIDE_A);
    }
}

/* A semaphore of one permit, or a lock that nobody holds. */
static void make_contested(struct world *w, struct contest *contest)
{
    redis_ok(w->redis, "FLUSHALL");
    contest->is_permit = strcmp(contest->kind, "permit") == 0;
    contest->path = contest->is_permit ? "permit-semaphores/contested/permit"
                                       : "locks/contested";
    contest->query = contest->is_permit ? "?" : text(w, "?kind=%s&", contest->kind);
    if (contest->is_permit)
        redis_ok(w->redis, "SET contested %d", contest->permits > 0 ? contest->permits : 1);
}

/* A permit of a client that hung up too late has to end; it counts as free, though in Redis the
 * next who asks for it takes it back. */
static bool is_free(struct world *w, const struct contest *contest)
{
    if (contest->is_permit) {
        struct reply *r = counter_send(w->a, "GET", "permit-semaphores/contested", NULL);

        return reply_int(r, "available") == (contest->permits > 0 ? contest->permits : 1);
    }
    return waiter_count(w->a, "contested") == 0 && !redis_has(w->redis, "contested");
}

static long all_turns(const struct contest *contest)
{
    long sum = 0;

    for (int side = 0; side < SIDES; side++)
        sum += contest->turns[side];
    return sum;
}

static bool has_share(const struct contest *contest, int side, int percent)
{
    return contest->turns[side] * 100 >= all_turns(contest) * percent;
}

/* `more`: per cent above the shares that are asked for. */
static bool has_shown(const struct contest *contest, int more)
{
    return all_turns(contest) >= TURNS_MIN && (!contest->hangs_up || contest->hung_up > 0) &&
           (!contest->has_poller || contest->turns[SIDE_POLLER] > 0) &&
           has_share(contest, SIDE_A, SHARE_MIN + more) &&
           (!contest->has_b || has_share(contest, SIDE_B, SHARE_MIN + more)) &&
           (!contest->has_java || has_share(contest, SIDE_JAVA, contest->java_percent + more));
}

/* The race goes on until each side has its share, for a machine that stood still may have had
 * turns of one side only. */
static bool look(void *course)
{
    nap_ms(20);
    return has_shown(course, 1);
}

static void run_contest(struct world *w, struct contest *contest)
{
    double before = hand_overs(w->a);

    make_contested(w, contest);
    race_run(w, RACERS, SECONDS, take_turn_of_side, contest, look);
    print_message("%s: turns: %ld on A, %ld on B, %ld of the poller, %ld of Java; %ld hung "
                  "up; %.0f handed over\n",
                  contest->kind, (long)contest->turns[SIDE_A], (long)contest->turns[SIDE_B],
                  (long)contest->turns[SIDE_POLLER], (long)contest->turns[SIDE_JAVA],
                  (long)contest->hung_up, hand_overs(w->a) - before);
    assert_int_equal(contest->counter, contest->permits <= 1 ? all_turns(contest) : 0);
    assert_true(has_shown(contest, 0));
    wait_until(is_free(w, contest), RECOVER_MS);
    expect_no_queue(w->redis, "contested");
}

/* Clients that hang up at any moment, on one front end alone, whose `count` grows in each
 * contest; in that of a read/write lock only if `writes`. */
static void run_hasty_contests(struct world *w, double (*count)(struct front *fe), bool writes)
{
    for (size_t i = 0; i < COUNT_OF(contested); i++) {
        struct contest contest = {.kind = contested[i], .hangs_up = true};
        double before = count(w->a);

        run_contest(w, &contest);
        assert_true(count(w->a) > before || (!writes && strcmp(contested[i], "write") == 0));
    }
}

static void test_hasty_clients_leave_nothing(struct world *w)
{
    run_hasty_contests(w, hand_overs, true);
}

static void use_one_worker(void *front)
{
    struct front *one_worker = front;

    one_worker->world->a = one_worker;
}

/* A front end with workers takes the first one's place until the test ends. */
static void use_workers(struct world *w, const char *count)
{
    world_defer(w, use_one_worker, w->a);
    w->a = front_start(w, "--redis", w->redis->url, "--workers", count, NULL);
}

/* The same, and the releases of each worker find the waiters of the other one. */
static void test_two_workers_share(struct world *w)
{
    use_workers(w, "2");
    run_hasty_contests(w, passed_releases, false);
}

/* A client that polls gets the lock now and then, however many clients wait. */
static void test_a_poller_does_not_starve(struct world *w)
{
    struct contest contest = {.kind = "lock", .has_poller = true};

    run_contest(w, &contest);
}

static void test_two_front_ends_share(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(contested); i++) {
        struct contest contest = {.kind = contested[i], .has_b = true};

        run_contest(w, &contest);
    }
}

/* However the workers of one front end pass the releases on to each other, the other front end
 * has its turn. */
static void test_two_workers_share_with_a_front_end(struct world *w)
{
    use_workers(w, "2");
    for (size_t i = 0; i < COUNT_OF(contested); i++) {
        struct contest contest = {.kind = contested[i], .has_b = true};

        run_contest(w, &contest);
    }
    print_message("%.0f releases passed on\n", passed_releases(w->a));
}

/* Java clients have at least so many per cent of the turns. */
static void share_with_java(struct world *w, const char *kind, int wakes_us, int percent)
{
    struct java java[RACERS] = {{0}};
    struct contest contest = {.kind = kind,
                              .has_java = true,
                              .java = java,
                              .java_wakes_us = wakes_us,
                              .java_percent = percent};

    run_contest(w, &contest);
    for (int i = 0; i < RACERS; i++) {
        if (java[i].db == NULL)
            continue;
        redisFree(java[i].db);
        redisFree(java[i].listener);
    }
}

static void test_java_clients_share(struct world *w)
{
    skip_on_masters(w); /* its Java client has a connection to one node */
    for (size_t k = 0; k < COUNT_OF(java_sides); k++)
        share_with_java(w, java_sides[k].kind, 0, SHARE_MIN);
}

/* A worker that yields the lock to Java clients does not yield to the other workers, which are
 * quicker than a Java client: it would have a turn of a hundred. It has every fourth, and on a
 * busy machine, where it wakes up late, every fifth. */
static void test_java_clients_share_with_workers(struct world *w)
{
    enum { WAKES_US = 300, PERCENT = 12 };
    skip_on_masters(w);
    use_workers(w, "3");
    share_with_java(w, "lock", WAKES_US, PERCENT);
}

/* Releases that come at the same time each find a waiter of its own. */
static void test_several_permits_are_handed_over(struct world *w)
{
    struct contest contest = {.kind = "permit", .permits = 3};
    double before = hand_overs(w->a);

    run_contest(w, &contest);
    assert_true((hand_overs(w->a) - before) * 2 > (double)contest.turns[SIDE_A]);
    contest = (struct contest){.kind = "permit", .permits = 3, .has_b = true};
    run_contest(w, &contest);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_hasty_clients_leave_nothing),
        E2E_TEST(test_two_workers_share),
        E2E_TEST(test_a_poller_does_not_starve),
        E2E_TEST(test_two_front_ends_share),
        E2E_TEST(test_two_workers_share_with_a_front_end),
        E2E_TEST(test_java_clients_share),
        E2E_TEST(test_java_clients_share_with_workers),
        E2E_TEST(test_several_permits_are_handed_over),
    };
    struct e2e_plan plan = {.name = "shares of hand-overs", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
