/* rw_acquire.lua, and what the other scripts do with a read/write lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_home.h"

#define reads(...) ask(.kind = "read", __VA_ARGS__)
#define writes(...) ask(.kind = "write", __VA_ARGS__)
#define READ(field, n) "{jobs}:" field ":rwlock_timeout:" n

static void readers_share(void **state)
{
    (void)state;
    token_of(reads(.id = A));
    token_of(reads(.id = B, .ttl = "40000"));
    expect_command(A, "GET " READ(A ":0", "1"));
    expect_lasts("jobs", 40000);
    expect(writes(.id = C), "[busy, *, *:0, 1, held\n*\nread\n, ]");
    expect(ask(.id = C), "[wrong-kind]");
    expect(lock_renew(A, "50000"), "[held, *, 50000, *, 1]");
    expect_lasts("jobs", 50000);
    expect(lock_release(A), "[released, 0, ]");
    expect_lasts("jobs", 40000);
    expect(lock_release(B), "[released, 0, ]");
    expect_command("0", "EXISTS jobs " READ(A ":0", "1") " " READ(B ":0", "1"));
    token_of(writes(.id = C));
}

/* The lock lasts as long as its longest read, and its counter as long as the lock. */
static void the_counter_outlasts_a_long_read(void **state)
{
    (void)state;
    token_of(reads(.id = A, .ttl = LONGEST));
    expect_lasts(READ(A ":0", "1"), LONGEST_MS);
    token_of(reads(.id = B));
    expect_lasts("jobs", LONGEST_MS);
    assert_true(reply_integer(command("PTTL " COUNTER)) >=
                reply_integer(command("PTTL jobs")) - 1000);
    lock_release(A);
    expect_lasts("jobs", 30000);
    lock_release(B);
    token_of(writes(.id = C, .ttl = LONGEST));
    expect_lasts("jobs", LONGEST_MS);
    assert_true(reply_integer(command("PTTL " COUNTER)) > LONGEST_MS);
}

/* Redisson sets the TTL of the lock to that of its own read. */
static void a_java_reader_does_not_shorten_another_read(void **state)
{
    (void)state;
    token_of(reads(.id = A, .ttl = "600000"));
    command("PEXPIRE jobs 30000");
    expect(writes(.id = B), "[busy, *]");
    expect_lasts("jobs", 600000);
    command("PEXPIRE jobs 30000");
    token_of(reads(.id = C));
    expect_lasts("jobs", 600000);
    command("PEXPIRE jobs 30000");
    lock_release(C);
    expect_lasts("jobs", 600000);
    command("PEXPIRE jobs 30000");
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "30000", WINDOW)),
           "[ends, 10000]");
    expect_lasts("jobs", 600000);
}

/* Waiters sleep for as long as the lock was to last. */
static void a_shorter_time_wakes_all(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        command("FLUSHALL");
        token_of(i ? writes(.id = A) : reads(.id = A));
        listen_to(RW_CHANNEL);
        expect(lock_renew(A, "10000"), "[held, *]");
        assert_string_equal(next_message(), RW_CHANNEL " 1");
        assert_string_equal(next_message(), RW_CHANNEL " 0");
        assert_null(next_message());
    }
}

/* Where the others are over much sooner; reads as long as each other come and go in silence. */
static void the_release_of_a_much_longer_read_wakes_all(void **state)
{
    static const char *const longer[] = {"3600000", "41000", "39000", "25000"};

    (void)state;
    listen_to(RW_CHANNEL);
    token_of(reads(.id = B, .ttl = "20000"));
    for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
        command("DEL " RECORD(A));
        token_of(reads(.id = A, .ttl = longer[i]));
        expect(lock_release(A), "[released, 0, ]");
        expect_lasts("jobs", 20000);
        for (int message = 1; i < 2 && message >= 0; message--)
            assert_string_equal(next_message(), text(RW_CHANNEL " %d", message));
        assert_null(next_message());
    }
}

/* Before 4.4 Redisson sets the TTL of all reads of the lock to that of its own. */
static void java_renews(const char *read)
{
    expect_command("1", text("PEXPIRE %s 30000", read));
    command("PEXPIRE jobs 30000");
}

static void expect_restored(const char *read)
{
    expect_lasts(read, 600000);
    expect_lasts("jobs", 600000);
    java_renews(read);
}

static void a_java_reader_does_not_shorten_the_read_itself(void **state)
{
    const char *read = READ(A ":0", "1");

    (void)state;
    token_of(reads(.id = A, .ttl = "600000"));
    java_renews(read);
    expect(writes(.id = B), "[busy, *]");
    expect_restored(read);
    token_of(reads(.id = C));
    expect_restored(read);
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "30000", WINDOW)),
           "[ends, 10000]");
    expect_restored(read);
    expect(reads(.id = A, .ttl = "600000", .attempt = "r.2"), "[held, *]");
    expect_restored(read);
    /* A read that has ended stays so. */
    command(text("DEL %s", read));
    expect(writes(.id = B), "[busy, *]");
    expect_command("0", text("EXISTS %s", read));
}

static void the_reads_of_an_owner_are_not_shortened(void **state)
{
    const char *reads_of_it[] = {READ(SID ":me", "1"), READ(SID ":me", "2")};

    (void)state;
    token_of(reads(.id = A, .session = SID, .owner = "me", .ttl = "20000"));
    reads(.id = C, .session = SID, .owner = "me", .ttl = "600000");
    for (int i = 0; i < 2; i++)
        java_renews(reads_of_it[i]);
    expect(writes(.id = B), "[busy, *]");
    expect_lasts(reads_of_it[0], 30000);
    expect_restored(reads_of_it[1]);
}

/* The reads of a RedissonMultiLock last longer than its lease. */
static void a_java_read_prolongs_nothing(void **state)
{
    (void)state;
    command("HSET jobs mode read " JAVA " 1");
    command("PEXPIRE jobs 30000");
    command("SET " READ(JAVA, "1") " 1 PX 600000");
    expect(writes(.id = B), "[busy, *]");
    expect_lasts("jobs", 30000);
    token_of(reads(.id = A, .ttl = "20000"));
    expect_lasts("jobs", 30000);
}

static void an_owner_that_writes_may_read(void **state)
{
    (void)state;
    const char *token = token_of(writes(.id = A, .session = SID, .owner = "me"));

    expect_command(SID ":me:write\nwrite\nhost/1", "GET " OWNER);
    expect(reads(.id = B),
           "[busy, *, " SID ":me:write, 1, " SID ":me:write\nwrite\nhost/1, *]");
    expect(reads(.id = C, .session = SID, .owner = "me"),
           text("[granted, %s, 30000, , 1]", token));
    expect(lock_release(A), "[released, 0, " SID "]");
    expect_command("read", "HGET jobs mode");
    expect_command("0", "EXISTS " OWNER);
    expect(writes(.id = B),
           "[busy, *, " SID ":me, 1, held\n*\n" SID "\nhost/1\n*\nread\nme, ]");
    expect(writes(.id = A), "[ended, released, , ]");
    expect(writes(.id = B, .session = SID, .owner = "me"), "[upgrade]");
    expect(lock_release(C), "[released, 0, " SID "]");
    expect_command("0", "EXISTS jobs");
}

static void reads_of_an_owner(void **state)
{
    (void)state;
    const char *token = token_of(reads(.id = A, .session = SID, .owner = "me"));

    expect(reads(.id = B, .session = SID, .owner = "me", .ttl = "40000"),
           text("[granted, %s, 40000, , 2]", token));
    expect_command(B, "GET " READ(SID ":me", "2"));
    expect(lock_release(A), "[released, 1, " SID "]");
    expect_command(B, "GET " READ(SID ":me", "1"));
    expect(lock_withdraw(B, "w.1", ""), "1");
    expect_command("0", "EXISTS jobs " RECORD(B));
}

static void the_reads_of_one_grant_are_forced_out(void **state)
{
    (void)state;
    const char *token = token_of(reads(.id = A, .session = SID));

    token_of(reads(.id = B));
    listen_to("rlockd:sessions");
    expect(lock_force("1"), "[search]");
    expect(lock_force_read("1", A ":0"), "[stale]");
    expect(lock_force_read(token, B ":0"), "[stale]");
    expect(lock_force_read(token, A ":0"), "[unlocked, " A ":0, *]");
    assert_string_equal(next_message(), "rlockd:sessions " SID);
    expect(lock_renew(A, "30000"), "[ended, forced, " SID ", read]");
    expect(lock_renew(B, "30000"), "[held, *]");
    expect(lock_force_read(token_of(reads(.id = C)), C ":0"), "[unlocked, " C ":0, *]");
    expect(lock_force(""), "[unlocked, " B ":0]");
    expect_command("0", "EXISTS jobs");
    expect_command("0", "EXISTS " READ(B ":0", "1"));
    expect(lock_renew(B, "30000"), "[ended, forced, , read]");
}

/* Any client of Redis may write a record. */
static void a_record_of_another_kind_is_no_read(void **state)
{
    static const char *const kinds[] = {"permit", "odd", "lock"};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *token = token_of(reads(.id = A));
        command("SET " RECORD(A) " %s PX 60000",
                text("held\n\nw.1\n\n30000\nnote\n\n\n%s\n\n%s\n", token, kinds[i]));
        expect(lock_force_read(token, A ":0"), "[stale]");
        expect_command("0", "EXISTS " FORCED);
        expect(lock_force(""), "[unlocked, " A ":0]");
        command("DEL " RECORD(A) " " FORCED);
    }
}

static redisReply *find(const char *token, const char *state)
{
    return run(SCRIPT_GRANT_FIND, KEYS("jobs"), ARGS(token, state));
}

/* The holder field that a search from its beginning finds; "": none. */
static const char *search(const char *token, int *parts)
{
    redisReply *reply = find(token, "");

    for (*parts = 1; reply_at(reply, 1)->len > 0; (*parts)++)
        reply = find(token, text("%s", reply_at(reply, 1)->str));
    return reply_at(reply, 0)->str;
}

static void a_grant_is_found_among_many_readers(void **state)
{
    (void)state;
    enum { COUNT = 150, READS = 30 };
    const char *first = NULL, *last = NULL, *owners = NULL;
    int parts;

    for (int i = 0; i < COUNT; i++) {
        last = token_of(reads(.id = text("55555555-5555-5555-8555-555555555%d", 100 + i)));
        first = i == 0 ? last : first;
    }
    for (int owner = 0; owner < 5; owner++)
        for (int i = 0; i < READS; i++)
            owners = token_of(
                reads(.id = text("66666666-6666-5666-8666-%02d66666666%02d", owner, i),
                      .session = SID, .owner = text("o%d", owner)));
    assert_string_equal(search(first, &parts), "55555555-5555-5555-8555-555555555100:0");
    assert_string_equal(search(last, &parts), "55555555-5555-5555-8555-555555555249:0");
    assert_string_equal(search(owners, &parts), SID ":o4");
    command("HSET jobs " JAVA " 5000"); /* whose reads have no tokens */
    assert_string_equal(search("1", &parts), "");
    assert_in_range(parts, 2, 20);
    command("HDEL jobs " JAVA);
    expect(lock_force_read(owners, SID ":o4"), "[unlocked, *]");
    assert_string_equal(search(owners, &parts), "");
    assert_string_equal(search(first, &parts), "55555555-5555-5555-8555-555555555100:0");
}

static void nothing_is_found_where_nobody_reads(void **state)
{
    (void)state;
    expect(find("1", ""), "[, ]");
    expect(find(token_of(writes(.id = A)), ""), "[, ]");
    command("SET jobs 1");
    expect(find("1", ""), "[, ]");
}

static void an_owner_has_so_many_reads(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        token_of(reads(.id = text("66666666-6666-5666-8666-6666666666%02d", i), .session = SID,
                       .owner = "me"));
    expect(reads(.id = A, .session = SID, .owner = "me"), "[many-reads]");
    expect_command("0", "EXISTS " RECORD(A));
    token_of(reads(.id = A, .session = SID, .owner = "other"));
    token_of(reads(.id = B));
    command("DEL " READ(SID ":me", "17")); /* over, and nobody has noticed */
    token_of(reads(.id = C, .session = SID, .owner = "me"));
}

/* How often Redis has run these commands since CONFIG RESETSTAT. */
static int64_t calls_of(const char *name)
{
    const char *field = text("cmdstat_%s:calls=", name);
    const char *found = strstr(reply_text(command("INFO commandstats")), field);

    return found != NULL ? strtoll(found + strlen(field), NULL, 10) : 0;
}

/* Any client of Redis may write a number of reads. */
static void a_script_looks_at_so_many_reads(void **state)
{
    (void)state;
    enum { FOREIGN = 200000, MOST = 5000 };
    token_of(reads(.id = A, .session = SID, .owner = "me"));
    token_of(reads(.id = B, .session = SID, .owner = "me"));
    command("HSET jobs " SID ":me %d", FOREIGN);
    command("CONFIG RESETSTAT");
    expect(lock_renew(A, "40000"), "[held, *]");
    expect(reads(.id = C, .session = SID, .owner = "me"), "[granted, *, 30000, , 3]");
    command("HSET jobs " SID ":me %d", FOREIGN);
    expect(lock_release(B), "[released, 2, " SID "]");
    expect_command("2", "HGET jobs " SID ":me");
    expect(lock_release(A), "[released, 1, " SID "]");
    expect(lock_release(C), "[released, 0, " SID "]");
    expect_command("0", "EXISTS jobs");
    assert_in_range(calls_of("exists"), 1, MOST);
    assert_in_range(calls_of("pttl"), 1, MOST);
}

static void dead_readers_do_not_block(void **state)
{
    (void)state;
    command("HSET jobs mode read");
    for (int i = 100; i < 350; i++)
        command("HSET jobs 55555555-5555-5555-8555-555555555%d:0 1", i);
    command("PEXPIRE jobs 30000");
    int refused = 0;
    while (reply_at(writes(.id = A), 0)->str[0] == 'b')
        assert_true(++refused < 6);
    assert_int_equal(refused, 2); /* 100 at a time */
    expect(command("HGETALL jobs"), "[mode, write, " A ":0:write, 1]");
}

/* A look that names a few counts all fields; one that names many looks for the living. */
static void a_first_look_leaves_dead_readers_alone(void **state)
{
    (void)state;
    enum { FIRST_MOST = 2 * 8 };
    const char *const *keys = KEYS("jobs", COUNTER, QUEUE, WAITERS, "rlockd:deadlock:{jobs}");
    command("HSET jobs mode read");
    for (int i = 100; i < 180; i++)
        command("HSET jobs 55555555-5555-5555-8555-555555555%d:0 1", i);
    command("PEXPIRE jobs 30000");
    command("CONFIG RESETSTAT");
    expect(run(SCRIPT_LOOK, keys, ARGS("8", "8", "", "", "1")), "[*, *, read, 80, *]");
    assert_in_range(calls_of("pttl"), 1, FIRST_MOST);
    expect(run(SCRIPT_LOOK, keys, ARGS("8", "8", "", "")), "[-2, *, 0, [], *]");
    assert_true(calls_of("pttl") > 80);
    command("DEL jobs");
    command("HSET jobs mode read " A ":0 100");
    command("PEXPIRE jobs 30000");
    command("CONFIG RESETSTAT");
    expect(run(SCRIPT_LOOK, keys, ARGS("8", "8", "", "", "1")), "[*, *, read, 8, *]");
    assert_in_range(calls_of("pttl"), 1, FIRST_MOST);
}

/* The release of the longest read looks at all readers. */
static void a_release_removes_dead_readers(void **state)
{
    (void)state;
    token_of(reads(.id = A, .ttl = "40000"));
    token_of(reads(.id = B));
    token_of(reads(.id = C));
    command("DEL " READ(B ":0", "1"));
    expect(lock_release(A), "[released, 0, ]");
    expect_command("[mode, read, " C ":0, 1]", "HGETALL jobs");
}

/* Redis may stand still between the two commands for the times of a read and of its lock. */
static void a_lock_outlasts_its_longest_read_a_little(void **state)
{
    (void)state;
    token_of(reads(.id = A, .ttl = "60000"));
    command("PEXPIRE jobs 60050");
    expect(lock_renew(A, "30000"), "[held, *]");
    expect_lasts("jobs", 30000);
    token_of(reads(.id = B, .ttl = "60000"));
    command("PEXPIRE jobs 60050");
    expect(lock_release(B), "[released, 0, ]");
    expect_lasts("jobs", 30000);
}

static void many_readers_come_and_go(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    char ids[COUNT][40];
    for (int i = 0; i < COUNT; i++) {
        snprintf(ids[i], sizeof(ids[i]), "55555555-5555-5555-8555-555555555%d", 100 + i);
        token_of(reads(.id = ids[i]));
    }
    expect(writes(.id = A), "[busy, *]");
    for (int i = 0; i < COUNT; i++)
        expect(lock_release(ids[i]), "[released, 0, ]");
    expect_command("0", "EXISTS jobs");
}

static void a_look_describes_holders_and_waiters(void **state)
{
    (void)state;
    const char *const *keys = KEYS("jobs", COUNTER, QUEUE, WAITERS, "rlockd:deadlock:{jobs}");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "")), "[-2, 0, , 0, [], 0, [], , , 0, ]");
    const char *token = token_of(reads(.id = A, .session = SID));
    writes(.id = B, .wait = "5000");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", A, token)),
           text("[*, %s, read, 1, [" A ":0, 1, note, " SID ", host/1, , 1, read, %s, *], 1, "
                "[" B ", *, *, note, ], held, , 1, ]",
                token, token));
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "1")), "[*, -1, ]");
    expect(lock_withdraw(A, "w.1", ""), "2");
    lock_release(A);
    ask(.id = C, .session = SID, .owner = "me");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", A, token)),
           "[*, *, lock, 1, [" SID ":me, 1, , " SID ", host/1, me, , lock, *, *], 1, [*], "
           "ended, released, 0, ]");
}

/* The mark of a deadlock counts as long as its holder and its waiter are there. */
static void a_look_reads_a_mark_that_stands(void **state)
{
    (void)state;
    const char *const *keys = KEYS("jobs", COUNTER, QUEUE, WAITERS, "rlockd:deadlock:{jobs}");
    reads(.id = A, .session = SID);
    command("SET rlockd:deadlock:{jobs} %s", A ":0\n" B "\nx\ny\n");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "")), "[*, 0, ]");
    writes(.id = B, .wait = "5000");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "")), "[*, 0, x\ny\n]");
    expect(run(SCRIPT_LOOK, keys, ARGS("0", "9", "", "")), "[*, 0, ]"); /* a listing */
    lock_release(A);
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "")), "[*, 0, ]");
    command("DEL rlockd:deadlock:{jobs}");
    command("HSET rlockd:deadlock:{jobs} a b");
    expect(run(SCRIPT_LOOK, keys, ARGS("9", "9", "", "")), "[*, 0, ]");
}

static void reads_end_without_memory(void **state)
{
    (void)state;
    reads(.id = A);
    reads(.id = B, .session = SID, .owner = "me");
    reads(.id = C, .session = SID, .owner = "me");
    memory_is_short();
    expect(writes(.id = "66666666-6666-5666-8666-666666666666"), "[busy, *]");
    expect(reads(.id = "66666666-6666-5666-8666-666666666666"), "error: OOM*");
    expect(lock_renew(B, "40000"), "[held, *]");
    expect(lock_withdraw(B, "w.9", ""), "2");
    expect(lock_release(B), "[released, 1, " SID "]");
    expect(lock_release(C), "[released, 0, " SID "]");
    expect(lock_release(A), "[released, 0, ]");
    memory_is_back();
    expect_command("0", "EXISTS jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(readers_share),
        SCRIPT_TEST(the_counter_outlasts_a_long_read),
        SCRIPT_TEST(a_shorter_time_wakes_all),
        SCRIPT_TEST(the_release_of_a_much_longer_read_wakes_all),
        SCRIPT_TEST(a_java_reader_does_not_shorten_another_read),
        SCRIPT_TEST(a_java_reader_does_not_shorten_the_read_itself),
        SCRIPT_TEST(the_reads_of_an_owner_are_not_shortened),
        SCRIPT_TEST(a_java_read_prolongs_nothing),
        SCRIPT_TEST(an_owner_that_writes_may_read),
        SCRIPT_TEST(reads_of_an_owner),
        SCRIPT_TEST(the_reads_of_one_grant_are_forced_out),
        SCRIPT_TEST(a_record_of_another_kind_is_no_read),
        SCRIPT_TEST(a_grant_is_found_among_many_readers),
        SCRIPT_TEST(nothing_is_found_where_nobody_reads),
        SCRIPT_TEST(an_owner_has_so_many_reads),
        SCRIPT_TEST(a_script_looks_at_so_many_reads),
        SCRIPT_TEST(dead_readers_do_not_block),
        SCRIPT_TEST(a_first_look_leaves_dead_readers_alone),
        SCRIPT_TEST(a_release_removes_dead_readers),
        SCRIPT_TEST(a_lock_outlasts_its_longest_read_a_little),
        SCRIPT_TEST(many_readers_come_and_go),
        SCRIPT_TEST(a_look_describes_holders_and_waiters),
        SCRIPT_TEST(a_look_reads_a_mark_that_stands),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(reads_end_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
