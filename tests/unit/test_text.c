/* server/base/text.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/base/text.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

static void utf8_is_taken(void **state)
{
    (void)state;
    assert_true(text_is_utf8(BYTES("")));
    assert_true(text_is_utf8(BYTES("orders/42")));
    assert_true(text_is_utf8(BYTES("\x00\x7F")));
    assert_true(text_is_utf8(BYTES("\xC2\x80 \xDF\xBF")));
    assert_true(text_is_utf8(BYTES("\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF")));
    assert_true(text_is_utf8(BYTES("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF")));
}

static void bad_utf8_is_refused(void **state)
{
    static const char *const bad[] = {
        "\x80",             /* a continuation byte alone */
        "\xC0\x80",         /* overlong NUL */
        "\xC1\xBF",         /* overlong */
        "\xE0\x9F\xBF",     /* overlong */
        "\xF0\x8F\xBF\xBF", /* overlong */
        "\xED\xA0\x80",     /* a surrogate */
        "\xED\xBF\xBF",     /* a surrogate */
        "\xF4\x90\x80\x80", /* above U+10FFFF */
        "\xF5\x80\x80\x80", /* above U+10FFFF */
        "\xFF",             /* no first byte */
        "\xC3",             /* cut off */
        "\xE2\x82",         /* cut off */
        "\xF0\x9F\x98",     /* cut off */
        "\xC3(",            /* not continued */
        "\xE2\x82(",        /* not continued */
        "\xF0\x9F\x98(",    /* not continued */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(text_is_utf8(bad[i], strlen(bad[i])));
    /* What lies behind the length does not complete the character. */
    assert_false(text_is_utf8("\xE2\x82\xAC", 2));
}

static void controls_are_found(void **state)
{
    (void)state;
    assert_true(text_has_control(BYTES("\0")));
    assert_true(text_has_control(BYTES("a\0b")));
    assert_true(text_has_control(BYTES("\t")));
    assert_true(text_has_control(BYTES("a\nb")));
    assert_true(text_has_control(BYTES("\x1F")));
    assert_true(text_has_control(BYTES("\x7F")));
    assert_true(text_has_control(BYTES("\xC2\x80")));
    assert_true(text_has_control(BYTES("\xC2\x9F")));
    assert_true(text_has_control(BYTES("a\xE2\x80\xA8")));
    assert_true(text_has_control(BYTES("a\xE2\x80\xA9")));

    assert_false(text_has_control(BYTES("")));
    assert_false(text_has_control(BYTES(" ~")));
    assert_false(text_has_control(BYTES("\xC2\xA0")));
    assert_false(text_has_control(BYTES("\xE2\x80\xA7 \xE2\x80\xAA")));
    assert_false(text_has_control(BYTES("\xC3\x80")));
}

static void percent_is_decoded(void **state)
{
    char out[8];
    size_t len;

    (void)state;
    assert_int_equal(text_percent_decode(BYTES("a%2Fb+%c3%Bc"), out, sizeof(out), &len), 0);
    assert_int_equal(len, 6);
    assert_string_equal(out, "a/b+\xC3\xBC");
    assert_int_equal(text_percent_decode(BYTES(""), out, sizeof(out), &len), 0);
    assert_int_equal(len, 0);
    assert_string_equal(out, "");
    assert_int_equal(text_percent_decode(BYTES("a%00b"), out, sizeof(out), &len), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(out, "a\0b", 4);
    /* In place. */
    char place[] = "%61%2Fb";
    assert_int_equal(text_percent_decode(place, 7, place, sizeof(place), &len), 0);
    assert_string_equal(place, "a/b");
    /* Once, not twice. */
    assert_int_equal(text_percent_decode(BYTES("%2541"), out, sizeof(out), &len), 0);
    assert_string_equal(out, "%41");
}

static void bad_percent_is_refused(void **state)
{
    static const char *const bad[] = {"%",    "a%",  "%4",  "%g0", "%0g",
                                      "%%41", "% 1", "%+1", "%-1"};
    char out[8];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(text_percent_decode(bad[i], strlen(bad[i]), out, sizeof(out), &len),
                         -1);
    /* What lies behind the length does not complete the code. */
    assert_int_equal(text_percent_decode("%41", 2, out, sizeof(out), &len), -1);
}

static void decoding_leaves_room_for_the_nul(void **state)
{
    char out[4];
    size_t len;

    (void)state;
    assert_int_equal(text_percent_decode(BYTES("abc"), out, sizeof(out), &len), 0);
    assert_string_equal(out, "abc");
    assert_int_equal(text_percent_decode(BYTES("%61%62%63"), out, sizeof(out), &len), 0);
    assert_string_equal(out, "abc");
    assert_int_equal(text_percent_decode(BYTES("abcd"), out, sizeof(out), &len), -1);
    assert_int_equal(text_percent_decode(BYTES(""), out, 0, &len), -1);
}

static void plus_is_a_space_in_a_query(void **state)
{
    char out[8];
    size_t len;

    (void)state;
    assert_int_equal(text_query_decode(BYTES("a+b%2Bc"), out, sizeof(out), &len), 0);
    assert_int_equal(len, 5);
    assert_string_equal(out, "a b+c");
    assert_int_equal(text_query_decode(BYTES("%zz"), out, sizeof(out), &len), -1);
}

static void numbers_are_parsed(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"7", 7},
        {"-1", -1},
        {"86400000", 86400000},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "01",
        "-0",
        "00",
        "1.0",
        "1e3",
        "0x10",
        "--1",
        "a",
        "1a",
        "9223372036854775808",
        "-9223372036854775809",
        "92233720368547758070",
    };
    int64_t value;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(text_parse_int64(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    value = 42;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(text_parse_int64(bad[i], &value));
    assert_true(value == 42);
}

/* RFC 4648 §10, without padding; §5: the last two digits. */
static void base64_there_and_back(void **state)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        {"", ""},
        {"f", "Zg"},
        {"fo", "Zm8"},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg"},
        {"fooba", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "-__-"},
        {"\xff", "_w"},
    };
    char text[16], bytes[16];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text_base64url(rows[i].bytes, strlen(rows[i].bytes), text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(TEXT_BASE64_SIZE(strlen(rows[i].bytes)), strlen(text) + 1);
        assert_int_equal(text_base64url_decode(text, bytes, strlen(rows[i].bytes) + 1, &len),
                         0);
        assert_int_equal(len, strlen(rows[i].bytes));
        assert_string_equal(bytes, rows[i].bytes);
        assert_int_equal(text_base64url_decode(text, bytes, strlen(rows[i].bytes), &len), -1);
    }
    assert_int_equal(text_base64url_decode("Z", bytes, sizeof(bytes), &len), -1);
    assert_int_equal(text_base64url_decode("Zg=", bytes, sizeof(bytes), &len), -1);
    assert_int_equal(text_base64url_decode("Z+", bytes, sizeof(bytes), &len), -1);
    assert_int_equal(text_base64url_decode("Zm9vZ", bytes, sizeof(bytes), &len), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_taken),
        cmocka_unit_test(bad_utf8_is_refused),
        cmocka_unit_test(controls_are_found),
        cmocka_unit_test(percent_is_decoded),
        cmocka_unit_test(bad_percent_is_refused),
        cmocka_unit_test(decoding_leaves_room_for_the_nul),
        cmocka_unit_test(plus_is_a_space_in_a_query),
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(numbers_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
