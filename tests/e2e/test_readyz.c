/* /readyz says what is wrong with Redis, also where most requests would still be served. */
#include "harness.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOON_MS = 8000 };

#define EVERY_RIGHT "on >pw ~* &* +@all"

static bool is_unready_for(struct front *fe, const char *word)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *detail = reply_str(r, "detail");

    return r->status == 503 && detail != NULL && strstr(detail, word) != NULL;
}

static void test_permissions(struct world *w)
{
    static const struct {
        const char *rights, *word;
    } rows[] = {
        {EVERY_RIGHT " -subscribe", "subscribe"},
        {EVERY_RIGHT " -eval", "eval"},
        {EVERY_RIGHT " -evalsha", "evalsha"},
        {EVERY_RIGHT " -zadd", "permission"},
    };
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *user = text(w, "user%zu", i);
        struct front *fe;

        redis_ok(redis, text(w, "ACL SETUSER %s %s", user, rows[i].rights));
        fe = front_launch(w, "--redis", proxy_url(proxy, text(w, "%s:pw@", user), ""), NULL);
        wait_until(is_unready_for(fe, rows[i].word), SOON_MS);
        stays_true(!front_ready(fe), 500);
        redis_ok(redis, text(w, "ACL SETUSER %s %s", user, EVERY_RIGHT));
        wait_until(front_ready(fe), SOON_MS);
        front_stop(fe);
    }
}

/* A short loss of the subscriber is no reason to send clients elsewhere. */
static void test_lost_subscriber(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);

    redis_ok(w->redis, "CLIENT KILL TYPE pubsub");
    stays_true(front_ready(fe), 1000);
}

/* However often it is lost: a connection by which messages came starts anew at once. */
static void test_subscriber_that_is_lost_again_and_again(struct world *w)
{
    enum { LOSSES = 16, ALL_MS = 3000 };
    struct redis *redis = redis_start(w, NULL);
    front_start(w, "--redis", redis->url, NULL);
    int64_t began_ms = now_ms();

    for (int i = 0; i < LOSSES; i++) {
        wait_until(redis_int(redis, "CLIENT KILL TYPE pubsub") >= 1, SOON_MS);
    }
    assert_true(now_ms() - began_ms < patience_ms(ALL_MS) + late_ms());
}

/* As with a full disk: Redis takes no writes that it cannot save. */
static void test_redis_that_cannot_save(struct world *w)
{
    skip_on_masters(w); /* ready while some master serves */
    struct redis *redis = redis_start(w, NULL);
    const char *obstacle = text(w, "%s/dump.rdb", redis->dir);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);

    redis_ok(redis, "CONFIG SET save %s", "3600 1000000");
    unlink(obstacle);
    assert_int_equal(mkdir(obstacle, 0700), 0);
    redis_ok(redis, "BGSAVE");
    wait_until(is_unready_for(fe, "cannot save"), SOON_MS);
    expect_problem(lock_put(fe, "unsaved", token_new(w), NULL), 503, "redis-unavailable");
    assert_int_equal(rmdir(obstacle), 0);
    redis_ok(redis, "BGSAVE");
    wait_until(front_ready(fe), SOON_MS);
    expect_status(lock_put(fe, "saved", token_new(w), NULL), 201);
}

/* The append-only file of Redis cannot grow beyond `bytes`. */
static void limit_files(struct redis *redis, rlim_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

    assert_int_equal(prlimit(child_pid(redis->child), RLIMIT_FSIZE, &limit, NULL), 0);
}

/* A Redis that gets EFBIG instead of a signal, which is what a full disk looks like. */
static struct redis *start_redis(struct world *w)
{
    signal(SIGXFSZ, SIG_IGN);
    struct redis *redis = redis_start(w, NULL);
    signal(SIGXFSZ, SIG_DFL);
    return redis;
}

static struct reply *renew(struct front *fe, const char *lock, const char *token)
{
    return http(fe, "PATCH", lock_path(fe->world, lock, ""), token);
}

static void expect_not_executed(struct reply *r)
{
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
}

/* Redis refuses writes until it can append again; what it had confirmed is there also after a
 * crash. */
static void test_full_disk(struct world *w)
{
    skip_on_masters(w);
    skip_with_slots(w); /* Redis refuses such scripts as a whole, also those that only read */
    struct redis *redis = start_redis(w);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *holder = token_new(w), *late = token_new(w);

    expect_status(lock_put(fe, "full", holder, "ttl_ms=600000"), 201);
    limit_files(redis, 1);
    redis_ok(redis, "SET filler 1"); /* the write that Redis notices by */
    wait_until(is_unready_for(fe, "cannot save"), SOON_MS);
    wait_until(front_metric(fe, "rlockd_redis_up", NULL) == 0, SOON_MS);
    expect_not_executed(lock_put(fe, "full-too", late, NULL));
    expect_not_executed(renew(fe, "full", holder));
    expect_not_executed(lock_release(fe, "full", holder));
    expect_status(http(fe, "GET", lock_path(w, "full", ""), NULL), 200);
    limit_files(redis, RLIM_INFINITY);
    wait_until(front_ready(fe), SOON_MS);
    wait_until(front_metric(fe, "rlockd_redis_up", NULL) == 1, SOON_MS);
    expect_status(renew(fe, "full", holder), 200);
    expect_status(lock_put(fe, "full-too", late, "ttl_ms=600000"), 201);
    redis_kill(redis);
    redis_return(redis);
    wait_until(front_ready(fe), SOON_MS);
    expect_status(lock_put(fe, "full", token_new(w), NULL), 423);
    expect_status(lock_release(fe, "full", holder), 200);
    expect_status(lock_release(fe, "full-too", late), 200);
}

/* The first write ends Redis; then Redis comes back. Returns the answer to a grant. */
static struct reply *put_that_ends_redis(struct front *fe, struct redis *redis,
                                         const char *lock, const char *token)
{
    redis_ok(redis, "CONFIG SET appendfsync always");
    limit_files(redis, 1);
    struct reply *r = lock_put(fe, lock, token, "ttl_ms=600000");
    assert_int_equal(child_wait(redis->child, SOON_MS), 1);
    wait_until(!front_ready(fe), SOON_MS);
    signal(SIGXFSZ, SIG_IGN);
    redis_return(redis);
    signal(SIGXFSZ, SIG_DFL);
    wait_until(front_ready(fe), SOON_MS);
    return r;
}

/* With `appendfsync always` Redis ends at once: the outcome is unknown, and the same request
 * finds it out when Redis is back. */
static void test_full_disk_that_ends_redis(struct world *w)
{
    enum { TRIES = 5 };
    skip_on_masters(w);
    struct redis *redis = start_redis(w);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *holder = token_new(w), *late = token_new(w);

    expect_status(lock_put(fe, "ends", holder, "ttl_ms=600000"), 201);
    struct reply *r = put_that_ends_redis(fe, redis, "ends-too", late);
    /* A write of the front end's own may have ended Redis before the request came. */
    for (int i = 1; i < TRIES && is_text(reply_str(r, "outcome"), "not-executed"); i++)
        r = put_that_ends_redis(fe, redis, "ends-too", late);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_status(lock_put(fe, "ends", token_new(w), NULL), 423);
    expect_status(lock_put(fe, "ends-too", late, "ttl_ms=600000"), 201);
    expect_status(lock_release(fe, "ends", holder), 200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_permissions),
        E2E_TEST(test_lost_subscriber),
        E2E_TEST(test_subscriber_that_is_lost_again_and_again),
        E2E_TEST(test_redis_that_cannot_save),
        E2E_TEST(test_full_disk),
        E2E_TEST(test_full_disk_that_ends_redis),
    };
    struct e2e_plan plan = {.name = "readyz", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
