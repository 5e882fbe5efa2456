/* The notes of a session's long waits: session_wait and session_waits. */
#include <string.h>

#include "session_home.h"

#define WAITS "rlockd:session-waits:{" SID "}"
#define LIFE "20000"

/* The limit is 2. */
static redisReply *wait_note(const char *wait_id, const char *waited_ms, const char *owner,
                             const char *ref, const char *question)
{
    return run(SCRIPT_SESSION_WAIT, KEYS(SESSION, WAITS),
               ARGS(wait_id, waited_ms, LIFE, "2", owner, "a note", ref, question));
}

static void a_long_wait_is_noted(void **state)
{
    (void)state;
    session_open("30000");
    expect(wait_note("w.1", "1000", "worker-3", REF, NULL), "[noted, 17*, ]");
    expect_command("*\n*\n\nworker-3\na note\n" REF, "HGET %s w.1", WAITS);
    expect_lasts(WAITS, 20000);
}

static void a_wait_keeps_the_time_of_its_begin(void **state)
{
    (void)state;
    session_open("30000");
    wait_note("w.1", "9000000", "", REF, NULL);
    const char *before = reply_text(command("HGET %s w.1", WAITS));
    wait_note("w.1", "1", "", REF, NULL);
    const char *after = reply_text(command("HGET %s w.1", WAITS));
    assert_string_equal(strchr(before, '\n'), strchr(after, '\n'));
}

static void questions_are_answered_the_last_one_first(void **state)
{
    (void)state;
    session_open("30000");
    wait_note("w.1", "1000", "", REF, "q.1");
    wait_note("w.1", "1000", "", REF, NULL);
    wait_note("w.1", "1000", "", REF, "q.2");
    expect_command("*\n*\nq.2 q.1 \n\na note\n*", "HGET %s w.1", WAITS);
    for (int i = 0; i < 100; i++)
        wait_note("w.1", "1000", "", REF, text("worker.%d", i));
    assert_in_range(reply_integer(command("HSTRLEN %s w.1", WAITS)), 200, 400);
}

static void a_session_has_so_many_notes(void **state)
{
    (void)state;
    session_open("30000");
    wait_note("w.1", "1000", "", REF, NULL);
    wait_note("w.2", "1000", "", OTHER_REF, NULL);
    expect(wait_note("w.3", "1000", "", REF, NULL), "[full]");
    expect(wait_note("w.2", "1000", "", OTHER_REF, NULL), "[noted, *, ]");
    command("HSET %s w.1 %s", WAITS, "1000\n900\n\n\n\n" REF); /* it has ended */
    expect(wait_note("w.3", "1000", "", REF, NULL), "[noted, *, ]");
    expect_command("0", "HEXISTS %s w.1", WAITS);
}

static void what_is_no_note_gives_way(void **state)
{
    (void)state;
    session_open("30000");
    command("HSET %s a b c d", WAITS);
    expect(wait_note("w.1", "1000", "", REF, NULL), "[noted, *, ]");
    expect_command("[w.1]", "HKEYS %s", WAITS);
}

static void a_session_that_has_ended_notes_nothing(void **state)
{
    (void)state;
    expect(wait_note("w.1", "1000", "", REF, NULL), "[ended]");
    session_open("30000");
    session_overdue();
    expect(wait_note("w.1", "1000", "", REF, NULL), "[ended]");
    expect_command("0", "EXISTS %s", WAITS);
}

/* --- reading ------------------------------------------------------------------------------ */

static redisReply *waits_read(const char *owner, const char *question)
{
    return run(SCRIPT_SESSION_WAITS, KEYS(SESSION, WAITS), ARGS(owner, "2", question));
}

static void the_waits_of_one_owner_are_read(void **state)
{
    (void)state;
    session_open("30000");
    expect(waits_read("", NULL), "[waits, host/1, []]");
    wait_note("w.1", "1000", "", REF, "q.1");
    wait_note("w.2", "1000", "me", OTHER_REF, NULL);
    expect(waits_read("", NULL), "[waits, host/1, [w.1, 17*, , q.1 , a note, " REF "]]");
    expect(waits_read("me", NULL), "[waits, host/1, [w.2, 17*, me, , a note, " OTHER_REF "]]");
    expect(waits_read("you", NULL), "[waits, host/1, []]");
}

static void a_look_at_the_session_reads_all_waits(void **state)
{
    (void)state;
    session_open("30000");
    wait_note("w.1", "1000", "me", REF, NULL);
    command("HSET %s w.2 %s", WAITS, "1000\n900\n\n\n\n" REF); /* it has ended */
    redisReply *look = run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST, WAITS), ARGS("9"));
    expect(look, "[open, *, 30000, *, host/1, *, [0, [, ]], [0, []], , "
                 "[w.1, 17*, me, , a note, " REF "]]");
    look = run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST, WAITS), NO_ARGS);
    expect(look, "[open, *, 30000, *, host/1, *, [0, [, ]], [0, []]]");
}

static void a_note_that_has_ended_is_not_read(void **state)
{
    (void)state;
    session_open("30000");
    wait_note("w.1", "1000", "", REF, NULL);
    command("HSET %s w.1 %s", WAITS, "1000\n900\n\n\n\n" REF);
    command("HSET %s w.2 nonsense", WAITS);
    expect(waits_read("", NULL), "[waits, host/1, []]");
    session_overdue();
    expect(waits_read("", NULL), "[ended]");
}

static void a_question_is_published_for_waits_only(void **state)
{
    (void)state;
    session_open("30000");
    listen_to("rlockd:sessions");
    waits_read("", "q.1");
    assert_null(next_message());
    wait_note("w.1", "1000", "", REF, NULL);
    waits_read("", "q.2");
    assert_string_equal(next_message(), "rlockd:sessions " SID " q.2");
    waits_read("", NULL);
    assert_null(next_message());
}

static void a_session_says_what_it_does_in_a_deadlock(void **state)
{
    (void)state;
    const char *const *refuses = ARGS("30000", "host/1", "60000", "", "refuse");
    expect(run(SCRIPT_SESSION_OPEN, HOME, refuses), "[opened, 30000]");
    expect(run(SCRIPT_SESSION_OPEN, HOME, refuses), "[open, *]");
    expect(session_open("30000"), "[reused]");
    expect(wait_note("w.1", "1000", "", REF, NULL), "[noted, *, refuse]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_long_wait_is_noted),
        SCRIPT_TEST(a_wait_keeps_the_time_of_its_begin),
        SCRIPT_TEST(questions_are_answered_the_last_one_first),
        SCRIPT_TEST(a_session_has_so_many_notes),
        SCRIPT_TEST(what_is_no_note_gives_way),
        SCRIPT_TEST(a_session_that_has_ended_notes_nothing),
        SCRIPT_TEST(the_waits_of_one_owner_are_read),
        SCRIPT_TEST(a_look_at_the_session_reads_all_waits),
        SCRIPT_TEST(a_note_that_has_ended_is_not_read),
        SCRIPT_TEST(a_question_is_published_for_waits_only),
        SCRIPT_TEST(a_session_says_what_it_does_in_a_deadlock),
    };

    return cmocka_run_group_tests_name("one server", tests, redis_set_up, redis_tear_down) +
           cmocka_run_group_tests_name("cluster", tests, redis_set_up_cluster, redis_tear_down);
}
