/* Flags and environment: what they do, and what a wrong one says. */
#include "harness.h"

#include <signal.h>

struct outcome {
    int code;
    const char *out, *err;
};

static struct outcome run(struct world *w, const char *const *args, const char *const *env)
{
    struct child *child = rlockd_start(w, args, env);
    struct outcome outcome = {.code = child_wait(child, 5000)};

    outcome.out = child_stdout(child);
    outcome.err = child_stderr(child);
    return outcome;
}

static int lines_len(const char *content)
{
    int len = 0;

    for (; (content = strchr(content, '\n')) != NULL; content++)
        len++;
    return len;
}

static void test_help(struct world *w)
{
    static const char *const flags[] = {
        "--listen",
        "--redis",
        "--data-dir",
        "--workers",
        "--log-level",
        "--max-wait-ms",
        "--key-prefix",
        "--retry-window-ms",
        "--fencing-ttl-ms",
        "--help",
        "--watchdog-timeout-ms",
        "--version",
        "--max-connections",
        "--api-tokens",
        "--hash-token",
        "--make-token",
    };
    static const char *const names[] = {
        "RLOCKD_LISTEN",
        "RLOCKD_REDIS",
        "RLOCKD_DATA_DIR",
        "RLOCKD_WORKERS",
        "RLOCKD_LOG_LEVEL",
        "RLOCKD_MAX_WAIT_MS",
        "RLOCKD_KEY_PREFIX",
        "RLOCKD_RETRY_WINDOW_MS",
        "RLOCKD_FENCING_TTL_MS",
        "RLOCKD_WATCHDOG_TIMEOUT_MS",
        "RLOCKD_MAX_CONNECTIONS",
        "RLOCKD_API_TOKENS",
        "127.0.0.1:7400",
        "./rlockd-data",
        "55000",
        "60000",
        "30000",
        "10000",
    };
    const char *const args[] = {"--help", NULL};
    struct outcome help = run(w, args, NULL);

    assert_int_equal(help.code, 0);
    assert_string_equal(help.err, "");
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        if (strstr(help.out, flags[i]) == NULL)
            FAIL("--help does not tell of %s", flags[i]);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strstr(help.out, names[i]) == NULL)
            FAIL("--help does not tell of %s", names[i]);
    }
}

static void test_version(struct world *w)
{
    const char *const args[] = {"--version", NULL};
    struct outcome version = run(w, args, NULL);

    assert_int_equal(version.code, 0);
    assert_true(strncmp(version.out, "rlockd ", 7) == 0);
    assert_int_equal(lines_len(version.out), 1);
}

static void expect_refused(struct world *w, const char *const *args, const char *const *env,
                           const char *names)
{
    struct outcome refused = run(w, args, env);

    if (refused.code != 2 || lines_len(refused.err) != 1 ||
        strncmp(refused.err, "rlockd: ", 8) != 0 || strstr(refused.err, names) == NULL)
        FAIL("%s %s: exit code %d and these words: %s", names, args[0] ? args[1] : env[0],
             refused.code, refused.err);
}

static void test_wrong_flags(struct world *w)
{
    static const struct {
        const char *flag, *value;
    } wrong[] = {
        {"--listen", "7400"},
        {"--listen", "127.0.0.1:"},
        {"--listen", "127.0.0.1:65536"},
        {"--listen", "127.0.0.1:http"},
        {"--listen", ""},
        {"--redis", "127.0.0.1:6379"},
        {"--redis", "http://127.0.0.1:6379"},
        {"--redis", "redis://127.0.0.1:99999"},
        {"--redis", "redis://127.0.0.1:6379/x"},
        {"--redis", "unix://"},
        {"--workers", "0"},
        {"--workers", "-1"},
        {"--workers", "two"},
        {"--workers", "99999999999999999999"},
        {"--watchdog-timeout-ms", "0"},
        {"--max-wait-ms", "-5"},
        {"--max-wait-ms", "5s"},
        {"--retry-window-ms", "x"},
        {"--key-prefix", "a\nb"},
        {"--key-prefix", "\xff"},
        {"--max-connections", "15"},
        {"--max-connections", "1000001"},
        {"--log-level", "loud"},
        {"--long-wait-ms", "999"},
        {"--cors-origins", "https://Example.com"},
        {"--cors-origins", "https://a.example:443"},
        {"--cors-origins", "http://b.example, http://a.example:80"},
        {"--cors-origins", "https://a.example?x"},
        {"--no-such-flag", "1"},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const char *const args[] = {wrong[i].flag, wrong[i].value, NULL};

        expect_refused(w, args, NULL, wrong[i].flag);
    }
}

static void test_wrong_usage(struct world *w)
{
    const char *const missing[] = {"--listen", "127.0.0.1:0", "--workers", NULL};
    const char *const word[] = {"--workers", "1", "serve", NULL};
    const char *const joined[] = {"--workers=0", NULL};
    struct outcome outcome;

    expect_refused(w, missing, NULL, "--workers");
    expect_refused(w, word, NULL, "argument 3");
    outcome = run(w, joined, NULL);
    assert_int_equal(outcome.code, 2);
}

static void test_wrong_environment(struct world *w)
{
    static const struct {
        const char *env, *names;
    } wrong[] = {
        {"RLOCKD_WORKERS=0", "RLOCKD_WORKERS"},
        {"RLOCKD_LISTEN=nowhere", "RLOCKD_LISTEN"},
        {"RLOCKD_REDIS=ftp://x", "RLOCKD_REDIS"},
        {"RLOCKD_LOG_LEVEL=LOUD", "RLOCKD_LOG_LEVEL"},
        {"RLOCKD_MAX_WAIT_MS=1.5", "RLOCKD_MAX_WAIT_MS"},
    };
    const char *const args[] = {NULL};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const char *const env[] = {wrong[i].env, NULL};

        expect_refused(w, args, env, wrong[i].names);
    }
}

static void test_wrong_token_files(struct world *w)
{
    static const char *const contents[] = {
        "deployer\n", "deployer lock secret-aaaaaaaaaaaaaaaaaaaaa *\n",
        "deployer secret-aaaaaaaaaaaaaaaaaaaaa lock=*\n", NULL, /* no such file */
    };

    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        const char *path = text(w, "%s/tokens-%zu", w->dir, i);
        const char *const args[] = {"--api-tokens", path, NULL};
        FILE *file = contents[i] != NULL ? fopen(path, "we") : NULL;
        struct outcome refused;

        if (file != NULL) {
            fputs(contents[i], file);
            fclose(file);
        }
        refused = run(w, args, NULL);
        assert_true(refused.code == 1 || refused.code == 2);
        assert_non_null(strstr(refused.err, "--api-tokens"));
        assert_non_null(strstr(refused.err, path));
        assert_int_equal(lines_len(refused.err), 1);
        assert_null(strstr(refused.err, "secret-"));
    }
}

/* The files, directories and ports that the settings name. */
static void test_what_flags_name_is_unusable(struct world *w)
{
    struct front *fe = front_start(w, "--redis", redis_start(w, NULL)->url, NULL);
    const char *taken = text(w, "127.0.0.1:%d", fe->port);
    const struct {
        const char *args[7], *names;
    } rows[] = {
        {{"--tls-cert", "/nonexistent", "--tls-key", "/dev/null"},
         "--tls-cert: /nonexistent: "},
        {{"--tls-cert", "/dev/null", "--tls-key", "/dev/null"}, "--tls-cert: /dev/null: "},
        {{"--tls-cert", "/x", "--tls-key", "/x", "--tls-client-ca", "/dev/null"},
         "--tls-client-ca: /dev/null: is no PEM file"},
        {{"--tls-cert", "/x"}, "--tls-key"},
        {{"--redis", "rediss://h", "--redis-tls-ca", "/dev/null"},
         "--redis-tls-ca: /dev/null: "},
        {{"--data-dir", "/dev/null"}, "--data-dir: /dev/null: Not a directory"},
        {{"--api-tokens", "/"}, "--api-tokens (RLOCKD_API_TOKENS): / line 1: Is a directory"},
        {{"--redis", "redis://h", "--listen", taken}, "choose another port"},
        {{"--redis", "redis://h", "--listen", "no-host.invalid:80"},
         "--listen: no-host.invalid"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct outcome refused = run(w, rows[i].args, NULL);

        if ((refused.code != 1 && refused.code != 2) || lines_len(refused.err) != 1 ||
            strstr(refused.err, rows[i].names) == NULL)
            FAIL("row %zu: exit code %d and these words: %s", i, refused.code, refused.err);
    }
}

static void test_environment_works_and_flags_win(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    const char *const args[] = {"--key-prefix", "flag:", NULL};
    const char *const env[] = {
        "RLOCKD_LISTEN=127.0.0.1:0",       text(w, "RLOCKD_REDIS=%s", redis->url),
        "RLOCKD_KEY_PREFIX=env:",          "RLOCKD_MAX_WAIT_MS=3000",
        "RLOCKD_WATCHDOG_TIMEOUT_MS=7000", NULL};
    struct child *child = rlockd_start(w, args, env);
    struct front fe = {.world = w, .child = child};
    struct reply *r;

    for (struct patience patience = patience_of(5000); fe.port == 0; nap_ms(5)) {
        json_t *line = front_log_find(&fe, "listening");
        const char *listen = json_string_value(json_object_get(line, "listen"));

        fe.port = listen != NULL ? atoi(strrchr(listen, ':') + 1) : 0;
        json_decref(line);
        if (patience_fails(&patience))
            FAIL("does not listen: %s", child_stderr(child));
    }
    wait_until(front_ready(&fe), 5000);
    r = lock_put(&fe, "set", token_new(w), NULL);
    expect_status(r, 201);
    expect_int(r, "ttl_ms", 7000);
    assert_true(redis_has(redis, "flag:set"));
    expect_problem(lock_put(&fe, "set2", token_new(w), "wait_ms=3001"), 400,
                   "malformed-request");
    expect_status(lock_put(&fe, "set2", token_new(w), "wait_ms=3000"), 201);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, 8000), 0);
}

static void test_retry_window(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, "--retry-window-ms", "5000", NULL);
    const char *token = token_new(w);
    struct reply *r = lock_put(fe, "window", token, "ttl_ms=10000");

    expect_status(lock_release(fe, "window", token), 200);
    assert_in_range(redis_int(redis, "PTTL rlockd:lease:{window}:%s", reply_str(r, "lease_id")),
                    1, 5000);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_help),
        E2E_TEST(test_version),
        E2E_TEST(test_wrong_flags),
        E2E_TEST(test_wrong_usage),
        E2E_TEST(test_wrong_environment),
        E2E_TEST(test_wrong_token_files),
        E2E_TEST(test_what_flags_name_is_unusable),
        E2E_TEST(test_environment_works_and_flags_win),
        E2E_TEST(test_retry_window),
    };
    struct e2e_plan plan = {.name = "settings", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
