/* server/http/route.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "handlers/routes.h"
#include "server/http/route.h"

static const struct route table[] = {
    {.method = "PUT", .path = "/v1/locks/{name}"},
    {.method = "GET", .path = "/v1/locks/{name}"},
    {.method = "DELETE", .path = "/v1/locks/{name}"},
    {.method = "GET", .path = "/v1/locks/{name}/tokens/{n}"},
    {.method = "POST", .path = "/v1/locks/{name}/force"},
    {.method = "GET", .path = "/v1/locks"},
    {.method = "GET", .path = "/livez"},
    {.method = "POST", .path = "/only-post"},
    {.method = "GET", .path = "/"},
};

enum {
    PUT_LOCK,
    GET_LOCK,
    DELETE_LOCK,
    GET_TOKEN,
    POST_FORCE,
    GET_LOCKS,
    GET_LIVEZ,
    POST_ONLY,
    GET_ROOT,
    TABLE_COUNT
};

static struct route_match match;

static enum route_outcome find(const char *method, const char *path)
{
    memset(&match, '?', sizeof(match));
    return route_find(table, TABLE_COUNT, method, path, &match);
}

static void expect_param(size_t i, const char *text)
{
    assert_int_equal(match.params[i].len, strlen(text));
    assert_memory_equal(match.params[i].text, text, strlen(text));
}

static void methods_and_paths_are_found(void **state)
{
    static const struct {
        const char *method, *path;
        size_t index;
        const char *params[ROUTE_PARAMS];
    } rows[] = {
        {"PUT", "/v1/locks/a", PUT_LOCK, {"a"}},
        {"GET", "/v1/locks/a", GET_LOCK, {"a"}},
        {"HEAD", "/v1/locks/a", GET_LOCK, {"a"}},
        {"DELETE", "/v1/locks/a", DELETE_LOCK, {"a"}},
        {"GET", "/v1/locks/a/tokens/17", GET_TOKEN, {"a", "17"}},
        {"HEAD", "/v1/locks/a/tokens/17", GET_TOKEN, {"a", "17"}},
        {"POST", "/v1/locks/a/force", POST_FORCE, {"a"}},
        {"GET", "/v1/locks", GET_LOCKS, {NULL}},
        {"HEAD", "/livez", GET_LIVEZ, {NULL}},
        {"POST", "/only-post", POST_ONLY, {NULL}},
        {"GET", "/", GET_ROOT, {NULL}},
        /* Parameters stay as they were sent, and a name may look like a literal. */
        {"PUT", "/v1/locks/a%2Fb%20", PUT_LOCK, {"a%2Fb%20"}},
        {"GET", "/v1/locks/force", GET_LOCK, {"force"}},
        {"GET", "/v1/locks/{name}", GET_LOCK, {"{name}"}},
        {"GET", "/v1/locks/tokens/tokens/tokens", GET_TOKEN, {"tokens", "tokens"}},
        {"GET", "/v1/locks/..", GET_LOCK, {".."}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (find(rows[i].method, rows[i].path) != ROUTE_FOUND)
            fail_msg("%s %s is not found", rows[i].method, rows[i].path);
        assert_int_equal(match.index, rows[i].index);
        for (size_t p = 0; p < ROUTE_PARAMS && rows[i].params[p] != NULL; p++)
            expect_param(p, rows[i].params[p]);
    }
}

static void other_paths_are_not_found(void **state)
{
    static const char *const paths[] = {
        "",
        "*",
        "livez",
        "//",
        "/livez/",
        "//livez",
        "/livezz",
        "/live",
        "/LIVEZ",
        "/v1",
        "/v1/",
        "/v1/locks/", /* an empty name */
        "/v1//locks",
        "/v1/locks//",
        "/v1/locks/a/",
        "/v1/locks//a",
        "/v1/locks/a/tokens",
        "/v1/locks/a/tokens/",
        "/v1/locks//tokens/1",
        "/v1/locks/a/tokens/1/",
        "/v1/locks/a/tokens/1/2",
        "/v1/locks/a//force",
        "/v1/locks/a/forc%65",
        "v1/locks/a",
        "http://h/livez",
    };
    static const char *const methods[] = {"GET", "HEAD", "PUT", "OPTIONS"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++)
            if (find(methods[m], paths[i]) != ROUTE_NOT_FOUND)
                fail_msg("%s %s is found", methods[m], paths[i]);
}

static void other_methods_are_told_what_is_allowed(void **state)
{
    static const struct {
        const char *method, *path, *allow;
    } rows[] = {
        {"POST", "/v1/locks/a", "PUT, HEAD, GET, DELETE"},
        {"OPTIONS", "/v1/locks/a", "PUT, HEAD, GET, DELETE"},
        {"put", "/v1/locks/a", "PUT, HEAD, GET, DELETE"},
        {"", "/v1/locks/a", "PUT, HEAD, GET, DELETE"},
        {"PUT", "/v1/locks/a/tokens/1", "HEAD, GET"},
        {"DELETE", "/v1/locks", "HEAD, GET"},
        {"GET", "/v1/locks/a/force", "POST"},
        /* No GET, so no HEAD. */
        {"HEAD", "/only-post", "POST"},
        {"POST", "/", "HEAD, GET"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(find(rows[i].method, rows[i].path), ROUTE_METHOD_NOT_ALLOWED);
        assert_string_equal(match.allow, rows[i].allow);
    }
}

/* A path that two patterns fit belongs to the first one that has the method. */
static void first_fitting_pattern_wins(void **state)
{
    static const struct route both[] = {
        {.method = "GET", .path = "/a/fixed"},
        {.method = "GET", .path = "/a/{x}"},
        {.method = "PUT", .path = "/{y}/fixed"},
    };

    (void)state;
    assert_int_equal(route_find(both, 3, "GET", "/a/fixed", &match), ROUTE_FOUND);
    assert_int_equal(match.index, 0);
    assert_int_equal(route_find(both, 3, "GET", "/a/fixes", &match), ROUTE_FOUND);
    assert_int_equal(match.index, 1);
    assert_int_equal(route_find(both, 3, "PUT", "/a/fixed", &match), ROUTE_FOUND);
    assert_int_equal(match.index, 2);
    expect_param(0, "a");
    assert_int_equal(route_find(both, 0, "GET", "/a/fixed", &match), ROUTE_NOT_FOUND);
}

static void every_method_of_http_fits_into_allow(void **state)
{
    static const struct route all[] = {
        {.method = "GET", .path = "/x"},     {.method = "POST", .path = "/x"},
        {.method = "PUT", .path = "/x"},     {.method = "DELETE", .path = "/x"},
        {.method = "CONNECT", .path = "/x"}, {.method = "OPTIONS", .path = "/x"},
        {.method = "TRACE", .path = "/x"},   {.method = "PATCH", .path = "/x"},
    };

    (void)state;
    assert_int_equal(route_find(all, sizeof(all) / sizeof(all[0]), "LOCK", "/x", &match),
                     ROUTE_METHOD_NOT_ALLOWED);
    assert_string_equal(match.allow,
                        "HEAD, GET, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH");
}

/* The real table: every route finds itself, and answers 405 without outgrowing Allow. */
static void routes_of_the_server_find_themselves(void **state)
{
    const struct route *routes = routes_table();

    (void)state;
    for (size_t i = 0; i < routes_count(); i++) {
        assert_int_equal(
            route_find(routes, routes_count(), routes[i].method, routes[i].path, &match),
            ROUTE_FOUND);
        assert_int_equal(match.index, i);
        assert_int_equal(route_find(routes, routes_count(), "TRACE", routes[i].path, &match),
                         ROUTE_METHOD_NOT_ALLOWED);
        assert_non_null(strstr(match.allow, routes[i].method));
        assert_non_null(routes[i].handle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_and_paths_are_found),
        cmocka_unit_test(other_paths_are_not_found),
        cmocka_unit_test(other_methods_are_told_what_is_allowed),
        cmocka_unit_test(first_fitting_pattern_wins),
        cmocka_unit_test(every_method_of_http_fits_into_allow),
        cmocka_unit_test(routes_of_the_server_find_themselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
