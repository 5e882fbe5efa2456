/* storage/redis/url.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "storage/redis/url.h"

static struct redis_url url;
static char error[256];

static void expect_tcp(const char *text, const char *host, int port, int database)
{
    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
    assert_int_equal(url.transport, REDIS_TCP);
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_int_equal(url.database, database);
}

static void expect_unix(const char *text, const char *path, int database)
{
    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
    assert_int_equal(url.transport, REDIS_UNIX);
    assert_string_equal(url.path, path);
    assert_int_equal(url.database, database);
}

/* `user` and `password` of the last URL; NULL: there is none. */
static void expect_login(const char *user, const char *password)
{
    assert_int_equal(url.has_user, user != NULL);
    assert_int_equal(url.has_password, password != NULL);
    assert_string_equal(url.user, user != NULL ? user : "");
    assert_string_equal(url.password, password != NULL ? password : "");
}

static void expect_description(const char *text)
{
    char description[REDIS_URL_TEXT_SIZE];

    redis_url_describe(&url, description);
    assert_string_equal(description, text);
}

static void tcp_forms_are_read(void **state)
{
    (void)state;
    expect_tcp("redis://localhost", "localhost", 6379, 0);
    expect_login(NULL, NULL);
    expect_description("redis://localhost:6379");
    expect_tcp("redis://localhost/", "localhost", 6379, 0);
    expect_tcp("REDIS://10.0.0.1:7000", "10.0.0.1", 7000, 0);
    expect_tcp("redis://redis_1.internal-net:1/15", "redis_1.internal-net", 1, 15);
    expect_description("redis://redis_1.internal-net:1/15");
    expect_tcp("redis://h:65535/65535", "h", 65535, 65535);
    expect_tcp("redis://[::1]", "::1", 6379, 0);
    expect_tcp("redis://:p@[2001:db8::1]:7000/2", "2001:db8::1", 7000, 2);
    expect_login(NULL, "p");
    expect_description("redis://:***@[2001:db8::1]:7000/2");
}

static void logins_are_decoded(void **state)
{
    (void)state;
    expect_tcp("redis://app:secret@h:1/2", "h", 1, 2);
    expect_login("app", "secret");
    expect_description("redis://app:***@h:1/2");
    expect_tcp("redis://:secret@h", "h", 6379, 0);
    expect_login(NULL, "secret");
    expect_tcp("redis://a%3Ab:c%2fd%40%3f%23%25@h", "h", 6379, 0);
    expect_login("a:b", "c/d@?#%");
    expect_description("redis://a%3Ab:***@h:6379");
    /* A bare +, : or @ in a password is what it is. */
    expect_tcp("redis://:a+b:c@d@h", "h", 6379, 0);
    expect_login(NULL, "a+b:c@d");
    expect_tcp("redis://nopass:@h", "h", 6379, 0);
    expect_login("nopass", "");
    expect_tcp("redis://:@h", "h", 6379, 0);
    expect_login(NULL, NULL);
}

static void unix_forms_are_read(void **state)
{
    (void)state;
    expect_unix("unix:///run/redis.sock", "/run/redis.sock", 0);
    expect_login(NULL, NULL);
    expect_description("unix:///run/redis.sock");
    expect_unix("unix:///run/redis.sock?db=3", "/run/redis.sock", 3);
    expect_description("unix:///run/redis.sock?db=3");
    expect_unix("unix://app:s%2F@/run/a%20b%3F.sock", "/run/a b?.sock", 0);
    expect_login("app", "s/");
    expect_description("unix://app:***@/run/a%20b%3F.sock");
    expect_unix("unix://:s@/r@d.sock", "/r@d.sock", 0);
    expect_login(NULL, "s");
}

static void sockets_get_a_url(void **state)
{
    static const char *const paths[] = {"/run/redis.sock", "/a b/100%/?x=#y@z:/\xC3\xBC.sock"};
    char text[REDIS_URL_TEXT_SIZE], path[REDIS_URL_PATH_SIZE];

    (void)state;
    redis_url_of_socket("/run/redis.sock", text);
    assert_string_equal(text, "unix:///run/redis.sock");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        redis_url_of_socket(paths[i], text);
        expect_unix(text, paths[i], 0);
    }
    memset(path, '%', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    redis_url_of_socket(path, text);
    expect_unix(text, path, 0);
}

static void expect_error(const char *text, const char *part)
{
    error[0] = '\0';
    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), -1);
    if (strstr(error, part) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", text, error, part);
    assert_null(strstr(error, "hunter2"));
}

static void other_forms_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"rediss://h", "rediss:// (TLS) is not supported"},
        {"redis-sentinel://h1:1,h2:2/m", "redis-sentinel:// is not supported"},
        {"redis-cluster://h1:1", "redis-cluster:// is not supported"},
        {"", "begins with"},
        {"localhost:6379", "begins with"},
        {"redis:/h", "begins with"},
        {"http://h", "begins with"},
        {"/run/redis.sock", "begins with"},
        {"redis://", "host is missing"},
        {"redis:///1", "host is missing"},
        {"redis://:6379", "host is missing"},
        {"redis://[]", "host is missing"},
        {"redis://:hunter2@", "host is missing"},
        {"redis://hunter2@h", "user:password"},
        {"redis://u:hunter2%@h", "percent"},
        {"redis://u:hunter2%00@h", "percent"},
        {"redis://u%zz:hunter2@h", "percent"},
        {"redis://:hunter2/x@h", "port"},
        {"redis://h:", "port"},
        {"redis://h:0", "port"},
        {"redis://h:65536", "port"},
        {"redis://h:+1", "port"},
        {"redis://h:123456789012", "port"},
        {"redis://::1:6379", "host must be"},
        {"redis://[::1", "host must be"},
        {"redis://[h]:1", "host must be"},
        {"redis://[::g]:1", "host must be"},
        {"redis://a b", "host must be"},
        {"redis://a%41", "host must be"},
        {"redis://h1,h2", "host must be"},
        {"redis://h/x", "database"},
        {"redis://h/-1", "database"},
        {"redis://h/65536", "database"},
        {"redis://h/1/", "database"},
        {"redis://h?db=1", "database"},
        {"redis://h/1?x=1", "database"},
        {"redis://h#1", "database"},
        {"unix://", "absolute path"},
        {"unix:///", "absolute path"},
        {"unix://run/redis.sock", "absolute path"},
        {"unix://u:hunter2@run/redis.sock", "absolute path"},
        {"unix://hunter2@/s", "user:password"},
        {"unix:///s%", "percent"},
        {"unix:///s%00", "percent"},
        {"unix:///s?", "db="},
        {"unix:///s?db=", "db must be"},
        {"unix:///s?db=x", "db must be"},
        {"unix:///s?db=1&db=2", "db must be"},
        {"unix:///s?password=hunter2", "unix://user:password@/path"},
        {"unix:///s#x", "db="},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_error(bad[i].text, bad[i].part);
}

static void lengths_are_kept(void **state)
{
    static const struct {
        const char *before, *after, *part;
        size_t max;
    } rows[] = {
        {"redis://", "", "host must be", REDIS_URL_HOST_SIZE - 1},
        {"redis://", ":p@h", "user is too long", REDIS_URL_USER_SIZE - 1},
        {"redis://:", "@h", "password is too long", REDIS_URL_PASSWORD_SIZE - 1},
        {"unix:///", "", "107 bytes", REDIS_URL_PATH_SIZE - 2},
    };
    char text[REDIS_URL_TEXT_SIZE], filler[REDIS_URL_TEXT_SIZE];

    (void)state;
    memset(filler, 'x', sizeof(filler));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "%s%.*s%s", rows[i].before, (int)rows[i].max, filler,
                 rows[i].after);
        assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
        snprintf(text, sizeof(text), "%s%.*s%s", rows[i].before, (int)rows[i].max + 1, filler,
                 rows[i].after);
        expect_error(text, rows[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_forms_are_read),      cmocka_unit_test(logins_are_decoded),
        cmocka_unit_test(unix_forms_are_read),     cmocka_unit_test(sockets_get_a_url),
        cmocka_unit_test(other_forms_are_refused), cmocka_unit_test(lengths_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
