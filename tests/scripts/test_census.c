/* The scripts of the census: the claim, the pictures, the index of waits, the look at a hash.
 */
#include "harness.h"

#define CENSUS "rlockd:census:{}"
#define INDEX "rlockd:waits:{3}"
#define JAVA "0b7dd2f4-6d7b-4d2f-9b39-4a0f9a6a2f4e:17"
#define OURS "0b7dd2f4-6d7b-5d2f-9b39-4a0f9a6a2f4e"

static redisReply *claim(const char *worker_id, const char *claim_ms)
{
    return run(SCRIPT_CENSUS_CLAIM, KEYS(CENSUS), ARGS(worker_id, claim_ms));
}

static redisReply *write_held(const char *worker_id, const char *text_written)
{
    return run(SCRIPT_CENSUS_WRITE, KEYS(CENSUS), ARGS(worker_id, "held", text_written, "1 2"));
}

static void one_worker_has_the_claim(void **state)
{
    (void)state;
    expect(claim("one", "60000"), "[1, *, , ]");
    expect(claim("two", "60000"), "[0, *, , ]");
    expect(claim("one", "60000"), "[1, *, , ]");
    assert_true(reply_integer(command("PTTL " CENSUS)) > 60000);
}

static void a_claim_ends_by_the_clock(void **state)
{
    (void)state;
    expect(claim("one", "60000"), "[1, *, , ]");
    command("HSET " CENSUS " until 1");
    expect(claim("two", "60000"), "[1, *, , ]");
    expect(claim("one", "60000"), "[0, *, , ]");
}

static void a_picture_is_of_the_worker_with_the_claim(void **state)
{
    (void)state;
    claim("one", "60000");
    expect(write_held("one", "text"), "1");
    expect(write_held("two", "other"), "0");
    expect(run(SCRIPT_CENSUS_READ, KEYS(CENSUS), ARGS("held")), "[*, *, text]");
    expect(run(SCRIPT_CENSUS_READ, KEYS(CENSUS), ARGS("waited")), "[-1, *, ]");
    expect(claim("two", "60000"), "[0, *, 1 2, ]");
}

static void waits_end_by_themselves(void **state)
{
    (void)state;
    expect(run(SCRIPT_CENSUS_WAIT, KEYS(INDEX), ARGS("a", "60000")), "1");
    expect(run(SCRIPT_CENSUS_WAIT, KEYS(INDEX), ARGS("b", "30000")), "1");
    expect(run(SCRIPT_CENSUS_WAIT, KEYS(INDEX), ARGS("a", "10000")), "1");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS(INDEX), ARGS("10")), "[1, [b, a]]");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS(INDEX), ARGS("1")), "[1, [b]]");
    assert_in_range(reply_integer(command("PTTL " INDEX)), 50000, 60000);
    command("ZADD " INDEX " 1 b");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS(INDEX), ARGS("10")), "[1, [a]]");
    expect_command("1", "ZCARD " INDEX);
    expect(run(SCRIPT_CENSUS_WAITS, KEYS(INDEX, "{3}:no", "{3}:b"), ARGS("10")), "[3, [a]]");
}

/* Nobody may have asked for long: Redis is not kept from its other clients for their sake. */
static void ended_waits_are_removed_some_at_a_time(void **state)
{
    enum { ENDED = 50000, REMOVED = 1000 };

    (void)state;
    command("EVAL %s 0", "for i = 1, 50000 do redis.call('zadd', '" INDEX "', 1, i) end");
    run(SCRIPT_CENSUS_WAIT, KEYS(INDEX), ARGS("a", "60000"));
    assert_int_equal(reply_integer(command("ZCARD " INDEX)), ENDED + 1 - 4);
    command("ZADD {3}:b 1 one 2 two");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS(INDEX, "{3}:b"), ARGS("10")), "[2, [a]]");
    assert_int_equal(reply_integer(command("ZCARD " INDEX)), ENDED + 1 - 4 - REMOVED);
    expect_command("2", "ZCARD {3}:b");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS("{3}:b"), ARGS("10")), "[1, []]");
    expect_command("0", "EXISTS {3}:b");
}

/* A partition whose names are too many for one reply comes in the next one. */
static void partitions_are_read_as_a_whole(void **state)
{
    (void)state;
    command("ZADD {3}:a 9000000000000 a 9000000000001 b");
    command("ZADD {3}:b 9000000000000 c 9000000000001 d");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS("{3}:a", "{3}:b", "{3}:c"), ARGS("4")),
           "[3, [a, b, c, d]]");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS("{3}:a", "{3}:b", "{3}:c"), ARGS("3")), "[1, [a, b]]");
    expect(run(SCRIPT_CENSUS_WAITS, KEYS("{3}:b", "{3}:c"), ARGS("1")), "[2, [c]]");
}

#define LONG_WAITS "rlockd:long-waits:{lock}"

static redisReply *note_wait(const char *ref, const char *waited_ms, const char *limit)
{
    return run(SCRIPT_LOCK_WAIT, KEYS(LONG_WAITS),
               ARGS(ref, waited_ms, "20000", "25000", limit, "fair"));
}

static redisReply *longest_wait(void)
{
    return run(SCRIPT_LOCK_WAITS, KEYS(LONG_WAITS, "lock"), ARGS("100"));
}

static void the_longest_wait_is_read(void **state)
{
    (void)state;
    expect(longest_wait(), "[, 0, ]");
    expect(note_wait("one", "1000", "2"), "2");
    expect(note_wait("two:m", "5000", "2"), "1");
    expect(longest_wait(), "[two:m, *, fair]");
    expect(note_wait("three", "9000", "2"), "0");
    command("HSET " LONG_WAITS " two:m %s", "1 1 fair"); /* it has ended */
    expect(longest_wait(), "[one, *, fair]");
    expect(note_wait("three", "9000", "2"), "1");
    expect(longest_wait(), "[three, *, fair]");
    expect_command("2", "HLEN " LONG_WAITS);
}

/* The notes and the entry outlast each note that was not told to make the entry. */
static void the_waits_for_a_lock_enter_it_together(void **state)
{
    (void)state;
    expect(note_wait("one", "1000", "2"), "2");
    assert_in_range(reply_integer(command("PTTL " LONG_WAITS)), 22000, 25000);
    command("PEXPIRE " LONG_WAITS " 22000");
    expect(note_wait("two", "1000", "2"), "1");
    assert_in_range(reply_integer(command("PTTL " LONG_WAITS)), 20000, 22000);
    command("PEXPIRE " LONG_WAITS " 20000");
    expect(note_wait("one", "1000", "2"), "2");
    assert_in_range(reply_integer(command("PTTL " LONG_WAITS)), 22000, 25000);
    command("PERSIST " LONG_WAITS); /* not by rlockd */
    expect(note_wait("two", "1000", "2"), "2");
}

/* The second request of the lease has waited for less time. */
static void a_wait_keeps_its_begin(void **state)
{
    (void)state;
    command("HSET " LONG_WAITS " one %s", "9000000000000 1786012345678 lock");
    expect(note_wait("one", "1000", "2"), "2");
    expect(longest_wait(), "[one, 1786012345678, fair]");
    command("HSET " LONG_WAITS " one %s", "1 1786012345678 lock");
    expect(note_wait("one", "1000", "2"), "1");
    command("HSET " LONG_WAITS " other %s", "9000000000000 1786012345679 lock");
    expect(longest_wait(), "[other, 1786012345679, lock]");
}

#define RECORD "rlockd:lease:{lock}:"

/* However it got the lock, and whatever has become of it since. */
static void a_lease_that_got_the_lock_waits_no_more(void **state)
{
    static const char *const records[][2] = {
        {"one", "held\n\n\n5\n30000\n\n\n\n\n\nlock\n"},
        {"two:m", "held\n\n\n5\n30000\n\n\n\n7\n\nlock\n"},
        {"three", "held\n\n\n5\n30000\n\nsession\n\n7\n1\nlock\nowner"},
        {"four", "1"}, /* released */
        {"five", "5"}, /* deleted, before it held */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        expect(note_wait(records[i][0], "5000", "5"), i == 0 ? "2" : "1");
        expect(note_wait("other", "1000", "5"), "1");
        command("SET " RECORD "%s %s", records[i][0], records[i][1]);
        expect(longest_wait(), "[other, *, fair]");
        expect_command("1", "HLEN " LONG_WAITS);
    }
    command("SET lock text");
    expect(longest_wait(), "[other, *, fair]");
}

/* Between two requests it has no record, or one of its place in a queue. */
static void a_lease_that_may_ask_again_waits(void **state)
{
    (void)state;
    note_wait("other", "1000", "5");
    note_wait("one", "5000", "5");
    expect(longest_wait(), "[one, *, fair]");
    command("SET " RECORD "one %s", "waiting\nplace\n\n5\n30000\n\n\n\n\n\nfair\n");
    expect(longest_wait(), "[one, *, fair]");
    command("DEL " RECORD "one");
    command("RPUSH " RECORD "one text"); /* not by rlockd */
    expect(longest_wait(), "[one, *, fair]");
}

static void what_is_no_wait_is_left_out(void **state)
{
    (void)state;
    command("HSET " LONG_WAITS " a text b %s", "9000000000000 1 LOCK");
    expect(longest_wait(), "[, 0, ]");
    command("SET " LONG_WAITS " text");
    expect(longest_wait(), "[, 0, ]");
}

static void sessions_are_counted(void **state)
{
    (void)state;
    command("ZADD {3}:a 1 one 2 two");
    command("SET {3}:b text");
    command("ZADD {3}:c 1 three");
    expect(run(SCRIPT_CENSUS_SESSIONS, KEYS("{3}:a", "{3}:b", "{3}:c"), NO_ARGS), "3");
}

static redisReply *look(void)
{
    return run(SCRIPT_CENSUS_LOOK,
               KEYS("lock", "redisson_lock_token:{lock}", "redisson_lock_queue:{lock}"),
               NO_ARGS);
}

static void a_lock_of_ours_has_its_time(void **state)
{
    (void)state;
    command("HSET lock " OURS ":0 1");
    command("SET redisson_lock_token:{lock} 1786012345678901");
    expect(look(), "[lock, [" OURS ":0, 1786012345678901]]");
}

static void the_record_has_the_kind_and_may_have_the_time(void **state)
{
    (void)state;
    command("HSET lock " OURS ":0 1");
    command("SET redisson_lock_token:{lock} 1786012345678901");
    command("SET rlockd:lease:{lock}:" OURS " %s", "held\n\n\n\n30000\nn\n\n\n\n\nfair\n");
    expect(look(), "[fair, [" OURS ":0, 1786012345678901]]");
    command("SET rlockd:lease:{lock}:" OURS " %s", "held\n\n\n\n30000\nn\n\n\n17\n\nlock\n");
    expect(look(), "[lock, [" OURS ":0, 17]]");
    command("SET rlockd:lease:{lock}:" OURS " 1");
    expect(look(), "[lock, [" OURS ":0, 1786012345678901]]");
}

static void an_owner_has_the_time_of_the_lock(void **state)
{
    (void)state;
    command("HSET lock " OURS ":worker-3 2");
    command("SET redisson_lock_token:{lock} 1786012345678901");
    command("SET rlockd:owner:{lock} %s", OURS ":worker-3\nfair\nname");
    expect(look(), "[fair, [" OURS ":worker-3, 1786012345678901]]");
    command("DEL lock"); /* an owner may be called as the thread of a lease is */
    command("HSET lock " OURS ":0 2");
    command("SET rlockd:owner:{lock} %s", OURS ":0\nfair\nname");
    expect(look(), "[fair, [" OURS ":0, 1786012345678901]]");
}

static void a_java_client_has_no_time(void **state)
{
    (void)state;
    command("HSET lock " JAVA " 1");
    command("SET redisson_lock_token:{lock} 7");
    expect(look(), "[lock, [" JAVA ", ]]");
    command("RPUSH redisson_lock_queue:{lock} any");
    expect(look(), "[fair, [" JAVA ", ]]");
}

static void readers_have_times_of_their_own(void **state)
{
    (void)state;
    command("HSET lock mode read " JAVA " 1 " OURS ":0 1");
    command("SET {lock}:" JAVA ":rwlock_timeout:1 1 px 60000");
    command("SET {lock}:" OURS ":0:rwlock_timeout:1 " OURS " px 60000");
    expect(command("SET rlockd:lease:{lock}:" OURS " %s",
                   "held\n\n\n\n30000\n\n\n\n1786012345678901\n\nread\n"),
           "OK");
    expect(look(), "[read, [*1786012345678901*]]");
    expect(look(), "[read, [*" JAVA ", *]]");
    command("DEL {lock}:" JAVA ":rwlock_timeout:1"); /* its read has ended */
    expect(look(), "[read, [" OURS ":0, 1786012345678901]]");
}

/* Else a reader that is not in each sample would seem to come and go. */
static void of_many_readers_the_same_are_looked_at(void **state)
{
    enum { SHOWN = 100 };
    static const char *const add =
        "for i = 1, 1000 do local one = string.format('0b7dd2f4-6d7b-4d2f-9b39-%012d:17', i) "
        "redis.call('hset', 'lock', one, 1) "
        "redis.call('set', '{lock}:' .. one .. ':rwlock_timeout:1', 1, 'px', 60000) end";

    (void)state;
    command("HSET lock mode read");
    command("EVAL %s 0", add);
    redisReply *first = look(), *again = look();
    const redisReply *holders = first->element[1], *others = again->element[1];
    assert_in_range(holders->elements, 2 * (SHOWN - 1), 2 * (SHOWN + 1));
    assert_int_equal(holders->elements, others->elements);
    for (size_t i = 0; i < holders->elements; i += 2)
        assert_string_equal(holders->element[i]->str, others->element[i]->str);
}

static void what_is_no_lock_is_left_alone(void **state)
{
    (void)state;
    expect(look(), "[wrong-kind]");
    command("HSET lock field 1");
    expect(look(), "[wrong-kind]");
    command("HSET lock other 1");
    expect(look(), "[wrong-kind]");
    command("DEL lock");
    command("SET lock text");
    expect(look(), "[wrong-kind]");
    command("DEL lock");
    expect(command("HSET lock %s 1", JAVA " with a blank"), "1");
    expect(look(), "[wrong-kind]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(one_worker_has_the_claim),
        SCRIPT_TEST(a_claim_ends_by_the_clock),
        SCRIPT_TEST(a_picture_is_of_the_worker_with_the_claim),
        SCRIPT_TEST(waits_end_by_themselves),
        SCRIPT_TEST(ended_waits_are_removed_some_at_a_time),
        SCRIPT_TEST(partitions_are_read_as_a_whole),
        SCRIPT_TEST(the_longest_wait_is_read),
        SCRIPT_TEST(the_waits_for_a_lock_enter_it_together),
        SCRIPT_TEST(a_wait_keeps_its_begin),
        SCRIPT_TEST(a_lease_that_got_the_lock_waits_no_more),
        SCRIPT_TEST(a_lease_that_may_ask_again_waits),
        SCRIPT_TEST(what_is_no_wait_is_left_out),
        SCRIPT_TEST(sessions_are_counted),
        SCRIPT_TEST(a_lock_of_ours_has_its_time),
        SCRIPT_TEST(the_record_has_the_kind_and_may_have_the_time),
        SCRIPT_TEST(an_owner_has_the_time_of_the_lock),
        SCRIPT_TEST(a_java_client_has_no_time),
        SCRIPT_TEST(readers_have_times_of_their_own),
        SCRIPT_TEST(of_many_readers_the_same_are_looked_at),
        SCRIPT_TEST(what_is_no_lock_is_left_alone),
    };
    return cmocka_run_group_tests(tests, redis_set_up_cluster, redis_tear_down);
}
