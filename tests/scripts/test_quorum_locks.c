/* The scripts of a node for plain locks, beyond the cases of the model: whole records, clocks,
 * quarantine, waiters, messages. */
#include <string.h>

#include "node_home.h"

#define DAY_MS INT64_C(86400000)
#define SECOND_US 1000000
#define HOUR_US (3600 * INT64_C(1000000))

/* The record of lease A that holds by this attempt ("" for a claimed one). */
static const char *record_with(const char *detail, const char *attempt, int64_t token)
{
    return text("held\n%s\n%s\n%s\n30000\nnote\n\n\n%lld\n\nlock\n", detail, attempt,
                node_process(), (long long)token);
}

/* --- votes -------------------------------------------------------------------------------- */

static void vote_writes_hold_record_and_token(void **state)
{
    /* The common case, and the other way: for a registered waiter. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(node_clear(state), 0);
        command("SET %s %s", COUNTER, node_token(3));
        expect_node(vote(.id = A, .token = 5, .registered = i == 0 ? "" : "1"), "5");
        expect_command("[" A ":0, 1]", "HGETALL jobs");
        expect_node(command("GET " RECORD(A)), record_with("was 3", "w.1.1", 5));
        expect_node(command("GET " COUNTER), "5");
        expect_lasts("jobs", 30000);
        expect_lasts(RECORD(A), 90000);
        expect_lasts(COUNTER, DAY_MS);
    }
}

static void repetition_of_a_vote_is_accepted_and_changes_nothing(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    command("PEXPIRE jobs 10000");
    expect_node(vote(.id = A, .token = 7), "5");
    expect_lasts("jobs", 10000);
    expect_node(command("GET " COUNTER), "5");
}

static void move_lets_the_hold_last_its_whole_time(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    command("PEXPIRE jobs 10000");
    expect_node(vote(.id = A, .token = 4, .round = 2), "4");
    expect_lasts("jobs", 30000);
    expect_node(command("GET " RECORD(A)), record_with("was 0", "w.1.2", 4));
    expect_node(command("GET " COUNTER), "4");
    /* An earlier round that comes late finds the later one. */
    expect_node(vote(.id = A, .token = 5), "[held, 4]");
}

static void busy_lock_names_holder_and_counter(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    command("SET %s %s", COUNTER, node_token(8)); /* of a lease that has ended since */
    redisReply *busy = vote(.id = B, .token = 9);
    expect_node(busy, "[busy, *, " A ":0, 1, held\n*\nlock\n, 8, 1, 8]");
    assert_in_range(reply_integer(reply_at(busy, 1)), 25000, 30000);
    expect_command("0", "EXISTS " RECORD(B));
}

static void java_client_blocks_a_vote(void **state)
{
    (void)state;
    command("HSET jobs " JAVA " 1");
    command("PEXPIRE jobs 30000");
    expect_node(vote(.id = A, .token = 5), "[busy, *, " JAVA ", 1, , , 1, 0]");
}

static void token_below_the_counter_is_low(void **state)
{
    (void)state;
    command("SET %s %s", COUNTER, node_token(5));
    expect_node(vote(.id = A, .token = 5), "[low, 5]");
    expect_command("0", "EXISTS jobs " RECORD(A));
    expect_node(command("GET " COUNTER), "5");
}

static void token_far_off_the_clock_is_refused(void **state)
{
    (void)state;
    int64_t clock_us = redis_now_ms() * 1000;
    redisReply *ahead = vote(.id = A, .token = 7 * SECOND_US);
    redisReply *behind = vote(.id = A, .token = clock_us - 7 * SECOND_US - node_base_us());

    expect(reply_at(ahead, 0), "clock");
    expect(reply_at(behind, 0), "clock");
    assert_in_range(reply_integer(reply_at(ahead, 1)), clock_us, clock_us + 4 * SECOND_US);
    expect_command("0", "EXISTS jobs " RECORD(A) " " COUNTER);
    /* The next token after the number is near the clock. */
    int64_t next = reply_integer(reply_at(ahead, 1)) + 1 - node_base_us();
    expect_node(vote(.id = A, .token = next), node_text(node_token(next)));
}

static void token_ahead_of_the_clock_may_follow_the_counter(void **state)
{
    (void)state;
    command("SET %s %s", COUNTER, node_token(60 * SECOND_US));
    expect(vote(.id = A, .token = 62 * SECOND_US), "[clock, *]");
    int64_t next = 60 * SECOND_US + 1;
    expect_node(vote(.id = A, .token = next), node_text(node_token(next)));
}

/* The next round's token may be that of a node whose clock is far ahead. */
static void vote_is_not_moved_far_ahead_of_the_clock(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    redisReply *ahead = vote(.id = A, .token = 3600LL * SECOND_US, .round = 2);
    expect(reply_at(ahead, 0), "clock");
    expect_node(command("GET " COUNTER), "5");
    expect_node(command("GET " RECORD(A)), record_with("was 0", "w.1.1", 5));
    expect_node(vote(.id = A, .token = 9, .round = 3), "9");
}

static void node_of_unknown_age_gives_no_votes(void **state)
{
    (void)state;
    command("DEL " MARKER);
    expect(vote(.id = A, .token = 5), "[quarantine, " QUARANTINE "]");
    node_process_is(100000);
    redisReply *young = vote(.id = A, .token = 5);
    assert_in_range(reply_integer(reply_at(young, 1)), 15000, 20000);
    expect_command("0", "EXISTS jobs " RECORD(A) " " COUNTER);
    node_process_is(120001);
    expect_node(vote(.id = A, .token = 5), "5");
}

static void what_is_no_matter_of_votes_is_refused(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect(vote(.id = A, .kind = "write", .token = 6), "[reused]");
    command("SET jobs text");
    expect(vote(.id = B, .token = 7), "[wrong-kind, 1]");
    command("DEL jobs " COUNTER);
    command("HSET " COUNTER " a b");
    expect(vote(.id = B, .token = 7), "[wrong-kind, 1]");
    expect_command("0", "EXISTS jobs " RECORD(B));
}

static void hold_that_has_ended_is_a_missing_vote(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    command("DEL jobs");
    expect(vote(.id = A, .token = 6), "[lapsed]");
    expect(vote(.id = A, .attempt = "w.2", .token = 6), "[lapsed]");
    /* Another lease may hold. */
    expect_node(vote(.id = B, .token = 6), "6");
    expect(vote(.id = A, .token = 7), "[lapsed]");
    expect(vote(.id = A, .token = 7, .wait = "5000"), "[lapsed]");
    /* The server made the token, and this node has never seen it. */
    expect(vote(.id = C, .mode = "returned", .token = 7), "[lapsed]");
}

static void spent_lease_says_why(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    run(SCRIPT_FORCE_UNLOCK, KEYS("jobs", COUNTER, FORCED), ARGS(WINDOW, "", "admin\nstuck"));
    expect(vote(.id = A, .token = 6), "[spent, forced]");
    /* The second round of a force-unlock. */
    run(SCRIPT_LEASE_END, KEYS("jobs", RECORD(A)), ARGS(A, "forced", WINDOW));
    expect(vote(.id = A, .token = 6), "[spent, forced, admin\nstuck]");
    expect(node_lose(A, ""), "[ended, forced, admin\nstuck]");
    lock_release(B);
    expect(vote(.id = B, .token = 6), "[spent, unknown*");
    vote(.id = C, .token = 7);
    expect(vote(.id = B, .token = 8), "[spent, unknown*");
}

/* A script that reaches the node late leaves alone what was granted after the answer. */
static void force_unlock_leaves_a_newer_lease(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect_node(node_force(4), "[low, " A ":0, 5, [" A ":0]]");
    expect(lock_renew(A, "30000"), "[held, *");
    expect_command("0", "EXISTS " FORCED);
    expect_node(node_force(5), "[unlocked, " A ":0, 5]");
    expect_node(command("GET " COUNTER), "5");
    /* Votes that come after it are above it, also where the lock was free. */
    expect_node(node_force(8), "[free]");
    expect_lasts(COUNTER, DAY_MS);
    expect_node(vote(.id = B, .token = 8), "[low, 8]");
    vote(.id = B, .token = 9);
    expect_node(node_force(7), "[low, " B ":0, 9, [" B ":0]]");
    expect_node(command("GET " COUNTER), "9");
    command("HSET other jobs 1");
    command("RENAME other jobs");
    expect(node_force(11), "[wrong-kind]");
    expect_node(command("GET " COUNTER), "9");
}

/* A repair gives a server a lease with a token below the counter. */
static void look_and_force_unlock_go_by_the_token_of_the_hold(void **state)
{
    static const char *const kinds[] = {"lock", "write"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        command("DEL " RECORD(A) " " COUNTER);
        vote(.id = A, .token = 5, .kind = kinds[i]);
        command("SET " COUNTER " %s", node_token(9));
        expect_node(run(SCRIPT_LOOK,
                        KEYS("jobs", COUNTER, QUEUE, WAITERS, "rlockd:deadlock:{jobs}"),
                        ARGS("0", "1", "", "")),
                    text("[*, 5, %s, 1, *", kinds[i]));
        expect(lock_force(node_token(9)), "[stale]");
        expect_node(lock_force(node_token(5)), "[unlocked, " A ":0*");
        expect(vote(.id = A, .token = 10, .kind = kinds[i]), "[spent, forced*");
    }
}

/* A counter that is far ahead of the clocks of the others would stop all votes. */
static void force_unlock_far_ahead_of_the_clock_is_refused(void **state)
{
    const int64_t far = HOUR_US;

    (void)state;
    expect(node_force(far), "[clock, , *, []]");
    vote(.id = A, .token = 5);
    expect(node_force(far), "[clock, " A ":0, *, [" A ":0]]");
    expect_node(command("GET " COUNTER), "5");
    /* As of votes: the counter is there already. */
    command("SET " COUNTER " %s", node_token(far));
    expect_node(node_force(far + SECOND_US), "[unlocked, " A ":0, 5]");
}

static void force_unlock_makes_a_counter_that_ends(void **state)
{
    (void)state;
    expect_node(node_force(8), "[free]");
    expect_node(command("GET " COUNTER), "8");
    expect_lasts(COUNTER, 60000);
    command("PERSIST " COUNTER);
    node_force(9);
    expect_node(command("GET " COUNTER), "9");
    expect_command("-1", "PTTL " COUNTER);
    command("DEL " COUNTER);
    command("HSET " COUNTER " a 1");
    expect(node_force(10), "[free]");
    command("SET " COUNTER " none");
    expect(node_force(10), "[free]");
    expect_node(command("GET " COUNTER), "10");
}

/* --- waiting ------------------------------------------------------------------------------ */

static void waiter_is_registered_where_the_lock_is_busy(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect(vote(.id = B, .token = 6, .wait = "5000"), "[busy, *");
    expect_command("[" B "]", "ZRANGE " WAITERS " 0 -1");
    expect_command("waiting\n\nw.1\n*", "GET " RECORD(B));
    lock_release(A);
    expect_node(vote(.id = B, .token = 6, .wait = "5000", .registered = "1"), "6");
    expect_command("[]", "ZRANGE " WAITERS " 0 -1");
}

static void contender_stays_registered_when_its_votes_are_withdrawn(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    vote(.id = B, .token = 6, .wait = "5000");
    expect(
        run(SCRIPT_WITHDRAW, KEYS("jobs", RECORD(B)), ARGS(B, "w.1", "", "", WINDOW, "1", "1")),
        "0");
    expect_command("1", "ZCARD " WAITERS);
    expect(node_withdraw(B, "w.1", ""), "0");
    expect_command("0", "ZCARD " WAITERS);
    expect_command("0", "EXISTS " RECORD(B));
}

/* --- withdrawals -------------------------------------------------------------------------- */

static void withdrawal_leaves_no_trace(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_command("[]", "KEYS *jobs*");
    command("SET %s %s", COUNTER, node_token(3));
    vote(.id = A, .token = 5);
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_node(command("GET " COUNTER), "3");
    expect_command("0", "EXISTS jobs " RECORD(A));
    expect(node_withdraw(A, "w.1", ""), "0");
}

static void withdrawal_is_of_one_attempt_up_to_a_round(void **state)
{
    (void)state;
    vote(.id = A, .token = 5, .round = 2);
    expect(node_withdraw(A, "w.2", ""), "2");
    expect(
        run(SCRIPT_WITHDRAW, KEYS("jobs", RECORD(A)), ARGS(A, "w.1", "", "", WINDOW, "1", "1")),
        "2");
    expect_command("1", "EXISTS jobs");
    expect(
        run(SCRIPT_WITHDRAW, KEYS("jobs", RECORD(A)), ARGS(A, "w.1", "", "", WINDOW, "1", "2")),
        "1");
    expect_command("0", "EXISTS jobs");
}

static void only_an_attempt_that_had_a_majority_wakes_waiters(void **state)
{
    (void)state;
    listen_to(CHANNEL);
    vote(.id = A, .token = 5);
    expect(node_withdraw(A, "w.1", "1"), "1");
    assert_null(next_message());
    vote(.id = A, .token = 5);
    expect(node_withdraw(A, "w.1", ""), "1");
    assert_string_equal(next_message(), CHANNEL " 0");
}

static void withdrawal_forgets_its_vote_that_has_ended(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    command("DEL jobs");
    expect(node_withdraw(A, "w.2", ""), "2");
    expect(vote(.id = A, .attempt = "w.2", .token = 6), "[lapsed]");
    expect(node_withdraw(A, "w.1", ""), "0");
    expect_node(command("GET " COUNTER), "5");
    expect_node(vote(.id = A, .attempt = "w.2", .token = 6), "6");
    node_claim(A, NULL, NULL, 6); /* a lease that a client relied on is not forgotten */
    command("DEL jobs");
    expect(node_withdraw(A, "w.2", ""), "2");
    expect(vote(.id = A, .attempt = "w.3", .token = 7), "[lapsed]");
    vote(.id = B, .token = 8);
    lock_force("");
    expect(node_withdraw(B, "w.1", ""), "0");
    expect(vote(.id = B, .attempt = "w.2", .token = 9), "[spent, forced]");
}

static void claimed_lease_is_not_withdrawn(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    redisReply *claimed = node_claim(A, NULL, NULL, 5);
    expect_node(claimed, text("[claimed, *, %s, 1]", record_with("", "", 5)));
    assert_in_range(reply_integer(reply_at(claimed, 1)), 25000, 30000);
    expect(node_withdraw(A, "w.1", ""), "2");
    expect_command("1", "EXISTS jobs");
    expect_node(vote(.id = A, .token = 7, .round = 2), "[held, 5]");
}

static void claim_needs_the_token_of_the_majority(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect(node_claim(A, NULL, NULL, 6), "[gone, *]");
    expect(node_claim(A, "write", NULL, 5), "[reused]");
    int64_t now_ms = reply_integer(reply_at(node_claim(B, NULL, NULL, 5), 1));
    assert_in_range(now_ms, redis_now_ms() - 5000, redis_now_ms());
    expect(node_withdraw(A, "w.1", ""), "1");
}

/* --- ends --------------------------------------------------------------------------------- */

static void lost_lease_keeps_its_hold_until_it_is_over(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    node_claim(A, NULL, NULL, 5);
    expect(node_lose(A, "w.1"), "[ended, expired]");
    expect_command("1", "EXISTS jobs");
    expect(vote(.id = A, .token = 6), "[spent, expired]");
    expect(lock_renew(A, "30000"), "[spent, expired, , *]");
    expect(node_claim(A, NULL, NULL, 5), "[gone, *]");
    expect_node(vote(.id = B, .token = 6), "[busy, *, " A ":0, *");
    expect(repair(5000, .id = A, .token = 5), "0");
    expect(node_lose(A, "w.2"), "[ended, expired]");
    /* Its client may still release it. */
    listen_to(CHANNEL);
    expect(lock_release(A), "0");
    assert_string_equal(next_message(), CHANNEL " 0");
    expect_node(vote(.id = B, .token = 6), "6");
}

static void own_vote_of_a_lost_lease_is_removed(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect(node_lose(A, "w.1"), "[ended, expired]");
    expect_command("0", "EXISTS jobs");
    expect(vote(.id = A, .token = 6), "[spent, expired*");
    expect(node_lose(B, ""), "[ended, expired]"); /* it was never seen here */
    expect(vote(.id = B, .token = 6), "[spent, expired*");
}

static void vote_of_another_attempt_is_undone_though_the_lease_is_spent(void **state)
{
    (void)state;
    command("SET %s %s", COUNTER, node_token(3));
    vote(.id = A, .token = 5);
    expect(node_lose(A, "w.2"), "[ended, expired]");
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_node(command("GET " COUNTER), "3");
    expect_command("0", "EXISTS jobs");
    expect(vote(.id = A, .token = 6), "[spent, expired*");
}

static void waiting_lease_can_be_lost(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    vote(.id = B, .token = 6, .wait = "5000");
    listen_to("rlockd:leases");
    expect(node_lose(B, "w.1"), "[ended, expired]");
    assert_string_equal(next_message(), "rlockd:leases " B " jobs");
    expect_command("0", "ZCARD " WAITERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(vote_writes_hold_record_and_token),
        NODE_TEST(repetition_of_a_vote_is_accepted_and_changes_nothing),
        NODE_TEST(move_lets_the_hold_last_its_whole_time),
        NODE_TEST(busy_lock_names_holder_and_counter),
        NODE_TEST(java_client_blocks_a_vote),
        NODE_TEST(token_below_the_counter_is_low),
        NODE_TEST(token_far_off_the_clock_is_refused),
        NODE_TEST(token_ahead_of_the_clock_may_follow_the_counter),
        NODE_TEST(vote_is_not_moved_far_ahead_of_the_clock),
        NODE_TEST(node_of_unknown_age_gives_no_votes),
        NODE_TEST(what_is_no_matter_of_votes_is_refused),
        NODE_TEST(hold_that_has_ended_is_a_missing_vote),
        NODE_TEST(spent_lease_says_why),
        NODE_TEST(force_unlock_leaves_a_newer_lease),
        NODE_TEST(look_and_force_unlock_go_by_the_token_of_the_hold),
        NODE_TEST(force_unlock_far_ahead_of_the_clock_is_refused),
        NODE_TEST(force_unlock_makes_a_counter_that_ends),
        NODE_TEST(waiter_is_registered_where_the_lock_is_busy),
        NODE_TEST(contender_stays_registered_when_its_votes_are_withdrawn),
        NODE_TEST(withdrawal_leaves_no_trace),
        NODE_TEST(withdrawal_is_of_one_attempt_up_to_a_round),
        NODE_TEST(only_an_attempt_that_had_a_majority_wakes_waiters),
        NODE_TEST(withdrawal_forgets_its_vote_that_has_ended),
        NODE_TEST(claimed_lease_is_not_withdrawn),
        NODE_TEST(claim_needs_the_token_of_the_majority),
        NODE_TEST(lost_lease_keeps_its_hold_until_it_is_over),
        NODE_TEST(own_vote_of_a_lost_lease_is_removed),
        NODE_TEST(vote_of_another_attempt_is_undone_though_the_lease_is_spent),
        NODE_TEST(waiting_lease_can_be_lost),
    };

    return cmocka_run_group_tests_name("quorum locks", tests, redis_set_up_node,
                                       redis_tear_down);
}
