/* storage/redis/guard.c: whatever Redis sends, rlockd stays and connects again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/metrics.h"
#include "storage/redis/link.h"
#include "storage/redis/subscriber.h"

enum { ANSWER_S = 10 };

static const char greeting[] = "+OK\r\n:7\r\n$49\r\n# Server\r\nredis_version:7.0.15\r\n"
                               "run_id:00000001\r\n\r\n";

/* A Redis that greets its one client, waits for `after` from it, and sends `then`. */
struct liar {
    const char *path, *after, *then;
    int listener;
    bool client_left;
};

static bool reads_until(int fd, const char *word)
{
    char text[4096] = "";
    size_t len = 0;
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    while (strstr(text, word) == NULL) {
        if (poll(&readable, 1, ANSWER_S * 1000) <= 0)
            return false;
        ssize_t got = read(fd, text + len, sizeof(text) - 1 - len);
        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
    }
    return true;
}

static void *lie(void *arg)
{
    struct liar *liar = arg;
    int fd = accept(liar->listener, NULL, NULL);
    char rest[256];
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    if (reads_until(fd, "INFO\r\n") && write(fd, greeting, sizeof(greeting) - 1) > 0 &&
        (liar->after == NULL || reads_until(fd, liar->after)) &&
        write(fd, liar->then, strlen(liar->then)) > 0) {
        ssize_t got = 1;
        while (got > 0 && poll(&readable, 1, ANSWER_S * 1000) > 0)
            got = read(fd, rest, sizeof(rest));
        liar->client_left = got <= 0;
    }
    close(fd);
    return NULL;
}

static void liar_start(struct liar *liar, pthread_t *thread)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", liar->path);
    unlink(liar->path);
    liar->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(liar->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(liar->listener, 1), 0);
    assert_int_equal(pthread_create(thread, NULL, lie, liar), 0);
}

struct meeting {
    struct loop *loop;
    struct metrics metrics;
    struct redis_url url;
    bool was_up, was_down;
    struct timer give_up;
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
    loop_stop(meeting->loop);
}

static void on_give_up(void *arg)
{
    struct meeting *meeting = arg;

    loop_stop(meeting->loop);
}

static void meet(struct meeting *meeting, const char *path)
{
    char error[200], url[128];

    *meeting = (struct meeting){.loop = loop_new()};
    assert_int_equal(metrics_init(&meeting->metrics, 1), 0);
    snprintf(url, sizeof(url), "unix://%s", path);
    assert_int_equal(redis_url_parse(&meeting->url, url, error, sizeof(error)), 0);
    meeting->give_up = (struct timer){.fire = on_give_up, .arg = meeting};
    timer_arm(loop_timers(meeting->loop), &meeting->give_up,
              loop_now_ns(meeting->loop) + ANSWER_S * INT64_C(1000000000));
}

static void part(struct meeting *meeting)
{
    timer_cancel(loop_timers(meeting->loop), &meeting->give_up);
    metrics_release(&meeting->metrics);
    loop_free(meeting->loop);
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

/* True when the connection was given up because of what came. */
static bool is_refused(const char *after, const char *then)
{
    char path[64];
    struct subscribing subscribing;
    struct meeting *meeting = &subscribing.meeting;
    pthread_t thread;

    snprintf(path, sizeof(path), "/tmp/rlockd-liar-%d", (int)getpid());
    struct liar liar = {.path = path, .after = after, .then = then};
    liar_start(&liar, &thread);
    meet(meeting, path);
    const struct redis_link_options options = {.url = &meeting->url,
                                               .loop = meeting->loop,
                                               .metrics = &meeting->metrics,
                                               .up = after ? on_up_subscribe : on_up,
                                               .down = on_down,
                                               .arg = &subscribing};
    subscribing.link = redis_link_new(&options);
    redis_link_on_push(subscribing.link, on_no_push, awaits_heart, NULL);
    loop_run(meeting->loop);
    bool is_told = strstr(redis_link_down_reason(subscribing.link),
                          "unexpected or malformed") != NULL;
    redis_link_free(subscribing.link);
    part(meeting);
    pthread_join(thread, NULL);
    close(liar.listener);
    unlink(path);
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
    const struct redis_link_options commands = {.url = &meeting->url,
                                                .loop = meeting->loop,
                                                .metrics = &meeting->metrics,
                                                .up = on_up,
                                                .down = on_down,
                                                .arg = meeting};
    struct redis_link *link = redis_link_new(&commands);

    redis_link_stop(link);
    *listening = (struct listening){
        .loop = meeting->loop,
        .subscriber = subscriber_new(
            &(struct subscriber_options){.url = &meeting->url,
                                         .loop = meeting->loop,
                                         .metrics = &meeting->metrics,
                                         .commands = link,
                                         .heartbeat_channel = "heart"}),
        .stays = {.ready = on_ready_leave, .message = on_told, .arg = listening}};
    subscriber_add(listening->subscriber, &listening->stays, "stays", 5);
    subscriber_add(listening->subscriber, &listening->leaves, "leaves", 6);
    loop_run(meeting->loop);
    subscriber_stop(listening->subscriber);
    subscriber_remove(listening->subscriber, &listening->stays);
    subscriber_free(listening->subscriber);
    redis_link_free(link);
}

static void confirmation_may_come_when_the_channel_was_left(void **state)
{
    char path[64];
    struct listening listening;
    struct meeting meeting;
    pthread_t thread;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/rlockd-liar-%d", (int)getpid());
    struct liar liar = {.path = path,
                        .after = "leaves\r\n",
                        .then = "*3\r\n$9\r\nsubscribe\r\n$5\r\nstays\r\n:1\r\n"
                                "*3\r\n$9\r\nsubscribe\r\n$6\r\nleaves\r\n:2\r\n"
                                "*3\r\n$11\r\nunsubscribe\r\n$6\r\nleaves\r\n:1\r\n"
                                "*3\r\n$7\r\nmessage\r\n$5\r\nstays\r\n$1\r\n0\r\n"};
    liar_start(&liar, &thread);
    meet(&meeting, path);
    run_listening(&listening, &meeting);
    part(&meeting);
    pthread_join(thread, NULL);
    close(liar.listener);
    unlink(path);
    assert_true(listening.is_told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_to_nothing_end_the_connection),
        cmocka_unit_test(messages_of_a_wrong_form_end_the_connection),
        cmocka_unit_test(confirmation_may_come_when_the_channel_was_left),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
