/* storage/redis/link_sync.c: held replies whose connection ends when nothing else is under way,
 * with a caller that asks again at once. */
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

enum { PATIENCE_MS = 10000 };

/* To CLIENT SETNAME, CLIENT ID, the WAIT of the checks and INFO. */
static const char greeting[] = "+OK\r\n:7\r\n:0\r\n$49\r\n# Server\r\nredis_version:7.0.15\r\n"
                               "run_id:00000001\r\n\r\n";
/* To the first script, its WAIT and the second script; then a reply that nobody asked for. */
static const char last_words[] = "+a\r\n:1\r\n+b\r\n:2\r\n";

/* ---- a Redis with one client ---- */

struct server {
    int listener;
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
    const struct server *server = arg;
    int fd = accept(server->listener, NULL, NULL);
    char rest[64];

    if (reads_until(fd, "INFO\r\n") && write(fd, greeting, sizeof(greeting) - 1) > 0 &&
        reads_until(fd, "second\r\n") &&
        send(fd, last_words, sizeof(last_words) - 1, MSG_NOSIGNAL) > 0)
        while (read(fd, rest, sizeof(rest)) > 0)
            ;
    close(fd);
    return NULL;
}

/* ---- the caller ---- */

struct client {
    struct loop *loop;
    struct redis_link *link;
    struct loop_hook turn;
    struct timer give_up;
    bool is_up, has_second;
    int done, unknown, refused;
};

static void run(struct client *client, const char *key);

static void on_done(void *arg, const struct redis_result *result)
{
    struct client *client = arg;

    client->done += result->outcome == REDIS_DONE;
    if (result->outcome == REDIS_UNKNOWN) {
        client->unknown++;
        run(client, "again");
    }
    if (result->outcome == REDIS_REFUSED) {
        client->refused++;
        loop_stop(client->loop);
    }
}

static void run(struct client *client, const char *key)
{
    struct script_args args;

    args_init(&args);
    args_key(&args, 0, key, strlen(key));
    const struct script_call call = script_call_make(SCRIPT_ACQUIRE, &args);
    redis_link_script(client->link, &call, on_done, client);
}

/* At the end of a turn, when the first script and its WAIT have been sent. */
static void on_turn(void *arg)
{
    struct client *client = arg;

    if (!client->is_up || client->has_second)
        return;
    client->has_second = true;
    run(client, "second");
    loop_again(client->loop);
}

static void on_up(void *arg)
{
    struct client *client = arg;

    client->is_up = true;
    run(client, "first");
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

static void test_ask_again_when_held_replies_are_lost(void **state)
{
    struct server server = {.address.sun_family = AF_UNIX};
    struct client client = {.loop = loop_new()};
    struct metrics metrics;
    struct redis_url url;
    char error[200], text[160];
    pthread_t thread;

    (void)state;
    snprintf(server.address.sun_path, sizeof(server.address.sun_path), "/tmp/rlockd-held-%d",
             (int)getpid());
    unlink(server.address.sun_path);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(server.listener, (struct sockaddr *)&server.address, sizeof(server.address)), 0);
    assert_int_equal(listen(server.listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
    snprintf(text, sizeof(text), "unix://%s", server.address.sun_path);
    assert_int_equal(redis_url_parse(&url, text, error, sizeof(error)), 0);
    assert_int_equal(metrics_init(&metrics, 1), 0);
    client.turn = (struct loop_hook){.run = on_turn, .arg = &client};
    client.give_up = (struct timer){.fire = on_give_up, .arg = &client};
    timer_arm(loop_timers(client.loop), &client.give_up,
              loop_now_ns(client.loop) + PATIENCE_MS * CLOCK_NS_PER_MS);
    const struct redis_link_options options = {.url = &url,
                                               .loop = client.loop,
                                               .metrics = &metrics,
                                               .sync = {.replicas = 1, .timeout_ms = 100},
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = &client};
    client.link = redis_link_new(&options);
    loop_hook_add(client.loop, &client.turn); /* behind the connection's */
    loop_run(client.loop);
    assert_int_equal(client.done, 1);
    assert_int_equal(client.unknown, 1);
    assert_int_equal(client.refused, 1);
    redis_link_free(client.link);
    timer_cancel(loop_timers(client.loop), &client.give_up);
    loop_free(client.loop);
    metrics_release(&metrics);
    pthread_join(thread, NULL);
    close(server.listener);
    unlink(server.address.sun_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ask_again_when_held_replies_are_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
