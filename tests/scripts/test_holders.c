/* What acquire.lua and look.lua tell of a holder: since when, and who. */
#include "lock_home.h"

/* A refusal has the token of a holder whose record has none, and of no Java holder. */
static void a_refusal_dates_the_grant(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A));
    expect(ask(.id = B), text("[busy, *, " A ":0, 1, held\n*\nlock\n, %s]", token));
    command("DEL " RECORD(A)); /* as of a POST */
    expect(ask(.id = B), text("[busy, *, " A ":0, 1, , %s]", token));
    command("DEL " COUNTER);
    command("LPUSH " COUNTER " 1");
    expect(ask(.id = B), "[busy, *, " A ":0, 1, , ]");
}

static redisReply *look(const char *asked_token)
{
    return run(SCRIPT_LOOK, KEYS("jobs", COUNTER, QUEUE, WAITERS, "rlockd:deadlock:{jobs}"),
               ARGS("9", "9", "", asked_token));
}

/* The character 31 is before the caller. */
static void the_caller_of_an_owner_is_kept(void **state)
{
    (void)state;
    const char *record = "held\n\nw.1\n\n30000\nnote\037ci\n" SID "\nhost/1\n\n1\nlock\nme";
    run(SCRIPT_ACQUIRE, KEYS("jobs", COUNTER, QUEUE, RECORD(A)),
        ARGS(A, "30000", record, "90000", "86400000"));
    expect_command(SID ":me\nlock\nhost/1\037ci", "GET " OWNER);
    expect(look(""), text("[*, *, lock, 1, [" SID ":me, 1, \037ci, " SID
                          ", host/1, me, , lock, *, *], 0, [], , , 0, ]"));
}

static void a_look_names_the_only_holder(void **state)
{
    (void)state;
    const char *token = token_of(ask(.id = A, .session = SID));
    expect(look(token), text("[*, %s, lock, 1, [" A ":0, 1, note, " SID ", host/1, , 1, lock, "
                             "%s, *], 0, [], , , 1, ]",
                             token, token));
    expect(look("5"), "[*, 0, ]");
    ask(.id = B, .wait = "5000");
    expect(look(""), "[*, lock, 1, [" A ":0, *], 1, [" B ", *, note, ], , , 0, ]");
    lock_release(A);
    token = token_of(ask(.id = C, .kind = "fair"));
    command("DEL " WAITERS);
    expect(look(""),
           text("[*, %s, fair, 1, [" C ":0, 1, note, , , , , fair, %s, *], 0, [], , , "
                "0, ]",
                token, token));
}

static redisReply *force_by(const char *by)
{
    return run(SCRIPT_FORCE_UNLOCK, KEYS("jobs", COUNTER, FORCED), ARGS(WINDOW, "", by));
}

static redisReply *forced_by(const char *id)
{
    return run(SCRIPT_FORCED_BY, KEYS("jobs", text("rlockd:lease:{jobs}:%s", id)), ARGS(id));
}

/* Each former holder learns of its own force-unlock, also after a later one of another lease.
 */
static void the_former_holder_learns_who_and_why(void **state)
{
    (void)state;
    ask(.id = A);
    expect(force_by("anna\nit hangs"), "[unlocked, " A ":0, *]");
    expect_lasts("rlockd:forced-by:{jobs}", 60000);
    expect(lock_renew(A, "30000"), "[ended, forced, , lock, anna\nit hangs]");
    ask(.id = B, .kind = "write");
    expect(force_by("ben\n"), "[unlocked, " B ":0:write, *]");
    expect(lock_release(B), "[ended, forced, , write, ben\n]");
    expect(ask(.id = A), "[ended, forced, , , anna\nit hangs]");
    expect(forced_by(A), "anna\nit hangs");
    expect_lasts("rlockd:forced-by:{jobs}:" A, 60000);
    ask(.id = C);
    expect(force_by(""), "[unlocked, " C ":0, *]");
    expect(lock_renew(C, "30000"), "[ended, forced, , lock]");
    expect(forced_by(C), "nil");
}

/* It has asked for nothing between its own force-unlock and that of the next holder. */
static void a_former_holder_that_asks_late_learns_it_too(void **state)
{
    (void)state;
    ask(.id = A);
    force_by("anna\nit hangs");
    expect_lasts("rlockd:forced-by:{jobs}:" A, 60000);
    ask(.id = B, .kind = "fair");
    force_by("ben\n");
    ask(.id = C);
    force_by("");
    expect(lock_renew(A, "30000"), "[ended, forced, , lock, anna\nit hangs]");
    expect(ask(.id = A), "[ended, forced, , , anna\nit hangs]");
    expect(lock_release(B), "[ended, forced, , fair, ben\n]");
    expect(lock_release(C), "[ended, forced, , lock]");
    expect(forced_by(C), "nil");
    command("HSET jobs " A ":m 1"); /* of a set, without a record */
    expect(force_by("anna\n"), "[unlocked, *:m, *]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_refusal_dates_the_grant),
        SCRIPT_TEST(the_caller_of_an_owner_is_kept),
        SCRIPT_TEST(a_look_names_the_only_holder),
        SCRIPT_TEST(the_former_holder_learns_who_and_why),
        SCRIPT_TEST(a_former_holder_that_asks_late_learns_it_too),
    };

    return cmocka_run_group_tests_name("one server", tests, redis_set_up, redis_tear_down) +
           cmocka_run_group_tests_name("cluster", tests, redis_set_up_cluster, redis_tear_down);
}
