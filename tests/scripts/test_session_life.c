/* A session from its opening to its end: session_open, session_keep_alive, session_get,
 * session_brief and session_end. */
#include "session_home.h"

#include <string.h>

static void opens_once(void **state)
{
    (void)state;
    expect(session_open("30000"), "[opened, 30000]");
    expect(session_open("30000"), "[open, *]");
    expect_command("[open, 30000, host/1, 0]", "HMGET %s state ttl name released", SESSION);
    expect_lasts(SESSION, 90000);
    expect_lasts(NOTES, 90000);
    expect_lasts(DUE, 90000);
    expect_command("3", "DBSIZE");
}

static void other_words_are_a_reused_token(void **state)
{
    (void)state;
    session_open("30000");
    expect(session_open("20000"), "[reused]");
    expect(run(SCRIPT_SESSION_OPEN, HOME, ARGS("30000", "host/2", "60000")), "[reused]");
}

static void a_token_of_the_servers_own_opens_once_only(void **state)
{
    (void)state;
    expect(run(SCRIPT_SESSION_OPEN, HOME, ARGS("30000", "host/1", "60000", "1")),
           "[ended, unknown]");
    session_open("30000");
    expect(run(SCRIPT_SESSION_OPEN, HOME, ARGS("30000", "host/1", "60000", "1")), "[open, *]");
}

static void does_not_open_after_its_end(void **state)
{
    (void)state;
    session_open("30000");
    session_overdue();
    expect(session_open("30000"), "[ended, expired]");
    session_end("expired", "0", NULL);
    expect(session_open("30000"), "[ended, expired]");
}

static void is_not_opened_without_memory(void **state)
{
    (void)state;
    memory_is_short();
    expect(session_open("30000"), "error: OOM*");
    memory_is_back();
    expect_command("0", "DBSIZE");
}

static void a_keep_alive_prolongs_all_keys(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_settle(REF, "lost expired lock");
    session_bind(OTHER_REF, "w.2", "10000");
    const char *const keys[] = {SESSION, NOTES, DUE, LOST};
    for (int i = 0; i < 4; i++)
        command("PEXPIRE %s 9000", keys[i]);
    expect(session_keep_alive("0"), "[open, 30000, 30000, *, host/1, *, [0, [, 1, " OTHER_REF
                                    ", * w.2]], [0, [" REF ", expired\nlock]]]");
    for (int i = 0; i < 4; i++)
        expect_lasts(keys[i], 90000);
}

static void an_old_keep_alive_takes_nothing_back(void **state)
{
    (void)state;
    session_open("30000");
    session_keep_alive("0");
    redisReply *reply = session_keep_alive("20000");
    assert_in_range(reply_integer(reply_at(reply, 1)), 25000, 30000);
}

static void a_keep_alive_does_not_wait_longer_than_half_of_the_ttl(void **state)
{
    (void)state;
    session_open("29999");
    expect(session_keep_alive("0"), "[wait-too-long, 29999]");
}

static void a_keep_alive_comes_too_late(void **state)
{
    (void)state;
    expect(session_keep_alive("0"), "[ended, unknown]");
    session_open("30000");
    session_overdue();
    expect(session_keep_alive("0"), "[ended, expired]");
    expect_command("[*]", "KEYS *");
}

static void a_keep_alive_works_without_memory(void **state)
{
    (void)state;
    session_open("30000");
    memory_is_short();
    expect(session_keep_alive("0"), "[open, 30000, *");
    memory_is_back();
}

static void a_look_changes_nothing(void **state)
{
    (void)state;
    expect(run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS), "[ended, unknown]");
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS), "[]");
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    const char *deadline = reply_text(command("HGET %s deadline", SESSION));
    expect(run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS),
           "[open, *, 30000, *, host/1, *, [0, [, , " REF ", * w.1]], [0, []]]");
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS),
           "[*, 30000, *, host/1, 1]");
    expect_command(deadline, "HGET %s deadline", SESSION);
}

static void many_notes_come_in_pages(void **state)
{
    enum { MANY = 1000, PAGE_MAX = 250 };
    const char *cursor = "0";
    size_t pairs = 0;

    (void)state;
    session_open("30000");
    for (int i = 0; i < MANY; i++)
        command("HSET %s %s 7", NOTES, text("%08x-0000-5000-8000-000000000000~%0100d", i, i));
    redisReply *look = run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS);
    redisReply *first = reply_at(look, 6);
    assert_string_not_equal(reply_text(reply_at(first, 0)), "0");
    do {
        redisReply *page = run(SCRIPT_SESSION_PAGE, KEYS(NOTES), ARGS(cursor));
        assert_in_range(reply_at(page, 1)->elements, 0, 2 * PAGE_MAX);
        pairs += reply_at(page, 1)->elements / 2;
        cursor = reply_text(reply_at(page, 0));
    } while (strcmp(cursor, "0") != 0);
    assert_in_range(pairs, MANY + 1, MANY + MANY / 10); /* the sentinel; and what comes twice */
}

static void an_end_names_the_leases_until_none_is_left(void **state)
{
    (void)state;
    listen_to("rlockd:sessions");
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(OTHER_REF, "w.2", "10000");
    redisReply *first = session_end("released", "0", NULL);
    expect(first, "[released, 0, [*]]");
    assert_string_equal(next_message(), "rlockd:sessions " SID);
    redisReply *second = session_end("released", "1",
                                     reply_text(reply_at(reply_at(first, 2), 0)));
    expect(second, "[released, 1, [*]]");
    expect(session_end("released", "1", reply_text(reply_at(reply_at(second, 2), 0))),
           "[released, 2, []]");
    assert_null(next_message());
    expect(session_end("released", "0", NULL), "[released, 2, []]");
    expect_command("[" SESSION "]", "KEYS *");
    expect_lasts(SESSION, 60000);
}

static void nothing_is_bound_or_settled_after_the_end(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_end("released", "0", NULL);
    expect(session_bind(OTHER_REF, "w.2", "10000"), "[ended, released]");
    expect(session_settle(REF, "renewed lock"), "[ended, released]");
    expect(session_keep_alive("0"), "[ended, released]");
    expect(run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS), "[ended, released]");
    expect_command("1", "HLEN %s", NOTES);
}

static void an_end_counts_each_lease_once(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_bind(OTHER_REF, "w.2", "10000");
    session_end("released", "0", NULL);
    expect(session_end("released", "1", REF), "[released, 1, [" OTHER_REF "]]");
    expect(session_end("released", "1", REF), "[released, 1, [" OTHER_REF "]]");
    expect(session_end("released", "0", OTHER_REF), "[released, 1, []]");
}

static void an_end_stands(void **state)
{
    (void)state;
    expect(session_end("released", "0", NULL), "[ended, unknown]");
    session_open("30000");
    session_overdue();
    expect(session_end("released", "0", NULL), "[ended, expired]");
    expect(session_end("expired", "0", NULL), "[released, 0, []]");
    expect(session_end("released", "0", NULL), "[ended, expired]");
    expect_command("1", "EXISTS %s", SESSION);
}

static void the_watchdog_works_off_what_a_client_has_ended(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    session_end("released", "0", NULL);
    expect(session_end("expired", "0", NULL), "[released, 0, [" REF "]]");
    expect(session_end("expired", "1", REF), "[released, 1, []]");
    expect_command("released", "HGET %s reason", SESSION);
}

static void the_watchdog_ends_no_session_that_lives(void **state)
{
    (void)state;
    session_open("30000");
    expect(session_end("expired", "0", NULL), "[open, *]");
    expect_command("open", "HGET %s state", SESSION);
}

static void an_end_works_without_memory(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(REF, "w.1", "10000");
    memory_is_short();
    expect(session_end("released", "0", NULL), "[released, 0, [" REF "]]");
    expect(session_end("released", "1", REF), "[released, 1, []]");
    memory_is_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(opens_once),
        SCRIPT_TEST(other_words_are_a_reused_token),
        SCRIPT_TEST(a_token_of_the_servers_own_opens_once_only),
        SCRIPT_TEST(does_not_open_after_its_end),
        SCRIPT_TEST(a_keep_alive_prolongs_all_keys),
        SCRIPT_TEST(an_old_keep_alive_takes_nothing_back),
        SCRIPT_TEST(a_keep_alive_does_not_wait_longer_than_half_of_the_ttl),
        SCRIPT_TEST(a_keep_alive_comes_too_late),
        SCRIPT_TEST(a_look_changes_nothing),
        SCRIPT_TEST(many_notes_come_in_pages),
        SCRIPT_TEST(an_end_names_the_leases_until_none_is_left),
        SCRIPT_TEST(nothing_is_bound_or_settled_after_the_end),
        SCRIPT_TEST(an_end_counts_each_lease_once),
        SCRIPT_TEST(an_end_stands),
        SCRIPT_TEST(the_watchdog_works_off_what_a_client_has_ended),
        SCRIPT_TEST(the_watchdog_ends_no_session_that_lives),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(is_not_opened_without_memory),
        SCRIPT_TEST(a_keep_alive_works_without_memory),
        SCRIPT_TEST(an_end_works_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
