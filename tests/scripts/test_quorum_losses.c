/* The scripts of a node for the losses of a session: how they are noted, and forgotten when
 * they were told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "node_home.h"

#define A_REF A " jobs"
#define BIND(ref) session_bind(ref, "w.1", "10000")

static redisReply *settle(const char *verdict)
{
    return run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
               ARGS(WINDOW, "10000", "", "", "0", A_REF, verdict));
}

/* A visit that was told so long ago what is due. The deadline is that of another node. */
static void settle_visit(const char *verdict, const char *ago_ms)
{
    run(SCRIPT_SESSION_SETTLE, KEYS(SESSION, NOTES, DUE, LOST),
        ARGS(WINDOW, "10000", "1", ago_ms, "0", A_REF, verdict));
}

/* A verdict is by what the visit saw: meanwhile a request may have settled the lease. */
static void visit_that_stood_still_forgets_nothing_new(void **state)
{
    static const char *const verdicts[] = {"gone", "vanished"};

    (void)state;
    session_open("30000");
    BIND(A_REF);
    settle("later 1000");
    settle_visit("later 100000", "50");
    int64_t due_ms = atoll(reply_text(command("ZSCORE " DUE " %s", A_REF)));
    assert_in_range(due_ms - redis_now_ms(), 1, 1000);
    command("HSET " NOTES " %s %s", A_REF,
            text("%lld +lock", (long long)redis_now_ms() - 11000));
    for (size_t i = 0; i < 2; i++) {
        settle_visit(verdicts[i], "12000");
        expect_command("1", "HEXISTS " NOTES " %s", A_REF);
        expect_command("0", "HEXISTS " LOST " %s", A_REF);
    }
    settle_visit("vanished", "50");
    expect_command("1", "HEXISTS " LOST " %s", A_REF);
}

/* A loss that was noted and told then, by a clock that this node's is so much ahead of. */
static void told_by(const char *ref, int64_t noted_ms, int64_t told_ms, int64_t ahead_ms)
{
    char ahead[24], told[24], loss[256];

    snprintf(ahead, sizeof(ahead), "%" PRId64, ahead_ms);
    snprintf(told, sizeof(told), "%" PRId64, told_ms - ahead_ms);
    snprintf(loss, sizeof(loss), "%" PRId64 " %s", noted_ms - ahead_ms, ref);
    expect(run(SCRIPT_SESSION_TOLD, KEYS(SESSION, NOTES, DUE, LOST), ARGS(ahead, told, loss)),
           "0");
}

/* Now. The notes are older. */
static void told(const char *ref)
{
    int64_t now_ms = redis_now_ms() + 1;

    told_by(ref, now_ms, now_ms, 0);
}

static void loss_that_was_told_is_forgotten_with_its_note(void **state)
{
    (void)state;
    session_open("30000");
    BIND(A_REF);
    settle("lost expired lock");
    expect_command("1", "HEXISTS " LOST " %s", A_REF);
    told(A_REF);
    expect_command("0", "HEXISTS " LOST " %s", A_REF);
    /* This node was away when the loss was noted at the others. */
    BIND(A_REF);
    told(A_REF);
    settle("lost expired lock");
    expect_command("0", "HEXISTS " LOST " %s", A_REF);
    expect_command("1", "HLEN " NOTES); /* the sentinel */
}

#define A_MARK " " A_REF

/* Longer after the loss than a token is known to be spent, as the note says. */
static void bind_after_the_window(void)
{
    BIND(A_REF);
    command("HSET " NOTES " %s %s", A_REF,
            text("%" PRId64 " w.1", redis_now_ms() + (int64_t)atoll(WINDOW)));
}

/* What is told reaches this node late: the token was used again meanwhile. */
static void loss_that_was_told_takes_nothing_newer(void **state)
{
    static const int64_t aheads_ms[] = {0, 3600000, -3600000};

    (void)state;
    session_open("30000");
    for (size_t i = 0; i < 3; i++) {
        int64_t now_ms = redis_now_ms();

        BIND(A_REF);
        told_by(A_REF, now_ms - 1, now_ms - 1, aheads_ms[i]);
        expect_command("1", "HEXISTS " NOTES " %s", A_REF);
        expect_command("[" A_REF "]", "ZRANGEBYSCORE " DUE " -inf 9000000000000");
        /* A keep-alive compares notes with the time of the loss. */
        expect_command(text("%" PRId64 " *", now_ms - 1), "HGET " LOST " %s", A_MARK);
        told_by(A_REF, redis_now_ms() + 1, redis_now_ms() + 1, aheads_ms[i]);
        expect_command("0", "HEXISTS " NOTES " %s", A_REF);
        command("DEL " LOST);
    }
    /* The node knows when it has noted the loss, and that its note is newer. */
    BIND(A_REF);
    settle("lost expired lock");
    BIND(A_REF);
    told(A_REF);
    expect_command("0", "HEXISTS " LOST " %s", A_REF);
    expect_command("1", "HEXISTS " NOTES " %s", A_REF);
    /* The next loss was not told yet. */
    bind_after_the_window();
    int64_t before_ms = redis_now_ms() - 2000;
    settle("lost expired lock");
    told_by(A_REF, before_ms, before_ms, 0);
    expect_command("*expired\nlock", "HGET " LOST " %s", A_REF);
}

static void loss_that_was_told_leaves_a_mark(void **state)
{
    (void)state;
    told(A_REF); /* without the session there is nothing to mark */
    expect_command("0", "EXISTS " LOST);
    session_open("30000");
    told(A_REF);
    expect_command("1", "HLEN " LOST);
    expect_lasts(LOST, 30000 + 60000);
    int64_t told_ms = 0, until_ms = 0;
    const char *mark = reply_text(command("HGET " LOST " %s", A_MARK));
    assert_int_equal(sscanf(mark, "%" SCNd64 " %" SCNd64, &told_ms, &until_ms), 2);
    assert_in_range(until_ms - told_ms, 85000, 90000);
    /* Marks that are over go with the next ones. */
    command("HSET " LOST " %s %s", " " B " old", text("1 %lld", (long long)told_ms - 1));
    told(B " jobs");
    expect_command("0", "HEXISTS " LOST " %s", " " B " old");
    expect_command("2", "HLEN " LOST);
    /* A request that was refused has made the note newer. */
    BIND(A_REF);
    settle("lost expired lock");
    expect_command("0", "HEXISTS " NOTES " %s", A_REF);
    expect_command("1", "HEXISTS " LOST " %s", A_MARK);
    expect_command("0", "HEXISTS " LOST " %s", A_REF);
    /* Of a token that is used again the loss is told again. */
    bind_after_the_window();
    settle("lost expired lock");
    expect_command("0", "HEXISTS " LOST " %s", A_MARK);
    expect_command("1", "HEXISTS " LOST " %s", A_REF);
}

static void marks_leave_room_for_losses(void **state)
{
    enum { MARKS_MAX = 1000 };
    int64_t now_ms = redis_now_ms();

    (void)state;
    session_open("30000");
    for (int i = 0; i < MARKS_MAX + 5; i++)
        told_by(text(B " %d", i), now_ms, now_ms, 0);
    expect_command("1000", "HLEN " LOST);
    BIND(A_REF);
    settle("lost expired lock");
    expect_command("1", "HEXISTS " LOST " %s", A_REF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(visit_that_stood_still_forgets_nothing_new),
        NODE_TEST(loss_that_was_told_is_forgotten_with_its_note),
        NODE_TEST(loss_that_was_told_takes_nothing_newer),
        NODE_TEST(loss_that_was_told_leaves_a_mark),
        NODE_TEST(marks_leave_room_for_losses),
    };

    return cmocka_run_group_tests_name("quorum losses", tests, redis_set_up_node,
                                       redis_tear_down);
}
