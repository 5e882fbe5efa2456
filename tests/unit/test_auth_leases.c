/* The leases that count against a caller's limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/http/auth_leases.h"

#define SESSION "599c558f-300f-5eb2-ad93-a562f0c841c1"
#define OTHER "0c9a8d2b-6f06-5a3c-8f9d-5b8a51d4d8aa"

enum { MAX = 2 };

static struct auth_leases *leases;
static int64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    leases = auth_leases_new();
    now_ns = CLOCK_NS_PER_S;
    return leases == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    auth_leases_free(leases);
    return 0;
}

static struct auth_lease_key key(char name)
{
    struct auth_lease_key key;

    memset(key.bytes, name, sizeof(key.bytes));
    return key;
}

static void pass_ms(int64_t ms)
{
    now_ns += ms * CLOCK_NS_PER_MS;
}

static bool attempt(char name, const char *session_id)
{
    char id[TOKEN_TEXT_SIZE] = "";
    const struct auth_lease_key wanted = key(name);

    memcpy(id, session_id, strlen(session_id) + 1);
    return auth_leases_attempt(leases, MAX, &wanted, id, now_ns);
}

static void attempt_ended(char name)
{
    const struct auth_lease_key ended = key(name);

    auth_leases_attempt_ended(leases, &ended);
}

static struct auth_lease_hold hold_of(char name, int64_t remaining_ms, bool watchdog)
{
    return (struct auth_lease_hold){key(name), remaining_ms, watchdog};
}

static void held(char name, int64_t remaining_ms, bool watchdog)
{
    const struct auth_lease_hold hold = hold_of(name, remaining_ms, watchdog);

    auth_leases_held(leases, &hold, now_ns);
}

/* Granted, and its attempt is answered. */
static void grant(char name, const char *session_id, int64_t remaining_ms)
{
    assert_true(attempt(name, session_id));
    held(name, remaining_ms, session_id[0] != '\0');
    attempt_ended(name);
}

static void over(char name, int64_t since_ns)
{
    const struct auth_lease_key ended = key(name);

    auth_leases_over(leases, &ended, since_ns);
}

/* How many further leases the caller may have now. */
static void expect_room(int room)
{
    int found = 0;

    while (attempt((char)('0' + found), ""))
        found++;
    for (int i = 0; i < found; i++)
        attempt_ended((char)('0' + i));
    assert_int_equal(found, room);
}

static void attempts_and_leases_count(void **state)
{
    (void)state;
    assert_true(attempt('a', ""));
    assert_true(attempt('b', ""));
    assert_false(attempt('c', ""));
    assert_true(attempt('a', "")); /* the same lease once more */
    attempt_ended('a');
    assert_false(attempt('c', ""));
    attempt_ended('a'); /* refused */
    held('b', 1000, false);
    attempt_ended('b');
    expect_room(1);
    grant('c', "", 1000);
    assert_true(attempt('b', "")); /* what is held may be asked for again */
    attempt_ended('b');
    expect_room(0);
}

static void a_lease_counts_until_its_end(void **state)
{
    (void)state;
    grant('a', "", 100);
    grant('b', "", 200);
    expect_room(0);
    pass_ms(99);
    expect_room(0);
    pass_ms(1);
    expect_room(1);
    held('b', 1000, false); /* renewed */
    pass_ms(999);
    expect_room(1);
    pass_ms(1);
    expect_room(2);
    held('b', 1000, false); /* is not counted, and stays so */
    expect_room(2);
    grant('c', "", -1); /* without end */
    pass_ms(1000000000);
    expect_room(1);
}

/* Times that only an operator can have set. */
static void a_time_of_centuries_ends_nothing(void **state)
{
    (void)state;
    grant('a', "", INT64_MAX / CLOCK_NS_PER_MS);
    grant('b', SESSION, INT64_MAX);
    pass_ms(100000);
    expect_room(0);
}

static void an_end_that_came_before_a_grant_is_none(void **state)
{
    (void)state;
    grant('a', "", 1000);
    over('a', now_ns - 1);
    expect_room(1);
    over('a', now_ns);
    expect_room(2);
    over('a', now_ns);
    assert_true(attempt('b', "")); /* an attempt under way counts on */
    held('b', 1000, false);
    over('b', now_ns);
    expect_room(1);
    attempt_ended('b');
    expect_room(2);
}

static void a_session_keeps_its_leases(void **state)
{
    (void)state;
    auth_leases_session_open(leases, MAX, SESSION, 1000, now_ns);
    grant('a', SESSION, 100);
    pass_ms(900);
    expect_room(1);
    auth_leases_session_open(leases, MAX, SESSION, 1000, now_ns);
    pass_ms(999);
    expect_room(1);
    pass_ms(1);
    expect_room(2);
    grant('b', OTHER, 100); /* nothing is known of the session */
    pass_ms(99);
    expect_room(1);
    pass_ms(1);
    expect_room(2);
}

static void a_keep_alive_corrects_the_count(void **state)
{
    struct auth_lease_hold holds[1];

    (void)state;
    auth_leases_session_open(leases, MAX, SESSION, 10000, now_ns);
    grant('a', SESSION, 100);
    pass_ms(10);
    int64_t asked_ns = now_ns;
    pass_ms(10);
    grant('b', SESSION, 100); /* too late to be listed */
    holds[0] = hold_of('a', 50, true);
    auth_leases_session_holds(leases, SESSION, holds, 1, asked_ns, now_ns);
    expect_room(0);
    holds[0] = hold_of('b', 50, true);
    pass_ms(10);
    auth_leases_session_holds(leases, SESSION, holds, 1, now_ns, now_ns);
    expect_room(1);
    auth_leases_session_holds(leases, OTHER, NULL, 0, now_ns, now_ns);
    expect_room(1);
}

static void the_end_of_a_session_ends_its_leases(void **state)
{
    (void)state;
    auth_leases_session_open(leases, MAX, SESSION, 10000, now_ns);
    grant('a', SESSION, 100);
    grant('b', "", 1000);
    auth_leases_session_ended(leases, SESSION);
    expect_room(1);
    auth_leases_session_ended(leases, SESSION);
    over('b', now_ns);
    assert_true(attempt('a', SESSION)); /* an attempt under way counts on */
    auth_leases_session_ended(leases, SESSION);
    expect_room(1);
    attempt_ended('a');
    expect_room(2);
}

/* Sessions without leases are noted up to a bound, and none for ever. */
static void sessions_without_leases_are_bounded(void **state)
{
    char id[TOKEN_TEXT_SIZE] = SESSION;

    (void)state;
    for (char c = '0'; c <= '9'; c++) {
        id[0] = c;
        auth_leases_session_open(leases, MAX, id, 1000, now_ns);
    }
    grant('a', id, 100); /* its session is not among them */
    pass_ms(100);
    expect_room(2);
    pass_ms(900);
    expect_room(2);
    auth_leases_session_open(leases, MAX, id, 1000, now_ns);
    grant('a', id, 100);
    pass_ms(999);
    expect_room(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attempts_and_leases_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lease_counts_until_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_time_of_centuries_ends_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_came_before_a_grant_is_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_session_keeps_its_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_keep_alive_corrects_the_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_a_session_ends_its_leases, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(sessions_without_leases_are_bounded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
