/* Which session or queue is to be visited, and by whom: index_set, index_claim, session_idle.
 */
#include <inttypes.h>

#include "session_home.h"

#define INDEX "rlockd:sessions:{6}"

static redisReply *set(const char *session_id, const char *in_ms, const char *claim)
{
    return run(SCRIPT_INDEX_SET, KEYS(INDEX), ARGS(session_id, in_ms, claim));
}

static redisReply *claim(const char *limit)
{
    return run(SCRIPT_INDEX_CLAIM, KEYS(INDEX), ARGS(limit, "5000"));
}

static int64_t visit_in_ms(const char *session_id)
{
    return reply_integer(command("ZSCORE %s %s", INDEX, session_id)) - redis_now_ms();
}

static void a_session_is_visited_in_time(void **state)
{
    (void)state;
    expect(set(SID, "30000", NULL), "30000");
    assert_in_range(visit_in_ms(SID), 25000, 30000);
    expect(claim("10"), "[*, [], [*]]");
    assert_true(reply_integer(command("PTTL %s", INDEX)) > 86400000);
}

static void a_visit_only_comes_earlier(void **state)
{
    (void)state;
    set(SID, "30000", NULL);
    assert_in_range(reply_integer(set(SID, "40000", NULL)), 25000, 29999);
    expect(set(SID, "20000", NULL), "20000");
    assert_in_range(visit_in_ms(SID), 15000, 20000);
}

static void one_front_end_claims_a_session(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    expect(claim("10"), "[*, [" SID "], [*]]");
    expect(claim("10"), "[*, [], [*]]");
    assert_in_range(visit_in_ms(SID), 1, 5000);
}

static void no_more_is_claimed_than_asked_for(void **state)
{
    (void)state;
    set("a", "-3", NULL);
    set("b", "-2", NULL);
    set("c", "-1", NULL);
    expect(claim("2"), "[*, [a, b], [0]]");
    expect(claim("2"), "[*, [c], [*]]");
}

static redisReply *claim_of_three(const char *limit)
{
    return run(SCRIPT_INDEX_CLAIM, KEYS("{6}:a", "{6}:b", INDEX), ARGS(limit, "5000"));
}

static void one_call_claims_in_several_partitions(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    command("ZADD {6}:b 7 later");
    command("ZADD {6}:b 6 sooner");
    expect(claim_of_three("2"), "[*, [sooner, later], [-1, *, 0]]");
    expect(claim_of_three("2"), "[*, [" SID "], [-1, *, *]]");
    command("ZADD {6}:b 6 sooner");
    command("ZADD {6}:b 7 later");
    expect(claim_of_three("1"), "[*, [sooner], [-1, 0, 0]]");
    assert_in_range(visit_in_ms(SID), 1, 5000);
}

static void another_type_of_key_disturbs_no_other_partition(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    command("SET {6}:a other");
    expect(claim_of_three("8"), "[*, [" SID "], [-1, -1, *]]");
    expect_command("other", "GET {6}:a");
}

static void a_visitor_sets_the_next_visit(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    expect(set(SID, "10000", claimed), "1");
    assert_in_range(visit_in_ms(SID), 6000, 10000);
    expect(set(SID, "", claimed), "0");
    expect_command("1", "ZCARD %s", INDEX);
}

static void what_came_after_the_claim_stays(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    expect(set(SID, "300", NULL), "300");
    expect(set(SID, "10000", claimed), "0");
    expect(set(SID, "", claimed), "0");
    assert_true(visit_in_ms(SID) <= 300);
}

static void a_claim_ends_with_any_call_that_came_after_it(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    assert_in_range(reply_integer(set(SID, "30000", NULL)), 1, 5000);
    expect(set(SID, "", claimed), "0");
    assert_in_range(visit_in_ms(SID), 1, 5000);
}

static void a_session_that_the_index_has_lost_comes_back(void **state)
{
    (void)state;
    expect(set(SID, "30000", "-"), "1");
    expect(set(SID, "10000", "-"), "0");
    assert_in_range(visit_in_ms(SID), 25000, 30000);
    set(SID, "-1", NULL);
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    expect(set(SID, "10000", "-"), "0");
    expect(set(SID, "10000", claimed), "1"); /* the claim is as good as before */
}

static void a_session_leaves_the_index(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    expect(set(SID, "", claimed), "1");
    set(SID, "1000", NULL);
    expect(set(SID, "", NULL), "1");
    expect(set(SID, "", NULL), "0");
    expect_command("0", "DBSIZE");
}

static void visits_go_on_without_memory(void **state)
{
    (void)state;
    set(SID, "-1", NULL);
    memory_is_short();
    const char *claimed = reply_text(reply_at(claim("10"), 0));
    expect(set(SID, "10000", claimed), "1");
    expect(set(SID, "9000", NULL), "9000");
    expect(set(SID, "", NULL), "1");
    memory_is_back();
}

/* --- several sessions at once ------------------------------------------------------------- */

#define OTHER_SID "6c1f0a3e-54d5-5c37-9a53-1d2f0e6f7a02"
#define OTHER_SESSION "rlockd:session:{" OTHER_SID "}"
#define OTHER_DUE "rlockd:session-due:{" OTHER_SID "}"

/* Two sessions that are due, the first one open, and the claim. */
static const char *two_are_claimed(const char *ttl_ms)
{
    session_open(ttl_ms);
    set(SID, "-2", NULL);
    set(OTHER_SID, "-1", NULL);
    return reply_text(reply_at(claim("10"), 0));
}

static redisReply *visit_both(const char *claim)
{
    return run(SCRIPT_SESSION_IDLE, KEYS(INDEX, SESSION, DUE, OTHER_SESSION, OTHER_DUE),
               ARGS(claim, "20000", SID, OTHER_SID));
}

static void an_idle_session_is_visited_later(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    command("COPY %s %s", SESSION, OTHER_SESSION);
    command("COPY %s %s", DUE, OTHER_DUE);
    expect(visit_both(claimed), "20000");
    assert_in_range(visit_in_ms(SID), 15000, 20000);
    assert_in_range(visit_in_ms(OTHER_SID), 15000, 20000);
    assert_true(reply_integer(command("PTTL %s", INDEX)) > 86400000);
}

static void a_session_with_more_to_do_is_named(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    expect(visit_both(claimed), "[*, [1]]"); /* there is no such session */
    session_bind(REF, "w.1", "-1");
    claimed = two_are_claimed("30000");
    expect(visit_both(claimed), "[*, [0, 1]]");
    assert_in_range(visit_in_ms(SID), 1, 5000); /* the claim is as good as before */
    session_end("released", "0", NULL);
    expect(visit_both(claimed), "[*, [0, 1]]");
}

static void a_session_that_is_over_is_named(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    session_overdue();
    expect(visit_both(claimed), "[*, [0, 1]]");
    assert_in_range(visit_in_ms(SID), 1, 5000);
}

static void the_next_visit_is_when_something_is_due(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("12000");
    expect(visit_both(claimed), "[*, [1]]");
    assert_in_range(visit_in_ms(SID), 8000, 12000);
    session_bind(REF, "w.1", "7000");
    claimed = two_are_claimed("12000");
    redisReply *reply = visit_both(claimed);
    expect(reply, "[*, [1]]");
    assert_in_range(reply_integer(reply_at(reply, 0)), 4000, 7000);
    assert_in_range(visit_in_ms(SID), 4000, 7000);
    command("ZADD %s %" PRId64 ".5 '%s'", DUE, redis_now_ms() + 3000, "renewed");
    claimed = two_are_claimed("12000");
    expect(visit_both(claimed), "[*, [1]]");
    assert_in_range(visit_in_ms(SID), 1000, 3001);
}

static void a_void_claim_puts_no_session_off(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    set(SID, "300", NULL);
    expect(visit_both(claimed), "[*, [1]]");
    assert_true(visit_in_ms(SID) <= 300);
    command("ZREM %s %s", INDEX, SID);
    expect(visit_both(claimed), "[*, [1]]");
    expect_command("nil", "ZSCORE %s %s", INDEX, SID);
}

static void other_types_of_keys_disturb_no_session(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    command("SET %s other", OTHER_SESSION);
    expect(visit_both(claimed), "[*, [1]]");
    assert_in_range(visit_in_ms(SID), 15000, 20000);
    command("DEL %s %s", OTHER_SESSION, DUE);
    command("COPY %s %s", SESSION, OTHER_SESSION);
    command("SET %s other", DUE);
    claimed = two_are_claimed("30000");
    expect(visit_both(claimed), "[*, [0]]");
    assert_in_range(visit_in_ms(OTHER_SID), 15000, 20000);
}

static void idle_sessions_are_visited_without_memory(void **state)
{
    (void)state;
    const char *claimed = two_are_claimed("30000");
    memory_is_short();
    expect(visit_both(claimed), "[*, [1]]");
    assert_in_range(visit_in_ms(SID), 15000, 20000);
    memory_is_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_session_is_visited_in_time),
        SCRIPT_TEST(a_visit_only_comes_earlier),
        SCRIPT_TEST(a_session_that_the_index_has_lost_comes_back),
        SCRIPT_TEST(one_front_end_claims_a_session),
        SCRIPT_TEST(no_more_is_claimed_than_asked_for),
        SCRIPT_TEST(one_call_claims_in_several_partitions),
        SCRIPT_TEST(another_type_of_key_disturbs_no_other_partition),
        SCRIPT_TEST(a_visitor_sets_the_next_visit),
        SCRIPT_TEST(what_came_after_the_claim_stays),
        SCRIPT_TEST(a_claim_ends_with_any_call_that_came_after_it),
        SCRIPT_TEST(a_session_leaves_the_index),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(visits_go_on_without_memory),
        SCRIPT_TEST(idle_sessions_are_visited_without_memory),
    };
    /* Where all sessions are in one place. */
    const struct CMUnitTest idle_tests[] = {
        SCRIPT_TEST(an_idle_session_is_visited_later),
        SCRIPT_TEST(a_session_with_more_to_do_is_named),
        SCRIPT_TEST(a_session_that_is_over_is_named),
        SCRIPT_TEST(the_next_visit_is_when_something_is_due),
        SCRIPT_TEST(a_void_claim_puts_no_session_off),
        SCRIPT_TEST(other_types_of_keys_disturb_no_session),
    };

    return run_on_both(tests, memory_tests) +
           cmocka_run_group_tests_name("several sessions", idle_tests, redis_set_up,
                                       redis_tear_down);
}
