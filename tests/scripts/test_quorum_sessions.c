/* The scripts of a node for sessions, and the visits of the watchdog. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_home.h"

#define A_REF A " jobs"
#define BIND(ref) session_bind(ref, "w.1", "10000")

/* A vote for lease A of the session. */
#define VOTE() vote(.id = A, .session = SID, .token = 5)

/* --- votes of a session's leases ---------------------------------------------------------- */

static void vote_needs_a_note_in_an_open_session(void **state)
{
    (void)state;
    expect(VOTE(), "[unbound, unknown]");
    session_open("30000");
    expect(VOTE(), "[unbound, full]"); /* the bind was refused, for the session has its limit */
    BIND(A_REF);
    expect_node(VOTE(), "5");
    session_overdue();
    expect(VOTE(), "[unbound, expired]");
    session_end("released", "0", NULL);
    expect(VOTE(), "[unbound, expired]");
}

static void set_needs_a_note_with_all_its_locks(void **state)
{
    (void)state;
    session_open("30000");
    BIND(A " \n" P1);
    expect(vote_set(.id = A, .session = SID, .token = 5), "[unbound, full]");
    BIND(A " \n" P1 "\n" P2);
    expect_node(vote_set(.id = A, .session = SID, .token = 5), "5");
}

static void repair_needs_the_note_that_comes_before_it(void **state)
{
    (void)state;
    expect(repair(5000, .id = A, .session = SID, .token = 5), "0");
    session_open("30000");
    expect(repair(5000, .id = A, .session = SID, .token = 5), "0");
    session_bind(A_REF, "*", "10000");
    expect(repair(5000, .id = A, .session = SID, .token = 5), "1");
    const char *note = reply_text(command("HGET " NOTES " %s", A_REF));
    assert_string_equal(strchr(note, ' '), " *");
    /* No request takes such a note back. */
    expect(session_unbind(A_REF, "w.1"), "0");
}

/* --- the end of a session ----------------------------------------------------------------- */

static void end_leaves_a_tombstone_where_the_session_was_unknown(void **state)
{
    (void)state;
    expect(session_end("released", "0", NULL), "[ended, unknown]");
    expect(session_end("released", "0", NULL), "[ended, unknown]"); /* a repetition */
    expect(session_open("30000"), "[ended, unknown]");
    expect_lasts(SESSION, 60000);
    expect(session_keep_alive("0"), "[ended, unknown, *]");
    expect(node_repair_session(5000), "0");
}

static void end_for_the_deadline_is_where_it_has_passed(void **state)
{
    (void)state;
    expect(session_end("expired", "0", NULL), "[ended, unknown]");
    expect_command("0", "EXISTS " SESSION);
    session_open("30000");
    expect(session_end("expired", "0", NULL), "[open, *]");
    session_overdue();
    expect(session_end("expired", "0", NULL), "[released, 0, []]");
    expect(session_open("30000"), "[ended, expired]");
}

static void what_a_majority_has_ended_is_ended_everywhere(void **state)
{
    (void)state;
    session_open("30000");
    BIND(A_REF);
    listen_to("rlockd:sessions");
    expect(session_end("closed", "0", NULL), "[released, 0, [" A_REF "]]");
    assert_string_equal(next_message(), "rlockd:sessions " SID);
    expect(session_open("30000"), "[ended, expired]");
    expect(session_end("closed", "1", A_REF), "[released, 1, []]");
    expect(session_end("closed", "0", NULL), "[released, 1, []]"); /* a repetition */
}

static void end_past_the_deadline_leaves_a_tombstone(void **state)
{
    (void)state;
    session_open("30000");
    BIND(A_REF);
    session_overdue();
    expect(session_end("released", "0", NULL), "[ended, expired]");
    expect(node_repair_session(5000), "0");
    expect(session_end("released", "0", NULL), "[ended, expired]");          /* a repetition */
    expect(session_end("expired", "0", NULL), "[released, 0, [" A_REF "]]"); /* the watchdog */
}

/* --- repairs of a session ----------------------------------------------------------------- */

static void unknown_session_is_restored(void **state)
{
    (void)state;
    expect(session_keep_alive("0"), "[ended, unknown, *]");
    expect(node_repair_session(20000), "1");
    expect_empty_home();
    redisReply *alive = session_keep_alive("0");
    expect(alive, "[open, 30000, 30000, *, host/1, *");
    assert_in_range(reply_integer(reply_at(alive, 3)), 5000, 9000); /* its age */
    expect(node_repair_session(20000), "0"); /* the deadline here is later */
}

static void passed_session_gets_its_later_deadline(void **state)
{
    (void)state;
    session_open("30000");
    session_overdue();
    expect(node_repair_session(20000), "1");
    redisReply *reply = run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS);
    assert_in_range(reply_integer(reply_at(reply, 1)), 15000, 20000);
    expect_lasts(NOTES, 80000);
    session_overdue();
    expect(run(SCRIPT_SESSION_GET, KEYS(SESSION, NOTES, LOST), NO_ARGS), "[ended, expired, *]");
    expect(node_repair_session(0), "0"); /* too late */
}

/* --- the watchdog ------------------------------------------------------------------------- */

static void hold_of_session(void)
{
    session_open("30000");
    BIND(A_REF);
    VOTE();
}

static redisReply *watch(const char *id)
{
    return run(SCRIPT_LEASE_WATCH, KEYS("jobs", text("rlockd:lease:{jobs}:%s", id)),
               ARGS(id, "40000", WINDOW, SID));
}

static redisReply *watch_many(void)
{
    return run(SCRIPT_WATCH_MANY, KEYS("jobs", RECORD(A), "other", "rlockd:lease:{other}:" B),
               ARGS("40000", WINDOW, "1", SID));
}

static redisReply *renew_with(const char *ttl, const char *watchdog)
{
    return run(SCRIPT_RENEW, KEYS("jobs", RECORD(A), COUNTER),
               ARGS(A, ttl, WINDOW, watchdog, "7"));
}

static void visit_to_many_tells_their_tokens_and_claims_them(void **state)
{
    (void)state;
    hold_of_session();
    expect_node(watch_many(), "[5, 0]");
    expect_lasts("jobs", 40000);
    expect_lasts(RECORD(A), 100000);
    const char *record = text("%s", command("GET " RECORD(A))->str);
    expect_text_at(record, "held\nwas 0\nlisted *\n*", __FILE__, __LINE__);
    expect(node_withdraw(A, "w.1", ""), "2");
    expect_node(watch_many(), "[5, 0]");
    expect_node(watch(A), "[renewed, lock, 5]");
    expect_command(record, "GET " RECORD(A)); /* listed since the first visit */
    expect_node(renew_with("40000", "visit"), "[held, 5, *");
    expect_command("held\n\nlisted *\n*", "GET " RECORD(A));
}

static void visit_to_many_renews_nothing_else(void **state)
{
    (void)state;
    hold_of_session();
    node_process_is(PROCESS_AGE_MS / 2);
    expect(watch_many(), "[0, 0]");
    session_bind(A_REF, "*", "10000");
    expect(repair(5000, .id = A, .session = SID, .token = 5), "1");
    expect_node(watch_many(), "[5, 0]");
    node_lose(A, "w.2");
    expect(watch_many(), "[0, 0]");
}

static void visit_to_one_tells_its_token(void **state)
{
    (void)state;
    hold_of_session();
    expect_node(watch(A), "[renewed, lock, 5]");
    expect_lasts("jobs", 40000);
    expect(node_withdraw(A, "w.1", ""), "2");
    node_process_is(PROCESS_AGE_MS / 2);
    expect(watch(A), "[restarted]");
}

/* No majority may have it, and then its request takes it back. */
static void visits_leave_a_young_vote_alone(void **state)
{
    (void)state;
    hold_of_session();
    command("PEXPIRE jobs 39000"); /* it was cast with the time of the watchdog, 40 s */
    expect(watch_many(), "[0, 0]");
    expect(watch(A), "[ends, 6667]");
    expect_lasts("jobs", 39000);
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_command("0", "EXISTS jobs");
}

static void visit_to_one_ends_no_lease(void **state)
{
    (void)state;
    hold_of_session();
    command("DEL jobs");
    expect(watch(A), "[lapsed, lock]");
    expect(VOTE(), "[lapsed]");
    expect(watch(B), "[gone]");
    lock_release(A);
    expect(watch(A), "[ended, expired, ]");
}

/* The votes of an ended session are refused, so nothing is barred. */
static void visits_of_another_session_change_nothing(void **state)
{
    static const char *const other = "6b1f0a3e-54d5-5c37-9a53-1d2f0e6f7a02";
    const char *const *keys = KEYS("jobs", RECORD(A));

    (void)state;
    hold_of_session();
    command("PEXPIRE jobs 9000");
    expect(run(SCRIPT_WATCH_MANY, keys, ARGS("40000", WINDOW, "1", other)), "[0]");
    expect(run(SCRIPT_LEASE_WATCH, keys, ARGS(A, "40000", WINDOW, other)), "[reused]");
    expect(
        run(SCRIPT_LEASE_CLAIM, KEYS("jobs", RECORD(A), COUNTER), ARGS(A, WINDOW, "1", other)),
        "[reused]");
    expect(run(SCRIPT_LEASE_END, keys, ARGS(A, "session-ended", WINDOW, other)), "2");
    expect_lasts("jobs", 9000);
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_command("0", "EXISTS jobs " RECORD(A) " rlockd:barred:{jobs}:" A);
}

/* A node with a vote, or that a request has answered, keeps the lease. */
static void keep_alive_ends_what_was_listed_before(void **state)
{
    const char *const *keys = KEYS("jobs", RECORD(A));
    const char *const *args = ARGS(A, "released", WINDOW, SID, "", "9999999999999");

    (void)state;
    expect(run(SCRIPT_LEASE_END, keys, args), "2");
    expect_command("0", "EXISTS " RECORD(A));
    hold_of_session();
    expect(run(SCRIPT_LEASE_END, keys, args), "2");
    expect_node(renew_with("40000", "1"), "[held, 5, *");
    expect(run(SCRIPT_LEASE_END, keys, args), "2");
    expect_command("1", "EXISTS jobs");
    expect(run(SCRIPT_LEASE_END, keys, args), "lock");
    expect_command("0", "EXISTS jobs");
}

/* The lease may be another session's, at the other nodes. */
static void end_of_a_session_spends_no_lease_that_is_missing_here(void **state)
{
    const char *const *keys = KEYS("jobs", RECORD(A));

    (void)state;
    expect(run(SCRIPT_LEASE_END, keys, ARGS(A, "session-ended", WINDOW, SID)), "0");
    expect_command("0", "EXISTS " RECORD(A));
    expect(run(SCRIPT_LEASE_END, keys, ARGS(A, "released", WINDOW, SID)), "0");
    expect_command("1", "EXISTS " RECORD(A));
}

static void visit_that_repairs_renews_what_is_in_its_care(void **state)
{
    (void)state;
    hold_of_session();
    expect_node(renew_with("40000", "visit"), "[held, 5, 40000, held\n*");
    command("PEXPIRE jobs 50000"); /* by a front end with another timeout */
    expect_node(renew_with("40000", "visit"), "[held, 5, *");
    expect_lasts("jobs", 50000);
    expect_node(renew_with("70000", ""), "[marked, 5, *"); /* PATCH with ttl_ms */
    expect_node(renew_with("70000", ""), "[held, 5, *");
    expect(renew_with("40000", "visit"), "[ends, *]");
    expect_lasts("jobs", 70000);
    expect_command("held\n*\n\nlock\n", "GET " RECORD(A));
}

/* --- the index ---------------------------------------------------------------------------- */

static redisReply *index_claim(int64_t claim_ms)
{
    return run(SCRIPT_INDEX_CLAIM, KEYS("rlockd:sessions:{0}"),
               ARGS("16", text("%lld", (long long)claim_ms)));
}

static redisReply *index_set(const char *in_ms, int64_t claim_ms)
{
    return run(SCRIPT_INDEX_SET, KEYS("rlockd:sessions:{0}"),
               ARGS(SID, in_ms, text("%lld", (long long)claim_ms)));
}

static void claims_have_one_number_at_all_nodes(void **state)
{
    int64_t claim_ms = node_base_us() / 1000 + 5000;

    (void)state;
    command("ZADD rlockd:sessions:{0} 1 " SID);
    expect(index_claim(claim_ms), text("[%lld, [" SID "], [*]]", (long long)claim_ms));
    expect(index_claim(claim_ms + 1), text("[%lld, [], [*]]", (long long)claim_ms + 1));
    expect(index_set("1000", claim_ms), "1");
    /* At a node where it was not due the visit counts, too; a later claim stays. */
    expect(index_set("2000", claim_ms), "1");
    command("ZADD rlockd:sessions:{0} %lld " SID, (long long)claim_ms + 10);
    expect(index_set("1000", claim_ms), "0");
    command("DEL rlockd:sessions:{0}");
    expect(index_set("1000", claim_ms), "1"); /* a node that has lost its index */
    expect(index_set("", claim_ms), "1");
}

/* The claim is past by this node's clock: its members are not due again at once. */
static void claims_of_a_node_whose_clock_is_far_ahead(void **state)
{
    int64_t claim_ms = node_base_us() / 1000 - 60000;

    (void)state;
    command("ZADD rlockd:sessions:{0} 1 " SID);
    expect(index_claim(claim_ms), "[*, [" SID "], [1000]]");
    redisReply *claimed = index_claim(claim_ms);
    expect(claimed, "[*, [], [*]]");
    assert_in_range(reply_integer(reply_at(reply_at(claimed, 2), 0)), 1, 1000);
    /* The visit that another node's claim has led to sets the next one here, too, or the last.
     */
    expect(index_set("60000", claim_ms), "1");
    expect(index_set("1000", claim_ms), "1");
    expect(index_set("", claim_ms), "1");
    expect_command("0", "EXISTS rlockd:sessions:{0}");
}

static void row_of_a_listing_says_whether_the_index_has_the_session(void **state)
{
    (void)state;
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS), "[]");
    session_open("30000");
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS),
           "[*, 30000, *, host/1, 0, 0]");
    const char *index = text("rlockd:sessions:{%.1s}", SID);
    command("ZADD %s 1 " SID, index);
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS),
           "[*, 30000, *, host/1, 0, 1]");
    command("DEL %s", index);
    command("SET %s other", index); /* another type of key */
    expect(run(SCRIPT_SESSION_BRIEF, KEYS(SESSION, NOTES), NO_ARGS),
           "[*, 30000, *, host/1, 0, 0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(vote_needs_a_note_in_an_open_session),
        NODE_TEST(set_needs_a_note_with_all_its_locks),
        NODE_TEST(repair_needs_the_note_that_comes_before_it),
        NODE_TEST(end_leaves_a_tombstone_where_the_session_was_unknown),
        NODE_TEST(end_for_the_deadline_is_where_it_has_passed),
        NODE_TEST(what_a_majority_has_ended_is_ended_everywhere),
        NODE_TEST(end_past_the_deadline_leaves_a_tombstone),
        NODE_TEST(unknown_session_is_restored),
        NODE_TEST(passed_session_gets_its_later_deadline),
        NODE_TEST(visit_to_many_tells_their_tokens_and_claims_them),
        NODE_TEST(visit_to_many_renews_nothing_else),
        NODE_TEST(visits_leave_a_young_vote_alone),
        NODE_TEST(visit_to_one_tells_its_token),
        NODE_TEST(visit_to_one_ends_no_lease),
        NODE_TEST(visits_of_another_session_change_nothing),
        NODE_TEST(keep_alive_ends_what_was_listed_before),
        NODE_TEST(end_of_a_session_spends_no_lease_that_is_missing_here),
        NODE_TEST(visit_that_repairs_renews_what_is_in_its_care),
        NODE_TEST(claims_have_one_number_at_all_nodes),
        NODE_TEST(claims_of_a_node_whose_clock_is_far_ahead),
        NODE_TEST(row_of_a_listing_says_whether_the_index_has_the_session),
    };

    return cmocka_run_group_tests_name("quorum sessions", tests, redis_set_up_node,
                                       redis_tear_down);
}
