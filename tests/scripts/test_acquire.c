/* acquire.lua, renew.lua, release.lua and withdraw.lua: a plain lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_home.h"

static void free_lock_is_granted(void **state)
{
    (void)state;
    int64_t before_ms = redis_now_ms();
    const char *token = token_of(ask(.id = A));

    assert_true(strtoll(token, NULL, 10) >= before_ms * 1000);
    expect(command("HGETALL jobs"), "[" A ":0, 1]");
    expect_lasts("jobs", 30000);
    expect_lasts(RECORD(A), 90000);
    expect_lasts(COUNTER, 86400000);
    expect_command("held\n\nw.1\n\n30000\nnote\n\n\n\n\nlock\n", "GET " RECORD(A));
}

static void the_counter_may_last_for_ever(void **state)
{
    (void)state;
    const char *text = "held\n\nw.1\n\n30000\n\n\n\n\n\nlock\n";
    run(SCRIPT_ACQUIRE, KEYS("jobs", COUNTER, QUEUE, RECORD(A)),
        ARGS(A, "30000", text, "90000", "0", "0", "fresh"));
    expect_command("-1", "PTTL " COUNTER);
    expect_command("0", "EXISTS " RECORD(A));
    expect(lock_renew(A, "50000"), "[held, *, 50000, , 1]");
    expect(lock_release(A), "0");
}

/* At each way to it: by a grant, by a renewal, by another lease of the owner. */
static void the_counter_outlasts_the_longest_lease(void **state)
{
    (void)state;
    token_of(ask(.id = A, .ttl = LONGEST));
    expect_lasts("jobs", LONGEST_MS);
    expect_lasts(RECORD(A), LONGEST_MS + 60000);
    expect_lasts(COUNTER, LONGEST_MS + 60000);
    lock_release(A);
    command("DEL " COUNTER);
    token_of(ask(.id = B, .session = SID, .owner = "me"));
    expect_lasts(COUNTER, 86400000);
    token_of(ask(.id = C, .session = SID, .owner = "me", .ttl = LONGEST));
    expect_lasts("jobs", LONGEST_MS);
    expect_lasts(OWNER, LONGEST_MS);
    expect_lasts(COUNTER, LONGEST_MS + 60000);
    command("FLUSHALL");
    token_of(ask(.id = A));
    expect(lock_renew(A, LONGEST), "[held, *, 31622400000, *, 1]");
    expect_lasts("jobs", LONGEST_MS);
    expect_lasts(COUNTER, LONGEST_MS + 60000);
}

static void tokens_rise(void **state)
{
    (void)state;
    command("SET " COUNTER " 9000000000000000");
    expect(ask(.id = A), "9000000000000001");
    expect_lasts(COUNTER, 86400000);
}

static void a_session_without_owner_is_granted_as_fast(void **state)
{
    (void)state;
    token_of(ask(.id = A, .session = SID));
    expect_command("held\n\nw.1\n\n30000\nnote\n" SID "\nhost/1\n\n1\nlock\n",
                   "GET " RECORD(A));
    expect(ask(.id = B), "[busy, *, " A ":0, 1, held\n*" SID "\nhost/1\n*]");
    expect(lock_release(A), "[released, 0, " SID "]");
    expect_command("0", "EXISTS jobs");
}

static void an_owner_is_marked_and_comes_in_again(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A, .session = SID, .owner = "me"));

    expect_command(SID ":me\nlock\nhost/1", "GET " OWNER);
    expect_lasts(OWNER, 30000);
    expect(ask(.id = B), "[busy, *, " SID ":me, 1, " SID ":me\nlock\nhost/1, *]");
    expect(ask(.id = C, .session = SID, .owner = "me", .ttl = "40000"),
           text("[granted, %s, 40000, , 2]", token));
    expect_lasts(OWNER, 40000);
    expect(lock_renew(A, "50000"), text("[held, %s, 50000, *, 2]", token));
    expect_lasts(OWNER, 50000);
    expect(lock_release(C), "[released, 1, " SID "]");
    expect_command("11", "GET " RECORD(C));
    expect(lock_release(C), "[released, 1, ]");
    expect(ask(.id = B, .kind = "fair"), "[wrong-kind]");
    expect(lock_release(A), "[released, 0, " SID "]");
    expect_command("0", "EXISTS jobs " OWNER);
}

/* Not its session: a lock that one owner got concerns no other owner, and no keep-alive. */
static void a_grant_to_an_owner_tells_its_waiters(void **state)
{
    (void)state;
    listen_to("rlockd:sessions");
    token_of(ask(.id = A, .session = SID, .owner = "me"));
    assert_null(next_message());
    ask(.id = B, .wait = "60000");
    expect(ask(.id = C, .session = SID, .owner = "me"), "[granted, *, 30000, , 2]");
    assert_string_equal(next_message(), "rlockd:sessions " SID ":me jobs");
    assert_null(next_message());
}

static void release_frees_the_lock(void **state)
{
    (void)state;
    ask(.id = A);
    listen_to(CHANNEL);
    expect(lock_release(A), "0");
    expect_command("0", "EXISTS jobs");
    expect_command("1", "GET " RECORD(A));
    expect_lasts(RECORD(A), 60000);
    assert_string_equal(next_message(), CHANNEL " 0");
    assert_null(next_message());
    expect(lock_release(A), "[released, 0, ]");
    assert_null(next_message());
    expect(ask(.id = A), "[ended, released, , ]");
}

static void an_unseen_token_is_spent(void **state)
{
    (void)state;
    expect(lock_renew(A, "30000"), "[unknown]");
    expect(lock_release(A), "[ended, unknown, , ]");
    expect(ask(.id = A), "[ended, unknown, , ]");
    expect(ask(.id = B, .mode = "returned"), "[ended, unknown, , ]");
}

/* A lease whose token the server made may have no record. */
static void the_token_of_a_plain_lease_asks_for_another_kind(void **state)
{
    (void)state;
    token_of(ask(.id = A, .mode = "fresh"));
    expect_command("0", "EXISTS " RECORD(A));
    expect(ask(.id = A, .mode = "returned", .kind = "read"), "[reused]");
    expect(ask(.id = A, .mode = "returned", .kind = "write"), "[reused]");
    expect(ask(.id = A, .mode = "returned", .kind = "fair"), "[reused]");
    expect(ask(.id = A, .mode = "returned", .session = SID), "[reused]");
    expect(ask(.id = A, .mode = "returned"), "[held, *]");
    expect(ask(.id = B, .mode = "returned", .kind = "read"), "[ended, unknown, , ]");
}

static void held_lock_is_refused(void **state)
{
    (void)state;
    ask(.id = A);
    expect(ask(.id = B), "[busy, *, " A ":0, 1, held\n*]");
    expect_command("0", "EXISTS " RECORD(B) " " WAITERS);
    command("DEL jobs");
    command("HSET jobs %s 1", JAVA);
    expect(ask(.id = B), "[busy, -1, " JAVA ", 1, , ]");
}

static void a_waiter_stands_in_line(void **state)
{
    (void)state;
    ask(.id = A);
    expect(ask(.id = B, .wait = "5000"), "[busy, *]");
    expect_command("waiting\n\nw.1\n*", "GET " RECORD(B));
    expect_lasts(RECORD(B), 65000);
    expect_command("[" B "]", "ZRANGE " WAITERS " 0 -1");
    expect(lock_renew(B, "30000"), "[busy, *, " A ":0, 1, held\n*]");
    expect(ask(.id = B, .wait = "5000", .attempt = "w.2"), "[busy, *]");
    expect_command("waiting\nw.1\nw.2\n*", "GET " RECORD(B));
    lock_release(A);
    listen_to("rlockd:leases");
    token_of(ask(.id = B, .registered = "1", .attempt = "w.2"));
    assert_string_equal(next_message(), "rlockd:leases " B " jobs");
    expect_command("0", "EXISTS " WAITERS);
}

/* Three requests with one token: two leave, each more than once. */
static void the_last_of_many_requests_waits_on(void **state)
{
    (void)state;
    ask(.id = A);
    ask(.id = B, .wait = "5000");
    ask(.id = B, .wait = "5000", .attempt = "w.2");
    ask(.id = B, .wait = "5000", .attempt = "w.3");
    expect_command("waiting\nw.1 w.2\nw.3\n*", "GET " RECORD(B));
    ask(.id = B, .wait = "5000", .registered = "1", .attempt = "w.1"); /* it tries again */
    expect_command("waiting\nw.1 w.2\nw.3\n*", "GET " RECORD(B));
    for (int i = 0; i < 2; i++) {
        lock_withdraw(B, "w.1", "");
        lock_withdraw(B, "w.3", "");
    }
    expect_command("waiting\n\nw.2\n*", "GET " RECORD(B));
    expect_command("[" B "]", "ZRANGE " WAITERS " 0 -1");
    lock_withdraw(B, "w.2", "");
    expect_command("0", "EXISTS " RECORD(B) " " WAITERS);
}

static void a_record_tells_so_many_requests_apart(void **state)
{
    (void)state;
    ask(.id = A);
    for (int i = 0; i < 200; i++)
        ask(.id = B, .wait = "5000", .attempt = text("worker.%d", i));
    expect_command("waiting\n*\nworker.199\n*", "GET " RECORD(B));
    assert_true(reply_integer(command("STRLEN " RECORD(B))) < 200);
    for (int i = 0; i < 200; i++)
        lock_withdraw(B, text("worker.%d", i), "");
    expect_command("1", "EXISTS " RECORD(B)); /* until its time is over */
}

/* Java's 0 wakes one thread, its 1 all that sleep; a thread that is about to sleep finds the 0.
 */
static void a_shorter_time_wakes_all(void **state)
{
    (void)state;
    ask(.id = A);
    listen_to(CHANNEL);
    expect(lock_renew(A, "40000"), "[held, *]");
    assert_null(next_message());
    expect(lock_renew(A, "10000"), "[held, *]");
    assert_string_equal(next_message(), CHANNEL " 1");
    assert_string_equal(next_message(), CHANNEL " 0");
    assert_null(next_message());
}

/* Any client of Redis may write the keys beside a lock: what was done is answered as done. */
static void other_types_beside_a_lock_stop_nothing(void **state)
{
    (void)state;
    ask(.id = A, .mode = "fresh");
    command("HSET " RECORD(A) " x x");
    listen_to(CHANNEL);
    expect(lock_release(A), "0");
    assert_string_equal(next_message(), CHANNEL " 0");
    expect_command("0", "EXISTS jobs");
    command("HSET " WAITERS " x x");
    token_of(ask(.id = B, .session = SID, .owner = "me"));
    expect(lock_release(B), "[released, 0, " SID "]");
    ask(.id = C, .session = SID);
    command("DEL " COUNTER);
    command("HSET " COUNTER " x x");
    expect(ask(.id = C, .attempt = "w.2"), "[held, 0, *]");
    expect_command("held\n\n\n*", "GET " RECORD(C));
    expect(lock_renew(C, "30000"), "[held, 0, *]");
}

/* Valkey keeps a number with its key, instead of a shared one. */
static void expect_only_a_key(const char *key)
{
    bool is_valkey = strstr(reply_text(command("INFO server")), "server_name:valkey") != NULL;

    if (!is_valkey)
        expect_command("2147483647", text("OBJECT REFCOUNT %s", key));
    assert_in_range(reply_integer(command("MEMORY USAGE %s", key)), 1, 130);
}

/* Redis shares the number that is the record of an ended lease: only the key takes memory. */
static void a_spent_token_is_small(void **state)
{
    (void)state;
    ask(.id = A, .session = SID);
    lock_release(A);
    expect_command("1", "GET " RECORD(A));
    expect_only_a_key(RECORD(A));
    ask(.id = B, .session = SID, .owner = "me");
    ask(.id = C, .session = SID, .owner = "me");
    lock_release(B);
    expect_command("11", "GET " RECORD(B)); /* one hold is left */
    expect(lock_release(B), "[released, 1, ]");
    expect_only_a_key(RECORD(B));
    expect(lock_release("66666666-6666-5666-8666-666666666666"), "[ended, unknown, , ]");
    expect_command("5", "GET " RECORD("66666666-6666-5666-8666-666666666666"));
}

static void a_lock_has_so_many_waiters(void **state)
{
    (void)state;
    ask(.id = A);
    const char *later = text("%lld", (long long)redis_now_ms() + 60000);
    for (int i = 0; i < 1000; i++)
        command("ZADD " WAITERS " %s %d", later, i);
    expect(ask(.id = B, .wait = "5000"), "[too-many]");
    expect_command("0", "EXISTS " RECORD(B));
    expect(ask(.id = B), "[busy, *]");
    command("ZADD " WAITERS " 1 0");
    expect(ask(.id = B, .wait = "5000"), "[busy, *]");
}

static void the_same_request_is_confirmed(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A, .session = SID));

    expect(ask(.id = A, .session = SID), text("[granted, %s, *, held\n*, 1]", token));
    expect(ask(.id = A, .attempt = "w.2"), text("[held, %s, *, held\n\n\n*, 1]", token));
    expect_lasts(RECORD(A), 90000);
    expect(lock_withdraw(A, "w.1", ""), "2");
    expect(ask(.id = A, .kind = "read"), "[reused]");
    expect(ask(.id = A, .session = SID, .owner = "me"), "[reused]");
    command("DEL jobs");
    expect(ask(.id = A, .session = SID), "[ended, expired, " SID ", lock]");
    expect(ask(.id = A, .session = SID), "[ended, expired, , ]");
}

/* What comes between an acquire script and the confirmation that it asks for. */
static void a_record_may_change_before_it_is_confirmed(void **state)
{
    (void)state;
    ask(.id = A, .session = SID);
    const char *const *confirm_keys = KEYS("jobs", RECORD(A), COUNTER);
    const char *const *as_it_was = ARGS(A, WINDOW, "lock", "", SID, "w.2");

    expect(run(SCRIPT_LEASE_CONFIRM, confirm_keys, ARGS(A, WINDOW, "lock", "", SID, "w.1")),
           "[granted, *]");
    expect(run(SCRIPT_LEASE_CONFIRM, confirm_keys, ARGS(A, WINDOW, "fair", "", SID, "w.2")),
           "[reused]");
    expect(lock_withdraw(A, "w.1", ""), "1"); /* it is not claimed */
    expect(run(SCRIPT_LEASE_CONFIRM, confirm_keys, as_it_was), "[again]");
    ask(.id = B);
    ask(.id = A, .session = SID, .wait = "5000");
    expect(run(SCRIPT_LEASE_CONFIRM, confirm_keys, as_it_was), "[again]");
    expect_command("1", "ZCARD " WAITERS);
    expect(
        run(SCRIPT_LEASE_CONFIRM, confirm_keys, ARGS(A, WINDOW, "lock", "", SID, "w.2", "1")),
        "[again]");
    expect_command("0", "ZCARD " WAITERS);
    lock_release(A);
    expect(run(SCRIPT_LEASE_CONFIRM, confirm_keys, as_it_was), "[ended, released, , ]");
}

/* Nothing that is written once more stays for ever. */
static void what_ends_just_now_is_not_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        command("FLUSHALL");
        ask(.id = A, .owner = "me", .session = SID);
        let_end_now(RECORD(A));
        ask(.id = A, .owner = "me", .session = SID, .attempt = "w.2");
        assert_int_not_equal(reply_integer(command("PTTL " RECORD(A))), -1);
    }
}

static void withdrawals(void **state)
{
    (void)state;
    ask(.id = A);
    ask(.id = B, .wait = "5000");
    expect(lock_withdraw(A, "w.9", ""), "2");
    expect(lock_withdraw(B, "w.1", ""), "0");
    expect_command("0", "EXISTS " RECORD(B) " " WAITERS);
    expect(lock_withdraw(A, "w.1", ""), "1");
    expect_command("0", "EXISTS jobs " RECORD(A));
    ask(.id = A);
    lock_renew(A, "30000");
    expect(lock_withdraw(A, "w.1", ""), "2");
    expect_command("1", "EXISTS jobs");
}

static void renewal_and_loss(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A, .session = SID));

    command("PEXPIRE " COUNTER " 1000");
    expect(lock_renew(A, "40000"),
           text("[held, %s, 40000, held\n\n\n\n40000\nnote\n" SID "\n*, 1]", token));
    expect_lasts("jobs", 40000);
    expect_lasts(RECORD(A), 100000);
    expect_lasts(COUNTER, 100000);
    expect(lock_force(token), "[unlocked, " A ":0, *]");
    expect(lock_renew(A, "40000"), "[ended, forced, " SID ", lock]");
    expect(lock_renew(A, "40000"), "[ended, forced, , ]");
    expect(lock_release(A), "[ended, forced, , ]");
}

static void a_forced_unlock_leaves_no_marker(void **state)
{
    (void)state;
    expect(lock_force(""), "[free]");
    expect(lock_force("*"), "[stale]");
    ask(.id = A, .session = SID, .owner = "me");
    listen_to("rlockd:sessions");
    expect(lock_force(""), "[unlocked, " SID ":me, *]");
    assert_string_equal(next_message(), "rlockd:sessions " SID);
    expect_command("0", "EXISTS jobs " OWNER);
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "30000", WINDOW)),
           "[lost, forced, lock]");
}

static void the_watchdog_keeps_the_fencing_token(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A, .session = SID));

    command("PEXPIRE " COUNTER " 1000");
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "40000", WINDOW)),
           "[renewed, lock]");
    expect_lasts(COUNTER, 100000);
    expect(run(SCRIPT_LEASE_CLAIM, KEYS("jobs", RECORD(A), COUNTER), ARGS(A, WINDOW, "1")),
           text("[held, %s, *, held\n*, 1]", token));
    expect(lock_withdraw(A, "w.1", ""), "2");
}

static void another_type_of_key_is_no_lock(void **state)
{
    (void)state;
    command("SET " COUNTER " 1");
    command("SET jobs 1");
    expect(ask(.id = A), "error: WRONGTYPE*");
    command("DEL jobs " COUNTER);
    command("RPUSH " COUNTER " 1");
    expect(ask(.id = A), "error: WRONGTYPE*");
    expect_command("0", "EXISTS jobs " RECORD(A));
    command("DEL " COUNTER);
    command("RPUSH " QUEUE " %s", JAVA);
    expect(ask(.id = A), "[wrong-kind]");
}

static void dead_places_give_way_to_a_plain_lock(void **state)
{
    (void)state;
    command("RPUSH " QUEUE " " B ":0");
    command("ZADD " TIMES " 99999999999999 " B ":0");
    command("ZADD " PLACES " %s " B, text("%lld", (long long)redis_now_ms() - 16000));
    token_of(ask(.id = A));
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES);
}

static void no_memory_no_grant(void **state)
{
    (void)state;
    memory_is_short();
    expect(ask(.id = A), "error: OOM*");
    expect(ask(.id = A, .session = SID, .owner = "me"), "error: OOM*");
    memory_is_back();
    expect_command("0", "EXISTS jobs " COUNTER " " RECORD(A) " " OWNER);
}

static void what_holds_ends_without_memory(void **state)
{
    (void)state;
    ask(.id = A);
    ask(.id = B, .wait = "5000");
    memory_is_short();
    expect(ask(.id = A, .attempt = "w.2"), "[held, *, held\n\n\n*, 1]");
    expect(lock_renew(A, "40000"), "[held, *]");
    expect(lock_release(B), "[released, 0, ]");
    expect(lock_release(C), "[ended, unknown, , ]");
    expect(lock_withdraw(A, "w.1", ""), "2");
    expect(lock_release(A), "0");
    memory_is_back();
    expect_command("0", "EXISTS jobs " WAITERS);
}

static void an_owner_lets_go_without_memory(void **state)
{
    (void)state;
    ask(.id = A, .session = SID, .owner = "me");
    ask(.id = B, .session = SID, .owner = "me");
    memory_is_short();
    expect(lock_withdraw(A, "w.1", ""), "1");
    expect(lock_release(B), "[released, 0, " SID "]");
    memory_is_back();
}

/* What a lock keeps of its second waiter, B, but the time when it began to wait. */
static char *traces_of_waiter(const char *kind, const char *registered)
{
    static const char *const looks[] = {"ZRANGE " WAITERS " 0 -1", "LRANGE " QUEUE " 0 -1",
                                        "ZRANGE " TIMES " 0 -1", "ZRANGE " PLACES " 0 -1"};
    static const char *const lasting[] = {RECORD(B), WAITERS, QUEUE, TIMES, PLACES};
    char *all = strdup(""), *longer;

    command("FLUSHALL");
    ask(.id = A, .kind = kind);
    ask(.id = C, .kind = kind, .wait = "4000");
    expect(ask(.id = B, .kind = kind, .wait = "5000", .registered = registered),
           text("[busy, *, " A ":0, 1, held\n*\n%s\n, *]", kind));
    expect_command("waiting\n\nw.1\n1*\n30000\nnote\n*", "GET " RECORD(B));
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        assert_true(asprintf(&longer, "%s%s\n", all, reply_text(command("%s", looks[i]))) > 0);
        free(all);
        all = longer;
    }
    for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
        int64_t left = reply_integer(command("PTTL %s", lasting[i]));
        assert_true(asprintf(&longer, "%s%lld\n", all, (long long)(left + 9000) / 10000) > 0);
        free(all);
        all = longer;
    }
    return all;
}

/* A first attempt registers in short; one that is registered already goes the long way. */
static void the_short_way_leaves_what_the_long_way_does(void **state)
{
    static const char *const kinds[] = {"lock", "fair"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *by_short = traces_of_waiter(kinds[i], NULL);
        char *by_long = traces_of_waiter(kinds[i], "1");

        assert_string_equal(by_short, by_long);
        free(by_short);
        free(by_long);
    }
}

/* Nothing is registered in short. */
static void a_first_attempt_that_needs_the_long_way(void **state)
{
    (void)state;
    ask(.id = A, .kind = "fair");
    ask(.id = B, .kind = "fair", .wait = "5000");
    command("DEL " RECORD(B) " " WAITERS); /* its place is left */
    expect(ask(.id = B, .kind = "fair", .wait = "5000"), "[busy, *]");
    expect_command("[" B ":0]", "LRANGE " QUEUE " 0 -1");
    expect(ask(.id = C, .wait = "5000"), "[wrong-kind]");
    expect_command("0", "EXISTS " RECORD(C));
    command("DEL " QUEUE " " TIMES);
    command("SET " TIMES " x"); /* beside an empty queue */
    expect(ask(.id = C, .kind = "fair", .wait = "5000"), "[wrong-kind]");
    expect_command("0", "EXISTS " RECORD(C) " " QUEUE);
    command("DEL " TIMES);
    for (int i = 0; i < 1000; i++)
        command("RPUSH " QUEUE " 44444444-4444-4444-8444-444444444444:%d", i);
    expect(ask(.id = C, .kind = "fair", .wait = "5000"), "[too-many]");
    expect_command("0", "EXISTS " RECORD(C));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(free_lock_is_granted),
        SCRIPT_TEST(the_counter_may_last_for_ever),
        SCRIPT_TEST(the_counter_outlasts_the_longest_lease),
        SCRIPT_TEST(tokens_rise),
        SCRIPT_TEST(a_session_without_owner_is_granted_as_fast),
        SCRIPT_TEST(an_owner_is_marked_and_comes_in_again),
        SCRIPT_TEST(a_grant_to_an_owner_tells_its_waiters),
        SCRIPT_TEST(release_frees_the_lock),
        SCRIPT_TEST(an_unseen_token_is_spent),
        SCRIPT_TEST(the_token_of_a_plain_lease_asks_for_another_kind),
        SCRIPT_TEST(held_lock_is_refused),
        SCRIPT_TEST(a_waiter_stands_in_line),
        SCRIPT_TEST(the_last_of_many_requests_waits_on),
        SCRIPT_TEST(a_record_tells_so_many_requests_apart),
        SCRIPT_TEST(a_shorter_time_wakes_all),
        SCRIPT_TEST(other_types_beside_a_lock_stop_nothing),
        SCRIPT_TEST(a_spent_token_is_small),
        SCRIPT_TEST(a_lock_has_so_many_waiters),
        SCRIPT_TEST(the_short_way_leaves_what_the_long_way_does),
        SCRIPT_TEST(a_first_attempt_that_needs_the_long_way),
        SCRIPT_TEST(the_same_request_is_confirmed),
        SCRIPT_TEST(a_record_may_change_before_it_is_confirmed),
        SCRIPT_TEST(what_ends_just_now_is_not_kept),
        SCRIPT_TEST(withdrawals),
        SCRIPT_TEST(renewal_and_loss),
        SCRIPT_TEST(a_forced_unlock_leaves_no_marker),
        SCRIPT_TEST(the_watchdog_keeps_the_fencing_token),
        SCRIPT_TEST(another_type_of_key_is_no_lock),
        SCRIPT_TEST(dead_places_give_way_to_a_plain_lock),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(no_memory_no_grant),
        SCRIPT_TEST(what_holds_ends_without_memory),
        SCRIPT_TEST(an_owner_lets_go_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
