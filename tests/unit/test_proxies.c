/* server/http/proxies.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "server/http/proxies.h"

static char error[200];

static void lists_are_read(void **state)
{
    static const char *const good[] = {
        "", "10.0.0.0/8", "10.0.0.1", "::1, fd00::/8", "0.0.0.0/0", "192.168.1.7/32 ,::/0"};
    static const char *const bad[] = {
        ",",           "10.0.0.0/33",         "10.0.0.0/", "10.0.0/8", "host",        "::1/129",
        "10.0.0.0/-1", "10.0.0.0/8 10.1.1.1", "/8",        "[::1]",    "10.0.0.0/08",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct proxies *proxies = proxies_parse(good[i], error, sizeof(error));
        if (proxies == NULL)
            fail_msg("\"%s\": %s", good[i], error);
        proxies_free(proxies);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (proxies_parse(bad[i], error, sizeof(error)) != NULL)
            fail_msg("\"%s\" is taken", bad[i]);
    assert_non_null(strstr(error, "10.0.0.0/8"));
}

static const char *client_of(const char *list, const char *peer, const char *x_forwarded_for,
                             const char *forwarded)
{
    static char client[INET6_ADDRSTRLEN];
    struct proxies *proxies = list ? proxies_parse(list, error, sizeof(error)) : NULL;
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, peer, &ipv4.sin_addr) == 1)
        proxies_client(proxies, (struct sockaddr *)&ipv4, x_forwarded_for, forwarded, client);
    else if (inet_pton(AF_INET6, peer, &ipv6.sin6_addr) == 1)
        proxies_client(proxies, (struct sockaddr *)&ipv6, x_forwarded_for, forwarded, client);
    proxies_free(proxies);
    return client;
}

static void clients_are_found(void **state)
{
    static const struct {
        const char *list, *peer, *x_forwarded_for, *forwarded, *client;
    } rows[] = {
        {NULL, "10.0.0.1", "1.2.3.4", NULL, "10.0.0.1"},
        {"10.0.0.0/8", "11.0.0.1", "1.2.3.4", NULL, "11.0.0.1"},
        {"10.0.0.0/8", "10.9.9.9", NULL, NULL, "10.9.9.9"},
        {"10.0.0.0/8", "10.9.9.9", "1.2.3.4", NULL, "1.2.3.4"},
        {"10.0.0.0/8", "10.9.9.9", "6.6.6.6, 1.2.3.4", NULL, "1.2.3.4"},
        {"10.0.0.0/8", "10.9.9.9", "6.6.6.6,1.2.3.4 , 10.1.1.1", NULL, "1.2.3.4"},
        {"10.0.0.0/8", "10.9.9.9", "10.2.2.2, 10.1.1.1", NULL, "10.2.2.2"},
        {"10.0.0.0/8", "10.9.9.9", "nonsense", NULL, "10.9.9.9"},
        {"10.0.0.0/8", "10.9.9.9", "1.2.3.4, unknown, 10.1.1.1", NULL, "10.1.1.1"},
        {"10.0.0.0/8", "10.9.9.9", "", NULL, "10.9.9.9"},
        {"10.0.0.0/8", "10.9.9.9", "1.2.3.4:5678", NULL, "1.2.3.4"},
        {"10.0.0.0/8", "10.9.9.9", "[2001:db8::1]:5678", NULL, "2001:db8::1"},
        {"10.0.0.0/8", "10.9.9.9", "2001:db8::1", NULL, "2001:db8::1"},
        {"10.0.0.0/8", "10.9.9.9", "1.2.3.4\x01", NULL, "10.9.9.9"},
        {"10.9.9.0/25", "10.9.9.127", "1.2.3.4", NULL, "1.2.3.4"},
        {"10.9.9.0/25", "10.9.9.128", "1.2.3.4", NULL, "10.9.9.128"},
        {"0.0.0.0/0", "9.9.9.9", "1.2.3.4", NULL, "1.2.3.4"},
        {"0.0.0.0/0", "::1", "1.2.3.4", NULL, "::1"},
        {"::1", "::1", "1.2.3.4", NULL, "1.2.3.4"},
        {"127.0.0.1", "::ffff:127.0.0.1", "1.2.3.4", NULL, "1.2.3.4"},
        {"::1", "::1", NULL, "for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"},
        {"::1", "::1", NULL, "by=x; For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"},
        {"::1", "::1", NULL, "for=6.6.6.6, for=1.2.3.4", "1.2.3.4"},
        {"::1", "::1", NULL, "for=1.2.3.4, for=\"[::1]\"", "1.2.3.4"},
        {"::1", "::1", NULL, "for=_hidden", "::1"},
        {"::1", "::1", NULL, "proto=http", "::1"},
        {"::1", "::1", "1.2.3.4", "for=5.6.7.8", "1.2.3.4"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *client = client_of(rows[i].list, rows[i].peer, rows[i].x_forwarded_for,
                                       rows[i].forwarded);
        if (strcmp(client, rows[i].client) != 0)
            fail_msg("row %zu: %s instead of %s", i, client, rows[i].client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(clients_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
