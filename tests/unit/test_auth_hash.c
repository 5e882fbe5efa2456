/* server/auth/auth_hash.c and auth.c: the credentials of Basic */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/auth/auth.h"
#include "server/auth/auth_hash.h"

static void password_begins_behind_the_first_colon(void **state)
{
    static const struct {
        const char *base64, *password;
    } rows[] = {
        {"dXNlcjpwYXNz", "pass"},  {"OnBhc3M=", "pass"}, /* no user name */
        {"dTpwOmFzcw==", "p:ass"}, {"Og==", ""},         {"dTo=", ""},
    };
    char password[AUTH_TOKEN_MAX];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!auth_basic_password(rows[i].base64, password, &len))
            fail_msg("\"%s\" is refused", rows[i].base64);
        assert_int_equal(len, strlen(rows[i].password));
        assert_memory_equal(password, rows[i].password, len);
    }
}

static void what_has_no_password_is_refused(void **state)
{
    static const char *const bad[] = {
        "", "=", "====", "dXNlcnBhc3M=" /* no colon */, "dXNlcjpwYX!!", "dXNlcjpwYXN\377",
    };
    char password[AUTH_TOKEN_MAX];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (auth_basic_password(bad[i], password, &len))
            fail_msg("\"%s\" is taken", bad[i]);
}

static void longest_password(void **state)
{
    char base64[600], password[AUTH_TOKEN_MAX];
    size_t len;

    (void)state;
    memset(base64, 'Y', sizeof(base64));
    memcpy(base64, "dXU6", 4); /* "uu:" */
    base64[4 + 340] = '\0';    /* and 255 bytes */
    assert_true(auth_basic_password(base64, password, &len));
    assert_int_equal(len, 255);
    base64[4 + 340] = 'Y';
    base64[4 + 344] = '\0';
    assert_false(auth_basic_password(base64, password, &len));
}

/* 63 times u, and what the base64 says further. */
static bool takes_long_user(const char *base64, char user[AUTH_CALLER_SIZE])
{
    char header[128], *end = header + sprintf(header, "Basic ");

    for (int i = 0; i < 21; i++)
        end += sprintf(end, "dXV1");
    snprintf(end, sizeof(header) - (size_t)(end - header), "%s", base64);
    return auth_basic_user(header, user);
}

/* For servers without API tokens. */
static void user_of_basic(void **state)
{
    static const char *const bad[] = {
        NULL,
        "",
        "Basic",
        "Basic ",
        "Bearer dXNlcjpwYXNz",
        "Basic dXNlcnBhc3M=" /* no colon */,
        "Basic OnBhc3M=" /* no name */,
        "Basic dQBlcjpw" /* a NUL */,
        "Basic dQplcjpw" /* a newline */,
        "Basic /zpw" /* no UTF-8 */,
    };
    char user[AUTH_CALLER_SIZE];

    (void)state;
    assert_true(auth_basic_user("basic dXNlcjpwOmFzcw==", user));
    assert_string_equal(user, "user");
    assert_true(auth_basic_user("Basic w5w6", user));
    assert_string_equal(user, "\xc3\x9c");
    assert_true(takes_long_user("dTpw", user)); /* u:p */
    assert_int_equal(strlen(user), AUTH_CALLER_SIZE - 1);
    assert_false(takes_long_user("dXU6", user)); /* uu: */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (auth_basic_user(bad[i], user))
            fail_msg("\"%s\" is taken", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_of_basic),
        cmocka_unit_test(password_begins_behind_the_first_colon),
        cmocka_unit_test(what_has_no_password_is_refused),
        cmocka_unit_test(longest_password),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
