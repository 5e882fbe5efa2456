/* storage/redis/script_call.c: where a call runs, and what it takes along. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "storage/redis/script_call.h"

static void expect_tag(const char *key, const char *tag)
{
    struct redis_tag found = redis_tag_of(key, strlen(key));

    assert_int_equal(found.len, strlen(tag));
    assert_memory_equal(found.text, tag, found.len);
}

/* The rule of Redis Cluster: the first opening brace, the first closing one behind it. */
static void tag_is_what_redis_hashes(void **state)
{
    (void)state;
    expect_tag("orders", "orders");
    expect_tag("redisson_lock__channel:{orders}", "orders");
    expect_tag("redisson_lock_token:or{de}rs", "de");
    expect_tag("{a}{b}", "a");
    expect_tag("{a{b}c}", "a{b");
    expect_tag("a}b{c}", "c");
}

static void tag_without_a_pair_of_braces_is_the_key(void **state)
{
    (void)state;
    expect_tag("", "");
    expect_tag("{", "{");
    expect_tag("}{", "}{");
    expect_tag("{}orders{x}", "{}orders{x}");
    expect_tag("{orders", "{orders");
}

/* The key need not end with a NUL. */
static void tag_stays_within_the_key(void **state)
{
    struct redis_tag tag = redis_tag_of("{orders}", 7);

    (void)state;
    assert_int_equal(tag.len, 7);
}

static void call_runs_where_its_first_key_is(void **state)
{
    struct script_args args;

    (void)state;
    args_init(&args);
    args_key(&args, 1, "redisson_lock_token:{orders}", 28);
    args_key(&args, 0, "orders", 6);
    struct script_call call = script_call_make(SCRIPT_RENEW, &args);
    assert_int_equal(call.script, SCRIPT_RENEW);
    assert_int_equal(call.tag.len, 6);
    assert_memory_equal(call.tag.text, "orders", 6);
    assert_int_equal(call.args->key_count, 2);
    assert_int_equal(call.args->count, 0);
}

static void arguments_stand_at_their_positions(void **state)
{
    struct script_args args;

    (void)state;
    args_init(&args);
    args_number(&args, 2, -5);
    args_string(&args, 0, "{elsewhere}");
    assert_int_equal(args.count, 3);
    assert_string_equal(args.args[0].text, "{elsewhere}");
    assert_int_equal(args.args[1].len, 0);
    assert_string_equal(args.args[2].text, "-5");
    assert_int_equal(args.args[2].len, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tag_is_what_redis_hashes),
        cmocka_unit_test(tag_without_a_pair_of_braces_is_the_key),
        cmocka_unit_test(tag_stays_within_the_key),
        cmocka_unit_test(call_runs_where_its_first_key_is),
        cmocka_unit_test(arguments_stand_at_their_positions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
