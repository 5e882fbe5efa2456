/* server/auth/auth.c, auth_line.c, auth_usage.c and auth_source.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/auth/auth.h"
#include "server/auth/auth_hash.h"
#include "server/auth/auth_source.h"

#define TOKEN_A "aaaaaaaaaaaaaaaa"
#define TOKEN_B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define TOKEN_C "cccccccccccccccc"
/* printf %s TOKEN | sha256sum */
#define HASH_A "sha256:0c0beacef8877bbf2416eb00f2b5dc96354e26dd1df5517320459b1236860f8c"
#define HASH_B "sha256:16963e78cef396ea322c6338a8c801ae0d11f2156e64cc1af827306f36a344fe"
#define HASH_C "sha256:585cf66cd7e1ac88c26f6f59efe6ae9ce9375b90297c8607f8d58d6dfd5b550a"
#define SECOND INT64_C(1000000000)

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

static void write_bytes(const char *text, size_t len)
{
    FILE *file = fopen(path, "w");
    size_t written;
    int closed;

    assert_non_null(file);
    written = fwrite(text, 1, len, file);
    closed = fclose(file);
    assert_int_equal(written, len);
    assert_int_equal(closed, 0);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
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
         "ci " HASH_A " lock=ci/\n"
         "\tops\t" HASH_B " \toperate=*  # everything\r\n"
         "   # nothing\n"
         "web " HASH_C " lock=\xC3\xBC expires=2999-01-01T00:00:00Z max-waiters=0 "
         "max-ttl-ms=100 max-requests-per-second=1\n");
    expect_caller(TOKEN_A, "ci");
    expect_caller(TOKEN_B, "ops");
    expect_caller(TOKEN_C, "web");
    assert_true(auth_allows(find(TOKEN_B), AUTH_OPERATE, "any"));
    assert_true(auth_allows(find(TOKEN_C), AUTH_LOCK, "\xC3\xBC/1"));
    assert_int_equal(auth_max_ttl_ms(find(TOKEN_C)), 100);
    assert_true(auth_max_ttl_ms(find(TOKEN_B)) == INT64_MAX);
}

static void longest_fields_are_read(void **state)
{
    char text[1200], caller[65], prefix[513];

    (void)state;
    memset(caller, 'c', sizeof(caller) - 1);
    caller[sizeof(caller) - 1] = '\0';
    memset(prefix, 'p', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    snprintf(text, sizeof(text), "%s " HASH_A " operate=%s\n", caller, prefix);
    load(text);
    expect_caller(TOKEN_A, caller);
    assert_true(auth_allows(find(TOKEN_A), AUTH_OPERATE, prefix));
    assert_false(auth_allows(find(TOKEN_A), AUTH_OPERATE, prefix + 1));
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
        {"ci\n", "line 1: behind the caller's name there is no hash"},
        {"ci secret-secret-secret lock=*\n", "line 1: behind the caller's name"},
        {"ci lock secret-secret-secret *\n", "line 1: behind the caller's name"},
        {"ci sha256:secret lock=*\n", "line 1: behind the caller's name"},
        {"ci " HASH_A "0 lock=*\n", "line 1: behind the caller's name"},
        {"ci # " HASH_A " lock=*\n", "line 1: behind the caller's name"},
        {"\n# x\nci " HASH_A "\n", "line 3: the caller has no right"},
        {"ci " HASH_A " max-waiters=1\n", "line 1: the caller has no right"},
        {"ci " HASH_A " lock=\n", "line 1: a right needs a prefix"},
        {"ci " HASH_A " lock\n", "line 1: a word is none of"},
        {"ci " HASH_A " LOCK=*\n", "line 1: a word is none of"},
        {"ci " HASH_A " lock=* secret\n", "line 1: a word is none of"},
        {"ci " HASH_A " lock=* expires=tomorrow\n", "line 1: expires= needs a date"},
        {"ci " HASH_A " lock=* expires=2027-01-01\n", "line 1: expires= needs a date"},
        {"ci " HASH_A " lock=* max-waiters=-1\n", "line 1: max-waiters= needs"},
        {"ci " HASH_A " lock=* max-waiters=1000001\n", "line 1: max-waiters= needs"},
        {"ci " HASH_A " lock=* max-ttl-ms=99\n", "line 1: max-ttl-ms= needs"},
        {"ci " HASH_A " lock=* max-ttl-ms=31622400001\n", "line 1: max-ttl-ms= needs"},
        {"ci " HASH_A " lock=* max-leases=5\n",
         "line 1: max-leases= is no limit any more: max-ttl-ms= and max-requests-per-second="},
        /* Cut, in a name, behind a limit, in a comment. */
        {"a " HASH_B " lock=*\nci " HASH_A " lock=deploy",
         "line 2: the last line does not end"},
        {"ci " HASH_A " lock=* max-ttl-ms=1000", "line 1: the last line does not end"},
        {"ci " HASH_A " lock=*\n# note", "line 2: the last line does not end"},
        {"ci " HASH_A " lock=* max-waiters=1 max-waiters=2\n",
         "line 1: a word that a line may have once"},
        {"ci " HASH_A " lock=* max-ttl-ms=900 max-ttl-ms=900\n",
         "line 1: a word that a line may have once"},
        {"ci " HASH_A " lock=* max-requests-per-second=1 read=* max-requests-per-second=1\n",
         "line 1: a word that a line may have once"},
        {"ci " HASH_A " expires=2999-01-01T00:00:00Z lock=* expires=2999-01-01T00:00:00Z\n",
         "line 1: a word that a line may have once"},
        {"ci " HASH_A " read=a*\n", "line 1: a prefix has no *"},
        {"ci " HASH_A " lock=**\n", "line 1: a prefix has no *"},
        {"ci " HASH_A " operate=*a\n", "line 1: a prefix has no *"},
        {"\xEF\xBB\xBF"
         "ci " HASH_A " lock=*\n",
         "line 1: a byte order mark"},
        {"\xEF\xBB\xBF# note\nci " HASH_A " lock=*\n", "line 1: a byte order mark"},
        {"c\x1Bi " HASH_A " lock=*\n", "line 1: not UTF-8 without control"},
        {"ci\xC2\x9B " HASH_A " lock=*\n", "line 1: not UTF-8 without control"},
        {"ci " HASH_A " lock=*\rread=a\n", "line 1: not UTF-8 without control"},
        {"ci " HASH_A " lock=*\r\r\n", "line 1: not UTF-8 without control"},
        {"c\xFFi " HASH_A " lock=*\n", "line 1: not UTF-8 without control"},
        {"ci " HASH_A " lock=\xC3\n", "line 1: not UTF-8 without control"},
        {"ci " HASH_A " lock=* max-requests-per-second=0\n", "line 1: max-requests-per"},
        {"ci " HASH_A " lock=* max-requests-per-second=1.5\n", "line 1: max-requests-per"},
        {"ci " HASH_A " lock=*\n\nweb " HASH_A " lock=*\n",
         "line 3: an earlier line has the same token"},
    };
    char text[1200], filler[600];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refused(rows[i].text, rows[i].part);
    memset(filler, 'x', sizeof(filler));
    snprintf(text, sizeof(text), "%.65s " HASH_A " lock=*\n", filler);
    expect_refused(text, "line 1: the caller's name is longer");
    snprintf(text, sizeof(text), "ci " HASH_A " lock=%.513s\n", filler);
    expect_refused(text, "line 1: a prefix is longer");
}

/* It would hide the rest of the line. */
static void a_nul_is_refused(void **state)
{
    static const char hidden[] = "ci " HASH_A " lock=*\0 max-waiters=1\n";
    static const char first[] = "\0ci " HASH_A " lock=*\n";
    static const char last[] = "ci " HASH_A " lock=*\0";

    (void)state;
    write_bytes(hidden, sizeof(hidden) - 1);
    assert_null(auth_load(path, error, sizeof(error)));
    assert_non_null(strstr(error, "line 1: a NUL byte"));
    write_bytes(first, sizeof(first) - 1);
    assert_null(auth_load(path, error, sizeof(error)));
    assert_non_null(strstr(error, "line 1: a NUL byte"));
    write_bytes(last, sizeof(last) - 1);
    assert_null(auth_load(path, error, sizeof(error)));
    assert_non_null(strstr(error, "line 1: a NUL byte"));
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
    load("ci " HASH_A " lock=*\n");
    assert_null(auth_find(auth, NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (auth_find(auth, bad[i]) != NULL)
            fail_msg("\"%s\" is taken", bad[i]);
    /* RFC 9110 §11.1: the scheme in any case; §11.4: one or more spaces. */
    assert_non_null(auth_find(auth, "bearer " TOKEN_A));
    assert_non_null(auth_find(auth, "BEARER   " TOKEN_A));
}

static const struct auth_caller *find_basic(const char *base64)
{
    char header[1024];

    snprintf(header, sizeof(header), "Basic %s", base64);
    return auth_find(auth, header);
}

/* RFC 7617 §2: the password begins behind the first colon. */
static void token_is_the_password_of_basic(void **state)
{
    (void)state;
    load("ci " HASH_A " lock=*\n");
    assert_non_null(find_basic("dXNlcjphYWFhYWFhYWFhYWFhYWFh"));
    assert_non_null(find_basic("OmFhYWFhYWFhYWFhYWFhYWE="));       /* no user name */
    assert_non_null(find_basic("  dQBlcjphYWFhYWFhYWFhYWFhYWFh")); /* a NUL in the user name */
    assert_non_null(auth_find(auth, "bAsIc dXNlcjphYWFhYWFhYWFhYWFhYWFh"));
    assert_null(find_basic("YWFhYWFhYWFhYWFhYWFhYQ=="));     /* no colon */
    assert_null(find_basic("dTp4OmFhYWFhYWFhYWFhYWFhYWE=")); /* the password has a colon */
    assert_null(find_basic("dTphYWFhYWFhYWFhYWFhYWFhYQ==")); /* one byte too many */
    assert_null(auth_find(auth, "Basic"));
    assert_null(auth_find(auth, "BasicdXNlcjphYWFhYWFhYWFhYWFhYWFh"));
}

static void rights_and_limits_are_shown(void **state)
{
    (void)state;
    load("ci " HASH_A " lock=ci/ read=* max-waiters=0 expires=2999-01-01T00:00:00Z\n"
         "ops " HASH_B " operate=* max-ttl-ms=100 max-requests-per-second=7\n");
    const struct auth_caller *ci = find(TOKEN_A), *ops = find(TOKEN_B);
    assert_int_equal(auth_right_at(ci, 0)->verb, AUTH_LOCK);
    assert_string_equal(auth_right_at(ci, 0)->prefix, "ci/");
    assert_int_equal(auth_right_at(ci, 1)->verb, AUTH_READ);
    assert_string_equal(auth_right_at(ci, 1)->prefix, "");
    assert_null(auth_right_at(ci, 2));
    assert_int_equal(auth_limits(ci)->max_waiters, 0);
    assert_int_equal(auth_limits(ci)->max_ttl_ms, AUTH_NO_LIMIT);
    assert_int_equal(auth_expires_s(ci), INT64_C(32472144000));
    assert_int_equal(auth_limits(ops)->max_waiters, AUTH_NO_LIMIT);
    assert_int_equal(auth_limits(ops)->max_ttl_ms, 100);
    assert_int_equal(auth_limits(ops)->max_requests_per_second, 7);
    assert_true(auth_expires_s(ops) == INT64_MAX);
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
    load("ci " HASH_A " lock=*\nweb " HASH_B " lock=*\n");
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
        {"ci/", "ci/1", true}, {"ci/", "ci/", true},    {"ci/", "ci", false},
        {"ci/", "c", false},   {"ci/", "CI/1", false},  {"ci/", "x/ci/1", false},
        {"ci/", "", false},    {"*", "ci/1", true},     {"*", "*", true},
        {"*", "", true},       {"a%20b", "a b", false}, {"ci/1", "ci/10", true},
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "ci " HASH_A " lock=%s\n", rows[i].prefix);
        load(text);
        if (auth_allows(find(TOKEN_A), AUTH_LOCK, rows[i].name) != rows[i].allowed)
            fail_msg("%s on %s is wrong", rows[i].prefix, rows[i].name);
    }
}

static void a_right_is_a_verb_and_names(void **state)
{
    (void)state;
    load("ci " HASH_A " lock=ci/ lock=lib/ read=* operate=ops/\nops " HASH_B " operate=ci/\n");
    const struct auth_caller *ci = find(TOKEN_A), *ops = find(TOKEN_B);

    assert_true(auth_allows(ci, AUTH_LOCK, "ci/1"));
    assert_true(auth_allows(ci, AUTH_LOCK, "lib/1"));
    assert_false(auth_allows(ci, AUTH_LOCK, "ops/1"));
    assert_true(auth_allows(ci, AUTH_READ, "any"));
    assert_true(auth_allows(ci, AUTH_OPERATE, "ops/1"));
    assert_false(auth_allows(ci, AUTH_OPERATE, "ci/1"));
    /* No verb brings another one with it. */
    assert_false(auth_allows(ops, AUTH_LOCK, "ci/1"));
    assert_false(auth_allows(ops, AUTH_READ, "ci/1"));
    assert_true(auth_allows_some(ops, AUTH_OPERATE));
    assert_false(auth_allows_some(ops, AUTH_READ));
    assert_false(auth_allows_some(ops, AUTH_LOCK));
}

static void dates_end_tokens(void **state)
{
    (void)state;
    load("old " HASH_A " lock=* expires=1999-12-31T23:59:59Z\n"
         "new " HASH_B " lock=* expires=2999-12-31T23:59:59+01:00\n"
         "ever " HASH_C " lock=*\n");
    assert_true(auth_is_expired(find(TOKEN_A)));
    assert_false(auth_is_expired(find(TOKEN_B)));
    assert_false(auth_is_expired(find(TOKEN_C)));
}

static void many_tokens_are_all_found(void **state)
{
    enum { MANY = 1000 };
    unsigned char hash[AUTH_HASH_LEN];
    char token[32];
    FILE *file = fopen(path, "w");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < MANY; i++) {
        snprintf(token, sizeof(token), "token-number-%07d", i);
        auth_hash(token, strlen(token), hash);
        fprintf(file, "caller-%d sha256:", i);
        for (size_t b = 0; b < sizeof(hash); b++)
            fprintf(file, "%02X", hash[b]); /* in any case */
        fputs(" lock=*\n", file);
    }
    assert_int_equal(fclose(file), 0);
    auth = auth_load(path, error, sizeof(error));
    assert_non_null(auth);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(token, sizeof(token), "token-number-%07d", i);
        snprintf(name, sizeof(name), "caller-%d", i);
        expect_caller(token, name);
    }
    assert_null(find("token-number-0001000"));
}

static void waiters_are_counted(void **state)
{
    (void)state;
    load("few " HASH_A " lock=* max-waiters=2\nnone " HASH_B " lock=* max-waiters=0\n"
         "any " HASH_C " lock=*\n");
    const struct auth_caller *few = find(TOKEN_A);

    assert_true(auth_begin_wait(few));
    assert_true(auth_begin_wait(few));
    assert_false(auth_begin_wait(few));
    auth_end_wait(few);
    assert_true(auth_begin_wait(few));
    assert_false(auth_begin_wait(few));
    assert_false(auth_begin_wait(find(TOKEN_B)));
    for (int i = 0; i < 1000; i++)
        assert_true(auth_begin_wait(find(TOKEN_C)));
}

static void requests_a_second_are_counted(void **state)
{
    int64_t now_ns = 1000 * SECOND;

    (void)state;
    load("slow " HASH_A " lock=* max-requests-per-second=3\nany " HASH_B " lock=*\n");
    const struct auth_caller *slow = find(TOKEN_A);

    for (int i = 0; i < 3; i++)
        assert_true(auth_count_request(slow, now_ns));
    assert_false(auth_count_request(slow, now_ns));
    assert_false(auth_count_request(slow, now_ns + SECOND / 4));
    assert_true(auth_count_request(slow, now_ns + SECOND / 3));
    assert_false(auth_count_request(slow, now_ns + SECOND / 3));
    now_ns += 100 * SECOND; /* a pause saves up one second's worth, no more */
    for (int i = 0; i < 3; i++)
        assert_true(auth_count_request(slow, now_ns));
    assert_false(auth_count_request(slow, now_ns));
    for (int i = 0; i < 1000; i++)
        assert_true(auth_count_request(find(TOKEN_B), now_ns));
}

static void replace(struct auth_source *source, const char *text)
{
    auth = NULL; /* the source's */
    load(text);
    assert_true(auth_source_replace(source, auth));
}

/* What was begun under the old file counts under the new one, and ends there. A file without
 * the token forgets it. */
static void a_new_file_keeps_the_counts(void **state)
{
    (void)state;
    load("few " HASH_A " lock=* max-waiters=1\n");
    struct auth_source *source = auth_source_new(auth);
    struct auth_snapshot *old = auth_source_take(source);
    const struct auth_caller *before = find(TOKEN_A);

    assert_true(auth_begin_wait(before));
    replace(source, "other " HASH_B " lock=*\nfewer " HASH_A " read=* max-waiters=1\n");
    assert_false(auth_begin_wait(find(TOKEN_A)));
    auth_end_wait(before);
    assert_true(auth_begin_wait(find(TOKEN_A)));
    replace(source, "other " HASH_B " lock=*\n");
    replace(source, "few " HASH_A " lock=* max-waiters=1\n");
    assert_true(auth_begin_wait(find(TOKEN_A)));
    auth_end_wait(find(TOKEN_A));
    auth = NULL;
    auth_end_wait(before);
    auth_snapshot_drop(old);
    auth_source_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(longest_fields_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_nul_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(header_has_its_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(token_is_the_password_of_basic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rights_and_limits_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_whole_token_is_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prefix_limits_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_right_is_a_verb_and_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dates_end_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_tokens_are_all_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiters_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_a_second_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_file_keeps_the_counts, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
