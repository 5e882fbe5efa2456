/* The scripts of permits that expire, of semaphores and of latches. */
#include <stdlib.h>

#include "lock_home.h"

#define TIMEOUTS "{jobs}:timeout"
#define IDEMPOTENCY(key) "rlockd:idempotency:{jobs}:" key

static redisReply *acquire(const char *id, const char *attempt, const char *wait,
                           const char *session)
{
    return run(SCRIPT_PERMIT_ACQUIRE,
               KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id), WAITERS),
               ARGS(id, "30000", WINDOW, attempt, "", wait, "", session,
                    session[0] != '\0' ? "host/1" : "", session[0] != '\0' ? "1" : ""));
}

static redisReply *release(const char *id)
{
    return run(SCRIPT_PERMIT_RELEASE,
               KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id), WAITERS),
               ARGS(id, WINDOW));
}

static redisReply *renew(const char *id)
{
    return run(SCRIPT_PERMIT_RENEW, KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id)),
               ARGS(id, "40000", WINDOW, ""));
}

static redisReply *withdraw(const char *id, const char *attempt)
{
    return run(SCRIPT_PERMIT_WITHDRAW, KEYS("jobs", text("rlockd:lease:{jobs}:%s", id)),
               ARGS(id, attempt));
}

static void a_permit_lives(void **state)
{
    (void)state;
    command("SET jobs 1");
    expect(acquire(A, "w.1", "0", SID), "[granted, 0, 30000, , 0]");
    expect_command("held\n\nw.1\n*\n30000\n\n" SID "\nhost/1\n\n1\npermit\n", "GET " RECORD(A));
    expect(acquire(B, "w.1", "5000", ""), "[busy, *, ]");
    expect(renew(B), "[busy, -1, ]");
    expect(release(B), "[released, 0, ]");
    expect(acquire(A, "w.2", "0", SID), "[held, 0, *, held\n*, 0]");
    expect(withdraw(A, "w.1"), "2");
    expect(renew(A), "[held, 0, 40000, held\n*\n40000\n*, 0]");
    expect(run(SCRIPT_PERMIT_LOOK, KEYS("jobs", TIMEOUTS, WAITERS), ARGS("9")),
           "[looked, 0, 1, 0, [11111111111151118111111111111111, *, held\n*]]");
    expect(release(A), "[released, 0, " SID "]");
    expect(release(A), "[released, 0, ]");
    expect(acquire(A, "w.3", "0", SID), "[ended, released, , ]");
    expect_command("1", "GET jobs");
}

/* Waiters behind the one that got the last permit sleep until one expires. */
static void the_last_permit_tells_when_to_look_again(void **state)
{
    (void)state;
    command("SET jobs 1");
    expect(acquire(A, "w.1", "0", ""), "[granted, 0, 30000, , 0]");
    expect(acquire(B, "w.1", "5000", ""), "[busy, *, ]");
    expect(acquire(C, "w.1", "5000", ""), "[busy, *, ]");
    command("INCR jobs");
    redisReply *reply = run(SCRIPT_PERMIT_ACQUIRE,
                            KEYS("jobs", TIMEOUTS, "rlockd:lease:{jobs}:" B, WAITERS),
                            ARGS(B, "40000", WINDOW, "w.1", "", "5000", "1", "", "", ""));
    expect(reply, "[granted, 0, 40000, , 0, *]");
    assert_in_range(reply_integer(reply_at(reply, 5)), 25000, 30000); /* that of A */
}

static void a_permit_is_lost_or_withdrawn(void **state)
{
    (void)state;
    command("SET jobs 1");
    acquire(A, "w.1", "0", SID);
    command("DEL " TIMEOUTS);
    expect(renew(A), "[ended, expired, " SID ", permit]");
    expect(renew(A), "[ended, expired, , ]");
    expect(renew(C), "[unknown]");
    command("SET jobs 1");
    acquire(B, "w.1", "0", "");
    expect(withdraw(B, "w.1"), "1");
    expect_command("1", "GET jobs");
    expect_command("0", "EXISTS " RECORD(B));
    expect(ask(.id = C), "error: WRONGTYPE*");
}

static void a_permit_is_watched_from_its_session(void **state)
{
    (void)state;
    command("SET jobs 2");
    acquire(A, "w.1", "0", SID);
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "90000", WINDOW)),
           "[renewed, permit]");
    expect_lasts(RECORD(A), 150000);
    expect(run(SCRIPT_LEASE_CLAIM, KEYS("jobs", RECORD(A), COUNTER), ARGS(A, WINDOW, "1")),
           "[held, *, held\n*, 1]");
    expect(run(SCRIPT_LEASE_END, KEYS("jobs", RECORD(A)), ARGS(A, "session-ended", WINDOW)),
           "1");
    expect_command("2", "GET jobs");
}

static void a_semaphore_and_a_latch(void **state)
{
    (void)state;
    const char *const *keys = KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k"));
    expect(run(SCRIPT_COUNTER_CREATE, KEYS("jobs", TIMEOUTS), ARGS("3", "channel", "3", "")),
           "[created, 3]");
    expect(run(SCRIPT_SEMAPHORE_ACQUIRE, keys, ARGS("w.1", WINDOW, "0", "", "2", "k")),
           "[granted, 1, 2]");
    expect(run(SCRIPT_SEMAPHORE_ACQUIRE, keys, ARGS("w.2", WINDOW, "0", "", "2", "k")),
           "[replayed, 1, 2]");
    expect_lasts(IDEMPOTENCY("k"), 60000);
    expect(
        run(SCRIPT_COUNTER_WITHDRAW, KEYS("jobs", IDEMPOTENCY("k"), WAITERS), ARGS("k", "w.1")),
        "0");
    expect(run(SCRIPT_SEMAPHORE_RELEASE, KEYS("jobs", TIMEOUTS, WAITERS),
               ARGS("2", "channel", WINDOW, "100")),
           "[released, 3, 2]");
    expect(
        run(SCRIPT_LATCH_COUNT_DOWN, KEYS("jobs", TIMEOUTS, WAITERS), ARGS("channel", WINDOW)),
        "[counted, 2]");
    expect(run(SCRIPT_LATCH_AWAIT, KEYS("jobs", TIMEOUTS, WAITERS),
               ARGS("w.3", WINDOW, "5000", "")),
           "[busy, 2, 1]");
}

static void a_semaphore_and_a_latch_have_so_many_waiters(void **state)
{
    (void)state;
    const char *const *keys = KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k"));
    const char *later = text("%lld", (long long)redis_now_ms() + 60000);

    command("SET jobs 0");
    for (int i = 0; i < 1000; i++)
        command("ZADD " WAITERS " %s %d", later, i);
    expect(acquire(A, "w.1", "5000", ""), "[too-many]");
    expect_command("0", "EXISTS " RECORD(A));
    expect(acquire(A, "w.1", "0", ""), "[busy, -1, ]");
    expect(run(SCRIPT_SEMAPHORE_ACQUIRE, keys, ARGS("w.2", WINDOW, "5000", "", "1", "k")),
           "[too-many]");
    expect_command("0", "EXISTS " IDEMPOTENCY("k"));
    expect(run(SCRIPT_SEMAPHORE_ACQUIRE, keys, ARGS("999", WINDOW, "5000", "1", "1", "k")),
           "[busy, 0]");
    command("SET jobs 2");
    keys = KEYS("jobs", TIMEOUTS, WAITERS);
    expect(run(SCRIPT_LATCH_AWAIT, keys, ARGS("w.3", WINDOW, "5000", "")), "[too-many]");
    expect(run(SCRIPT_LATCH_AWAIT, keys, ARGS("w.3", WINDOW, "0", "")), "[busy, 2, 1000]");
    command("ZADD " WAITERS " 1 0");
    expect(run(SCRIPT_LATCH_AWAIT, keys, ARGS("w.3", WINDOW, "5000", "")), "[busy, 2, 1000]");
    expect_command("1000", "ZCARD " WAITERS);
}

static void permits_end_without_memory(void **state)
{
    (void)state;
    command("SET jobs 2");
    acquire(A, "w.1", "0", "");
    acquire(B, "w.1", "0", "");
    memory_is_short();
    expect(acquire(C, "w.1", "0", ""), "[busy, *]");
    expect(renew(A), "[held, *]");
    expect(withdraw(B, "w.1"), "1");
    expect(release(A), "[released, 0, ]");
    expect(acquire(C, "w.1", "0", ""), "error: OOM*");
    memory_is_back();
    expect_command("2", "GET jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_permit_lives),
        SCRIPT_TEST(the_last_permit_tells_when_to_look_again),
        SCRIPT_TEST(a_permit_is_lost_or_withdrawn),
        SCRIPT_TEST(a_permit_is_watched_from_its_session),
        SCRIPT_TEST(a_semaphore_and_a_latch),
        SCRIPT_TEST(a_semaphore_and_a_latch_have_so_many_waiters),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(permits_end_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
