/* storage/store/lease_ref.c: how a session notes a lease. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "storage/store/key.h"
#include "storage/store/lease_ref.h"

#define ID "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"

static size_t locks_of(const char *text, size_t len)
{
    struct lease_ref ref;

    lease_ref_copy(&ref, text, len);
    lease_ref_release(&ref);
    return ref.lock_count;
}

static void expect_name(const struct lease_ref_name *name, const char *text)
{
    assert_int_equal(name->len, strlen(text));
    assert_memory_equal(name->text, text, name->len);
}

static void one_lock(void **state)
{
    struct lease lease = {.kind = KIND_LOCK, .id = ID, .names = lock_names_of_one("orders/42")};
    struct lease_ref_name names[LOCKS_MAX];
    struct lease_ref ref;
    char id[LEASE_ID_SIZE];

    (void)state;
    lease_ref_make(&ref, "app:", &lease);
    assert_string_equal(ref.text, ID " app:orders/42");
    assert_int_equal(ref.len, strlen(ref.text));
    assert_int_equal(ref.lock_count, 1);
    assert_false(lease_ref_is_set(&ref));
    lease_ref_id(&ref, id);
    assert_string_equal(id, ID);
    lease_ref_names(&ref, names);
    expect_name(&names[0], "app:orders/42");
    lease_ref_release(&ref);
    lock_names_unref(lease.names);
}

static void several_locks(void **state)
{
    const char *const given[] = {"b", "a"};
    struct lease lease = {.kind = KIND_SET_LOCK, .id = ID, .names = lock_names_new(given, 2)};
    struct lease_ref_name names[LOCKS_MAX];
    struct lease_ref ref;

    (void)state;
    lease_ref_make(&ref, "app:", &lease);
    assert_string_equal(ref.text, ID " \napp:a\napp:b");
    assert_int_equal(ref.lock_count, 2);
    assert_true(lease_ref_is_set(&ref));
    lease_ref_names(&ref, names);
    expect_name(&names[0], "app:a");
    expect_name(&names[1], "app:b");
    lease_ref_release(&ref);
    lock_names_unref(lease.names);
}

static void a_set_of_one_lock_is_a_set(void **state)
{
    struct lease_ref_name names[LOCKS_MAX];
    struct lease_ref ref;

    (void)state;
    lease_ref_copy(&ref, ID " \na", sizeof(ID " \na") - 1);
    assert_int_equal(ref.lock_count, 1);
    assert_true(lease_ref_is_set(&ref));
    lease_ref_names(&ref, names);
    expect_name(&names[0], "a");
    lease_ref_release(&ref);
}

static void other_texts_are_no_refs(void **state)
{
    char text[LEASE_ID_SIZE + 3 * KEY_NAME_MAX];

    (void)state;
    assert_int_equal(locks_of("", 0), 0);
    assert_int_equal(locks_of("nonsense", 8), 0);
    assert_int_equal(locks_of(ID, sizeof(ID) - 1), 0);
    assert_int_equal(locks_of(ID " ", sizeof(ID)), 0);
    assert_int_equal(locks_of(ID "_a", sizeof(ID) + 1), 0);
    assert_int_equal(locks_of(ID " a\0b", sizeof(ID) + 3), 0);
    memset(text, 'x', sizeof(text));
    memcpy(text, ID " ", sizeof(ID));
    assert_int_equal(locks_of(text, sizeof(ID) + KEY_NAME_MAX), 1);
    assert_int_equal(locks_of(text, sizeof(ID) + KEY_NAME_MAX + 1), 0);
    text[sizeof(ID)] = '\n';
    assert_int_equal(locks_of(text, sizeof(ID) + 1 + KEY_NAME_MAX), 1);
    assert_int_equal(locks_of(text, sizeof(ID) + 2 + KEY_NAME_MAX), 0);
    for (size_t i = 0; i <= LOCKS_MAX; i++)
        memcpy(text + sizeof(ID) + 2 * i, "\na", 2);
    assert_int_equal(locks_of(text, sizeof(ID) + 2 * LOCKS_MAX), LOCKS_MAX);
    assert_int_equal(locks_of(text, sizeof(ID) + 2 * LOCKS_MAX + 2), 0);
}

static void no_name_of_a_ref_is_empty(void **state)
{
    (void)state;
    assert_int_equal(locks_of(ID " \n", sizeof(ID) + 1), 0);
    assert_int_equal(locks_of(ID " \n\na", sizeof(ID) + 3), 0);
    assert_int_equal(locks_of(ID " \na\n\nb", sizeof(ID) + 5), 0);
    assert_int_equal(locks_of(ID " \na\n", sizeof(ID) + 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lock),
        cmocka_unit_test(several_locks),
        cmocka_unit_test(a_set_of_one_lock_is_a_set),
        cmocka_unit_test(other_texts_are_no_refs),
        cmocka_unit_test(no_name_of_a_ref_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
