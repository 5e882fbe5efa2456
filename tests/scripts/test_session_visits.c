/* The scripts that visit the leases of a session in the homes of their locks: watch_many,
 * lease_watch, lease_claim and lease_end. */
#include "session_home.h"

#define LEASE "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"
#define OTHER "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c22"
#define RECORD "rlockd:lease:{jobs}:" LEASE
#define COUNTER "redisson_lock_token:{jobs}"
/* state, detail, attempt, since, ttl, note, session, its name, token, watchdog, kind, owner */
#define HELD(token, watchdog, kind, owner)                                                     \
    "held\n\nw.1\n\n30000\nnote\n" SID "\nhost/1\n" token "\n" watchdog "\n" kind "\n" owner
/* Of another session, and of none. */
#define HELD_BY(session) "held\n\nw.1\n\n30000\nnote\n" session "\nhost/1\n\n1\nlock\n"
#define WAITING_FOR(session) "waiting\n\nw.1\n17\n30000\n\n" session "\nhost/1\n\n1\nlock\n"
#define WAITING WAITING_FOR(SID)
#define OTHER_SID "6b1f0a3e-54d5-5c37-9a53-1d2f0e6f7a02"
#define A "{t}:a"
#define B "{t}:b"
#define A_RECORD "rlockd:lease:" A ":" LEASE ":m"
#define B_RECORD "rlockd:lease:" B ":" LEASE ":m"
#define A_COUNTER "redisson_lock_token:" A
#define B_COUNTER "redisson_lock_token:" B

static redisReply *lease_watch(void)
{
    return run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD), ARGS(LEASE, "30000", "60000", SID));
}

/* Two leases in one script. */
#define OTHER_RECORD "rlockd:lease:{jobs}:" OTHER

static redisReply *watch_many(const char *lock, const char *record)
{
    return run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD, lock, record),
               ARGS("30000", "60000", "", SID));
}

static redisReply *lease_claim(const char *claim)
{
    return run(SCRIPT_LEASE_CLAIM, KEYS("jobs", RECORD, COUNTER),
               ARGS(LEASE, "60000", claim, SID));
}

/* By a keep-alive that began then. */
static redisReply *end_listed(const char *before_ms)
{
    return run(SCRIPT_LEASE_END, KEYS("jobs", RECORD),
               ARGS(LEASE, "released", "60000", SID, "", before_ms));
}

static redisReply *lease_end(void)
{
    return run(SCRIPT_LEASE_END, KEYS("jobs", RECORD),
               ARGS(LEASE, "session-ended", "60000", SID));
}

static void hold(const char *field, const char *record)
{
    command("HSET jobs %s 1", field);
    command("PEXPIRE jobs 9000");
    command("SET %s %s PX 69000", RECORD, record);
    command("SET %s 4711", COUNTER);
}

static void the_watchdog_renews(void **state)
{
    (void)state;
    const char *const kinds[] = {"lock", "fair"}, *const replies[] = {"1", "[2]"};
    for (int i = 0; i < 2; i++) {
        hold(LEASE ":0", text(HELD("", "1", "%s", ""), kinds[i]));
        expect(run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD), ARGS("30000", "60000", "", SID)),
               replies[i]);
        expect_lasts("jobs", 30000);
        expect_lasts(RECORD, 90000);
    }
}

static void hold_two(const char *other_record)
{
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    command("HSET {jobs}:b %s 1", OTHER ":0");
    command("PEXPIRE {jobs}:b 9000");
    command("SET %s %s PX 69000", OTHER_RECORD, other_record);
}

static void the_watchdog_renews_several_leases_at_once(void **state)
{
    (void)state;
    hold_two(HELD("", "1", "fair", ""));
    expect(watch_many("{jobs}:b", OTHER_RECORD), "[1, 2]");
    expect_lasts("jobs", 30000);
    expect_lasts(RECORD, 90000);
    expect_lasts("{jobs}:b", 30000);
    expect_lasts(OTHER_RECORD, 90000);
}

/* As many leases as a script has at most. */
static void the_watchdog_renews_each_of_sixteen_leases(void **state)
{
    enum { MANY = 16 };
    const char *locks[MANY], *records[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        const char *id = text("0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c%02d", i + 10);
        locks[i] = text("{jobs}:%d", i);
        records[i] = text("rlockd:lease:%s:%s", locks[i], id);
        command("HSET %s %s:0 1", locks[i], id);
        command("PEXPIRE %s 9000", locks[i]);
        command("SET %s %s PX 69000", records[i], HELD("", "1", "lock", ""));
    }
#define BOTH(i) locks[i], records[i]
    expect(
        run(SCRIPT_WATCH_MANY,
            KEYS(BOTH(0), BOTH(1), BOTH(2), BOTH(3), BOTH(4), BOTH(5), BOTH(6), BOTH(7),
                 BOTH(8), BOTH(9), BOTH(10), BOTH(11), BOTH(12), BOTH(13), BOTH(14), BOTH(15)),
            ARGS("30000", "60000", "", SID)),
        "1");
#undef BOTH
    for (int i = 0; i < MANY; i++) {
        expect_lasts(locks[i], 30000);
        expect_lasts(records[i], 90000);
    }
}

/* Visits an old lease whose fencing counter has this TTL. */
static void watch_an_old_lease(const char *counters, const char *ttl_ms)
{
    hold_two(HELD("", "1", "lock", ""));
    command("SET redisson_lock_token:{jobs}:b 4712 PX %s", ttl_ms);
    expect(run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD, "{jobs}:b", OTHER_RECORD),
               ARGS("30000", "60000", counters, SID)),
           "1");
    expect_command("-1", "PTTL %s", COUNTER);
}

static void the_watchdog_keeps_the_counters_of_old_leases(void **state)
{
    (void)state;
    watch_an_old_lease("1", "5000");
    expect_lasts("redisson_lock_token:{jobs}:b", 90000);
    watch_an_old_lease("1", "200000");
    expect_lasts("redisson_lock_token:{jobs}:b", 200000);
    watch_an_old_lease("", "50000");
    expect_lasts("redisson_lock_token:{jobs}:b", 50000);
}

/* Nothing of the first lease changes, and the second one is renewed. */
static void expect_the_second_alone(const char *record)
{
    command("SET %s %s PX 69000", RECORD, record);
    command("PEXPIRE {jobs}:b 9000");
    expect(watch_many("{jobs}:b", OTHER_RECORD), "[0, 1]");
    expect_lasts("{jobs}:b", 30000);
    expect_lasts(RECORD, 69000);
    expect_command(record, "GET %s", RECORD);
}

static void no_lease_disturbs_another(void **state)
{
    (void)state;
    hold_two(HELD("", "1", "lock", ""));
    expect_the_second_alone(HELD("", "", "lock", ""));
    expect_the_second_alone(HELD("4711", "1", "lock", "me"));
    expect_the_second_alone(HELD("4711", "1", "read", ""));
    expect_the_second_alone(WAITING);
    expect_the_second_alone("2");
    expect_lasts("jobs", 9000);
    command("DEL jobs"); /* the lease has lost the lock */
    expect_the_second_alone(HELD("", "1", "lock", ""));
    command("HSET jobs other:1 1"); /* and another holder has the lock */
    command("PEXPIRE jobs 9000");
    expect_the_second_alone(HELD("", "1", "lock", ""));
    expect_lasts("jobs", 9000);
    command("SET jobs other");
    expect_the_second_alone(HELD("", "1", "lock", ""));
    command("DEL %s", RECORD);
    expect(watch_many("{jobs}:b", OTHER_RECORD), "[0, 1]");
    command("HSET %s field value", RECORD);
    expect(watch_many("{jobs}:b", OTHER_RECORD), "[0, 1]");
}

static void the_watchdog_renews_a_hold_of_an_owner(void **state)
{
    (void)state;
    hold(SID ":me", HELD("4711", "1", "lock", "me"));
    command("PEXPIRE jobs 50000"); /* another lease of the owner */
    expect(lease_watch(), "[renewed, lock]");
    expect_lasts("jobs", 50000);
    expect_lasts(RECORD, 90000);
}

static void the_watchdog_renews_a_read_a_write_and_a_permit(void **state)
{
    (void)state;
    command("HSET jobs mode read %s 1", LEASE ":0");
    command("PEXPIRE jobs 9000");
    command("SET {jobs}:" LEASE ":0:rwlock_timeout:1 " LEASE " PX 9000");
    command("SET %s %s PX 69000", RECORD, HELD("4711", "1", "read", ""));
    expect(lease_watch(), "[renewed, read]");
    expect_lasts("jobs", 30000);
    expect_lasts("{jobs}:" LEASE ":0:rwlock_timeout:1", 30000);

    redis_clear(state);
    command("HSET jobs mode write %s 1", LEASE ":0:write");
    command("PEXPIRE jobs 9000");
    command("SET %s %s PX 69000", RECORD, HELD("4711", "1", "write", ""));
    expect(lease_watch(), "[renewed, write]");
    expect_lasts("jobs", 30000);

    redis_clear(state);
    command("SET jobs 3");
    command("ZADD {jobs}:timeout %s %b", text("%lld", (long long)redis_now_ms() + 9000),
            "\x0a\xa1\xf2\xd4\x7c\x1e\x5b\x0f\x8f\x39\x2b\x7d\x5f\x0f\x1c\x11", (size_t)16);
    command("SET %s %s PX 69000", RECORD, HELD("", "1", "permit", ""));
    expect(lease_watch(), "[renewed, permit]");
    expect_command("1", "ZCOUNT {jobs}:timeout %s +inf",
                   text("%lld", (long long)redis_now_ms() + 25000));
}

static void a_lease_without_watchdog_ends_by_itself(void **state)
{
    (void)state;
    hold(LEASE ":0", HELD("", "", "lock", ""));
    redisReply *reply = lease_watch();
    expect(reply, "[ends, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 4000, 9000);
    expect_lasts("jobs", 9000);
}

static void a_lease_ends_before_the_lock_of_its_owner(void **state)
{
    (void)state;
    hold(SID ":me", HELD("4711", "", "lock", "me"));
    command("HSET jobs %s 2", SID ":me");
    expect(lease_watch(), "[ends, *]");
    command("PEXPIRE %s 60000", RECORD);
    expect(lease_watch(), "[lost, expired, lock]");
    expect_command("1", "HGET jobs %s", SID ":me");
    expect_command("2", "GET %s", RECORD);
    expect(lease_watch(), "[ended, expired, ]");
}

static void a_loss_is_found_and_ended(void **state)
{
    (void)state;
    hold(LEASE ":0", HELD("", "1", "fair", ""));
    command("DEL jobs");
    expect(lease_watch(), "[lost, expired, fair]");
    expect_lasts(RECORD, 60000);
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    command("DEL jobs");
    command("SET rlockd:forced:{jobs} %s", text("%s:0 4711", LEASE));
    expect(lease_claim("1"), "[lost, forced, lock]");
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    command("SET jobs other");
    expect(lease_watch(), "[lost, *, lock]");
    expect_command("other", "GET jobs");
}

static void what_never_held_is_gone_or_waits(void **state)
{
    (void)state;
    expect(lease_watch(), "[gone]");
    expect(lease_claim("1"), "[gone]");
    command("SET %s %s", RECORD, WAITING);
    expect(lease_watch(), "[waiting]");
    expect(lease_claim("1"), "[waiting]");
    expect_command(WAITING, "GET %s", RECORD);
}

static void what_is_listed_is_claimed(void **state)
{
    (void)state;
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    redisReply *reply = lease_claim("");
    expect(reply, "[held, 4711, *, " HELD("", "1", "lock", "") ", 1]");
    assert_in_range(reply_integer(reply_at(reply, 2)), 4000, 9000);
    expect_command(HELD("", "1", "lock", ""), "GET %s", RECORD);
    expect(lease_claim("1"), "[held, 4711, *]");
    expect_command("held\n\nlisted *\n\n30000\nnote\n*\n1\nlock\n", "GET %s", RECORD);
    expect_lasts(RECORD, 69000);
}

static void an_end_releases_and_spends(void **state)
{
    (void)state;
    listen_to("redisson_lock__channel:{jobs}");
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    expect(lease_end(), "lock");
    assert_string_equal(next_message(), "redisson_lock__channel:{jobs} 0");
    expect_command("0", "EXISTS jobs");
    expect_command("14", "GET %s", RECORD);
    expect_lasts(RECORD, 60000);
    expect(lease_end(), "1"); /* the same again: the first reply may have been lost */
    assert_null(next_message());
}

#define LISTED "held\n\nlisted *\n\n30000\nnote\n" SID "\nhost/1\n\n1\nlock\n"
#define CLAIMED "held\n\n\n\n30000\nnote\n" SID "\nhost/1\n\n1\nlock\n"
#define LATER "9999999999999" /* than the clock of any test */

static void a_keep_alive_ends_what_was_listed_before(void **state)
{
    (void)state;
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    expect(end_listed(LATER), "2"); /* the attempt that was granted may be answered yet */
    expect_command(HELD("", "1", "lock", ""), "GET %s", RECORD);
    lease_claim("1");
    const char *listed = text("%s", command("GET %s", RECORD)->str);
    expect(lease_claim("1"), "[held, 4711, *, " LISTED ", 1]");
    expect_command(listed, "GET %s", RECORD); /* since the first time */
    expect(end_listed("1700000000000"), "2");
    expect_command("1", "HGET jobs %s", LEASE ":0");
    expect(end_listed(LATER), "lock");
    expect_command("0", "EXISTS jobs");
    expect(end_listed("1700000000000"), "0");
    expect_command("1", "GET %s", RECORD);
}

/* A PUT and a PATCH that are answered 200, behind what a keep-alive has read. */
static void a_keep_alive_ends_nothing_that_was_confirmed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hold(LEASE ":0", HELD("", "1", "lock", ""));
        lease_claim("1");
        if (i == 0)
            expect(run(SCRIPT_ACQUIRE,
                       KEYS("jobs", COUNTER, "redisson_lock_queue:{jobs}", RECORD),
                       ARGS(LEASE, "30000",
                            "held\n\nw.2\n\n30000\nnote\n" SID "\nhost/1\n\n1\nlock\n", "90000",
                            "86400000")),
                   "[held, 4711, *]");
        else
            expect(run(SCRIPT_RENEW, KEYS("jobs", RECORD, COUNTER),
                       ARGS(LEASE, "30000", "60000", "1")),
                   "[held, 4711, 30000, *]");
        expect_command(CLAIMED, "GET %s", RECORD);
        expect(lease_claim("1"), "[held, 4711, *, " CLAIMED ", 1]");
        expect_command(CLAIMED, "GET %s", RECORD);
        expect(end_listed(LATER), "2");
        expect_command("1", "HGET jobs %s", LEASE ":0");
        expect_command(LISTED, "GET %s", RECORD); /* from now on */
        expect(end_listed("1700000000000"), "2");
        expect(end_listed(LATER), "lock");
        expect_command("0", "EXISTS jobs");
    }
}

static void a_keep_alive_ends_no_lease_that_waits_or_is_missing(void **state)
{
    (void)state;
    expect(end_listed(LATER), "2");
    expect_command("0", "EXISTS %s", RECORD);
    command("SET %s %s", RECORD, WAITING);
    expect(end_listed(LATER), "2");
    expect_command(WAITING, "GET %s", RECORD);
}

static void an_end_spends_what_comes_too_late(void **state)
{
    (void)state;
    expect(lease_end(), "0");
    expect_command("4", "GET %s", RECORD);
    command("SET %s %s", RECORD, "11");
    expect(lease_end(), "0");
    expect_command("11", "GET %s", RECORD);
}

static void an_end_leaves_the_line(void **state)
{
    (void)state;
    listen_to("rlockd:leases");
    command("SET %s %s", RECORD, WAITING);
    command("ZADD rlockd:waiters:{jobs} 99 %s", LEASE);
    expect(lease_end(), "0");
    expect_command("0", "EXISTS rlockd:waiters:{jobs}");
    assert_string_equal(next_message(), "rlockd:leases " LEASE " jobs");
    expect_command("4", "GET %s", RECORD);
}

static void hold_set(void)
{
    const char *const locks[] = {A, B}, *const records[] = {A_RECORD, B_RECORD};
    for (int i = 0; i < 2; i++) {
        command("HSET %s %s 1", locks[i], LEASE ":m");
        command("PEXPIRE %s 9000", locks[i]);
        command("SET %s %s PX 69000", records[i], text(HELD("%d", "1", "lock", ""), 71 + i));
    }
}

static redisReply *set_watch(void)
{
    return run(SCRIPT_LEASE_WATCH, KEYS(A, A_RECORD, B, B_RECORD),
               ARGS(LEASE, "30000", "60000", SID));
}

static void several_locks_are_one_lease(void **state)
{
    (void)state;
    hold_set();
    expect(set_watch(), "[renewed, lock]");
    expect_lasts(A, 30000);
    expect_lasts(B, 30000);
    expect_lasts(B_RECORD, 90000);
    expect(run(SCRIPT_LEASE_CLAIM, KEYS(A, A_RECORD, A_COUNTER, B, B_RECORD, B_COUNTER),
               ARGS(LEASE, "60000", "1", SID)),
           "[held, 71 72, *, held\n\nw.1*, 1 1]");
    expect_command("held\n\nlisted *\n72\n1\nlock\n", "GET %s", B_RECORD);
    expect(run(SCRIPT_LEASE_END, KEYS(A, A_RECORD, B, B_RECORD),
               ARGS(LEASE, "session-ended", "60000", SID)),
           "lock");
    expect_command("0", "EXISTS %s %s", A, B);
    expect_command("14", "GET %s", B_RECORD);
}

static void a_set_that_lost_one_lock_is_lost(void **state)
{
    (void)state;
    hold_set();
    command("DEL %s", B);
    expect(set_watch(), "[lost, expired, lock]");
    expect_command("0", "EXISTS %s %s", A, B);
    expect_command("2", "GET %s", A_RECORD);
    expect_command("2", "GET %s", B_RECORD);
}

/* --- leases of other sessions ------------------------------------------------------------- */

static redisReply *withdraw(void)
{
    return run(SCRIPT_WITHDRAW, KEYS("jobs", RECORD), ARGS(LEASE, "w.1", "", "", "60000"));
}

static void visits_change_no_lease_of_another_session(void **state)
{
    static const char *const records[] = {HELD_BY(OTHER_SID), HELD_BY(""),
                                          WAITING_FOR(OTHER_SID)};

    (void)state;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        hold(LEASE ":0", records[i]);
        for (int is_over = 0; is_over < 2; is_over++) {
            expect(
                run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD), ARGS("30000", "60000", "", SID)),
                "[0]");
            expect(lease_watch(), "[reused]");
            expect(lease_claim("1"), "[reused]");
            expect(lease_end(), "2");
            expect_command(records[i], "GET %s", RECORD);
            expect_lasts(RECORD, 69000);
            if (!is_over)
                expect_lasts("jobs", 9000);
            command("DEL jobs"); /* its time is over */
        }
    }
}

/* Its token was made by the server, and no request with such a token gets a lock later. */
static void an_end_spends_no_lease_without_a_record(void **state)
{
    (void)state;
    command("HSET jobs %s:0 1", LEASE);
    expect(lease_end(), "0");
    expect_command("0", "EXISTS %s", RECORD);
    command("HSET %s %s:0 1", A, LEASE);
    expect(run(SCRIPT_LEASE_END, KEYS(A, A_RECORD, B, B_RECORD),
               ARGS(LEASE, "session-ended", "60000", SID)),
           "0");
    expect_command("4", "GET %s", A_RECORD);
}

/* A request of the session that has ended may come later. */
static void an_end_bars_what_another_session_withdraws(void **state)
{
    static const char *const records[] = {HELD_BY(OTHER_SID), HELD_BY(""),
                                          WAITING_FOR(OTHER_SID)};

    (void)state;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        command("FLUSHALL");
        hold(LEASE ":0", records[i]);
        expect(lease_end(), "2");
        expect_lasts("rlockd:barred:{jobs}:" LEASE, 60000);
        expect(withdraw(), i < 2 ? "1" : "0");
        expect_command("4", "GET %s", RECORD);
        expect_lasts(RECORD, 60000);
    }
    command("DEL rlockd:barred:{jobs}:" LEASE " %s", RECORD);
    hold(LEASE ":0", HELD_BY(OTHER_SID));
    expect(withdraw(), "1");
    expect_command("0", "EXISTS %s", RECORD);
}

/* As long as a request may be under way. */
static void an_end_keeps_the_records_of_others(void **state)
{
    static const char *const records[] = {HELD_BY(OTHER_SID), "1"};

    (void)state;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        command("SET %s %s PX 100", RECORD, records[i]);
        expect(lease_end(), i == 0 ? "2" : "0");
        expect_command(records[i], "GET %s", RECORD);
        expect_lasts(RECORD, 60000);
    }
    hold_set();
    command("PEXPIRE %s 100", B_RECORD);
    expect(run(SCRIPT_LEASE_END, KEYS(A, A_RECORD, B, B_RECORD),
               ARGS(LEASE, "session-ended", "60000", OTHER_SID)),
           "2");
    expect_lasts(A_RECORD, 69000);
    expect_lasts(B_RECORD, 60000);
    expect(run(SCRIPT_WITHDRAW, KEYS(A, A_RECORD, B, B_RECORD),
               ARGS(LEASE, "w.1", "", "", "60000")),
           "1");
    expect_command("4", "GET %s", B_RECORD);
}

static void visits_work_without_memory(void **state)
{
    (void)state;
    hold(LEASE ":0", HELD("", "1", "lock", ""));
    command("SET rlockd:lease:{jobs}:" OTHER " %s", HELD("", "1", "lock", ""));
    memory_is_short();
    expect(run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD), ARGS("30000", "60000", "1", SID)), "1");
    expect(lease_watch(), "[renewed, lock]");
    expect(lease_claim("1"), "[held, *");
    expect(run(SCRIPT_LEASE_END, KEYS("jobs", RECORD),
               ARGS(LEASE, "session-ended", "60000", OTHER_SID)),
           "2");
    expect(lease_end(), "lock");
    expect_command("14", "GET %s", RECORD);
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", "rlockd:lease:{jobs}:" OTHER),
               ARGS(OTHER, "30000", "60000", SID)),
           "[lost, expired, lock]");
    memory_is_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(the_watchdog_renews),
        SCRIPT_TEST(the_watchdog_renews_several_leases_at_once),
        SCRIPT_TEST(the_watchdog_renews_each_of_sixteen_leases),
        SCRIPT_TEST(the_watchdog_keeps_the_counters_of_old_leases),
        SCRIPT_TEST(no_lease_disturbs_another),
        SCRIPT_TEST(the_watchdog_renews_a_hold_of_an_owner),
        SCRIPT_TEST(the_watchdog_renews_a_read_a_write_and_a_permit),
        SCRIPT_TEST(a_lease_without_watchdog_ends_by_itself),
        SCRIPT_TEST(a_lease_ends_before_the_lock_of_its_owner),
        SCRIPT_TEST(a_loss_is_found_and_ended),
        SCRIPT_TEST(what_never_held_is_gone_or_waits),
        SCRIPT_TEST(what_is_listed_is_claimed),
        SCRIPT_TEST(an_end_releases_and_spends),
        SCRIPT_TEST(a_keep_alive_ends_what_was_listed_before),
        SCRIPT_TEST(a_keep_alive_ends_nothing_that_was_confirmed),
        SCRIPT_TEST(a_keep_alive_ends_no_lease_that_waits_or_is_missing),
        SCRIPT_TEST(an_end_spends_what_comes_too_late),
        SCRIPT_TEST(an_end_leaves_the_line),
        SCRIPT_TEST(several_locks_are_one_lease),
        SCRIPT_TEST(a_set_that_lost_one_lock_is_lost),
        SCRIPT_TEST(visits_change_no_lease_of_another_session),
        SCRIPT_TEST(an_end_spends_no_lease_without_a_record),
        SCRIPT_TEST(an_end_bars_what_another_session_withdraws),
        SCRIPT_TEST(an_end_keeps_the_records_of_others),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(visits_work_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
