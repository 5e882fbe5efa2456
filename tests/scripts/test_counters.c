/* The scripts of semaphores and of latches. */
#include "lock_home.h"

#define TIMEOUTS "{jobs}:timeout"
#define IDEMPOTENCY(key) "rlockd:idempotency:{jobs}:" key
#define DELETED "rlockd:deleted:{jobs}"

static void take_two(void)
{
    expect(run(SCRIPT_SEMAPHORE_ACQUIRE, KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k")),
               ARGS("w.1", WINDOW, "0", "", "2", "k")),
           "[granted, *");
}

static redisReply *withdraw_two(void)
{
    return run(SCRIPT_COUNTER_WITHDRAW, KEYS("jobs", IDEMPOTENCY("k"), WAITERS, DELETED),
               ARGS("w.1"));
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
    expect(withdraw_two(), "0");
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

static void an_effect_that_ends_just_now_is_not_kept(void **state)
{
    const char *const *keys = KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k"));

    (void)state;
    for (int i = 0; i < 100; i++) {
        command("FLUSHALL");
        command("SET jobs 3");
        take_two();
        let_end_now(IDEMPOTENCY("k"));
        run(SCRIPT_SEMAPHORE_ACQUIRE, keys, ARGS("w.2", WINDOW, "0", "", "2", "k"));
        assert_int_not_equal(reply_integer(command("PTTL " IDEMPOTENCY("k"))), -1);
    }
}

static redisReply *wait_for_two(const char *attempt)
{
    return run(SCRIPT_SEMAPHORE_ACQUIRE, KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k")),
               ARGS(attempt, WINDOW, "5000", "", "2", "k"));
}

/* Whichever of them gets the permits, the others are told; a single one tells nobody. */
static void requests_with_one_key_wait_together(void **state)
{
    static const char *const attempts[] = {"w.1", "w.2", "w.3"};

    (void)state;
    listen_to("rlockd:leases");
    for (size_t last = 0; last < 3; last++) {
        command("DEL " WAITERS " " IDEMPOTENCY("k"));
        command("SET jobs 1");
        for (size_t i = 0; i < 3; i++)
            expect(wait_for_two(attempts[i]), "[busy, 1]");
        expect(wait_for_two(attempts[last]), "[busy, 1]");
        command("INCR jobs");
        expect(wait_for_two(attempts[last]), "[granted, 0, 2]");
        assert_string_equal(next_message(), "rlockd:leases k jobs");
        expect(wait_for_two(attempts[(last + 1) % 3]), "[replayed, 0, 2]");
        assert_null(next_message());
    }
    command("DEL " WAITERS " " IDEMPOTENCY("k"));
    expect(wait_for_two("w.1"), "[busy, 0]");
    command("SET jobs 2");
    expect(wait_for_two("w.1"), "[granted, 0, 2]");
    assert_null(next_message());
}

/* The permits of an attempt go back to their semaphore, and not to one that is gone. */
static void a_semaphore_that_is_gone_stays_gone(void **state)
{
    (void)state;
    command("SET jobs 3");
    take_two();
    expect(withdraw_two(), "1");
    expect_command("3", "GET jobs");
    take_two();
    command("DEL jobs");
    expect(withdraw_two(), "0");
    expect_command("0", "EXISTS jobs");
}

/* Nor to another one of the same name; that one gets what was acquired from itself. */
static void a_semaphore_made_anew_gets_no_permits_of_a_deleted_one(void **state)
{
    (void)state;
    command("SET jobs 3");
    take_two();
    expect(
        run(SCRIPT_COUNTER_DELETE, KEYS("jobs", TIMEOUTS, DELETED), ARGS("", "", "1", WINDOW)),
        "[deleted]");
    expect_lasts(DELETED, 60000);
    command("SET jobs 3");
    expect(withdraw_two(), "0");
    expect_command("3", "GET jobs");
    expect_command("0", "EXISTS " IDEMPOTENCY("k"));
    take_two();
    long long ends = (long long)redis_now_ms() + 50000;
    command("PEXPIREAT " IDEMPOTENCY("k") " %lld", ends);
    command("PEXPIREAT " DELETED " %lld", ends - 100);
    expect(withdraw_two(), "1");
    expect_command("3", "GET jobs");
    take_two();
    command("PEXPIREAT " IDEMPOTENCY("k") " %lld", ends);
    command("PEXPIREAT " DELETED " %lld", ends);
    expect(withdraw_two(), "0"); /* as if both were of one ms */
    expect_command("1", "GET jobs");
}

static void a_semaphore_and_a_latch_have_so_many_waiters(void **state)
{
    (void)state;
    const char *const *keys = KEYS("jobs", TIMEOUTS, WAITERS, IDEMPOTENCY("k"));
    const char *later = text("%lld", (long long)redis_now_ms() + 60000);

    command("SET jobs 0");
    for (int i = 0; i < 1000; i++)
        command("ZADD " WAITERS " %s %d", later, i);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_semaphore_and_a_latch),
        SCRIPT_TEST(an_effect_that_ends_just_now_is_not_kept),
        SCRIPT_TEST(requests_with_one_key_wait_together),
        SCRIPT_TEST(a_semaphore_that_is_gone_stays_gone),
        SCRIPT_TEST(a_semaphore_made_anew_gets_no_permits_of_a_deleted_one),
        SCRIPT_TEST(a_semaphore_and_a_latch_have_so_many_waiters),
    };

    return cmocka_run_group_tests_name("one server", tests, redis_set_up, redis_tear_down) +
           cmocka_run_group_tests_name("cluster", tests, redis_set_up_cluster, redis_tear_down);
}
