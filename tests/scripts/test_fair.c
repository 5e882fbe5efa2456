/* fair_acquire.lua, and what the other scripts do with the queue of a fair lock. */
#include <stdlib.h>
#include <string.h>

#include "lock_home.h"

#define fair(...) ask(.kind = "fair", __VA_ARGS__)
#define D "44444444-4444-5444-8444-444444444444"

static const char *from_now(int64_t ms)
{
    return text("%lld", (long long)(redis_now_ms() + ms));
}

static void a_free_lock_is_granted(void **state)
{
    (void)state;
    token_of(fair(.id = A));
    expect(command("HGETALL jobs"), "[" A ":0, 1]");
    expect_lasts(COUNTER, 86400000);
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES);
    expect(ask(.id = B), "[wrong-kind]");
    expect(fair(.id = B), "[busy, *, " A ":0, 1, held\n*\nfair\n, ]");
    expect(lock_renew(A, "40000"), "[held, *, 40000, *, 1]");
    expect(lock_release(A), "[released, 0, ]");
}

/* A holds the lock, and B and C wait for it. */
static void hold_and_let_two_wait(void)
{
    fair(.id = A);
    fair(.id = B, .wait = "5000");
    fair(.id = C, .wait = "5000");
}

static void first_come_first_served(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
    expect_lasts(QUEUE, 86400000);
    expect_lasts(TIMES, 86400000);
    expect_lasts(PLACES, 86400000);
    listen_to(CHANNEL ":" B ":0");
    lock_release(A);
    assert_string_equal(next_message(), CHANNEL ":" B ":0 0");
    expect(fair(.id = C, .registered = "1", .wait = "5000"), "[busy, *, " B ":0, 0, , ]");
    int64_t before = reply_integer(command("ZSCORE " TIMES " " C ":0"));
    token_of(fair(.id = B, .registered = "1"));
    expect_command("[" C ":0]", "LRANGE " QUEUE " 0 -1");
    expect_command("[" C "]", "ZRANGE " PLACES " 0 -1");
    expect(fair(.id = C, .registered = "1", .wait = "5000"), "[busy, *, " B ":0, 1, *]");
    assert_in_range(reply_integer(command("ZSCORE " TIMES " " C ":0")), before - 300000,
                    before - 200000);
}

/* The first of the queue is called, and Redis has no memory for its grant. */
static void a_place_is_kept_without_memory(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    lock_release(A);
    memory_is_short();
    expect(fair(.id = B, .registered = "1", .wait = "5000"), "error: OOM*");
    expect(fair(.id = C, .registered = "1", .wait = "5000"), "[busy, *]");
    memory_is_back();
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
    token_of(fair(.id = B, .registered = "1", .wait = "5000"));
}

/* Java clients have emptied the queue, and know nothing of the key of the places: the TTL of a
 * new queue does not depend on that key. The key itself may be new while the queue is not. */
static void a_new_queue_has_a_ttl(void **state)
{
    (void)state;
    fair(.id = A);
    command("ZADD " PLACES " 1 " D);
    command("PEXPIRE " PLACES " 86400000");
    fair(.id = B, .wait = "5000");
    expect_lasts(QUEUE, 86400000);
    expect_lasts(TIMES, 86400000);
    command("PEXPIRE " PLACES " 1000");
    fair(.id = C, .wait = "5000");
    expect_lasts(PLACES, 86400000);
}

/* B waits alone, and a Java client has lowered its time: C's attempt gives B a new one, and the
 * list lasts as long as the times. */
static void a_new_time_keeps_the_ttl(void **state)
{
    (void)state;
    fair(.id = A);
    fair(.id = B, .wait = "5000");
    command("ZADD " TIMES " 1 " B ":0");
    expect(fair(.id = C), "[busy, *]");
    assert_true(reply_integer(command("ZSCORE " TIMES " " B ":0")) > redis_now_ms());
    expect_lasts(TIMES, 86400000);
}

/* Of a Java client: no request of rlockd that waits extends the list. */
static void a_new_time_of_java_keeps_the_list(void **state)
{
    (void)state;
    fair(.id = A);
    command("RPUSH " QUEUE " 44444444-4444-4444-8444-444444444444:1");
    command("PEXPIRE " QUEUE " 8000");
    expect(fair(.id = C), "[busy, *]");
    assert_true(
        reply_integer(command("ZSCORE " TIMES " 44444444-4444-4444-8444-444444444444:1")) >
        redis_now_ms());
    expect_lasts(QUEUE, 86400000);
    expect_lasts(TIMES, 86400000);
}

/* Java clients that died: each call takes out some, and none of them is given time. */
static void a_long_dead_queue_goes(void **state)
{
    (void)state;
    int calls = 1;

    for (int i = 0; i < 250; i++) {
        command("RPUSH " QUEUE " 44444444-4444-4444-8444-444444444444:%d", i);
        command("ZADD " TIMES " %d 44444444-4444-4444-8444-444444444444:%d", i + 1, i);
    }
    while (reply_at(fair(.id = A), 0)->str[0] == 'b')
        assert_true(++calls < 5);
    assert_int_equal(calls, 3);
    expect_command("0", "EXISTS " QUEUE " " TIMES);
}

static void a_place_outlasts_its_request(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    expect(lock_withdraw(B, "w.1", "1"), "0");
    expect_command("waiting\nplace\n\n*", "GET " RECORD(B));
    expect_command("[" C "]", "ZRANGE " WAITERS " 0 -1");
    listen_to(CHANNEL ":" C ":0"); /* the head does not hear it, the next waiter is told, too */
    lock_release(A);
    assert_string_equal(next_message(), CHANNEL ":" C ":0 0");
    redisReply *reply = fair(.id = C, .registered = "1", .wait = "5000");
    expect(reply, "[busy, *, " B ":0, 0, , ]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 10000, 15000);
    token_of(fair(.id = B, .attempt = "w.2"));
}

/* However many places without a request are before it: the first waiter is told. */
static void the_first_waiter_behind_many_places_is_told(void **state)
{
    (void)state;
    fair(.id = A);
    for (int i = 0; i < 250; i++) {
        const char *id = text("%08x-4444-5444-8444-444444444444", (unsigned)i);
        command("RPUSH " QUEUE " %s:0", id);
        command("ZADD " TIMES " %s %s:0", from_now(900000), id);
        command("ZADD " PLACES " %s %s", from_now(9000), id);
    }
    fair(.id = C, .wait = "5000");
    listen_to(CHANNEL ":" C ":0");
    lock_release(A);
    const char *message = next_message();
    assert_non_null(message);
    assert_string_equal(message, CHANNEL ":" C ":0 0");
}

static void a_place_is_over_without_requests(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    command("ZADD " PLACES " %s " B, from_now(-10));
    lock_release(A);
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
    token_of(fair(.id = C, .registered = "1"));
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES);
}

/* No request could ask for the place, unless the place was over before Redis was lost. */
static void a_place_is_spared_that_was_good_when_redis_was_lost(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    command("ZADD " PLACES " %s " B, from_now(-10000));
    lock_release(A);
    expect(fair(.id = C, .registered = "1", .lost = "60000"), "[busy, *, " B ":0, 0, , ]");
    token_of(fair(.id = C, .registered = "1", .lost = "5000"));
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES);
}

static void a_waiter_gives_up(void **state)
{
    (void)state;
    fair(.id = A);
    fair(.id = B, .wait = "5000");
    expect(lock_release(B), "[released, 0, ]");
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES " " WAITERS);
}

static void a_dead_java_head_has_no_more_than_its_time(void **state)
{
    (void)state;
    command("RPUSH " QUEUE " %s", JAVA);
    command("ZADD " TIMES " %s %s", from_now(9000000), JAVA);
    redisReply *reply = fair(.id = A, .wait = "5000");
    expect(reply, "[busy, *, " JAVA ", 0, , ]");
    assert_in_range(reply_integer(reply_at(reply, 1)), 290000, 300000);
    command("ZADD " TIMES " %s %s", from_now(-1), JAVA);
    token_of(fair(.id = A, .registered = "1"));
}

static void few_waiters_behind_are_touched(void **state)
{
    (void)state;
    fair(.id = A);
    fair(.id = B, .wait = "5000");
    const char *time = from_now(9000000);
    for (int i = 0; i < 150; i++) {
        command("RPUSH " QUEUE " 44444444-4444-4444-8444-444444444444:%d", i);
        command("ZADD " TIMES " %s 44444444-4444-4444-8444-444444444444:%d", time, i);
    }
    fair(.id = C, .wait = "5000"); /* as if all had come just now */
    int64_t least = redis_now_ms() + 152 * 300000;
    assert_in_range(reply_integer(command("ZSCORE " TIMES " " C ":0")), least, least + 30000);
    lock_release(B);
    expect_command("100", "ZCOUNT " TIMES " -inf (%s", time);
}

/* Where only waiters of ours are in the queue, one that leaves costs the others nothing: each
 * request sets the time of its own place right, which Java clients would reckon on from. */
static void a_request_sets_its_time_right_among_ours(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    fair(.id = D, .wait = "5000");
    int64_t second = reply_integer(command("ZSCORE " TIMES " " C ":0"));
    int64_t last = reply_integer(command("ZSCORE " TIMES " " D ":0"));
    lock_withdraw(B, "w.1", "");
    assert_int_equal(reply_integer(command("ZSCORE " TIMES " " D ":0")), last);
    expect(fair(.id = D, .registered = "1", .wait = "5000"), "[busy, *, " A ":0, 1, *]");
    assert_in_range(reply_integer(command("ZSCORE " TIMES " " D ":0")), last - 300050,
                    last - 200000);
    assert_int_equal(reply_integer(command("ZSCORE " TIMES " " C ":0")), second);
    command("ZADD " TIMES " %s " D ":0", from_now(-1)); /* a Java client's doing */
    fair(.id = D, .registered = "1", .wait = "5000");
    assert_in_range(reply_integer(command("ZSCORE " TIMES " " D ":0")), last - 300050,
                    last - 200000);
}

/* --- visits of the watchdog ----------------------------------------------------------- */

static redisReply *visit(const char *lost_ms)
{
    return run(SCRIPT_QUEUE_VISIT, KEYS("jobs"), ARGS(lost_ms));
}

/* A Java client waits behind B and C. */
static void hold_and_let_java_wait(void)
{
    hold_and_let_two_wait();
    command("RPUSH " QUEUE " %s", JAVA);
    command("ZADD " TIMES " %s %s", from_now(930000), JAVA);
    listen_to(CHANNEL ":" JAVA);
}

static void a_place_ends(const char *id)
{
    command("ZADD " PLACES " %s %s", from_now(-10), id);
}

static void a_visit_leaves_places_that_last(void **state)
{
    (void)state;
    hold_and_let_java_wait();
    int64_t time = reply_integer(command("ZSCORE " TIMES " " B ":0"));
    assert_in_range(reply_integer(visit(NULL)), 10000, 15000);
    lock_release(A);
    assert_in_range(reply_integer(visit(NULL)), 10000, 15000);
    expect_command("[" B ":0, " C ":0, " JAVA "]", "LRANGE " QUEUE " 0 -1");
    assert_null(next_message());
    assert_true(reply_integer(command("ZSCORE " TIMES " " B ":0")) <= time);
    expect_command("1", "ZCOUNT " TIMES " %s +inf", from_now(900000)); /* Java's */
}

static void a_visit_removes_places_that_are_over(void **state)
{
    (void)state;
    hold_and_let_java_wait();
    a_place_ends(C); /* not the head */
    assert_in_range(reply_integer(visit(NULL)), 10000, 15000);
    expect_command("[" B ":0, " JAVA "]", "LRANGE " QUEUE " 0 -1");
    expect_command("[" B ":0, " JAVA "]", "ZRANGE " TIMES " 0 -1");
    expect_command("[" B "]", "ZRANGE " PLACES " 0 -1");
    lock_release(A);
    a_place_ends(B);
    expect(visit(NULL), "-1");
    expect_command("[" JAVA "]", "LRANGE " QUEUE " 0 -1");
    expect_command("0", "EXISTS " PLACES);
    assert_string_equal(next_message(), CHANNEL ":" JAVA " 0");
    assert_null(next_message());
}

/* It would ask without a pause until the place is over. */
static void java_is_not_told_behind_a_kept_place(void **state)
{
    (void)state;
    hold_and_let_java_wait();
    lock_withdraw(B, "w.1", "1");
    lock_withdraw(C, "w.1", "1");
    lock_release(A);
    assert_null(next_message());
    a_place_ends(B);
    visit(NULL);
    assert_null(next_message());
    a_place_ends(C);
    visit(NULL);
    assert_string_equal(next_message(), CHANNEL ":" JAVA " 0");
}

/* Java sleeps for as long as the places before it might have taken, and no message comes. */
static void a_visit_tells_java_of_a_lease_that_ended(void **state)
{
    (void)state;
    hold_and_let_java_wait();
    a_place_ends(B);
    a_place_ends(C);
    command("PEXPIRE jobs 7000");
    assert_in_range(reply_integer(visit(NULL)), 5000, 7000);
    command("PEXPIRE jobs " LONGEST);
    expect(visit(NULL), "86400000");
    assert_null(next_message());
    command("DEL jobs");
    expect(visit(NULL), "-1");
    assert_string_equal(next_message(), CHANNEL ":" JAVA " 0");
}

/* As a request does: see a_place_is_spared_that_was_good_when_redis_was_lost. */
static void a_visit_spares_places_after_redis_was_lost(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    command("ZADD " PLACES " %s " B, from_now(-10000));
    lock_release(A);
    expect(visit("60000"), "1000"); /* another front end need not spare it */
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
    visit("5000");
    expect_command("[" C ":0]", "LRANGE " QUEUE " 0 -1");
}

static void a_visit_removes_so_many_places(void **state)
{
    (void)state;
    fair(.id = A);
    for (int i = 0; i < 250; i++) {
        const char *id = text("%08x-4444-5444-8444-444444444444", (unsigned)i);
        command("RPUSH " QUEUE " %s:0", id);
        command("ZADD " TIMES " %s %s:0", from_now(900000), id);
        a_place_ends(id);
    }
    for (int left = 200; left > 0; left -= 50) {
        expect(visit(NULL), "1000");
        expect(command("LLEN " QUEUE), text("%d", left));
    }
    expect(visit(NULL), "-1");
    expect_command("0", "EXISTS " QUEUE " " TIMES " " PLACES);
    expect(visit(NULL), "-1");
    command("SET " QUEUE " other");
    expect(visit(NULL), "-1");
}

static void a_lock_has_so_many_places(void **state)
{
    (void)state;
    fair(.id = A);
    for (int i = 0; i < 1000; i++)
        command("RPUSH " QUEUE " 44444444-4444-4444-8444-444444444444:%d", i);
    expect(fair(.id = B, .wait = "5000"), "[too-many]");
    expect_command("0", "EXISTS " RECORD(B) " " WAITERS);
    expect(fair(.id = B), "[busy, *]");
}

static void owners_of_fair_locks_are_told_apart(void **state)
{
    (void)state;
    fair(.id = A, .session = SID, .owner = "me");
    expect_command(SID ":me\nfair\nhost/1", "GET " OWNER);
    expect(ask(.id = B, .session = SID, .owner = "me"), "[wrong-kind]");
    expect(fair(.id = B, .session = SID, .owner = "me"), "[granted, *, 30000, , 2]");
}

static void a_queue_is_left_without_memory(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    fair(.id = D, .wait = "5000");
    a_place_ends(D);
    memory_is_short();
    expect(lock_withdraw(B, "w.1", "1"), "0");
    visit(NULL);
    expect_command("[" B ":0, " C ":0]", "LRANGE " QUEUE " 0 -1");
    expect(lock_release(C), "[released, 0, ]");
    expect(lock_release(A), "[released, 0, ]");
    memory_is_back();
    token_of(fair(.id = B));
}

static void expect_message(const char *beginning)
{
    const char *message = next_message();

    assert_non_null(message);
    assert_memory_equal(message, beginning, strlen(beginning));
}

/* Whoever becomes the first that waits learns of a lease that ends before the next poll. */
static void the_next_learns_the_end(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    listen_to(CHANNEL ":" C ":0");
    lock_release(A);
    token_of(fair(.id = B, .registered = "1", .ttl = "700"));
    assert_string_equal(next_message(), CHANNEL ":" C ":0 held 700");
    assert_null(next_message());
    lock_release(B);
    assert_string_equal(next_message(), CHANNEL ":" C ":0 0");
    /* Behind one that leaves, and one whose place is kept. */
    command("FLUSHALL");
    listen_to(CHANNEL ":" D ":0");
    fair(.id = A, .ttl = "5500");
    fair(.id = B, .wait = "5000");
    fair(.id = C, .wait = "5000");
    fair(.id = D, .wait = "5000");
    lock_withdraw(B, "w.1", "");
    expect_message(CHANNEL ":" C ":0 held 5");
    lock_withdraw(C, "w.1", "1");
    expect_message(CHANNEL ":" D ":0 held 5");
    assert_null(next_message());
}

/* One that lasts longer is told of by the polls. */
static void a_long_lease_costs_no_message(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    listen_to(CHANNEL ":" C ":0");
    lock_release(A);
    token_of(fair(.id = B, .registered = "1", .ttl = "6000"));
    assert_null(next_message());
}

/* A Java client that waits behind a long lease sleeps until the queue says that it is next. */
static void the_queue_outlasts_the_longest_lease(void **state)
{
    static const char *const keys[] = {QUEUE, TIMES, PLACES};

    (void)state;
    token_of(fair(.id = A, .ttl = LONGEST));
    expect_lasts(COUNTER, LONGEST_MS + 60000);
    fair(.id = B, .wait = "5000");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        expect_lasts(keys[i], LONGEST_MS + 86400000);
    command("RPUSH " QUEUE " " JAVA);
    command("ZADD " TIMES " %s " JAVA, from_now(LONGEST_MS));
    /* Granted to a waiter, by the end of the lease and by a hand-over, and renewed. */
    lock_release(A);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        command("PEXPIRE %s 86400000", keys[i]);
    token_of(fair(.id = B, .registered = "1", .ttl = LONGEST));
    expect_lasts(QUEUE, LONGEST_MS + 86400000);
    command("PEXPIRE " QUEUE " 86400000");
    expect(lock_renew(B, LONGEST), "[held, *]");
    expect_lasts(QUEUE, LONGEST_MS + 86400000);
    expect_command("[" JAVA "]", "LRANGE " QUEUE " 0 -1");
}

static void a_queue_handed_over_outlasts_the_longest_lease(void **state)
{
    (void)state;
    hold_and_let_two_wait();
    expect_lasts(QUEUE, 86400000);
    token_of(hand_over(A, .id = B, .kind = "fair", .ttl = LONGEST));
    expect_lasts("jobs", LONGEST_MS);
    expect_lasts(COUNTER, LONGEST_MS + 60000);
    expect_lasts(QUEUE, LONGEST_MS + 86400000);
    expect_lasts(TIMES, LONGEST_MS + 86400000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_free_lock_is_granted),
        SCRIPT_TEST(first_come_first_served),
        SCRIPT_TEST(a_new_queue_has_a_ttl),
        SCRIPT_TEST(a_new_time_keeps_the_ttl),
        SCRIPT_TEST(a_new_time_of_java_keeps_the_list),
        SCRIPT_TEST(a_long_dead_queue_goes),
        SCRIPT_TEST(a_place_outlasts_its_request),
        SCRIPT_TEST(the_first_waiter_behind_many_places_is_told),
        SCRIPT_TEST(a_place_is_over_without_requests),
        SCRIPT_TEST(a_place_is_spared_that_was_good_when_redis_was_lost),
        SCRIPT_TEST(a_waiter_gives_up),
        SCRIPT_TEST(a_dead_java_head_has_no_more_than_its_time),
        SCRIPT_TEST(few_waiters_behind_are_touched),
        SCRIPT_TEST(a_request_sets_its_time_right_among_ours),
        SCRIPT_TEST(a_visit_leaves_places_that_last),
        SCRIPT_TEST(a_visit_removes_places_that_are_over),
        SCRIPT_TEST(java_is_not_told_behind_a_kept_place),
        SCRIPT_TEST(a_visit_tells_java_of_a_lease_that_ended),
        SCRIPT_TEST(a_visit_spares_places_after_redis_was_lost),
        SCRIPT_TEST(a_visit_removes_so_many_places),
        SCRIPT_TEST(a_lock_has_so_many_places),
        SCRIPT_TEST(owners_of_fair_locks_are_told_apart),
        SCRIPT_TEST(the_next_learns_the_end),
        SCRIPT_TEST(a_long_lease_costs_no_message),
        SCRIPT_TEST(the_queue_outlasts_the_longest_lease),
        SCRIPT_TEST(a_queue_handed_over_outlasts_the_longest_lease),
    };
    const struct CMUnitTest memory_tests[] = {
        SCRIPT_TEST(a_queue_is_left_without_memory),
        SCRIPT_TEST(a_place_is_kept_without_memory),
    };

    return run_on_both(tests, memory_tests);
}
