/* A Redis in a thread, which greets its one client, waits for a text from it and sends an
 * answer; and the loop of that client. */
#ifndef RLOCKD_TESTS_UNIT_FAKE_REDIS_H
#define RLOCKD_TESTS_UNIT_FAKE_REDIS_H

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
#include <unistd.h>

#include <cmocka.h>

#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "storage/redis/link.h"

enum { FAKE_REDIS_PATIENCE_MS = 10000 };

/* The replies to CLIENT SETNAME, to CLIENT ID, to `checks` of the connection, and to INFO. */
#define FAKE_REDIS_GREETING(checks)                                                            \
    "+OK\r\n:7\r\n" checks "$49\r\n# Server\r\nredis_version:7.0.15\r\nrun_id:00000001\r\n\r\n"

/* The caller fills in the first members. */
struct fake_redis {
    const char *greeting; /* NULL: without checks */
    int probes;           /* as EVAL and as EVALSHA: are answered before `after` */
    const char *after;    /* what the client sends before `then` is sent; NULL: nothing */
    const char *then;
    int delay_ms;    /* between the two */
    int last_probes; /* are answered after `then` */
    int listener;
    pthread_t thread;
    struct sockaddr_un address;
};

/* The loop of the client, which stops after the patience above, and more that a link needs. */
struct fake_redis_client {
    struct loop *loop;
    struct metrics metrics;
    struct redis_url url;
    struct timer give_up;
};

static bool reads_until(int fd, const char *word)
{
    char text[4096] = "";
    size_t len = 0;
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    while (strstr(text, word) == NULL) {
        if (poll(&readable, 1, FAKE_REDIS_PATIENCE_MS) <= 0)
            return false;
        ssize_t got = read(fd, text + len, sizeof(text) - 1 - len);
        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
    }
    return true;
}

static bool sends(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) > 0;
}

static bool answers_probes(int fd, int count)
{
    for (int i = 0; i < count; i++)
        if (!reads_until(fd, "EVAL\r\n") || !sends(fd, ":1\r\n") ||
            !reads_until(fd, "EVALSHA\r\n") || !sends(fd, ":1\r\n"))
            return false;
    return true;
}

static void *serve(void *arg)
{
    const struct fake_redis *redis = arg;
    int fd = accept(redis->listener, NULL, NULL);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char rest[256];

    if (reads_until(fd, "INFO\r\n") &&
        sends(fd, redis->greeting != NULL ? redis->greeting : FAKE_REDIS_GREETING("")) &&
        answers_probes(fd, redis->probes) &&
        (redis->after == NULL || reads_until(fd, redis->after)) &&
        poll(NULL, 0, redis->delay_ms) == 0 && sends(fd, redis->then) &&
        answers_probes(fd, redis->last_probes))
        while (poll(&readable, 1, FAKE_REDIS_PATIENCE_MS) > 0 &&
               read(fd, rest, sizeof(rest)) > 0)
            ;
    close(fd);
    return NULL;
}

static void fake_redis_start(struct fake_redis *redis)
{
    redis->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(redis->address.sun_path, sizeof(redis->address.sun_path), "/tmp/rlockd-fake-%d",
             (int)getpid());
    unlink(redis->address.sun_path);
    redis->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(redis->listener, (struct sockaddr *)&redis->address, sizeof(redis->address)), 0);
    assert_int_equal(listen(redis->listener, 1), 0);
    assert_int_equal(pthread_create(&redis->thread, NULL, serve, redis), 0);
}

/* Waits until the client has closed its connection. */
static void fake_redis_stop(struct fake_redis *redis)
{
    pthread_join(redis->thread, NULL);
    close(redis->listener);
    unlink(redis->address.sun_path);
}

static void on_give_up(void *arg)
{
    loop_stop(arg);
}

static void fake_redis_client_init(struct fake_redis_client *client,
                                   const struct fake_redis *redis)
{
    char error[200], url[160];

    *client = (struct fake_redis_client){.loop = loop_new()};
    snprintf(url, sizeof(url), "unix://%s", redis->address.sun_path);
    assert_int_equal(redis_url_parse(&client->url, url, error, sizeof(error)), 0);
    assert_int_equal(metrics_init(&client->metrics, 1), 0);
    client->give_up = (struct timer){.fire = on_give_up, .arg = client->loop};
    timer_arm(loop_timers(client->loop), &client->give_up,
              loop_now_ns(client->loop) + FAKE_REDIS_PATIENCE_MS * CLOCK_NS_PER_MS);
}

static void fake_redis_client_release(struct fake_redis_client *client)
{
    timer_cancel(loop_timers(client->loop), &client->give_up);
    loop_free(client->loop);
    metrics_release(&client->metrics);
}

#endif
