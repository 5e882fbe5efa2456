/* hand_over.lua: a release that grants, and all that makes it a release as any other. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lock_home.h"

static const char *const kinds[] = {"lock", "fair"};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A holds a lock of this kind, B waits, and C behind it. */
static void line_up(const char *kind)
{
    command("FLUSHALL");
    token_of(ask(.id = A, .kind = kind));
    expect(ask(.id = B, .kind = kind, .wait = "5000"), "[busy, *]");
    expect(ask(.id = C, .kind = kind, .wait = "5000"), "[busy, *]");
}

static void expect_released(const char *kind, redisReply *reply, const char *expected)
{
    expect(reply, expected);
    expect_command("0", "EXISTS jobs");
    expect_command("1", "GET " RECORD(A));
    expect_command("2", "ZCARD " WAITERS);
    expect(lock_release(A), "[released, 0, ]");
    if (strcmp(kind, "fair") == 0)
        assert_string_equal(next_message(), CHANNEL ":" B ":0 0");
    else
        assert_string_equal(next_message(), CHANNEL " 0");
    assert_null(next_message());
}

static void expect_released_only(const char *kind, redisReply *reply)
{
    expect_released(kind, reply, "0");
}

static void the_waiter_gets_the_lock(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        int64_t before = reply_integer(command("GET " COUNTER));
        redisReply *reply = hand_over(A, .id = B, .kind = kinds[i], .ttl = "20000");
        int64_t token = reply_integer(reply);
        assert_true(token > before);
        assert_int_equal(reply_integer(command("GET " COUNTER)), token);
        expect_command("[" B ":0, 1]", "HGETALL jobs");
        expect_lasts("jobs", 20000);
        expect_lasts(COUNTER, 86400000);
        expect_lasts(RECORD(B), 80000);
        expect_command("held\n\nw.1\n\n20000\nnote\n*", "GET " RECORD(B));
        expect_command("1", "GET " RECORD(A));
        expect_lasts(RECORD(A), 60000);
        expect_command("[" C "]", "ZRANGE " WAITERS " 0 -1");
        /* As after any grant: it is confirmed to the attempt, withdrawn; or renewed. */
        expect(ask(.id = B, .kind = kinds[i]), text("[granted, %lld, *, 1]", (long long)token));
        expect(lock_withdraw(B, "w.1", ""), "1");
        expect_command("0", "EXISTS jobs " RECORD(B));
        expect(lock_release(A), "[released, 0, ]");
        line_up(kinds[i]);
        reply_integer(hand_over(A, .id = B, .kind = kinds[i]));
        expect(lock_renew(B, "40000"), "[held, *, 40000, *, 1]");
        expect(lock_withdraw(B, "w.1", ""), "2");
        expect(lock_release(B), "*");
    }
}

static void the_head_leaves_the_queue(void **state)
{
    (void)state;
    line_up("fair");
    listen_to(CHANNEL ":" C ":0");
    reply_integer(hand_over(A, .id = B, .kind = "fair", .ttl = "500"));
    expect_command("[" C ":0]", "LRANGE " QUEUE " 0 -1");
    expect_command("[" C ":0]", "ZRANGE " TIMES " 0 -1");
    expect_command("[" C "]", "ZRANGE " PLACES " 0 -1");
    assert_string_equal(next_message(), CHANNEL ":" C ":0 held 500");
    assert_null(next_message());
}

static void only_the_head_gets_a_fair_lock(void **state)
{
    (void)state;
    line_up("fair");
    listen_to(CHANNEL ":" B ":0");
    expect_released_only("fair", hand_over(A, .id = C, .kind = "fair"));
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
}

/* The request has not asked Redis before: no script but this one is for its wait. */
static void a_waiter_that_was_never_seen_gets_the_lock(void **state)
{
    (void)state;
    command("FLUSHALL");
    token_of(ask(.id = A));
    int64_t token = reply_integer(hand_over(A, .id = B, .ttl = "20000", .unseen = "1"));
    assert_int_equal(reply_integer(command("GET " COUNTER)), token);
    expect_command("[" B ":0, 1]", "HGETALL jobs");
    expect_lasts("jobs", 20000);
    expect_command("held\n\nw.1\n\n20000\nnote\n*", "GET " RECORD(B));
    expect_lasts(RECORD(B), 80000);
    expect(ask(.id = B), text("[granted, %lld, *, 1]", (long long)token));
    expect(lock_withdraw(B, "w.1", ""), "1");
    expect_command("0", "EXISTS jobs " RECORD(B));
}

/* Whatever the lock knows of its token: the next attempt tells. */
static void a_token_that_was_seen_gets_nothing_unasked(void **state)
{
    (void)state;
    line_up("lock"); /* B waits, perhaps by another request */
    listen_to(CHANNEL);
    expect_released_only("lock", hand_over(A, .id = B, .unseen = "1"));
    line_up("lock");
    lock_release(B); /* which has spent the token */
    expect(hand_over(A, .id = B, .unseen = "1"), "0");
    expect_command("1", "GET " RECORD(B));
    command("FLUSHALL");
    token_of(ask(.id = A));
    lock_release(B); /* before its request came */
    expect(hand_over(A, .id = B, .unseen = "1"), "0");
    expect_command("0", "EXISTS jobs");
}

/* Those that listen beside the worker itself, once it is their turn. */
static void others_that_listen_are_told(void **state)
{
    (void)state;
    line_up("lock");
    listen_to(CHANNEL); /* the worker's */
    reply_integer(hand_over(A, .id = B, .own_listeners = "1"));
    assert_null(next_message());
    line_up("lock");
    listen_beside(CHANNEL);
    reply_integer(hand_over(A, .id = B));
    assert_null(next_message());
    line_up("lock");
    expect_released("lock", hand_over(A, .id = B, .own_listeners = "1"), "1");
    line_up("fair"); /* its queue says whose turn it is */
    reply_integer(hand_over(A, .id = B, .kind = "fair", .own_listeners = "1"));
}

/* The waiter hung up, was deleted, or waits by another attempt or by two. */
static void a_waiter_that_waits_no_more_gets_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const char *kind = kinds[i];
        bool is_fair = strcmp(kind, "fair") == 0;

        line_up(kind);
        lock_withdraw(B, "w.1", "");
        expect(hand_over(A, .id = B, .kind = kind), "0");
        expect_command("0", "EXISTS jobs " RECORD(B));
        line_up(kind);
        lock_release(B);
        expect(hand_over(A, .id = B, .kind = kind), "0");
        expect_command("1", "GET " RECORD(B));
        line_up(kind);
        listen_to(is_fair ? CHANNEL ":" B ":0" : CHANNEL);
        expect_released_only(kind, hand_over(A, .id = B, .kind = kind, .attempt = "w.2"));
        line_up(kind);
        ask(.id = B, .kind = kind, .attempt = "w.2", .wait = "5000");
        expect_released_only(kind, hand_over(A, .id = B, .kind = kind, .attempt = "w.2"));
    }
}

/* Java clients may listen at a replica, whose listeners the script cannot count. */
static void a_sooner_end_is_told(void **state)
{
    (void)state;
    line_up("lock");
    listen_to(CHANNEL);
    reply_integer(hand_over(A, .id = B, .ttl = "20000"));
    assert_string_equal(next_message(), CHANNEL " 0");
    reply_integer(hand_over(B, .id = C, .ttl = "20000"));
    assert_null(next_message());
}

static void another_kind_gets_nothing(void **state)
{
    (void)state;
    line_up("lock");
    listen_to(CHANNEL);
    expect_released_only("lock", hand_over(A, .id = B, .kind = "fair"));
    line_up("lock");
    command("RPUSH " QUEUE " " JAVA);
    expect_released_only("lock", hand_over(A, .id = B));
}

static void a_session_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        command("FLUSHALL");
        token_of(ask(.id = A, .kind = kinds[i], .session = SID));
        ask(.id = B, .kind = kinds[i], .session = SID, .wait = "5000");
        expect(hand_over(A, .id = B, .kind = kinds[i], .session = SID), "[" SID ", *]");
        expect_command("[" B ":0, 1]", "HGETALL jobs");
        expect_command("held\n\nw.1\n*\n" SID "\nhost/1\n*", "GET " RECORD(B));
        expect(hand_over(B, .id = C, .kind = kinds[i]), "[" SID ", 0]");
    }
}

/* Nothing is done, and nothing has changed: another script finds out. */
static void what_is_no_common_case_is_left_alone(void **state)
{
    (void)state;
    line_up("lock");
    expect(hand_over(C, .id = B), "nil"); /* waits itself */
    lock_release(A);
    expect(hand_over(A, .id = B), "nil"); /* has ended */
    token_of(ask(.id = B, .registered = "1"));
    command("DEL jobs");
    expect(hand_over(B, .id = C), "nil"); /* was lost */
    command("HSET jobs " JAVA " 1");
    expect(hand_over(B, .id = C), "nil");
    command("SET jobs text");
    expect(hand_over(B, .id = C), "error: WRONGTYPE*");
    command("FLUSHALL");
    ask(.id = A, .session = SID, .owner = "me");
    ask(.id = B, .wait = "5000");
    expect(hand_over(A, .id = B), "nil"); /* an owner's lock */
    command("FLUSHALL");
    ask(.id = A, .kind = "write");
    expect(hand_over(A, .id = B), "nil"); /* see test_rw_hand_over.c */
    expect_command("[mode, write, " A ":0:write, 1]", "HGETALL jobs");
}

/* A lease without a record is a plain lock's: the server made its token. */
static void a_lease_without_a_record(void **state)
{
    (void)state;
    token_of(ask(.id = A, .mode = "fresh"));
    ask(.id = B, .mode = "fresh", .wait = "5000");
    expect_command("nil", "GET " RECORD(A));
    reply_integer(hand_over(A, .id = B));
    expect_command("[" B ":0, 1]", "HGETALL jobs");
    expect_command("1", "GET " RECORD(A));
}

static void keys_of_another_type(void **state)
{
    (void)state;
    line_up("lock");
    command("DEL " COUNTER);
    command("LPUSH " COUNTER " x");
    expect(hand_over(A, .id = B), "0");
    expect_command("0", "EXISTS jobs");
    line_up("fair");
    command("DEL " TIMES);
    command("SET " TIMES " x");
    expect(hand_over(A, .id = B, .kind = "fair"), "0");
    expect_command("0", "EXISTS jobs");
    expect_command("x", "GET " TIMES);
}

/* The head is the only waiter, so that its grant ends the queue. */
static void zset_of_times_of_another_type_stays(void **state)
{
    (void)state;
    command("FLUSHALL");
    token_of(ask(.id = A, .kind = "fair"));
    expect(ask(.id = B, .kind = "fair", .wait = "5000"), "[busy, *]");
    command("DEL " TIMES);
    command("SET " TIMES " x");
    expect(hand_over(A, .id = B, .kind = "fair"), "0");
    expect_command("x", "GET " TIMES);
    expect_command("[" B ":0]", "LRANGE " QUEUE " 0 -1");
    expect(ask(.id = B, .kind = "fair", .wait = "5000"), "[wrong-kind]");
    expect_command("x", "GET " TIMES);
}

/* The lease is released, and the grant waits for memory. */
static void nothing_is_granted_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        memory_is_short();
        expect(hand_over(A, .id = B, .kind = kinds[i]), "0");
        memory_is_back();
        expect_command("0", "EXISTS jobs");
        expect_command("1", "GET " RECORD(A));
        token_of(ask(.id = B, .kind = kinds[i], .registered = "1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(the_waiter_gets_the_lock),
        SCRIPT_TEST(the_head_leaves_the_queue),
        SCRIPT_TEST(only_the_head_gets_a_fair_lock),
        SCRIPT_TEST(a_waiter_that_was_never_seen_gets_the_lock),
        SCRIPT_TEST(a_token_that_was_seen_gets_nothing_unasked),
        SCRIPT_TEST(others_that_listen_are_told),
        SCRIPT_TEST(a_waiter_that_waits_no_more_gets_nothing),
        SCRIPT_TEST(a_sooner_end_is_told),
        SCRIPT_TEST(another_kind_gets_nothing),
        SCRIPT_TEST(a_session_is_told),
        SCRIPT_TEST(what_is_no_common_case_is_left_alone),
        SCRIPT_TEST(a_lease_without_a_record),
        SCRIPT_TEST(keys_of_another_type),
        SCRIPT_TEST(zset_of_times_of_another_type_stays),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(nothing_is_granted_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
