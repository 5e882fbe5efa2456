/* storage/store/lock_names.c: several names, in one order and in one text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "storage/store/lease.h"
#include "storage/store/lock_names.h"

static void names_are_copied_and_sorted(void **state)
{
    char b[] = "b";
    const char *const given[] = {b, "a,c", "a", "\xc3\xa4", "B"};
    static const char *const sorted[] = {"B", "a", "a,c", "b", "\xc3\xa4"};
    struct lock_names *names = lock_names_new(given, 5);

    (void)state;
    b[0] = 'x';
    assert_int_equal(names->count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(names->name[i], sorted[i]);
    assert_null(lock_names_duplicate(names));
    lock_names_unref(names);
}

static void twins_are_found(void **state)
{
    static const char *const given[] = {"b", "a", "ab", "b"};
    struct lock_names *names = lock_names_new(given, 4);

    (void)state;
    assert_string_equal(lock_names_duplicate(names), "b");
    lock_names_unref(names);
}

static void text_goes_there_and_back(void **state)
{
    static const char *const prefixes[] = {"", "shop:"};
    static const char *const texts[] = {"\na b\nc", "\nshop:a b\nshop:c"};
    static const char *const given[] = {"c", "a b"};
    size_t len;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct lock_names *names = lock_names_new(given, 2);
        char *text = lock_names_join(names, prefixes[i], &len);
        assert_string_equal(text, texts[i]);
        assert_int_equal(len, strlen(texts[i]));
        lock_names_unref(names);
        names = lock_names_parse(text, strlen(prefixes[i]));
        free(text);
        assert_int_equal(names->count, 2);
        assert_string_equal(names->name[0], "a b");
        assert_string_equal(names->name[1], "c");
        lock_names_unref(names);
    }
}

static void other_texts_have_no_names(void **state)
{
    char many[2 * (LOCKS_MAX + 1) + 1] = "";

    (void)state;
    for (size_t i = 0; i <= LOCKS_MAX; i++)
        memcpy(many + 2 * i, "\na", 2);
    assert_null(lock_names_parse(many, 0));
    many[2 * LOCKS_MAX] = '\0';
    struct lock_names *names = lock_names_parse(many, 0);
    assert_int_equal(names->count, LOCKS_MAX);
    lock_names_unref(names);
    assert_null(lock_names_parse("", 0));
    assert_null(lock_names_parse("a", 0));
    assert_null(lock_names_parse("a\nb", 0));
    /* Whose prefix was another one. */
    names = lock_names_parse("\na\nshop:b", 5);
    assert_string_equal(names->name[0], "");
    assert_string_equal(names->name[1], "b");
    lock_names_unref(names);
}

/* Whoever may write to Redis may write such a record: it must not end the process. */
static void too_long_names_are_none(void **state)
{
    char text[LOCK_NAME_SIZE + 2] = "\n";

    (void)state;
    memset(text + 1, 'x', LOCK_NAME_SIZE);
    assert_null(lock_names_parse(text, 0));
    struct lock_names *names = lock_names_parse(text, 1);
    assert_int_equal(strlen(names->name[0]), LOCK_NAME_SIZE - 1);
    lock_names_unref(names);
}

static void last_one_frees_them(void **state)
{
    static const char *const given[] = {"a"};
    struct lock_names *names = lock_names_new(given, 1);

    (void)state;
    assert_ptr_equal(lock_names_ref(names), names);
    lock_names_unref(names);
    assert_string_equal(names->name[0], "a");
    lock_names_unref(names);
    assert_null(lock_names_ref(NULL));
    lock_names_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_copied_and_sorted),
        cmocka_unit_test(twins_are_found),
        cmocka_unit_test(text_goes_there_and_back),
        cmocka_unit_test(other_texts_have_no_names),
        cmocka_unit_test(too_long_names_are_none),
        cmocka_unit_test(last_one_frees_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
