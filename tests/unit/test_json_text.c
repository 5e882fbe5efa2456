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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_back),
        cmocka_unit_test(every_character_is_escaped_as_it_must_be),
        cmocka_unit_test(long_texts_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
