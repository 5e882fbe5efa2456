/* server/http/auth.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/auth.h"

#define TOKEN_A "aaaaaaaaaaaaaaaa"
#define TOKEN_B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define TOKEN_C "cccccccccccccccc"

static char path[32], error[256];
static struct auth *auth;

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/rlockd-test-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    error[0] = '\0';
    auth = NULL;
    return close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    if (auth != NULL)
        auth_free(auth);
    return unlink(path);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    size_t written;
    int closed;

    assert_non_null(file);
    written = fwrite(text, 1, strlen(text), file);
    closed = fclose(file);
    assert_int_equal(written, strlen(text));
    assert_int_equal(closed, 0);
}

static void load(const char *text)
{
    if (auth != NULL)
        auth_free(auth);
    write_file(text);
    auth = auth_load(path, error, sizeof(error));
    if (auth == NULL)
        fail_msg("%s", error);
}

static const struct auth_caller *find(const char *token)
{
    char header[1024];

    snprintf(header, sizeof(header), "Bearer %s", token);
    return auth_find(auth, header);
}

static void expect_caller(const char *token, const char *name)
{
    const struct auth_caller *caller = find(token);

    assert_non_null(caller);
    assert_string_equal(auth_caller_name(caller), name);
}

static void lines_are_read(void **state)
{
    (void)state;
    load("# who may what\n"
         "\n"
         " \t \n"
         "ci lock " TOKEN_A " ci/\n"
         "\tops\toperator   " TOKEN_B " \t*  # everything\r\n"
         "   # nothing\n"
         "web lock " TOKEN_C " \xC3\xBC"); /* the last line needs no newline */
    expect_caller(TOKEN_A, "ci");
    expect_caller(TOKEN_B, "ops");
    expect_caller(TOKEN_C, "web");
    assert_true(auth_allows(find(TOKEN_B), ROUTE_OPERATOR, "any"));
    assert_true(auth_allows(find(TOKEN_C), ROUTE_LOCK, "\xC3\xBC/1"));
}

static void longest_fields_are_read(void **state)
{
    char text[1200], caller[65], token[257], prefix[513];

    (void)state;
    memset(caller, 'c', sizeof(caller) - 1);
    caller[sizeof(caller) - 1] = '\0';
    memset(token, 't', sizeof(token) - 1);
    token[sizeof(token) - 1] = '\0';
    memset(prefix, 'p', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    snprintf(text, sizeof(text), "%s operator %s %s\n", caller, token, prefix);
    load(text);
    expect_caller(token, caller);
    assert_true(auth_allows(find(token), ROUTE_OPERATOR, prefix));
    assert_false(auth_allows(find(token), ROUTE_OPERATOR, prefix + 1));
}

static void expect_refused(const char *text, const char *part)
{
    write_file(text);
    error[0] = '\0';
    if (auth_load(path, error, sizeof(error)) != NULL)
        fail_msg("\"%s\" is taken", text);
    if (strstr(error, part) == NULL || strstr(error, path) == NULL)
        fail_msg("\"%s\" lacks \"%s\" or the file", error, part);
    assert_memory_equal(error, "--api-tokens (RLOCKD_API_TOKENS): ",
                        strlen("--api-tokens (RLOCKD_API_TOKENS): "));
    assert_null(strchr(error, '\n'));
    assert_null(strstr(error, "secret"));
}

static void bad_files_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "names no caller"},
        {"\n\n# only a comment\n", "names no caller"},
        {"ci lock secret-secret-secret\n", "line 1: needs four fields"},
        {"ci lock secret-secret-secret # ci/\n", "line 1: needs four fields"},
        {"ci lock secret-secret-secret a b\n", "line 1: needs four fields"},
        {"ci\n", "line 1: needs four fields"},
        {"\n# x\nci look secret-secret-secret *\n", "line 3: the second field"},
        {"ci locks secret-secret-secret *\n", "line 1: the second field"},
        {"ci open secret-secret-secret *\n", "line 1: the second field"},
        {"ci LOCK secret-secret-secret *\n", "line 1: the second field"},
        {"ci operatoroperators secret-secret-secret *\n", "line 1: "},
        {"ci lock secret-secret-se *\nci lock secret *\n", "line 2: the token is shorter"},
    };
    char text[1200], filler[600];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refused(rows[i].text, rows[i].part);
    memset(filler, 'x', sizeof(filler));
    snprintf(text, sizeof(text), "%.65s lock secret-secret-secret *\n", filler);
    expect_refused(text, "line 1: ");
    snprintf(text, sizeof(text), "ci lock %.257s *\n", filler);
    expect_refused(text, "line 1: ");
    snprintf(text, sizeof(text), "ci lock secret-secret-secret %.513s\n", filler);
    expect_refused(text, "line 1: ");
    snprintf(text, sizeof(text), "ci lock %.15s *\n", filler);
    expect_refused(text, "line 1: the token is shorter than 16");
}

static void missing_file_is_refused(void **state)
{
    (void)state;
    assert_null(auth_load("/nonexistent/tokens", error, sizeof(error)));
    assert_string_equal(
        error,
        "--api-tokens (RLOCKD_API_TOKENS): /nonexistent/tokens: No such file or directory");
    assert_null(auth_load("/tmp", error, sizeof(error)));
    assert_non_null(strstr(error, "/tmp"));
}

static void header_has_its_form(void **state)
{
    static const char *const bad[] = {
        "",         "Bearer",           "Bearer ",
        "Bearer  ", "Bearer" TOKEN_A,   "Basic " TOKEN_A,
        TOKEN_A,    " Bearer " TOKEN_A, "Bearer\t" TOKEN_A,
    };

    (void)state;
    load("ci lock " TOKEN_A " *\n");
    assert_null(auth_find(auth, NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (auth_find(auth, bad[i]) != NULL)
            fail_msg("\"%s\" is taken", bad[i]);
    /* RFC 9110 §11.1: the scheme in any case; §11.4: one or more spaces. */
    assert_non_null(auth_find(auth, "bearer " TOKEN_A));
    assert_non_null(auth_find(auth, "BEARER   " TOKEN_A));
}

/* Whatever differs: the first byte, the last one, the length, the case. */
static void only_the_whole_token_is_right(void **state)
{
    static const char *const bad[] = {
        "aaaaaaaaaaaaaaab",  "baaaaaaaaaaaaaaa",    "aaaaaaaaaaaaaaa", "a",
        "Aaaaaaaaaaaaaaaa",  "aaaaaaaaaaaaaaaaa",   TOKEN_A TOKEN_A,   TOKEN_A " ",
        TOKEN_A "," TOKEN_B, "aaaaaaa\341aaaaaaaa",
    };

    (void)state;
    load("ci lock " TOKEN_A " *\nweb lock " TOKEN_B " *\n");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (find(bad[i]) != NULL)
            fail_msg("\"%s\" is taken", bad[i]);
    expect_caller(TOKEN_A, "ci");
    expect_caller(TOKEN_B, "web");
}

static void prefix_limits_names(void **state)
{
    static const struct {
        const char *prefix, *name;
        bool allowed;
    } rows[] = {
        {"ci/", "ci/1", true},   {"ci/", "ci/", true},   {"ci/", "ci", false},
        {"ci/", "c", false},     {"ci/", "CI/1", false}, {"ci/", "x/ci/1", false},
        {"ci/", "", false},      {"*", "ci/1", true},    {"*", "*", true},
        {"*", "", true},         {"**", "ci/1", false},  {"**", "**x", true},
        {"ci*", "ci/1", false},  {"ci*", "ci*1", true},  {"a%20b", "a b", false},
        {"ci/1", "ci/10", true},
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "ci lock " TOKEN_A " %s\n", rows[i].prefix);
        load(text);
        if (auth_allows(find(TOKEN_A), ROUTE_LOCK, rows[i].name) != rows[i].allowed)
            fail_msg("%s on %s is wrong", rows[i].prefix, rows[i].name);
    }
}

static void only_operators_may_what_operators_may(void **state)
{
    (void)state;
    load("ci lock " TOKEN_A " ci/\nops operator " TOKEN_B " ci/\n");
    assert_true(auth_allows(find(TOKEN_A), ROUTE_LOCK, "ci/1"));
    assert_false(auth_allows(find(TOKEN_A), ROUTE_OPERATOR, "ci/1"));
    assert_true(auth_allows(find(TOKEN_B), ROUTE_LOCK, "ci/1"));
    assert_true(auth_allows(find(TOKEN_B), ROUTE_OPERATOR, "ci/1"));
    assert_false(auth_allows(find(TOKEN_B), ROUTE_LOCK, "web/1"));
    assert_false(auth_allows(find(TOKEN_B), ROUTE_OPERATOR, "web/1"));
    assert_false(auth_allows(NULL, ROUTE_LOCK, "ci/1"));
}

static void lines_of_one_token_add_up(void **state)
{
    (void)state;
    load("ci lock " TOKEN_A " ci/\n"
         "web lock " TOKEN_B " web/\n"
         "ci operator " TOKEN_A " ops/\n"
         "web lock " TOKEN_C " more/\n"
         "ci lock " TOKEN_A " nightly/\n");
    const struct auth_caller *ci = find(TOKEN_A), *web = find(TOKEN_B);

    expect_caller(TOKEN_A, "ci");
    assert_true(auth_allows(ci, ROUTE_LOCK, "ci/1"));
    assert_true(auth_allows(ci, ROUTE_LOCK, "ops/1"));
    assert_true(auth_allows(ci, ROUTE_LOCK, "nightly/1"));
    assert_false(auth_allows(ci, ROUTE_LOCK, "web/1"));
    assert_false(auth_allows(ci, ROUTE_LOCK, "more/1"));
    /* The right of one line does not reach the names of another. */
    assert_true(auth_allows(ci, ROUTE_OPERATOR, "ops/1"));
    assert_false(auth_allows(ci, ROUTE_OPERATOR, "ci/1"));
    assert_false(auth_allows(ci, ROUTE_OPERATOR, "nightly/1"));
    assert_true(auth_allows(web, ROUTE_LOCK, "web/1"));
    assert_false(auth_allows(web, ROUTE_LOCK, "ci/1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(longest_fields_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(header_has_its_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_whole_token_is_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prefix_limits_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_operators_may_what_operators_may, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lines_of_one_token_add_up, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
