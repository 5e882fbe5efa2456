/* How an external Redis is reached, and which one is not good enough. */
#include "harness.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NOT_READY_MS = 1500, SOON_MS = 4000, DNS_PORT = 53 };

/* Never ready, and the log says why in a line that has this word. */
static void expect_refused(struct front *fe, const char *word)
{
    struct reply *r;

    wait_until(strstr(front_log(fe), word) != NULL, 5000);
    stays_true(!front_ready(fe), NOT_READY_MS);
    r = lock_put(fe, "refused", token_new(fe->world), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    expect_status(http(fe, "GET", "/livez", NULL), 200);
}

static void test_tcp_and_database(struct world *w)
{
    struct proxy *proxy = proxy_start(w->redis);
    struct front *fe;

    skip_on_cluster(w);
    fe = front_start(w, "--redis", proxy_url(proxy, "", "/3"), NULL);
    expect_status(lock_put(fe, "db3", token_new(w), NULL), 201);
    assert_false(redis_has(w->redis, "db3"));
    redis_ok(w->redis, "SELECT 3");
    assert_true(redis_has(w->redis, "db3"));
    redis_ok(w->redis, "SELECT 0");
}

static void test_password(struct world *w)
{
    struct redis *redis = redis_start(w, "requirepass", "s3cret p@ss/w:rd", NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    fe = front_start(w, "--redis", proxy_url(proxy, ":s3cret%20p%40ss%2Fw%3Ard@", ""), NULL);
    expect_status(lock_put(fe, "password", token_new(w), NULL), 201);
    assert_null(strstr(front_log(fe), "s3cret"));
    fe = front_launch(w, "--redis", proxy_url(proxy, ":wr0ng@", ""), NULL);
    expect_refused(fe, "refused the user or the password (--redis-password-file");
    assert_null(strstr(front_log(fe), "wr0ng"));
    fe = front_launch(w, "--redis", proxy_url(proxy, "", ""), NULL);
    expect_refused(fe, "wants a password (--redis-password-file");
    fe = front_launch(w, "--redis", proxy_url(proxy, ":s3cret%20p%40ss%2Fw%3Ard@", "/9999"),
                      NULL);
    expect_refused(fe, "refused the database that --redis names");
    fe = front_launch(w, "--redis", "redis://127.0.0.1:1", NULL);
    expect_refused(fe, "\"detail\":\"Connection refused\"");
}

static void test_user_and_password(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    redis_ok(redis, "ACL SETUSER locky on >pw ~* &* +@all");
    fe = front_start(w, "--redis", proxy_url(proxy, "locky:pw@", ""), NULL);
    expect_status(lock_put(fe, "user", token_new(w), NULL), 201);
}

static void test_channels_are_needed(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    redis_ok(redis, "ACL SETUSER deaf on >pw ~* resetchannels +@all");
    fe = front_launch(w, "--redis", proxy_url(proxy, "deaf:pw@", ""), NULL);
    expect_refused(fe, "channel");
    /* Once the operator has put that right, it goes on by itself. */
    redis_ok(redis, "ACL SETUSER deaf &redisson_lock__channel:* &redisson_rwlock:* "
                    "&redisson_sc:* "
                    "&redisson_countdownlatch__channel__* &rlockd:*");
    wait_until(front_ready(fe), 15000);
    expect_status(lock_put(fe, "deaf", token_new(w), NULL), 201);
}

static void test_scripts_and_keys_are_needed(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);

    redis_ok(redis, "ACL SETUSER mute on >pw ~* &* +@all -@scripting");
    expect_refused(front_launch(w, "--redis", proxy_url(proxy, "mute:pw@", ""), NULL),
                   "\"warn\"");
    redis_ok(redis, "ACL SETUSER keyless on >pw ~other:* &* +@all");
    expect_refused(front_launch(w, "--redis", proxy_url(proxy, "keyless:pw@", ""), NULL),
                   "\"warn\"");
}

static void test_eviction_must_be_off(struct world *w)
{
    struct redis *redis = redis_start(w, "maxmemory", "1gb", "maxmemory-policy", "volatile-ttl",
                                      NULL);
    struct front *fe = front_launch(w, "--redis", redis->url, NULL);

    expect_refused(fe, "maxmemory-policy");
    redis_ok(redis, "CONFIG SET maxmemory-policy noeviction");
    wait_until(front_ready(fe), 15000);
    expect_status(lock_put(fe, "evict", token_new(w), NULL), 201);
}

static void test_a_user_without_config_will_do(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    /* What managed services allow: CONFIG is not part of it. */
    redis_ok(redis, "ACL SETUSER plain on >pw ~* &* +@all -@admin -@dangerous +info");
    fe = front_start(w, "--redis", proxy_url(proxy, "plain:pw@", ""), NULL);
    expect_status(lock_put(fe, "plain", token_new(w), NULL), 201);
}

/* A socket that takes questions for the name service and never answers; -1: not allowed here.
 */
static int mute_name_service(struct world *w)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(DNS_PORT),
                             .sin_addr.s_addr = inet_addr(redis_address(w))};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void close_later(void *thing)
{
    close(*(const int *)thing);
}

/* In a mount namespace of its own, where that name service is the only one. */
static void test_a_name_service_that_hangs(struct world *w)
{
    static int fd;
    int may_unshare;
    char question[512];

    shell_run(w, &may_unshare, "unshare -m true");
    fd = mute_name_service(w);
    if (may_unshare != 0 || fd < 0)
        skip();
    world_defer(w, close_later, &fd);
    shell_run(w, NULL, text(w, "sh -c 'echo nameserver %s > resolv.conf'", redis_address(w)));
    const char *const argv[] = {
        "unshare",
        "-m",
        "sh",
        "-c",
        text(w,
             "mount --bind %s/resolv.conf /etc/resolv.conf && exec \"$0\" --listen 127.0.0.1:0 "
             "--redis redis://redis.hangs.test",
             w->dir),
        rlockd_binary(),
        NULL};
    struct front fe = {.world = w, .child = child_start(w, "rlockd", argv, NULL)};

    wait_until((fe.port = front_port(&fe)) != 0, 10000);
    wait_until(recv(fd, question, sizeof(question), MSG_PEEK) > 0, 10000);
    /* The system's resolver waits for 5 s and more. */
    for (int i = 0; i < 5; i++) {
        struct reply *r = http(&fe, "GET", "/livez", NULL);
        expect_status(r, 200);
        expect_true(r, r->done_ms - r->sent_ms < SOON_MS);
    }
    wait_until(strstr(front_log(&fe), "the host name of Redis was not resolved") != NULL,
               10000);
    expect_problem(http(&fe, "GET", "/readyz", NULL), 503, "redis-unavailable");
    child_signal(fe.child, SIGTERM);
    assert_int_equal(child_wait(fe.child, 10000), 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_tcp_and_database),
        E2E_TEST(test_password),
        E2E_TEST(test_user_and_password),
        E2E_TEST(test_channels_are_needed),
        E2E_TEST(test_scripts_and_keys_are_needed),
        E2E_TEST(test_eviction_must_be_off),
        E2E_TEST(test_a_user_without_config_will_do),
        E2E_TEST(test_a_name_service_that_hangs),
    };
    struct e2e_plan plan = {.name = "redis-connect", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
