/* The notes of a session: session_bind, session_unbind, session_settle and session_due. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session_home.h"

static void a_lease_is_noted_before_it_is_asked_for(void **state)
{
    (void)state;
    session_open("30000");
    expect(session_bind(REF, "w.1", "10000"), "host/1");
    expect_command("* w.1", "HGET %s %s", NOTES, REF);
    int64_t in_ms = reply_integer(command("ZSCORE %s %s", DUE, REF)) - redis_now_ms();
    assert_in_range(in_ms, 5000, 10000);
    expect_lasts(NOTES, 90000);
    expect_lasts(DUE, 90000);
}

static void attempts_are_noted_beside_each_other(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(REF, "w.12", "10000");
    session_bind(REF, "w.1", "10000");
    expect_command("* w.1 w.12", "HGET %s %s", NOTES, REF);
    expect_command("2", "HLEN %s", NOTES);
}

static void a_note_is_as_young_as_its_newest_attempt(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    command("HSET %s %s %s", NOTES, REF, "1000 w.1");
    session_bind(REF, "w.2", "10000");
    assert_true(reply_integer(session_unbind(REF, "w.1")) == 0);
    session_settle(REF, "gone");
    expect_command("17* w.2", "HGET %s %s", NOTES, REF);
}

static void another_attempt_does_not_put_off_the_watchdog(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "100");
    const char *due = reply_text(command("ZSCORE %s %s", DUE, REF));
    session_bind(REF, "w.2", "10000");
    expect_command(due, "ZSCORE %s %s", DUE, REF);
}

static void attempts_without_end_become_one(void **state)
{
    (void)state;
    session_open("30000");
    for (int i = 0; i < 200; i++)
        session_bind(REF, text("worker.%d", i), "10000");
    expect_command("15", "HSTRLEN %s %s", NOTES, REF); /* a time, a blank and a star */
    expect(session_unbind(REF, "worker.7"), "0");
    expect_command("2", "HLEN %s", NOTES);
    session_settle(REF, "renewed fair");
    for (int i = 0; i < 200; i++)
        session_bind(REF, text("worker.%d", i), "10000");
    expect_command("* +fair*", "HGET %s %s", NOTES, REF); /* the mark stays */
    expect(session_unbind(REF, NULL), "1");
    expect_empty_home();
}

/* The limit is 3. */
static void a_session_has_so_many_locks(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(OTHER_REF, "w.2", "10000"); /* two locks */
    expect(session_bind("id name", "w.3", "10000"), "[full]");
    expect(session_bind(REF, "w.4", "10000"), "host/1");
    expect(session_bind(OTHER_REF, "w.4", "10000"), "host/1");
    session_unbind(REF, NULL);
    expect(session_bind("id name", "w.3", "10000"), "host/1");
    session_unbind("id name", NULL);
    expect(session_bind("id \na\nb", "w.3", "10000"), "[full]");
    expect(session_bind("id \na", "w.3", "10000"), "host/1");
    session_unbind(OTHER_REF, NULL);
    expect(session_bind("id name", "w.3", "10000"), "host/1");
    expect(session_bind("id other", "w.3", "10000"), "host/1");
    expect(session_bind("id third", "w.3", "10000"), "[full]");
}

static void each_end_of_a_lease_counts_its_locks_off(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(OTHER_REF, "w.1", "10000");
    expect_command("1", "HGET %s %s", NOTES, ""); /* further locks */
    session_unbind(OTHER_REF, "w.1");
    expect(session_unbind(OTHER_REF, NULL), "0"); /* a repetition */
    expect_command("0", "HGET %s %s", NOTES, "");
    session_bind(OTHER_REF, "w.2", "10000");
    session_settle(OTHER_REF, "lost expired lock");
    expect_command("0", "HGET %s %s", NOTES, "");
    session_bind(OTHER_REF, "w.3", "10000");
    session_end("released", "0", NULL);
    session_unbind(OTHER_REF, "w.3");
    expect_command("0", "EXISTS %s", NOTES); /* no sentinel without a TTL */
}

/* A session that an earlier version opened, with an empty sentinel: not less than 0. */
static void a_lease_that_was_not_counted_is_not_counted_off(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(OTHER_REF, "w.1", "10000");
    command("HSET %s %s %s", NOTES, "", "");
    session_unbind(OTHER_REF, NULL);
    expect_command("", "HGET %s %s", NOTES, "");
    session_bind(OTHER_REF, "w.1", "10000");
    command("HSET %s %s 0", NOTES, "");
    session_unbind(OTHER_REF, NULL);
    expect_command("0", "HGET %s %s", NOTES, "");
}

static void nothing_is_bound_without_a_session_or_memory(void **state)
{
    (void)state;
    expect(session_bind(REF, "w.1", "10000"), "[ended, unknown]");
    session_open("30000");
    memory_is_short();
    expect(session_bind(REF, "w.1", "10000"), "error: OOM*");
    memory_is_back();
    session_overdue();
    expect(session_bind(REF, "w.1", "10000"), "[ended, expired]");
    expect_empty_home();
}

static void an_attempt_forgets_itself_only(void **state)
{
    (void)state;
    expect(session_unbind(REF, "w.1"), "0");
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(REF, "w.12", "10000");
    session_bind(REF, "w.123", "10000");
    expect(session_unbind(REF, "w.12"), "0");
    expect_command("* w.1 w.123", "HGET %s %s", NOTES, REF);
    expect(session_unbind(REF, "w.12"), "0");
    expect(session_unbind(REF, "w.1"), "0");
    expect_command("* w.123", "HGET %s %s", NOTES, REF);
    expect(session_unbind(REF, "w.123"), "1");
    expect(session_unbind(REF, "w.123"), "0");
    expect_empty_home();
}

static void unbinding_works_without_memory(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(REF, "w.2", "10000");
    memory_is_short();
    expect(session_unbind(REF, "w.1"), "0");
    expect_command("* w.2", "HGET %s %s", NOTES, REF);
    expect(session_unbind(REF, "w.2"), "1");
    memory_is_back();
}

static void only_what_is_due_is_named(void **state)
{
    (void)state;
    expect(session_due(), "[unknown]");
    session_open("30000");
    redisReply *reply = session_due();
    expect(reply, "[idle, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 25000, 30000);
    session_bind(REF, "w.1", "10000");
    reply = session_due();
    expect(reply, "[idle, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 5000, 10000);
    session_bind(OTHER_REF, "w.2", "-70");
    reply = session_due();
    expect(reply, "[open, *, [" OTHER_REF ", *], *, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 0, 5000); /* since it was opened */
    int64_t now_ms = reply_integer(reply_at(reply, 3));
    assert_in_range(now_ms, redis_now_ms() - 5000, redis_now_ms());
    int64_t late_ms = now_ms - atoll(reply_text(reply_at(reply_at(reply, 2), 1)));
    assert_in_range(late_ms, 70, 5000);
}

/* Leases of one score, as the watchdog leaves them. */
static void many_that_are_due_together_are_named_with_one_score(void **state)
{
    (void)state;
    session_open("30000");
    for (int i = 10; i < 22; i++)
        command("ZADD %s 7.5 %s", DUE, text("%d", i));
    expect(run(SCRIPT_SESSION_DUE, HOME, ARGS("11")), "[open, *, [10, 11, *, 20], *, *, 7.5]");
    command("ZADD %s 8.5 20", DUE);
    expect(run(SCRIPT_SESSION_DUE, HOME, ARGS("60")),
           "[open, *, [10, 7.5, *, 21, 7.5, 20, 8.5], *, *]");
}

static void a_session_that_is_over_is_due_until_it_is_worked_off(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_overdue();
    expect(session_due(), "[expired, expired, host/1]");
    session_end("expired", "0", NULL);
    expect(session_due(), "[expired, expired, host/1]");
    session_end("expired", "0", REF);
    expect(session_due(), "[unknown]");
}

static void a_renewed_lease_is_due_again(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    redisReply *reply = session_settle(REF, "renewed lock");
    expect(reply, "[open, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 8900, 10000);
    expect(session_due(), "[idle, *]");
}

/* The part of the time that is taken off depends on the clock, and repeats after 97 ms. */
static void a_renewed_lease_is_due_in_time_at_each_ms(void **state)
{
    const struct timespec step = {.tv_nsec = 200 * 1000};

    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    for (int i = 0; i < 500; i++) {
        redisReply *reply = session_settle(REF, "renewed lock");
        assert_in_range(reply_integer(reply_at(reply, 1)), 8900, 10000);
        nanosleep(&step, NULL);
    }
}

/* The due score of REF. */
static const char *score_of_ref(void)
{
    return reply_text(command("ZSCORE %s %s", DUE, REF));
}

static void a_renewed_lease_has_a_half_in_its_score(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    assert_null(strchr(score_of_ref(), '.'));
    session_settle(REF, "renewed lock");
    assert_string_equal(strchr(score_of_ref(), '.'), ".5");
    session_bind(REF, "w.2", "50000"); /* puts nothing off, so the mark stays known */
    assert_string_equal(strchr(score_of_ref(), '.'), ".5");
    session_settle(REF, "later 100");
    assert_null(strchr(score_of_ref(), '.'));
    expect_command("* w.1 +lock w.2", "HGET %s %s", NOTES, REF);
    session_settle(REF, "renewed lock");
    assert_string_equal(strchr(score_of_ref(), '.'), ".5");
    expect_command("* w.1 +lock w.2", "HGET %s %s", NOTES, REF);
}

static void a_marked_lease_is_due_again(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_settle(REF, "renewed lock");
    command("ZADD %s 7.5 %s", DUE, REF);
    redisReply *reply = session_due();
    expect(reply, "[open, *, [" REF ", 7.5], *, *]");
    int64_t deadline_ms = reply_integer(reply_at(reply, 4));
    assert_in_range(deadline_ms, redis_now_ms() + 25000, redis_now_ms() + 30000);
    reply = session_settle_marked(REF, deadline_ms);
    expect(reply, "[open, *]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 8900, 10000);
    assert_string_equal(strchr(score_of_ref(), '.'), ".5");
    session_unbind(REF, NULL);
    reply = session_settle_marked(REF,
                                  redis_now_ms() + 5000); /* the lease has ended meanwhile */
    assert_in_range(reply_integer(reply_at(reply, 1)), 1, 5000);
    expect_empty_home();
}

/* The next visit finds the lease due, also where its score ends in a half. */
static void a_session_is_not_visited_too_early(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    int64_t at_ms = redis_now_ms() + 5;
    command("ZADD %s %s %s", DUE, text("%lld.5", (long long)at_ms), REF);
    while (redis_now_ms() <= at_ms)
        assert_true(reply_integer(reply_at(session_due(), 1)) > 0);
}

static void a_lease_is_looked_at_later(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    redisReply *reply = session_settle(REF, "later 2500");
    assert_in_range(reply_integer(reply_at(reply, 1)), 2400, 2500);
    reply = session_settle(REF, "later 2500000");
    assert_in_range(reply_integer(reply_at(reply, 1)), 25000, 30000);
}

/* A renewal by a request while the visit was under way: the watchdog renews the lease from then
 * on, and the visit knows of an end in an hour. */
static void a_visit_puts_off_nothing_that_is_due_later(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_settle(REF, "renewed lock");
    const char *score = score_of_ref();
    run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
        ARGS("60000", "20000", "9", "", "0", REF, "later 3600000"));
    assert_string_equal(score_of_ref(), score);
    command("ZADD %s 7 %s", DUE, REF);
    run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
        ARGS("60000", "20000", "9", "", "0", REF, "later 3600000"));
    assert_true(atof(score_of_ref()) > (double)redis_now_ms() + 3000000);
}

static void a_lease_that_is_gone_keeps_its_note_for_a_while(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    redisReply *reply = session_settle(REF, "gone");
    assert_in_range(reply_integer(reply_at(reply, 1)), 900, 1000);
    expect_command("2", "HLEN %s", NOTES);
    command("HSET %s %s %s", NOTES, REF, text("%lld w.1", (long long)redis_now_ms() - 10001));
    expect(session_settle(REF, "gone"), "[open, *]");
    expect_empty_home();
}

static void a_lease_that_was_renewed_and_vanished_is_lost(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    expect(session_settle(REF, "vanished"), "[open, *]"); /* perhaps it never held */
    expect_command("0", "EXISTS %s", LOST);
    session_settle(REF, "renewed permit");
    session_settle(REF, "renewed permit");
    session_bind(REF, "w.2", "0"); /* its request comes again */
    expect(session_settle(REF, "vanished"), "[open, *, [" REF ", unknown, permit]]");
    expect_command("unknown\npermit", "HGET %s %s", LOST, REF);
    expect_command("* w.1 w.2", "HGET %s %s", NOTES, REF); /* it may be under way */
    session_unbind(REF, NULL);
    command("HSET %s %s %s", NOTES, REF, "1000 w.1 +lock");
    session_settle(REF, "vanished");
    expect_command("1", "HLEN %s", NOTES);
}

/* The front end of the visit may have stood still between the locks' homes and this one. */
static void a_note_that_is_newer_than_the_visit_stays(void **state)
{
    (void)state;
    session_open("30000");
    int64_t bound_ms = redis_now_ms() - 20000;
    command("HSET %s %s %s", NOTES, REF, text("%lld w.1", (long long)bound_ms));
    session_settle_seen(bound_ms - 1, REF, "gone");
    expect_command("* w.1", "HGET %s %s", NOTES, REF);
    command("HSET %s %s %s", NOTES, REF, text("%lld w.1 +lock", (long long)bound_ms));
    session_settle_seen(bound_ms - 1, REF, "vanished");
    expect_command("* w.1 +lock", "HGET %s %s", NOTES, REF);
    expect_command("0", "EXISTS %s", LOST);
    session_settle_seen(bound_ms + 15000, REF, "vanished");
    expect_command("unknown\nlock", "HGET %s %s", LOST, REF);
    expect_command("1", "HLEN %s", NOTES);
}

/* Its record has ended, and says no more than that. */
static void a_loss_that_was_found_before_has_the_kind_of_the_mark(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_settle(REF, "renewed permit");
    session_settle(REF, "lost expired lock");
    expect_command("expired\npermit", "HGET %s %s", LOST, REF);
}

static void attempts_of_a_renewed_lease_are_forgotten(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_settle(REF, "renewed lock");
    session_bind(REF, "w.2", "0");
    expect(session_unbind(REF, "w.1"), "0");
    expect(session_unbind(REF, "w.2"), "1");
    expect_empty_home();
}

static void a_loss_is_told_once(void **state)
{
    (void)state;
    listen_to("rlockd:sessions");
    session_open("30000");
    session_bind(REF, "w.1", "0");
    expect(session_settle(REF, "lost forced fair"), "[open, *, [" REF ", forced, fair]]");
    expect_command("[" REF ", forced\nfair]", "HGETALL %s", LOST);
    expect_lasts(LOST, 90000);
    assert_string_equal(next_message(), "rlockd:sessions " SID);
    expect_empty_home();
    command("HDEL %s %s", LOST, REF);
    session_settle(REF, "lost forced fair");
    expect_command("0", "EXISTS %s", LOST);
    assert_null(next_message());
}

static void losses_that_nobody_hears_of_have_an_end(void **state)
{
    (void)state;
    session_open("30000");
    command("EVAL %s 1 %s",
            "for i = 1, 999 do redis.call('hset', KEYS[1], i, 'expired\\nlock') end", LOST);
    session_bind(REF, "w.1", "0");
    session_bind(OTHER_REF, "w.1", "0");
    session_settle(REF, "lost expired lock");
    session_settle(OTHER_REF, "lost expired lock");
    expect_command("1000", "HLEN %s", LOST);
    expect_empty_home();
}

static void what_has_no_note_is_not_due(void **state)
{
    (void)state;
    session_open("30000");
    command("ZADD %s 1 %s", DUE, REF);
    expect(session_settle(REF, "renewed lock"), "[open, *]");
    expect_empty_home();
}

static void a_note_of_other_hands_is_forgotten(void **state)
{
    (void)state;
    session_open("30000");
    command("HSET %s nonsense nonsense", NOTES);
    expect(session_unbind("nonsense", "w.1"), "0");
    expect(session_settle("nonsense", "gone"), "[open, *]");
    expect_empty_home();
}

static void many_are_settled_at_once(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_bind(OTHER_REF, "w.1", "0");
    session_bind("id name", "w.1", "0");
    session_settle("id name", "renewed lock");
    command("ZADD %s 7.5 %s", DUE, "id name");
    expect(run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS("60000", "20000", "9", "", "1", "id name", REF, "later 77", OTHER_REF,
                    "lost expired lock")),
           "[open, *]");
    expect_command("[" OTHER_REF "]", "HKEYS %s", LOST);
    expect_lasts(LOST, 90000); /* by the session's own deadline */
    expect_command("[" REF ", id name, ]", "ZRANGE %s 0 -1", DUE);
}

/* As many as one script of the watchdog renews. */
static void all_of_many_marked_leases_are_due_again(void **state)
{
    enum { MANY = 16 };
    const char *refs[MANY];

    (void)state;
    session_open("30000");
    for (int i = 0; i < MANY; i++) {
        refs[i] = text("id name-%d", i);
        command("HSET %s %s %s", NOTES, refs[i], "1 w.1 +lock");
        command("ZADD %s 7.5 %s", DUE, refs[i]);
    }
    redisReply *reply = run(
        SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
        ARGS("60000", "10000", text("%lld", (long long)redis_now_ms() + 20000), "", "16",
             refs[0], refs[1], refs[2], refs[3], refs[4], refs[5], refs[6], refs[7], refs[8],
             refs[9], refs[10], refs[11], refs[12], refs[13], refs[14], refs[15]));
    assert_in_range(reply_integer(reply_at(reply, 1)), 8900, 10000);
    for (int i = 0; i < MANY; i++)
        assert_in_range(atoll(reply_text(command("ZSCORE %s %s", DUE, refs[i]))),
                        redis_now_ms() + 5000, redis_now_ms() + 10000);
}

static void settling_works_without_memory(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "0");
    session_bind(OTHER_REF, "w.1", "0");
    memory_is_short();
    expect(session_settle(REF, "renewed lock"), "[open, *]");
    expect(session_settle_marked(REF, redis_now_ms() + 5000), "[open, *]");
    expect(session_settle(REF, "later 77"), "[open, *]");
    expect(session_settle(REF, "gone"), "[open, *]");
    expect(session_settle(REF, "lost expired lock"), "[open, *]");
    memory_is_back();
    expect_command("1", "HLEN %s", LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_lease_is_noted_before_it_is_asked_for),
        SCRIPT_TEST(attempts_are_noted_beside_each_other),
        SCRIPT_TEST(a_note_is_as_young_as_its_newest_attempt),
        SCRIPT_TEST(another_attempt_does_not_put_off_the_watchdog),
        SCRIPT_TEST(attempts_without_end_become_one),
        SCRIPT_TEST(a_session_has_so_many_locks),
        SCRIPT_TEST(each_end_of_a_lease_counts_its_locks_off),
        SCRIPT_TEST(a_lease_that_was_not_counted_is_not_counted_off),
        SCRIPT_TEST(an_attempt_forgets_itself_only),
        SCRIPT_TEST(only_what_is_due_is_named),
        SCRIPT_TEST(many_that_are_due_together_are_named_with_one_score),
        SCRIPT_TEST(a_session_that_is_over_is_due_until_it_is_worked_off),
        SCRIPT_TEST(a_renewed_lease_is_due_again),
        SCRIPT_TEST(a_renewed_lease_is_due_in_time_at_each_ms),
        SCRIPT_TEST(a_renewed_lease_has_a_half_in_its_score),
        SCRIPT_TEST(a_marked_lease_is_due_again),
        SCRIPT_TEST(a_session_is_not_visited_too_early),
        SCRIPT_TEST(a_lease_is_looked_at_later),
        SCRIPT_TEST(a_visit_puts_off_nothing_that_is_due_later),
        SCRIPT_TEST(a_lease_that_is_gone_keeps_its_note_for_a_while),
        SCRIPT_TEST(a_lease_that_was_renewed_and_vanished_is_lost),
        SCRIPT_TEST(a_note_that_is_newer_than_the_visit_stays),
        SCRIPT_TEST(a_loss_that_was_found_before_has_the_kind_of_the_mark),
        SCRIPT_TEST(attempts_of_a_renewed_lease_are_forgotten),
        SCRIPT_TEST(a_loss_is_told_once),
        SCRIPT_TEST(losses_that_nobody_hears_of_have_an_end),
        SCRIPT_TEST(what_has_no_note_is_not_due),
        SCRIPT_TEST(a_note_of_other_hands_is_forgotten),
        SCRIPT_TEST(many_are_settled_at_once),
        SCRIPT_TEST(all_of_many_marked_leases_are_due_again),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(nothing_is_bound_without_a_session_or_memory),
        SCRIPT_TEST(unbinding_works_without_memory),
        SCRIPT_TEST(settling_works_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
