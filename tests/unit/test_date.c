/* server/base/date.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/date.h"

static void dates_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2027-01-31T12:00:00Z", 1801396800},
        {"2027-01-31t12:00:00z", 1801396800},
        {"2027-01-31T12:00:00.999Z", 1801396800},
        {"2027-01-31T13:00:00+01:00", 1801396800},
        {"2027-01-31T06:30:00-05:30", 1801396800},
        {"2028-02-29T00:00:00Z", 1835395200},
        {"1969-12-31T23:59:59Z", -1},
        {"9999-12-31T23:59:59Z", INT64_C(253402300799)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t seconds = 0;
        if (!date_parse(rows[i].text, &seconds))
            fail_msg("\"%s\" is refused", rows[i].text);
        assert_int_equal(seconds, rows[i].seconds);
    }
}

static void what_is_no_date_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "2027-01-31",
        "2027-01-31T12:00:00",
        "2027-01-31 12:00:00Z",
        "2027-01-31T12:00Z",
        "2027-01-31T12:00:00Zx",
        "2027-01-31T12:00:00.Z",
        "2027-01-31T12:00:00+1:00",
        "2027-01-31T12:00:00+01",
        "2027-01-31T12:00:00+24:00",
        "2027-02-29T12:00:00Z",
        "2027-04-31T12:00:00Z",
        "2027-13-01T12:00:00Z",
        "2027-00-01T12:00:00Z",
        "2027-01-00T12:00:00Z",
        "2027-01-31T24:00:00Z",
        "2027-01-31T12:60:00Z",
        "27-01-31T12:00:00Z",
        "+027-01-31T12:00:00Z",
        " 2027-01-31T12:00:00Z",
        "tomorrow",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t seconds;
        if (date_parse(bad[i], &seconds))
            fail_msg("\"%s\" is taken", bad[i]);
    }
}

static void dates_are_written(void **state)
{
    char text[DATE_SIZE];

    (void)state;
    date_format(text, 0);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    date_format(text, 1801396800);
    assert_string_equal(text, "2027-01-31T12:00:00Z");
    date_format(text, INT64_C(253402300799));
    assert_string_equal(text, "9999-12-31T23:59:59Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_read),
        cmocka_unit_test(dates_are_written),
        cmocka_unit_test(what_is_no_date_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
