/* What tells since when an ended lease held: the scripts that end a lease say its fencing
 * token, if they are asked to. */
#include "lock_home.h"

static redisReply *release(const char *id)
{
    return run(SCRIPT_RELEASE, KEYS("jobs", RECORD(A)), ARGS(id, CHANNEL, WINDOW, "1"));
}

static void a_release_says_the_token_once(void **state)
{
    static const char *const kinds[] = {"lock", "fair", "read", "write"};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        command("FLUSHALL");
        const char *token = text("%s", token_of(ask(.id = A, .kind = kinds[i])));
        expect(release(A), text("[released, 0, , %s]", token));
        expect(release(A), "[released, 0, ]");
    }
}

static void a_lease_without_a_record(void **state)
{
    (void)state;
    const char *token = text("%s", token_of(ask(.id = A, .mode = "fresh")));
    expect_command("0", "EXISTS " RECORD(A));
    expect(release(A), text("[released, 0, , %s]", token));
}

static void each_of_several_readers_has_its_own_token(void **state)
{
    (void)state;
    const char *token = text("%s", token_of(ask(.id = A, .kind = "read")));
    token_of(ask(.id = B, .kind = "read"));
    expect(release(A), text("[released, 0, , %s]", token));
}

static void a_wait_that_ends_is_no_hold(void **state)
{
    (void)state;
    token_of(ask(.id = B));
    expect(ask(.id = A, .wait = "5000"), "[busy, *]");
    expect(release(A), "[released, 0, ]");
}

static void a_counter_of_another_type_says_nothing(void **state)
{
    (void)state;
    token_of(ask(.id = A));
    command("DEL " COUNTER);
    command("HSET " COUNTER " a b");
    expect(release(A), "[released, 0, ]");
}

static void a_hand_over_says_the_token_of_the_released_lease(void **state)
{
    static const char *const kinds[] = {"lock", "fair"};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        command("FLUSHALL");
        const char *token = text("%s", token_of(ask(.id = A, .kind = kinds[i])));
        expect(ask(.id = B, .kind = kinds[i], .wait = "5000"), "[busy, *]");
        redisReply *reply = hand_over(A, .id = B, .kind = kinds[i], .timed = "1");
        expect(reply_at(reply, 1), reply_text(command("GET " COUNTER)));
        expect(reply_at(reply, 2), token);
    }
}

static void so_does_one_of_a_read_write_lock(void **state)
{
    static const char *const kinds[] = {"read", "write"};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        command("FLUSHALL");
        const char *token = text("%s", token_of(ask(.id = A, .kind = kinds[i])));
        expect(ask(.id = B, .kind = "write", .wait = "5000"), "[busy, *]");
        redisReply *reply = hand_over(A, .id = B, .kind = "write", .timed = "1");
        expect(reply_at(reply, 1), reply_text(command("GET " COUNTER)));
        expect(reply_at(reply, 2), token);
    }
}

static void a_hand_over_to_nobody_says_the_token(void **state)
{
    (void)state;
    const char *token = text("%s", token_of(ask(.id = A)));
    expect(hand_over(A, .id = B, .kind = "fair", .timed = "1"), text("[, 0, %s]", token));
}

static void the_end_of_a_session_says_the_token(void **state)
{
    (void)state;
    const char *token = text("%s", token_of(ask(.id = A)));
    for (int i = 0; i < 2; i++)
        expect(run(SCRIPT_LEASE_END, KEYS("jobs", RECORD(A)),
                   ARGS(A, "session-ended", WINDOW, "", "1")),
               i == 0 ? text("[lock, %s]", token) : "1");
}

static void a_force_unlock_says_the_token(void **state)
{
    (void)state;
    const char *token = text("%s", token_of(ask(.id = A)));
    expect(lock_force("*"), text("[unlocked, " A ":0, %s]", token));
    token = text("%s", token_of(ask(.id = B, .kind = "read")));
    expect(lock_force_read(token, B ":0"), text("[unlocked, " B ":0, %s]", token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_release_says_the_token_once),
        SCRIPT_TEST(a_lease_without_a_record),
        SCRIPT_TEST(each_of_several_readers_has_its_own_token),
        SCRIPT_TEST(a_wait_that_ends_is_no_hold),
        SCRIPT_TEST(a_counter_of_another_type_says_nothing),
        SCRIPT_TEST(a_hand_over_says_the_token_of_the_released_lease),
        SCRIPT_TEST(so_does_one_of_a_read_write_lock),
        SCRIPT_TEST(a_hand_over_to_nobody_says_the_token),
        SCRIPT_TEST(the_end_of_a_session_says_the_token),
        SCRIPT_TEST(a_force_unlock_says_the_token),
    };

    return cmocka_run_group_tests(tests, redis_set_up_cluster, redis_tear_down);
}
