/* storage/redis/link.c: the deadline of a command, when it is the loop that is late. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "storage/redis/link.h"

enum { PATIENCE_MS = 10000, LATE_MS = REDIS_DEADLINE_MS + 200, LONG_REPLY = 100 * 1024 };

static const char greeting[] = "+OK\r\n:7\r\n$49\r\n# Server\r\nredis_version:7.0.15\r\n"
                               "run_id:00000001\r\n\r\n";

static void nap_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

/* ---- a Redis with one client ---- */

struct server {
    int listener;
    const char *reply; /* to PING */
    int delay_ms;      /* before that */
    struct sockaddr_un address;
};

static bool reads_until(int fd, const char *word)
{
    char text[4096] = "";
    size_t len = 0;
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    while (strstr(text, word) == NULL) {
        if (poll(&readable, 1, PATIENCE_MS) <= 0)
            return false;
        ssize_t got = read(fd, text + len, sizeof(text) - 1 - len);
        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
    }
    return true;
}

static void *serve(void *arg)
{
    struct server *server = arg;
    int fd = accept(server->listener, NULL, NULL);
    char rest[64];

    if (reads_until(fd, "INFO\r\n") && write(fd, greeting, sizeof(greeting) - 1) > 0 &&
        reads_until(fd, "PING\r\n")) {
        nap_ms(server->delay_ms);
        if (send(fd, server->reply, strlen(server->reply), MSG_NOSIGNAL) > 0)
            while (read(fd, rest, sizeof(rest)) > 0)
                ;
    }
    close(fd);
    return NULL;
}

static void server_start(struct server *server, pthread_t *thread)
{
    server->address.sun_family = AF_UNIX;
    snprintf(server->address.sun_path, sizeof(server->address.sun_path),
             "/tmp/rlockd-deadline-%d", (int)getpid());
    unlink(server->address.sun_path);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(server->listener, (struct sockaddr *)&server->address, sizeof(server->address)),
        0);
    assert_int_equal(listen(server->listener, 1), 0);
    assert_int_equal(pthread_create(thread, NULL, serve, server), 0);
}

/* ---- a loop that is late once, when a command has been queued ---- */

struct client {
    struct loop *loop;
    struct metrics metrics;
    struct redis_url url;
    struct redis_link *link;
    struct loop_hook late;
    bool is_queued, was_late, is_answered;
    enum redis_outcome outcome;
    struct timer give_up;
};

static void on_late(void *arg)
{
    struct client *client = arg;

    if (!client->is_queued || client->was_late)
        return;
    client->was_late = true;
    nap_ms(LATE_MS);
}

static void on_pinged(void *arg, const struct redis_result *result)
{
    struct client *client = arg;

    client->is_answered = true;
    client->outcome = result->outcome;
    loop_stop(client->loop);
}

static void on_up(void *arg)
{
    static const char *const args[] = {"PING"};
    static const size_t lens[] = {4};
    static const struct redis_command ping = {.argc = 1, .argv = args, .lens = lens};
    struct client *client = arg;

    if (!client->is_queued)
        redis_link_command(client->link, &ping, on_pinged, client);
    client->is_queued = true;
}

static void on_down(void *arg)
{
    (void)arg;
}

static void on_give_up(void *arg)
{
    struct client *client = arg;

    loop_stop(client->loop);
}

/* `is_late_first`: before the command is written; otherwise after that. */
static enum redis_outcome ping_late(struct server *server, bool is_late_first)
{
    struct client client = {.loop = loop_new()};
    char error[200], url[160];
    pthread_t thread;

    server_start(server, &thread);
    snprintf(url, sizeof(url), "unix://%s", server->address.sun_path);
    assert_int_equal(redis_url_parse(&client.url, url, error, sizeof(error)), 0);
    assert_int_equal(metrics_init(&client.metrics, 1), 0);
    client.late = (struct loop_hook){.run = on_late, .arg = &client};
    client.give_up = (struct timer){.fire = on_give_up, .arg = &client};
    timer_arm(loop_timers(client.loop), &client.give_up,
              loop_now_ns(client.loop) + PATIENCE_MS * CLOCK_NS_PER_MS);
    const struct redis_link_options options = {.url = &client.url,
                                               .loop = client.loop,
                                               .metrics = &client.metrics,
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = &client};
    if (is_late_first)
        loop_hook_add(client.loop, &client.late);
    client.link = redis_link_new(&options);
    if (!is_late_first)
        loop_hook_add(client.loop, &client.late);
    loop_run(client.loop);
    assert_true(client.was_late);
    assert_true(client.is_answered);
    redis_link_free(client.link);
    timer_cancel(loop_timers(client.loop), &client.give_up);
    loop_free(client.loop);
    metrics_release(&client.metrics);
    pthread_join(thread, NULL);
    close(server->listener);
    unlink(server->address.sun_path);
    return client.outcome;
}

/* A command that waits in this process is not late yet: Redis has not got it. */
static void test_time_counts_from_the_write(void **state)
{
    struct server server = {.reply = "+PONG\r\n", .delay_ms = 100};

    (void)state;
    assert_int_equal(ping_late(&server, true), REDIS_DONE);
}

/* A reply that takes several reads has come in time, and was not read in time. */
static void test_reply_that_is_there(void **state)
{
    static char reply[LONG_REPLY + 64];
    int len = snprintf(reply, sizeof(reply), "$%d\r\n", LONG_REPLY);
    struct server server = {.reply = reply};

    (void)state;
    memset(reply + len, 'x', LONG_REPLY);
    memcpy(reply + len + LONG_REPLY, "\r\n", 3);
    assert_int_equal(ping_late(&server, false), REDIS_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_counts_from_the_write),
        cmocka_unit_test(test_reply_that_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
