/* How front ends learn that Redis is another process, or has lost data: marker. */
#include "harness.h"

#define MARKER "rlockd:marker"

static redisReply *refresh(const char *run_id)
{
    return run(SCRIPT_MARKER, KEYS(MARKER), ARGS(run_id));
}

static int64_t number(redisReply *reply, size_t at)
{
    return reply_integer(reply_at(reply, at));
}

static void the_first_process_kept_nothing(void **state)
{
    (void)state;
    redisReply *first = refresh("one");
    assert_int_equal(number(first, 0), number(first, 2));
    assert_int_equal(number(first, 1), 0);
    assert_true(reply_integer(command("PTTL %s", MARKER)) > 86400000);
}

static void the_beginning_stays(void **state)
{
    (void)state;
    int64_t since = number(refresh("one"), 0);
    command("HSET %s since 1000 kept 900", MARKER);
    redisReply *again = refresh("one");
    assert_int_equal(number(again, 0), 1000);
    assert_int_equal(number(again, 1), 900);
    assert_true(number(again, 2) >= since);
}

static void another_process_begins_with_the_last_refresh(void **state)
{
    (void)state;
    int64_t last = number(refresh("one"), 2);
    redisReply *other = refresh("two");
    assert_true(number(other, 0) >= last);
    assert_int_equal(number(other, 1), last);
    redisReply *again = refresh("two");
    assert_int_equal(number(again, 0), number(other, 0));
    assert_int_equal(number(again, 1), last);
}

static void lost_data_begin_anew(void **state)
{
    (void)state;
    refresh("one");
    command("DEL %s", MARKER);
    assert_int_equal(number(refresh("one"), 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(the_first_process_kept_nothing),
        SCRIPT_TEST(the_beginning_stays),
        SCRIPT_TEST(another_process_begins_with_the_last_refresh),
        SCRIPT_TEST(lost_data_begin_anew),
    };

    return cmocka_run_group_tests(tests, redis_set_up, redis_tear_down);
}
