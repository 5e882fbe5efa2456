/* storage/store/key.c: how keys are called, by Redisson and by us. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "storage/store/key.h"

#define ID "e1c1fa81-3ea6-55d1-9317-96e7c82821c5"

static struct key key;

static void expect(enum key_kind kind, const char *name, const char *text)
{
    memset(&key, '?', sizeof(key));
    key_make(&key, kind, name, strlen(name), ID);
    assert_string_equal(key.text, text);
    assert_int_equal(key.len, strlen(text));
}

/* Redisson's RedissonObject.prefixName(). */
static void keys_are_redissons(void **state)
{
    (void)state;
    expect(KEY_OBJECT, "foo", "foo");
    expect(CHANNEL_LOCK, "foo", "redisson_lock__channel:{foo}");
    expect(CHANNEL_LOCK, "app:{42}:x", "redisson_lock__channel:app:{42}:x");
    expect(CHANNEL_READ_WRITE, "foo", "redisson_rwlock:{foo}");
    expect(CHANNEL_READ_WRITE, "app:{42}:x", "redisson_rwlock:app:{42}:x");
    expect(KEY_COUNTER, "foo", "redisson_lock_token:{foo}");
    expect(KEY_COUNTER, "app:{42}:x", "redisson_lock_token:app:{42}:x");
    expect(KEY_QUEUE, "foo", "redisson_lock_queue:{foo}");
    expect(KEY_QUEUE, "app:{42}:x", "redisson_lock_queue:app:{42}:x");
    expect(KEY_TIMES, "foo", "redisson_lock_timeout:{foo}");
    expect(KEY_TIMES, "app:{42}:x", "redisson_lock_timeout:app:{42}:x");
    expect(CHANNEL_FAIR, "foo", "redisson_lock__channel:{foo}:" ID ":0");
}

/* A latch's channel has braces whatever its name is. */
static void semaphores_and_latches_are_redissons(void **state)
{
    (void)state;
    expect(CHANNEL_SEMAPHORE, "foo", "redisson_sc:{foo}");
    expect(CHANNEL_SEMAPHORE, "app:{42}:x", "redisson_sc:app:{42}:x");
    expect(KEY_TIMEOUTS, "foo", "{foo}:timeout");
    expect(KEY_TIMEOUTS, "app:{42}:x", "app:{42}:x:timeout");
    expect(CHANNEL_LATCH, "foo", "redisson_countdownlatch__channel__{foo}");
    expect(CHANNEL_LATCH, "app:{42}:x", "redisson_countdownlatch__channel__{app:{42}:x}");
}

static void our_own_keys_share_the_slot_of_the_lock(void **state)
{
    (void)state;
    expect(KEY_WAITERS, "foo", "rlockd:waiters:{foo}");
    expect(KEY_PLACES, "foo", "rlockd:places:{foo}");
    expect(KEY_OWNER, "foo", "rlockd:owner:{foo}");
    expect(KEY_DEADLOCK, "foo", "rlockd:deadlock:{foo}");
    expect(KEY_FORCED, "app:{42}:x", "rlockd:forced:app:{42}:x");
    expect(KEY_LEASE, "foo", "rlockd:lease:{foo}:" ID);
    expect(KEY_LEASE, "app:{42}:x", "rlockd:lease:app:{42}:x:" ID);
    expect(KEY_MEMBER, "foo", "rlockd:lease:{foo}:" ID ":m");
    expect(KEY_IDEMPOTENCY, "foo", "rlockd:idempotency:{foo}:" ID);
    expect(KEY_DELETED, "foo", "rlockd:deleted:{foo}");
}

static void keys_by_an_id_are_in_a_slot_of_their_own(void **state)
{
    (void)state;
    expect(KEY_SET, ID, "rlockd:set:{" ID "}");
    expect(KEY_SESSION, ID, "rlockd:session:{" ID "}");
    expect(KEY_SESSION_LEASES, ID, "rlockd:session-leases:{" ID "}");
    expect(KEY_SESSION_DUE, ID, "rlockd:session-due:{" ID "}");
    expect(KEY_SESSION_LOST, ID, "rlockd:session-lost:{" ID "}");
    expect(KEY_SESSION_WAITS, ID, "rlockd:session-waits:{" ID "}");
    expect(KEY_SESSIONS, "f", "rlockd:sessions:{f}");
    expect(KEY_QUEUES, "f", "rlockd:queues:{f}");
    expect(CHANNEL_WORKER, "17", "rlockd:worker:17");
}

static void only_an_opening_brace_counts(void **state)
{
    (void)state;
    expect(CHANNEL_LOCK, "a}b", "redisson_lock__channel:{a}b}");
    expect(CHANNEL_LOCK, "a{b", "redisson_lock__channel:a{b");
    expect(CHANNEL_LOCK, "{", "redisson_lock__channel:{");
    expect(CHANNEL_LOCK, "x{}y", "redisson_lock__channel:x{}y");
    expect(CHANNEL_LOCK, "100% \xC3\xBC:/?", "redisson_lock__channel:{100% \xC3\xBC:/?}");
}

static void name_ends_by_its_length(void **state)
{
    (void)state;
    key_make(&key, CHANNEL_LOCK, "foo{bar", 3, NULL);
    assert_string_equal(key.text, "redisson_lock__channel:{foo}");
}

static void longest_name_fits(void **state)
{
    char name[KEY_NAME_MAX + 1];

    (void)state;
    memset(name, 'x', KEY_NAME_MAX);
    name[KEY_NAME_MAX] = '\0';
    for (enum key_kind kind = 0; kind < KEY_KINDS; kind++) {
        key_make(&key, kind, name, KEY_NAME_MAX, ID);
        assert_int_equal(strlen(key.text), key.len);
        assert_true(key.len >= KEY_NAME_MAX);
    }
}

static bool shares_slot(const char *name)
{
    return key_shares_slot(name, strlen(name));
}

static void names_with_unmatched_braces_have_keys_in_several_slots(void **state)
{
    (void)state;
    assert_true(shares_slot("orders"));
    assert_true(shares_slot("app:{42}:x"));
    assert_true(shares_slot("{a}{b}"));
    assert_false(shares_slot("a}b"));
    assert_false(shares_slot("a{b"));
    assert_false(shares_slot("x{}y"));
}

static void names_of_companion_keys_are_reserved(void **state)
{
    (void)state;
    assert_true(key_is_reserved("", "rlockd:waiters:{orders}"));
    assert_true(key_is_reserved("", "redisson_lock_token:{orders}"));
    assert_true(key_is_reserved("", "rlockd:"));
    assert_false(key_is_reserved("", "rlockd"));
    assert_false(key_is_reserved("", "redisson"));
    assert_false(key_is_reserved("", "my:rlockd:orders"));
}

/* A client that could write them would break the object that they belong to. */
static void keys_of_other_objects_are_reserved(void **state)
{
    static const char *const reserved[] = {
        "rlockd:lease:x",
        "redisson_lock_token:{a}",
        "{g}:timeout",
        "a{b}c:timeout",
        "{g:timeout",
        "{rw}:0b7dd2f4-6d7b-4d2f-9b39-4a0f9a6a2f4e:17:rwlock_timeout:1",
        "x{y}:z:rwlock_timeout:12",
    };
    static const char *const free_names[] = {
        "a",
        "rlockd",
        "redisson",
        "job:timeout",
        "{g}",
        "{g}:timeouts",
        "{g}timeout",
        "{rw}:rwlock_timeout:",
        "{rw}:rwlock_timeout:x",
        "{rw}:rwlock_timeout",
        "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (!key_is_reserved("", reserved[i]))
            fail_msg("%s should be reserved", reserved[i]);
    for (size_t i = 0; i < sizeof(free_names) / sizeof(free_names[0]); i++)
        if (key_is_reserved("", free_names[i]))
            fail_msg("%s should not be reserved", free_names[i]);
    assert_true(key_is_reserved("{tag}:", "g:timeout"));
    assert_false(key_is_reserved("tag:", "g:timeout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_redissons),
        cmocka_unit_test(keys_by_an_id_are_in_a_slot_of_their_own),
        cmocka_unit_test(names_with_unmatched_braces_have_keys_in_several_slots),
        cmocka_unit_test(our_own_keys_share_the_slot_of_the_lock),
        cmocka_unit_test(only_an_opening_brace_counts),
        cmocka_unit_test(name_ends_by_its_length),
        cmocka_unit_test(semaphores_and_latches_are_redissons),
        cmocka_unit_test(longest_name_fits),
        cmocka_unit_test(keys_of_other_objects_are_reserved),
        cmocka_unit_test(names_of_companion_keys_are_reserved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
