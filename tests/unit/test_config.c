/* server/base/config.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/base/config.h"

enum { ARGUMENTS_MAX = 16 };

static struct config config;
static char error[256];

/* Loads from NULL-ended lists: `arguments` without the program's name. */
static enum config_outcome load(const char *const arguments[], const char *const variables[])
{
    char *argv[ARGUMENTS_MAX] = {(char *)"rlockd"};
    int argc = 1;

    while (arguments[argc - 1] != NULL) {
        argv[argc] = (char *)arguments[argc - 1];
        argc++;
    }
    error[0] = '\0';
    return config_load(&config, argc, argv, (char *const *)variables, error, sizeof(error));
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE ((const char *const[]){NULL})

static void expect_error(const char *const arguments[], const char *const variables[],
                         const char *begin, const char *part)
{
    assert_int_equal(load(arguments, variables), CONFIG_ERROR);
    if (strncmp(error, begin, strlen(begin)) != 0 || strstr(error, part) == NULL)
        fail_msg("\"%s\" does not begin with \"%s\" or lacks \"%s\"", error, begin, part);
    assert_null(strchr(error, '\n'));
}

static void defaults_are_complete(void **state)
{
    (void)state;
    assert_int_equal(load(NONE, NONE), CONFIG_RUN);
    assert_string_equal(config.listen_host, "127.0.0.1");
    assert_int_equal(config.listen_port, 7400);
    assert_string_equal(config.redis_url, "");
    assert_int_equal(config.redis_cluster_broadcast, 1);
    assert_string_equal(config.data_dir, "./rlockd-data");
    assert_int_equal(config.workers, 1);
    assert_int_equal(config.busy_poll_us, 50);
    assert_int_equal(config.watchdog_timeout_ms, 30000);
    assert_int_equal(config.max_wait_ms, 55000);
    assert_int_equal(config.retry_window_ms, 60000);
    assert_string_equal(config.key_prefix, "");
    assert_int_equal(config.max_connections, 10000);
    assert_string_equal(config.api_tokens, "");
    assert_string_equal(config.trusted_proxies, "");
    assert_string_equal(config.cors_origins, "");
    assert_string_equal(config.server_names, "");
    assert_int_equal(config.drain_delay_ms, 0);
    assert_int_equal(config.log_level, LOG_LEVEL_INFO);
}

static void flags_are_read_in_both_forms(void **state)
{
    (void)state;
    assert_int_equal(
        load(LIST("--redis", "redis://h/1", "--data-dir=/var/lib/rlockd", "--workers", "64",
                  "--max-wait-ms=1000", "--key-prefix", "app:", "--log-level=warn"),
             NONE),
        CONFIG_RUN);
    assert_string_equal(config.redis_url, "redis://h/1");
    assert_string_equal(config.data_dir, "/var/lib/rlockd");
    assert_int_equal(config.workers, 64);
    assert_int_equal(config.max_wait_ms, 1000);
    assert_string_equal(config.key_prefix, "app:");
    assert_int_equal(config.log_level, LOG_LEVEL_WARN);

    /* Only the first = parts flag and value; a separate value may look like a flag. */
    assert_int_equal(load(LIST("--redis=unix:///s?db=1", "--key-prefix", "--x="), NONE),
                     CONFIG_RUN);
    assert_string_equal(config.redis_url, "unix:///s?db=1");
    assert_string_equal(config.key_prefix, "--x=");
}

static void environment_is_read(void **state)
{
    (void)state;
    assert_int_equal(load(NONE, LIST("HOME=/", "RLOCKD_LISTEN=:80", "RLOCKD_REDIS=redis://h",
                                     "RLOCKD_DATA_DIR=/d", "RLOCKD_WORKERS=2",
                                     "RLOCKD_WATCHDOG_TIMEOUT_MS=300")),
                     CONFIG_RUN);
    assert_string_equal(config.listen_host, "");
    assert_int_equal(config.listen_port, 80);
    assert_string_equal(config.redis_url, "redis://h");
    assert_string_equal(config.data_dir, "/d");
    assert_int_equal(config.workers, 2);
    assert_int_equal(config.watchdog_timeout_ms, 300);

    assert_int_equal(
        load(NONE, LIST("RLOCKD_MAX_WAIT_MS=3600000", "RLOCKD_RETRY_WINDOW_MS=1000",
                        "RLOCKD_KEY_PREFIX=p", "RLOCKD_LOG_LEVEL=error",
                        "RLOCKD_MAX_CONNECTIONS=16", "RLOCKD_API_TOKENS=/t")),
        CONFIG_RUN);
    assert_int_equal(config.max_wait_ms, 3600000);
    assert_int_equal(config.retry_window_ms, 1000);
    assert_string_equal(config.key_prefix, "p");
    assert_int_equal(config.log_level, LOG_LEVEL_ERROR);
    assert_int_equal(config.max_connections, 16);
    assert_string_equal(config.api_tokens, "/t");
}

static void flag_beats_environment(void **state)
{
    (void)state;
    assert_int_equal(load(LIST("--workers", "3", "--workers=4"), LIST("RLOCKD_WORKERS=5")),
                     CONFIG_RUN);
    assert_int_equal(config.workers, 4);
    /* A variable that is not used cannot be wrong. */
    assert_int_equal(load(LIST("--workers", "3"), LIST("RLOCKD_WORKERS=many")), CONFIG_RUN);
    /* An empty flag says empty; an empty variable says nothing. */
    assert_int_equal(load(LIST("--redis="), LIST("RLOCKD_REDIS=redis://h")), CONFIG_RUN);
    assert_string_equal(config.redis_url, "");
    assert_int_equal(load(NONE, LIST("RLOCKD_WORKERS=", "RLOCKD_DATA_DIR=")), CONFIG_RUN);
    assert_int_equal(config.workers, 1);
    assert_string_equal(config.data_dir, "./rlockd-data");
}

static void listen_forms_are_read(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {
        {"127.0.0.1:7400", "127.0.0.1", 7400},
        {"localhost:0", "localhost", 0},
        {":65535", "", 65535},
        {"[::1]:7400", "::1", 7400},
        {"[::]:0", "::", 0},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
    };
    static const char *const bad[] = {
        "",        "7400",       "localhost",  "localhost:", ":",         "::1:7400",
        "[::1]",   "[]:7400",    "[a]:7400",   "[::1:7400",  "::1]:7400", "h:65536",
        "h:-1",    "h:+1",       "h: 1",       "h:1x",       "h:01",      "a b:1",
        "h:7400/", "http://h:1", "[[::1]]:80", "h/x:1",      "h:1:2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(load(LIST("--listen", good[i].text), NONE), CONFIG_RUN);
        assert_string_equal(config.listen_host, good[i].host);
        assert_int_equal(config.listen_port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_error(LIST("--listen", bad[i]), NONE, "--listen: must ", "");
}

static void bounds_are_kept(void **state)
{
    static const struct {
        const char *flag, *variable, *below, *min, *max, *above;
    } rows[] = {
        {"--workers", "RLOCKD_WORKERS", "0", "1", "64", "65"},
        {"--busy-poll-us", "RLOCKD_BUSY_POLL_US", "-1", "0", "1000", "1001"},
        {"--watchdog-timeout-ms", "RLOCKD_WATCHDOG_TIMEOUT_MS", "299", "300", "86400000",
         "86400001"},
        {"--max-wait-ms", "RLOCKD_MAX_WAIT_MS", "999", "1000", "3600000", "3600001"},
        {"--retry-window-ms", "RLOCKD_RETRY_WINDOW_MS", "999", "1000", "86400000", "86400001"},
        {"--fencing-ttl-ms", "RLOCKD_FENCING_TTL_MS", "-1", "0", "31622400000", "31622400001"},
        {"--quarantine-ms", "RLOCKD_QUARANTINE_MS", "-1", "0", "31622400000", "31622400001"},
        {"--max-connections", "RLOCKD_MAX_CONNECTIONS", "15", "16", "1000000", "1000001"},
    };
    static const char *const no_numbers[] = {
        "x", "1.5", "1e3", "-1", " 64", "64 ", "0x40", "010", "99999999999999999999"};
    char bounds[64], assignment[64], shown[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(bounds, sizeof(bounds), ": must be a whole number from %s to %s", rows[i].min,
                 rows[i].max);
        assert_int_equal(load(LIST(rows[i].flag, rows[i].min), NONE), CONFIG_RUN);
        assert_int_equal(load(LIST(rows[i].flag, rows[i].max), NONE), CONFIG_RUN);
        expect_error(LIST(rows[i].flag, rows[i].below), NONE, rows[i].flag, bounds);
        expect_error(LIST(rows[i].flag, rows[i].above), NONE, rows[i].flag, bounds);
        snprintf(shown, sizeof(shown), ", not '%s'", rows[i].above);
        expect_error(LIST(rows[i].flag, rows[i].above), NONE, rows[i].flag, shown);
        expect_error(LIST(rows[i].flag, ""), NONE, rows[i].flag, bounds);
        snprintf(assignment, sizeof(assignment), "%s=%s", rows[i].variable, rows[i].above);
        expect_error(NONE, LIST(assignment), rows[i].variable, bounds);
        for (size_t n = 0; n < sizeof(no_numbers) / sizeof(no_numbers[0]); n++)
            expect_error(LIST(rows[i].flag, no_numbers[n]), NONE, rows[i].flag, bounds);
    }
}

static void texts_are_checked(void **state)
{
    char text[PATH_MAX + 1];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[256] = '\0';
    assert_int_equal(load(LIST("--key-prefix", text), NONE), CONFIG_RUN);
    assert_string_equal(config.key_prefix, text);
    text[256] = 'x';
    text[257] = '\0';
    expect_error(LIST("--key-prefix", text), NONE, "--key-prefix: ", "256 bytes");
    text[257] = 'x';
    text[2048] = '\0';
    expect_error(LIST("--redis", text), NONE, "--redis: ", "2047 bytes");
    text[2048] = 'x';
    text[PATH_MAX] = '\0';
    expect_error(LIST("--data-dir", text), NONE, "--data-dir: ", "4095 bytes");

    expect_error(LIST("--data-dir", ""), NONE, "--data-dir: ", "empty");
    expect_error(LIST("--key-prefix", "a\nb"), NONE, "--key-prefix: ", "control");
    expect_error(LIST("--key-prefix", "\xFF"), NONE, "--key-prefix: ", "UTF-8");
    expect_error(NONE, LIST("RLOCKD_LOG_LEVEL=verbose"),
                 "RLOCKD_LOG_LEVEL: ", "debug, info, warn or error");
    expect_error(LIST("--log-level=INFO"), NONE, "--log-level: ", "debug");
}

static void unknown_arguments_are_refused(void **state)
{
    (void)state;
    expect_error(LIST("--ttl", "1"), NONE, "--ttl: ", "unknown flag");
    expect_error(LIST("--ttl=1"), NONE, "--ttl: ", "unknown flag");
    expect_error(LIST("--work", "1"), NONE, "--work: ", "unknown flag");
    expect_error(LIST("-w", "1"), NONE, "-w: ", "unknown flag");
    expect_error(LIST("-workers", "1"), NONE, "-workers: ", "unknown flag");
    expect_error(LIST("--help=1"), NONE, "--help: ", "unknown flag");
    expect_error(LIST("--"), NONE, "--: ", "unknown flag");
    expect_error(LIST("--a\nb"), NONE, "argument 1: ", "unknown flag");
    expect_error(LIST("--workers", "2", "start"), NONE, "argument 3 ", "no flag");
    expect_error(LIST(""), NONE, "argument 1 ", "no flag");
    expect_error(LIST("--workers"), NONE, "--workers: ", "needs a value");
}

static void errors_hide_values(void **state)
{
    static const char *const secret = "redis://:hunter2@h";
    char joined[64];

    (void)state;
    snprintf(joined, sizeof(joined), "--reddis=%s", secret);
    assert_int_equal(load(LIST(joined), NONE), CONFIG_ERROR);
    assert_null(strstr(error, "hunter2"));
    assert_int_equal(load(LIST("--redis://:hunter2@h"), NONE), CONFIG_ERROR);
    assert_null(strstr(error, "hunter2"));
    assert_int_equal(load(LIST(secret), NONE), CONFIG_ERROR);
    assert_null(strstr(error, "hunter2"));
    assert_int_equal(load(LIST("--redis", "redis://:hunter2\t@h"), NONE), CONFIG_ERROR);
    assert_null(strstr(error, "hunter2"));
}

/* What `arguments` print on standard output, to be freed. */
static char *printed_by(const char *const arguments[], const char *const variables[])
{
    FILE *file = tmpfile();
    char *text = calloc(1, 8192);

    assert_non_null(file);
    assert_non_null(text);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    enum config_outcome outcome = load(arguments, variables);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    size_t len = fread(text, 1, 8191, file);
    text[len] = '\0';
    fclose(file);
    assert_int_equal(outcome, CONFIG_EXIT_OK);
    return text;
}

static void help_lists_every_setting(void **state)
{
    static const char *const words[] = {
        "--listen HOST:PORT",
        "RLOCKD_LISTEN",
        "127.0.0.1:7400",
        "--redis URL",
        "RLOCKD_REDIS",
        "--data-dir DIR",
        "RLOCKD_DATA_DIR",
        "./rlockd-data",
        "--workers N",
        "RLOCKD_WORKERS",
        "from 1 to 64",
        "--watchdog-timeout-ms N",
        "RLOCKD_WATCHDOG_TIMEOUT_MS",
        "from 300 to 86400000",
        "30000",
        "--max-wait-ms N",
        "RLOCKD_MAX_WAIT_MS",
        "--retry-window-ms N",
        "RLOCKD_RETRY_WINDOW_MS",
        "--fencing-ttl-ms N",
        "RLOCKD_FENCING_TTL_MS",
        "--key-prefix TEXT",
        "RLOCKD_KEY_PREFIX",
        "--max-connections N",
        "RLOCKD_MAX_CONNECTIONS",
        "--api-tokens FILE",
        "RLOCKD_API_TOKENS",
        "--log-level LEVEL",
        "RLOCKD_LOG_LEVEL",
        "--help",
        "--version",
    };

    (void)state;
    /* Also with a variable that would stop the start. */
    char *text = printed_by(LIST("--help"), LIST("RLOCKD_WORKERS=many"));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(text, words[i]) == NULL)
            fail_msg("--help lacks %s", words[i]);
    char *same = printed_by(LIST("--workers", "2", "-h"), NONE);
    assert_string_equal(same, text);
    free(same);
    free(text);
}

static void version_is_printed(void **state)
{
    (void)state;
    char *text = printed_by(LIST("--version"), NONE);
    assert_string_equal(text, "rlockd " RLOCKD_VERSION "\n");
    char *same = printed_by(LIST("-V"), NONE);
    assert_string_equal(same, text);
    free(same);
    same = printed_by(LIST("-v"), NONE);
    assert_string_equal(same, text);
    free(same);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_complete),
        cmocka_unit_test(flags_are_read_in_both_forms),
        cmocka_unit_test(environment_is_read),
        cmocka_unit_test(flag_beats_environment),
        cmocka_unit_test(listen_forms_are_read),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(unknown_arguments_are_refused),
        cmocka_unit_test(errors_hide_values),
        cmocka_unit_test(help_lists_every_setting),
        cmocka_unit_test(version_is_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
