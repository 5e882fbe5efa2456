/* server/base/json_text.c, with jansson as the judge */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/json_text.h"

static json_t *parsed(struct json_text *json)
{
    json_text_end(json);
    json_t *value = json_loadb(json->text, json->len, JSON_REJECT_DUPLICATES, NULL);
    if (json->text != json->start)
        free(json->text);
    assert_non_null(value);
    return value;
}

static void members_come_back(void **state)
{
    struct json_text json;

    (void)state;
    json_text_begin(&json);
    json_text_string(&json, "text", "orders/42 é");
    json_text_integer(&json, "most", INT64_MAX);
    json_text_integer(&json, "least", INT64_MIN);
    json_text_integer(&json, "zero", 0);
    json_text_boolean(&json, "yes", true);
    json_text_boolean(&json, "no", false);
    json_t *value = parsed(&json);
    assert_int_equal(json_object_size(value), 6);
    assert_string_equal(json_string_value(json_object_get(value, "text")), "orders/42 é");
    assert_true(json_integer_value(json_object_get(value, "most")) == INT64_MAX);
    assert_true(json_integer_value(json_object_get(value, "least")) == INT64_MIN);
    assert_true(json_integer_value(json_object_get(value, "zero")) == 0);
    assert_true(json_is_true(json_object_get(value, "yes")));
    assert_true(json_is_false(json_object_get(value, "no")));
    json_decref(value);
}

static void every_character_is_escaped_as_it_must_be(void **state)
{
    (void)state;
    for (char c = 1; c > 0 && c < 127; c++) {
        const char text[] = {'<', c, '>', '\0'};
        struct json_text json;
        json_text_begin(&json);
        json_text_string(&json, "text", text);
        json_t *value = parsed(&json);
        assert_string_equal(json_string_value(json_object_get(value, "text")), text);
        json_decref(value);
    }
}

static void long_texts_fit(void **state)
{
    struct json_text json;
    char text[2000];

    (void)state;
    json_text_begin(&json);
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    json_text_string(&json, "first", text);
    json_text_string(&json, "second", text);
    json_t *value = parsed(&json);
    assert_string_equal(json_string_value(json_object_get(value, "first")), text);
    assert_string_equal(json_string_value(json_object_get(value, "second")), text);
    json_decref(value);
}

static void arrays_hold_objects_and_whatever_is_json(void **state)
{
    struct json_text json;

    (void)state;
    json_text_begin(&json);
    json_text_open_array(&json, "none");
    json_text_close_array(&json);
    json_text_open_array(&json, "some");
    json_text_open_object(&json);
    json_text_close_object(&json);
    json_text_open_object(&json);
    json_text_string(&json, "ends in", "{");
    json_text_open_array(&json, "inner");
    json_text_element(&json, "7", 1);
    json_text_element(&json, "[]", 2);
    json_text_close_array(&json);
    json_text_integer(&json, "last", 1);
    json_text_close_object(&json);
    json_text_close_array(&json);
    json_text_boolean(&json, "behind", true);
    json_t *value = parsed(&json);
    json_t *expected = json_pack("{s:[], s:[{}, {s:s, s:[i, []], s:i}], s:b}", "none", "some",
                                 "ends in", "{", "inner", 7, "last", 1, "behind", 1);
    assert_true(json_equal(value, expected));
    json_decref(value);
    json_decref(expected);
}

static void what_is_not_taken_is_dropped(void **state)
{
    struct json_text json;

    (void)state;
    json_text_begin(&json);
    json_text_drop(&json);
    json_text_begin(&json);
    for (int i = 0; i < 100; i++)
        json_text_string(&json, "name", "and a value");
    assert_ptr_not_equal(json.text, json.start);
    json_text_drop(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_back),
        cmocka_unit_test(every_character_is_escaped_as_it_must_be),
        cmocka_unit_test(long_texts_fit),
        cmocka_unit_test(arrays_hold_objects_and_whatever_is_json),
        cmocka_unit_test(what_is_not_taken_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
