/* storage/store/holder.c, handlers/holders.c: the holder fields of a lock's hash, and holders
 * in answers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "handlers/holders.h"
#include "storage/store/holder.h"

static void a_holder_begins_with_an_id(void **state)
{
    static const struct {
        const char *field;
        bool is_holder, is_ours;
    } rows[] = {
        {"aaaaaaaa-0000-5000-8000-000000000000:0", true, true},
        {"AaFf0099-0000-5000-8000-000000000000:me", true, true},
        {"aaaaaaaa-0000-4000-8000-000000000000:17", true, false},
        {"gaaaaaaa-0000-5000-8000-000000000000:0", false, false},
        {"aaaaaaaa-0000-5000-8000-00000000000g:0", false, false},
        {"aaaaaaaa-0000-5000-8000-000000000000", false, false},
        {"aaaaaaaa-0000-5000-8000-0000", false, false},
        {"aaaaaaaa:0000-5000-8000-000000000000:0", false, false},
        {"mode", false, false},
        {"", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (lock_is_holder(rows[i].field) != rows[i].is_holder ||
            lock_holder_is_ours(rows[i].field) != rows[i].is_ours)
            fail_msg("%s", rows[i].field);
}

static void a_holder_of_this_millisecond_has_a_time(void **state)
{
    json_t *holder = json_object();

    (void)state;
    holder_add_held(holder, -1); /* not known */
    assert_int_equal(json_object_size(holder), 0);
    holder_add_held(holder, 0);
    assert_true(json_is_integer(json_object_get(holder, "held_ms")));
    json_decref(holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_holder_begins_with_an_id),
        cmocka_unit_test(a_holder_of_this_millisecond_has_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
