/* The scripts of a node that renew and repair leases, after restarts and with short memory. */
#include "node_home.h"

/* The node's process is another one now, with these data. */
static void restart_node(void)
{
    node_process_is(PROCESS_AGE_MS / 2);
}

/* --- renewals ----------------------------------------------------------------------------- */

static void renewal_claims(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect_node(lock_renew(A, "40000"),
                text("[held, 5, 40000, held\n\n\n%s\n40000\nnote\n\n\n5\n\nlock\n, 1, *]",
                     node_process()));
    expect_lasts("jobs", 40000);
    expect(node_withdraw(A, "w.1", ""), "2");
}

static redisReply *renew_by(const char *ttl, const char *watchdog, const char *mark)
{
    return run(SCRIPT_RENEW, KEYS("jobs", RECORD(A), COUNTER),
               ARGS(A, ttl, WINDOW, watchdog, mark));
}

/* The record says by which renewal the lease was marked; "": by none. */
static void expect_mark(const char *mark)
{
    expect_command(text("held\n%s\n\n*", mark), "GET " RECORD(A));
}

/* Sent again it does, for no other renewal has come between. */
static void renewal_shortens_when_it_is_sent_again(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect_node(renew_by("60000", "", "1"), "[held, 5, *");
    expect_node(renew_by("20000", "", "2"), "[marked, 5, 20000, held\nby 2\n*, 1, *]");
    expect_lasts("jobs", 60000);
    expect_lasts(RECORD(A), 120000);
    listen_to(CHANNEL);
    expect_node(renew_by("20000", "", "2"), "[held, 5, 20000, held\n\n*, 1, *]");
    assert_non_null(next_message());
    expect_lasts("jobs", 20000);
    expect_lasts(RECORD(A), 80000);
    /* A later renewal, a repair or a claim is not undone. */
    expect_node(renew_by("10000", "", "3"), "[marked, *");
    expect_node(renew_by("60000", "", "4"), "[held, 5, *");
    expect_node(renew_by("10000", "", "3"), "[marked, *");
    expect_node(renew_by("20000", "", "5"), "[marked, *");
    expect_node(renew_by("10000", "", "3"), "[marked, *");
    expect_node(node_claim(A, NULL, NULL, 5), "[claimed, *");
    expect_mark("");
    expect_node(renew_by("10000", "", "3"), "[marked, *");
    expect_lasts("jobs", 60000);
}

static void renewal_of_a_set_shortens_when_it_is_sent_again(void **state)
{
    (void)state;
    vote_set(.id = A, .token = 5);
    expect_node(set_renew(A, "60000"), "[held, 5 5, *");
    command("PEXPIRE " P2 " 9000");
    expect_node(set_renew(A, "20000"), "[marked, 5 5, *");
    expect_lasts(P1, 60000);
    expect_lasts(P2, 20000);
    expect_node(set_renew(A, "20000"), "[held, 5 5, *");
    expect_lasts(P1, 20000);
    expect_lasts(P2, 20000);
}

/* Nor does a late one take the lease from the watchdog, or give it back. */
static void renewal_changes_the_watchdog_when_it_is_sent_again(void **state)
{
    (void)state;
    session_open("30000");
    session_bind(A " jobs", "w.1", "10000");
    vote(.id = A, .session = SID, .token = 5);
    expect_node(renew_by("60000", "", "2"), "[marked, *");
    expect_lasts("jobs", 60000);
    expect_node(renew_by("40000", "visit", ""), "[held, *"); /* it is in its care still */
    expect_mark("by 2");
    expect_node(renew_by("60000", "", "2"), "[held, *");
    expect_node(renew_by("40000", "visit", ""), "[ends, *");
    expect_node(renew_by("60000", "1", "3"), "[marked, *");
    expect_node(renew_by("40000", "visit", ""), "[ends, *");
    expect_node(renew_by("60000", "1", "3"), "[held, *");
    expect_node(renew_by("40000", "visit", ""), "[held, *");
}

/* Of a vote that no majority has joined. */
static void hold_with_another_token_gets_that_of_the_majority(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    expect_node(lock_renew(A, "40000"), "[held, 5, *");
    expect(repair(0, .id = A, .token = 7), "0");
    expect(repair(5000, .id = A, .token = 7, .ttl = "8000"), "1");
    expect_lasts("jobs", 40000);
    expect_lasts(RECORD(A), 100000);
    expect_node(command("GET " COUNTER), "7");
    expect_node(lock_renew(A, "40000"), "[held, 7, *");
}

static void renewal_that_a_node_cannot_do_ends_nothing(void **state)
{
    (void)state;
    expect(lock_renew(A, "30000"), "[unknown, *]");
    vote(.id = A, .token = 5);
    command("DEL jobs");
    expect(lock_renew(A, "30000"), "[lapsed, *]");
    expect(lock_renew(A, "30000"), "[lapsed, *]");
    vote(.id = B, .token = 6);
    vote(.id = C, .token = 7, .wait = "5000");
    expect_node(lock_renew(C, "30000"), "[busy, *, " B ":0, 1, *, 6, 1, *]"); /* its clock */
}

/* --- restarts, repairs -------------------------------------------------------------------- */

static void old_data_count_once_they_are_confirmed(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    node_claim(A, NULL, NULL, 5);
    restart_node();
    expect(lock_renew(A, "30000"), "[restarted, *]");
    expect(node_claim(A, NULL, NULL, 5), "[gone, *]");
    expect(repair(5000, .id = A, .token = 6), "0"); /* another token */
    expect(lock_renew(A, "30000"), "[restarted, *]");
    expect(repair(5000, .id = A, .token = 5), "1");
    expect_node(lock_renew(A, "30000"), "[held, 5, *");
    expect(repair(5000, .id = A, .token = 5), "0");
}

static const char *look_at(const char *token)
{
    return node_text(
        reply_text(run(SCRIPT_LOOK, KEYS("jobs", COUNTER, WAITERS, "rlockd:deadlock:{jobs}"),
                       ARGS("5", "5", A, token))));
}

static void look_shows_no_token_of_old_data(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    node_claim(A, NULL, NULL, 5);
    expect_text_at(look_at(node_token(5)),
                   "[*, 5, lock, 1, [" A ":0, *, 5, *], 0, [], held, , 1, ]", __FILE__,
                   __LINE__);
    restart_node();
    expect_text_at(look_at(node_token(5)),
                   "[*, 5, lock, 1, [" A ":0, *, lock, , *], 0, [], , , 0, ]", __FILE__,
                   __LINE__);
}

static void node_that_lacks_a_lease_gets_it(void **state)
{
    (void)state;
    node_process_is(1); /* in quarantine, too */
    expect(repair(5000, .id = A, .token = 5, .ttl = "8000"), "1");
    expect_lasts("jobs", 8000);
    expect_node(command("GET " COUNTER), "5");
    expect_node(lock_renew(A, "30000"), "[held, 5, *");
    expect(node_withdraw(A, "w.1", ""), "2");
}

static void waiting_lease_gets_a_lock_that_is_free(void **state)
{
    (void)state;
    vote(.id = A, .token = 5);
    vote(.id = B, .token = 6, .wait = "5000");
    expect(repair(5000, .id = B, .token = 6), "0");
    expect_command("[" B "]", "ZRANGE " WAITERS " 0 -1");
    lock_release(A);
    expect(repair(5000, .id = B, .token = 6), "1");
    expect_command("[]", "ZRANGE " WAITERS " 0 -1");
    expect_node(lock_renew(B, "30000"), "[held, 6, *");
}

static void repair_lowers_no_counter_and_takes_no_lock(void **state)
{
    (void)state;
    command("SET %s %s", COUNTER, node_token(9));
    expect(repair(5000, .id = A, .token = 5), "1");
    expect_node(command("GET " COUNTER), "9");
    expect(repair(5000, .id = B, .token = 6), "0");
    expect_command("0", "EXISTS " RECORD(B));
}

static void repair_is_for_a_lease_that_lasts(void **state)
{
    (void)state;
    expect(repair(0, .id = A, .token = 5), "0");
    lock_release(A);
    expect(repair(5000, .id = A, .token = 5), "0");
    expect_command("0", "EXISTS jobs");
    vote(.id = B, .token = 5);
    command("DEL jobs"); /* lapsed */
    expect(repair(5000, .id = B, .token = 5), "1");
    expect_node(lock_renew(B, "30000"), "[held, 5, *");
    lock_force("");
    expect(repair(5000, .id = B, .token = 5), "0");
    vote(.id = C, .token = 6);
    node_lose(C, ""); /* spent, its hold was left */
    command("DEL jobs");
    expect(repair(5000, .id = C, .token = 6), "0");
    expect_command("0", "EXISTS jobs");
}

/* --- memory ------------------------------------------------------------------------------- */

static void vote_without_memory_is_none(void **state)
{
    (void)state;
    memory_is_short();
    expect(vote(.id = A, .token = 5), "error: OOM*");
    expect(repair(5000, .id = A, .token = 5), "error: OOM*");
    memory_is_back();
    expect_command("[]", "KEYS *jobs*");
}

static void ends_need_no_memory(void **state)
{
    (void)state;
    command("SET %s %s", COUNTER, node_token(3));
    vote(.id = A, .token = 5);
    memory_is_short();
    expect(node_withdraw(A, "w.1", ""), "1");
    memory_is_back();
    expect_node(command("GET " COUNTER), "3");
    vote(.id = A, .token = 5);
    memory_is_short();
    expect_node(lock_renew(A, "30000"), "[held, 5, *");
    expect(node_claim(A, NULL, NULL, 5), "[claimed, *");
    expect(node_lose(A, ""), "[ended, expired]");
    expect(node_lose(B, ""), "[ended, expired]");
    memory_is_back();
    expect(vote(.id = A, .token = 6), "[spent, expired]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(renewal_claims),
        NODE_TEST(renewal_shortens_when_it_is_sent_again),
        NODE_TEST(renewal_of_a_set_shortens_when_it_is_sent_again),
        NODE_TEST(renewal_changes_the_watchdog_when_it_is_sent_again),
        NODE_TEST(hold_with_another_token_gets_that_of_the_majority),
        NODE_TEST(renewal_that_a_node_cannot_do_ends_nothing),
        NODE_TEST(old_data_count_once_they_are_confirmed),
        NODE_TEST(look_shows_no_token_of_old_data),
        NODE_TEST(node_that_lacks_a_lease_gets_it),
        NODE_TEST(waiting_lease_gets_a_lock_that_is_free),
        NODE_TEST(repair_lowers_no_counter_and_takes_no_lock),
        NODE_TEST(repair_is_for_a_lease_that_lasts),
        NODE_TEST(vote_without_memory_is_none),
        NODE_TEST(ends_need_no_memory),
    };

    return cmocka_run_group_tests_name("quorum repairs", tests, redis_set_up_node,
                                       redis_tear_down);
}
