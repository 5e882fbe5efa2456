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
    assert_int_equal(url.topology, REDIS_SINGLE);
    assert_int_equal(url.transport, REDIS_TCP);
    assert_int_equal(url.host_count, 1);
    assert_string_equal(url.hosts[0].host, host);
    assert_int_equal(url.hosts[0].port, port);
    assert_int_equal(url.database, database);
    assert_string_equal(url.master_name, "");
}

/* `hosts` as "h1:1 h2:2". */
static void expect_several(const char *text, enum redis_topology topology, const char *hosts,
                           const char *master, int database)
{
    char found[512] = "";

    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
    assert_int_equal(url.topology, topology);
    assert_int_equal(url.transport, REDIS_TCP);
    for (size_t i = 0; i < url.host_count; i++)
        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s:%d",
                 i > 0 ? " " : "", url.hosts[i].host, url.hosts[i].port);
    assert_string_equal(found, hosts);
    assert_string_equal(url.master_name, master);
    assert_int_equal(url.database, database);
}

static void expect_unix(const char *text, const char *path, int database)
{
    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
    assert_int_equal(url.topology, REDIS_SINGLE);
    assert_int_equal(url.transport, REDIS_UNIX);
    assert_int_equal(url.host_count, 0);
    assert_false(url.tls);
    assert_string_equal(url.path, path);
    assert_int_equal(url.database, database);
}

/* `user` and `password` of the last URL; NULL: there is none. */
static void expect_login(const char *user, const char *password)
{
    assert_int_equal(url.login.has_user, user != NULL);
    assert_int_equal(url.login.has_password, password != NULL);
    assert_string_equal(url.login.user, user != NULL ? user : "");
    assert_string_equal(url.login.password, password != NULL ? password : "");
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

static void tls_is_a_scheme(void **state)
{
    (void)state;
    expect_tcp("redis://h", "h", 6379, 0);
    assert_false(url.tls);
    expect_tcp("rediss://app:s@cache.example.com/2", "cache.example.com", 6379, 2);
    assert_true(url.tls);
    expect_description("rediss://app:***@cache.example.com:6379/2");
    expect_several("rediss-sentinel://h/m", REDIS_SENTINEL, "h:26379", "m", 0);
    assert_true(url.tls);
    expect_description("rediss-sentinel://h:26379/m");
    expect_several("rediss-cluster://h", REDIS_CLUSTER, "h:6379", "", 0);
    assert_true(url.tls);
    expect_description("rediss-cluster://h:6379");
    expect_several("rediss-quorum://a,b,c", REDIS_QUORUM, "a:6379 b:6379 c:6379", "", 0);
    assert_true(url.tls);
    expect_description("rediss-quorum://a:6379,b:6379,c:6379");
}

static void several_hosts_are_read(void **state)
{
    (void)state;
    expect_several("redis-sentinel://h1:1,h2,[::1]:3,[::2]/mymaster", REDIS_SENTINEL,
                   "h1:1 h2:26379 ::1:3 ::2:26379", "mymaster", 0);
    expect_login(NULL, NULL);
    assert_false(url.tls);
    expect_description("redis-sentinel://h1:1,h2:26379,[::1]:3,[::2]:26379/mymaster");
    expect_several("redis-sentinel://app:s,@h1,h2/my%2Fmaster/7", REDIS_SENTINEL,
                   "h1:26379 h2:26379", "my/master", 7);
    expect_login("app", "s,");
    expect_description("redis-sentinel://app:***@h1:26379,h2:26379/my%2Fmaster/7");
    expect_several("redis-sentinel://h/m/", REDIS_SENTINEL, "h:26379", "m", 0);
    expect_several("redis-cluster://h1,h2:7001,[2001:db8::1]:7002/", REDIS_CLUSTER,
                   "h1:6379 h2:7001 2001:db8::1:7002", "", 0);
    expect_several("redis-cluster://:s@h1,h2/0", REDIS_CLUSTER, "h1:6379 h2:6379", "", 0);
    expect_login(NULL, "s");
    expect_description("redis-cluster://:***@h1:6379,h2:6379");
    expect_several("redis-cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", REDIS_CLUSTER,
                   "1:6379 2:6379 3:6379 4:6379 5:6379 6:6379 7:6379 8:6379 9:6379 10:6379 "
                   "11:6379 12:6379 13:6379 14:6379 15:6379 16:6379",
                   "", 0);
    expect_several("redis-quorum://app:s@h1,h2:7001,[::1],h4,h5/3", REDIS_QUORUM,
                   "h1:6379 h2:7001 ::1:6379 h4:6379 h5:6379", "", 3);
    expect_login("app", "s");
    expect_description("redis-quorum://app:***@h1:6379,h2:7001,[::1]:6379,h4:6379,h5:6379/3");
}

static void servers_get_a_url(void **state)
{
    struct redis_url all;

    (void)state;
    assert_int_equal(
        redis_url_parse(&all, "rediss-sentinel://app:s@h1,h2/m/7", error, sizeof(error)), 0);
    assert_int_equal(redis_url_of_server(&url, &all, "10.0.0.1", 7000), 0);
    expect_login("app", "s");
    expect_description("rediss://app:***@10.0.0.1:7000/7");
    assert_int_equal(redis_url_of_server(&url, &all, "::1", 7000), 0);
    expect_description("rediss://app:***@[::1]:7000/7");
    all.sentinel_login = (struct redis_login){.has_password = true, .password = "t"};
    assert_int_equal(redis_url_of_sentinel(&url, &all, "h2", 26379), 0);
    expect_login(NULL, "t");
    expect_description("rediss://:***@h2:26379");

    char name[REDIS_URL_HOST_SIZE + 1];
    memset(name, 'x', REDIS_URL_HOST_SIZE);
    name[REDIS_URL_HOST_SIZE] = '\0';
    assert_int_equal(redis_url_of_server(&url, &all, name, 1), -1);
    assert_int_equal(redis_url_of_sentinel(&url, &all, "", 1), -1);
    assert_int_equal(redis_url_of_server(&url, &all, name + 1, 1), 0);
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
        {"rediss-unix:///s", "begins with"},
        {"redis-sentinel://", "host is missing"},
        {"redis-sentinel://h", "master"},
        {"redis-sentinel://h/", "master"},
        {"redis-sentinel://h//1", "master"},
        {"redis-sentinel://h?m", "master"},
        {"redis-sentinel://h/%00", "master's name"},
        {"redis-sentinel://h/%0A", "master's name"},
        {"redis-sentinel://h/m/x", "after the master"},
        {"redis-sentinel://h/m?db=1", "after the master"},
        {"redis-sentinel://h1,/m", "host is missing"},
        {"redis-sentinel://,h1/m", "host is missing"},
        {"redis-cluster://h1,,h2", "host is missing"},
        {"redis-cluster://h1, h2", "host must be"},
        {"redis-cluster://h1:0,h2", "port"},
        {"redis-cluster://h1:1/1", "no database but 0"},
        {"redis-cluster://h1:1/m", "database"},
        {"redis-cluster://:hunter2@", "host is missing"},
        {"redis-cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16"},
        {"rediss://h1,h2", "several hosts need"},
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
        {"redis://h1,h2", "several hosts need"},
        {"redis-quorum://h1,h2", "3 or 5 hosts"},
        {"redis-quorum://h1,h2,h3,h4", "3 or 5 hosts"},
        {"redis-quorum://h1,h2,h1:6379", "a host twice"},
        {"redis-quorum://[::1]:7,h2,[::1]:7", "a host twice"},
        {"redis-quorum://h1,h2,h3/x", "a database"},
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
        {"redis-cluster://h,", ":1", "host must be", REDIS_URL_HOST_SIZE - 1},
        {"redis-sentinel://h/", "/1", "master's name", REDIS_URL_MASTER_SIZE - 1},
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
        cmocka_unit_test(tls_is_a_scheme),         cmocka_unit_test(several_hosts_are_read),
        cmocka_unit_test(servers_get_a_url),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
