/* The scripts of a node for read/write locks and for leases of several locks. */
#include "node_home.h"

#define READ(id) "{jobs}:" id ":0:rwlock_timeout:1"
#define COUNTER_OF(lock) "redisson_lock_token:" lock

/* --- read/write locks --------------------------------------------------------------------- */

static void readers_share_with_growing_tokens(void **state)
{
    (void)state;
    expect_node(vote(.id = A, .kind = "read", .token = 5), "5");
    expect_node(vote(.id = B, .kind = "read", .token = 5), "[low, 5]");
    expect_node(vote(.id = B, .kind = "read", .token = 6), "6");
    expect_command("3", "HLEN jobs");
    expect_command(A, "GET " READ(A));
    expect_lasts(READ(B), 30000);
    expect_node(vote(.id = C, .kind = "write", .token = 7), "[busy, *:0, 1, held\n*, , 1, 6]");
}

static void writer_excludes(void **state)
{
    (void)state;
    expect_node(vote(.id = A, .kind = "write", .token = 5), "5");
    expect_node(vote(.id = B, .kind = "read", .token = 6), "[busy, *, " A ":0:write, 1, *");
    expect_node(vote(.id = B, .kind = "write", .token = 6), "[busy, *, " A ":0:write, 1, *");
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_command("[]", "KEYS *jobs*");
}

static void withdrawal_of_a_reader_leaves_the_other_ones_counter(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    vote(.id = B, .kind = "read", .token = 6);
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_node(command("GET " COUNTER), "6");
    expect_command("0", "EXISTS " READ(A));
    expect(node_withdraw(B, "w.1", ""), "1");
    expect_node(command("GET " COUNTER), "5"); /* what it was before this vote */
    expect_command("0", "EXISTS jobs");
}

static void reader_moves_above_the_counter_of_another_reader(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    vote(.id = B, .kind = "read", .token = 6);
    expect_node(vote(.id = A, .kind = "read", .token = 4, .round = 2), "[low, 6]");
    expect_node(vote(.id = A, .kind = "read", .token = 8, .round = 2), "8");
    /* The withdrawal leaves the token of the other reader. */
    expect(node_withdraw(A, "w.1", ""), "1");
    expect_node(command("GET " COUNTER), "6");
}

static void quiet_withdrawal_of_a_reader_publishes_nothing(void **state)
{
    (void)state;
    listen_to(RW_CHANNEL);
    vote(.id = A, .kind = "read", .token = 5);
    expect(node_withdraw(A, "w.1", "1"), "1");
    assert_null(next_message());
    vote(.id = A, .kind = "read", .token = 5);
    expect(node_withdraw(A, "w.1", ""), "1");
    assert_string_equal(next_message(), RW_CHANNEL " 0");
}

static void reads_are_claimed_renewed_released(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    vote(.id = B, .kind = "read", .token = 6);
    expect_node(node_claim(A, "read", NULL, 5), "[claimed, *, held\n*\nread\n, 1]");
    expect_node(lock_renew(A, "40000"), "[held, 5, 40000, *");
    expect_lasts(READ(A), 40000);
    expect(lock_release(A), "[released, 0, ]");
    expect(vote(.id = A, .kind = "read", .token = 7), "[spent, released*");
    expect_node(lock_renew(B, "30000"), "[held, 6, *");
}

static void lost_read_lasts_beside_other_readers(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    node_claim(A, "read", NULL, 5);
    expect(node_lose(A, "w.1"), "[ended, expired]");
    expect_node(vote(.id = B, .kind = "read", .token = 6), "6");
    expect_node(vote(.id = C, .kind = "write", .token = 7), "[busy, *");
    expect(lock_release(A), "[released, 0, ]");
    expect_command("0", "EXISTS " READ(A));
    lock_release(B);
    expect_node(vote(.id = C, .kind = "write", .token = 7), "7");
}

static void read_is_repaired_beside_a_younger_reader(void **state)
{
    (void)state;
    vote(.id = B, .kind = "read", .token = 6);
    expect(repair(5000, .id = A, .kind = "read", .token = 5), "1");
    expect_node(command("GET " COUNTER), "6");
    expect_node(lock_renew(A, "30000"), "[held, 5, *");
    expect(repair(5000, .id = C, .kind = "write", .token = 9), "0");
}

static void force_unlock_names_all_readers(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    vote(.id = B, .kind = "read", .token = 6);
    redisReply *forced = lock_force("");
    expect_node(forced, "[unlocked, *:0, 6, [*:0, *:0]]");
    expect(vote(.id = A, .kind = "read", .token = 7), "[spent, forced*");
    expect(lock_renew(B, "30000"), "[spent, forced, *");
    /* Only one read, and a writer. */
    vote(.id = C, .kind = "read", .token = 8);
    expect_node(lock_force_read(node_token(8), C ":0"), "[unlocked, " C ":0, 8]");
    expect(vote(.id = C, .kind = "read", .token = 9), "[spent, forced*");
}

static void force_unlock_leaves_all_beside_a_newer_reader(void **state)
{
    (void)state;
    vote(.id = A, .kind = "read", .token = 5);
    vote(.id = B, .kind = "read", .token = 7);
    expect_node(node_force(6), "[low, *:0, 7, [*:0, *:0]]");
    expect(lock_renew(A, "30000"), "[held, *");
    expect(lock_renew(B, "30000"), "[held, *");
    expect_node(node_force(9), "[unlocked, *:0, 7, [*:0, *:0]]");
    expect(lock_renew(B, "30000"), "[spent, forced, *");
}

/* One call looks at 100 of them: any other may be as new as the counter. */
static void force_unlock_of_many_readers_goes_by_the_counter(void **state)
{
    (void)state;
    for (int i = 0; i < 102; i++)
        vote(.id = text("%08x-1111-5111-8111-111111111111", i), .kind = "read", .token = 5 + i);
    expect_command("103", "HLEN jobs");
    command("SET " COUNTER " %s", node_token(205));
    expect_node(node_force(150), "[low, *:0, 205, *");
    expect_node(node_force(205), "[unlocked, *");
}

/* --- several locks ------------------------------------------------------------------------ */

static void set_has_one_token_for_all_its_locks(void **state)
{
    (void)state;
    command("SET " COUNTER_OF(P2) " %s", node_token(3));
    expect_node(vote_set(.id = A, .token = 3), "[low, 3]");
    expect_command("0", "EXISTS " P1 " " P2);
    expect_node(vote_set(.id = A, .token = 5), "5");
    expect_command("[" A ":m, 1]", "HGETALL " P1);
    expect_node(command("GET " COUNTER_OF(P1)), "5");
    expect_node(command("GET " SET_RECORD(P1, A)), "held\nwas 0\nw.1.1\n*\n5\n\nlock\n");
    expect_node(command("GET " SET_RECORD(P2, A)), "held\nwas 3\nw.1.1\n*\n5\n\nlock\n");
}

static void set_is_refused_as_a_whole(void **state)
{
    (void)state;
    command("HSET " P2 " " JAVA " 1");
    command("PEXPIRE " P2 " 30000");
    expect_node(vote_set(.id = A, .token = 5, .wait = "5000"),
                "[busy, *, " JAVA ", 1, , , 2, 0]");
    expect_command("0", "EXISTS " P1);
    expect_command("1", "ZCARD rlockd:waiters:" P1);
    command("DEL " P2);
    command("SET " P2 " text");
    expect(vote_set(.id = B, .token = 5), "[wrong-kind, 2]");
}

/* As long as that one is busy. */
static void set_is_told_the_lock_that_blocked_it_before(void **state)
{
    static const char *const blocking[] = {"", "1", "2"}, *const told[] = {"1", "1", "2"};

    (void)state;
    vote_set(.id = A, .token = 5);
    for (size_t i = 0; i < sizeof(blocking) / sizeof(blocking[0]); i++)
        expect_node(vote_set(.id = B, .token = 9, .blocking = blocking[i]),
                    text("[busy, *, " A ":m, 1, *, %s, 5]", told[i]));
}

static void withdrawal_of_a_set_restores_each_counter(void **state)
{
    (void)state;
    command("SET " COUNTER_OF(P2) " %s", node_token(3));
    vote_set(.id = A, .token = 5);
    expect_node(vote_set(.id = A, .token = 4, .round = 2), "4");
    command("SET " COUNTER_OF(P1) " %s", node_token(9));
    expect(set_withdraw(A, "w.1"), "1");
    expect_node(command("GET " COUNTER_OF(P1)), "9");
    expect_node(command("GET " COUNTER_OF(P2)), "3");
    expect_command("0", "EXISTS " P1 " " P2 " " SET_RECORD(P1, A) " " SET_RECORD(P2, A));
}

static void move_of_a_set_is_above_each_counter(void **state)
{
    (void)state;
    command("SET " COUNTER_OF(P2) " %s", node_token(3));
    vote_set(.id = A, .token = 5);
    expect_node(vote_set(.id = A, .token = 3, .round = 2), "[low, 3]");
    expect_node(command("GET " COUNTER_OF(P1)), "5");
}

static void set_is_renewed_and_claimed(void **state)
{
    (void)state;
    vote_set(.id = A, .token = 5);
    expect_node(set_claim(A), "[held, 5 5, *, held\n*\nlock\n, 1 1]");
    expect(set_withdraw(A, "w.1"), "2");
    expect_node(set_renew(A, "40000"), "[held, 5 5, 40000, *");
    expect_lasts(P2, 40000);
    expect(set_release(A), "[released, 0, ]");
    expect(vote_set(.id = A, .token = 6), "[spent, released*");
}

static void set_that_lost_a_lock_has_lapsed(void **state)
{
    (void)state;
    vote_set(.id = A, .token = 5);
    command("DEL " P2);
    expect(vote_set(.id = A, .token = 6), "[lapsed]");
    expect(set_renew(A, "30000"), "[lapsed, *]");
    expect_command("1", "EXISTS " P1);
}

static void withdrawal_of_a_spent_set_restores_each_counter(void **state)
{
    (void)state;
    command("SET " COUNTER_OF(P2) " %s", node_token(3));
    vote_set(.id = A, .token = 5);
    expect(run(SCRIPT_LEASE_LOST, KEYS(P1, SET_RECORD(P1, A), P2, SET_RECORD(P2, A)),
               ARGS(A, WINDOW, "expired", "w.2")),
           "[ended, expired]");
    expect(set_withdraw(A, "w.1"), "1");
    expect_node(command("GET " COUNTER_OF(P2)), "3");
    expect_command("0", "EXISTS " COUNTER_OF(P1));
    expect(vote_set(.id = A, .token = 6), "[spent, expired*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(readers_share_with_growing_tokens),
        NODE_TEST(writer_excludes),
        NODE_TEST(withdrawal_of_a_reader_leaves_the_other_ones_counter),
        NODE_TEST(reader_moves_above_the_counter_of_another_reader),
        NODE_TEST(quiet_withdrawal_of_a_reader_publishes_nothing),
        NODE_TEST(reads_are_claimed_renewed_released),
        NODE_TEST(lost_read_lasts_beside_other_readers),
        NODE_TEST(read_is_repaired_beside_a_younger_reader),
        NODE_TEST(force_unlock_names_all_readers),
        NODE_TEST(force_unlock_leaves_all_beside_a_newer_reader),
        NODE_TEST(force_unlock_of_many_readers_goes_by_the_counter),
        NODE_TEST(set_has_one_token_for_all_its_locks),
        NODE_TEST(set_is_refused_as_a_whole),
        NODE_TEST(set_is_told_the_lock_that_blocked_it_before),
        NODE_TEST(withdrawal_of_a_set_restores_each_counter),
        NODE_TEST(move_of_a_set_is_above_each_counter),
        NODE_TEST(set_is_renewed_and_claimed),
        NODE_TEST(set_that_lost_a_lock_has_lapsed),
        NODE_TEST(withdrawal_of_a_spent_set_restores_each_counter),
    };

    return cmocka_run_group_tests_name("quorum readers", tests, redis_set_up_node,
                                       redis_tear_down);
}
