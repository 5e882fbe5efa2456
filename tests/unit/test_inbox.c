/* server/base/inbox.c: messages of other threads arrive once each and in order, wake a loop
 * that sleeps, and are bounded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "server/base/clock.h"
#include "server/base/inbox.h"

enum { SENDERS = 4, EACH = 20000, WAIT_S = 60 };

struct numbered {
    struct inbox_message message;
    unsigned sender, number;
};

static struct loop *loop;
static struct inbox *inbox;
static struct numbered messages[SENDERS][EACH];
static unsigned next_of[SENDERS], delivered, wanted;

static void deliver(struct inbox_message *message)
{
    const struct numbered *numbered = (const struct numbered *)message;

    assert_int_equal(numbered->number, next_of[numbered->sender]);
    next_of[numbered->sender]++;
    delivered++;
    if (delivered == wanted)
        loop_stop(loop);
}

static struct numbered *prepare(unsigned sender, unsigned number)
{
    struct numbered *numbered = &messages[sender][number];

    *numbered = (struct numbered){
        .message = {.deliver = deliver}, .sender = sender, .number = number};
    return numbered;
}

static int set_up(void **state)
{
    (void)state;
    loop = loop_new();
    inbox = loop != NULL ? inbox_new(loop) : NULL;
    for (size_t i = 0; i < SENDERS; i++)
        next_of[i] = 0;
    delivered = wanted = 0;
    return inbox == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    inbox_free(inbox);
    loop_free(loop);
    return 0;
}

static void give_up(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

static void run_until_delivered(unsigned count)
{
    struct timer deadline = {.fire = give_up};

    wanted = count;
    timer_arm(loop_timers(loop), &deadline, clock_ns() + WAIT_S * CLOCK_NS_PER_S);
    loop_run(loop);
    timer_cancel(loop_timers(loop), &deadline);
    assert_int_equal(delivered, count);
}

/* Alternates between the two ways in; one is tried again while the inbox is full. */
static void *send_all(void *arg)
{
    unsigned sender = *(const unsigned *)arg;

    for (unsigned i = 0; i < EACH; i++) {
        struct numbered *numbered = prepare(sender, i);
        if (i % 2 == 0)
            inbox_return(inbox, &numbered->message);
        else
            while (!inbox_post(inbox, &numbered->message))
                sched_yield();
    }
    return NULL;
}

static void messages_of_threads_arrive_once_and_in_order(void **state)
{
    pthread_t threads[SENDERS];
    unsigned numbers[SENDERS];

    (void)state;
    for (unsigned i = 0; i < SENDERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &numbers[i]), 0);
    }
    run_until_delivered(SENDERS * EACH);
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
}

static void full_inbox_refuses_but_for_what_comes_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < INBOX_MAX; i++)
        assert_true(inbox_post(inbox, &prepare(0, i)->message));
    assert_false(inbox_post(inbox, &prepare(0, INBOX_MAX)->message));
    inbox_return(inbox, &prepare(0, INBOX_MAX)->message);
    assert_int_equal(delivered, 0);
    run_until_delivered(INBOX_MAX + 1);
    assert_true(inbox_post(inbox, &prepare(0, INBOX_MAX + 1)->message));
    run_until_delivered(INBOX_MAX + 2);
}

static void closed_inbox_delivers_what_is_there(void **state)
{
    (void)state;
    assert_true(inbox_post(inbox, &prepare(0, 0)->message));
    inbox_close(inbox);
    assert_false(inbox_post(inbox, &prepare(0, 1)->message));
    inbox_return(inbox, &prepare(0, 1)->message);
    inbox_deliver(inbox);
    assert_int_equal(delivered, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_of_threads_arrive_once_and_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(full_inbox_refuses_but_for_what_comes_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(closed_inbox_delivers_what_is_there, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
