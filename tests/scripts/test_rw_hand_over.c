/* rw_hand_over.lua: a release of a read/write lock that grants, and all that makes it a release
 * as any other. */
#include <stdlib.h>

#include "lock_home.h"

#define READ(field) "{jobs}:" field ":0:rwlock_timeout:1"
#define WRITER(id) "[mode, write, " id ":0:write, 1]"
#define READER(id) "[mode, read, " id ":0, 1]"

static const char *const kinds[] = {"read", "write"};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A holds the lock with one kind, B waits to write. */
static void line_up(const char *kind)
{
    command("FLUSHALL");
    token_of(ask(.id = A, .kind = kind));
    expect(ask(.id = B, .kind = "write", .wait = "5000"), "[busy, *]");
}

/* Subscribes to the channel of the lock, and drops the messages that were published before. */
static void listen_anew(void)
{
    listen_to(RW_CHANNEL);
    while (next_message() != NULL)
        continue;
}

/* A was released, and B waits on. */
static void expect_released(const char *kind, redisReply *reply, const char *expected)
{
    expect(reply, expected);
    expect_command("0", "EXISTS jobs " READ(A));
    expect_command("1", "GET " RECORD(A));
    expect_lasts(RECORD(A), 60000);
    expect(lock_release(A), "[released, 0, ]");
    if (kind[0] == 'w')
        assert_string_equal(next_message(), RW_CHANNEL " 1");
    assert_string_equal(next_message(), RW_CHANNEL " 0");
    assert_null(next_message());
}

/* After a writer, and after the last reader. */
static void a_writer_gets_the_lock(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        expect(ask(.id = C, .kind = "write", .wait = "5000"), "[busy, *]");
        listen_anew();
        int64_t before = reply_integer(command("GET " COUNTER));
        int64_t token = reply_integer(hand_over(A, .id = B, .kind = "write", .ttl = "40000"));
        assert_true(token > before);
        assert_int_equal(reply_integer(command("GET " COUNTER)), token);
        expect_command(WRITER(B), "HGETALL jobs");
        expect_lasts("jobs", 40000);
        expect_lasts(COUNTER, 86400000);
        expect_command(
            text("held\n\nw.1\n\n40000\nnote\n\n\n%lld\n\nwrite\n", (long long)token),
            "GET " RECORD(B));
        expect_lasts(RECORD(B), 100000);
        expect_command("1", "GET " RECORD(A));
        expect_lasts(RECORD(A), 60000);
        expect_command("0", "EXISTS " READ(A));
        expect_command("[" C "]", "ZRANGE " WAITERS " 0 -1");
        assert_null(next_message());
        /* As after any grant: it is confirmed to the attempt, and withdrawn. */
        expect(ask(.id = B, .kind = "write"), text("[granted, %lld, *, 1]", (long long)token));
        expect(lock_withdraw(B, "w.1", ""), "1");
        expect_command("0", "EXISTS jobs " RECORD(B));
        expect(lock_release(A), "[released, 0, ]");
        /* Or renewed, and released. */
        line_up(kinds[i]);
        reply_integer(hand_over(A, .id = B, .kind = "write"));
        expect(lock_renew(B, "50000"), "[held, *, 50000, *, 1]");
        expect(lock_withdraw(B, "w.1", ""), "2");
        expect(lock_release(B), "[released, 0, ]");
        expect_command("0", "EXISTS jobs");
    }
}

/* The others that wait to read are told, for they may come in, too. */
static void a_reader_gets_the_lock(void **state)
{
    (void)state;
    command("FLUSHALL");
    token_of(ask(.id = A, .kind = "write"));
    expect(ask(.id = B, .kind = "read", .wait = "5000"), "[busy, *]");
    expect(ask(.id = C, .kind = "read", .wait = "5000"), "[busy, *]");
    listen_anew();
    int64_t token = reply_integer(hand_over(A, .id = B, .kind = "read", .ttl = "20000"));
    expect_command(READER(B), "HGETALL jobs");
    expect_command(B, "GET " READ(B));
    expect_lasts(READ(B), 20000);
    expect_lasts("jobs", 20000);
    expect_command("1", "GET " RECORD(A));
    assert_string_equal(next_message(), RW_CHANNEL " 1");
    assert_string_equal(next_message(), RW_CHANNEL " 0");
    assert_true(atoll(token_of(ask(.id = C, .kind = "read", .registered = "1"))) > token);
    expect_command("[mode, read, " B ":0, 1, " C ":0, 1]", "HGETALL jobs");
    expect(lock_release(B), "[released, 0, ]");
    expect(lock_release(C), "[released, 0, ]");
    expect_command("0", "EXISTS jobs " READ(B) " " READ(C));
}

/* The waiter of a reader that is not the last one waits on, and nobody is told anything. */
static void other_readers_keep_the_lock(void **state)
{
    (void)state;
    static const char *const fields[] = {C ":0", JAVA};

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        command("FLUSHALL");
        token_of(ask(.id = A, .kind = "read"));
        command(text("HSET jobs %s 1", fields[i]));
        command(text("SET {jobs}:%s:rwlock_timeout:1 1 PX 20000", fields[i]));
        expect(ask(.id = B, .kind = "write", .wait = "5000"), "[busy, *]");
        listen_anew();
        expect(hand_over(A, .id = B, .kind = "write", .own_listeners = "1"), "0");
        expect_command(text("[mode, read, %s, 1]", fields[i]), "HGETALL jobs");
        expect_lasts("jobs", 20000);
        expect_command("1", "GET " RECORD(A));
        expect_command("waiting\n*", "GET " RECORD(B));
        expect_command("[" B "]", "ZRANGE " WAITERS " 0 -1");
        assert_null(next_message());
    }
}

/* A reader of rlockd whose time is over counts as none. */
static void an_expired_reader_does_not_keep_the_lock(void **state)
{
    (void)state;
    line_up("read");
    command("HSET jobs " C ":0 1");
    listen_anew();
    expect_released("read", hand_over(A, .id = B, .kind = "write"), "0");
}

static void a_waiter_that_was_never_seen_gets_the_lock(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        command("FLUSHALL");
        token_of(ask(.id = A, .kind = "write"));
        reply_integer(hand_over(A, .id = B, .kind = kinds[i], .unseen = "1"));
        expect_command(kinds[i][0] == 'w' ? WRITER(B) : READER(B), "HGETALL jobs");
        expect(lock_withdraw(B, "w.1", ""), "1");
        expect_command("0", "EXISTS jobs " RECORD(B) " " READ(B));
        /* But not with a token that was seen. */
        line_up("write");
        listen_anew();
        expect_released("write", hand_over(A, .id = B, .kind = kinds[i], .unseen = "1"), "0");
        line_up("write");
        lock_release(B);
        expect(hand_over(A, .id = B, .kind = kinds[i], .unseen = "1"), "0");
        expect_command("1", "GET " RECORD(B));
        expect_command("0", "EXISTS jobs");
    }
}

static void others_that_listen_are_told(void **state)
{
    (void)state;
    listen_anew(); /* the worker's */
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        reply_integer(hand_over(A, .id = B, .kind = "write", .own_listeners = "1"));
    }
    listen_beside(RW_CHANNEL);
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        reply_integer(hand_over(A, .id = B, .kind = "write"));
        line_up(kinds[i]);
        assert_null(next_message());
        expect_released(kinds[i], hand_over(A, .id = B, .kind = "write", .own_listeners = "1"),
                        "1");
    }
}

/* The waiter hung up, was deleted, or waits by another attempt or by two. */
static void a_waiter_that_waits_no_more_gets_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        lock_withdraw(B, "w.1", "");
        expect(hand_over(A, .id = B, .kind = "write"), "0");
        expect_command("0", "EXISTS jobs " RECORD(B));
        line_up(kinds[i]);
        lock_release(B);
        expect(hand_over(A, .id = B, .kind = "write"), "0");
        expect_command("1", "GET " RECORD(B));
        line_up(kinds[i]);
        listen_anew();
        expect_released(kinds[i], hand_over(A, .id = B, .kind = "write", .attempt = "w.2"),
                        "0");
        line_up(kinds[i]);
        ask(.id = B, .kind = "write", .attempt = "w.2", .wait = "5000");
        expect_released(kinds[i], hand_over(A, .id = B, .kind = "write", .attempt = "w.2"),
                        "0");
    }
}

static void a_sooner_end_is_told(void **state)
{
    (void)state;
    line_up("write");
    listen_anew();
    reply_integer(hand_over(A, .id = B, .kind = "write", .ttl = "20000"));
    assert_string_equal(next_message(), RW_CHANNEL " 0");
    assert_null(next_message());
}

static void a_session_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        command("FLUSHALL");
        token_of(ask(.id = A, .kind = kinds[i], .session = SID));
        ask(.id = B, .kind = "write", .session = SID, .wait = "5000");
        expect(hand_over(A, .id = B, .kind = "write", .session = SID), "[" SID ", *]");
        expect_command(WRITER(B), "HGETALL jobs");
        expect_command("held\n\nw.1\n*\n" SID "\nhost/1\n*\n1\nwrite\n", "GET " RECORD(B));
        expect(hand_over(B, .id = C, .kind = "write"), "[" SID ", 0]");
        expect_command("0", "EXISTS jobs");
    }
}

/* Nothing is done, and nothing has changed: another script finds out. */
static void what_is_no_common_case_is_left_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        expect(hand_over(B, .id = C, .kind = "write"), "nil"); /* waits itself */
        lock_release(A);
        expect(hand_over(A, .id = B, .kind = "write"), "nil"); /* has ended */
        token_of(ask(.id = C, .kind = kinds[i]));
        command("DEL jobs");
        expect(hand_over(C, .id = B, .kind = "write"), "nil"); /* was lost */
        command("HSET jobs mode read " JAVA " 1");
        expect(hand_over(C, .id = B, .kind = "write"), "nil");
        command("SET jobs text");
        expect(hand_over(C, .id = B, .kind = "write"), "error: WRONGTYPE*");
        command("FLUSHALL");
        token_of(ask(.id = A, .kind = kinds[i], .session = SID, .owner = "me"));
        expect(hand_over(A, .id = B, .kind = "write"), "nil"); /* an owner's lock */
    }
    line_up("read"); /* its time is over, but not that of the hash */
    command("DEL " READ(A));
    expect(hand_over(A, .id = B, .kind = "write"), "nil");
    expect_command(READER(A), "HGETALL jobs");
    command("FLUSHALL");
    token_of(ask(.id = A)); /* a plain lock's */
    expect(hand_over(A, .id = B, .kind = "write"), "nil");
    expect_command("[" A ":0, 1]", "HGETALL jobs");
}

static void another_kind_gets_nothing(void **state)
{
    (void)state;
    line_up("write");
    command("SET " RECORD(C) " x");
    listen_anew();
    expect_released("write", hand_over(A, .id = C, .kind = "permit"), "0");
}

static void keys_of_another_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        command("DEL " COUNTER);
        command("LPUSH " COUNTER " x");
        expect(hand_over(A, .id = B, .kind = "write"), "0");
        expect_command("0", "EXISTS jobs");
    }
}

/* The lease is released, and the grant waits for memory. */
static void nothing_is_granted_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        line_up(kinds[i]);
        memory_is_short();
        expect(hand_over(A, .id = B, .kind = "write"), "0");
        memory_is_back();
        expect_command("0", "EXISTS jobs");
        expect_command("1", "GET " RECORD(A));
        token_of(ask(.id = B, .kind = "write", .registered = "1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_writer_gets_the_lock),
        SCRIPT_TEST(a_reader_gets_the_lock),
        SCRIPT_TEST(other_readers_keep_the_lock),
        SCRIPT_TEST(an_expired_reader_does_not_keep_the_lock),
        SCRIPT_TEST(a_waiter_that_was_never_seen_gets_the_lock),
        SCRIPT_TEST(others_that_listen_are_told),
        SCRIPT_TEST(a_waiter_that_waits_no_more_gets_nothing),
        SCRIPT_TEST(a_sooner_end_is_told),
        SCRIPT_TEST(a_session_is_told),
        SCRIPT_TEST(what_is_no_common_case_is_left_alone),
        SCRIPT_TEST(another_kind_gets_nothing),
        SCRIPT_TEST(keys_of_another_type),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(nothing_is_granted_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
