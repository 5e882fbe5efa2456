/* server/base/token.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/base/token.h"

#define TOKEN "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a"

static void canonical_text_is_taken(void **state)
{
    char canonical[TOKEN_TEXT_SIZE];

    (void)state;
    assert_true(token_parse(TOKEN, canonical));
    assert_string_equal(canonical, TOKEN);
    assert_true(token_parse("9B2F6C1E-5D4A-4E0B-8a37-0C6D1F2E3B4A", canonical));
    assert_string_equal(canonical, TOKEN);
    /* Any version and variant: clients make their tokens as they like. */
    assert_true(token_parse("00000000-0000-0000-0000-000000000001", canonical));
    assert_true(token_parse("ffffffff-ffff-ffff-ffff-ffffffffffff", canonical));
}

static void other_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "00000000-0000-0000-0000-000000000000",
        "9b2f6c1e5d4a4e0b8a370c6d1f2e3b4a",
        "{9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a}",
        "urn:uuid:9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a",
        " 9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a",
        "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a ",
        "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4",
        "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4a0",
        "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b4g",
        "9b2f6c1e-5d4a-4e0b-8a37-0c6d1f2e3b+4",
        "9b2f6c1e-5d4a-4e0b-8a37 0c6d1f2e3b4a",
        "9b2f6c1-e5d4a-4e0b-8a37-0c6d1f2e3b4a",
        "------------------------------------",
    };
    char canonical[TOKEN_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(token_parse(bad[i], canonical));
}

static void own_tokens_are_known(void **state)
{
    char token[TOKEN_TEXT_SIZE], canonical[TOKEN_TEXT_SIZE], before[TOKEN_TEXT_SIZE] = "";

    (void)state;
    for (int i = 0; i < 1000; i++) {
        token_make(token);
        assert_true(token_parse(token, canonical));
        assert_string_equal(canonical, token);
        assert_int_equal(token[14], '8');
        assert_non_null(strchr("89ab", token[19]));
        assert_true(token_is_server_made(token));
        assert_string_not_equal(token, before);
        memcpy(before, token, sizeof(before));
    }
}

static void foreign_tokens_are_not_ours(void **state)
{
    char token[TOKEN_TEXT_SIZE];

    (void)state;
    assert_true(token_is_server_made("00112233-4455-8677-8899-aabbccdd889f"));
    assert_false(token_is_server_made("00112233-4455-8677-8899-aabbccdd889e"));
    assert_false(token_is_server_made("00112233-4455-8677-8899-aabbccdd899f"));
    assert_false(token_is_server_made("10112233-4455-8677-8899-aabbccdd889f"));
    assert_false(token_is_server_made("00112233-4455-4677-8899-aabbccdd889f"));
    assert_false(token_is_server_made("00112233-4455-8677-c899-aabbccdd889f"));
    assert_false(token_is_server_made(TOKEN));

    /* Only digits of the check: another random part has the same check once in 65,536. */
    token_make(token);
    for (size_t i = TOKEN_TEXT_SIZE - 5; i < TOKEN_TEXT_SIZE - 1; i++) {
        char digit = token[i];
        token[i] = digit == '0' ? '1' : '0';
        assert_false(token_is_server_made(token));
        token[i] = digit;
    }
    assert_true(token_is_server_made(token));
}

/* The ids of one token never change: they stand in Redis, written by whichever version. */
static void ids_are_fixed(void **state)
{
    char id[TOKEN_TEXT_SIZE];

    (void)state;
    token_lease_id(TOKEN, id);
    assert_string_equal(id, "e1c1fa81-3ea6-55d1-9317-96e7c82821c5");
    token_session_id(TOKEN, id);
    assert_string_equal(id, "8bb9e90b-01be-54a7-b7fc-3a0dea0459f3");
    token_of_client("terraform/a", "1", id);
    assert_string_equal(id, "1c178247-e0fd-553e-b235-c3b459c38d30");
    token_id_of_note("terraform/a", "1", id);
    assert_string_equal(id, "5b8a8ca7-9318-5006-95e8-da115d10b62d");
}

static void random_hex_has_its_length(void **state)
{
    char hex[70], other[70];

    (void)state;
    for (size_t len = 0; len < sizeof(hex); len++) {
        memset(hex, '?', sizeof(hex));
        token_random_hex(hex, len);
        assert_int_equal(strlen(hex), len);
        assert_int_equal(strspn(hex, "0123456789abcdef"), len);
    }
    token_random_hex(hex, 32);
    token_random_hex(other, 32);
    assert_string_not_equal(hex, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_is_taken),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(own_tokens_are_known),
        cmocka_unit_test(foreign_tokens_are_not_ours),
        cmocka_unit_test(ids_are_fixed),
        cmocka_unit_test(random_hex_has_its_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
