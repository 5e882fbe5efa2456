/* /readyz says what is wrong with Redis, also where most requests would still be served. */
#include "harness.h"

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

/* As with a full disk: Redis takes no writes that it cannot save. */
static void test_redis_that_cannot_save(struct world *w)
{
    skip_on_masters(w); /* ready while some master can be reached */
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

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_permissions),
        E2E_TEST(test_lost_subscriber),
        E2E_TEST(test_redis_that_cannot_save),
    };
    struct e2e_plan plan = {.name = "readyz", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
