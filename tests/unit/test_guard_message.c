/* The socket between rlock and its guard. */
#include "client/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RLOCK, GUARD };

static void open_pair(int ends[2])
{
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void nothing_then_a_message_then_the_end(void **state)
{
    (void)state;
    struct guard_message order = {.what = GUARD_SIGNAL, .number = 15}, got;
    int ends[2];

    open_pair(ends);
    assert_int_equal(guard_receive(ends[GUARD], &got), 0);
    assert_true(guard_send(ends[RLOCK], &order));
    assert_int_equal(guard_receive(ends[GUARD], &got), 1);
    assert_memory_equal(&got, &order, sizeof(got));
    close(ends[RLOCK]);
    assert_int_equal(guard_receive(ends[GUARD], &got), -1);
    assert_false(guard_send(ends[GUARD], &order));
    close(ends[GUARD]);
}

/* An order that crosses the last message: the kernel then reports a reset first. */
static void the_last_message_arrives_though_an_order_was_not_read(void **state)
{
    (void)state;
    struct guard_message order = {.what = GUARD_DEADLINE}, news = {.what = GUARD_ENDED}, got;
    int ends[2];

    open_pair(ends);
    assert_true(guard_send(ends[RLOCK], &order));
    assert_true(guard_send(ends[GUARD], &news));
    close(ends[GUARD]);
    assert_int_equal(guard_receive(ends[RLOCK], &got), 1);
    assert_int_equal(got.what, GUARD_ENDED);
    assert_int_equal(guard_receive(ends[RLOCK], &got), -1);
    close(ends[RLOCK]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_then_a_message_then_the_end),
        cmocka_unit_test(the_last_message_arrives_though_an_order_was_not_read)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
