/* How front ends learn that Redis is another process, or has lost data: marker. */
#include "harness.h"

#define MARKER "rlockd:marker"

static redisReply *refresh(const char *run_id)
{
    return run(SCRIPT_MARKER, KEYS(MARKER), ARGS(run_id, "1"));
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
    assert_true(reply_integer(command("PTTL %s", MARKER)) >
                INT64_C(31622400000)); /* the longest lease */
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

/* With the next refresh, and for the refresh after it, too. */
static void assert_begins_anew(const char *run_id, int64_t last_refresh)
{
    redisReply *anew = refresh(run_id);
    assert_true(number(anew, 0) >= last_refresh);
    assert_int_equal(number(anew, 1), last_refresh);
    redisReply *again = refresh(run_id);
    assert_int_equal(number(again, 0), number(anew, 0));
    assert_int_equal(number(again, 1), last_refresh);
}

static void another_process_begins_with_the_last_refresh(void **state)
{
    (void)state;
    assert_begins_anew("two", number(refresh("one"), 2));
}

/* In a cluster: what serves is known by a marker in another slot. */
static void a_process_that_is_known_does_not_begin_anew(void **state)
{
    (void)state;
    int64_t last = number(refresh("one"), 2);
    redisReply *moved = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("two", "1", "1000"));
    assert_int_equal(number(moved, 0), 1000);
    assert_int_equal(number(moved, 1), last);
    assert_int_equal(number(refresh("two"), 0), 1000);
}

/* A front end that did not know the process was first. */
static void the_earliest_beginning_stays(void **state)
{
    (void)state;
    refresh("one");
    assert_int_equal(number(run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "1", "1000")), 0),
                     1000);
    assert_int_equal(number(refresh("one"), 0), 1000);
}

/* Redis forgets the promotion when it has had no replica for an hour. This test comes before
 * those that promote. */
static void a_promotion_that_is_forgotten_changes_nothing(void **state)
{
    (void)state;
    expect(reply_at(refresh("one"), 3), "");
    command("HSET %s since 1000 promotion before", MARKER);
    redisReply *again = refresh("one");
    assert_int_equal(number(again, 0), 1000);
    expect(reply_at(again, 3), "before");
    expect(run(SCRIPT_MARKER, KEYS(MARKER), ARGS("two", "1", "500", "before")),
           "[500, *, *, ]");
}

/* The process becomes a replica, and the master again. */
static void promote_again(void)
{
    command("REPLICAOF 127.0.0.1 1");
    command("REPLICAOF NO ONE");
}

static void a_promotion_begins_anew(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t last = number(refresh("one"), 2);
        command("HSET %s since 1000 kept 900", MARKER);
        promote_again();
        assert_begins_anew("one", last);
    }
}

/* The start of service that a front end knew before the promotion does not count. */
static void a_process_that_is_known_begins_anew_when_promoted(void **state)
{
    (void)state;
    promote_again();
    const char *promotion = reply_text(reply_at(refresh("one"), 3));
    redisReply *known = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("two", "1", "1000", promotion));
    assert_int_equal(number(known, 0), 1000);
    promote_again();
    int64_t now = redis_now_ms();
    redisReply *anew = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("two", "1", "1000", promotion));
    assert_true(number(anew, 0) >= now);
}

/* A front end before the promotion was in the marker. */
static void a_marker_without_a_promotion_stays(void **state)
{
    (void)state;
    promote_again();
    refresh("one");
    command("HSET %s since 1000", MARKER);
    command("HDEL %s promotion", MARKER);
    assert_int_equal(number(refresh("one"), 0), 1000);
    promote_again();
    assert_true(number(refresh("one"), 0) > 1000);
}

/* A master that was replaced, and comes back without having been a replica. A front end that
 * saw the other process, too, begins nothing again. */
static void a_process_that_was_replaced_begins_anew(void **state)
{
    (void)state;
    int64_t last = number(refresh("one"), 2);
    command("HSET %s since 1000 kept 900", MARKER);
    expect(run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "1", "", "", "1000")),
           "[1000, 900, *, *]");
    command("HSET %s at 2000", MARKER);
    redisReply *anew = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "1", "", "", "5000"));
    assert_true(number(anew, 0) >= last);
    assert_int_equal(number(anew, 1), 2000);
    redisReply *other = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "1", "", "", "5001"));
    assert_int_equal(number(other, 0), number(anew, 0));
    assert_int_equal(number(other, 1), 2000);
}

/* Between the return and this refresh another front end has refreshed, which saw no other. */
static void a_refresh_hides_no_replacement(void **state)
{
    (void)state;
    refresh("one");
    command("HSET %s since 1000", MARKER);
    int64_t last = number(refresh("one"), 2);
    redisReply *anew = run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "1", "", "", "5000"));
    assert_true(number(anew, 0) >= last);
}

static void lost_data_begin_anew(void **state)
{
    (void)state;
    refresh("one");
    command("DEL %s", MARKER);
    assert_int_equal(number(refresh("one"), 1), 0);
}

/* Front ends before the number wrote all other fields, and leave this field alone. */
static void a_marker_without_a_layout_is_of_this_one(void **state)
{
    (void)state;
    int64_t since = number(refresh("one"), 0);
    expect_command("1", "HGET %s layout", MARKER);
    command("HDEL %s layout", MARKER);
    assert_int_equal(number(refresh("one"), 0), since);
    expect_command("1", "HGET %s layout", MARKER);
}

static void another_layout_is_left_alone(void **state)
{
    (void)state;
    refresh("one");
    command("HSET %s layout 2 at 77", MARKER);
    expect(refresh("one"), "[2]");
    expect(refresh("two"), "[2]");
    expect_command("77", "HGET %s at", MARKER);
    expect_command("one", "HGET %s run_id", MARKER);
    command("HDEL %s layout", MARKER);
    expect(run(SCRIPT_MARKER, KEYS(MARKER), ARGS("one", "2")), "[1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(the_first_process_kept_nothing),
        SCRIPT_TEST(the_beginning_stays),
        SCRIPT_TEST(another_process_begins_with_the_last_refresh),
        SCRIPT_TEST(a_process_that_is_known_does_not_begin_anew),
        SCRIPT_TEST(the_earliest_beginning_stays),
        SCRIPT_TEST(a_promotion_that_is_forgotten_changes_nothing),
        SCRIPT_TEST(a_promotion_begins_anew),
        SCRIPT_TEST(a_process_that_is_known_begins_anew_when_promoted),
        SCRIPT_TEST(a_marker_without_a_promotion_stays),
        SCRIPT_TEST(a_process_that_was_replaced_begins_anew),
        SCRIPT_TEST(a_refresh_hides_no_replacement),
        SCRIPT_TEST(lost_data_begin_anew),
        SCRIPT_TEST(a_marker_without_a_layout_is_of_this_one),
        SCRIPT_TEST(another_layout_is_left_alone),
    };

    return cmocka_run_group_tests(tests, redis_set_up, redis_tear_down);
}
