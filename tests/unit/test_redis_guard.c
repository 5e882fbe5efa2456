/* storage/redis/guard.c: whatever Redis sends, rlockd stays and connects again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_redis.h"
#include "storage/redis/subscriber.h"

enum { NO_MESSAGE_MS = 100 };

struct meeting {
    struct fake_redis_client side;
    bool was_up, was_down;
};

static void on_up(void *arg)
{
    struct meeting *meeting = arg;

    meeting->was_up = true;
}

static void on_down(void *arg)
{
    struct meeting *meeting = arg;

    meeting->was_down = true;
    loop_stop(meeting->side.loop);
}

static void on_no_push(void *arg, enum link_push push, const char *channel, size_t channel_len,
                       const char *payload, size_t payload_len)
{
    (void)arg;
    (void)push;
    (void)channel;
    (void)channel_len;
    (void)payload;
    (void)payload_len;
}

static bool awaits_heart(void *arg, const char *channel, size_t len)
{
    (void)arg;
    return len == 5 && memcmp(channel, "heart", 5) == 0;
}

struct subscribing {
    struct meeting meeting; /* first: on_down() gets it */
    struct redis_link *link;
};

static void on_up_subscribe(void *arg)
{
    struct subscribing *subscribing = arg;

    subscribing->meeting.was_up = true;
    assert_int_equal(redis_link_subscribe(subscribing->link, "heart", 5), 0);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

static void on_up_ping(void *arg)
{
    static const char *const argv[] = {"PING"};
    static const size_t lens[] = {4};
    const struct redis_command ping = {.argc = 1, .argv = argv, .lens = lens};
    struct subscribing *subscribing = arg;

    subscribing->meeting.was_up = true;
    redis_link_command(subscribing->link, &ping, on_reply, NULL);
}

static void (*up_of(const char *after))(void *arg)
{
    if (after == NULL)
        return on_up;
    return strcmp(after, "PING") == 0 ? on_up_ping : on_up_subscribe;
}

/* True when the connection was given up because of what came. */
static bool is_refused(const char *after, const char *then)
{
    struct fake_redis liar = {.after = after, .then = then};
    struct subscribing subscribing = {0};
    struct meeting *meeting = &subscribing.meeting;

    fake_redis_start(&liar);
    fake_redis_client_init(&meeting->side, &liar);
    const struct redis_link_options options = {.url = &meeting->side.url,
                                               .loop = meeting->side.loop,
                                               .metrics = &meeting->side.metrics,
                                               .up = up_of(after),
                                               .down = on_down,
                                               .arg = &subscribing};
    subscribing.link = redis_link_new(&options);
    redis_link_on_push(subscribing.link, on_no_push, awaits_heart, NULL);
    loop_run(meeting->side.loop);
    bool is_told = strstr(redis_link_down_reason(subscribing.link),
                          "unexpected or malformed") != NULL;
    redis_link_free(subscribing.link);
    fake_redis_client_release(&meeting->side);
    fake_redis_stop(&liar);
    return meeting->was_up && meeting->was_down && is_told;
}

static void answers_to_nothing_end_the_connection(void **state)
{
    static const char *const answers[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*3\r\n$7\r\nmessage\r\n$5\r\nheart\r\n$1\r\n0\r\n",
        "*1073741824\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (!is_refused(NULL, answers[i]))
            fail_msg("was not refused: %s", answers[i]);
}

static void messages_of_a_wrong_form_end_the_connection(void **state)
{
    static const char *const messages[] = {
        "*0\r\n",
        "*1\r\n$7\r\nmessage\r\n",
        "*2\r\n$7\r\nmessage\r\n$5\r\nheart\r\n",
        "*3\r\n:1\r\n$5\r\nheart\r\n$1\r\n0\r\n",
        "*3\r\n$7\r\nmessage\r\n:1\r\n$1\r\n0\r\n",
        "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\n0\r\n",
        "*3\r\n$7\r\nmessage\r\n*1\r\n:1\r\n$1\r\n0\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$5\r\nheart\r\n$1\r\n0\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
        "*3\r\n$10\r\npsubscribe\r\n$5\r\nheart\r\n:1\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$5\r\nheart\r\n$1\r\n0\r\n",
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*1048577\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
        if (!is_refused("SUBSCRIBE", messages[i]))
            fail_msg("was not refused: %s", messages[i]);
}

static void reply_of_too_many_elements_ends_the_connection(void **state)
{
    (void)state;
    assert_true(is_refused("PING", "*1048577\r\n"));
    assert_true(is_refused("PING", "*1\r\n*1048577\r\n"));
}

/* --- a channel that is left before it is subscribed to ------------------------------------ */

struct listening {
    struct loop *loop;
    struct subscriber *subscriber;
    struct subscription stays, leaves;
    bool is_told;
};

static void on_ready_leave(void *arg)
{
    struct listening *listening = arg;

    subscriber_remove(listening->subscriber, &listening->leaves);
}

static void on_told(void *arg, const char *payload, size_t len)
{
    struct listening *listening = arg;

    (void)payload;
    (void)len;
    listening->is_told = true;
    loop_stop(listening->loop);
}

static void run_listening(struct listening *listening, struct meeting *meeting)
{
    const struct redis_link_options commands = {.url = &meeting->side.url,
                                                .loop = meeting->side.loop,
                                                .metrics = &meeting->side.metrics,
                                                .up = on_up,
                                                .down = on_down,
                                                .arg = meeting};
    struct redis_link *link = redis_link_new(&commands);

    redis_link_stop(link);
    *listening = (struct listening){
        .loop = meeting->side.loop,
        .subscriber = subscriber_new(
            &(struct subscriber_options){.url = &meeting->side.url,
                                         .loop = meeting->side.loop,
                                         .metrics = &meeting->side.metrics,
                                         .commands = link,
                                         .heartbeat_channel = "heart"}),
        .stays = {.ready = on_ready_leave, .message = on_told, .arg = listening}};
    subscriber_add(listening->subscriber, &listening->stays, "stays", 5);
    subscriber_add(listening->subscriber, &listening->leaves, "leaves", 6);
    loop_run(meeting->side.loop);
    subscriber_stop(listening->subscriber);
    subscriber_remove(listening->subscriber, &listening->stays);
    subscriber_free(listening->subscriber);
    redis_link_free(link);
}

/* Whether the channel that stays gets the server's message. `give_up_ms`: after so long it has
 * not; 0: the client's own patience. */
static bool is_told_by(struct fake_redis *server, int give_up_ms)
{
    struct listening listening;
    struct meeting meeting = {0};

    fake_redis_start(server);
    fake_redis_client_init(&meeting.side, server);
    if (give_up_ms > 0) {
        struct timers *timers = loop_timers(meeting.side.loop);
        timer_cancel(timers, &meeting.side.give_up);
        timer_arm(timers, &meeting.side.give_up,
                  loop_now_ns(meeting.side.loop) + give_up_ms * CLOCK_NS_PER_MS);
    }
    run_listening(&listening, &meeting);
    fake_redis_client_release(&meeting.side);
    fake_redis_stop(server);
    return listening.is_told;
}

static void confirmation_may_come_when_the_channel_was_left(void **state)
{
    struct fake_redis liar = {.after = "leaves\r\n",
                              .then = "*3\r\n$9\r\nsubscribe\r\n$5\r\nstays\r\n:1\r\n"
                                      "*3\r\n$9\r\nsubscribe\r\n$6\r\nleaves\r\n:2\r\n"
                                      "*3\r\n$11\r\nunsubscribe\r\n$6\r\nleaves\r\n:1\r\n"
                                      "*3\r\n$7\r\nmessage\r\n$5\r\nstays\r\n$1\r\n0\r\n"};

    (void)state;
    assert_true(is_told_by(&liar, 0));
}

static void confirmation_for_nobody_ends_the_connection(void **state)
{
    struct fake_redis liar = {.after = "leaves\r\n",
                              .then = "*3\r\n$9\r\nsubscribe\r\n$5\r\nstays\r\n:1\r\n"
                                      "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:2\r\n"
                                      "*3\r\n$7\r\nmessage\r\n$5\r\nstays\r\n$1\r\n0\r\n"};

    (void)state;
    assert_false(is_told_by(&liar, NO_MESSAGE_MS));
}

/* Of a server that is no node of a cluster. */
static void end_of_a_channel_that_is_no_shards_changes_nothing(void **state)
{
    struct fake_redis liar = {.after = "leaves\r\n",
                              .then = "*3\r\n$9\r\nsubscribe\r\n$5\r\nstays\r\n:1\r\n"
                                      "*3\r\n$12\r\nsunsubscribe\r\n$5\r\nstays\r\n:0\r\n"
                                      "*3\r\n$7\r\nmessage\r\n$5\r\nstays\r\n$1\r\n0\r\n"};

    (void)state;
    assert_true(is_told_by(&liar, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_to_nothing_end_the_connection),
        cmocka_unit_test(messages_of_a_wrong_form_end_the_connection),
        cmocka_unit_test(reply_of_too_many_elements_ends_the_connection),
        cmocka_unit_test(confirmation_may_come_when_the_channel_was_left),
        cmocka_unit_test(confirmation_for_nobody_ends_the_connection),
        cmocka_unit_test(end_of_a_channel_that_is_no_shards_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
