/* storage/keys.c: what Redisson calls its keys. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "storage/keys.h"

#define REQUEST_ID "0123456789abcdef0123456789abcdef"

static struct key key;

static void expect(const char *prefix, const char *name, const char *text)
{
    memset(&key, '?', sizeof(key));
    key_for_lock(&key, prefix, name, strlen(name));
    assert_string_equal(key.text, text);
    assert_int_equal(key.len, strlen(text));
}

/* Redisson's RedissonObject.prefixName(), with the prefixes of its locks and of its other
 * objects that lie beside them. */
static void keys_are_redissons(void **state)
{
    (void)state;
    expect(KEY_CHANNEL, "foo", "redisson_lock__channel:{foo}");
    expect(KEY_CHANNEL, "app:{42}:x", "redisson_lock__channel:app:{42}:x");
    expect("redisson_rwlock", "foo", "redisson_rwlock:{foo}");
    expect("redisson_rwlock", "app:{42}:x", "redisson_rwlock:app:{42}:x");
    expect(KEY_COUNTER, "foo", "redisson_lock_token:{foo}");
    expect(KEY_COUNTER, "app:{42}:x", "redisson_lock_token:app:{42}:x");
    expect("redisson_lock_queue", "foo", "redisson_lock_queue:{foo}");
    expect("redisson_lock_queue", "app:{42}:x", "redisson_lock_queue:app:{42}:x");
    expect("redisson_lock_timeout", "foo", "redisson_lock_timeout:{foo}");
    expect("redisson_lock_timeout", "app:{42}:x", "redisson_lock_timeout:app:{42}:x");
    expect("redisson_sc", "foo", "redisson_sc:{foo}");
    expect("redisson_sc", "app:{42}:x", "redisson_sc:app:{42}:x");
}

static void expect_latch(const char *name, const char *text)
{
    struct key latch;

    key_for_lock(&key, "redisson_unlock_latch", name, strlen(name));
    key_for_id(&latch, key.text, REQUEST_ID);
    assert_string_equal(latch.text, text);
    assert_int_equal(latch.len, strlen(text));
}

static void keys_with_an_id_end_with_it(void **state)
{
    (void)state;
    expect_latch("foo", "redisson_unlock_latch:{foo}:" REQUEST_ID);
    expect_latch("app:{42}:x", "redisson_unlock_latch:app:{42}:x:" REQUEST_ID);
    key_for_id(&key, KEY_LEASE, "e1c1fa81-3ea6-55d1-9317-96e7c82821c5");
    assert_string_equal(key.text, "rlockd:lease:e1c1fa81-3ea6-55d1-9317-96e7c82821c5");
    assert_int_equal(key.len, 49);
}

static void our_own_keys_share_the_slot_of_the_lock(void **state)
{
    (void)state;
    expect(KEY_WAITERS, "foo", "rlockd:waiters:{foo}");
    expect(KEY_FORCED, "app:{42}:x", "rlockd:forced:app:{42}:x");
}

static void only_an_opening_brace_counts(void **state)
{
    (void)state;
    expect(KEY_CHANNEL, "a}b", "redisson_lock__channel:{a}b}");
    expect(KEY_CHANNEL, "a{b", "redisson_lock__channel:a{b");
    expect(KEY_CHANNEL, "{", "redisson_lock__channel:{");
    expect(KEY_CHANNEL, "x{}y", "redisson_lock__channel:x{}y");
    expect(KEY_CHANNEL, "100% \xC3\xBC:/?", "redisson_lock__channel:{100% \xC3\xBC:/?}");
}

static void name_ends_by_its_length(void **state)
{
    (void)state;
    key_for_lock(&key, KEY_CHANNEL, "foo{bar", 3);
    assert_string_equal(key.text, "redisson_lock__channel:{foo}");
}

/* A latch's channel has braces whatever its name is. */
static void semaphores_and_latches_are_redissons(void **state)
{
    (void)state;
    expect(KEY_SEMAPHORE_CHANNEL, "foo", "redisson_sc:{foo}");
    expect(KEY_SEMAPHORE_CHANNEL, "app:{42}:x", "redisson_sc:app:{42}:x");
    key_for_timeouts(&key, "foo", 3);
    assert_string_equal(key.text, "{foo}:timeout");
    key_for_timeouts(&key, "app:{42}:x", 10);
    assert_string_equal(key.text, "app:{42}:x:timeout");
    key_for_latch_channel(&key, "foo", 3);
    assert_string_equal(key.text, "redisson_countdownlatch__channel__{foo}");
    key_for_latch_channel(&key, "app:{42}:x", 10);
    assert_string_equal(key.text, "redisson_countdownlatch__channel__{app:{42}:x}");
    assert_int_equal(key.len, strlen(key.text));
}

static void longest_name_fits(void **state)
{
    char name[KEY_NAME_MAX + 1];

    (void)state;
    memset(name, 'x', KEY_NAME_MAX);
    name[KEY_NAME_MAX] = '\0';
    key_for_lock(&key, KEY_CHANNEL, name, KEY_NAME_MAX);
    assert_int_equal(key.len, strlen(KEY_CHANNEL) + strlen(":{}") + KEY_NAME_MAX);
    assert_int_equal(strlen(key.text), key.len);
    assert_int_equal(key.text[key.len - 1], '}');
    key_for_latch_channel(&key, name, KEY_NAME_MAX);
    assert_int_equal(key.text[key.len - 1], '}');
    key_for_timeouts(&key, name, KEY_NAME_MAX);
    assert_int_equal(strlen(key.text), key.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_redissons),
        cmocka_unit_test(keys_with_an_id_end_with_it),
        cmocka_unit_test(our_own_keys_share_the_slot_of_the_lock),
        cmocka_unit_test(only_an_opening_brace_counts),
        cmocka_unit_test(name_ends_by_its_length),
        cmocka_unit_test(semaphores_and_latches_are_redissons),
        cmocka_unit_test(longest_name_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
