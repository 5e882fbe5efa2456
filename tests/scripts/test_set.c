/* set_acquire.lua and set_names.lua, and what the other scripts do with a set. */
#include <stdlib.h>

#include "lock_home.h"

static void all_or_none(void **state)
{
    (void)state;
    expect(ask_set(.id = A), "[granted, * *, 30000, , 1 1]");
    expect_command("[" A ":m, 1]", "HGETALL " P1);
    expect_command("[" A ":m, 1]", "HGETALL " P2);
    expect_lasts(SET_RECORD(P2, A), 90000);
    expect_lasts("redisson_lock_token:" P2, 86400000);
    expect(command("GET " SET_RECORD(P2, A)),
           text("held\n\nw.1\n\n30000\nnote\n\n\n%s\n\nlock\n",
                reply_text(command("GET redisson_lock_token:" P2))));
    expect(set_release(A), "[released, 0, ]");
    expect_command("0", "EXISTS " P1 " " P2);
    command("HSET " P2 " %s 1", JAVA);
    expect(ask_set(.id = B), "[busy, -1, " JAVA ", 1, , , 2]");
    expect_command("0", "EXISTS " P1 " " SET_RECORD(P1, B));
}

static void of_any_kind_without_a_queue(void **state)
{
    (void)state;
    expect(ask_set(.id = A, .kind = "read"), "[granted, * *, 30000, , 1 1]");
    expect(ask_set(.id = B, .kind = "write"), "[busy, *, " A ":m, 1, held\n*, 1]");
    expect(ask_set(.id = B), "[wrong-kind, 1]");
    expect(set_claim(A), "[held, * *, *, held\n*, 1 1]");
    expect(set_watch(A), "[ends, *]");
    expect(set_release(A), "[released, 0, ]");
    expect(ask_set(.id = B, .kind = "write"), "[granted, * *, 30000, , 1 1]");
    expect(set_end(B), "write");
    expect_command("14", "GET " SET_RECORD(P2, B));
    expect(ask_set(.id = B, .kind = "write"), "[ended, session-ended, , ]");
}

static void one_token_has_a_set_and_a_lock_beside_it(void **state)
{
    (void)state;
    ask_set(.id = A);
    const char *alone = "rlockd:lease:" P1 ":" A;
    expect(run(SCRIPT_RELEASE, KEYS(P1, alone), ARGS(A, "channel", WINDOW)),
           "[ended, unknown, , ]");
    expect(set_claim(A), "[held, *]");
}

static void a_set_waits(void **state)
{
    (void)state;
    command("HSET " P2 " %s 1", JAVA);
    command("PEXPIRE " P2 " 9000");
    expect(ask_set(.id = A, .wait = "5000"), "[busy, *, " JAVA ", 1, , , 2]");
    expect_command("[" A ":m]", "ZRANGE rlockd:waiters:" P1 " 0 -1");
    expect_command("[" A ":m]", "ZRANGE rlockd:waiters:" P2 " 0 -1");
    expect(run(SCRIPT_LOOK,
               KEYS(P1, "redisson_lock_token:" P1, "redisson_lock_queue:" P1,
                    "rlockd:waiters:" P1, "rlockd:deadlock:" P1),
               ARGS("9", "9", "", "")),
           "[-2, 0, , 0, [], 1, [" A ", *, *, note, ], , , 0, ]");
    expect(set_renew(A, "30000"), "[busy, *, " JAVA ", 1, , , 2]");
    expect(set_claim(A), "[waiting]");
    expect(set_withdraw(A, "w.1"), "0");
    expect_command("0", "EXISTS rlockd:waiters:" P1 " rlockd:waiters:" P2
                        " " SET_RECORD(P1, A) " " SET_RECORD(P2, A));
}

static void a_loss_of_one_ends_the_set(void **state)
{
    (void)state;
    ask_set(.id = A, .session = SID);
    command("DEL " P2);
    expect(set_renew(A, "30000"), "[ended, expired, " SID ", lock]");
    expect_command("0", "EXISTS " P1);
    expect_command("2", "GET " SET_RECORD(P2, A));
    expect(set_release(A), "[ended, expired, , ]");
}

/* A record that an operator deleted does not come back, and without a TTL. */
static void a_record_that_is_gone_stays_gone(void **state)
{
    (void)state;
    ask_set(.id = A, .session = SID);
    command("DEL " SET_RECORD(P2, A));
    expect(set_claim(A), "[held, *, 1 1]");
    expect_command("0", "EXISTS " SET_RECORD(P2, A));
    expect_lasts(SET_RECORD(P1, A), 90000);
    expect(set_release(A), "[released, 0, " SID "]");
    expect_command("0", "EXISTS " P1 " " P2);
}

static void it_is_renewed_confirmed_and_withdrawn(void **state)
{
    (void)state;
    redisReply *reply = ask_set(.id = A, .session = SID, .owner = "me");
    const char *tokens = token_of(reply);

    expect(ask_set(.id = B, .session = SID, .owner = "me"),
           text("[granted, %s, 30000, , 2 2]", tokens));
    expect(set_withdraw(B, "w.1"), "1");
    expect(set_renew(A, "50000"), text("[held, %s, 50000, held\n*, 1 1]", tokens));
    expect_lasts(P2, 50000);
    expect_lasts(SET_RECORD(P2, A), 110000);
    expect_lasts("rlockd:owner:" P2, 50000);
    expect(ask_set(.id = A), text("[held, %s, *, held\n*, 1 1]", tokens));
    expect(set_withdraw(A, "w.1"), "2");
    expect(set_watch(A), "[renewed, lock]");
    expect(set_release(A), "[released, 0, " SID "]");
    expect(set_release(B), "[ended, unknown, , ]");
    expect(set_withdraw(C, "w.1"), "0");
}

static void a_grant_to_an_owner_tells_its_waiters_for_each_lock(void **state)
{
    (void)state;
    listen_to("rlockd:sessions");
    token_of(ask_set(.id = A, .session = SID, .owner = "me"));
    assert_null(next_message());
    ask_set(.id = B, .wait = "60000");
    expect(ask_set(.id = C, .session = SID, .owner = "me"), "[granted, *, 2 2]");
    assert_string_equal(next_message(), "rlockd:sessions " SID ":me " P1);
    assert_string_equal(next_message(), "rlockd:sessions " SID ":me " P2);
    assert_null(next_message());
}

static void the_names_are_noted(void **state)
{
    (void)state;
    const char *key = "rlockd:set:{" A "}";
    expect(run(SCRIPT_SET_NAMES, KEYS(key), ARGS("\na\nb", "1000")), "1");
    expect(run(SCRIPT_SET_NAMES, KEYS(key), ARGS("\na\nb", "9000")), "1");
    expect_lasts(key, 9000);
    expect(run(SCRIPT_SET_NAMES, KEYS(key), ARGS("\na\nc", "9000")), "[reused]");
    expect_command("\na\nb", "GET %s", key);
}

static void a_set_without_memory(void **state)
{
    (void)state;
    ask_set(.id = A);
    memory_is_short();
    expect(ask_set(.id = B), "[busy, *]");
    expect(ask_set(.id = B, .wait = "5000"), "error: OOM*");
    expect(set_claim(A), "[held, *]");
    expect(set_renew(A, "40000"), "[held, *]");
    expect(set_release(C), "[ended, unknown, , ]");
    expect(set_release(A), "[released, 0, ]");
    expect(ask_set(.id = B), "error: OOM*");
    memory_is_back();
    expect_command("0", "EXISTS " P1 " " P2 " " SET_RECORD(P1, B));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(all_or_none),
        SCRIPT_TEST(of_any_kind_without_a_queue),
        SCRIPT_TEST(one_token_has_a_set_and_a_lock_beside_it),
        SCRIPT_TEST(a_set_waits),
        SCRIPT_TEST(a_loss_of_one_ends_the_set),
        SCRIPT_TEST(a_record_that_is_gone_stays_gone),
        SCRIPT_TEST(it_is_renewed_confirmed_and_withdrawn),
        SCRIPT_TEST(a_grant_to_an_owner_tells_its_waiters_for_each_lock),
        SCRIPT_TEST(the_names_are_noted),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(a_set_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
