/* The scripts of permits that expire. */
#include <stdlib.h>

#include "lock_home.h"

#define D "55555555-5555-5555-8555-555555555555"
#define TIMEOUTS "{jobs}:timeout"
#define SEMAPHORE_CHANNEL "redisson_sc:{jobs}"

struct request {
    const char *id, *attempt, *wait, *session, *ttl, *registered, *waiting, *reusable;
};

static const char *or_else(const char *value, const char *usual)
{
    return value != NULL ? value : usual;
}

/* A field that is left out stands for a ttl of 30 s, and otherwise for nothing. */
static redisReply *run_acquire(const struct request *request)
{
    const char *id = request->id, *ttl = or_else(request->ttl, "30000");
    const char *session = request->session != NULL && request->session[0] != '\0' ? SID
                              "\nhost/1\n\n1"
                                                                                  : "\n\n\n";

    return run(SCRIPT_PERMIT_ACQUIRE,
               KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id), WAITERS),
               ARGS(id, ttl,
                    text("held\n\n%s\n\n%s\n\n%s\npermit\n", request->attempt, ttl, session),
                    text("%d", atoi(ttl) + 60000), "0", request->wait, "",
                    or_else(request->registered, ""), or_else(request->waiting, ""),
                    or_else(request->reusable, "")));
}

static redisReply *acquire(const char *id, const char *attempt, const char *wait,
                           const char *session)
{
    return run_acquire(
        &(struct request){.id = id, .attempt = attempt, .wait = wait, .session = session});
}

static redisReply *release(const char *id)
{
    return run(SCRIPT_PERMIT_RELEASE,
               KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id), WAITERS),
               ARGS(id, WINDOW));
}

/* The lease that is next, and its request. A field that is left out stands for a ttl of 30 s,
 * and for an attempt that waits. */
struct turn {
    const char *id, *attempt, *ttl, *unseen, *own_listeners;
};

static redisReply *run_hand_over(const char *id, const struct turn *next)
{
    const char *attempt = or_else(next->attempt, "w.1"), *ttl = or_else(next->ttl, "30000");

    return run(SCRIPT_PERMIT_HAND_OVER,
               KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id),
                    text("rlockd:lease:{jobs}:%s", next->id), WAITERS),
               ARGS(id, WINDOW, SEMAPHORE_CHANNEL, next->id, ttl,
                    text("held\n\n%s\n\n%s\nnote\n\n\n\n\npermit\n", attempt, ttl),
                    text("%d", atoi(ttl) + 60000), or_else(next->unseen, ""),
                    or_else(next->own_listeners, "0")));
}

#define give(id, ...) run_hand_over(id, &(struct turn){__VA_ARGS__})

static redisReply *renew(const char *id)
{
    return run(SCRIPT_PERMIT_RENEW, KEYS("jobs", TIMEOUTS, text("rlockd:lease:{jobs}:%s", id)),
               ARGS(id, "40000", WINDOW, ""));
}

static redisReply *withdraw(const char *id, const char *attempt)
{
    return run(SCRIPT_PERMIT_WITHDRAW, KEYS("jobs", text("rlockd:lease:{jobs}:%s", id)),
               ARGS(id, attempt));
}

static void a_permit_lives(void **state)
{
    (void)state;
    command("SET jobs 1");
    expect(acquire(A, "w.1", "0", SID), "[granted, 0, 30000, , 0]");
    expect_command("held\n\nw.1\n*\n30000\n\n" SID "\nhost/1\n\n1\npermit\n", "GET " RECORD(A));
    expect(acquire(B, "w.1", "5000", ""), "[busy, *, ]");
    expect(renew(B), "[busy, -1, ]");
    expect(release(B), "[released, 0, ]");
    expect(acquire(A, "w.2", "0", SID), "[held, 0, *, held\n*, 0]");
    expect(withdraw(A, "w.1"), "2");
    expect(renew(A), "[held, 0, 40000, held\n*\n40000\n*, 0]");
    expect(run(SCRIPT_PERMIT_LOOK, KEYS("jobs", TIMEOUTS, WAITERS), ARGS("9")),
           "[looked, 0, 1, 0, [11111111111151118111111111111111, *, held\n*]]");
    expect(release(A), "[released, 0, " SID "]");
    expect(release(A), "[released, 0, ]");
    expect(acquire(A, "w.3", "0", SID), "[ended, released, , ]");
    expect_command("1", "GET jobs");
}

/* Waiters behind the one that got the last permit sleep until one expires: it has waited, and
 * was registered or not. */
static void the_last_permit_tells_when_to_look_again(void **state)
{
    (void)state;
    command("SET jobs 1");
    expect(acquire(A, "w.1", "0", ""), "[granted, 0, 30000, , 0]");
    expect(acquire(B, "w.1", "5000", ""), "[busy, *, ]");
    expect(acquire(C, "w.1", "5000", ""), "[busy, *, ]");
    for (int registered = 1; registered >= 0; registered--) {
        command("INCR jobs");
        const char *id = registered ? B : D;
        redisReply *reply = run_acquire(&(struct request){.id = id,
                                                          .attempt = "w.1",
                                                          .wait = "5000",
                                                          .session = "",
                                                          .ttl = "40000",
                                                          .registered = registered ? "1" : "",
                                                          .waiting = "1"});
        expect(reply, "[granted, 0, 40000, , 0, *]");
        assert_in_range(reply_integer(reply_at(reply, 5)), 20000, 30000); /* that of A */
    }
}

static void a_permit_is_lost_or_withdrawn(void **state)
{
    (void)state;
    command("SET jobs 1");
    acquire(A, "w.1", "0", SID);
    command("DEL " TIMEOUTS);
    expect(renew(A), "[ended, expired, " SID ", permit]");
    expect(renew(A), "[ended, expired, , ]");
    expect(renew(C), "[unknown]");
    command("SET jobs 1");
    acquire(B, "w.1", "0", "");
    expect(withdraw(B, "w.1"), "1");
    expect_command("1", "GET jobs");
    expect_command("0", "EXISTS " RECORD(B));
    expect(ask(.id = C), "error: WRONGTYPE*");
}

/* The permits of A and of a hundred others are over, and those of the others for longer: one
 * call frees as many. */
static void let_many_expire(void)
{
    static const unsigned char id_of_a[] = {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x51, 0x11,
                                            0x81, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11};

    for (int i = 0; i < 100; i++)
        command("ZADD " TIMEOUTS " %d other%d", i + 1, i);
    command("ZADD " TIMEOUTS " 1000 %b", id_of_a, sizeof(id_of_a));
    command("SET jobs 0");
}

/* By a token that may be used again, and by one that is not known any more. */
static void a_lease_takes_its_own_expired_permit_only(void **state)
{
    (void)state;
    for (int is_known = 0; is_known <= 1; is_known++) {
        command("FLUSHALL");
        command("SET jobs 1");
        acquire(A, "w.1", "0", "");
        let_many_expire();
        if (!is_known)
            command("DEL " RECORD(A));
        expect(run_acquire(&(struct request){A, "w.2", "0", "", .reusable = "1"}),
               "[granted, 0, 30000, , 100]");
        expect_command("100", "GET jobs");
        expect_command("1", "ZCARD " TIMEOUTS);
        expect(release(A), "[released, 0, ]");
        expect_command("101", "GET jobs");
    }
}

static void a_permit_is_watched_from_its_session(void **state)
{
    (void)state;
    command("SET jobs 2");
    acquire(A, "w.1", "0", SID);
    expect(run(SCRIPT_LEASE_WATCH, KEYS("jobs", RECORD(A)), ARGS(A, "90000", WINDOW, SID)),
           "[renewed, permit]");
    expect_lasts(RECORD(A), 150000);
    expect(run(SCRIPT_LEASE_CLAIM, KEYS("jobs", RECORD(A), COUNTER), ARGS(A, WINDOW, "1", SID)),
           "[held, *, held\n*, 1]");
    expect(
        run(SCRIPT_LEASE_END, KEYS("jobs", RECORD(A)), ARGS(A, "session-ended", WINDOW, SID)),
        "permit");
    expect_command("2", "GET jobs");
}

/* Java's listeners read the message as an int, and fail for a negative number. */
static void more_permits_than_java_counts(void **state)
{
    (void)state;
    command("SET jobs 3000000000");
    acquire(A, "w.1", "0", "");
    listen_to(SEMAPHORE_CHANNEL);
    expect(release(A), "[released, 0, ]");
    assert_string_equal(next_message(), SEMAPHORE_CHANNEL " 2147483647");
    expect_command("3000000000", "GET jobs");
}

static void a_semaphore_of_permits_has_so_many_waiters(void **state)
{
    const char *later = text("%lld", (long long)redis_now_ms() + 60000);

    (void)state;
    command("SET jobs 0");
    for (int i = 0; i < 1000; i++)
        command("ZADD " WAITERS " %s %d", later, i);
    expect(acquire(A, "w.1", "5000", ""), "[too-many]");
    expect_command("0", "EXISTS " RECORD(A));
    expect(acquire(A, "w.1", "0", ""), "[busy, -1, ]");
}

/* A has one of so many permits, the others are not free, and B waits. */
static void line_up(const char *permits)
{
    command("FLUSHALL");
    command("SET jobs %s", permits);
    for (int other = 1; other < atoi(permits); other++) {
        command("DECR jobs");
        command("ZADD " TIMEOUTS " %lld other%d", (long long)redis_now_ms() + 20000, other);
    }
    expect(acquire(A, "w.1", "0", ""), "[granted, 0, 30000, , 0]");
    expect(acquire(B, "w.1", "5000", ""), "[busy, *, ]");
}

/* So many permits are free after the release of A, and a waiter was told. */
static void expect_released(redisReply *reply, const char *expected, const char *permits)
{
    expect(reply, expected);
    expect_command(permits, "GET jobs");
    expect_command("1", "GET " RECORD(A));
    expect(release(A), "[released, 0, ]");
    assert_string_equal(next_message(), text(SEMAPHORE_CHANNEL " %s", permits));
}

static void a_permit_is_handed_over(void **state)
{
    (void)state;
    line_up("1");
    listen_to(SEMAPHORE_CHANNEL);
    redisReply *reply = give(A, .id = B, .ttl = "40000");
    expect(reply, "[granted, 0, 40000, , 0, 40000]");
    assert_null(next_message());
    expect_command("0", "GET jobs");
    expect(run(SCRIPT_PERMIT_LOOK, KEYS("jobs", TIMEOUTS, WAITERS), ARGS("9")),
           "[looked, 0, 1, 0, [22222222222252228222222222222222, *, held\n*]]");
    expect_command("held\n\nw.1\n1*\n40000\nnote\n*", "GET " RECORD(B));
    expect_lasts(RECORD(B), 100000);
    expect_command("0", "EXISTS " WAITERS);
    expect_command("1", "GET " RECORD(A));
    expect_lasts(RECORD(A), 60000);
    expect(release(A), "[released, 0, ]");
    /* As after any grant: it is confirmed to the attempt, and withdrawn; or renewed. */
    expect(acquire(B, "w.1", "0", ""), "[granted, 0, *, held\n*, 0]");
    expect(withdraw(B, "w.1"), "1");
    expect_command("1", "GET jobs");
    line_up("1");
    expect(give(A, .id = B), "[granted, *]");
    expect(renew(B), "[held, 0, 40000, *, 0]");
    expect(withdraw(B, "w.1"), "2");
    expect(release(B), "[released, 0, ]");
    expect_command("1", "GET jobs");
    expect_command("0", "EXISTS " TIMEOUTS);
}

/* The waiters behind the new holder sleep until a permit expires. */
static void the_end_that_is_next_is_told(void **state)
{
    (void)state;
    line_up("2");
    redisReply *reply = give(A, .id = B);
    expect(reply, "[granted, 0, 30000, , 0, *]");
    assert_in_range(reply_integer(reply_at(reply, 5)), 15000, 20000); /* of the other permit */
    expect_command("2", "ZCARD " TIMEOUTS);
    listen_to(SEMAPHORE_CHANNEL);
    expect(acquire(C, "w.1", "5000", ""), "[busy, *]");
    expect(give(B, .id = C, .ttl = "9000"), "[granted, 0, 9000, , 0, 9000]");
    assert_string_equal(next_message(), SEMAPHORE_CHANNEL " 1"); /* sooner than any before */
    assert_null(next_message());
}

/* Free permits stay free: their waiters were told of them. */
static void a_permit_is_handed_over_beside_free_ones(void **state)
{
    (void)state;
    line_up("1");
    command("SET jobs 2");
    listen_to(SEMAPHORE_CHANNEL);
    expect(give(A, .id = B), "[granted, 0, 30000, , 2]");
    assert_null(next_message());
    expect_command("2", "GET jobs");
    expect_command("1", "ZCARD " TIMEOUTS);
    expect_command("1", "GET " RECORD(A));
    expect(release(B), "[released, 0, ]");
    expect_command("3", "GET jobs");
}

/* Where permits have expired, are fewer than none, or are no permits. */
static void other_permits_decide(void **state)
{
    (void)state;
    listen_to(SEMAPHORE_CHANNEL);
    line_up("1");
    command("DEL jobs");
    expect_released(give(A, .id = B), "0", "1");
    line_up("1");
    command("DECR jobs");
    expect(give(A, .id = B), "0");
    expect_command("0", "GET jobs");
    assert_null(next_message());
    line_up("2");
    command("ZADD " TIMEOUTS " 1000 other1");
    expect(give(A, .id = B), "0");
    expect_command("2", "GET jobs");
    expect_command("0", "EXISTS " TIMEOUTS);
}

static void a_token_that_was_seen_gets_no_permit_unasked(void **state)
{
    (void)state;
    line_up("1");
    expect(give(A, .id = C, .unseen = "1"), "[granted, 0, 30000, , 0, 30000]");
    expect_command("held\n\nw.1\n1*", "GET " RECORD(C));
    expect_command("1", "ZCARD " WAITERS);
    line_up("1");
    listen_to(SEMAPHORE_CHANNEL);
    expect_released(give(A, .id = B, .unseen = "1"), "0", "1"); /* B waits, perhaps elsewhere */
    line_up("1");
    release(C);
    expect_released(give(A, .id = C, .unseen = "1"), "0", "1");
}

static void a_waiter_that_waits_no_more_gets_no_permit(void **state)
{
    (void)state;
    listen_to(SEMAPHORE_CHANNEL);
    line_up("1");
    withdraw(B, "w.1");
    expect_released(give(A, .id = B), "0", "1");
    expect_command("0", "EXISTS " RECORD(B));
    line_up("1");
    release(B);
    expect_released(give(A, .id = B), "0", "1");
    line_up("1");
    expect_released(give(A, .id = B, .attempt = "w.2"), "0", "1");
    line_up("1");
    acquire(B, "w.2", "5000", ""); /* a second request with the token */
    expect_released(give(A, .id = B, .attempt = "w.2"), "0", "1");
}

static void others_that_listen_are_told_of_a_permit(void **state)
{
    (void)state;
    line_up("1");
    listen_to(SEMAPHORE_CHANNEL); /* the worker's */
    expect(give(A, .id = B, .own_listeners = "1"), "[granted, *]");
    assert_null(next_message());
    line_up("1");
    listen_beside(SEMAPHORE_CHANNEL);
    expect(give(A, .id = B), "[granted, *]");
    line_up("1");
    expect_released(give(A, .id = B, .own_listeners = "1"), "1", "1");
}

static void a_permit_of_a_session_is_handed_over(void **state)
{
    (void)state;
    command("SET jobs 1");
    acquire(A, "w.1", "0", SID);
    acquire(B, "w.1", "5000", "");
    expect(give(A, .id = B), "[" SID ", [granted, 0, 30000, , 0, 30000]]");
    command("FLUSHALL");
    command("SET jobs 1");
    acquire(A, "w.1", "0", SID);
    expect(give(A, .id = B), "[" SID ", 0]");
}

/* The client was told that its permit would last until then. */
static void an_expired_permit_is_not_handed_over(void **state)
{
    static const char expire[] =
        "redis.call('zadd', KEYS[1], redis.call('time')[1] * 1000 - 9, "
        "redis.call('zrange', KEYS[1], 0, 0)[1])";

    (void)state;
    line_up("1");
    command("EVAL %s 1 " TIMEOUTS, expire);
    expect(give(A, .id = B), "nil");
    expect_command("1", "ZCARD " TIMEOUTS);
    expect_command("waiting\n*", "GET " RECORD(B));
}

/* Nothing is done, and nothing has changed: permit_release.lua finds out. */
static void a_lease_without_a_permit_hands_nothing_over(void **state)
{
    (void)state;
    line_up("1");
    expect(give(B, .id = C), "nil"); /* waits itself */
    command("DEL " TIMEOUTS);
    expect(give(A, .id = B), "nil"); /* was lost */
    command("ZADD " TIMEOUTS " 1000 x");
    expect(give(A, .id = B), "nil");
    command("DEL " TIMEOUTS);
    command("SET " TIMEOUTS " text");
    expect(give(A, .id = B), "nil");
    expect_command("0", "GET jobs");
    expect_command("waiting\n*", "GET " RECORD(B));
    line_up("1");
    release(A);
    expect(give(A, .id = B), "nil"); /* has ended */
    expect(give(C, .id = B), "nil"); /* was never there */
    expect_command("1", "GET jobs");
}

static void no_permit_is_granted_without_memory(void **state)
{
    (void)state;
    line_up("1");
    memory_is_short();
    expect(give(A, .id = B), "0");
    memory_is_back();
    expect_command("1", "GET jobs");
    expect_command("1", "GET " RECORD(A));
    expect_command("waiting\n*", "GET " RECORD(B));
}

static void permits_end_without_memory(void **state)
{
    (void)state;
    command("SET jobs 2");
    acquire(A, "w.1", "0", "");
    acquire(B, "w.1", "0", "");
    memory_is_short();
    expect(acquire(C, "w.1", "0", ""), "[busy, *]");
    expect(renew(A), "[held, *]");
    expect(withdraw(B, "w.1"), "1");
    expect(release(A), "[released, 0, ]");
    expect(acquire(C, "w.1", "0", ""), "error: OOM*");
    memory_is_back();
    expect_command("2", "GET jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_permit_lives),
        SCRIPT_TEST(the_last_permit_tells_when_to_look_again),
        SCRIPT_TEST(a_permit_is_lost_or_withdrawn),
        SCRIPT_TEST(a_lease_takes_its_own_expired_permit_only),
        SCRIPT_TEST(a_permit_is_watched_from_its_session),
        SCRIPT_TEST(more_permits_than_java_counts),
        SCRIPT_TEST(a_semaphore_of_permits_has_so_many_waiters),
        SCRIPT_TEST(a_permit_is_handed_over),
        SCRIPT_TEST(a_permit_is_handed_over_beside_free_ones),
        SCRIPT_TEST(the_end_that_is_next_is_told),
        SCRIPT_TEST(other_permits_decide),
        SCRIPT_TEST(a_token_that_was_seen_gets_no_permit_unasked),
        SCRIPT_TEST(a_waiter_that_waits_no_more_gets_no_permit),
        SCRIPT_TEST(others_that_listen_are_told_of_a_permit),
        SCRIPT_TEST(a_permit_of_a_session_is_handed_over),
        SCRIPT_TEST(an_expired_permit_is_not_handed_over),
        SCRIPT_TEST(a_lease_without_a_permit_hands_nothing_over),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(permits_end_without_memory),
        SCRIPT_TEST(no_permit_is_granted_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
