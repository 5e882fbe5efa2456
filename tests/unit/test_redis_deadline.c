/* storage/redis/link.c: the deadline of a command, when it is the loop that is late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fake_redis.h"

enum { LATE_MS = REDIS_DEADLINE_MS + 200, LONG_REPLY = 100 * 1024 };

static void nap_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

/* ---- a loop that is late once, when a command has been queued ---- */

struct client {
    struct fake_redis_client side;
    struct redis_link *link;
    struct loop_hook late;
    bool is_queued, was_late, is_answered;
    enum redis_outcome outcome;
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
    loop_stop(client->side.loop);
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

/* `is_late_first`: before the command is written; otherwise after that. */
static enum redis_outcome ping_late(struct fake_redis *redis, bool is_late_first)
{
    struct client client = {0};

    fake_redis_start(redis);
    fake_redis_client_init(&client.side, redis);
    client.late = (struct loop_hook){.run = on_late, .arg = &client};
    const struct redis_link_options options = {.url = &client.side.url,
                                               .loop = client.side.loop,
                                               .metrics = &client.side.metrics,
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = &client};
    if (is_late_first)
        loop_hook_add(client.side.loop, &client.late);
    client.link = redis_link_new(&options);
    if (!is_late_first)
        loop_hook_add(client.side.loop, &client.late);
    loop_run(client.side.loop);
    assert_true(client.was_late);
    assert_true(client.is_answered);
    redis_link_free(client.link);
    fake_redis_client_release(&client.side);
    fake_redis_stop(redis);
    return client.outcome;
}

/* A command that waits in this process is not late yet: Redis has not got it. */
static void test_time_counts_from_the_write(void **state)
{
    struct fake_redis redis = {.after = "PING\r\n", .then = "+PONG\r\n", .delay_ms = 100};

    (void)state;
    assert_int_equal(ping_late(&redis, true), REDIS_DONE);
}

/* A reply that takes several reads has come in time, and was not read in time. */
static void test_reply_that_is_there(void **state)
{
    static char reply[LONG_REPLY + 64];
    int len = snprintf(reply, sizeof(reply), "$%d\r\n", LONG_REPLY);
    struct fake_redis redis = {.after = "PING\r\n", .then = reply};

    (void)state;
    memset(reply + len, 'x', LONG_REPLY);
    memcpy(reply + len + LONG_REPLY, "\r\n", 3);
    assert_int_equal(ping_late(&redis, false), REDIS_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_counts_from_the_write),
        cmocka_unit_test(test_reply_that_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
