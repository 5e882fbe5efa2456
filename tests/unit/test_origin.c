/* server/http/origin.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "server/http/origin.h"

/* What a row leaves out is empty, or a header that was not sent. */
struct row {
    const char *cors_origins, *server_names, *listen_host;
    bool is_local, has_tls, opens_page;
    const char *host, *origin, *site, *dest;
    enum origin_outcome outcome;
};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        const struct origin_rules rules = {.cors_origins = or_empty(row->cors_origins),
                                           .server_names = or_empty(row->server_names),
                                           .listen_host = or_empty(row->listen_host),
                                           .is_local = row->is_local,
                                           .has_tls = row->has_tls};
        const struct origin_headers headers = {.host = row->host,
                                               .origin = row->origin,
                                               .sec_fetch_site = row->site,
                                               .sec_fetch_dest = row->dest};
        enum origin_outcome outcome = origin_check(&rules, &headers, row->opens_page);
        if (outcome != row->outcome)
            fail_msg("row %zu: host %s, origin %s: %d instead of %d", i, or_empty(row->host),
                     or_empty(row->origin), (int)outcome, (int)row->outcome);
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* Programs send neither Origin nor Sec-Fetch-Site. */
static void hosts_are_checked(void **state)
{
    static const struct row rows[] = {
        {.host = "rlockd:7400"},
        {.host = "anything.example"},
        {.host = ""},
        {.host = NULL},
        {.is_local = true, .host = ""},
        {.is_local = true, .host = NULL},
        {.is_local = true, .host = "localhost"},
        {.is_local = true, .host = "LocalHost:7400"},
        {.is_local = true, .host = "127.0.0.1:7400"},
        {.is_local = true, .host = "127.0.0.2"},
        {.is_local = true, .host = "[::1]"},
        {.is_local = true, .host = "[::1]:7400"},
        {.is_local = true, .listen_host = "dev", .host = "dev:7400"},
        {.is_local = true, .server_names = "a.example, B.example", .host = "b.example:1"},
        {.is_local = true, .host = "rebind.example", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "localhost.example", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "localhost.", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "127.0.0.1.example:7400", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "127.1", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "::1", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "[::1", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "[::1]x", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = "[127.0.0.1]", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true, .host = ":7400", .outcome = ORIGIN_WRONG_HOST},
        {.is_local = true,
         .server_names = "a.example",
         .host = "a.exampl",
         .outcome = ORIGIN_WRONG_HOST},
        {.server_names = "a.example", .host = "a.example"},
        {.server_names = "a.example", .host = "10.0.0.1:7400"},
        {.server_names = "a.example", .host = "b.example", .outcome = ORIGIN_WRONG_HOST},
        /* An allowed origin does not make a name one of the server. */
        {.is_local = true,
         .cors_origins = "*",
         .host = "b.example",
         .origin = "http://b.example",
         .outcome = ORIGIN_WRONG_HOST},
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void origins_are_checked(void **state)
{
    static const struct row rows[] = {
        {.host = "10.0.0.1:7400", .origin = "http://10.0.0.1:7400"},
        {.host = "10.0.0.1:7400", .origin = "https://10.0.0.1:7400"}, /* a proxy has TLS */
        {.host = "localhost:7400", .origin = "http://localhost:7400"},
        {.host = "LOCALHOST:7400", .origin = "http://localhost:7400"},
        {.host = "[::1]:7400", .origin = "http://[::1]:7400"},
        {.host = "10.0.0.1:80", .origin = "http://10.0.0.1"},
        {.host = "10.0.0.1:443", .origin = "https://10.0.0.1"},
        {.listen_host = "dev", .host = "dev:7400", .origin = "http://dev:7400"},
        {.server_names = "dev", .host = "dev:7400", .origin = "http://dev:7400"},
        {.cors_origins = "https://a.example", .host = "x", .origin = "https://a.example"},
        {.cors_origins = "*", .host = "x", .origin = "https://any.example"},
        {.cors_origins = "https://a.example",
         .host = "x",
         .origin = "https://a.example",
         .site = "cross-site"},
        {.has_tls = true, .host = "10.0.0.1", .origin = "https://10.0.0.1"},
        {.has_tls = true,
         .host = "10.0.0.1",
         .origin = "http://10.0.0.1",
         .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "https://evil.example", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "null", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "", .outcome = ORIGIN_FOREIGN},
        {.host = "", .origin = "http://", .outcome = ORIGIN_REBINDABLE},
        {.host = NULL, .origin = "http://10.0.0.1", .outcome = ORIGIN_FOREIGN},
        /* Another port or scheme is another origin. */
        {.host = "10.0.0.1:7400", .origin = "http://10.0.0.1:3000", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "http://10.0.0.1", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:443", .origin = "http://10.0.0.1", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "http://10.0.0.1:74000", .outcome = ORIGIN_FOREIGN},
        {.host = "10.0.0.1:7400", .origin = "ftp://10.0.0.1:7400", .outcome = ORIGIN_FOREIGN},
        {.cors_origins = "https://a.example",
         .host = "x",
         .origin = "https://a.example.evil",
         .outcome = ORIGIN_FOREIGN},
        /* An open answer makes no difference to a page that says its origin. */
        {.host = "10.0.0.1",
         .origin = "https://evil.example",
         .opens_page = true,
         .dest = "document",
         .outcome = ORIGIN_FOREIGN},
        {.host = "rebind.example:7400",
         .origin = "http://rebind.example:7400",
         .outcome = ORIGIN_REBINDABLE},
        {.is_local = true,
         .host = "rebind.example:7400",
         .origin = "http://rebind.example:7400",
         .outcome = ORIGIN_WRONG_HOST},
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void sites_are_checked(void **state)
{
    static const struct row rows[] = {
        {.host = "localhost", .site = "same-origin", .dest = "empty"},
        {.host = "localhost", .site = "none", .dest = "document"},
        {.host = "localhost", .site = "cross-site", .dest = "image", .outcome = ORIGIN_FOREIGN},
        {.host = "localhost", .site = "same-site", .dest = "script", .outcome = ORIGIN_FOREIGN},
        {.host = "localhost", .site = "new-word", .outcome = ORIGIN_FOREIGN},
        {.host = "localhost",
         .site = "cross-site",
         .dest = "document",
         .outcome = ORIGIN_FOREIGN},
        /* A link to an open page. */
        {.host = "localhost", .site = "cross-site", .dest = "document", .opens_page = true},
        {.host = "localhost", .site = "same-site", .dest = "document", .opens_page = true},
        {.host = "localhost",
         .site = "cross-site",
         .dest = "iframe",
         .opens_page = true,
         .outcome = ORIGIN_FOREIGN},
        {.host = "localhost",
         .site = "cross-site",
         .opens_page = true,
         .outcome = ORIGIN_FOREIGN},
        /* A page of an allowed origin says its origin. */
        {.cors_origins = "*",
         .host = "localhost",
         .site = "cross-site",
         .dest = "image",
         .outcome = ORIGIN_FOREIGN},
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void names_have_their_form(void **state)
{
    static const char *const good[] = {"", "a", "locks.example.com", "a, b ,c-d_e.",
                                       "xn--bcher-kva.example"};
    static const char *const bad[] = {",",     "a,,b", "a:7400", "http://a", "*",
                                      "*.a.b", "a b",  "[::1]",  "a/",       "\xC3\xBC"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!origin_names_are_valid(good[i]))
            fail_msg("\"%s\" is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (origin_names_are_valid(bad[i]))
            fail_msg("\"%s\" is taken", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_checked),
        cmocka_unit_test(origins_are_checked),
        cmocka_unit_test(sites_are_checked),
        cmocka_unit_test(names_have_their_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
