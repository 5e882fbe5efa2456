/* TLS and login to Redis: whom rlockd trusts, who it says it is, secrets in files, and what
 * breaks on the way. */
#include "harness.h"

#include <stdio.h>
#include <unistd.h>

enum { RECOVER_MS = 8000, NOT_READY_MS = 1000, FLAGS_MAX = 32, FDS = 64 };

/* A Redis whose TLS port has the certificate "redis-N", also for the proxy's address. */
static struct redis *redis_with_tls(struct world *w, const char *auth_clients)
{
    struct redis *redis = redis_start(w, NULL);
    const char *flags[FLAGS_MAX] = {NULL};

    skip_without_tls(redis);
    size_t len = redis_tls_flags(redis, flags, 0);
    flags[len++] = "--tls-auth-clients";
    flags[len++] = auth_clients;
    redis_kill(redis);
    redis_relaunch(redis, flags);
    redis_connect(redis);
    snprintf(redis->url, sizeof(redis->url), "rediss://%s:%d", redis_address(w),
             redis->tls_port);
    return redis;
}

static const char *in_world(struct world *w, const char *name)
{
    return text(w, "%s/%s", w->dir, name);
}

static void expect_serves(struct front *fe)
{
    const char *token = token_new(fe->world);

    wait_until(front_ready(fe), RECOVER_MS);
    expect_status(lock_put(fe, "served", token, NULL), 201);
    expect_status(lock_release(fe, "served", token), 200);
}

/* Never ready; the log and /readyz say why. */
static void expect_refused(struct front *fe, const char *word)
{
    struct reply *r;

    wait_until(strstr(front_log(fe), word) != NULL, RECOVER_MS);
    stays_true(!front_ready(fe), NOT_READY_MS);
    r = http(fe, "GET", "/readyz", NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_true(r, strstr(reply_str(r, "detail"), word) != NULL);
    expect_status(http(fe, "GET", "/livez", NULL), 200);
}

/* No socket is watched twice, by proc_pid_fdinfo(5): the one that TLS takes over has been given
 * up before. */
static void expect_watched_once(struct front *fe)
{
    struct world *w = fe->world;
    unsigned watched = 0;

    for (int fd = 0; fd < FDS; fd++) {
        FILE *file = fopen(text(w, "/proc/%d/fdinfo/%d", child_pid(fe->child), fd), "re");
        unsigned long long data[FDS];
        unsigned count = 0;
        char line[256];
        while (file != NULL && count < FDS && fgets(line, sizeof(line), file) != NULL) {
            if (sscanf(line, "tfd: %*d events: %*x data: %llx", &data[count]) != 1)
                continue;
            for (unsigned i = 0; i < count; i++)
                assert_true(data[i] != data[count]);
            count++;
            watched++;
        }
        if (file != NULL)
            fclose(file);
    }
    assert_true(watched > 0);
}

static void test_a_trusted_certificate(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    struct front *fe = front_launch(w, "--redis", redis->url, "--redis-tls-ca",
                                    in_world(w, "redis-ca.pem"), "--workers", "2", NULL);

    expect_serves(fe);
    expect_watched_once(fe);
    fe = front_launch(w, "--redis",
                      text(w, "rediss://%s:%d/3", redis_address(w), redis->tls_port),
                      "--redis-tls-ca", in_world(w, "redis-ca.pem"), NULL);
    expect_serves(fe);
}

static void test_a_certificate_of_strangers(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");

    authority_make(w, "stranger");
    expect_refused(front_launch(w, "--redis", redis->url, "--redis-tls-ca",
                                in_world(w, "stranger.pem"), NULL),
                   "certificate is not trusted");
    if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) == 0)
        expect_refused(front_launch(w, "--redis", redis->url, "--redis-tls-ca", "", NULL),
                       "certificate is not trusted");
}

static void test_a_certificate_for_another_name(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    const char *name = text(w, "redis-%d", redis->number), *ca = in_world(w, "redis-ca.pem");
    struct front *fe = front_launch(w, "--redis", redis->url, "--redis-tls-ca", ca,
                                    "--redis-tls-server-name", "cache.example", NULL);

    expect_refused(fe, "certificate is for another name");
    /* Redis gets one for that name, and rlockd goes on by itself. */
    certificate_make(w, name, "redis-ca", "DNS:cache.example");
    redis_ok(redis, "CONFIG SET tls-cert-file %s tls-key-file %s",
             in_world(w, text(w, "%s.pem", name)), in_world(w, text(w, "%s.key", name)));
    expect_serves(fe);
    expect_refused(front_launch(w, "--redis", redis->url, "--redis-tls-ca", ca, NULL),
                   "certificate is for another name");
}

static void test_a_certificate_for_clients(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    const char *name = text(w, "redis-%d", redis->number);

    certificate_make_as(w, name, "redis-ca", text(w, "IP:%s", redis_address(w)),
                        "ec -pkeyopt ec_paramgen_curve:prime256v1", "clientAuth");
    redis_ok(redis, "CONFIG SET tls-cert-file %s tls-key-file %s",
             in_world(w, text(w, "%s.pem", name)), in_world(w, text(w, "%s.key", name)));
    expect_refused(front_launch(w, "--redis", redis->url, "--redis-tls-ca",
                                in_world(w, "redis-ca.pem"), NULL),
                   "certificate is not one for servers");
}

static void test_client_certificates(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "yes");
    const char *ca = in_world(w, "redis-ca.pem");
    struct front *fe;

    expect_refused(front_launch(w, "--redis", redis->url, "--redis-tls-ca", ca, NULL),
                   "client certificate");
    authority_make(w, "stranger");
    certificate_make(w, "strange", "stranger", "DNS:rlockd");
    certificate_make(w, "right", "redis-ca", "DNS:rlockd");
    certificate_use(w, "strange", "live");
    fe = front_launch(w, "--redis", redis->url, "--redis-tls-ca", ca, "--redis-tls-cert",
                      in_world(w, "live.pem"), "--redis-tls-key", in_world(w, "live.key"),
                      NULL);
    expect_refused(fe, "client certificate");
    /* Renewed while rlockd runs. */
    certificate_use(w, "right", "live");
    expect_serves(fe);
    /* A file that cannot be read is no end either. */
    shell_run(w, NULL, "rm live.key");
    redis_ok(redis, "CLIENT KILL TYPE normal SKIPME yes");
    redis_ok(redis, "CLIENT KILL TYPE pubsub");
    expect_refused(fe, "certificates for Redis cannot be read");
    certificate_use(w, "right", "live");
    expect_serves(fe);
}

static void test_password_files(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    const char *path = in_world(w, "password");
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    redis_ok(redis, "ACL SETUSER app on >first ~* &* +@all");
    shell_run(w, NULL, "echo first > password");
    fe = front_launch(w, "--redis", proxy_url(proxy, "", ""), "--redis-user", "app",
                      "--redis-password-file", path, NULL);
    expect_serves(fe);
    assert_non_null(strstr(front_log(fe), "app:***@"));
    /* A new password: rlockd takes it at its next connect. */
    redis_ok(redis, "ACL SETUSER app resetpass >second");
    redis_ok(redis, "CLIENT KILL TYPE normal SKIPME yes");
    expect_refused(fe, "refused the user or the password");
    shell_run(w, NULL, "printf second > password");
    expect_serves(fe);
    shell_run(w, NULL, "rm password");
    redis_ok(redis, "CLIENT KILL TYPE normal SKIPME yes");
    redis_ok(redis, "CLIENT KILL TYPE pubsub");
    expect_refused(fe, "password's file cannot be used");
    shell_run(w, NULL, "echo second > password");
    expect_serves(fe);
    assert_null(strstr(front_log(fe), "second"));
}

static void test_tls_meets_none(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    int port = redis->tls_port + 1000;

    redis_ok(redis, "CONFIG SET port %d", port);
    expect_refused(front_launch(w, "--redis", text(w, "rediss://%s:%d", redis_address(w), port),
                                "--redis-tls-ca", in_world(w, "redis-ca.pem"), NULL),
                   "does it speak TLS on this port?");
    expect_refused(front_launch(w, "--redis",
                                text(w, "redis://%s:%d", redis_address(w), redis->tls_port),
                                NULL),
                   "does it want TLS");
}

static void test_cut_in_a_record(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    struct proxy *proxy = proxy_start(redis);
    struct front *fe = front_launch(w, "--redis", proxy_url(proxy, "", ""), "--redis-tls-ca",
                                    in_world(w, "redis-ca.pem"), NULL);
    const char *token = token_new(w);
    struct reply *r = NULL;

    /* Again where a command of the front end itself was cut off first. */
    for (int tries = 1; tries <= 5; tries++) {
        expect_serves(fe);
        proxy_settle(proxy);
        proxy_set(proxy, PROXY_CUT);
        r = lock_put(fe, "cut", token, "ttl_ms=600000");
        expect_problem(r, 503, "redis-unavailable");
        if (strcmp(reply_str(r, "outcome"), "not-executed") != 0)
            break;
        proxy_set(proxy, PROXY_PASS);
    }
    expect_str(r, "outcome", "unknown");
    assert_true(redis_has(redis, "cut"));
    proxy_set(proxy, PROXY_PASS);
    expect_serves(fe);
    r = lock_put(fe, "cut", token, "ttl_ms=600000");
    expect_true(r, r->status == 200 || r->status == 201);
}

static void test_a_handshake_without_end(struct world *w)
{
    struct redis *redis = redis_with_tls(w, "no");
    struct proxy *proxy = proxy_start(redis);
    struct front *fe;

    proxy_set(proxy, PROXY_BLACKHOLE);
    fe = front_launch(w, "--redis", proxy_url(proxy, "", ""), "--redis-tls-ca",
                      in_world(w, "redis-ca.pem"), NULL);
    expect_refused(fe, "does not answer the TLS handshake");
    proxy_set(proxy, PROXY_PASS);
    expect_serves(fe);
}

/* A set of locks whose names fill more than one record of TLS. */
static const char *long_set(struct world *w, int set, int names)
{
    static const char filler[] = "a-name-that-is-repeated-until-it-is-long-enough/";
    json_t *locks = json_array();

    for (int i = 0; i < names; i++)
        json_array_append_new(locks, json_string(text(w, "%s%s%s%s%s%s%d:%d", filler, filler,
                                                      filler, filler, filler, filler, set, i)));
    json_t *body = json_pack("{s:o}", "locks", locks);
    char *encoded = json_dumps(body, JSON_COMPACT);
    const char *copy = text(w, "%s", encoded);
    free(encoded);
    json_decref(body);
    return copy;
}

/* Commands and replies of many records. */
static void test_long_commands_and_replies(struct world *w)
{
    enum { SETS = 50, NAMES = 32 };
    struct redis *redis = redis_with_tls(w, "no");
    struct front *fe = front_launch(w, "--redis", redis->url, "--redis-tls-ca",
                                    in_world(w, "redis-ca.pem"), NULL);
    struct call *calls[SETS];
    const char *cursor = "";
    size_t listed = 0;

    wait_until(front_ready(fe), RECOVER_MS);
    for (int i = 0; i < SETS; i++)
        calls[i] = CALL(fe, .method = "PUT", .path = "/v1/multi-locks", .token = token_new(w),
                        .body = long_set(w, i, NAMES));
    for (int i = 0; i < SETS; i++)
        expect_status(call_await(calls[i], RECOVER_MS), 201);
    while (cursor != NULL) {
        struct reply *r = http(fe, "GET",
                               text(w, "/v1/locks?limit=1000%s%s",
                                    cursor[0] != '\0' ? "&cursor=" : "", url_encode(w, cursor)),
                               NULL);
        expect_status(r, 200);
        listed += json_array_size(json_object_get(r->json, "locks"));
        cursor = reply_str(r, "next_cursor");
    }
    assert_true(listed >= (size_t)SETS * NAMES);
}

/* One line, and rlockd ends with 2. */
static void test_settings_are_checked(struct world *w)
{
    static const struct {
        const char *flags[7];
        const char *line;
    } rows[] = {
        {{"--redis", "redis://h", "--redis-password-file", "/nonexistent"},
         "--redis-password-file: /nonexistent: No such file"},
        {{"--redis", "redis://h", "--redis-password-file", "/dev/null"}, "is empty"},
        {{"--redis", "redis://h", "--redis-password-file", "/bin/sh"}, "no password"},
        {{"--redis", "redis://:p@h", "--redis-password-file", "/etc/hostname"},
         "has a password already"},
        {{"--redis", "redis://u:p@h", "--redis-user", "v"}, "has a user already"},
        {{"--redis", "redis://h", "--redis-user", "v"}, "needs --redis-password-file"},
        {{"--redis-user", "v"}, "only with --redis"},
        {{"--sync-replicas", "1"}, "only with --redis: the embedded Redis has no replicas"},
        {{"--redis", "redis://h", "--redis-sentinel-user", "v"},
         "only with a URL of Sentinels"},
        {{"--redis", "redis://h", "--redis-tls-ca", "/etc/hostname"},
         "only with a URL for TLS"},
        {{"--redis", "rediss://h", "--redis-tls-ca", "/nonexistent"},
         "/nonexistent: No such file or directory"},
        {{"--redis", "rediss://h", "--redis-tls-ca", "/dev/null"},
         "--redis-tls-ca: /dev/null: "},
        {{"--redis", "rediss://h", "--redis-tls-cert", "/x"}, "one needs the other"},
        {{"--redis", "rediss://h", "--redis-tls-key", "/x"}, "one needs the other"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct child *child = rlockd_start(w, rows[i].flags, NULL);

        assert_int_equal(child_wait(child, RECOVER_MS), 2);
        if (strstr(child_stderr(child), rows[i].line) == NULL)
            FAIL("row %zu: %s", i, child_stderr(child));
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_trusted_certificate),
        E2E_TEST(test_a_certificate_of_strangers),
        E2E_TEST(test_a_certificate_for_another_name),
        E2E_TEST(test_a_certificate_for_clients),
        E2E_TEST(test_client_certificates),
        E2E_TEST(test_password_files),
        E2E_TEST(test_tls_meets_none),
        E2E_TEST(test_cut_in_a_record),
        E2E_TEST(test_a_handshake_without_end),
        E2E_TEST(test_long_commands_and_replies),
        E2E_TEST(test_settings_are_checked),
    };
    struct e2e_plan plan = {
        .name = "redis-tls", E2E_TESTS(tests), .needs_one_server = true, .without_redis = true};

    return e2e_run(&plan);
}
