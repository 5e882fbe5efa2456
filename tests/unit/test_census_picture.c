/* storage/census/picture.c and seen.c: what the census keeps is bounded, and survives as text.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/census/picture.h"
#include "storage/census/seen.h"

static struct census_picture picture, other;

static struct census_entry entry_of(const char *name, int64_t since_ms)
{
    struct census_entry entry = {.since_ms = since_ms, .kind = "lock", .who = "holder"};

    snprintf(entry.name, sizeof(entry.name), "%s", name);
    return entry;
}

static void add(const char *name, int64_t since_ms)
{
    struct census_entry entry = entry_of(name, since_ms);

    picture_add(&picture, &entry);
}

static int clear(void **state)
{
    (void)state;
    picture.count = 0;
    other.count = 0;
    return 0;
}

static void the_longest_comes_first(void **state)
{
    (void)state;
    add("second", 20);
    add("first", 10);
    add("third", 30);
    assert_int_equal(picture.count, 3);
    assert_string_equal(picture.entries[0].name, "first");
    assert_string_equal(picture.entries[1].name, "second");
    assert_string_equal(picture.entries[2].name, "third");
}

static void the_shortest_falls_out(void **state)
{
    (void)state;
    for (int i = 0; i < CENSUS_ENTRIES_MAX + 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "lock %d", i);
        add(name, 1000 - i);
    }
    assert_int_equal(picture.count, CENSUS_ENTRIES_MAX);
    assert_int_equal(picture.entries[0].since_ms, 1000 - CENSUS_ENTRIES_MAX - 19);
    add("too short", 2000);
    assert_int_equal(picture.count, CENSUS_ENTRIES_MAX);
    assert_int_equal(picture.entries[CENSUS_ENTRIES_MAX - 1].since_ms, 1000 - 20);
}

/* SCAN may name a key twice, and its lock may be another client's by then. */
static void a_lock_is_in_a_picture_once(void **state)
{
    struct census_entry again = entry_of("name", 10);

    (void)state;
    add("name", 20);
    add("other", 15);
    assert_false(picture_add(&picture, &again));
    again.since_ms = 30;
    assert_false(picture_add(&picture, &again));
    assert_int_equal(picture.count, 2);
    assert_string_equal(picture.entries[1].name, "name");
    assert_int_equal(picture.entries[1].since_ms, 20);
}

static void a_picture_survives_as_text(void **state)
{
    struct census_entry entry = entry_of("a name with blanks, \xC3\xA4", 17);

    (void)state;
    entry.at_least = true;
    entry.is_told = true;
    picture_add(&picture, &entry);
    add("other", 18);
    char *text = picture_text(&picture);
    picture_parse(&other, text);
    free(text);
    assert_int_equal(other.count, 2);
    assert_string_equal(other.entries[0].name, entry.name);
    assert_string_equal(other.entries[0].who, "holder");
    assert_string_equal(other.entries[0].kind, "lock");
    assert_int_equal(other.entries[0].since_ms, 17);
    assert_true(other.entries[0].at_least && other.entries[0].is_told);
    assert_false(other.entries[1].at_least || other.entries[1].is_told);
}

static void a_text_that_is_no_picture_ends_it(void **state)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "1 0 0 lock holder",
                                        "x 0 0 lock holder n\n",
                                        "-9223372036854775808 0 0 lock holder n\n",
                                        "1 00 0 lock holder n\n",
                                        "1 0 0 toolongakind h n\n",
                                        "1 0 0 lock  n\n",
                                        "1 0 0 lock h\n"};
    char text[LOCK_NAME_SIZE + 100];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        picture_parse(&other, wrong[i]);
        assert_int_equal(other.count, 0);
    }
    memset(text, 'n', sizeof(text));
    memcpy(text, "1 0 0 lock h ", 13);
    memcpy(text + sizeof(text) - 2, "\n", 2);
    picture_parse(&other, text);
    assert_int_equal(other.count, 0);
    picture_parse(&other, "1 0 0 lock h good\nbad\n");
    assert_int_equal(other.count, 1);
}

static void the_same_hold_is_found(void **state)
{
    struct census_entry hold = entry_of("name", 10), next = entry_of("name", 20);

    (void)state;
    add("name", 10);
    assert_non_null(picture_find(&picture, CENSUS_HELD, &hold));
    assert_null(picture_find(&picture, CENSUS_HELD, &next)); /* another grant of the owner */
    assert_non_null(picture_find(&picture, CENSUS_WAITED, &next));
    picture.entries[0].at_least = next.at_least = true;
    assert_non_null(picture_find(&picture, CENSUS_HELD, &next));
    next.who[0] = 'x';
    assert_null(picture_find(&picture, CENSUS_HELD, &next));
}

static void holders_are_seen_since_the_first_walk(void **state)
{
    struct seen seen;

    (void)state;
    seen_init(&seen, SEEN_MAX);
    assert_int_equal(seen_since(&seen, "lock", "java:1", 100), 100);
    assert_int_equal(seen_since(&seen, "lock", "java:2", 150), 150);
    seen_end_walk(&seen);
    assert_int_equal(seen_since(&seen, "lock", "java:1", 200), 100);
    seen_end_walk(&seen); /* the second one was not there */
    assert_int_equal(seen_count(&seen), 1);
    assert_int_equal(seen_since(&seen, "lock", "java:2", 300), 300);
    seen_forget(&seen);
    assert_int_equal(seen_count(&seen), 0);
}

static void the_memory_of_holders_is_bounded(void **state)
{
    struct seen seen;
    char name[16];

    (void)state;
    seen_init(&seen, 10);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "lock %d", i);
        seen_since(&seen, name, "java:1", 100 + i);
    }
    assert_int_equal(seen_count(&seen), 10);
    assert_int_equal(seen_since(&seen, "lock 0", "java:1", 500), 100);
    assert_int_equal(seen_since(&seen, "lock 15", "java:1", 500), 500);
    seen_forget(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_longest_comes_first, clear),
        cmocka_unit_test_setup(the_shortest_falls_out, clear),
        cmocka_unit_test_setup(a_lock_is_in_a_picture_once, clear),
        cmocka_unit_test_setup(a_picture_survives_as_text, clear),
        cmocka_unit_test_setup(a_text_that_is_no_picture_ends_it, clear),
        cmocka_unit_test_setup(the_same_hold_is_found, clear),
        cmocka_unit_test(holders_are_seen_since_the_first_walk),
        cmocka_unit_test(the_memory_of_holders_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
